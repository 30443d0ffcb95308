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

import functools
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kogniterm.host.git_settings import fetches_when_read, is_of_git, runs_program
from kogniterm.host.helper_programs import run_helper
from kogniterm.host.programs import find_program, host_environment
from kogniterm.host.safe_files import working_folder
from kogniterm.storage.folders import expand_path

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


def host_git(folder: Path | str, *arguments: str, seconds: float = SECONDS) -> bytes | None:
    """Run git in `folder` and return what it prints; None without git, a repository or success.

    Raises `TimeoutError` after `seconds`, and at once where git waits for a named pipe.
    """
    program = find_program("git")
    if program is None:
        return None
    off = [word for setting in _OFF for word in ("-c", setting)]
    words = [program, "--no-pager", *off, *arguments]
    environment = host_environment(*_OWN_FILES) | _ENVIRONMENT
    try:
        git = run_helper(words, env=environment, seconds=seconds, cwd=folder)
    except TimeoutError:
        raise
    except (OSError, ValueError):  # a name that no program can be given
        return None
    return git.output if git.status == 0 else None


def _mode(file: Path) -> int:
    try:
        return file.stat().st_mode
    except OSError:
        return 0


def files_known_to_git(folder: int, seconds: float = SECONDS) -> list[str] | None:
    """Return the tracked and untracked files below an open folder, without ignored ones.

    Names are relative to it; a file may be gone. None outside a repository or without git. Raises
    `TimeoutError`.
    """
    listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = host_git(working_folder(folder), *listing, seconds=seconds)
    return None if listed is None else [name for name in os.fsdecode(listed).split("\0") if name]


def commit_subjects(folder: Path, most: int) -> list[str]:
    """Return the subjects of the newest `most` commits without merges; empty without a repository.

    Raises `TimeoutError`.
    """
    told = host_git(folder, "log", f"-n{most}", "--no-merges", "--no-notes", "--format=%s")
    return [] if told is None else told.decode("utf-8", "replace").splitlines()


_UNKNOWN = "?"
_UNTOLD = "…"
_USER = re.compile(r"^(https?://)[^/@]*@")
_MOST_REPOSITORIES = 300
_JUDGING_SECONDS = 3.0
_USERS_OWN = ("system", "global")
_OURS = "command"
"""The scope of what `host_git` switches off."""
_LINK = re.compile(rb"(?:\A|\0)160000 [^\t]*\t([^\0]+)")
"""A submodule in git's index."""
_HOOKS_OF_READERS = frozenset({"post-index-change"})
"""githooks(5): `git status` renews the index, and that is a change."""
_COMPARING = frozenset({"log", "show", "diff", "whatchanged", "stash", "reflog", "diff-tree"})
"""Verbs that may show the changes of submodules of any commit."""


class Started(NamedTuple):
    """The programs that repositories make git start, by their settings and hooks."""

    settings: tuple[str, ...] = ()
    """`?` alone when git did not list them in time, or could not."""
    hooks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The files that hold the repositories' settings."""


class _Setting(NamedTuple):
    scope: str
    file: str
    name: str
    value: str


class _UnknownSettingsError(Exception):
    """There is a repository whose settings git did not list."""


def find_started(
    folders: Iterable[Path], verbs: frozenset[str], *, reading: bool, workspace: str
) -> Started:
    """Return the programs that the repositories of `folders` make git start for `verbs`.

    Those of submodules and other worktrees count too; those of the user do not, unless they are
    in `workspace`, where commands write. `reading` is whether git is only asked to read.
    """
    settings: dict[str, None] = {}
    hooks: dict[str, None] = {}
    files: dict[str, None] = {}
    try:
        for top, common, listed in _repositories(folders):
            fetching = any(fetches_when_read(one.name) for one in listed)
            for one in listed:
                if not _is_foreign(one, workspace, verbs):
                    continue
                files[one.file] = None
                if runs_program(
                    one.name, one.value, reading=reading, fetching=fetching, verbs=verbs
                ) and is_of_git(one.name, _sections() or (one.name.partition(".")[0],)):
                    settings[one.name] = None
            hooks.update(dict.fromkeys(_hooks(top, common, listed)))
    except (TimeoutError, _UnknownSettingsError):
        return Started((_UNKNOWN,))
    names = (name for name in hooks if not reading or name in _HOOKS_OF_READERS)
    return Started(tuple(settings), tuple(names), tuple(files))


@functools.cache
def _sections() -> tuple[str, ...]:
    """Return the sections of settings that git itself reads; none where it does not list them."""
    told = host_git("/", "help", "--config-sections-for-completion")
    return tuple((told or b"").decode().lower().split())


def _is_foreign(setting: _Setting, workspace: str, verbs: frozenset[str]) -> bool:
    """Return whether a setting may be of somebody else than the user."""
    if setting.scope not in _USERS_OWN:
        return setting.scope != _OURS
    if (setting.name, setting.value) == ("diff.submodule", "diff"):
        return not _COMPARING.isdisjoint(verbs)
    home, below = os.path.realpath(Path.home()), f"{os.path.realpath(workspace).rstrip('/')}/"
    # A sandbox does not let commands write the hidden files of a home.
    hidden = f"{home}/".startswith(below) and setting.file.startswith(f"{home}/.")
    return setting.file.startswith(below) and not hidden


