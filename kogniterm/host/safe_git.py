"""git as the host process runs it: in repositories that a command may have changed.

A repository's configuration, attributes and hooks can name programs. Only subcommands that read
neither contents through filters nor objects over the network are run here (`config`, `rev-parse`,
`ls-files`, `remote -v`, `ls-remote --get-url`), and everything by which they could start a program
is switched off besides: monitors, hooks, pagers, every protocol. git itself is found in system
folders, and no variable of the user's environment that steers it is handed on.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kogniterm.host.programs import find_program, host_environment
from kogniterm.host.safe_files import working_folder

SECONDS = 10.0
"""Longer than git takes on a busy machine to list what it knows without looking at contents."""
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
"""Where the user keeps settings for all repositories, as they chose before the session."""


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
