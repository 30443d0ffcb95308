"""Leases: permissions a user granted for a session or a project. Pure data and rules.

A lease covers what its sentence says: exactly one command; one program with the same options; one
program with a fixed subcommand, inside a sandbox; one kind of effect on files of a folder or on
addresses; edits of a workspace's files by tools; calls of one tool that is not KogniTerm's, or of
all of one MCP server; or, where a skill names them, commands that begin with the same words. It
never covers an effect or a reason that the command it was granted for did not have, and nothing
dangerous. Only calls listed in `tables/lease_forms.txt` are covered as a program or an effect, and
only those of `tables/run_forms.txt` by their subcommand.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from kogniterm.approval.analysis.arguments import (
    CallWord,
    Rules,
    parse_options,
    rule_table,
    rules_for,
)
from kogniterm.approval.analysis.paths_and_variables import (
    is_inside_repository,
    is_secret,
    is_steering,
    names,
    within,
)
from kogniterm.approval.analysis.shared_findings import DELETES_FILE, NAMES_A_FILE
from kogniterm.approval.policy.rules import (
    MOVES,
    find_uncovered,
    only_reads,
    program_name,
    programs_with_parts,
)
from kogniterm.approval.policy.run_forms import run_form
from kogniterm.text.visible import render
from kogniterm.types import (
    CHANGING_KINDS,
    RISK_LABELS,
    Effect,
    EffectKind,
    Part,
    Phrase,
    RiskReport,
)

LeaseKind = Literal["exact", "program", "runs", "effect", "edits", "calls", "server", "words"]
LEASE_KINDS: tuple[LeaseKind, ...] = tuple(kind for kind in get_args(LeaseKind) if kind != "words")
"""The kinds that can be saved; "words" is granted for a session only."""

KIND_WORDS: Mapping[EffectKind, Phrase] = {
    "read": Phrase("reading files"),
    "create": Phrase("creating files"),
    "write": Phrase("writing files"),
    "overwrite": Phrase("overwriting files"),
    "delete": Phrase("deleting files"),
    "network": Phrase("using the network"),
    "privilege": Phrase("using elevated privileges"),
    "execute": Phrase("running code"),
    "secret": Phrase("reading secrets"),
    "process": Phrase("acting on processes"),
}
_IMPLIED: Mapping[EffectKind, frozenset[EffectKind]] = {
    "overwrite": frozenset({"overwrite", "write", "create"}),
    "write": frozenset({"write", "create"}),
}
"""Kinds of change that a granted kind includes: overwriting includes writing and creating."""
_ON_FILES: frozenset[EffectKind] = frozenset({"create", "write", "overwrite"})
_CHANGES_REPOSITORY = Effect("write", ".git")
_WILD = re.compile(r"[*?\[…]")
_PLAIN_NAME = re.compile(r"\w[\w.@+-]*(?:/[\w@+-][\w.@+-]*)*(?::\w[\w./-]*)?")
"""A name of a remote, a branch or a tag, and neither a file elsewhere nor an address."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A granted permission.

    `report` is the risk report it was granted for; `folder` is where it holds and below which files
    may be touched, or it holds `anywhere` in `workspace`, to which targets of reports are relative.
    A command that it covers runs `outside` the sandbox, or else inside. `origin` is the file and
    line of one that was saved for a project; it is `void` when another folder now has the project's
    name. `used` is the number of uses in this process, `last_used` the time of the last one, in
    seconds of the caller's clock.
    """

    id: str
    kind: LeaseKind
    report: RiskReport
    folder: str
    workspace: str
    outside: bool = False
    anywhere: bool = False
    origin: str = ""
    void: bool = False
    used: int = 0
    last_used: float | None = None

    @property
    def text(self) -> Phrase:
        if self.kind == "exact" and not self.anywhere:
            values = {"command": render(self.report.command), "folder": self.folder}
            exactly = Phrase("exactly this command: {command} (in {folder})", values)
            return _with_place(exactly, outside=self.outside)
        words = _words(self.report, self.kind, self._root, anywhere=self.anywhere)
        return _with_place(words, outside=self.outside)

    @property
    def _root(self) -> str:
        return self.workspace if self.anywhere else self.folder

    def mismatch(self, report: RiskReport, *, folder: str) -> Phrase | None:
        """Return why it does not cover `report` in `folder`; None when it does."""
        if self.void:
            return Phrase("another folder is now at {folder}", {"folder": self.workspace})
        if self.kind == "edits":
            only = Phrase("it covers only edits of ordinary files in the workspace")
            return None if is_plain_edit(report) else only
        if self.kind == "words":
            return self._words_mismatch(report, folder)
        if self.kind in ("calls", "server"):
            if report.label == "dangerous":
                return Phrase("no permission covers dangerous commands")
            called = _called_tool if self.kind == "calls" else _called_server
            granted = {(one.kind, one.target) for one in self.report.effects}
            found = {(one.kind, one.target) for one in report.effects}
            if self.kind == "server":
                found -= {("execute", _called_tool(report))}
            if called(report) != called(self.report) or not found <= granted:
                return Phrase("it covers only {calls}", {"calls": self.text})
            return None
        here = posixpath.normpath(folder)
        if here != self._root and not (self.anywhere and within(here, self._root)):
            return Phrase("it applies only in {folder}", {"folder": self._root})
        if report.label == "dangerous":
            return Phrase("no permission covers dangerous commands")
        if self.kind == "exact":
            other = self._exact_mismatch(report)
        else:
            wider = next((e for e in report.effects if not self._covers_effect(e)), None)
            other = _wider(wider) if wider is not None else self._programs_mismatch(report, here)
        return other or self._reasons_mismatch(report)

    def _words_mismatch(self, report: RiskReport, folder: str) -> Phrase | None:
        """Return why commands that begin with the granted words do not include this one."""
        if not within(posixpath.normpath(folder), self.folder):
            return Phrase("it applies only in {folder}", {"folder": self.folder})
        if report.label == "dangerous":
            return Phrase("no permission covers dangerous commands")
        words, more = named_words(self.report.command)

        def is_named(argv: tuple[str, ...], _part: Part) -> bool:
            begins = argv[: len(words)] == words and not any("…" in word for word in argv)
            return begins and (more or len(argv) == len(words))

        wider = (_wider(one) for one in report.effects if not self._is_tame(one))
        if other := find_uncovered(report, is_named, below=self.folder) or next(wider, None):
            return other
        from kogniterm.approval.analysis.analyser import classify

        # What was found out on the disk, such as a repository's own programs, is asked about.
        plain = classify(report.command, cwd=folder, workspace=self.workspace).reasons
        known = {_reason_key(reason) for reason in plain}
        new = next((one for one in report.reasons if _reason_key(one) not in known), None)
        return new and Phrase("it does not cover this: {reason}", {"reason": new})

    def _is_tame(self, effect: Effect) -> bool:
        """Return whether commands that begin with granted words may have this effect."""
        if effect.outside:
            return False
        if effect.kind in ("read", "execute") or effect == _CHANGES_REPOSITORY:
            return True
        return effect.kind in _ON_FILES and _reaches(effect, self.folder, self.workspace)

    def _exact_mismatch(self, report: RiskReport) -> Phrase | None:
        granted = asking(self.report)
        entered = {p.folder for p in report.parts} - {p.folder for p in self.report.parts}
        if self.anywhere or report.command != self.report.command or entered:
            known = not any("…" in word for argv in granted for word in argv)
            if not known or asking(report) != granted:
                command = {"command": self.report.command}
                return Phrase("it covers only the exact command {command}", command)
            other = find_uncovered(
                report, lambda argv, _: argv in granted, below=self._root if self.anywhere else None
            )
            if other is not None:
                return other
        # The same text may mean more than before: a remote has another URL, a link leads away.
        before = {_coarse(effect) for effect in self.report.effects}
        kinds = {kind for kind, *_ in before if self.anywhere}
        for effect in report.effects:
            below = _coarse(effect)[0] in kinds and _reaches(effect, self._root, self.workspace)
            reads = effect.kind == "read" and not effect.outside
            if not (
                reads or _coarse(effect) in before or (below and effect.kind in CHANGING_KINDS)
            ):
                return _wider(effect)
        return None

    def _covers_effect(self, effect: Effect) -> bool:
        granted = self.report.effects
        if effect in granted or (effect.kind == "read" and not effect.outside):
            return True
        if effect.outside and effect.kind != "network":
            return False
        if effect.kind == "network":
            return any(
                e.kind == "network" and at_or_below(effect.target, e.target) for e in granted
            )
        kinds = frozenset[EffectKind]().union(
            *(_IMPLIED.get(e.kind, {e.kind}) for e in granted if e.kind in CHANGING_KINDS)
        )
        if effect.kind not in kinds or _WILD.search(effect.target):
            return False
        return _reaches(effect, self._root, self.workspace)

    def _programs_mismatch(self, report: RiskReport, here: str) -> Phrase | None:
        files = self.kind == "effect"

        def covers(argv: tuple[str, ...], part: Part) -> bool:
            reads = files and only_reads(argv, part)
            return reads or self._covers_program(argv, part.folder or here)

        return find_uncovered(
            report, covers, files=files, fed=True, below=self._root if self.anywhere else None
        )

    def _covers_program(self, argv: tuple[str, ...], where: str) -> bool:
        if self.kind == "runs":
            run = run_form(argv)
            return run is not None and run in map(run_form, asking(self.report))
        form = form_of(argv)
        if form is None or any(map(_WILD.match, form.operands)):
            return False
        if form.varies == "files" and not all(_below(o, where, self._root) for o in form.operands):
            return False
        granted = [one for one in map(form_of, asking(self.report)) if one is not None]
        if self.kind == "program":
            return any(_same_form(form, one) for one in granted)
        if form.varies == "files":
            return all(one.varies == "files" for one in granted)
        hosts = [effect.target for effect in self.report.effects if effect.kind == "network"]
        plain = all(
            _PLAIN_NAME.fullmatch(operand) or any(at_or_below(operand, host) for host in hosts)
            for operand in form.operands
        )
        return plain and any(form.key == one.key for one in granted)

    def _reasons_mismatch(self, report: RiskReport) -> Phrase | None:
        granted = {_reason_key(reason) for reason in self.report.reasons}
        other = next((r for r in report.reasons if _reason_key(r) not in granted), None)
        if other is not None:
            return Phrase("it does not cover this: {reason}", {"reason": other})
        if RISK_LABELS.index(report.label) > RISK_LABELS.index(self.report.label):
            return Phrase("the command is riskier than the one it was granted for")
        return None

    def use(self, now: float) -> Lease:
        """Return the lease after one more use."""
        return replace(self, used=self.used + 1, last_used=now)


class Offer(NamedTuple):
    """A lease a user may grant with approving a command; `outside`, `anywhere` as in `Lease`."""

    kind: LeaseKind
    text: Phrase
    outside: bool = False
    anywhere: bool = False

    @property
    def label(self) -> Phrase:
        """The permission in words, with the place where its commands run."""
        return _with_place(self.text, outside=self.outside)


def edit_offers(report: RiskReport, *, workspace: str) -> tuple[Offer, ...]:
    """Return the lease to offer for an edit by a tool; none for one that changes more."""
    return (Offer("edits", _words(report, "edits", workspace)),) if is_plain_edit(report) else ()


def words_offer(pattern: str, *, workspace: str) -> tuple[RiskReport, Offer] | None:
    """Return the lease to offer for commands such as `git diff` or `npm run test *`.

    None for what is too wide: every command, a program that runs what it is given, a wildcard in
    the middle.
    """
    if not may_be_named(pattern):
        return None
    words, more = named_words(pattern)
    values = {"words": render(shlex.join(words)), "folder": workspace}
    text = Phrase("exactly {words}, in {folder}", values)
    if more:
        text = Phrase("commands that begin with {words}, changing only files in {folder}", values)
    return RiskReport(pattern, "needs_approval"), Offer("words", text)


def named_words(pattern: str) -> tuple[tuple[str, ...], bool]:
    """Return the words of a pattern, and whether more may follow; raises `ValueError`."""
    words = shlex.split(pattern)
    more = bool(words) and words[-1] == "*"
    return tuple(words[:-1] if more else words), more


def may_be_named(pattern: str) -> bool:
    """Return whether a lease may cover the commands that begin with the words of a pattern."""
    try:
        words, _more = named_words(pattern)
    except ValueError:
        return False
    if not words or any(_ODD_WORD.search(word) for word in words):
        return False
    program = program_name(words[0])
    if not is_never_leased(program) and program != "rm":
        return True
    rules = rules_for(program)
    runs_a_file = rules is not None and rules.base == "interpreter"
    # Of a program that runs what it is given, what it runs has to be named.
    return (
        (runs_a_file or program in _RUNS_PROJECT)
        and all(not word.startswith("-") for word in words[1:2])
        and len(words) > 1
    )


def call_offers(report: RiskReport) -> tuple[Offer, ...]:
    """Return the lease to offer for a call of a tool that is not KogniTerm's."""
    if report.label == "dangerous" or not _called_tool(report):
        return ()
    kinds: tuple[LeaseKind, ...] = ("calls", "server") if _called_server(report) else ("calls",)
    return tuple(Offer(kind, _words(report, kind, "")) for kind in kinds)


