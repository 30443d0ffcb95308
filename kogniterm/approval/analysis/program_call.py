"""One program call under judgement: its findings, and the methods its rules are written with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kogniterm.approval.analysis.arguments import NO_RULES, CallWord, Parsed, Rules, parse_options
from kogniterm.approval.analysis.expansion import Scope, words_of_output
from kogniterm.approval.analysis.paths_and_variables import (
    HOLE,
    ResolvedPath,
    holds_secret_folder,
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
from kogniterm.approval.analysis.shared_findings import (
    DELETES_DEVICE,
    DELETES_FILE,
    DELETES_MANY,
    DELETES_OUTSIDE,
    DEVICE_PERMISSIONS,
    MAX_REASONS,
    REDIRECTS,
    UNREAD,
    USES_NETWORK,
    WRITES_DEVICE,
    WRITES_FILE,
    WRITES_OUTSIDE,
)
from kogniterm.text.visible import render
from kogniterm.types import (
    RISK_LABELS,
    Effect,
    EffectKind,
    GitCall,
    Part,
    Phrase,
    RiskLabel,
    RiskReport,
)

_RANK = {label: rank for rank, label in enumerate(RISK_LABELS)}
_MAX_EFFECTS = 400


def _shown(text: str) -> str:
    return text.replace(HOLE, "…")


class CommandFindings:
    """The facts about one command; its label only gets worse."""

    def __init__(self) -> None:
        self.label: RiskLabel = "safe_readonly"
        self._reasons: dict[str, tuple[int, Phrase]] = {}
        self._effects: dict[Effect, None] = {}
        self.argvs: list[tuple[str, ...]] = []
        """The programs found so far, in order."""
        self._parts: list[Part] = []
        self._running: list[int] = []
        """The numbers of the programs that are being judged."""
        self.beside: dict[str, Phrase] = {}
        """Actions of the command without a program that it names."""
        self._deciding: dict[str, None] = {}
        self._runs_input = False
        self._git_calls: dict[GitCall, None] = {}
        self._entered: list[str] = []

    def note(self, label: RiskLabel, template: str, **values: object) -> None:
        """Raise the label to at least `label`, because of what the template says."""
        if _RANK[label] > _RANK[self.label]:
            self.label = label
        for index in self._running:
            if _RANK[label] > _RANK[self._parts[index].label]:
                self._parts[index] = replace(self._parts[index], label=label)
        if len(self._reasons) >= _MAX_EFFECTS:
            return
        # A name or path of the command could otherwise hide characters in the reason itself.
        shown = {key: render(_shown(v)) if isinstance(v, str) else v for key, v in values.items()}
        text = Phrase(template, shown)
        self._reasons.setdefault(str(text), (_RANK[label], text))
        if _RANK[label] and not self._running:
            self.beside[str(text)] = text

    def ask(self, template: str, **values: object) -> None:
        """Record something that the user must approve."""
        self.note("needs_approval", template, **values)

    def danger(self, template: str, **values: object) -> None:
        """Record something dangerous, which auto mode never runs."""
        self.note("dangerous", template, **values)

    def scan(self, code: str, template: str) -> None:
        """Search code that is not parsed for dangerous patterns; record the worst one."""
        plain = _PUT_TOGETHER.sub(" ", code[:20000])
        for pattern, what in _WORST:
            if re.search(pattern, code[:20000], re.DOTALL) or re.search(pattern, plain, re.DOTALL):
                self.danger(template, what=what)
                return

    def effect(
        self, kind: EffectKind, target: str, *, outside: bool = False, source: str = ""
    ) -> None:
        """Record an effect, unknown parts of its target as "…"; the number kept is bounded."""
        if len(self._effects) < _MAX_EFFECTS:
            self._effects[Effect(kind, _shown(target), outside, source)] = None
        else:
            self.unread()

    def redirects(self, text: str) -> None:
        """Record a redirection that may lead to or from a file."""
        self.beside[text] = Phrase(REDIRECTS, {"text": render(_shown(text))})

    def program(self, argv: tuple[str, ...], part: Part | None = None) -> None:
        """Record a program that would run; their number is bounded."""
        if len(self.argvs) >= _MAX_EFFECTS:
            argv, part = UNREAD, None
        if len(self.argvs) <= _MAX_EFFECTS:
            self.argvs.append(tuple(map(_shown, argv)))
            self._parts.append(part or Part())

    @contextmanager
    def running(self, argv: tuple[str, ...], scope: Scope) -> Iterator[None]:
        """Record a program that would run; what is found meanwhile is about it."""
        self.program(argv, Part("safe_readonly", fed=scope.fed))
        index = len(self._parts) - 1
        self._running.append(index)
        yield
        self._running.pop()
        cwd = scope.cwd if scope.cwd is not None else HOLE
        folder = "…" if re.search(rf"[*?\[…{HOLE}]", cwd) else cwd
        folder = "" if cwd == scope.start else folder
        self._parts[index] = replace(self._parts[index], folder=folder)

    def decides(self, path: str) -> None:
        """Record a file, perhaps a missing one, whose content decides what runs."""
        if len(self._deciding) < _MAX_EFFECTS:
            self._deciding[path] = None

    def runs_input(self) -> None:
        """Record that a program runs what it reads: then every file read decides what runs."""
        self._runs_input = True

    def git_call(self, folder: str | None, *words: str) -> None:
        """Record that git is called in `folder`, None where that is not known, verb first."""
        if folder is None or HOLE in folder or len(self._git_calls) >= _MAX_EFFECTS:
            folder = ""
        self._git_calls[GitCall(folder, words)] = None

    def enters(self, folder: str) -> None:
        """Record a folder, as written, in which later programs may work."""
        if HOLE not in folder:
            self._entered.append(folder)

    def unread(self) -> None:
        """Record that something unjudged runs: no rule or lease may cover it."""
        self.program(UNREAD)

    def has(self, kind: EffectKind) -> bool:
        return any(effect.kind == kind for effect in self._effects)

    def report(self, command: str) -> RiskReport:
        """Return the report, worst reasons first."""
        ordered = sorted(self._reasons.values(), key=lambda item: -item[0])
        deciding = dict(self._deciding)
        if self._runs_input:
            deciding |= {e.target: None for e in self._effects if e.kind in ("read", "secret")}
        return RiskReport(
            command,
            self.label,
            tuple(text for _, text in ordered[:MAX_REASONS]),
            tuple(self._effects),
            tuple(self.argvs),
            tuple(name for name in deciding if "…" not in name),
            git_calls=tuple(
                replace(call, entered=tuple(self._entered)) for call in self._git_calls
            ),
            parts=tuple(self._parts),
            beside=tuple(self.beside.values())[:MAX_REASONS],
        )


_WORST = (
    (r"rm\s+(?:-\w+\s+)*-\w*[rRf]\w*\s+(?:--\S+\s+)*[\"']?(?:/|~|\$HOME|\*|\.\.?(?:[\"'\s]"
        r"|$))", Phrase("deletes many files at once")),
    (r"rmtree\(\s*(?:[\"'](?:/|~|\.\.)|os\.path\.expanduser|Path\.home"
        r"|[\"']\.[\"'])", Phrase("deletes whole folders")),
    (r"rm_rf|rimraf|rmSync\([^)]*recursive|removeSync|File::Path.*(?:rmtree"
        r"|remove_tree)", Phrase("deletes whole folders")),
    (r"mkfs|/dev/(?:sd|nvme|hd|vd|mmcblk|mem)|dd\s+if=", Phrase("writes directly to a disk")),
    (r"socket.*(?:dup2|subprocess|pty\.spawn|/bin/(?:ba)?sh|exec)|pty\.spawn|/dev/tcp/"
        r"|fsockopen.*exec", Phrase("exposes a shell to the network")),
    (r"(?:curl|wget)[^|;&]*\|\s*(?:ba|z|da)?sh\b|exec\(\s*(?:urllib"
        r"|requests)", Phrase("runs code downloaded from the network")),
    (r":\(\)\s*\{|while\s+(?:True|1)\s*:?\s*os\.fork|fork\s+while\s+fork"
        r"|os\.fork\(\)\s*while", Phrase("starts processes endlessly")),
    (r"os\.kill\(\s*-1|kill\s+-9\s+-1", Phrase("ends every process")),
    (r"authorized_keys|/etc/(?:passwd|shadow|sudoers|cron)|\.bashrc"
        r"|\.ssh/", Phrase("accesses files that control other programs")),
    (r"base64.{0,40}(?:b64decode|decode64|-d).{0,60}(?:exec|eval|system)|(?:exec"
        r"|eval)\(.{0,60}(?:b64decode|decode64|unhexlify|fromhex|atob"
            r"|marshal)", Phrase("runs decoded text KogniTerm cannot inspect")),
)  # fmt: skip

_PUT_TOGETHER = re.compile(r"\$\{?IFS\}?|[{},]")
"""Text that a shell turns into blanks: braces and the separator variable."""


_ADDRESS = re.compile(r"(?:https?|ftps?|sftp|s3|ssh)://", re.IGNORECASE)
"""Addresses that readers of many formats fetch (libxml2, ImageMagick, FFmpeg)."""

_KINDS_OF_PATH: Mapping[str, Callable[[ResolvedPath], bool]] = {
    "device": lambda resolved: is_device(resolved.path),
    "kernel": lambda resolved: resolved.path.startswith(("/proc/", "/sys/")),
    "history": lambda resolved: is_history(resolved.path),
    "steering": lambda resolved: is_steering(resolved.path),
    "secret": lambda resolved: is_secret(resolved.path),
    "repository": lambda resolved: is_inside_repository(resolved.path),
    "system": lambda resolved: is_system(resolved.path) and not resolved.inside,
    "inside": lambda resolved: resolved.inside,
    "unknown": lambda resolved: not resolved.known,
    "outside": lambda _: True,
}
_CHANGES: Mapping[str, Mapping[str, tuple[RiskLabel, str] | None]] = {
    "write": {
        "device": ("dangerous", WRITES_DEVICE),
        "kernel": ("dangerous", "Changes kernel settings ({path})."),
        "history": ("dangerous", "Tampers with the shell history."),
        "steering": ("dangerous", "Changes {path}, which controls other programs."),
        "repository": ("needs_approval", "Changes {path}, part of git's internal data."),
        "system": ("dangerous", "Changes {path}, which belongs to the system."),
        "inside": ("workspace_write", WRITES_FILE),
        "unknown": ("needs_approval", "Writes to a file whose name is known only at run time."),
        "outside": ("needs_approval", WRITES_OUTSIDE),
    },
    "delete": {
        "device": ("dangerous", DELETES_DEVICE),
        "history": ("dangerous", "Tampers with the shell history."),
        "steering": ("dangerous", "Deletes {path}, which other programs depend on."),
        "inside": ("needs_approval", DELETES_FILE),
        "system": ("dangerous", "Deletes {path}, which belongs to the system."),
        "outside": ("needs_approval", DELETES_OUTSIDE),
    },
    "move": {
        "steering": ("dangerous", "Moves {path}, which other programs depend on."),
        "system": ("dangerous", "Moves {path}, which other programs depend on."),
        "inside": None,
        "outside": ("needs_approval", "Moves {path}, outside the workspace."),
    },
    "rights": {
        "device": ("dangerous", DEVICE_PERMISSIONS),
        "system": (
            "dangerous",
            "Changes the permissions of {path}, which belongs to the system.",
        ),
        "secret": ("needs_approval", "Changes the permissions of {path}."),
        "steering": ("needs_approval", "Changes the permissions of {path}."),
        "inside": None,
        "outside": (
            "needs_approval",
            "Changes the permissions of {path}, outside the workspace.",
        ),
    },
}
"""The judgement on a change of a path, by the first kind of path that it is."""


@dataclass(frozen=True)
class Call:
    """A program with its arguments, its scope, and the functions that judge what it starts."""

    name: str
    args: tuple[CallWord, ...]
    scope: Scope
    findings: CommandFindings
    run: Callable[[tuple[CallWord, ...], Scope, bool], None]
    """Judges an inner call: argv, scope, and whether its input is a pipe."""
    shell: Callable[[str, Scope], None]
    """Judges shell text."""
    rules: Rules = NO_RULES
    piped: bool = False
    stdin: str | None = None
    """The input from a heredoc or here-string, where it is known."""

    # --- arguments ------------------------------------------------------------------------------

    @property
    def words(self) -> list[str]:
        """The arguments as text, holes as …."""
        return [_shown(arg.value) for arg in self.args]

    @property
    def bare(self) -> list[CallWord]:
        return [arg for arg in self.args if not arg.value.startswith("-")]

    def parse(self, *, operands_end: bool = False, single: bool = False) -> Parsed:
        """Split the arguments by the program's rules."""
        return parse_options(self.args, self.rules, operands_end=operands_end, single=single)

    # --- saying ---------------------------------------------------------------------------------

    def notes(self, template: str) -> None:
        """Record that it changes the workspace only."""
        self.findings.note("workspace_write", template, program=self.name)

    def ask(self, template: str, **values: object) -> None:
        """Ask the user; the template may name the program."""
        self.findings.ask(template, program=self.name, **values)

    def danger(self, template: str, **values: object) -> None:
        """Record a danger; the template may name the program."""
        self.findings.danger(template, program=self.name, **values)

    def network(self, target: str = "") -> None:
        """Record that it talks to the network."""
        self.findings.effect("network", _shown(target or self.name))
        self.ask(USES_NETWORK)

    def inner(self, args: tuple[CallWord, ...], *, piped: bool = False) -> None:
        """Judge the call `args` that this program would start."""
        self.run(args, self.scope, piped)

    def starts(self, text: str) -> None:
        """Judge shell text that an option, a variable or a file gives to a shell later."""
        self.shell(text.replace(HOLE, "$UNKNOWN"), self.scope.branch())

    def runs(self, text: str) -> None:
        """Judge shell text that runs in this shell; its unknown parts are a variable in it."""
        self.shell(text.replace(HOLE, "$UNKNOWN"), self.scope)

    # --- paths ----------------------------------------------------------------------------------

    def resolve(self, argument: CallWord) -> ResolvedPath:
        """Return where `argument`, taken as a path, leads."""
        return self.scope.resolve(argument.value, glob=argument.glob)

    def show_path(self, resolved: ResolvedPath) -> str:
        """Return `resolved` as shown in a reason."""
        return self.scope.roots.show_path(resolved.path)

    def effect(self, kind: EffectKind, resolved: ResolvedPath, source: str = "") -> None:
        """Record an effect on the file at `resolved`."""
        self.findings.effect(
            kind, self.show_path(resolved), outside=not resolved.inside, source=source
        )

    def reads(self, argument: CallWord, *, content: bool = True) -> None:
        """Judge that it reads the file `argument`, or without `content` only lists it."""
        value = argument.value
        if value == "-" or not value:
            return
        resolved = self.resolve(argument)
        if _ADDRESS.match(value) or is_network_device(resolved.path):
            self.network(value if _ADDRESS.match(value) else resolved.path)
            return
        if content and is_device(resolved.path):
            self.ask("Reads the device {path}.", path=self.show_path(resolved))
        secret = self._secret_content(argument, resolved) if content else None
        if secret is not None:
            self.secret(secret)
        elif is_secret(resolved.path, glob=content and (resolved.glob or HOLE in resolved.path)):
            self.secret(resolved)
        else:
            self.effect("read", resolved)

    def _secret_content(self, argument: CallWord, resolved: ResolvedPath) -> ResolvedPath | None:
        """Return the secret that reading an argument known only at run time may reach."""
        if any(is_secret_file_variable(name) for name in argument.names):
            return resolved
        if HOLE not in argument.value:
            return None
        for word in (word for one in argument.inner for word in words_of_output(one.node)):
            spoken = self.scope.resolve(word)
            if is_secret(spoken.path):
                return spoken
        folder, _, name = resolved.path.rpartition("/")
        if name != HOLE or not argument.tainted:
            return None
        keeps = folder in {"", "/etc", "/root"} or holds_secret_folder(folder, self.scope.roots)
        return resolved if keeps else None

    def read_later(self, arguments: Iterable[CallWord]) -> None:
        """Ask about secret paths among `arguments`, which are kept, in a variable for instance."""
        for resolved in map(self.resolve, arguments):
            if is_secret(resolved.path, glob=resolved.glob):
                self.secret(resolved)

    def mentions(self, args: Iterable[CallWord] | None = None) -> None:
        """Ask about the secret files named in its arguments, also as `@file` or `name=file`."""
        for arg in self.args if args is None else args:
            for piece in re.split(r"[=@:,;]", arg.value):
                if piece and len(piece) <= 300 and " " not in piece:
                    self.read_later([arg._replace(value=self.scope.roots.tilde(piece))])

    def secret(self, resolved: ResolvedPath) -> None:
        """Record that it reads something secret."""
        self.effect("secret", resolved)
        self.ask("Reads {path}, which may contain secrets.", path=self.show_path(resolved))

    def writes(
        self, argument: CallWord, kind: EffectKind = "overwrite", *, source: CallWord | None = None
    ) -> None:
        """Judge that it writes `argument`; `source` is copied there."""
        copied = self.show_path(self.resolve(source)) if source is not None else ""
        for resolved in self.scope.meanings(argument.value, glob=argument.glob):
            if kind == "create" or not (is_harmless_device(resolved.path) or argument.value == "-"):
                self.effect(kind, resolved, copied)
                self.changes("write", resolved)

    def changes(self, how: str, resolved: ResolvedPath) -> None:
        """Judge a change of the file at `resolved`; `how` is write, delete, move or rights."""
        if is_network_device(resolved.path) and how == "write":
            self.network(resolved.path)
            return
        meanings = _CHANGES[how].items()
        meaning = next(meaning for kind, meaning in meanings if _KINDS_OF_PATH[kind](resolved))
        if meaning is not None:
            label, template = meaning
            self.findings.note(label, template, path=self.show_path(resolved))

    def deletes(self, argument: CallWord, *, recursive: bool = False, forced: bool = False) -> None:
        """Judge that it deletes `argument`."""
        resolved = self.resolve(argument)
        self.effect("delete", resolved)
        path, shown = resolved.path, self.show_path(resolved)
        unknown = recursive and argument.value.startswith(HOLE)
        if is_device(path) or is_history(path):
            self.changes("delete", resolved)
        elif (recursive or resolved.glob) and is_broad(resolved, self.scope.roots):
            self.danger(DELETES_MANY, path=shown)
        elif unknown and ("/" in argument.value or (forced and argument.names)):
            self.danger("Deletes folders whose names are known only at run time.")
        elif recursive and path.endswith("/.git"):
            self.danger("Deletes {path}, which other programs depend on.", path=shown)
        elif (
            recursive
            and resolved.known
            and not (resolved.inside or is_temporary(path) or is_system(path) or is_steering(path))
        ):
            self.danger("Deletes a folder outside the workspace: {path}.", path=shown)
        else:
            self.changes("delete", resolved)
