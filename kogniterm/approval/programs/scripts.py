"""Programs that are given code: sed, awk, jq, yq, shells and interpreters.

The scripts of sed and awk can write files and run programs, so they are parsed; the text given to
a shell is judged where it is known; the code given to an interpreter is searched for dangerous
patterns.

A Makefile, a script or a hook can change between the approval of a command and its start; then what
runs would not be what was approved. `watch` names the files whose content decides what a program
runs, from the command's text alone. They are hashed when the command is judged and compared when it
starts. A file that does not exist is named too: a `GNUmakefile` that appears replaces the
`Makefile`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kogniterm.approval.analysis.arguments import CallWord, Parsed, parse_options, rule_table
from kogniterm.approval.analysis.expansion import printed_text, programs_in
from kogniterm.approval.analysis.paths_and_variables import HOLE, names, within
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.programs.basic_rules import apply_options, ask_unclear, pattern

MAX_SCRIPT = 3000
_SED_ADDRESS = re.compile(
    r"\s*(?:(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\\(.)(?:(?!\1)[^\\\n]|\\.)*\1[IM]*)"
    r"(?:\s*,\s*(?:[+~]?\d+|\$|/(?:[^/\\\n]|\\.)*/[IM]*))?)?\s*!?\s*"
)
_SED_COMMAND = re.compile(
    r"[pPdDhHgGxnN={]|#[^\n]*|[qQlL]\s*\d*|[btT:]\s*[^\s;}]*|[rR]\s*(?P<file>[^\n;}]+)"
    r"|[aic](?:\\\n|\s*\\?)?(?:[^\n\\]|\\.|\\\n)*",
    re.DOTALL,
)
"""The harmless commands, besides `s` and `y`."""
_SED_BLANK = re.compile(r"[\s;}]+")


def sed(call: Call) -> None:
    """Judge sed: the script may hold w, W, e and s///e; -i writes in place."""
    # -i is an option without a value here: a suffix is never the next word.
    plain = CallWord("--in-place")
    shape = re.compile(r"-[nErsuz]*i|--i[n-]*p?l?a?c?e?(?:=|\Z)")
    parsed = replace(
        call, args=tuple(plain if shape.match(arg.value) else arg for arg in call.args)
    ).parse()
    apply_options(call, parsed)
    if parsed.unclear:
        ask_unclear(call)
    scripts = list(parsed.values("e", "expression"))
    files = list(parsed.operands)
    for script_file in parsed.values("f", "file"):
        call.reads(script_file)
        call.ask("{program} runs a script from a file.")
    if not scripts and not parsed.values("f", "file") and files:
        scripts.append(files.pop(0))
    for script in scripts:
        if not _sed_script(call, script.value):
            call.ask("The {program} script may write files or run programs.")
            for path in re.findall(r"(?:^|[;\n\d$/!{])[gpIM]* *[wW] +([^\n;}]+)", script.value):
                call.writes(CallWord(path.strip()))
            for command in re.findall(r"(?:^|[;\n\d$/!{]) *e *([^\n]+)", script.value):
                call.starts(command)
        elif script.tainted or (script.glob and not script.known and HOLE in script.value):
            call.ask("The {program} script is known only at run time.")
    in_place = parsed.has("i") or any(n and "in-place".startswith(n[:8]) for n in parsed.names)
    for operand in files:
        if in_place:
            call.writes(operand)
            # The suffixes under which `-i` keeps a copy.
            found = (re.match(r"(?:-[nErsuz]*i|--in-place=)(.+)", arg.value) for arg in call.args)
            for suffix in [match[1] for match in found if match]:
                folder, slash, name = operand.value.rpartition("/")
                kept = suffix.replace("*", name) if "*" in suffix else name + suffix
                call.writes(operand._replace(value=kept if "/" in kept else folder + slash + kept))
        else:
            call.reads(operand)


def _sed_script(call: Call, script: str) -> bool:
    """Return whether every command of `script` is harmless; files it reads are noted."""
    if len(script) > MAX_SCRIPT:
        return False
    at = 0
    while at < len(script):
        if blank := _SED_BLANK.match(script, at):
            at = blank.end()
            continue
        if address := _SED_ADDRESS.match(script, at):
            at = address.end()
        if at >= len(script):
            return True
        command = _SED_COMMAND.match(script, at)
        if command is not None and command["file"]:
            call.reads(CallWord(command["file"].strip()))
        substituted = _sed_substitute(script, at) if script[at] in "sy" else None
        end = command.end() if command is not None else substituted
        if end is None:
            return False
        at = end
    return True