def _called_tool(report: RiskReport) -> str:
    """Return the tool that a report is about, with where it is from; "" if it is about none."""
    found = [effect.target for effect in report.effects if effect.kind == "execute"]
    return found[0] if len(found) == 1 and not report.programs else ""


def _called_server(report: RiskReport) -> str:
    """Return the MCP server whose tool a report is about; "" if it is about none."""
    found = re.fullmatch(r"mcp__.* \((.+)\)", _called_tool(report))
    return found[1] if found else ""


def is_plain_edit(report: RiskReport) -> bool:
    """Return whether a tool only creates or writes ordinary files of the workspace.

    Secrets, files that control other programs, and everything outside are not ordinary.
    """
    changes = [effect for effect in report.effects if effect.kind != "read" or effect.outside]
    return report.label == "workspace_write" and all(
        effect.kind in _ON_FILES
        and not effect.outside
        and not is_secret(posixpath.join("/", effect.target))
        for effect in changes
    )


def offers(report: RiskReport, *, folder: str, workspace: str | None = None) -> tuple[Offer, ...]:
    """Return the leases to offer for `report` in `folder`: each covers this command.

    There is none for a dangerous one. Those for every folder of the workspace come last.
    """
    root = workspace or folder
    found = []
    portable = within(folder, root) and not any(map(_names_script, asking(report)))
    for anywhere in (False, True) if portable else (False,):
        below = root if anywhere else folder
        for kind in _kinds(report, below, root):
            lease = Lease("", kind, report, folder, root, anywhere=anywhere)
            if anywhere and kind in ("effect", "runs"):
                continue
            if not lease.mismatch(report, folder=folder):
                words = _words(report, kind, below, anywhere=anywhere)
                found.append(Offer(kind, words, anywhere=anywhere))
    return tuple(found)


