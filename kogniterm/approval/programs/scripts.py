"""sed and awk: their scripts can write files and run programs, so the scripts are read too."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from kogniterm.approval.call import Call
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.places import HOLE
from kogniterm.approval.scope import Argument
from kogniterm.approval.worst import worst_of_text

MAX_SCRIPT = 3000
_SED_ADDRESS = re.compile(
    r"\s*(?:(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\\(.)(?:(?!\1)[^\\\n]|\\.)*\1[IM]*)"
    r"(?:\s*,\s*(?:[+~]?\d+|\$|/(?:[^/\\\n]|\\.)*/[IM]*))?)?\s*!?\s*"
)
_SED_TEXT = re.compile(r"[aic](?:\\\n|\s*\\?)?(?:[^\n\\]|\\.|\\\n)*", re.DOTALL)


def sed(call: Call, rules: Rules) -> None:
    """sed: the script may hold w, W, e and s///e; -i writes in place."""
    parsed = parse_options(_without_suffix(call.args), rules)
    if parsed.unclear:
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")
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
                call.writes(Argument(path.strip()))
            for command in re.findall(r"(?:^|[;\n\d$/!{]) *e +([^\n]+)", script.value):
                call.starts(command)
        elif script.tainted or (script.glob and not script.known and HOLE in script.value):
            call.ask("The {program} script is only known when it runs.")
    in_place = parsed.has("i", "in-place") or any(
        o.name and "in-place".startswith(o.name[:8]) for o in parsed.options
    )
    for operand in files:
        if in_place:
            call.writes(operand)
            for suffix in _backups(call.args):
                folder, slash, name = operand.value.rpartition("/")
                kept = suffix.replace("*", name) if "*" in suffix else name + suffix
                call.writes(replace(operand, value=kept if "/" in kept else folder + slash + kept))
        else:
            call.reads(operand)


def _backups(args: tuple[Argument, ...]) -> list[str]:
    """The suffix under which `-i` keeps what was there."""
    found = (re.match(r"(?:-[nErsuz]*i|--in-place=)(.+)", arg.value) for arg in args)
    return [match[1] for match in found if match]


def _without_suffix(args: tuple[Argument, ...]) -> list[Argument]:
    """`-i`'s suffix is attached or absent, never the next word."""
    in_place = Argument("--in-place")
    return [in_place if re.match(r"-[nErsuz]*i", arg.value) else arg for arg in args]


def _sed_script(call: Call, script: str) -> bool:
    """Whether every command of `script` is understood and harmless; files read are noted."""
    if len(script) > MAX_SCRIPT:
        return False
    at = 0
    while at < len(script):
        match = re.compile(r"[\s;}]+").match(script, at)
        if match:
            at = match.end()
            continue
        address = _SED_ADDRESS.match(script, at)
        at = address.end() if address else at
        if at >= len(script):
            return True
        end = _sed_command(call, script, at)
        if end is None:
            return False
        at = end
    return True


def _sed_command(call: Call, script: str, at: int) -> int | None:
    """The end of the harmless command at `at`, or None."""
    letter = script[at]
    if letter in "pPdDhHgGxnN={#":
        if letter == "#":
            line = script.find("\n", at)
            return len(script) if line < 0 else line
        return at + 1
    if letter in "qQlL":
        match = re.compile(r".\s*\d*").match(script, at)
        return match.end() if match else None
    if letter in "btT:":
        match = re.compile(r".\s*[^\s;}]*").match(script, at)
        return match.end() if match else None
    if letter in "aic":
        match = _SED_TEXT.match(script, at)
        return match.end() if match else None
    if letter in "rR":
        match = re.compile(r".\s*([^\n;}]+)").match(script, at)
        if match is None:
            return None
        call.reads(Argument(match[1].strip()))
        return match.end()
    if letter in "sy":
        return _sed_substitute(script, at)
    return None


def _sed_substitute(script: str, at: int) -> int | None:
    """`s` or `y` with any delimiter; its flags must not write or execute."""
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
    """The program with strings as `""` and regular expressions as `R`; None if unreadable.

    Whether a slash divides or begins a regular expression depends on what stands before it.
    Where that does not tell, nothing may stand anywhere that could do harm.
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


def awk(call: Call, rules: Rules) -> None:
    """awk: system(), pipes, redirects, getline and @load make a program unsafe."""
    args = list(call.args)
    program: Argument | None = None
    while args and args[0].value.startswith("-") and len(args[0].value) > 1:
        option = args.pop(0)
        word = option.value
        if word == "--":
            break
        if word in {"-F", "-v", "--field-separator", "--assign"}:
            if args:
                args.pop(0)
        elif re.match(r"-[Fv].|--(?:field-separator|assign)=", word):
            continue
        elif word in {
            "-f",
            "--file",
            "-E",
            "--exec",
            "-i",
            "--include",
            "-l",
            "--load",
        } or re.match(r"-[fEil].", word):
            call.ask("{program} runs a script from a file.")
            program = Argument("")
            if args and len(word) == 2:
                args.pop(0)
        elif not re.fullmatch(
            r"-[bcCghMnNOPrsStV]|--(?:posix|traditional|re-interval|csv|version|help|lint)"
            r"|-Wv\w*|--version",
            word,
        ):
            call.ask(
                "An option of {program} is not known: {option}.", option=word.replace(HOLE, "…")
            )
    if program is None and args:
        program = args.pop(0)
    if program is not None and not _awk_is_harmless(program):
        call.ask("The {program} program may write files or run programs.")
        what = worst_of_text(program.value)
        if what:
            call.danger("Its code {what}.", what=what)
    for operand in args:
        if re.match(r"[A-Za-z_]\w*=", operand.value):
            continue
        call.reads(operand)
    del rules


def _awk_is_harmless(program: Argument) -> bool:
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
    """Conditions lose their comparisons; print inside one keeps everything."""
    if re.search(r"\bprintf?\b", match[0]):
        return match[0]
    return match[0].replace(">", " ")


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {"sed": sed, "awk": awk}
