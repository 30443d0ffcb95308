"""The analysis of a command: from shell text to a `RiskReport`.

It follows the shell: folder and variables are tracked, branches and subshells work on copies,
every substitution is judged where it stands. A command that is not understood is asked about.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from kogniterm.approval.analysis.arguments import (
    NUMBER,
    TAINTED,
    CallWord,
    Rules,
    ShellValues,
    rules_for,
)
from kogniterm.approval.analysis.expansion import (
    Scope,
    any_of,
    assigned_names,
    assigned_value,
    element,
    expand,
    expand_single,
    matched_name,
    only_numbers,
    printed_text,
    variable,
)
from kogniterm.approval.analysis.paths_and_variables import (
    HOLE,
    SYSTEM_FOLDERS,
    Roots,
    is_harmless,
    is_harmless_device,
    is_network_device,
    names,
)
from kogniterm.approval.analysis.program_call import Call, CommandFindings
from kogniterm.approval.analysis.shared_findings import (
    CALLS_ITSELF,
    DESTROYS_DISK,
    REDIRECTS_SHELL,
)
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import (
    Branch,
    Function,
    Group,
    Loop,
    Node,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    Substitution,
    Test,
    Unknown,
    Word,
)
from kogniterm.approval.programs import (
    basic_rules,
    builtins,
    file_search,
    files,
    git,
    remote,
    scripts,
    wrappers,
)
from kogniterm.approval.programs.basic_rules import gives, shows_variables
from kogniterm.approval.programs.builtins import (
    DECLARING,
    assigns,
    calculates,
    calculates_printed,
    judge_declaration,
    sets,
)
from kogniterm.approval.programs.file_search import piped_items
from kogniterm.approval.programs.scripts import SHELLS, comes_from_network, run_file, watch
from kogniterm.approval.programs.word_patterns import apply_cases
from kogniterm.text.visible import hidden_characters
from kogniterm.types import RiskReport

_HANDLERS: Mapping[str, Callable[[Call], None]] = {
    base: handler
    for module in (basic_rules, builtins, file_search, files, git, remote, scripts, wrappers)
    for base, handler in module.HANDLERS.items()
}
"""The functions that judge a call, by the base of its program's rules."""
MAX_COMMANDS = 200
MAX_SHELL_DEPTH = 6
_RESERVED = frozenset({"!", "{", "}", "do", "elif", "else", "for", "if", "then", "until", "while"})
"""Words that begin a statement where the parser took them for programs, as behind `time`."""
_NO_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_KEPT_NAMES = ("_", "command_not_found")
"""Beginnings of names of functions that the shell itself or KogniTerm may call."""
_RUNS_HERE = frozenset({"eval", "source", "trap"})
_ENDS_EARLY = frozenset({"exit", "return", "exec"})
_ARITHMETIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


MAX_TEXT = 100_000
MAX_PIPES = 800
"""The parser needs quadratic time for an unfinished pipe."""
_LONGEST_KEPT = 500
_COMMANDS_KEPT = 32
"""Analyses that are kept, of the commands analysed last."""


_ONLY_TELL = names("""
    npm npx uv pipx deno bun make gmake ninja cmake meson just task eslint prettier tsc gdb lldb
    strace ltrace perf
""")
"""Programs that run code, but for --version or --help neither code nor settings of the folder.

Of the others, many first load a plugin, a launcher or a version that the folder names.
"""
_LOAD_FIRST = names("ansible ansible-playbook go rustc rustfmt ipython jupyter sbt iex groovy")


def _tells_version(words: list[str], rules: Rules) -> bool:
    """Return whether a command of these words only prints its version or its help."""
    runs_code = (rules.base, rules.detail) == ("ask", "code") and words[0] not in _ONLY_TELL
    loads = runs_code or words[0] in _LOAD_FIRST
    return not loads and words[1:] in (["--version"], ["--help"])


def _prints_nothing(words: list[str]) -> bool:
    """Return whether a command of these words only empties the file its output goes to."""
    silent = words[0] in {":", "true", "false"} or words[1:] == ["/dev/null"]
    return silent or words in (["echo", "-n"], ["printf", ""])