def _repositories(folders: Iterable[Path]) -> Iterator[tuple[Path, Path, Sequence[_Setting]]]:
    """Yield the top, git's own folder and the settings of each repository that git enters.

    These are the repositories of `folders` (or of what exists above them), and all submodules
    below. Raises `TimeoutError` and `_UnknownSettingsError`.
    """
    until = time.monotonic() + _JUDGING_SECONDS
    existing = (next((a for a in (one, *one.parents) if a.is_dir()), one) for one in folders)
    waiting = list(dict.fromkeys(existing))
    seen: dict[Path, set[Path]] = {}
    for place in waiting:
        inner = _one(place, "rev-parse", "--git-common-dir")
        common = Path(place, inner).resolve()
        top = Path(_one(place, "rev-parse", "--show-toplevel") or place)
        if not inner and any(map(_may_be_repository, (place, *place.parents))):
            raise _UnknownSettingsError
        if not inner or top in seen.setdefault(common, set()):
            continue
        seen[common].add(top)
        yield top, common, _settings_of(top, place)
        staged = _git_output(top, "ls-files", "--stage", "-z")
        linked = (top / os.fsdecode(name) for name in _LINK.findall(staged))
        waiting += [one for one in linked if os.path.lexists(one / ".git")]
        if len(waiting) > _MOST_REPOSITORIES or time.monotonic() > until:
            raise _UnknownSettingsError
    for module in (one for common in seen for one in _modules(common, until)):
        for file in (module / "config", module / "config.worktree"):
            if module not in seen and file.exists():
                yield (
                    module,
                    module,
                    _settings_of(module, module, "--includes", "--file", str(file)),
                )


def repository_outside(workspace: Path) -> tuple[str, str] | None:
    """Return git's own folder and the working tree of `workspace` where it does not hold both.

    None where the folder names another working tree: a `.git` file of a project could name any.
    """
    above = (workspace, *workspace.parents)
    tree = next((one for one in above if os.path.lexists(one / ".git")), None)
    if tree is None or (dot := tree / ".git").is_symlink():
        return None
    with suppress(OSError, ValueError, IndexError, RuntimeError):  # the last: links in a circle
        folder = dot
        if dot.is_file():
            folder = Path(tree, dot.read_text().removeprefix("gitdir:").strip()).resolve()
            if folder.parent.name == "worktrees":
                named = Path(folder, (folder / "gitdir").read_text().strip()).parent
                folder = folder.parent.parent
            else:
                named = folder / _WORKTREE.findall((folder / "config").read_text())[-1]
            if named.resolve() != tree.resolve():
                return None
        outside = not folder.is_relative_to(workspace) and tree.resolve() != Path.home().resolve()
        if outside and _may_be_repository(folder) and folder.stat().st_uid == os.geteuid():
            return str(folder), str(tree)
    return None


_WORKTREE = re.compile(r"^[ \t]*worktree[ \t]*=[ \t]*\"?([^\"\n]+)", re.MULTILINE)


def _may_be_repository(folder: Path) -> bool:
    """Return whether another git than ours may take `folder` for a repository."""
    parts = ("HEAD", "objects", "refs")
    return os.path.lexists(folder / ".git") or all(os.path.lexists(folder / one) for one in parts)


def _modules(inner: Path, until: float) -> Iterator[Path]:
    """Yield git's own folders of submodules, which are in that of the repository around them."""
    waiting = [inner / "modules"]
    for folder in waiting:
        if time.monotonic() > until:
            raise _UnknownSettingsError
        head = folder / "HEAD"
        if head.is_file() or head.is_symlink() or (folder / "config").is_file():
            yield folder.resolve()
            waiting.append(folder / "modules")
        elif folder.is_dir():
            waiting += [one for one in folder.iterdir() if one.is_dir()]


def _settings_of(top: Path, place: Path, *file: str) -> Sequence[_Setting]:
    """Return all settings of the repository at `place`, or those of `--file NAME`."""
    told = _git_output(place, "config", *file, "--list", "--show-scope", "--show-origin", "-z")
    fields = iter(os.fsdecode(told).split("\0"))
    found: list[_Setting] = []
    for scope, origin, setting in zip(fields, fields, fields, strict=False):
        name, _, value = setting.partition("\n")
        path = os.path.realpath(expand_path(top, origin.removeprefix("file:")))
        found.append(_Setting("local" if file else scope, path, name, value))
    return found


def _hooks(top: Path, common: Path, listed: Sequence[_Setting]) -> Iterator[str]:
    """Yield the hooks of a repository; those of a folder of the user's own choice are theirs."""
    chosen = [one for one in listed if one.name == "core.hookspath" and one.scope != _OURS][-1:]
    place = expand_path(top, chosen[0].value) if chosen else common / "hooks"
    # A relative folder of the user's own choice is one in every repository.
    if chosen and chosen[0].scope in _USERS_OWN and chosen[0].value.startswith(("/", "~")):
        return
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        mode = _mode(Path(entry.path))
        if stat.S_ISREG(mode) and mode & 0o111 and not entry.name.endswith(".sample"):
            yield entry.name


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
    except TimeoutError:
        return (_UNTOLD,)
    return tuple(dict.fromkeys(_USER.sub(r"\1", address) for address in found))


def _git_output(folder: Path, *arguments: str) -> bytes:
    """Return what git prints. Raises `TimeoutError`, `_UnknownSettingsError` if it fails."""
    told = host_git(folder, *arguments, seconds=_JUDGING_SECONDS)
    if told is None:
        raise _UnknownSettingsError
    return told


def _one(folder: Path, *arguments: str) -> str:
    """Return the one line that git prints, or nothing. Raises `TimeoutError`."""
    told = host_git(folder, *arguments, seconds=_JUDGING_SECONDS)
    return os.fsdecode(told or b"").removesuffix("\n")
