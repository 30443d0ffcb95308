"""git's settings whose value is a program, or an option that starts one (git-config(1)). Pure."""

from __future__ import annotations

import re

_READING = (
    r"core\.(?:fsmonitor|sshcommand|alternaterefscommand|gitproxy)|diff\.external"
    r"|diff\..+\.(?:command|textconv)|filter\..+\.(?:clean|smudge|process)|gpg\.(?:.+\.)?program"
    r"|gpg\.ssh\.defaultkeycommand|remote\..+\.(?:uploadpack|vcs)|includeif\..+\.path"
)
_CHANGING = (
    r"core\.(?:editor|askpass)|sequence\.editor|merge\..+\.driver|credential\.(?:.+\.)?helper"
    r"|interactive\.difffilter|trailer\..+\.(?:cmd|command)|submodule\..+\.update"
    r"|remote\..+\.receivepack|tar\..+\.command|init\.templatedir|protocol\.(?:.+\.)?allow"
    r"|web\.browser|core\.pager"
)
_OF_A_VERB = re.compile(
    r"(?:alias|pager)\.(?P<named>.+)"
    r"|(?P<verb>difftool|mergetool|sendemail|instaweb|browser|man)\..+"
)
_STEERING = (
    r"core\.(?:hookspath|attributesfile)|include\.path|safe\..*|url\..*insteadof"
    r"|uploadpack\..*|gpg\..*|filter\..*|protocol\..*|includeif\..*|guitool\..*"
)

_FOR_READERS = re.compile(_READING)
_FOR_ALL = re.compile(f"{_READING}|{_CHANGING}")
_SET_BY_COMMANDS = re.compile(rf"(?i)(?:{_READING}|{_CHANGING}|{_OF_A_VERB.pattern}|{_STEERING})\Z")
_HARMLESS = re.compile(
    r"(?i)(?:true|false|yes|no|on|off|0|1|git-lfs [\w %-]*|auto|always|never|user|cat|less"
    r"|checkout|rebase|merge|none|cache(?: --timeout=\d+)?|store|vi|vim|nano|emacs|code --wait"
    r"|libsecret|osxkeychain"
    r"|manager(?:-core)?|https?://[\w.:/@-]*|git@[\w.:/-]*)?"
)
"""Values that name no program of the repository's: switches, and what git or its user brings."""


def names_program(name: str) -> bool:
    """Return whether setting `name` (in any case) makes git start or trust something."""
    return bool(_SET_BY_COMMANDS.match(name))


def runs_program(name: str, value: str, *, reading: bool, verbs: frozenset[str]) -> bool:
    """Return whether git, asked for `verbs`, may start what a repository's setting names.

    `name` is as `git config --list` prints it. `reading` is whether the verbs only read.
    """
    special = _OF_A_VERB.fullmatch(name)
    if special is not None:
        if name.startswith("alias."):
            return special["named"] in verbs
        return (special["named"] or special["verb"]) in verbs and not _HARMLESS.fullmatch(value)
    known = _FOR_READERS if reading else _FOR_ALL
    return bool(known.fullmatch(name)) and not _HARMLESS.fullmatch(value)
