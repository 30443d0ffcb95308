"""Files of other agents, read within bounds; what cannot be read becomes one sentence.

Links are followed, as users keep such files in another folder; but nothing outside of a project's
folder is read for a project, and nothing outside of a skill's folder is copied with the skill.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from kogniterm.addons.import_agents.foreign.found import Place, SkillFile
from kogniterm.errors import SettingsError, why
from kogniterm.host.safe_files import read_regular, resolve_path
from kogniterm.host.walk import WalkLimitError, WalkLimits, walk_folder
from kogniterm.runtime.trust import project_places
from kogniterm.settings.user_files import decode, json_values, toml_values
from kogniterm.storage.folders import seen_from
from kogniterm.text.visible import render_words
from kogniterm.types import Phrase

LARGEST_SETTINGS = 32 * 1024 * 1024
"""Bytes of a settings file; `~/.claude.json` also holds the history of every project."""
LARGEST_TEXT = 64 * 1024
"""Bytes of instructions, a command or a sub-agent, as KogniTerm reads them."""
LARGEST_SKILL = 8 * 1024 * 1024
LARGEST_SKILLS = 512 * 1024 * 1024
"""Bytes of all skills of one agent, which are held in memory until they are written."""
MOST_FILES = 500
"""Names of one folder that are looked at."""
_DEPTH = 6


class SourceFiles:
    """The files of one agent; collects which were read, and sentences about the others."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.read: list[str] = []
        self.problems: list[Phrase] = []
        self._of_skills = 0
        """Bytes of the skills that were read."""

    def show_path(self, path: Path) -> str:
        """Return a path as the user names it: from the project, or from `~`."""
        if self._place.project is not None:
            name = seen_from(str(self._place.project), str(path))
            if name != str(path):
                return render_words(name)
        name = seen_from(str(self._place.home), str(path))
        return render_words(name if name == str(path) else f"~/{name}")

    def text(self, path: Path, most: int = LARGEST_TEXT) -> str | None:
        """Return the text of a file; None without one, or with a sentence about it."""
        text = self._plain(path, most)
        if text is not None:
            self._note(path)
        return text

    def _plain(self, path: Path, most: int) -> str | None:
        data = self._data(path, most)
        if data is None:
            return None
        try:
            return decode(path, data)
        except SettingsError:
            self._refuse_file(path, Phrase("it is not UTF-8 text"))
            return None

    def settings(self, path: Path) -> Mapping[str, Any]:
        """Return the settings in a JSON or TOML file; none where they cannot be read."""
        text = self.text(path, LARGEST_SETTINGS)
        if text is None or not text.strip():
            return {}
        name = self.show_path(path)
        try:
            is_toml = path.suffix == ".toml"
            found = toml_values(name, text) if is_toml else json_values(name, text, comments=True)
        except SettingsError as error:
            self.problems.append(error.text)
            return {}
        return cast("Mapping[str, Any]", found.data)

    def texts(self, folder: Path, ending: str, deep: int = _DEPTH) -> Iterator[tuple[str, str]]:
        """Yield the files below a folder with this ending: their names without it, their texts."""
        for name, path in self._below(folder, deep):
            if name.endswith(ending) and (text := self._plain(path, LARGEST_TEXT)) is not None:
                self._note(folder)
                yield name.removesuffix(ending), text

    def skills(self, folder: Path) -> Iterator[tuple[str, tuple[SkillFile, ...]]]:
        """Yield the skills in a folder with their files: each folder in it that describes one."""
        for name in self._names(folder):
            path = folder / name
            if name.startswith(".") or not self.exists(path / project_places.SKILL_FILE):
                continue
            files = self._skill(path)
            if files:
                self._note(folder)
                yield name, files

    def folders(self, folder: Path) -> list[str]:
        """Return the names of the folders in a folder, without those that begin with a dot."""
        names = (name for name in self._names(folder) if not name.startswith("."))
        return [name for name in names if (folder / name).is_dir()]

    def exists(self, path: Path) -> bool:
        """Return whether there is a file, without reading it."""
        try:
            return path.is_file()
        except OSError:
            return False

    def _skill(self, folder: Path) -> tuple[SkillFile, ...]:
        """Return all files of a skill; none, with a sentence, where it is too large."""
        try:
            root = resolve_path(folder)
        except (OSError, ValueError):
            return ()
        if not self._may_read(root):
            self._refuse_file(folder, Phrase("it lies outside of the folder"))
            return ()
        files: list[SkillFile] = []
        size = 0
        for name, path in self._below(folder, _DEPTH):
            try:
                inside = resolve_path(path).is_relative_to(root)
            except (OSError, ValueError):
                inside = False
            if not inside:
                self._refuse_file(path, Phrase("it leads out of the skill"))
                continue
            data = self._data(path, LARGEST_SKILL)
            if data is None:
                continue
            size += len(data)
            if size > LARGEST_SKILL or len(files) >= project_places.MOST_SKILL_FILES:
                self._refuse_file(folder, Phrase("the skill is too large"))
                return ()
            if self._of_skills + size > LARGEST_SKILLS:
                self._refuse_file(folder, Phrase("the skills are too large together"))
                return ()
            files.append(SkillFile(name, data, os.access(path, os.X_OK)))
        self._of_skills += size
        return tuple(files)

    def _names(self, folder: Path) -> list[str]:
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208 - names only
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._refuse_file(folder, why(error))
            return []
        if len(names) > MOST_FILES:
            self._refuse_file(folder / names[MOST_FILES], Phrase("there are too many files"))
        return names[:MOST_FILES]

    def _below(self, folder: Path, deep: int) -> Iterator[tuple[str, Path]]:
        """Yield the files below a folder by name from it; folders that are links are left out."""

        def unseen(name: str, error: OSError) -> None:
            if not isinstance(error, WalkLimitError):
                if not isinstance(error, FileNotFoundError | NotADirectoryError):
                    self._refuse_file(folder / name, why(error))
            elif error.limit == "entries":
                self._refuse_file(folder / name, Phrase("there are too many files"))

        try:
            top = resolve_path(folder)
        except (OSError, ValueError):
            return
        limits = WalkLimits(10 * MOST_FILES, deep - 1)
        found = walk_folder(top, unseen, limits, enters=lambda name: name[0] != ".")
        names = sorted((one.path for one in found), key=lambda name: name.split("/"))
        if len(names) > MOST_FILES:
            self._refuse_file(folder / names[MOST_FILES], Phrase("there are too many files"))
        for name in names[:MOST_FILES]:
            path = folder / name
            try:
                is_folder = stat.S_ISDIR(path.stat().st_mode)
            except OSError:
                continue
            if not is_folder:
                yield name, path

    def _data(self, path: Path, most: int) -> bytes | None:
        """Return the bytes of a file, never of a pipe or a device, as `text` does."""
        try:
            target = resolve_path(path)
            if not self._may_read(target):
                self._refuse_file(path, Phrase("it leads out of the folder"))
                return None
            data = read_regular(target, most + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._refuse_file(path, why(error))
            return None
        except ValueError:
            return None
        if len(data) > most:
            self._refuse_file(path, Phrase("it is too large"))
            return None
        return data

    def _may_read(self, target: Path) -> bool:
        project = self._place.project
        return project is None or target.is_relative_to(resolve_path(project))

    def _note(self, path: Path) -> None:
        if (name := self.show_path(path)) not in self.read:
            self.read.append(name)

    def _refuse_file(self, path: Path, reason: Phrase) -> None:
        told = Phrase("{file} was not read: {why}.", {"file": self.show_path(path), "why": reason})
        if told not in self.problems:
            self.problems.append(told)