def _names_script(argv: tuple[str, ...]) -> bool:
    """Return whether a call runs a file by its name, which is another one in other folders."""
    rules = rules_for(program_name(argv[0]))
    runs = rules is not None and rules.base in ("shell", "interpreter")
    return "/" in argv[0] or (runs and not "".join(argv[1:2]).startswith("-"))


def _kinds(report: RiskReport, folder: str, workspace: str) -> tuple[LeaseKind, ...]:
    """Return the kinds of leases that a command may be granted for, on files below `folder`."""
    if report.label == "dangerous":
        return ()
    programs = asking(report)
    run = run_form(programs[0]) if len(programs) == 1 else None
    runs = run is not None and (not run.script or is_plain_edit(report))
    found: list[LeaseKind] = ["runs", "exact"] if runs else ["exact"]
    forms = [form_of(argv) for argv in programs]
    changes = [e for e in report.effects if e.kind != "read" or e.outside]
    fixed = all(form is not None and form.varies in ("same", "number") for form in forms)
    plain = all(
        _reaches(effect, folder, workspace)
        if effect.kind in CHANGING_KINDS
        else effect.kind == "network" and (fixed or _is_address(effect.target))
        for effect in changes
    ) and not any(effect.target in ("git", "…") for effect in changes)
    deletes = any(reason.template == DELETES_FILE for reason in report.reasons)
    if None in forms or not plain or deletes:
        return tuple(found)
    if len(forms) == 1:
        found.append("program")
    kinds = {effect.kind for effect in changes}
    on_files = kinds <= _ON_FILES and all(one and one.varies == "files" for one in forms)
    addresses = all(_is_address(effect.target) for effect in changes)
    if kinds and (on_files or (kinds == {"network"} and forms and addresses)):
        found.append("effect")
    return tuple(found)


