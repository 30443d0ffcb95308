"""The secrets that the user gave in this process: variables for commands that name them.

The values are in this process's memory only. The journal knows the names, so that a later process
can tell that a value is missing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Literal
from urllib.parse import unquote

from kogniterm.approval import SecretUse, names_variables, secret_use
from kogniterm.errors import ExecutionError, UsageError
from kogniterm.text.redact import find_secrets, holds_mark
from kogniterm.types import Phrase, RiskReport

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}|")
_NUMBERED = re.compile(r"SECRET_([0-9]{1,9})\Z")
_READ_BY_OTHERS = re.compile(
    r"(?:BASH|LD_|GIT_|KOGNITERM|LC_|GLIBC_|MALLOC_|GCONV_|HIST|COMP_|OPT|EPOCH|PS[0-9]|OTEL_|__|XDG_"
    r"|READLINE_|SSH_|SUDO_|MAIL|SHELL|LANG|TZ|\w*(?:PATH|EDITOR|PAGER|ASKPASS|proxy|PROXY)\Z"
    r"|(?:_|A|AUTO_RESUME|BROWSER|CHILD_MAX|COLUMNS|COPROC|DIRSTACK|ENV|EMAIL|E?UID|EXECIGNORE|FCEDIT"
    r"|FIGNORE|FUNC\w+|GLOB\w+|GROUPS|HOME|HOST\w+|IFS|IGNOREEOF|INPUTRC|INSIDE_EMACS|LESS|LINENO"
    r"|LINES|LOCALDOMAIN|LOGNAME|MACHTYPE|MAPFILE|OLDPWD|OSTYPE|PIPESTATUS|POSIXLY_CORRECT|PPID"
    r"|PROMPT_\w+|PWD|S?RANDOM|REPLY|RES_OPTIONS|SECONDS|SHLVL|TERM|TIMEFORMAT|TMOUT|TMPDIR|USER"
    r"|VISUAL)\Z)"
)
"""Names that bash, the dynamic loader, the C library, git or KogniTerm read."""
_PASSWORD = re.compile(r"://[^/@:]*:([^/@]+)@")
LONGEST = 32_768
"""Characters of a value; the kernel takes little more in one variable."""
LEAST_HIDDEN = 6
"""Characters from which on redaction finds a value in output."""
AskSecret = Callable[[str], Awaitable[str | None]]
"""Asks the user for the value of a secret, by its name, without an echo; None for none."""
UNREAD = Phrase(
    "Names the secret {name}, but could not be parsed, so it was not run. Write it more simply."
)
NOT_ON_HOSTS = Phrase(
    "Names the secret {name}, which only commands on this machine get, so it was not run."
)
NOT_GRANTED = Phrase(
    "Gives the secret {name} to {programs}, and no user is there to approve that. To allow it in "
    "such a run, grant it to each of these programs with the option --allow-secret."
)
MISSING = Phrase(
    "The value of the secret {name} is not known in this process, so the command was not run. "
    "The user can give it again with /secret {name}, or --secret {name} of kogniterm run."
)


class UserSecrets:
    """The values by name, and the programs that each was granted to for runs without a user.

    `own` are the secrets of KogniTerm's settings, `reserved` the variables that set them; none of
    them becomes a variable. `noted` returns the names in the journal, `tell` takes names and values
    after a change. `ask` asks a user who is there for a missing value; `answers` says whether a
    user answers now, later or never. Nothing shows the values: `repr` has names only.
    """

    def __init__(self, own: Iterable[str] = (), reserved: Collection[str] = ()) -> None:
        self._own = own_parts(own)
        self._reserved = reserved
        self._values: dict[str, str] = {}
        self._granted: set[tuple[str, str]] = set()
        self._untold: dict[str, None] = {}
        self.noted: Callable[[], Collection[str]] = tuple
        self.tell: Callable[[Mapping[str, str]], None] = lambda values: None
        self.ask: AskSecret | None = None
        self.answers: Literal["now", "later", "never"] = "never"

    def __repr__(self) -> str:
        return f"UserSecrets({', '.join(self._values)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name that was given in the session, also where the value is missing."""
        return tuple(dict.fromkeys((*self.noted(), *self._values)))

    def next_name(self) -> str:
        """Return the name of the next secret that gets none from the user."""
        found = (_NUMBERED.match(name) for name in self.names)
        return f"SECRET_{1 + max((int(one[1]) for one in found if one is not None), default=0)}"

    def check(self, name: str, value: str = "-") -> None:
        """Raise `UsageError` if a secret cannot have this name or this value."""
        if not _NAME.fullmatch(name):
            raise UsageError("A secret needs the name of a variable: letters, digits and _.")
        if name in self._reserved or _READ_BY_OTHERS.match(name):
            raise UsageError(
                "{name} cannot be a secret: bash, the system, git or KogniTerm itself reads this "
                "variable. Choose another name.",
                name=name,
            )
        if not value or "\0" in value or len(value) > LONGEST:
            raise UsageError("The value of a secret has 1 to {most} characters.", most=LONGEST)
        if holds_own(value, self._own):
            raise UsageError(
                "This value belongs to KogniTerm's own settings, which no command gets. Create "
                "another key for commands."
            )

    def give(self, value: str, name: str = "", *, told: bool = False) -> str:
        """Take a value for `name`, without one for the next SECRET_n; return the name.

        Unless the model was `told` of it, it is with the next message. Raises `UsageError`.
        """
        self.check(name, value)
        name = name or self.next_name()
        self._values[name] = value
        self._untold |= {} if told else {name: None}
        self.tell(self._values)
        return name

    def untold(self) -> tuple[str, ...]:
        """Return, once, the names that the model has not been told of."""
        names, self._untold = tuple(self._untold), {}
        return names

    def named_in(self, text: str) -> str:
        """Return a message of the user with `$NAME` for each secret in it, which is then given."""
        for name, value in sorted(self._values.items(), key=lambda one: -len(one[1])):
            if len(value) >= LEAST_HIDDEN:
                text = text.replace(value, f"${name}")
        pieces, end = [], 0
        for secret in find_secrets(text):
            value = text[secret.start : secret.end]
            if holds_mark(value) or len(value) > LONGEST or holds_own(value, self._own):
                continue
            name = next((name for name, known in self._values.items() if known == value), "")
            pieces += [text[end : secret.start], f"${name or self.give(value)}"]
            end = secret.end
        return "".join([*pieces, text[end:]])

    def allow(self, name: str, program: str) -> None:
        """Grant a secret to a program for runs without a user."""
        self._granted.add((name, program))

    def use_in(
        self, report: RiskReport, *, on_hosts: bool = False
    ) -> tuple[SecretUse, Phrase | None]:
        """Return how a command uses secrets, and why it cannot be run, if it cannot."""
        use = secret_use(report, self.names)
        lost = [one for one in use.names if one not in self._values]
        values = {"name": (lost or use.names or ("",))[0], "programs": ", ".join(use.programs)}
        granted = all((n, p) in self._granted for n in use.names for p in use.programs)
        why = (
            UNREAD if use.unread
            else NOT_ON_HOSTS if on_hosts
            else MISSING if lost and (self.answers != "now" or self.ask is None)
            else NOT_GRANTED if self.answers != "now" and not granted
            else None
        )  # fmt: skip
        return use, Phrase(why.template, values) if why is not None and use.names else None

    def missing(self, command: str) -> tuple[str, ...]:
        """Return the secrets that a command names and whose values are not known here."""
        found = names_variables(command, self.names) or ()
        return tuple(sorted(name for name in found if name not in self._values))

    def values_for(self, command: str) -> dict[str, str]:
        """Return the variables of the secrets that a command names. Raises `ExecutionError`."""
        for name in self.missing(command):
            raise ExecutionError(MISSING.template, name=name)
        return {n: self._values[n] for n in names_variables(command, self.names) or ()}


def describe_receivers(use: SecretUse) -> Phrase | None:
    """Return a sentence about the programs that receive secrets; None if there are none."""
    values = {"names": ", ".join(use.names), "programs": ", ".join(use.programs)}
    return Phrase("Gives the secret {names} to {programs}.", values) if use.names else None


def own_parts(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return secrets of the settings, and the passwords in those that are addresses."""
    secrets = tuple(secrets)
    written = [found for one in secrets for found in _PASSWORD.findall(one)]
    return tuple(filter(None, dict.fromkeys((*secrets, *written, *map(unquote, written)))))


def holds_own(value: str, own: Iterable[str]) -> bool:
    """Return whether `value` is one of the secrets `own`, or contains one that is not short."""
    return any(value == one or (len(one) > LEAST_HIDDEN and one in value) for one in own)


def without_own(environ: Mapping[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """Return an environment without the variables that hold a secret of the settings."""
    own = own_parts(secrets)
    return {name: value for name, value in environ.items() if not holds_own(value, own)}
