"""Import what another terminal agent has set up: plan it, show it, write it.

A plan is made without writing anything. It says for every entry whether it is new, already there,
or another one of that name, and holds the exact bytes to write, so that what was shown is what is
written. Nothing is overwritten unless the user asks for it; instructions and proposed rules stand
between two marks that name their source, and only what is between them changes later.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kogniterm.addons.import_agents.foreign.found import (
    ForeignHook,
    Found,
    Kind,
    SkillFile,
)
from kogniterm.addons.import_agents.foreign.rule_proposal import proposed_rules
from kogniterm.addons.import_agents.foreign.server_secrets import ServerSecret, extract_secrets
from kogniterm.addons.import_agents.foreign.source_files import LARGEST_TEXT
from kogniterm.errors import KognitermError, SettingsError, UnusableValueError, why
from kogniterm.host.safe_files import read_regular, resolve_path, write_regular
from kogniterm.host.walk import walk_folder
from kogniterm.paths import ExtensionPaths
from kogniterm.runtime.extensions.hooks.hook_files import read_hooks
from kogniterm.settings.user_files import decode, entries_data, entries_in
from kogniterm.storage.folders import private_folder, seen_from, write_private
from kogniterm.text.file_text import unified_diff
from kogniterm.text.redact import Redactor
from kogniterm.types import Phrase

State = Literal["new", "same", "update", "replace", "different"]
WRITTEN: frozenset[State] = frozenset({"new", "update", "replace"})
_TEMPORARY = ".kogniterm-import-"
_LARGEST_FILE = 4 * 1024 * 1024
_MOST_SHOWN = 1_000_000
"""Characters after which files of skills are shown by their hash, so that a plan takes seconds."""


class Target(NamedTuple):
    """The files that an import adds to: the user's, or those of a project."""

    servers: Path
    hooks: Path
    skills: Path
    commands: Path
    agents: Path
    instructions: Path | None = None
    rules: Path | None = None
    project: Path | None = None


def user_target(paths: ExtensionPaths, policy: Path) -> Target:
    """Return the user's own files."""
    return Target(
        paths.mcp_servers, paths.hooks, paths.skills, paths.commands, paths.agents,
        paths.instructions, policy,
    )  # fmt: skip


def project_target(folder: Path) -> Target:
    """Return the files of a project, which have an effect once the folder is trusted."""
    own = folder / ".kogniterm"
    return Target(
        folder / ".mcp.json", own / "hooks.json", folder / ".agents" / "skills",
        own / "commands", own / "agents", project=folder,
    )  # fmt: skip


class Change(NamedTuple):
    """One entry of a plan; `difference` is a unified diff without secrets."""

    kind: Kind
    name: str
    state: State
    file: Path
    difference: str = ""

    @property
    def written(self) -> bool:
        """Return whether the import writes it."""
        return self.state in WRITTEN


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """All that an import would do.

    `secrets` are those of the servers that it adds; `literal` says whether they are copied.
    """

    changes: tuple[Change, ...] = ()
    files: tuple[FileToWrite, ...] = ()
    skills: tuple[SkillToWrite, ...] = ()
    secrets: tuple[ServerSecret, ...] = ()
    literal: bool = False
    problems: tuple[Phrase, ...] = ()

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not self.files and not self.skills


class FileToWrite(NamedTuple):
    """A file with the bytes it gets, and those it had when the plan was made."""

    path: Path
    data: bytes
    before: bytes | None


class SkillToWrite(NamedTuple):
    """The folder of a skill, with its files, and those it had when the plan was made."""

    path: Path
    files: tuple[SkillFile, ...]
    before: Mapping[str, tuple[bytes, bool]] | None


