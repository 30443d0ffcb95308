"""Repairs of a command: by the names of its request, and by the error that it ended with.

A small model copies the form of an example well and its names badly, and repeats a command that
failed although the error says what it lacks. Both can be put right without another completion.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from kogniterm.addons.local_model.conversation import asks_to_look, wording
from kogniterm.text.language import plain

FILE_NAME = re.compile(r"(?<![\w.*?/-])[\w-]+(?:/[\w.-]+)*\.[a-z]\w{0,5}\b")
_FOLDER = re.compile(wording("in_folder"))
_LOOKS_INTO = re.compile(r"(?:find|du|tree|grep -\w*[rR]\w*|rg)\b[^|;&<>()]*")
_HERE = re.compile(r"(?<=\s)\./?(?=\s|$)")
_START = re.compile(r"^find (?P<start>[\w-]+)(?= )")
_LISTS_HERE = re.compile(r"^ls(?: -[\w-]+)*(?=$| *\|)")
_PRINTS_EDIT = re.compile(r"^sed (?!-n\b|-i\b)(?:-[Er] )?(['\"])(?:(?!\1).)+\1 [^|;&<>]+$")
_FROM_MANY = re.compile(r"^(?P<reads>[a-z][^|;&<>]*?) < (?P<files>[^\s|;&<>]*\*[^\s|;&<>]*)")
_ONE_LINE = re.compile(r" ?\| ?tr '\\n' ' '(?= ?(?:>|\||$))")
_SWAP = re.compile(r"^mv (?:-- )?(?P<a>[\w./-]+) (?P<b>[\w./-]+) && mv (?:-- )?(?P=b) (?P=a)$")
_YEAR_AS_AGE = re.compile(r"-mtime [+-]?((?:19|20)\d\d)\b")
_OLDER = re.compile(wording("older"))
_SILENT_PYTHON = re.compile(r"\bpython3? -c '(?P<code>[^'\n]*)'")
HAS_EFFECT = re.compile(
    r"\b(?:print|write\w*|dump|rename|replace|move|copy\w*|unlink|remove|mkdir|makedirs|chmod|"
    r"extractall|make_archive|run|exit|test|stdout)\b"
)
_WANTS_ONE_LINE = re.compile(wording("one_line"))


def folder_of(request: str) -> str:
    """Return the folder that `request` says to look into, "" where it names none."""
    folded = plain(request)
    named = _FOLDER.search(folded)
    if named is None:
        return ""
    # Folding may change the length of a text, but seldom does.
    start, end = named.span(named.lastindex or 0)
    return request[start:end] if len(folded) == len(request) else folded[start:end]


def with_names_of(request: str, command: str) -> str:
    """Return `command` with what is certain from `request`: its folder, its effect, all its files.

    A search of the current folder, or of one that the request does not name, is one of the folder
    that it names; an edit that is only printed is made, and a value that is not printed is; files
    that swap their names do not meet; a year is no number of days; several files are read one after
    the other; lines are not joined unasked.
    """
    folder = folder_of(request)
    if folder and not re.search(rf"(?<![\w.-]){re.escape(folder)}(?![\w.-])", command):
        command = _looking_into(folder, request, command)
    if not asks_to_look(request) and _PRINTS_EDIT.match(command):
        command = command.replace("sed ", "sed -i ", 1)
    command = _SWAP.sub(r"mv \g<a> \g<b>.new && mv \g<b> \g<a> && mv \g<b>.new \g<b>", command)
    if (year := _YEAR_AS_AGE.search(command)) is not None:
        older = "! " if _OLDER.search(plain(request)) else ""
        command = command.replace(year.group(), f"{older}-newermt {year[1]}-01-01")
    command = _SILENT_PYTHON.sub(_printing, command)
    if not _WANTS_ONE_LINE.search(plain(request)):
        command = _ONE_LINE.sub("", command)
    return _FROM_MANY.sub(r"cat \g<files> | \g<reads>", command)


def _printing(found: re.Match[str]) -> str:
    """Return the Python command with the value printed that its last expression only makes."""
    code = found["code"]
    try:
        last = ast.parse(code).body[-1]
    except (SyntaxError, ValueError, IndexError):
        return found.group()
    # Offsets count bytes.
    if HAS_EFFECT.search(code) or not isinstance(last, ast.Expr) or not code.isascii():
        return found.group()
    value = code[last.col_offset : last.end_col_offset]
    many = isinstance(last.value, ast.ListComp | ast.GeneratorExp | ast.SetComp)
    printed = f'print(*{value}, sep="\\n")' if many else f"print({value})"
    return found.group().replace(code, code[: last.col_offset] + printed)


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
    (r"^grep: .+: Is a directory$", r"\bgrep\b", "grep -r", 1),
    (r"^rm: cannot remove .+: Is a directory$", r"\brm\b", "rm -r", 1),
    (r"^cp: -r not specified", r"\bcp\b", "cp -r", 1),
    (r"^mkdir: .+: No such file", r"\bmkdir\b", "mkdir -p", 1),
    (r"^sort: (?:sort: )?read failed: .+: Is a directory$", r"\bsort (?=[\w.])", "ls ", 0),
    (r"^(?:mv|cp): target '([\w./]+)'(?:: No such| is not a dir)", "^", "mkdir -p {} && ", 1),
    (r"\./[\w./-]+: Permission denied$", r"(?<!\S)\./", "bash ", 1),
)
"""An error, what is replaced in the command, by what, and how often (0: everywhere).

Of an error only a plain name gets into a command: files may be named to make it another one.
"""


def repaired(command: str, output: str) -> str | None:
    """Return `command` with what the error in `output` says that it lacks; None where it does not.

    A directory is read with what is in it, and a folder that things go into is made.
    """
    for error, place, by, count in _REPAIRS:
        if (said := re.search(error, output, re.MULTILINE)) is not None:
            made = re.sub(place, by.format(*said.groups()), command, count=count)
            return made if made != command else None
    return None