def _sed_substitute(script: str, at: int) -> int | None:
    """Return the end of a harmless `s` or `y`, with any delimiter, or None."""
    delimiter = script[at + 1 : at + 2]
    if not delimiter or delimiter in "\\\n" or delimiter == HOLE:
        return None
    position = at + 2
    for _ in range(2):
        while position < len(script) and script[position] != delimiter:
            if script[position] == "\\":
                position += 1
            elif script[position] == "[" and delimiter != "[":
                closing = re.compile(r"\[\^?\]?(?:\[[:.=].*?[:.=]\]|[^\]])*\]").match(
                    script, position
                )
                # A delimiter inside a bracket expression still ends the pattern in sed.
                if closing and delimiter not in closing[0]:
                    position = closing.end() - 1
            position += 1
        if position >= len(script):
            return None
        position += 1
    flags = re.compile(r"[gpiIm0-9]*").match(script, position)
    end = flags.end() if flags else position
    return end if end >= len(script) or script[end] in " \t\n;}#" else None


_AWK_TOKEN = re.compile(
    r"(?P<blank>[ \t\r]+|\\\n|#[^\n]*)|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.]*|\.\d+)|(?P<other>.)",
    re.DOTALL,
)
_AWK_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:\[:\w+:\]|[^\]\n])*\]|\[)*/")
_AWK_BEFORE_REGEX = frozenset("(,{};!~&|?:=<>+-*%^\n")
_AWK_HARM = re.compile(r"system|getline|[|@]|\bprintf?\b[^;}\n]*>|ENVIRON|PROCINFO|ARGV", re.DOTALL)
_AWK_KEYWORDS = frozenset({"print", "printf", "return", "in", "case", "else", "do"})


def awk_skeleton(program: str) -> str | None:
    """Return the program with strings as `""` and regular expressions as `R`, or None.

    None means that it is unreadable. Whether a slash divides or begins a regular expression depends
    on what stands before it. Where that does not tell, nothing may stand anywhere that could do
    harm.
    """
    pieces: list[str] = []
    previous = ""
    at = 0
    while at < len(program):
        unclear = previous == ")" or re.search(r"(?:\+\+|--)\s*\Z", program[max(0, at - 20) : at])
        if program[at] == "/" and unclear and _AWK_HARM.search(program):
            return None
        if program[at] == "/" and (
            not previous or previous in _AWK_BEFORE_REGEX or previous in _AWK_KEYWORDS
        ):
            match = _AWK_REGEX.match(program, at)
            if match is None:
                return None
            pieces.append("R")
            previous = "R"
        else:
            match = _AWK_TOKEN.match(program, at)
            if match is None or (match["other"] == '"'):
                return None
            if match["blank"]:
                pieces.append(" ")
            else:
                previous = '""' if match["string"] else match[0]
                pieces.append(previous)
        at = match.end()
    return "".join(pieces)


_AWK_FILE = re.compile(r"-[fEil]|--(?:file|exec|include|load)\Z")
_AWK_PLAIN = re.compile(
    r"-[bcCghMnNOPrsStV]|--(?:posix|traditional|re-interval|csv|version|help|lint)|-Wv\w*"
)


def awk(call: Call) -> None:
    """Judge awk: system(), pipes, redirects, getline and @load make a program unsafe."""
    args = list(call.args)
    program: CallWord | None = None
    while args and args[0].value.startswith("-") and len(args[0].value) > 1:
        option = args.pop(0)
        word = option.value
        if any(arg.brings_words for arg in (option, *args[:1])):
            ask_unclear(call)
        if word == "--":
            break
        if word in {"-F", "-v", "--field-separator", "--assign"}:
            if args:
                args.pop(0)
        elif re.match(r"-[Fv].|--(?:field-separator|assign)=", word):
            continue
        elif _AWK_FILE.match(word):
            call.ask("{program} runs a script from a file.")
            program = CallWord("")
            if args and len(word) == 2:
                args.pop(0)
        elif not _AWK_PLAIN.fullmatch(word):
            call.ask("Unknown option of {program}: {option}.", option=word)
    if program is None and args:
        program = args.pop(0)
    if program is not None and not _awk_is_harmless(program):
        call.ask("The {program} program may write files or run programs.")
        call.findings.scan(program.value, "Contains code that {what}.")
    for operand in args:
        if re.match(r"[A-Za-z_]\w*=", operand.value):
            continue
        call.reads(operand)


def _awk_is_harmless(program: CallWord) -> bool:
    if program.tainted or program.glob or program.value.startswith(HOLE):
        return False
    if len(program.value) > MAX_SCRIPT:
        return False
    text = awk_skeleton(program.value)
    if text is None or HOLE in text:
        return False
    # Comparison with > is only harmless in conditions and patterns, never behind print.
    compared = _AWK_CONDITION.sub(_awk_condition, text) if "{" in text else ""
    compared = compared.replace("||", " ")
    if re.search(r"\bsystem\b|\bgetline\b|@\s*\w|\bENVIRON\b|\bPROCINFO\b|\bARGV\b", text):
        return False
    return not re.search(r"\||>", compared) and ("{" in text or "|" not in text.replace("||", ""))


