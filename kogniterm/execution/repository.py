"""Whether a repository's own settings make git run other programs when it only reads.

`git status`, `diff` or `log` obey the configuration that came with the folder: a file-system
monitor, filters, text converters. A cloned repository cannot bring its own, but an unpacked
archive can. Listing the settings runs nothing.
"""

from __future__ import annotations

import re
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
_MOST_MODULES = 50
_OWN = ("local", "worktree")


def settings_that_run(folders: Iterable[Path]) -> tuple[str, ...]:
    """The settings of the repositories round `folders` that make git's readers run a program.

    Only a repository's own settings count, its submodules' too; those of the person do not. It
    is `?` alone when git did not list them in time.
    """
    try:
        return tuple(dict.fromkeys(_found(dict.fromkeys(folders))))
    except subprocess.TimeoutExpired:
        return (_UNKNOWN,)


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
