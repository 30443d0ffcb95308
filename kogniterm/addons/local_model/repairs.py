"""Repairs of a command: by the names of its request, and by the error that it ended with.

A small model copies the form of an example well and its names badly, and repeats a command that
failed although the error says what it lacks. Both are corrected without another completion. Only
plain names get into a command, and quoted text stays quoted: neither a request nor an error may
put a command of its own there.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence

from kogniterm.addons.local_model.conversation import asks_to_look, wording
from kogniterm.text.language import plain

FILE_NAME = re.compile(r"(?<![\w.*?/-])[\w-]+(?:/[\w.-]+)*\.[a-z]\w{0,5}\b")
_FOLDER = re.compile(wording("in_folder"))
_LOOKS_INTO = re.compile(r"(?:find|du|tree|grep -\w*[rR]\w*|rg)\b[^|;&<>()]*")
# Behind what is outside of quotes, they are balanced.
_HERE = re.compile(r"(?<=\s)\./?(?=\s|$)(?=(?:[^'\"]|'[^']*'|\"[^\"]*\")*$)")
_START = re.compile(r"^find (?P<start>[\w-]+)(?= )")
_LISTS_HERE = re.compile(r"^ls(?: -[\w-]+)*(?=$| *\|)")
_PRINTS_EDIT = re.compile(r"^sed (?!-n\b|-i\b)(?:-[Er] )?(['\"])(?:(?!\1).)+\1 [^|;&<>]+$")
_FROM_MANY = re.compile(
    r"^(?P<reads>[a-z](?:[^|;&<>'\"\\]|'[^']*'|\"[^\"\\]*\")*?)"
    r" < (?P<files>[\w./-]*\*[\w./*-]*)(?=\s|$)"
)
_ONE_LINE = re.compile(r" ?\| ?tr '\\n' ' '(?= ?(?:>|\||$))")
_SWAP = re.compile(r"^mv (?:-- )?(?P<a>[\w./-]+) (?P<b>[\w./-]+) && mv (?:-- )?(?P=b) (?P=a)$")
_YEAR_AS_AGE = re.compile(r"-mtime (?P<sign>[+-]?)(?P<year>(?:19|20)\d\d)\b")
_OLDER = re.compile(wording("older"))
PYTHON_CODE = re.compile(r"(?P<program>\bpython3? -c )'(?P<code>[^']*)'")
HAS_EFFECT = re.compile(
    r"\b(?:print|write\w*|dump|rename|replace|move|copy\w*|unlink|remove|mkdir|makedirs|chmod|"
    r"extractall|make_archive|run|exit|test|stdout)\b"
)
_WANTS_ONE_LINE = re.compile(wording("one_line"))


def folder_of(request: str) -> str:
    """Return the folder that `request` says to look into, "" where it names none."""
    found = _FOLDER.search(plain(request))
    if found is None:
        return ""
    folder = found[found.lastindex or 0]
    # Folding may move characters, so the spelling is looked up as a word and not by position.
    words = re.findall(r"\w(?:[\w.-]*\w)?|\.[\w.-]*\w", request)
    return next((word for word in words if plain(word) == folder), folder)


def with_names_of(request: str, command: str) -> str:
    """Return `command` with what is certain from `request`: its folder, its effect, all its files.

    A search of the current folder, or of one that the request does not name, is one of the folder
    that it names; an edit that is only printed is made, and a value that is not printed is; files
    that swap their names meet neither each other nor a third one; a year is no number of days;
    several files are read one after the other; lines are not joined unasked.
    """
    folder = folder_of(request)
    if folder and not re.search(rf"(?<![\w.-]){re.escape(folder)}(?![\w.-])", command):
        command = _looking_into(folder, request, command)
    if not asks_to_look(request) and _PRINTS_EDIT.match(command):
        command = command.replace("sed ", "sed -i ", 1)
    command = _SWAP.sub(
        r"test ! -e \g<b>.new && mv \g<a> \g<b>.new && mv \g<b> \g<a> && mv \g<b>.new \g<b>",
        command,
    )
    if (age := _YEAR_AS_AGE.search(command)) is not None:
        older = bool(_OLDER.search(plain(request)))
        # Where the two disagree, the other half of the files might be deleted.
        if age["sign"] != ("-" if older else "+"):
            before = "! " if older else ""
            command = command.replace(age.group(), f"{before}-newermt {age['year']}-01-01")
    command = PYTHON_CODE.sub(_print_value, command)
    if not _WANTS_ONE_LINE.search(plain(request)):
        command = _ONE_LINE.sub("", command)
    return _FROM_MANY.sub(r"cat \g<files> | \g<reads>", command)


def python_statements(code: str) -> list[ast.stmt] | None:
    """Return the statements of Python code, None where it does not parse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would be written across the screen
        try:
            return ast.parse(code).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _print_value(found: re.Match[str]) -> str:
    """Return the Python command with the value printed that its last expression only makes."""
    code = found["code"]
    statements = python_statements(code)
    # Offsets count the bytes of a line.
    if not statements or HAS_EFFECT.search(code) or not code.isascii() or "\n" in code:
        return found.group()
    last = statements[-1]
    if not isinstance(last, ast.Expr):
        return found.group()
    value = code[last.col_offset : last.end_col_offset]
    many = isinstance(last.value, ast.ListComp | ast.GeneratorExp | ast.SetComp)
    printed = f'print(*{value}, sep="\\n")' if many else f"print({value})"
    return f"{found['program']}'{code[: last.col_offset]}{printed}'"


