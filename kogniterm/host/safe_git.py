"""git, run by the host process in repositories that a command may have changed.

A repository's configuration, attributes and hooks can name programs. Only subcommands that read
neither contents through filters nor objects over the network are run here (`config`, `rev-parse`,
`rev-list --count`, `log` of subjects, `ls-files`, `remote -v`, `ls-remote --get-url`), and
everything by which they could start a program is switched off besides: monitors, hooks, pagers,
every protocol. git itself is found in system folders, and no variable of the user's environment
that steers it is handed on.

When the user's own git runs in such a repository, `git status`, `diff` or `log` obey the
configuration that came with the folder: a file-system monitor, filters, text converters. What
changes the repository runs its hooks, editors, helpers and drivers too. A cloned repository cannot
bring its own, but an unpacked archive can. Listing them runs nothing.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from kogniterm.host.git_settings import fetches_when_read, runs_program
from kogniterm.host.programs import find_program, host_environment
from kogniterm.host.safe_files import working_folder
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.storage.folders import named

SECONDS = 10.0
"""Longer than git takes on a busy machine to list files without reading their contents."""
_OFF = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "protocol.allow=never",
    # Nothing is started for a repository of another owner either, so that it may be listed.
    "safe.directory=*",
    "safe.bareRepository=all",
)
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    # An empty list: a repository's own protocol.*.allow does not count then.
    "GIT_ALLOW_PROTOCOL": ":",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_CONFIG_COUNT": "0",
}


_OWN_FILES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME")
"""Variables that say where the user's settings for all repositories are."""


class GitTooSlowError(Exception):
    """git did not answer in time."""


