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
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from kogniterm.host.git_settings import runs_program
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
_MOST_MODULES = 50
_OWN = ("local", "worktree")
_OURS = "command"
"""The scope of what `host_git` switches off."""
_LINK_MODE = "160000"
"""The mode of a submodule in git's index."""
_HOOKS_OF_READERS = frozenset({"post-index-change"})
"""githooks(5): `git status` renews the index, and that is a change."""
_LATER = ("init", "clone")
"""Verbs that make a new repository, from nothing or over the network."""


@dataclass(frozen=True, slots=True)
class GitRun:
    """A run of git: in which folder, and which verbs a command asks of it there."""

    folder: Path
    verbs: frozenset[str] = frozenset()


def settings_that_run(runs: Iterable[GitRun], *, reading: bool) -> tuple[str, ...]:
    """Return the settings of these folders' repositories that make git run a program.

    Only a repository's own settings count, those of its submodules and other worktrees too; those
    of the user do not. It is `?` alone when git did not list them in time.
    """
    found: dict[str, None] = {}
    try:
        for run in dict.fromkeys(runs):
            for name, value in _settings(run.folder):
                if runs_program(name, value, reading=reading, verbs=run.verbs):
                    found[name] = None
    except GitTooSlowError:
        return (_UNKNOWN,)
    return tuple(found)


def hooks_that_run(runs: Iterable[GitRun], *, reading: bool) -> tuple[str, ...]:
    """Return the hooks of these folders' repositories that git may run, reading or changing.

    Those in a folder of the user's own, for all their repositories, do not count. It is `?`
    alone when git did not answer in time.
    """
    found: dict[str, None] = {}
    try:
        for folder in dict.fromkeys(run.folder for run in runs):
            found.update(dict.fromkeys(_hooks(folder)))
    except GitTooSlowError:
        return (_UNKNOWN,)
    return tuple(name for name in found if not reading or name in _HOOKS_OF_READERS)


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


def is_made_by(run: GitRun) -> bool:
    """Return whether the folder of `run` is missing, and its verbs do more than create it."""
    return not run.folder.is_dir() and not run.verbs <= set(_LATER)


def _hooks(folder: Path) -> Iterator[str]:
    inner = _one(folder, "rev-parse", "--git-common-dir")
    if not inner:
        return
    configured = [
        (scope, value)
        for scope, name, value in _listed(folder, "config", "--list", "--show-scope", "-z")
        if name == "core.hookspath" and scope != _OURS
    ]
    places = [modules / "hooks" for modules in _modules(folder)]
    if not configured:
        places.append(Path(folder, inner, "hooks"))
    elif configured[-1][0] in _OWN or not configured[-1][1].startswith(("/", "~")):
        # A relative folder of the user's own choice is one in every repository.
        top = _one(folder, "rev-parse", "--show-toplevel") or str(folder)
        places.append(named(top, configured[-1][1]))
    for place in places:
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if not entry.name.endswith(".sample") and _is_program(entry):
                yield entry.name


def _is_program(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _settings(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the repository's own settings, by name and value."""
    for scope, name, value in _listed(folder, "config", "--list", "--show-scope", "-z"):
        if scope in _OWN:
            yield name, value
    for inner in _modules(folder):
        file = str(inner / "config")
        for _, name, value in _listed(
            folder, "config", "--file", file, "--includes", "--list", "--show-scope", "-z"
        ):
            yield name, value


def _modules(folder: Path) -> Iterator[Path]:
    """Yield the inner folders of the repository's submodules, wherever these keep them."""
    inner = _one(folder, "rev-parse", "--git-common-dir")
    if not inner:
        return
    found = Path(folder, inner, "modules").glob("**/config")
    yield from (file.parent for file in islice(found, _MOST_MODULES))
    top = _one(folder, "rev-parse", "--show-toplevel")
    staged = host_git(top, "ls-files", "--stage", "-z") if top else None
    linked = [
        entry for entry in os.fsdecode(staged or b"").split("\0") if entry.startswith(_LINK_MODE)
    ]
    for entry in linked[:_MOST_MODULES]:
        within = Path(top, entry.partition("\t")[2], ".git")
        if within.is_dir():
            yield within


def _listed(folder: Path, *arguments: str) -> Iterator[tuple[str, str, str]]:
    """Yield (scope, name, value) of what `git config --list --show-scope -z` prints."""
    fields = iter((host_git(folder, *arguments) or b"").decode("utf-8", "replace").split("\0"))
    for scope in fields:
        name, _, value = next(fields, "").partition("\n")
        yield scope, name, value


def _one(folder: Path, *arguments: str) -> str:
    """Return the one line that git prints, or nothing."""
    return os.fsdecode(host_git(folder, *arguments) or b"").rstrip("\n")