def _looking_into(folder: str, request: str, command: str) -> str:
    if _LISTS_HERE.match(command):
        return _LISTS_HERE.sub(rf"\g<0> {folder}", command)
    start = _START.match(command)
    if start is not None and start["start"] not in plain(request):
        return f"find {folder}{command[start.end() :]}"
    looks = _LOOKS_INTO.match(command)
    if looks is None:
        return command
    return _HERE.sub(folder, looks.group(), count=1) + command[looks.end() :]


def names_exchanged(names: Sequence[str], shown: str, command: str) -> str:
    """Return `command` with the files of the request `shown` as those of `names`, by position."""
    theirs = list(dict.fromkeys(FILE_NAME.findall(shown)))
    if len(theirs) != len(names):
        return command
    pairs = dict(zip(theirs, names, strict=True))
    return FILE_NAME.sub(lambda found: pairs.get(found.group(), found.group()), command)


_REPAIRS = (
    (r"^grep: .+: Is a directory$", r"^grep\b", "grep -r"),
    (r"^rm: cannot remove '([\w./-]+)': Is a directory$", r"^rm(?= (?:-f )?{}$)", "rm -r"),
    (r"^cp: -r not specified; omitting directory '([\w./-]+)'$", r"^cp(?= {} \S+$)", "cp -r"),
    (r"^mkdir: .+: No such file", r"^mkdir\b", "mkdir -p"),
    (r"^sort: (?:sort: )?read failed: .+: Is a directory$", r"(?:^|(?<=<\())sort (?=[\w.])", "ls "),
    (r"^(?:mv|cp): target '([\w./]+)'(?:: No such| is not a dir)", "^(?=(?:mv|cp) .* {}$)",
     "mkdir -p {} && "),
)  # fmt: skip
"""An error, what is replaced in the command, and by what; {} is the name in the error.

A folder is only deleted or copied where the command names it and nothing else: a pattern may have
meant the files beside it.
"""
_CHECK = re.compile(r" && test -s [\w./-]+$")
_SEVERAL = re.compile(r"[;&\n]|>>")


def repaired(command: str, output: str) -> str | None:
    """Return `command` with what the error in `output` says that it lacks; None where it does not.

    A directory is read with what is in it, and a folder that things go into is made. Several
    commands are not run again: the first of them may have had their effect.
    """
    command = _CHECK.sub("", command)
    if _SEVERAL.search(command):
        return None
    for error, place, by in _REPAIRS:
        if (said := re.search(error, output, re.MULTILINE)) is not None:
            names = said.groups()
            made = re.sub(place.format(*map(re.escape, names)), by.format(*names), command)
            return made if made != command else None
    return None