def plan_import(
    found: Found,
    target: Target,
    environ: Mapping[str, str],
    *,
    only: Collection[Kind] = (),
    replace: bool = False,
    literal: bool = False,
) -> ImportPlan:
    """Return what an import would do; writes nothing.

    With `literal`, the secrets of servers are copied instead of referred to by a variable.
    """
    planner = _Planner(found, target, environ, replace=replace, literal=literal)
    parts: Mapping[Kind, Callable[[], None]] = {
        "mcp": planner.servers,
        "hooks": planner.hooks,
        "skills": planner.skills,
        "commands": planner.commands,
        "agents": planner.agents,
        "instructions": planner.instructions,
        "rules": planner.rules,
    }
    for kind, plan in parts.items():
        if not only or kind in only:
            plan()
    return planner.plan()


def carry_out(plan: ImportPlan, target: Target) -> None:
    """Write what the plan holds, each file or skill whole or not at all.

    What is written stays when a later part fails; the same import can be run again. Raises
    `KognitermError`.
    """
    # A killed import may have left these.
    with suppress(OSError):
        for path in resolve_path(target.skills).glob(f"{_TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)
    for skill in plan.skills:
        with _Written(skill.path):
            if _skill_files(skill.path) != skill.before:
                raise _changed_error(skill.path)
            _write_skill(skill, target)
    for file in plan.files:
        with _Written(file.path):
            if _bytes_of(file.path) != file.before:
                raise _changed_error(file.path)
            if target.project is not None:
                write_regular(_inside(file.path, target.project), file.data)
            else:
                write_private(file.path, file.data, durable=True)


def _changed_error(path: Path) -> KognitermError:
    return KognitermError("{file} has changed in the meantime; run the import again.", file=path)


class _Written:
    """Maps the failures of writing one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, UnusableValueError):
            raise KognitermError(
                "{file} cannot be written: {why}.", file=self._path, why=error.text
            ) from error
        if isinstance(error, OSError):
            raise KognitermError(
                "{file} cannot be written: {why}.", file=self._path, why=why(error)
            ) from error


class _Json:
    """A JSON file that gets new entries below one key."""

    def __init__(self, path: Path, key: str, before: bytes | None, whole: dict[str, Any]) -> None:
        self.path = path
        self.key = key
        self.before = before
        self.whole = whole
        self.changed = False

    @property
    def entries(self) -> dict[str, Any]:
        section = self.whole.setdefault(self.key, {})
        assert isinstance(section, dict)
        return section

    def file(self) -> FileToWrite:
        return FileToWrite(self.path, entries_data(self.whole), self.before)


class _Planner:
    """Makes the plan, kind by kind."""

    def __init__(
        self, found: Found, target: Target, environ: Mapping[str, str], replace: bool, literal: bool
    ) -> None:
        self.found = found
        self.target = target
        self.environ = environ
        self.replace = replace
        self.literal = literal
        self.redactor = Redactor()
        self.changes: list[Change] = []
        self.files: list[FileToWrite] = []
        self.folders: list[SkillToWrite] = []
        self.secrets: list[ServerSecret] = []
        self.problems: list[Phrase] = []
        self.shown = 0
        """Characters that were compared so far."""
        # The same secret may stand in a hook or a skill too.
        _servers, secrets = extract_secrets(found.servers, environ)
        self.redactor.know(one.value for one in secrets)

    def plan(self) -> ImportPlan:
        return ImportPlan(
            tuple(self.changes), tuple(self.files), tuple(self.folders), tuple(self.secrets),
            self.literal, tuple(self.problems),
        )  # fmt: skip

    def servers(self) -> None:
        file = self._json(self.target.servers, "mcpServers", bool(self.found.servers))
        if file is None:
            return
        with_references, secrets = extract_secrets(self.found.servers, self.environ)
        there = {name: one for name, one in file.entries.items() if isinstance(one, dict)}
        shown, others = extract_secrets(there, self.environ)
        self.redactor.know(one.value for one in others)
        for name, literal in self.found.servers.items():
            known = file.entries.get(name)
            own = _own_keys(known)
            wanted = {**with_references[name], **own}
            same = known in (wanted, {**literal, **own}) or shown.get(name) == wanted
            state = self._state(exists=known is not None, same=same)
            before = _pretty({name: shown[name]}) if name in shown else ""
            self._add("mcp", name, state, file.path, before, _pretty({name: wanted}))
            if state in WRITTEN:
                file.entries[name] = {**literal, **own} if self.literal else wanted
                file.changed = True
                self.secrets += [one for one in secrets if one.server == name]
        self._finish(file)

    def hooks(self) -> None:
        file = self._json(self.target.hooks, "hooks", bool(self.found.hooks))
        if file is None:
            return
        for hook in self.found.hooks:
            groups = file.entries.setdefault(hook.event, [])
            known = _known_hook(groups, hook)
            wanted = {**hook.entry, **_own_keys(known)}
            state = self._state(exists=known is not None, same=known == wanted)
            before = _hook_text(hook, known) if known is not None else ""
            name = f"{hook.event} {hook.matcher}".strip()
            self._add("hooks", name, state, file.path, before, _hook_text(hook, wanted))
            if state == "new" and isinstance(groups, list):
                matcher = {"matcher": hook.matcher} if hook.matcher else {}
                groups.append({**matcher, "hooks": [dict(hook.entry)]})
                file.changed = True
            elif state == "replace" and known is not None:
                known.clear()
                known.update(wanted)
                file.changed = True
        if file.changed and self._are_hooks(file):
            self._finish(file)

    def _are_hooks(self, file: _Json) -> bool:
        """Return whether all hooks of a file can be used: one mistake makes it unusable whole."""
        try:
            read_hooks(_text(file.file().data), file.path.name, own=self.target.project is None)
        except SettingsError as error:
            self._unusable(file.path, error.text)
            self.changes = [one for one in self.changes if one.kind != "hooks"]
            return False
        return True

    def skills(self) -> None:
        for name, files in self.found.skills.items():
            path = self.target.skills / name
            known = _skill_files(path)
            state = self._state(exists=known is not None, same=known == _by_name(files))
            difference = ""
            if state != "same":
                difference = self._skill_difference(path, _by_name(files), known or {})
            self.changes.append(Change("skills", name, state, path, difference))
            if state in WRITTEN:
                self.folders.append(SkillToWrite(path, files, known))

    def commands(self) -> None:
        self._texts("commands", self.found.commands, self.target.commands)

    def agents(self) -> None:
        self._texts("agents", self.found.agents, self.target.agents)

    def instructions(self) -> None:
        path = self.target.instructions
        if path is None or not self.found.instructions:
            return
        marks = ("<!-- ", " -->")
        self._blocks("instructions", path, self.found.instructions, marks, LARGEST_TEXT)

    def rules(self) -> None:
        path = self.target.rules
        if path is None or not self.found.rules:
            return
        text = "\n".join(proposed_rules(self.found.rules))
        self._blocks("rules", path, {self.found.sources[0]: text}, ("# ", ""), _LARGEST_FILE)

    def _texts(self, kind: Kind, texts: Mapping[str, str], folder: Path) -> None:
        for name, text in texts.items():
            path = folder / name
            known = self._read(path)
            if known is False:
                continue
            data = text.encode("utf-8", "replace")
            state = self._state(exists=known is not None, same=known == data)
            self._add(kind, name, state, path, _text(known), text)
            if state in WRITTEN:
                self.files.append(FileToWrite(path, data, known))

    def _blocks(
        self, kind: Kind, path: Path, texts: Mapping[str, str], marks: tuple[str, str], most: int
    ) -> None:
        """Put each text between two marks of its own at the end of a file, or in their place."""
        known = self._read(path)
        if known is False:
            return
        try:
            before = whole = (known or b"").decode()
        except UnicodeDecodeError as error:
            self._unusable(path, why(error))
            return
        for source, text in texts.items():
            block = _Block(source, marks)
            inside = block.inside(whole)
            wanted = block.clean_text(text)
            state: State = "new" if inside is None else "same" if inside == wanted else "update"
            changed = block.put(whole, wanted)
            if state != "same" and len(changed.encode("utf-8", "replace")) > most:
                self.problems.append(
                    Phrase("{file} would become too large with {source}.",
                           {"file": path, "source": source})
                )  # fmt: skip
                continue
            self._add(kind, source, state, path, inside or "", wanted)
            whole = changed if state != "same" else whole
        if whole != before:
            self.files.append(FileToWrite(path, whole.encode("utf-8", "replace"), known))

    def _state(self, *, exists: bool, same: bool) -> State:
        if not exists:
            return "new"
        return "same" if same else "replace" if self.replace else "different"

    def _add(
        self, kind: Kind, name: str, state: State, path: Path, before: str, after: str
    ) -> None:
        shown = "" if state == "same" else self._difference(path, before, after)
        self.changes.append(Change(kind, name, state, path, shown))

    def _difference(self, path: Path, before: str, after: str) -> str:
        old, new = map(self.redactor.redact, (before, after))
        self.shown += len(before) + len(after)
        return unified_diff(seen_from_home(path, self.environ), old or None, new)

    def _skill_difference(
        self,
        path: Path,
        new: Mapping[str, tuple[bytes, bool]],
        known: Mapping[str, tuple[bytes, bool]],
    ) -> str:
        parts = []
        for name in dict.fromkeys((*new, *known)):
            before, after = known.get(name), new.get(name)
            if before != after:
                whole = self.shown < _MOST_SHOWN
                old, now = (_describe_file(one, whole=whole) for one in (before, after))
                parts.append(self._difference(path / name, old, now))
        return "\n".join(parts)

    def _json(self, path: Path, key: str, wanted: bool) -> _Json | None:
        """Return a JSON file to add to; None, with a sentence, for one that cannot be used."""
        known = self._read(path) if wanted else False
        if known is False:
            return None
        try:
            return _Json(path, key, known, entries_in(path, decode(path, known or b""), key))
        except SettingsError as error:
            self.problems.append(error.text)
            return None

    def _finish(self, file: _Json) -> None:
        if file.changed:
            self.files.append(file.file())

    def _read(self, path: Path) -> bytes | Literal[False] | None:
        """Return the bytes of a file, None without one, False where it cannot be used."""
        try:
            if self.target.project is not None:
                _inside(path, self.target.project)
            return _bytes_of(path)
        except OSError as error:
            self._unusable(path, why(error))
        except UnusableValueError as error:
            self._unusable(path, error.text)
        return False

    def _unusable(self, path: Path, reason: Phrase) -> None:
        self.problems.append(
            Phrase("Nothing can be added to {file}: {why}.", {"file": path, "why": reason})
        )


@dataclass(frozen=True, slots=True)
class _Block:
    """A part of a file between two marks that name its source."""

    source: str
    marks: tuple[str, str]

    @property
    def first(self) -> str:
        """The line before the part."""
        return f"{self.marks[0]}kogniterm import: {self.source}{self.marks[1]}"

    @property
    def last(self) -> str:
        """The line after it."""
        return f"{self.marks[0]}end of kogniterm import: {self.source}{self.marks[1]}"

    def clean_text(self, text: str) -> str:
        """Return a text without lines that could be taken for a mark."""
        lines = text.replace("\r\n", "\n").strip("\n").split("\n")
        return "\n".join(line for line in lines if "kogniterm import: " not in line)

    def inside(self, whole: str) -> str | None:
        """Return the part as it is now; None without one."""
        bounds = self._bounds(whole)
        return None if bounds is None else "\n".join(whole.split("\n")[bounds[0] + 1 : bounds[1]])

    def put(self, whole: str, text: str) -> str:
        """Return the file with the part replaced, or added at the end."""
        part = [self.first, *text.split("\n"), self.last]
        bounds = self._bounds(whole)
        if bounds is None:
            start = f"{whole.rstrip()}\n\n" if whole.strip() else ""
            return start + "\n".join(part) + "\n"
        lines = whole.split("\n")
        return "\n".join([*lines[: bounds[0]], *part, *lines[bounds[1] + 1 :]])

    def _bounds(self, whole: str) -> tuple[int, int] | None:
        lines = whole.split("\n")
        if self.first not in lines:
            return None
        start = lines.index(self.first)
        rest = lines[start:]
        return (start, start + rest.index(self.last)) if self.last in rest else None


def seen_from_home(path: Path, environ: Mapping[str, str]) -> str:
    """Return a path as the user names it: from `~` where it lies in their home."""
    home = environ.get("HOME", "") or "/"
    name = seen_from(home, str(path))
    return name if name == str(path) else f"~/{name}"


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _own_keys(entry: object) -> dict[str, Any]:
    """Return what the user added to an imported entry that only KogniTerm knows."""
    known = entry if isinstance(entry, dict) else {}
    return {key: known[key] for key in ("network", "sandbox", "insecure") if key in known}


def _known_hook(groups: object, hook: ForeignHook) -> dict[str, Any] | None:
    """Return the entry with the same command for the same tools, if there is one."""
    for group in groups if isinstance(groups, list) else []:
        if not isinstance(group, dict) or (group.get("matcher") or "") not in (
            hook.matcher, "" if hook.matcher else "*",
        ):  # fmt: skip
            continue
        entries = group.get("hooks")
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and entry.get("command") == hook.entry.get("command"):
                return entry
    return None


def _hook_text(hook: ForeignHook, entry: Mapping[str, Any]) -> str:
    return _pretty({hook.event: {"matcher": hook.matcher or "*", **entry}})


def _bytes_of(path: Path) -> bytes | None:
    try:
        data = read_regular(resolve_path(path), _LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(data) > _LARGEST_FILE:
        raise UnusableValueError("it is too large")
    return data


def _inside(path: Path, folder: Path) -> Path:
    """Return the resolved path of a project's file. Raises `UnusableValueError` if outside."""
    target = resolve_path(path)
    if not target.is_relative_to(resolve_path(folder)):
        raise UnusableValueError("it leads out of the folder")
    return target


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _by_name(files: Iterable[SkillFile]) -> dict[str, tuple[bytes, bool]]:
    return {one.name: (one.data, one.executable) for one in files}


def _skill_files(folder: Path) -> dict[str, tuple[bytes, bool]] | None:
    """Return the files of a skill that is there already; None without one."""
    if not os.path.lexists(folder):
        return None
    found = {}
    for one in walk_folder(resolve_path(folder), None):
        path = folder / one.path
        with suppress(OSError, ValueError):
            if path.is_file():
                data = read_regular(resolve_path(path), _LARGEST_FILE)
                found[one.path] = (data, os.access(path, os.X_OK))
    return found


def _describe_file(file: tuple[bytes, bool] | None, *, whole: bool) -> str:
    """Return a skill's file as its diff shows it: other data, and large texts, by their hash.

    Without `whole`, every text counts as large.
    """
    if file is None:
        return ""
    data, executable = file
    note = "# (executable)\n" if executable else ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    binary = "\0" in text
    if binary or not whole or len(data) > LARGEST_TEXT:
        kind, digest = "binary" if binary else "text", hashlib.sha256(data).hexdigest()
        return f"{note}({kind}: {len(data)} bytes, SHA-256 {digest})"
    return note + text


def _write_skill(skill: SkillToWrite, target: Target) -> None:
    """Write a skill beside its place, then move it there in one step."""
    folder = resolve_path(target.skills)
    if target.project is not None:
        _inside(target.skills, target.project)
        folder.mkdir(parents=True, exist_ok=True)
    else:
        private_folder(folder)
    made = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=folder))
    try:
        for file in skill.files:
            path = made / "new" / file.name
            mode = 0o700 if file.executable else 0o600
            if target.project is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                mode = 0o755 if file.executable else 0o644
            write_private(path, file.data, mode=mode)
        place = folder / skill.path.name
        if os.path.lexists(place):
            place.rename(made / "old")
        (made / "new").rename(place)
    finally:
        shutil.rmtree(made, ignore_errors=True)