def host_git(folder: Path | str, *arguments: str, seconds: float = SECONDS) -> bytes | None:
    """Run git in `folder` and return what it prints; None without git, a repository or success.

    Raises `GitTooSlowError` after `seconds`.
    """
    program = find_program("git")
    if program is None:
        return None
    if _waits_for_writer(folder):
        raise GitTooSlowError(str(folder))
    off = [word for setting in _OFF for word in ("-c", setting)]
    try:
        done = subprocess.run(
            [program, "--no-pager", *off, *arguments],
            cwd=folder,
            env=host_environment(*_OWN_FILES) | _ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GitTooSlowError(str(folder)) from error
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


_READ_FIRST = ("HEAD", "commondir", "config", "config.worktree", "index", "packed-refs")
"""Files that git opens whatever it is asked; a pipe in place of one would have it wait."""


def _waits_for_writer(folder: Path | str) -> bool:
    """Return whether git would wait in `folder` for a file that is none."""
    start = Path(folder).resolve()
    for place in (start, *start.parents):
        for inner in (place / ".git", place):
            if os.path.lexists(inner / "HEAD") or os.path.lexists(inner / "config"):
                modes = (_mode(inner / name) for name in _READ_FIRST)
                return any(mode and not stat.S_ISREG(mode) for mode in modes)
    return False


def _mode(file: Path) -> int:
    try:
        return file.stat().st_mode
    except OSError:
        return 0


def files_known_to_git(folder: int, seconds: float = SECONDS) -> list[str] | None:
    """Return the tracked and untracked files below an open folder, without ignored ones.

    Names are relative to it; a file may be gone. None outside a repository or without git. Raises
    `GitTooSlowError`.
    """
    listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = host_git(working_folder(folder), *listing, seconds=seconds)
    return None if listed is None else [name for name in os.fsdecode(listed).split("\0") if name]


def commit_subjects(folder: Path, most: int) -> list[str]:
    """Return the subjects of the newest `most` commits without merges; empty without a repository.

    Raises `GitTooSlowError`.
    """
    told = host_git(folder, "log", f"-n{most}", "--no-merges", "--no-notes", "--format=%s")
    return [] if told is None else told.decode("utf-8", "replace").splitlines()


_UNKNOWN = "?"
_UNTOLD = "…"
_USER = re.compile(r"^(https?://)[^/@]*@")
_MOST_REPOSITORIES = 300
_JUDGING_SECONDS = 5.0
_OWN = ("local", "worktree")
_OURS = "command"
"""The scope of what `host_git` switches off."""
_LINK = re.compile(rb"(?:\A|\0)160000 [^\t]*\t([^\0]+)")
"""A submodule in git's index."""
_HOOKS_OF_READERS = frozenset({"post-index-change"})
"""githooks(5): `git status` renews the index, and that is a change."""
_COMPARING = frozenset({"log", "show", "diff", "whatchanged", "stash", "reflog", "diff-tree"})
"""Verbs that may show the changes of submodules of any commit."""


@dataclass(frozen=True, slots=True)
class Started:
    """The programs that repositories make git start, by their settings and hooks."""

    settings: tuple[str, ...] = ()
    """`?` alone when git did not list them in time, or could not."""
    hooks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The files that hold the repositories' settings."""


@dataclass(frozen=True, slots=True)
class _Setting:
    scope: str
    file: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class _Repository:
    top: Path
    common: Path
    """git's own folder, which other worktrees share."""
    settings: tuple[_Setting, ...]


class _UnknownSettingsError(Exception):
    """There is a repository whose settings git did not list."""


def started_by(
    folders: Iterable[Path], verbs: frozenset[str], *, reading: bool, workspace: str
) -> Started:
    """Return the programs that the repositories of `folders` make git start for `verbs`.

    Those of submodules and other worktrees count too; those of the user do not, unless they are
    in `workspace`, where commands write. `reading` is whether git is only asked to read.
    """
    settings: dict[str, None] = {}
    hooks: dict[str, None] = {}
    files: dict[str, None] = {}
    until = time.monotonic() + _JUDGING_SECONDS
    try:
        for entered in _repositories([_existing(folder) for folder in folders], until):
            fetching = any(fetches_when_read(one.name) for one in entered.settings)
            for one in entered.settings:
                if not _is_foreign(one, workspace, verbs):
                    continue
                files[one.file] = None
                if runs_program(
                    one.name, one.value, reading=reading, fetching=fetching, verbs=verbs
                ):
                    settings[one.name] = None
            hooks.update(dict.fromkeys(_hooks(entered)))
    except (GitTooSlowError, _UnknownSettingsError):
        return Started((_UNKNOWN,))
    names = (name for name in hooks if not reading or name in _HOOKS_OF_READERS)
    return Started(tuple(settings), tuple(names), tuple(files))


def _existing(folder: Path) -> Path:
    """Return `folder`, or where it is missing the nearest one above it, of the same repository."""
    return next((one for one in (folder, *folder.parents) if one.is_dir()), folder)


def _is_foreign(setting: _Setting, workspace: str, verbs: frozenset[str]) -> bool:
    """Return whether a setting may be of somebody else than the user."""
    if setting.scope in _OWN:
        return True
    if (setting.name, setting.value) == ("diff.submodule", "diff"):
        return not _COMPARING.isdisjoint(verbs)
    if setting.scope == _OURS:
        return False
    file, home, written = map(os.path.realpath, (setting.file, Path.home(), workspace))
    hidden = file.startswith(f"{home}/.") and f"{home}/".startswith(f"{written.rstrip('/')}/")
    return file.startswith(f"{written.rstrip('/')}/") and not hidden


def remote_addresses(folder: Path, remote: str | None) -> tuple[str, ...]:
    """Return the addresses by which git reaches `remote` (a name or URL) from `folder`.

    Without a name they are those of every remote. They are as git's configuration rewrites them,
    and without a password. It is `…` alone when git did not tell in time.
    """
    try:
        listed = [line.split() for line in _one(folder, "remote", "-v").splitlines()]
        found = [entry[1] for entry in listed if len(entry) > 1 and remote in (None, entry[0])]
        if not found and remote is not None and not remote.startswith("-"):
            found = [_one(folder, "ls-remote", "--get-url", remote) or remote]
    except GitTooSlowError:
        return (_UNTOLD,)
    return tuple(dict.fromkeys(_USER.sub(r"\1", address) for address in found))


def _repositories(waiting: list[Path], until: float) -> Iterator[_Repository]:
    """Yield the repositories that git enters from these folders: theirs, and submodules below.

    Raises `GitTooSlowError` after `until`, and `_UnknownSettingsError`.
    """
    seen: dict[Path, set[Path]] = {}
    for place in waiting:
        inner = _one(place, "rev-parse", "--git-common-dir", until=until)
        if not inner:
            if any(map(_may_be_repository, (place, *place.parents))):
                raise _UnknownSettingsError
            continue
        common = Path(place, inner).resolve()
        top = Path(_one(place, "rev-parse", "--show-toplevel", until=until) or place)
        if top in seen.setdefault(common, set()):
            continue
        seen[common].add(top)
        yield _Repository(top, common, _listed(top, place, until=until))
        staged = host_git(top, "ls-files", "--stage", "-z", seconds=until - time.monotonic())
        if staged is None or len(waiting) > _MOST_REPOSITORIES:
            raise _UnknownSettingsError
        linked = (top / os.fsdecode(name) for name in _LINK.findall(staged))
        waiting += [one for one in linked if os.path.lexists(one / ".git")]
    for common in tuple(seen):
        for module in _modules(common, until):
            files = [module / name for name in ("config", "config.worktree")]
            for file in files if module not in seen else ():
                if file.exists():
                    found = _listed(module, module, "--includes", "--file", str(file), until=until)
                    yield _Repository(module, module, found)


def _may_be_repository(folder: Path) -> bool:
    """Return whether another git than ours may take `folder` for a repository."""
    parts = ("HEAD", "objects", "refs")
    return os.path.lexists(folder / ".git") or all(os.path.lexists(folder / one) for one in parts)


def _modules(inner: Path, until: float) -> Iterator[Path]:
    """Yield git's own folders of submodules, which are in that of the repository around them."""
    waiting = [inner / "modules"]
    for folder in waiting:
        if time.monotonic() > until:
            raise GitTooSlowError(str(folder))
        head = folder / "HEAD"
        if head.is_file() or head.is_symlink() or (folder / "config").is_file():
            yield folder.resolve()
            waiting.append(folder / "modules")
        elif folder.is_dir():
            waiting += [one for one in folder.iterdir() if one.is_dir()]


def _listed(top: Path, place: Path, *file: str, until: float) -> tuple[_Setting, ...]:
    """Return all settings of the repository at `place`, or those of `--file NAME`."""
    listing = ("config", *file, "--list", "--show-scope", "--show-origin", "-z")
    told = host_git(place, *listing, seconds=until - time.monotonic())
    if told is None:
        raise _UnknownSettingsError
    fields = iter(os.fsdecode(told).split("\0"))
    found: list[_Setting] = []
    for scope, origin, setting in zip(fields, fields, fields, strict=False):
        name, _, value = setting.partition("\n")
        kind, _, origin_file = origin.partition(":")
        path = os.path.realpath(named(top, origin_file)) if kind == "file" else ""
        found.append(_Setting(_OWN[0] if file else scope, path, name, value))
    return tuple(found)


def _hooks(entered: _Repository) -> Iterator[str]:
    """Yield the hooks of a repository; those of a folder of the user's own choice are theirs."""
    chosen = [one for one in entered.settings if one.name == "core.hookspath"]
    chosen = [one for one in chosen if one.scope != _OURS]
    place = entered.common / "hooks"
    if chosen:
        # A relative folder of the user's own choice is one in every repository.
        if chosen[-1].scope not in _OWN and chosen[-1].value.startswith(("/", "~")):
            return
        place = named(entered.top, chosen[-1].value)
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.name.endswith(".sample") and _is_program(entry.path):
            yield entry.name


def _is_program(file: str) -> bool:
    mode = _mode(Path(file))
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _one(folder: Path, *arguments: str, until: float | None = None) -> str:
    """Return the one line that git prints, or nothing."""
    seconds = SECONDS if until is None else until - time.monotonic()
    return os.fsdecode(host_git(folder, *arguments, seconds=seconds) or b"").removesuffix("\n")