_AWK_CONDITION = re.compile(
    r"\bif\s*\([^()]*\)|\([^(){}]*\)\s*\?|^[^{]*\{|\}[^{]*\{|\}[^{}]*$|\bwhile\s*\([^()]*\)"
    r"|\bfor\s*\([^()]*\)|\([^(){}]*\)"
)


def _awk_condition(match: re.Match[str]) -> str:
    """Return a condition without its comparisons, unless it prints."""
    if re.search(r"\bprintf?\b", match[0]):
        return match[0]
    return match[0].replace(">", " ")


SHELLS = names("bash sh dash zsh ksh ash rbash fish csh tcsh")


def judge_text(call: Call, text: CallWord) -> None:
    """Judge a shell text given as an argument."""
    if HOLE in text.value:
        call.ask("{program} runs text known only at run time.")
        comes_from_network(call, text)
    # The unknown part may be anything, but the rest can already be dangerous.
    call.runs(text.value)


def comes_from_network(call: Call, *texts: CallWord) -> None:
    """Judge code that comes out of a substitution: known text, the network, or a decoder."""
    if any(text.inner for text in texts) and call.findings.has("network"):
        call.danger("{program} runs code that comes from the network.")
    for substitution in (item for text in texts for item in text.inner):
        spoken = printed_text(substitution.node, call.scope)
        if spoken is not None:
            call.starts(spoken)
        if _HIDING & programs_in(substitution.node):
            call.danger("{program} runs assembled or decoded text KogniTerm cannot inspect.")


def runs_fetched(call: Call, script: CallWord) -> None:
    """Judge a script that this same command may have got from the network."""
    shown = call.show_path(call.resolve(script))
    name = shown.rpartition("/")[2]
    effects = call.findings.report("").effects
    fetched = any(
        effect.target == shown
        if effect.kind in {"write", "overwrite"}
        else effect.kind == "network" and effect.target.rpartition("/")[2] == name
        for effect in effects
    )
    if fetched and call.findings.has("network"):
        call.danger("{program} runs code that comes from the network.")


def shell_options(given: tuple[CallWord, ...]) -> tuple[str, list[CallWord]]:
    """Return the letters of a shell's own options, and the arguments that follow them."""
    args = list(given)
    letters = ""
    while args and re.match(r"[-+][A-Za-z]", args[0].value):
        word = args.pop(0).value
        letters += word[1:]
        if word[-1] in "oO" and args:
            args.pop(0)
    while args and args[0].value in {"--norc", "--noprofile", "--login", "--posix"}:
        more, args = shell_options(tuple(args[1:]))
        letters += more
    if args and args[0].value == "--":
        args.pop(0)
    return letters, args


def shell(call: Call) -> None:
    """Judge bash and other shells: `-c TEXT` is judged, a script file or a pipe is asked about."""
    options, args = shell_options(call.args)
    if "s" in options and "c" not in options:
        args.clear()
    if "c" in options and args:
        if set(options) & set("il") or call.name in {"zsh", "fish", "csh", "tcsh", "ksh"}:
            call.ask("{program} reads its startup files before running the command.")
        if any(arg.inner for arg in args[1:]):
            comes_from_network(call, *args)
        for arg in args[1:]:
            call.findings.scan(arg.value, "Contains code that {what}.")
        inner = call.scope.branch()
        inner.set_arguments(args[2:])
        call.read_later(args[1:])
        inner.variables["0"] = args[1] if args[1:] else CallWord(call.name)
        judge_text(replace(call, scope=inner), args[0])
        return
    call.findings.effect("execute", args[0].value if args else call.name)
    if call.stdin is not None and not args:
        call.ask("{program} runs its input as commands.")
        judge_text(call, CallWord(call.stdin))
        return
    if args and not args[0].value.startswith("/dev/"):
        call.ask("{program} runs the script {path}.", path=args[0].value)
        comes_from_network(call, *args)
        runs_fetched(call, args[0])
        return
    if args:
        comes_from_network(call, *args)
    if call.piped or args:
        runs_pipe(call)
    call.ask("{program} starts another shell.")
    call.findings.unread()


_HIDING = names("base64 base32 basenc xxd gunzip zcat bzcat xzcat rev uudecode od hexdump")
_DECODERS = _HIDING | names("openssl tr gpg sed awk perl printf echo")


def runs_pipe(call: Call) -> None:
    """Judge a shell or interpreter that runs its piped input."""
    if call.findings.has("network"):
        call.danger("{program} runs code that comes from the network.")
    elif _DECODERS & set(call.scope.upstream):
        call.danger("{program} runs assembled or decoded text KogniTerm cannot inspect.")
    else:
        call.ask("{program} runs what it reads from a pipe.")


