"""One program call under judgement, and the verbs its rules are written in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kogniterm.approval.findings import Findings
from kogniterm.approval.places import (
    HOLE,
    Place,
    is_broad,
    is_device,
    is_harmless_device,
    is_history,
    is_inside_repository,
    is_network_device,
    is_secret,
    is_secret_file_variable,
    is_steering,
    is_system,
    is_temporary,
)
from kogniterm.approval.prints import spoken_of
from kogniterm.approval.scope import Argument, Scope
from kogniterm.types import EffectKind

_ADDRESS = re.compile(r"(?:https?|ftps?|sftp|s3|ssh)://", re.IGNORECASE)
"""What readers of many formats fetch (libxml2, ImageMagick, FFmpeg)."""


@dataclass(frozen=True)
class Call:
    """A program with its arguments, where it would run, and how to judge what it starts."""

    name: str
    args: tuple[Argument, ...]
    scope: Scope
    findings: Findings
    run: Callable[[tuple[Argument, ...], Scope, bool], None]
    """Judges an inner call (argv, scope, whether its input is a pipe)."""
    shell: Callable[[str, Scope], None]
    """Judges shell text."""
    piped: bool = False
    stdin: str | None = None
    """What a heredoc or here-string gives it to read, where that is known."""

    # --- saying ---------------------------------------------------------------------------------

    def ask(self, template: str, **values: object) -> None:
        """A person must approve; `{program}` is this program."""
        self.findings.ask(template, program=self.name, **values)

    def danger(self, template: str, **values: object) -> None:
        """Dangerous; `{program}` is this program."""
        self.findings.danger(template, program=self.name, **values)

    def network(self, target: str = "") -> None:
        """It talks to the network."""
        self.findings.effect("network", (target or self.name).replace(HOLE, "…"))
        self.ask("{program} talks to the network.")

    def inner(self, args: tuple[Argument, ...], *, piped: bool = False) -> None:
        """Judge the call `args` that this program would start."""
        self.run(args, self.scope, piped)

    def starts(self, text: str) -> None:
        """Judge shell text that an option, a variable or a file hands to a shell at some time."""
        self.shell(text.replace(HOLE, "$UNKNOWN"), self.scope.branch())

    def with_args(self, args: tuple[Argument, ...]) -> Call:
        """The same program with other arguments."""
        return replace(self, args=args)

    def with_scope(self, scope: Scope) -> Call:
        """The same call elsewhere."""
        return replace(self, scope=scope)

    # --- paths ----------------------------------------------------------------------------------

    def place(self, argument: Argument) -> Place:
        """Where `argument` leads, taken as a path."""
        return self.scope.place(argument.value, glob=argument.glob)

    def _effect(self, kind: EffectKind, place: Place, source: str = "") -> None:
        shown = place.path.replace(HOLE, "…")
        self.findings.effect(
            kind, self.scope.ground.shown(shown), outside=not place.inside, source=source
        )

    def shown(self, place: Place) -> str:
        """`place` for a reason."""
        return self.scope.ground.shown(place.path)

    def reads(self, argument: Argument, *, content: bool = True) -> None:
        """It reads the file `argument`, or with `content` false only looks at it."""
        value = argument.value
        if value == "-" or not value:
            return
        if _ADDRESS.match(value):
            self.network(value)
            return
        place = self.place(argument)
        if is_network_device(place.path):
            self.network(place.path)
            return
        if content and any(is_secret_file_variable(name) for name in argument.names):
            self.secret(place)
            return
        if content and is_device(place.path):
            self.ask("It reads the device {path}.", path=self.shown(place))
        if content and HOLE in value:
            for word in (word for one in argument.inner for word in spoken_of(one.node)):
                if is_secret(self.scope.place(word).path):
                    self.secret(self.scope.place(word))
                    return
        folder, _, name = place.path.rpartition("/")
        if content and name == HOLE and argument.tainted and self.scope.keeps_secrets(folder):
            self.secret(place)
            return
        reaches = content and (place.glob or HOLE in place.path)
        if is_secret(place.path, glob=reaches):
            self.secret(place)
        else:
            self._effect("read", place)

    def read_later(self, arguments: Iterable[Argument]) -> None:
        """Paths are kept, in a variable or so: a secret one is asked about already."""
        for place in map(self.place, arguments):
            if is_secret(place.path, glob=place.glob):
                self.secret(place)

    def secret(self, place: Place) -> None:
        """It reads something secret."""
        self._effect("secret", place)
        self.ask("It reads {path}, which may hold secrets.", path=self.shown(place))

    def writes(
        self, argument: Argument, *, append: bool = False, source: Argument | None = None
    ) -> None:
        """It creates or overwrites the file `argument`; `source` is what is copied there."""
        place = self.place(argument)
        if is_harmless_device(place.path) or argument.value == "-":
            return
        copied = self.shown(self.place(source)) if source is not None else ""
        self._effect("write" if append else "overwrite", place, copied)
        self.changes(place)

    def creates(self, argument: Argument) -> None:
        """It creates `argument`, or leaves what is there as it is."""
        place = self.place(argument)
        self._effect("create", place)
        self.changes(place)

    def changes(self, place: Place) -> None:
        """What changing the file at `place` means."""
        path = place.path
        shown = self.shown(place)
        if is_network_device(path):
            self.network(path)
        elif is_device(path):
            self.danger("It writes to the device {path}.", path=shown)
        elif path.startswith(("/proc/", "/sys/")):
            self.danger("It changes the kernel's settings ({path}).", path=shown)
        elif is_history(path):
            self.danger("It tampers with the shell's history.")
        elif is_steering(path):
            self.danger("It changes {path}, which other programs obey.", path=shown)
        elif is_inside_repository(path):
            self.ask("It changes {path}, which git keeps for itself.", path=shown)
        elif is_system(path) and not place.inside:
            self.danger("It changes a file of the system: {path}.", path=shown)
        elif place.inside:
            self.findings.note("workspace_write", "It writes {path}.", path=shown)
        elif not place.known:
            self.ask("It writes to a file only known when it runs.")
        elif is_temporary(path):
            self.ask("It writes {path}, outside the workspace.", path=shown)
        else:
            self.ask("It writes {path}, outside the workspace.", path=shown)

    def deletes(self, argument: Argument, *, recursive: bool = False, forced: bool = False) -> None:
        """It deletes `argument`."""
        place = self.place(argument)
        self._effect("delete", place)
        path, shown = place.path, self.shown(place)
        if is_history(path):
            self.danger("It tampers with the shell's history.")
        starts_unknown = argument.value.startswith(HOLE)
        if is_device(path):
            self.danger("It deletes the device {path}.", path=shown)
        elif is_broad(place, self.scope.ground) and (recursive or place.glob):
            self.danger("It deletes far more than one file: {path}.", path=shown)
        elif (
            recursive and starts_unknown and ("/" in argument.value or (forced and argument.names))
        ):
            self.danger("It deletes folders whose name is only known when it runs.")
        elif is_steering(path) or (path.endswith("/.git") and recursive):
            self.danger("It deletes {path}, which other programs depend on.", path=shown)
        elif place.inside:
            self.ask("It deletes {path}.", path=shown)
        elif is_system(path):
            self.danger("It deletes a file of the system: {path}.", path=shown)
        elif recursive and place.known and not is_temporary(path):
            self.danger("It deletes a folder outside the workspace: {path}.", path=shown)
        else:
            self.ask("It deletes {path}, which may be outside the workspace.", path=shown)
