"""What a command's environment holds: the inherited one, without our secrets, made unattended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

SECRET_NAMES = (
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS_JSON",
)
"""Keys of model providers that belong to KogniTerm; variables named KOGNITERM_* go too."""

UNATTENDED: Mapping[str, str] = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "PSQL_PAGER": "cat",
    "AWS_PAGER": "",
    # A file that fits the screen is printed without waiting for a key, and stays to be read.
    "LESS": "-FRX",
    # `false` fails at once; `true` would accept whatever stood in the editor.
    "GIT_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GCM_INTERACTIVE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
"""Set while nobody is at the keyboard, so that programs neither page, edit nor prompt."""

PROPOSED: Mapping[str, str] = {
    name: value
    for name, value in UNATTENDED.items()
    if name.endswith("PAGER") or name in ("GIT_OPTIONAL_LOCKS", "PIP_DISABLE_PIP_VERSION_CHECK")
}
"""For commands that nobody typed: what only reads must not run a repository's own pager, refresh
an index, or look for updates."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DROPPED = frozenset(
    {"BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "_", "SHLVL"}
    | {"PWD", "OLDPWD", "LINES", "COLUMNS"}
)
"""Would run code or change options before a command starts, or belong to another shell."""


def inherited() -> dict[str, str]:
    """This process's own environment, for callers that do not give one."""
    from kogniterm.settings import environment  # its only reader

    return environment()


def base_environment(
    env: Mapping[str, str], secrets: Iterable[str] = SECRET_NAMES
) -> tuple[dict[str, str], dict[str, str]]:
    """What commands inherit of `env`: (names a shell can hold, all the others)."""
    hidden = set(secrets)
    shell: dict[str, str] = {}
    other: dict[str, str] = {}
    for name, value in env.items():
        if name in hidden or name in _DROPPED or name.startswith("KOGNITERM_"):
            continue
        (shell if _IDENTIFIER.match(name) else other)[name] = value
    if shell.get("TERM", "dumb") in ("", "dumb", "unknown"):
        shell["TERM"] = "xterm-256color"
    return shell, other