def grant(
    report: RiskReport,
    kind: LeaseKind,
    *,
    id: str,
    folder: str,
    workspace: str | None = None,
    outside: bool = False,
    anywhere: bool = False,
) -> Lease:
    """Return the lease of `kind` for `report`; raises `ValueError` when it is not offered."""
    folder, root = posixpath.normpath(folder), workspace or posixpath.normpath(folder)
    if kind == "words":
        if not may_be_named(report.command):
            raise ValueError("a lease of these words is not offered")
        return Lease(id, kind, report, root, root)
    offered: tuple[LeaseKind, ...]
    if kind == "edits":  # whatever the first one changed, the next are covered alike
        offered = ("edits",) if is_plain_edit(report) else ()
        folder, report = root, RiskReport("", "workspace_write")
    elif kind in ("calls", "server"):  # whatever the arguments
        offered = tuple(offer.kind for offer in call_offers(report))
        folder, report = root, RiskReport("", "needs_approval", effects=report.effects)
    else:
        offered = _kinds(report, root if anywhere else folder, root)
    if kind not in offered:
        raise ValueError(f"a lease of kind {kind!r} is not offered for this command")
    return Lease(id, kind, report, folder, root, outside, anywhere)


def explain(
    leases: Iterable[Lease], report: RiskReport, *, folder: str
) -> tuple[tuple[Lease, Phrase], ...]:
    """Return each lease that does not cover the command, with the reason."""
    pairs = ((lease, lease.mismatch(report, folder=folder)) for lease in leases)
    return tuple((lease, why) for lease, why in pairs if why is not None)


