"""Findings that other parts of KogniTerm look for by their template, each written only here.

The hard limits, the temporary permissions and the approval question choose findings by template. A
second copy of the text there would stop matching as soon as one of the two is edited.
"""

from __future__ import annotations

CALLS_ITSELF = "{name} calls itself endlessly."
WRITES_DEVICE = "Writes to the device {path}."
DELETES_DEVICE = "Deletes the device {path}."
DEVICE_PERMISSIONS = "Changes the permissions of the device {path}."
DESTROYS_DISK = "{program} destroys the contents of a disk."
DELETES_ROOT = "{program} with --no-preserve-root can delete the root folder."
REDIRECTS_SHELL = "Exposes a shell on this machine to the network ({path})."
EXPOSES_SHELL = "{program} exposes a shell on this machine to the network."
EXPOSES_PROGRAM = "{program} exposes a program on this machine to the network."
ENDS_ALL_PROCESSES = "{program} would end every process or process 1."

UNREAD = ("…",)
"""The entry among the programs of a report for what could not be read."""

MAX_REASONS = 24
"""The most reasons that a report has."""
BUILTINS_WITH_STATE = frozenset({
    ".", "alias", "bg", "bind", "builtin", "cd", "command", "complete", "declare", "dirs", "disown",
    "enable", "eval", "exec", "exit", "export", "fc", "fg", "getopts", "hash", "history", "jobs",
    "kill", "let", "local", "logout", "mapfile", "popd", "pushd", "read", "readarray", "readonly",
    "return", "set", "shift", "shopt", "source", "suspend", "times", "trap", "typeset", "ulimit",
    "umask", "unalias", "unset", "wait",
})  # fmt: skip
"""Builtins that change the shell for the next command, or read what the last one left."""

DELETES_MANY = "Deletes many files at once: {path}."
MANY_PERMISSIONS = "Changes the permissions of many files at once: {path}."
MOVES_MANY = "Moves many files at once: {path}."
MIRRORS = "{program} deletes files from {path} that are not in its source."

WRITES_FILE = "Writes {path}."
DELETES_FILE = "Deletes {path}."
DELETES_OWN_FILE = "Deletes {path}, which this session created."
REDIRECTS = "Redirects input or output ({text})."
WRITES_OUTSIDE = "Writes {path}, outside the workspace."
DELETES_OUTSIDE = "Deletes {path}, which may be outside the workspace."
USES_NETWORK = "{program} uses the network."

ALWAYS_DENIED = frozenset(
    {
        CALLS_ITSELF,
        WRITES_DEVICE,
        DELETES_DEVICE,
        DESTROYS_DISK,
        DELETES_ROOT,
        REDIRECTS_SHELL,
        EXPOSES_SHELL,
        EXPOSES_PROGRAM,
        ENDS_ALL_PROCESSES,
    }
)
"""Findings that a hard limit denies wherever they occur."""
DENIED_FOR_ROOTS = frozenset({DELETES_MANY, MANY_PERMISSIONS, MOVES_MANY, MIRRORS})
"""Findings that a hard limit denies for `/`, a home folder or a folder of the system."""
NAMES_A_FILE = frozenset({WRITES_FILE, DELETES_FILE, DELETES_OWN_FILE})
"""Findings that only repeat an effect on a file of the workspace."""
ON_FILES = NAMES_A_FILE | {WRITES_OUTSIDE, DELETES_OUTSIDE, REDIRECTS}
"""Findings that are about nothing but the file that an effect names."""
REPEATS_EFFECT = frozenset({WRITES_FILE, DELETES_FILE, USES_NETWORK})
"""Findings that say less than the effect they come with."""