class Analyser:
    """The analysis of the statements of one command."""

    def __init__(self, findings: CommandFindings) -> None:
        self._findings = findings
        self._count = 0
        self._shell_depth = 0
        self._active: list[str] = []
        self._said: str | None = None
        self.gave_up = False

    def text(self, command: str, scope: Scope) -> None:
        too_long = len(command) > MAX_TEXT or command.count("|") > MAX_PIPES
        if too_long or self._shell_depth > MAX_SHELL_DEPTH:
            self._give_up("Too long or too deeply nested to check.")
            return
        self._shell_depth += 1
        self.node(parse(command), scope)
        self._shell_depth -= 1

    def _give_up(self, template: str, **values: object) -> None:
        self.gave_up = True
        self._findings.unread()
        self._findings.ask(template, **values)

    def node(self, node: Node, scope: Scope, *, piped: bool = False) -> None:
        """Judge one statement; `scope` is changed as the shell would be."""
        if isinstance(node, Simple):
            self._simple(node, scope, piped=piped)
        elif isinstance(node, Sequence):
            self._sequence(node, scope, piped=piped)
        elif isinstance(node, Pipeline):
            self._pipeline(node, scope)
        elif isinstance(node, Group):
            before, fed = scope.fed, self._redirects(node.redirects, scope, "")
            if fed is not None:
                self._call("read", (), scope).read_later([CallWord(fed.strip())])
            self.node(node.body, scope.branch() if node.subshell else scope, piped=piped)
            scope.fed = before
        elif isinstance(node, Branch):
            self._branch(node, scope, piped=piped)
        elif isinstance(node, Loop):
            self._loop(node, scope, piped=piped)
        elif isinstance(node, Function):
            self._function(node, scope)
        elif isinstance(node, Test):
            self._test(node, scope)
        else:
            self._give_up("Could not be parsed: {why}.", why=node.why)

    def _sequence(self, node: Sequence, scope: Scope, *, piped: bool) -> None:
        chains: list[list[tuple[str, Node]]] = []
        for op, item in node.items:
            if op not in {"&&", "||"} or not chains:
                chains.append([])
            chains[-1].append((op, item))
        endings = [*(chain[0][0] for chain in chains[1:]), ""]
        for chain, ending in zip(chains, endings, strict=False):
            # What runs in the background changes a copy of the shell.
            self._chain(chain, scope.branch() if ending == "&" else scope, piped=piped)

    def _chain(self, chain: list[tuple[str, Node]], scope: Scope, *, piped: bool) -> None:
        """Judge statements joined by && and ||: what follows these may not have run."""
        left: list[Scope] = []
        for op, item in chain:
            if op == "||":
                scope.merge(left, folders=False)
                left = []
                inner = scope.branch()
                self.node(item, inner, piped=piped)
                scope.merge([inner])
                continue
            if op == "&&":
                left.append(scope.branch())
            self.node(item, scope, piped=piped)
        scope.merge(left, folders=False)

    def _pipeline(self, node: Pipeline, scope: Scope) -> None:
        upstream: tuple[str, ...] = ()
        items: CallWord | None = None
        inner = scope
        for index, part in enumerate(node.parts):
            inner = scope.branch()
            inner.upstream, inner.fed = upstream, scope.fed or index > 0
            inner.items = items
            before = len(self._findings.argvs)
            self._said = printed_text(node.parts[index - 1], scope) if index else None
            self.node(part, inner, piped=index > 0)
            self._said = None
            started = self._findings.argvs[before:]
            upstream += tuple(argv[0].rpartition("/")[2] for argv in started if argv)
            items = piped_items(part, scope, items)
        # With lastpipe the last one runs in this shell.
        scope.merge([inner], folders=False)

    def _branch(self, node: Branch, scope: Scope, *, piped: bool) -> None:
        for word in node.words:
            self._words((word,), scope)
        self.node(node.always, scope, piped=piped)
        others = []
        for part in node.parts:
            other = scope.branch()
            self.node(part, other, piped=piped)
            others.append(other)
        scope.merge(others)

    def _loop(self, node: Loop, scope: Scope, *, piped: bool) -> None:
        values = self._words(node.words, scope) if node.words is not None else [TAINTED]
        inner = scope.branch()
        # A variable that the body assigns may differ from round to round.
        for name, counts in assigned_names(node, scope).items():
            counts = counts and variable(name, inner).counts
            inner.variables[name] = NUMBER if counts else TAINTED
        if node.variable is not None:
            call = self._call("loop", (), inner)
            sets(call, node.variable)
            call.read_later(values)
            gives(
                call, node.variable, matched_name(values[0]) if len(values) == 1 else any_of(values)
            )
        if node.head is not None:
            self.node(node.head, inner, piped=piped)
        self.node(node.body, inner, piped=piped)
        scope.merge([inner])
        if node.variable is not None:
            scope.variables[node.variable] = inner.variables.get(node.variable, TAINTED)

    def _function(self, node: Function, scope: Scope) -> None:
        known = rules_for(node.name) is not None or "/" in node.name
        if known or node.name.startswith(_KEPT_NAMES):
            # A later command is judged as if the name still meant the program.
            self._findings.ask(
                "Defines the function {name}, which later commands may run.", name=node.name
            )
            scope.evaluating.add(node.name)
        scope.functions[node.name] = node
        # Another command that calls it is asked about: its name is not a known program.
        self._call_function(node, scope.with_arguments(NUMBER._replace(split=True)))

    def _call_function(self, node: Function, scope: Scope) -> None:
        if node.name in self._active:
            self._findings.danger(CALLS_ITSELF, name=node.name)
            return
        self._active.append(node.name)
        self.node(node.body, scope)
        self._active.pop()

    def _test(self, node: Test, scope: Scope) -> None:
        arguments = []
        for word in node.words:
            self._inside(word, scope)
            arguments.append(expand_single(word, scope))
        texts = [argument.value for argument in arguments]
        for at, text in enumerate(texts if node.extended else ()):
            given = arguments[max(at - 1, 0) : at + 2 : 2]
            if text in _ARITHMETIC_TESTS and not only_numbers(given, scope):
                self._findings.ask("A numeric comparison in [[ ]] may run commands.")
        if "-v" in texts or "-R" in texts:
            self._findings.ask("Testing whether a variable exists may run commands.")

    def _subscripts(self, computes: tuple[str, ...], scope: Scope) -> None:
        # A subscript is an expression, unless the array is a map, which only the shell knows.
        if computes:
            calculates(self._call("calculation", (), scope), computes)

    # --- simple commands ------------------------------------------------------------------------

    def _words(self, words: tuple[Word, ...], scope: Scope) -> list[CallWord]:
        """Expand `words`, judging the substitutions in them."""
        arguments: list[CallWord] = []
        for word in words:
            self._inside(word, scope)
            arguments.extend(expand(word, scope))
        return arguments

    def _inside(self, word: Word, scope: Scope) -> None:
        for part in word.parts:
            if isinstance(part, Substitution):
                if part.kind != "command":
                    self._findings.redirects("<(…)" if part.kind == "input" else ">(…)")
                self.node(part.node, scope.branch())
            elif isinstance(part, Unknown):
                if part.opaque is not None:
                    self._give_up("Could not be parsed: {why}.", why=part.opaque)
                for nested in part.inner:
                    self.node(nested.node, scope.branch())
                self._subscripts(part.computes, scope)
                if part.given:
                    call = self._call("expansion", (), scope)
                    call.read_later([CallWord(scope.roots.tilde(part.given))])
                if part.digits:
                    call = self._call("calculation", (), scope)
                    for nested in part.inner:
                        calculates_printed(call, nested)
                    calculates(call, part.names, part.targets, part.settles)
                elif part.assigns:
                    call = self._call("expansion", (), scope)
                    sets(call, part.assigns)
                    gives(call, part.assigns, TAINTED)

    def _simple(self, node: Simple, scope: Scope, *, piped: bool) -> None:
        self._count += 1
        if self._count > MAX_COMMANDS:
            if not self.gave_up:
                self._give_up("Contains too many commands to check.")
            return
        arguments = self._words(node.words, scope)
        name = arguments[0].value if arguments else ""
        spoken, self._said = self._said, None
        fed = scope.fed
        stdin = self._redirects(node.redirects, scope, name) or spoken
        if not arguments:
            self._assignments(node, scope)
            if any(r.op in {">", ">|", "&>"} for r in node.redirects):
                self._findings.ask("Empties a file.")
            return
        if name in DECLARING:
            self._assignments(node, scope, tuple(arguments))
            arguments.extend(CallWord(assignment.name) for assignment in node.assignments)
        else:
            self._prefixes(node, scope, name)
        written = (r.target for r in node.redirects if r.op in {">", ">|", "&>"} and r.target)
        files = (expand_single(target, scope).value for target in written)
        silent = _prints_nothing([argument.value for argument in arguments])
        if silent and not all(map(is_harmless_device, files)):
            self._findings.ask("Empties a file.")
        self._run(tuple(arguments), scope, piped=piped, stdin=stdin)
        scope.fed = fed

    def _assignments(
        self, node: Simple, scope: Scope, declaring: tuple[CallWord, ...] = ()
    ) -> None:
        call = self._call(declaring[0].value if declaring else "", declaring[1:], scope)
        for assignment in node.assignments:
            values = []
            self._subscripts(assignment.computes, scope)
            for word in assignment.values:
                self._inside(word, scope)
                values.append(element(expand_single(word, scope)))
            value = assigned_value(assignment, values, scope)
            surely = not declaring or judge_declaration(
                call, assignment, value, in_function=any(self._active)
            )
            if assignment.array or assignment.adds:
                scope.arrays.add(assignment.name)
            assigns(call, assignment.name, value)
            if not surely:
                scope.variables[assignment.name] = TAINTED

    def _prefixes(self, node: Simple, scope: Scope, name: str) -> None:
        for assignment in node.assignments:
            for word in assignment.values:
                self._inside(word, scope)
            name_set = assignment.name
            # A builtin sees it, and the value from before comes back.
            scope.variables[name_set] = TAINTED
            given = [expand_single(word, scope).value for word in assignment.values]
            if all(is_harmless(name_set, one) for one in given or [""]) or (
                name_set == "IFS" and name == "read"
            ):
                continue
            call = self._call(name, (), scope.branch())
            for word in assignment.values[:1]:
                assigns(call, name_set, expand_single(word, scope))
            self._findings.ask("Runs a program with the variable {name} changed.", name=name_set)
            self._findings.program((f"{name_set}=…",))

    def _redirects(self, redirects: tuple[Redirect, ...], scope: Scope, name: str) -> str | None:
        """Judge redirections; return the input that a heredoc or here-string gives, if known."""
        stdin: str | None = None
        for redirect in redirects:
            if redirect.body is not None:
                self._inside(redirect.body, scope)
                body = expand_single(redirect.body, scope)
                shows_variables(self._call(name, (), scope), body)
                stdin, scope.fed = body.value, True
                if name in SHELLS:
                    comes_from_network(self._call(name, (), scope), body)
                continue
            if redirect.target is None:
                continue
            self._inside(redirect.target, scope)
            target = expand_single(redirect.target, scope)
            if redirect.op == "<" and len(target.inner) == 1:
                stdin = printed_text(target.inner[0].node, scope)
            if name in SHELLS:
                comes_from_network(self._call(name, (), scope), target)
            copies = redirect.op in {">&", "<&"} and re.fullmatch(r"(\d+)-?|-", target.value)
            if target.value in _NO_FILES or (copies and copies[1] in (None, *"012")):
                continue
            self._findings.redirects(f"{redirect.op} {target.value}")
            if not copies:
                self._redirect(redirect.op, target, scope, name)
        return stdin

    def _redirect(self, op: str, target: CallWord, scope: Scope, name: str) -> None:
        call = self._call(name or "redirection", (), scope)
        path = call.resolve(target).path
        if is_network_device(path):
            call.network(path)
            if name in SHELLS or name in {"", "exec", "nc", "python", "python3", "perl"}:
                call.danger(REDIRECTS_SHELL, path=path)
            return
        if op in {"<", "<>", "<&"}:
            call.reads(target)
        if op != "<" and not is_harmless_device(path):
            if target.glob or (target.value == HOLE and target.tainted):
                call.ask("Writes to a file whose name is known only at run time.")
            call.writes(target, "write" if op in {">>", "&>>"} else "overwrite")

    def _call(self, name: str, args: tuple[CallWord, ...], scope: Scope) -> Call:
        return Call(name, args, scope, self._findings, self._inner, self.text)

    def _inner(self, args: tuple[CallWord, ...], scope: Scope, piped: bool) -> None:
        """Judge a call started by another program."""
        if not args:
            return
        self._count += 1
        if len(self._active) > MAX_SHELL_DEPTH * 3:
            self._give_up("Too deeply nested to check.")
            return
        self._active.append("")
        # Another program starts programs only: a function of the same name does not count.
        alone = replace(scope, functions={})
        self._run(args, alone, piped=piped, stdin=None)
        scope.cwd = alone.cwd
        self._active.pop()

    def _run(
        self, args: tuple[CallWord, ...], scope: Scope, *, piped: bool, stdin: str | None
    ) -> None:
        with self._findings.running(tuple(arg.value for arg in args), scope):
            self._program(args, scope, piped=piped, stdin=stdin)

    def _program(
        self, args: tuple[CallWord, ...], scope: Scope, *, piped: bool, stdin: str | None
    ) -> None:
        findings, program = self._findings, args[0]
        if not program.known or program.split:
            findings.runs_input()
            if program.value or not program.known:
                findings.ask("Runs a program known only at run time.")
            text = " ".join(arg.value for arg in args).replace(HOLE, " ")
            if "-" in text:
                findings.scan("rm " + text, "Depending on the program, this {what}.")
            return
        name = program.value
        if "/" in name:
            folder, _, base = posixpath.normpath(name).rpartition("/")
            if folder not in SYSTEM_FOLDERS:
                findings.effect("execute", name)
                run_file(self._call(name, (), scope), name)
                findings.ask("Runs the file {path}.", path=name)
                if findings.has("network"):
                    findings.danger("May run code downloaded from the network.")
                return
            name = base
        if name in scope.functions and "/" not in program.value:
            inside = scope.branch()
            inside.set_arguments(args[1:])
            self._call(name, (), scope).read_later(args[1:])
            self._call_function(scope.functions[name], inside)
            for number in "@*123456789":
                inside.variables[number] = variable(number, scope)
            scope.merge([inside], folders=False)
            return
        call = self._call(name, args[1:], scope)
        watch(call)
        rules = None if {name, program.value} & scope.evaluating else rules_for(name)
        if rules is None or rules.base in _RUNS_HERE:
            # It may be a function of an earlier command, or text that runs in this shell.
            scope.variables.clear()
        if rules is None:
            findings.effect("execute", name)
            findings.ask("{program} is unknown to KogniTerm.", program=name)
            if name in _RESERVED:
                findings.unread()
            if name.startswith("mkfs"):
                findings.danger(DESTROYS_DISK, program=name)
            return
        if _tells_version([name, *(arg.value for arg in args[1:])], rules):
            return
        call = replace(call, rules=rules, piped=piped, stdin=stdin)
        basic_rules.shows_arguments(call)
        apply_cases(call)
        _HANDLERS[rules.base](call)


