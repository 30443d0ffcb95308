"""Archives and copies of trees: listing reads, packing writes one, unpacking anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from kogniterm.approval.call import Call
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.places import (
    is_broad,
)
from kogniterm.approval.programs.plain import apply_options
from kogniterm.approval.scope import Argument

_TAR_LETTER = re.compile(r"-?[A-Za-z]+\Z")

_TAR_RUNS = re.compile(
    r"--(?:to-com|checkpoint-a|use-com|info-sc|new-vol|rsh|rmt|I\b|tr?\b)", re.IGNORECASE
)

_TAR_WRITES = re.compile(r"--(?:ind|volno|listed|del)")


def tar(call: Call, rules: Rules) -> None:
    """tar: listing reads, creating writes the archive, extracting writes anything."""
    words = [arg.value for arg in call.args]
    first = words[0] if words else ""
    bundle = first if first and not first.startswith("--") and _TAR_LETTER.match(first) else ""
    letters = bundle.lstrip("-") + "".join(w[1:] for w in words[1:] if re.match(r"-[A-Za-z]", w))
    _tar_hazards(call, words, letters)
    archive = _tar_archive(call, letters)
    if archive is not None and re.match(r"[^/]+:", archive.value):
        call.network(archive.value)
    if "t" in letters or "--list" in words:
        if archive is not None:
            call.reads(archive)
    elif "c" in letters.replace("--", "") or "--create" in words:
        for arg in call.args[1:]:
            if not arg.value.startswith("-") and arg is not archive:
                call.reads(arg)
        if archive is not None:
            call.writes(archive)
        if "--remove-files" in words:
            call.ask("{program} deletes the files it packed.")
    elif "O" in letters or "--to-stdout" in words:
        if archive is not None:
            call.reads(archive)
    elif "d" in letters and "x" not in letters:
        return
    else:
        call.findings.effect("overwrite", "*")
        call.ask("{program} unpacks files over what is there.")
        for folder in _tar_folders(call):
            place = call.place(folder)
            call.changes(place)
            if not place.inside and is_broad(place, call.scope.ground):
                call.danger("{program} unpacks over {path}.", path=call.shown(place))
    del rules


def _tar_hazards(call: Call, words: list[str], letters: str) -> None:
    """Options that run programs or write files, and words that could turn out to be options."""
    if any(_TAR_RUNS.match(word) for word in words) or "I" in letters or "F" in letters:
        call.ask("An option of {program} runs another program.")
        for text in _tar_programs(words):
            call.starts(text)
    if any(_TAR_WRITES.match(word) for word in words):
        call.ask("An option of {program} writes a file.")
    if any(arg.maybe_option for arg in call.args):
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")


def _tar_programs(words: list[str]) -> list[str]:
    """What options name as programs to run: `--checkpoint-action=exec=…`, `-I …`."""
    given = [
        word.partition("=")[2].removeprefix("exec=")
        for word in words
        if "=" in word and _TAR_RUNS.match(word)
    ]
    for word, follows in pairwise(words):
        if word in {"-I", "-F"} or (_TAR_RUNS.match(word) and "=" not in word):
            given.append(follows)
    return [text for text in given if text]


def _tar_folders(call: Call) -> list[Argument]:
    """Where it unpacks, if that is said."""
    folders = [
        follows for arg, follows in pairwise(call.args) if arg.value in {"-C", "--directory"}
    ]
    for arg in call.args:
        match = re.match(r"--directory=(.+)|-C(.+)", arg.value)
        if match:
            folders.append(replace(arg, value=match[1] or match[2]))
    return folders


def _tar_archive(call: Call, letters: str) -> Argument | None:
    for index, arg in enumerate(call.args):
        if arg.value.startswith("--file="):
            return Argument(arg.value.partition("=")[2], arg.glob)
        takes = arg.value == "--file" or (
            re.fullmatch(r"-?[A-Za-z]*f", arg.value) and (index == 0 or arg.value[0] == "-")
        )
        if takes and index + 1 < len(call.args):
            return call.args[index + 1]
    if "f" in letters and len(call.args) > 1:
        return call.args[1]
    return None


def unzip(call: Call, rules: Rules) -> None:
    """unzip: -l and its kin list."""
    options = "".join(a.value[1:] for a in call.args if re.match(r"-[A-Za-z]", a.value))
    operands = [a for a in call.args if not a.value.startswith("-")]
    for operand in operands[:1]:
        call.reads(operand)
    if not set(options) & set("lvtpcZ"):
        call.findings.effect("overwrite", "*")
        call.ask("{program} unpacks files over what is there.")
    del rules


def sevenzip(call: Call, rules: Rules) -> None:
    """7z: l and t list."""
    verb = call.args[0].value if call.args else ""
    for operand in call.args[1:2]:
        call.reads(operand)
    if verb not in {"l", "t", "h", "i", "b"}:
        call.ask("{program} packs or unpacks files.")
    del rules


def zip_(call: Call, rules: Rules) -> None:
    """zip: the first operand is written; -T with -TT runs a program, -m deletes."""
    words = [arg.value for arg in call.args]
    options = [word for word in words if word.startswith("-")]
    if any(re.match(r"-TT|--unzip-command|-\w*m|--move|-\w*d|--delete", word) for word in options):
        call.ask("An option of {program} deletes files or runs a program.")
        for word, follows in pairwise(words):
            if word in {"-TT", "--unzip-command"}:
                call.starts(follows)
    operands = [arg for arg in call.args if not arg.value.startswith("-")]
    for operand in operands[1:]:
        call.reads(operand)
    for operand in operands[:1]:
        call.writes(operand)
    if any(arg.maybe_option for arg in call.args):
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")
    del rules


def compress(call: Call, rules: Rules) -> None:
    """gzip and kin: replace files, unless they write to the output or only test."""
    options = Rules("", options={"S": "value", "suffix": "value", "T": "value", "o": "write"})
    parsed = parse_options(call.args, options)
    harmless = parsed.has(
        "c", "stdout", "to-stdout", "t", "test", "l", "list", "V", "version", "h", "help"
    )
    apply_options(call, options, parsed)
    for operand in parsed.operands:
        call.reads(operand)
        if not harmless:
            place = call.place(operand)
            call.findings.effect("delete", call.shown(place), outside=not place.inside)
            call.changes(place)
    del rules


def rsync(call: Call, rules: Rules) -> None:
    """rsync: always asked; remote ends, --delete and -e make it worse."""
    parsed = parse_options(
        call.args,
        Rules(
            "", options={"e": "run", "rsh": "run", "rsync-path": "run", "f": "value", "B": "value"}
        ),
    )
    call.ask("{program} copies and may overwrite or delete files.")
    *sources, target = parsed.operands or (Argument("."),)
    for operand in parsed.operands:
        if re.match(r"[^/]+:|rsync://", operand.value):
            call.network(operand.value)
    for source in sources:
        if not re.match(r"[^/]+:", source.value):
            call.reads(source)
    if not re.match(r"[^/]+:", target.value):
        call.writes(target)
        place = call.place(target)
        deletes = any(option.name.startswith("del") for option in parsed.options)
        if deletes and (is_broad(place, call.scope.ground) or not place.inside):
            call.danger(
                "{program} deletes what is not in its source from {path}.", path=call.shown(place)
            )
    apply_options(call, Rules("", options={"e": "run", "rsh": "run", "rsync-path": "run"}), parsed)
    del rules


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "tar": tar,
    "unzip": unzip,
    "sevenzip": sevenzip,
    "zip": zip_,
    "compress": compress,
    "rsync": rsync,
}