def asking(report: RiskReport) -> tuple[tuple[str, ...], ...]:
    """Return the programs of a command that do more than read."""
    return tuple(argv for argv, part in programs_with_parts(report) if not only_reads(argv, part))


def at_or_below(target: str, granted: str) -> bool:
    """Return whether a path or URL is the granted one or lies below it, by its text alone."""
    if target == granted:
        return True
    odd = re.search(r"(?:^|/)\.\.(?:/|$)|%2e|%2f|[\\\s…*?\[@#]", target[len(granted) :].lower())
    return bool(granted) and "?" not in granted and not odd and within(target, granted)


def _same_form(form: LeaseForm, granted: LeaseForm) -> bool:
    """Return whether two calls have the same options and operands that differ as allowed."""
    if form.key != granted.key or len(form.options) != len(granted.options):
        return False
    pairs = zip(sorted(form.options, key=_name), sorted(granted.options, key=_name), strict=True)
    for (name, value), (other, given) in pairs:
        action = form.rules.options.get(name)
        below = action == "write" and at_or_below(value or "", given or "")
        if name != other or not (value == given or action == "text" or below):
            return False
    if form.varies == "files":
        return True
    if form.varies == "urls":
        return all(any(at_or_below(o, g) for g in granted.operands) for o in form.operands)
    if form.varies == "number" and len(form.operands) == len(granted.operands):
        pairs_of = zip(form.operands, granted.operands, strict=True)
        return all(o == g or (o.isdigit() and g.isdigit()) for o, g in pairs_of)
    return form.operands == granted.operands


def _name(option: tuple[str, str | None]) -> str:
    return f"{option[0]}={option[1]}"