def classify(
    command: str,
    *,
    cwd: str | None = None,
    workspace: str | None = None,
    values: ShellValues = ShellValues(),  # noqa: B008  (frozen)
) -> RiskReport:
    """Return the risk report of `command`, run in `cwd` with `workspace` (default: `cwd`).

    `values` is what earlier commands left in the shell (`values_after`): every other variable holds
    data. Never raises, does no I/O, and takes time bounded by the text's length. Without `cwd`,
    relative paths count as inside the workspace.
    """
    return _analyse(command, cwd, workspace or cwd, values)[0]


def values_after(
    command: str,
    *,
    cwd: str | None = None,
    values: ShellValues = ShellValues(),  # noqa: B008  (frozen)
    completed: bool = True,
) -> ShellValues:
    """Return what is known of a shell with `values` after `command` ran in it.

    One that was not `completed`, or may end early, may have left out any of its parts.
    """
    after = _analyse(command, cwd, cwd, values)[1]
    return after if completed else after._replace(literal=after.literal & values.literal)


@lru_cache(maxsize=_COMMANDS_KEPT)
def _analyse(
    command: str, cwd: str | None, workspace: str | None, values: ShellValues
) -> tuple[RiskReport, ShellValues]:
    """Return what `classify` and `values_after` do: a turn asks several times about its command."""
    findings = CommandFindings()
    roots = Roots.of(cwd, workspace)
    known = {name: CallWord(text, number=HOLE in text) for name, text in values.literal}
    scope = Scope(roots, cwd or roots.workspace, known, evaluating=set(values.evaluating))
    scope.start = scope.cwd
    hidden = hidden_characters(command)
    if hidden:
        shown = ", ".join(f"U+{ord(char):04X}" for char in hidden[:5])
        findings.danger("Contains invisible characters: {names}.", names=shown)
    analyser = Analyser(findings)
    try:
        analyser.text(command, scope)
    except RecursionError:
        findings.unread()
        findings.ask("Too deeply nested to check.")
        analyser.gave_up = True
    if analyser.gave_up:
        findings.scan(command, "Contains text that {what}.")
    if findings.has("secret") and findings.has("network"):
        findings.danger("Reads secrets and uses the network.")
    found = ((name, variable(name, scope)) for name in scope.variables if name.isidentifier())
    literal = frozenset(
        (name, value.value)
        for name, value in found
        if (value.known and not value.tainted and len(value.value) < _LONGEST_KEPT) or value.counts
    )
    after = ShellValues(literal, frozenset(scope.evaluating))
    if analyser.gave_up:
        after = after._replace(literal=frozenset())
    elif any(argv[:1] and argv[0] in _ENDS_EARLY for argv in findings.argvs):
        after = after._replace(literal=after.literal & values.literal)
    return findings.report(command), after
