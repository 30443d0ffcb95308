"""Archives and copies of trees: listing reads, packing writes one, unpacking anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from kogniterm.approval.call import Call
from kogniterm.approval.naming import names
from kogniterm.approval.options import Parsed, Rules, parse_options
from kogniterm.approval.places import HOLE, is_broad
from kogniterm.approval.programs.common import mentions
from kogniterm.approval.programs.plain import apply_options, reads_below
from kogniterm.approval.scope import Argument

_TAR_READS = ("t", "list", "d", "diff", "compare", "O", "to-stdout")
_TAR_CHANGES = ("r", "append", "u", "update", "A", "catenate", "concatenate")
_TAR = Rules(
    "",
    options={
        **dict.fromkeys(
            names(
                """
                f file b blocking-factor H format K starting-file L tape-length N newer after-date
                newer-mtime V label exclude strip-components transform xform owner group mode mtime
                sort pax-option level quoting-style suffix record-size one-top-level
                """
            ),
            "value",
        ),
        **dict.fromkeys((*_TAR_READS, *_TAR_CHANGES, "create", "extract", "get"), "plain"),
        **dict.fromkeys(("T", "files-from", "X", "exclude-from"), "read"),
        **dict.fromkeys(("g", "listed-incremental", "index-file", "volno-file"), "write"),
        **dict.fromkeys(("C", "directory"), "folder"),
        **dict.fromkeys(("remove-files", "delete", "unlink-first", "recursive-unlink"), "ask"),
        **dict.fromkeys(
            names(
                """
                I use-compress-program F info-script new-volume-script to-command checkpoint-action
                rsh-command rmt-command
                """
            ),
            "run",
        ),
    },
)


def tar(call: Call, rules: Rules) -> None:
    """tar: listing reads, creating writes the archive, extracting writes anything."""
    parsed = parse_options(_tar_dashed(call.args), _TAR)
    _tar_hazards(call, parsed)
    archives = parsed.values("f", "file")
    for archive in archives:
        if re.match(r"[^/]+:", archive.value):
            call.network(archive.value)
    creates = parsed.has("c", "create")
    if not parsed.has(*_TAR_CHANGES) and (creates or parsed.has(*_TAR_READS)):
        for archive in archives:
            if creates:
                call.writes(archive)
            else:
                call.reads(archive)
        if creates:
            _tar_packs(call, parsed)
        elif parsed.has("O", "to-stdout"):
            mentions(call.with_args(parsed.operands))
        return
    call.ask("{program} unpacks files over what is there.")
    folders = parsed.values("C", "directory", "one-top-level")
    for folder in folders[-1:] or (Argument("."),):
        for member in parsed.operands or (Argument(HOLE),):
            call.writes(Argument(f"{folder.value}/{member.value}", member.glob))
    for folder in parsed.values("C", "directory"):
        place = call.place(folder)
        call.changes(place)
        if not place.inside and is_broad(place, call.scope.ground):
            call.danger("{program} unpacks over {path}.", path=call.shown(place))
    del rules


def _tar_dashed(args: tuple[Argument, ...]) -> list[Argument]:
    """`args` with the letters of the old form, whose values follow in order, given dashes."""
    if not args or not re.fullmatch(r"[A-Za-z]+", args[0].value):
        return list(args)
    rest = list(args[1:])
    dashed: list[Argument] = []
    for letter in args[0].value:
        dashed.append(Argument("-" + letter))
        if _TAR.takes_value(letter) and rest:
            dashed[-1:] = [replace(rest[0], value=f"-{letter}{rest[0].value}")]
            rest.pop(0)
    return [*dashed, *rest]


def _tar_hazards(call: Call, parsed: Parsed) -> None:
    """Options that run programs or write files, and words that could turn out to be options."""
    for option in parsed.options:
        action = _TAR.options.get(option.name)
        if action == "run":
            call.ask("An option of {program} runs another program.")
            if option.value is not None:
                call.starts(option.value.value.removeprefix("exec="))
        elif action == "write":
            call.ask("An option of {program} writes a file.")
        elif action == "ask":
            call.ask("{program} deletes the files it packed.")
        elif action == "read" and option.value is not None:
            call.reads(option.value)
    if parsed.unclear or any(HOLE in option.name for option in parsed.options):
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")


def _tar_packs(call: Call, parsed: Parsed) -> None:
    """What goes into an archive is read, from the folders it is told to change to."""
    if parsed.has("T", "files-from"):
        call.ask("{program} packs files whose names it reads.")
    for folder in (*parsed.values("C", "directory"), None):
        scope = call.scope.branch()
        if folder is not None:
            scope.cwd = call.place(folder).path
        elif parsed.has("C", "directory"):
            continue
        inner = call.with_scope(scope)
        for operand in parsed.operands:
            inner.reads(operand)
            reads_below(inner, operand)


_UNZIP = Rules("", options=dict.fromkeys(("d", "P", "I", "O"), "value"))


def unzip(call: Call, rules: Rules) -> None:
    """unzip: -l and its kin list, -p prints."""
    parsed = parse_options(call.args, _UNZIP)
    for operand in parsed.operands[:1]:
        call.reads(operand)
    if parsed.unclear:
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")
    if not parsed.has(*"lvtpcZz") or parsed.has("T"):
        call.ask("{program} unpacks files over what is there.")
        for folder in parsed.values("d")[-1:] or (Argument("."),):
            for member in parsed.operands[1:] or (Argument(HOLE),):
                call.writes(Argument(f"{folder.value}/{member.value}", member.glob))
    elif parsed.has("p", "c"):
        mentions(call.with_args(parsed.operands[1:]))
    del rules


def sevenzip(call: Call, rules: Rules) -> None:
    """7z: l and t list."""
    verb = call.args[0].value if call.args else ""
    for operand in call.args[1:2]:
        call.reads(operand)
    if verb not in {"l", "t", "h", "i", "b"}:
        call.ask("{program} packs or unpacks files.")
    del rules


_ZIP_PLAIN = re.compile(
    r"-(?!TT|lf)[rRqjyvXDgoufTlkcz0-9]+|--(?:recurse-paths|quiet|junk-paths|symlinks|verbose|no-extra"
    r"|no-dir-entries|update|freshen|test|version|help)|-[xi]|--(?:exclude|include)(?:=.*)?"
)
_ZIP_VALUED = frozenset({"-n", "-t", "-Z", "-P", "--suffixes", "--password"})


def zip_(call: Call, rules: Rules) -> None:
    """zip: the first operand is written, the rest read; -TT runs a program, -m deletes."""
    operands: list[Argument] = []
    words = list(call.args)
    patterns = False
    while words:
        word = words.pop(0)
        if not word.value.startswith("-"):
            # Behind -x and -i stand patterns, up to the next option.
            if not patterns:
                operands.append(word)
            continue
        patterns = re.match(r"-[xi]|--(?:exclude|include)", word.value) is not None
        if word.value in _ZIP_VALUED:
            del words[:1]
        elif not _ZIP_PLAIN.fullmatch(word.value):
            call.ask("An option of {program} deletes files or runs a program.")
            if word.value in {"-TT", "--unzip-command"} and words:
                call.starts(words.pop(0).value)
    recursive = any(re.match(r"-\w*[rR]|--recurse", arg.value) for arg in call.args)
    for operand in operands[1:]:
        call.reads(operand)
        if recursive:
            reads_below(call, operand)
    for operand in operands[:1]:
        call.writes(operand)
    if any(arg.maybe_option for arg in call.args):
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")
    del rules


def compress(call: Call, rules: Rules) -> None:
    """gzip and kin: replace files, unless they write to the output or only test."""
    options = Rules(
        "",
        options={
            **dict.fromkeys(("S", "suffix"), "value"),
            **dict.fromkeys(("T", "M") if call.name in {"xz", "unxz"} else (), "value"),
            **dict.fromkeys(("o", "output-dir-flat", "output-dir-mirror", "trace"), "write"),
            **dict.fromkeys(("D", "patch-from", "files", "files0", "filelist"), "read"),
        },
    )
    parsed = parse_options(call.args, options)
    harmless = parsed.has("c", "stdout", "to-stdout", "t", "test", "V", "version", "h", "help")
    # With lz4, -l chooses a format.
    harmless = harmless or (call.name != "lz4" and parsed.has("l", "list"))
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