def _coarse(effect: Effect) -> tuple[object, ...]:
    """Return an effect without what a first run changes: a created file exists afterwards."""
    kind = "change" if effect.kind in _ON_FILES else effect.kind
    return (kind, effect.target, effect.outside)


def _reaches(effect: Effect, folder: str, workspace: str) -> bool:
    """Return whether a change stays in `folder` and its target is known."""
    if effect.outside or "…" in effect.target:
        return False
    return within(posixpath.normpath(posixpath.join(workspace, effect.target)), folder)


def _below(operand: str, folder: str, root: str) -> bool:
    """Return whether an operand in `folder` is a file at or below `root`."""
    path = posixpath.normpath(posixpath.join(folder, operand))
    if "://" in operand or operand.startswith("~") or not within(path, root):
        return False
    return not is_steering(path) and not is_inside_repository(path)


def _is_address(target: str) -> bool:
    """Return whether the target of a network effect names the host."""
    return bool(re.search(r"[.:/]|^localhost\b", target)) and "…" not in target


def _reason_key(reason: Phrase) -> object:
    if reason.template in NAMES_A_FILE:
        return reason.template
    return (reason.template, str(reason))


def _wider(effect: Effect) -> Phrase:
    if effect.kind == "network":
        return Phrase("it does not cover connections to {host}", {"host": effect.target})
    words = {"kind": KIND_WORDS[effect.kind], "target": effect.target}
    return Phrase("it does not cover {kind} ({target})", words)


def _with_place(text: Phrase, *, outside: bool) -> Phrase:
    """Return a permission in words, with the place where its commands run if not the usual one."""
    return Phrase("outside the sandbox: {permission}", {"permission": text}) if outside else text


def _words(report: RiskReport, kind: LeaseKind, folder: str, *, anywhere: bool = False) -> Phrase:
    """Return the sentence that tells the user exactly what a lease covers."""
    below = Phrase("any folder of {folder}", {"folder": folder})
    place = below if anywhere else folder
    if kind == "exact" and anywhere:
        moves = any(argv[0] in MOVES for argv in report.programs)
        command = "; ".join(map(shlex.join, asking(report))) if moves else report.command
        return Phrase("exactly {words}, in {folder}", {"words": render(command), "folder": place})
    if kind == "exact":
        return Phrase("exactly this command, in {folder}", {"folder": folder})
    if kind == "words" and (named := words_offer(report.command, workspace=folder)) is not None:
        return named[1].text
    if kind == "edits":
        return Phrase("edits of files in {folder}", {"folder": folder})
    if kind == "calls":
        return Phrase("calls of {tool}", {"tool": render(_called_tool(report))})
    if kind == "server":
        server = {"server": render(_called_server(report))}
        return Phrase("calls of every trusted tool of the MCP server {server}", server)
    if kind == "runs":
        run = run_form(asking(report)[0])
        assert run is not None
        called_so = {"program": render(run.title), "folder": folder}
        if not run.free:
            return Phrase("{program} with other options, in {folder}, in the sandbox", called_so)
        return Phrase(
            "{program} with other options and arguments, in {folder}, in the sandbox", called_so
        )
    forms = [form for form in map(form_of, asking(report)) if form is not None]
    hosts = render(", ".join(e.target for e in report.effects if e.kind == "network"))
    if kind == "effect" and not hosts:
        kinds = {effect.kind for effect in report.effects if effect.kind in CHANGING_KINDS}
        implied = kinds.union(*(_IMPLIED.get(kind, kinds) for kind in kinds))
        words = tuple(KIND_WORDS[kind] for kind in sorted(implied))
        return Phrase(
            "commands that only change files in {folder} ({kinds})",
            {"folder": folder, "kinds": words},
        )
    if kind == "effect":
        keys = dict.fromkeys(form.key.replace(":", " ") for form in forms)
        return Phrase(
            "{program} in {folder}, connecting only to {hosts}",
            {"program": ", ".join(keys), "folder": folder, "hosts": hosts},
        )
    form = forms[0]
    values = {"program": render(form.title), "folder": place, "hosts": hosts}
    if form.key == "rm":
        return Phrase(
            "{program} with no other options, on files that the session created in {folder}", values
        )
    if form.varies == "files":
        return Phrase("{program} with no other options, on files in {folder}", values)
    if form.varies == "number":
        return Phrase(
            "{program} with no other options, with any number as argument, in {folder}", values
        )
    if form.varies == "urls":
        return Phrase(
            "{program} with no other options, in {folder}, for URLs at or below {hosts}", values
        )
    values["program"] = render(" ".join((form.title, *form.operands)))
    return Phrase("{program} with no other options or arguments, in {folder}", values)


