"""Whether a repository's own settings or hooks make git run other programs.

`git status`, `diff` or `log` obey the configuration that came with the folder: a file-system
monitor, filters, text converters. What changes the repository runs its hooks too. A cloned
repository cannot bring its own, but an unpacked archive can. Listing them runs nothing.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

_RUNS = re.compile(
    r"core\.(?:fsmonitor|sshcommand|alternaterefscommand)|diff\.external"
    r"|diff\..+\.(?:command|textconv)|filter\..+\.(?:clean|smudge|process)|gpg\.(?:.+\.)?program"
)
_HARMLESS = re.compile(r"(?:true|false|yes|no|on|off|0|1|git-lfs [\w %-]*)?", re.IGNORECASE)
_PATIENCE = 10.0
"""Seconds for listing the settings: what takes longer is not known to be harmless."""
_UNKNOWN = "?"
_UNTOLD = "…"
_USER = re.compile(r"^(https?://)[^/@]*@")
_MOST_MODULES = 50
_OWN = ("local", "worktree")
_HOOKS_OF_READERS = frozenset({"post-index-change"})
"""githooks(5): `git status` renews the index, and that is a change."""


def settings_that_run(folders: Iterable[Path]) -> tuple[str, ...]:
    """The settings of the repositories round `folders` that make git's readers run a program.

    Only a repository's own settings count, its submodules' too; those of the person do not. It
    is `?` alone when git did not list them in time.
    """
    try:
        return tuple(dict.fromkeys(_found(dict.fromkeys(folders))))
    except subprocess.TimeoutExpired:
        return (_UNKNOWN,)


def hooks_that_run(folders: Iterable[Path], *, reading: bool) -> tuple[str, ...]:
    """The hooks of the repositories round `folders` that git may run, for `reading` or for more.

    Those in a folder of the person's own, for all their repositories, do not count. It is `?`
    alone when git did not tell in time.
    """
    found: dict[str, None] = {}
    try:
        for folder in dict.fromkeys(folders):
            found.update(dict.fromkeys(_hooks(folder)))
    except subprocess.TimeoutExpired:
        return (_UNKNOWN,)
    return tuple(name for name in found if not reading or name in _HOOKS_OF_READERS)


def remote_addresses(folder: Path, remote: str | None) -> tuple[str, ...]:
    """Return the addresses by which git reaches `remote` (a name or URL) from `folder`.

    Without a name they are those of every remote. They are as git's configuration rewrites them,
    and without a password. It is `…` alone when git did not tell in time.
    """
    try:
        listed = [line.split() for line in _git(folder, "remote", "-v").splitlines()]
        found = [entry[1] for entry in listed if len(entry) > 1 and remote in (None, entry[0])]
        if not found and remote is not None and not remote.startswith("-"):
            found = [_git(folder, "ls-remote", "--get-url", remote).strip() or remote]
    except subprocess.TimeoutExpired:
        return (_UNTOLD,)
    return tuple(dict.fromkeys(_USER.sub(r"\1", address) for address in found))


def _hooks(folder: Path) -> Iterator[str]:
    listed = _git(folder, "rev-parse", "--git-path", "hooks").rstrip("\n")
    if not listed:
        return
    scope = _git(folder, "config", "--show-scope", "--get", "core.hookspath").partition("\t")[0]
    if scope and scope not in _OWN and Path(listed).is_absolute():
        return
    try:
        entries = sorted(os.scandir(folder / listed), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.name.endswith(".sample") and _is_program(entry):
            yield entry.name


def _is_program(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _found(folders: Iterable[Path]) -> Iterator[str]:
    for folder in folders:
        listed = _git(folder, "config", "--list", "--show-scope", "-z")
        yield from _naming_programs(listed)
        inner = _git(folder, "rev-parse", "--absolute-git-dir").rstrip("\n")
        if inner:
            for module in islice(Path(inner, "modules").glob("**/config"), _MOST_MODULES):
                listed = _git(folder, "config", "--file", str(module), "--list", "-z")
                yield from _naming_programs(listed, scoped=False)


def _naming_programs(listed: str, *, scoped: bool = True) -> Iterator[str]:
    fields = iter(listed.split("\0"))
    for field in fields:
        scope, entry = (field, next(fields, "")) if scoped else ("local", field)
        name, _, value = entry.partition("\n")
        if scope in _OWN and _RUNS.fullmatch(name) and not _HARMLESS.fullmatch(value):
            yield name


def _git(folder: Path, *arguments: str) -> str:
    """What git prints, or nothing when there is no git or no repository. Raises TimeoutExpired."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
