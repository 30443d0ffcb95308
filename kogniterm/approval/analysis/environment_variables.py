"""Which environment variables steer programs, inject code, hide tracks or are harmless."""

from __future__ import annotations

import re

_STEERING = re.compile(
    r"(?:PATH|LD_|DYLD_|BASH|ENV\Z|IFS\Z|PS[0-4]\Z|PROMPT|SHELL|GIT_|SSH_|GPG_|\w*PAGER\Z|LESS|MAN"
    r"|\w*EDITOR\Z|VISUAL|PYTHON|PERL|RUBY|NODE_|NPM_|JAVA_|_JAVA|JDK_|CLASSPATH|GREP_OPTIONS"
    r"|RIPGREP|FZF|CDPATH|GLOBIGNORE|FIGNORE|EXECIGNORE|HIST|HOME\Z|TMPDIR\Z|XDG_|\w*_PROXY\Z"
    r"|\w*proxy\Z|OPENSSL|CURL|SSL_|REQUESTS_|GCONV_PATH|LOCPATH|NLSPATH|MALLOC|GLIBC|TERMINFO"
    r"|TERMCAP|INPUTRC|MAIL|DOCKER_|KUBE|AWS_|GOOGLE_|AZURE_|PG[A-Z]|MYSQL|CC\Z|CXX\Z|\w*FLAGS\Z"
    r"|MAKE|CMAKE|GO[A-Z]+\Z|CARGO|RUST|PIP_|VIRTUAL|CONDA|SUDO_|DISPLAY\Z|DBUS|BROWSER"
    r"|TAR_OPTIONS|RSYNC|KOGNITERM|OPENAI|ANTHROPIC|GEMINI|FPATH|ZDOTDIR|TMOUT|TERM_PROGRAM"
    r"|WINDOWID|UID\Z|OPTIND\Z|POSIXLY|BAT_|ACKRC|JQ_|RC\Z)"
)
_INJECTING = re.compile(
    r"(?:LD_(?:PRELOAD|AUDIT|LIBRARY_PATH)|BASH_ENV|PROMPT_COMMAND|BASH_FUNC_\w*|SHELLOPTS"
    r"|DYLD_INSERT_LIBRARIES)\Z"
)
_TAMPERING = re.compile(r"(?:HISTFILE|HISTSIZE|HISTFILESIZE|HISTCONTROL|HISTIGNORE)\Z")
_HARMLESS = re.compile(
    r"(?:LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?"
    r"|COLORTERM|GREP_COLORS?|LS_COLORS|BLOCKSIZE|BLOCK_SIZE|TIME_STYLE|PYTHONUNBUFFERED"
    r"|SYSTEMD_COLORS|JQ_COLORS|TIMEFORMAT|CI|GIT_OPTIONAL_LOCKS)\Z"
)


def steers(name: str) -> bool:
    """Return whether programs obey this variable in ways that can make them do something else."""
    return bool(_STEERING.match(name))


def injects(name: str) -> bool:
    """Return whether setting it makes other programs load or run code."""
    return bool(_INJECTING.match(name))


def hides_tracks(name: str) -> bool:
    """Return whether it governs the shell's history."""
    return bool(_TAMPERING.match(name))


def is_harmless(name: str, value: str = "") -> bool:
    """Return whether setting it (to `value`) for one program does not change what it does.

    A language or terminal with a slash in its name is a file that somebody made.
    """
    if "/" in value and name.startswith(("LANG", "LC_", "TERM")):
        return False
    return bool(_HARMLESS.match(name))