def eval_(call: Call) -> None:
    """Judge eval: its text is judged, and asked about in any case."""
    call.ask("{program} runs text as a command.")
    comes_from_network(call, *call.args)
    text = " ".join(arg.value for arg in call.args)
    if text.strip(HOLE + " "):
        call.runs(text)


def source(call: Call) -> None:
    """Judge source: a file's commands run in this shell."""
    call.ask("{program} runs a file's commands in the current shell.")
    if call.stdin is not None and call.args and call.args[0].value.startswith("/dev/"):
        call.starts(call.stdin)
    for arg in call.args[:1]:
        call.findings.effect("execute", arg.value)
        comes_from_network(call, arg)


def trap(call: Call) -> None:
    """Judge trap, which runs a command later."""
    args = [arg for arg in call.args if arg.value not in {"--"}]
    if not args or args[0].value in {"-l", "-p", "-"} or (len(args) > 1 and not args[0].value):
        return
    call.ask("{program} sets a command to run later.")
    if HOLE not in args[0].value:
        call.runs(args[0].value)


_NETWORK_CODE = re.compile(
    r"\burllib|\brequests\.|http\.client|https?://|socket|Net::|LWP|fetch\(|open-uri|TCPSocket"
    r"|fsockopen|curl"
)


def interpreter(call: Call) -> None:
    """Judge python, perl…: code is not parsed, only searched for dangerous patterns."""
    words, operands = call.words, call.bare
    version = {"--version", "-V", "-v", "-version", "--help", "-VV"}
    unversioned = {"bc", "dc", "m4", "tclsh", "expect", "ipython", "jupyter", "groovy"}
    if (
        len(words) == 1
        and words[0] in version - {"--version", "--help"}
        and call.name not in unversioned
    ):
        return
    call.findings.effect("execute", call.name)
    call.ask("{program} runs code KogniTerm cannot inspect.")
    comes_from_network(call, *call.args)
    code = " ".join((*words, call.stdin or ""))
    for operand in operands[:1]:
        runs_fetched(call, operand)
    call.findings.scan(code, "Contains code that {what}.")
    if call.piped and not operands and not any(re.match(r"-[ceE]", word) for word in words):
        runs_pipe(call)
    call.mentions()
    for piece in re.findall(r"[~/.\w-]*/[\w.~/-]+|\.env\b", code):
        call.read_later([CallWord(call.scope.roots.tilde(piece))])
    if _NETWORK_CODE.search(code):
        call.findings.effect("network", call.name)
    if re.search(r"environ|process\.env|\bENV\b|getenv|%ENV", code):
        call.findings.effect("secret", "environment")


def jq(call: Call) -> None:
    """Judge jq: a filter can show the environment and load files, or be in one."""
    pairs = {"--arg": False, "--argjson": False, "--slurpfile": True, "--rawfile": True}
    args = list(call.args)
    rest: list[CallWord] = []
    while args:
        arg = args.pop(0)
        if arg.value not in pairs:
            rest.append(arg)
            continue
        pair, args = args[:2], args[2:]
        if any(one.brings_words for one in pair):
            ask_unclear(call)
        if pairs[arg.value] and len(pair) == 2:
            call.reads(pair[1])
    inner = replace(call, args=tuple(rest))
    pattern(inner)
    if inner.parse().has("f", "from-file"):
        call.ask("{program} runs a script from a file.")
    _filter_looks_further(
        call, r"(?<![.\w\"])env\b(?!\s*:)|\$ENV", r"(?<![.\w\"])(?:include|import)\b(?!\s*:)"
    )


def yq(call: Call) -> None:
    """Judge yq: an expression can show the environment and load files."""
    pattern(call)
    _filter_looks_further(
        call,
        r"(?<![.\w\"])(?:str)?env\b(?!\s*:)|\$ENV|\benvsubst\b",
        r"\b(?:load(?:_\w+)?|eval|system)\s*\(",
    )


def _filter_looks_further(call: Call, environment: str, files: str) -> None:
    first = next(iter(call.bare), CallWord(""))
    if first.tainted and HOLE in first.value:
        call.ask("An argument of {program} is known only at run time.")
    if any(re.search(environment, arg.value) for arg in call.args):
        call.findings.effect("secret", "environment")
        call.ask("Shows environment variables, which may include secrets.")
    if any(re.search(files, arg.value) for arg in call.args):
        call.ask("{program} runs a script from a file.")


HANDLERS: Mapping[str, Callable[[Call], None]] = {
    "sed": sed, "awk": awk, "shell": shell, "eval": eval_, "source": source, "trap": trap,
    "interpreter": interpreter,
    "jq": jq, "yq": yq,
}  # fmt: skip


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
