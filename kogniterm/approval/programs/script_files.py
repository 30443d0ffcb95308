"""The files whose content decides what a command runs, named from the command's text alone.

A Makefile, a script or a hook can change between the approval of a command and its start; then what
runs would not be what was approved. `watch` names these files for each program that starts. They
are hashed when the command is judged and compared when it starts. A file that does not exist is
named too: a `GNUmakefile` that appears replaces the `Makefile`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kogniterm.approval.analysis.arguments import CallWord, Parsed, parse_options, rule_table
from kogniterm.approval.analysis.paths_and_variables import HOLE, names, within
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.programs.scripts import SHELLS, shell_options

_READS_COMMANDS = names("""
    xargs parallel ssh docker podman nerdctl kubectl psql mysql mariadb sqlite3 duckdb mongo mongosh
    at batch crontab gdb lldb ed ex ftp sftp lftp bc dc m4 eval
""")
"""Programs that take commands from their standard input or from words other programs printed."""
_SINGLE_DASH = frozenset({"java", "ant", "terraform", "tofu", "packer"})
_INPUT = re.compile(r"-?|/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
"""Names of the standard input, which is not a file of its own."""


def watch(call: Call) -> None:
    """Note the files that decide what `call` runs."""
    if call.name in SHELLS:
        _shell(call)
        return
    if call.name in _READS_COMMANDS:
        call.findings.runs_input()
    rules = rule_table("deciding_files").get(call.name)
    if rules is None:
        return
    script = rules.base == "script"
    parsed = parse_options(call.args, rules, operands_end=script, single=call.name in _SINGLE_DASH)
    given = {
        action: [value.value for value in parsed.values_of(action)]
        for action in ("read", "folder", "text", "module")
    }
    role = rules.options.get("@", "")
    operands = [word.value.partition("::")[0] for word in parsed.operands]
    files = operands if role in {"operand", "operand-tests"} else []
    folders: list[str] = []
    if role == "operand-tests":
        folders = [posixpath.dirname(name) if name.endswith(".py") else name for name in operands]
    elif role == "operand-folder":
        folders = [name for name in operands if "/" in name or name == ".."] + operands[-1:]
    _note(call, [*rules.detail.split(), *files], ["", *given["folder"], *folders])
    if any(map(_INPUT.fullmatch, [*given["read"], *files])):
        call.findings.runs_input()
    _note(call, given["read"], ["", *given["folder"]])
    if script:
        _script(call, given, parsed)


def run_file(call: Call, path: str) -> None:
    """Note the program at `path`, which is itself a file that may change."""
    _note(call, [path])


def _shell(call: Call) -> None:
    given = list(call.args)
    while len(given) > 1 and given[0].value in {"--rcfile", "--init-file"}:
        _note(call, [given[1].value])
        del given[:2]
    letters, args = shell_options(tuple(given))
    if "c" in letters:
        if args and HOLE in args[0].value:
            call.findings.runs_input()
        return
    _script_file(call, args[0] if args and "s" not in letters else None)


def _script(call: Call, given: Mapping[str, list[str]], parsed: Parsed) -> None:
    """Note the module or the first operand of an interpreter, or its input."""
    if given["module"]:
        module = given["module"][0]
        path = module.replace(".", "/")
        _note(call, [f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py"])
        if module != call.name:
            # The name of the module may be attached to -m.
            ends = (i for i, arg in enumerate(call.args, 1) if arg.value.endswith(module))
            watch(replace(call, name=module, args=call.args[next(ends, len(call.args)) :]))
    elif given["text"]:
        if any(HOLE in text for text in given["text"]):
            call.findings.runs_input()
    elif not given["read"] or parsed.operands:
        _script_file(call, parsed.operands[0] if parsed.operands else None)


def _script_file(call: Call, script: CallWord | None) -> None:
    if script is None or _INPUT.fullmatch(script.value) or HOLE in script.value:
        call.findings.runs_input()
    else:
        _note(call, [script.value])


def _note(call: Call, files: Iterable[str], folders: Iterable[str] = ("",)) -> None:
    bases, root = list(dict.fromkeys(folders)), call.scope.roots.workspace
    for name in files:
        for base in bases:
            tail = name.removeprefix("^")
            written = posixpath.join(base, tail)
            if HOLE in written or "://" in written or _INPUT.fullmatch(tail):
                continue
            _decides(call, call.scope.resolve(written).path)
            folder = call.scope.resolve(base or ".").path
            while name.startswith("^") and folder != root and within(folder, root):
                folder = posixpath.dirname(folder)
                _decides(call, posixpath.join(folder, tail))


def _decides(call: Call, path: str) -> None:
    if HOLE not in path:
        call.findings.decides(call.scope.roots.show_path(path))