_NEVER_BASES = names("""
    interpreter eval source code database docker awk sed shell wrap env command sudo xargs watch
    find fd exec ssh namespace containers later tar zip rsync transfer man pager split editor screen
    tmux records netcat opens
""")
"""Rules of programs that are never leased as a whole, by base or KIND of `ask`.

They run code or commands that they are given, can start a shell, have options that name programs to
run, or open files in other programs.
"""
_RUNS_PROJECT = names("""
    make gmake ninja npm pnpm yarn bun deno uv poetry cargo go gradle mvn just task rake tox nox
    composer pre-commit
""")
"""Programs that run the targets of a project which are named to them."""
_ODD_WORD = re.compile(r"[*?\[\]{}$`;&|<>()\s…]")
_NEVER = names("""
    gdb lldb irb pry jshell m4 bc dc ed ex ftp sftp lftp mysql psql sqlite3 nmap emacs make gmake
    ninja cmake npm pnpm yarn npx bun deno uv poetry pip pip3 cargo go gradle mvn just task rake tox
    nox pytest jest vitest eslint prettier terraform ansible ansible-playbook pre-commit composer
    bundle parallel busybox toybox chroot unshare nsenter systemd-run machinectl setsid coproc trap
    at batch crontab doas su pkexec runuser gosu script expect builtin rsh mosh autossh tmux scp
    bsdtar gtar cpio ar pax less more info shred dd
""")
"""Further programs of that kind, programs that run what a file of the project names, and programs
that delete what cannot be brought back."""


class LeaseForm(NamedTuple):
    """A call by its listed form: which row of the table, what varies, options and operands."""

    key: str
    varies: str
    options: tuple[tuple[str, str | None], ...]
    operands: tuple[str, ...]
    rules: Rules

    @property
    def title(self) -> str:
        """The program with its subcommands and options."""
        words = self.key.split(":")
        for name, value in self.options:
            written = f"--{name}" if len(name) > 1 else f"-{name}"
            free = value is None or self.rules.options.get(name) == "text"
            words.append(written if free else f"{written} {value}")
        return " ".join(words)


def is_never_leased(program: str) -> bool:
    """Return whether no lease may cover `program` as a whole."""
    rules = rules_for(program)
    kinds = {rules.base, rules.detail.partition(" ")[0]} if rules else set()
    return bool(kinds & _NEVER_BASES) or program in _NEVER


def form_of(argv: tuple[str, ...]) -> LeaseForm | None:
    """Return the listed form of a call; None when it is not listed or has an unlisted option."""
    if not argv or any("…" in word for word in argv):
        return None
    words = [program_name(argv[0]), *argv[1:]]
    if ":" in words[0] or is_never_leased(words[0]):
        return None
    depth = next((n for n in (3, 2, 1) if ":".join(words[:n]) in rule_table("lease_forms")), 0)
    if not depth or len(words) < depth:
        return None
    key = ":".join(words[:depth])
    rules = rule_table("lease_forms")[key]
    parsed = parse_options([CallWord(word) for word in words[depth:]], rules)
    if not parsed.names <= set(rules.options):
        return None
    lacking = any(rules.takes_value(o.name) != (o.value is not None) for o in parsed.options)
    if lacking:
        return None
    options = tuple((o.name, o.value.value if o.value else None) for o in parsed.options)
    operands = tuple(operand.value for operand in parsed.operands)
    return LeaseForm(key, rules.base, options, operands, rules)
