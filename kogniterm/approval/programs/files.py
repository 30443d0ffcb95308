"""Programs whose operands are files to make, copy, move, delete or pack."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.call import Call
from kogniterm.approval.options import Parsed, Rules, parse_options
from kogniterm.approval.places import (
    HOLE,
    is_broad,
    is_device,
    is_harmless_device,
    is_secret,
    is_steering,
    is_system,
)
from kogniterm.approval.programs.plain import apply_options, reads_below
from kogniterm.approval.scope import Argument


def rm(call: Call, rules: Rules) -> None:
    """rm: what it deletes decides."""
    parsed = parse_options(call.args, rules)
    recursive = parsed.has("r", "R", "recursive") or parsed.has("rec", "recur")
    forced = parsed.has("f", "force")
    if parsed.has("no-preserve-root"):
        call.danger("{program} is told to delete even the root folder.")
    if any(HOLE in option.name for option in parsed.options):
        recursive = True
    for operand in parsed.operands:
        call.deletes(operand, recursive=recursive, forced=forced)
    call.ask("{program} deletes files.")


def rmdir(call: Call, rules: Rules) -> None:
    """rmdir, unlink."""
    for operand in parse_options(call.args, rules).operands:
        call.deletes(operand)
    call.ask("{program} deletes files.")


def shred(call: Call, rules: Rules) -> None:
    """shred: what it overwrites cannot be brought back."""
    for operand in parse_options(
        call.args, Rules("", options={"n": "value", "s": "value"})
    ).operands:
        call.deletes(operand)
        call.writes(operand)
    call.danger("{program} destroys files so that they cannot be restored.")
    del rules


def empty(call: Call, rules: Rules) -> None:
    """truncate: content is lost."""
    parsed = parse_options(call.args, rules)
    for operand in parsed.operands:
        call.writes(operand)
        call.findings.effect("delete", call.shown(call.place(operand)))
    call.ask("{program} cuts files off.")


def tee(call: Call, rules: Rules) -> None:
    """tee: writes its operands."""
    parsed = parse_options(call.args, rules)
    append = parsed.has("a", "append")
    for operand in parsed.operands:
        if operand.split and HOLE in operand.value:
            call.ask("It writes to a file only known when it runs.")
        call.writes(operand, append=append)


def _split_target(parsed: Parsed) -> tuple[tuple[Argument, ...], Argument | None]:
    folders = parsed.values("t", "target-directory")
    if folders:
        return parsed.operands, folders[-1]
    if not parsed.operands:
        return (), None
    return parsed.operands[:-1], parsed.operands[-1]


def copy(call: Call, rules: Rules) -> None:
    """cp, install: sources are read, the target written."""
    parsed = parse_options(call.args, rules)
    sources, target = _split_target(parsed)
    recursive = parsed.has("r", "R", "a", "recursive", "archive")
    for source in sources:
        call.reads(source)
        if recursive:
            reads_below(call, source)
        if is_harmless_device(source.value):
            call.ask("It empties a file.")
    if call.name == "install" and any(
        _SET_UID.search(mode.value) for mode in parsed.values("m", "mode")
    ):
        call.danger("It makes files run with their owner's rights (set-uid).")
    if call.name == "install" and parsed.has("d", "directory"):
        for operand in parsed.operands:
            call.creates(operand)
    elif target is not None:
        _into(call, parsed, sources, target)
    if is_unclear(parsed):
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")


def is_unclear(parsed: Parsed) -> bool:
    """Whether an argument may be an option in disguise."""
    return bool(parsed.unclear) or any(HOLE in option.name for option in parsed.options)


def _into(call: Call, parsed: Parsed, sources: tuple[Argument, ...], target: Argument) -> None:
    """Writing `sources` to `target`, which may be a folder."""
    named = parsed.has("T", "no-target-directory") or not sources
    for one in (None,) if named else sources:
        call.writes(target, source=one)
    backups = parsed.values("backup", "suffix", "S")
    if backups or parsed.has("b", "backup"):
        call.writes(Argument(f"{target.value}{HOLE}"))
    for source in sources:
        name = source.value.rstrip("/").rpartition("/")[2]
        landed = Argument(target.value.rstrip("/") + "/" + name)
        if (
            name
            and is_steering(call.place(landed).path)
            and not is_steering(call.place(target).path)
        ):
            call.danger(
                "It changes {path}, which other programs obey.", path=call.shown(call.place(landed))
            )


def move(call: Call, rules: Rules) -> None:
    """mv: the sources leave their place."""
    parsed = parse_options(call.args, rules)
    sources, target = _split_target(parsed)
    for source in sources:
        place = call.place(source)
        if is_broad(place, call.scope.ground) and (
            place.glob or not place.inside or not place.path.count("/") > 1
        ):
            call.danger("It moves far more than one file: {path}.", path=call.shown(place))
        elif is_steering(place.path) or (is_system(place.path) and not place.inside):
            call.danger("It moves {path}, which other programs depend on.", path=call.shown(place))
        elif not place.inside:
            call.ask("It moves {path}, outside the workspace.", path=call.shown(place))
        call.findings.effect("delete", call.shown(place), outside=not place.inside)
        if is_secret(place.path, glob=place.glob):
            call.secret(place)
    if target is not None:
        if call.place(target).path == "/dev/null":
            call.danger("It moves files to /dev/null, where they are lost.")
        _into(call, parsed, sources, target)
    if is_unclear(parsed):
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")


def link(call: Call, rules: Rules) -> None:
    """ln: a link leads writes and reads elsewhere later."""
    parsed = parse_options(call.args, rules)
    sources, target = _split_target(parsed)
    if target is not None and sources:
        for one in (None,) if parsed.has("T", "no-target-directory") else sources:
            call.writes(target, source=one)
    elif len(parsed.operands) == 1:
        name = parsed.operands[0].value.rstrip("/").rpartition("/")[2]
        call.writes(Argument(name or HOLE))
    for source in sources or parsed.operands:
        place = call.place(source)
        if is_secret(place.path, glob=place.glob):
            call.secret(place)
        elif not place.inside:
            call.ask("It links to {path}, outside the workspace.", path=call.shown(place))
    if target is not None and len(sources) == 1:
        call.scope.links[call.place(target).path] = call.place(sources[0]).path
    call.findings.note("workspace_write", "{program} makes links.", program=call.name)


def mktemp(call: Call, rules: Rules) -> None:
    """mktemp: a new file in the shared folder for throw-away files."""
    parsed = parse_options(call.args, rules)
    folders = parsed.values("p", "tmpdir")
    if not parsed.operands and not folders:
        call.findings.effect("create", "/tmp/tmp.…", outside=True)
    for template in parsed.operands or (Argument("tmp.XX"),) if folders else parsed.operands:
        name = re.sub(r"XX+", HOLE, template.value)
        call.writes(Argument(f"{folders[-1].value}/{name}" if folders else name), append=True)
    call.findings.note("workspace_write", "{program} makes a temporary file.", program=call.name)


def mknod(call: Call, rules: Rules) -> None:
    """mknod: a pipe is a file like others, a device is not."""
    parsed = parse_options(call.args, Rules("", options={"m": "value", "mode": "value"}))
    if parsed.operands[1:2] and parsed.operands[1].value == "p":
        call.writes(parsed.operands[0], append=True)
    else:
        call.findings.effect("privilege", "mknod", outside=True)
        call.danger("{program} makes a device file.")
    del rules


def split(call: Call, rules: Rules) -> None:
    """split, csplit: pieces of a file land beside each other."""
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)
    for operand in parsed.operands[:1]:
        call.reads(operand)
    prefix = "x"
    if call.name == "split" and len(parsed.operands) > 1:
        prefix = parsed.operands[1].value
    for given in parsed.values("f", "prefix") if call.name == "csplit" else ():
        prefix = given.value
    call.writes(Argument(prefix + HOLE))


def _each_place(call: Call, operands: tuple[Argument, ...], *, recursive: bool) -> None:
    for operand in operands:
        place = call.place(operand)
        call.findings.effect(
            "write", call.shown(place).replace(HOLE, "…"), outside=not place.inside
        )
        if (recursive and is_broad(place, call.scope.ground)) or is_device(place.path):
            call.danger(
                "It changes the rights of far more than one file: {path}.", path=call.shown(place)
            )
        elif is_system(place.path) and not place.inside:
            call.danger(
                "It changes the rights of the system's files: {path}.", path=call.shown(place)
            )
        elif is_secret(place.path) or is_steering(place.path):
            call.ask("It changes the rights of {path}.", path=call.shown(place))
        elif not place.inside:
            call.ask(
                "It changes the rights of {path}, outside the workspace.", path=call.shown(place)
            )


_SET_UID = re.compile(r"[ugoa]*[+=][rwxXt]*s|^[0-7]?[2-7][0-7]{3}$")


def chmod(call: Call, rules: Rules) -> None:
    """chmod: wide rights and set-uid ask; +x inside the workspace is an ordinary write."""
    words = [
        arg
        for arg in call.args
        if not re.fullmatch(r"-[RvcfhHLP]+|--(?!reference)[a-z-]+", arg.value)
    ]
    recursive = any(re.fullmatch(r"-\w*R\w*|--recursive", arg.value) for arg in call.args)
    mode = words[0].value if words else ""
    _each_place(call, tuple(words[1:]), recursive=recursive)
    if _SET_UID.search(mode) and not mode.startswith("0"):
        call.danger("It makes files run with their owner's rights (set-uid).")
    elif (
        recursive
        or re.search(r"777|666|[oa]\+\w*w", mode)
        or not re.fullmatch(r"[ugoa]*[-+=][rwxX,+=ugoa-]*|0?[0-7]{3}", mode)
    ):
        call.ask("{program} changes who may do what with files.")
    else:
        call.findings.note(
            "workspace_write", "{program} changes rights in the workspace.", program=call.name
        )
    del rules


def chown(call: Call, rules: Rules) -> None:
    """chown, chgrp."""
    parsed = parse_options(call.args, rules)
    recursive = parsed.has("R", "recursive")
    _each_place(call, parsed.operands[1:] or parsed.operands, recursive=recursive)
    call.ask("{program} changes who owns files.")


def dd(call: Call, rules: Rules) -> None:
    """dd: if= is read, of= is written raw."""
    target = False
    for arg in call.args:
        key, _, value = arg.value.partition("=")
        if key == "if":
            call.reads(Argument(value, arg.glob))
        elif key == "of":
            target = True
            call.writes(Argument(value, arg.glob))
        elif not re.fullmatch(
            r"(?:bs|ibs|obs|cbs|count|skip|seek|conv|iflag|oflag|status|iseek|oseek)", key
        ):
            call.ask(
                "An argument of {program} is not known: {argument}.",
                argument=arg.value.replace(HOLE, "…"),
            )
    if target:
        call.ask("{program} writes raw data.")
    del rules


def uniq(call: Call, rules: Rules) -> None:
    """uniq: a second operand is written."""
    parsed = parse_options(call.args, rules)
    for operand in parsed.operands[:1]:
        call.reads(operand)
        if (operand.split and HOLE in operand.value) or operand.glob:
            call.ask("{program} may get a second file, which it overwrites.")
    for operand in parsed.operands[1:2]:
        call.writes(operand)
        call.ask("The second file given to {program} is overwritten.")


def xxd(call: Call, rules: Rules) -> None:
    """xxd: a second operand is written."""
    uniq(call, rules)


def format_(call: Call, rules: Rules) -> None:
    """Formatters rewrite files in place unless told to check or to show."""
    options = Rules(
        "",
        options={
            "config": "ask",
            "style": "value",
            "edition": "value",
            "l": "value",
            "settings-path": "ask",
            "plugin": "ask",
            "config-path": "ask",
            "settings-file": "ask",
        },
    )
    parsed = parse_options(call.args, options)
    apply_options(call, options, parsed)
    shows = parsed.has("check", "diff", "check-only", "c", "d", "version", "help")
    if call.name in {"shfmt", "clang-format"} and not parsed.has("w", "i"):
        shows = True
    for operand in parsed.operands:
        if shows:
            call.reads(operand)
        else:
            call.writes(operand)
    if not shows and call.name == "rustfmt":
        call.findings.note("workspace_write", "{program} rewrites source files.", program=call.name)


def gofmt(call: Call, rules: Rules) -> None:
    """gofmt: -w writes."""
    write = any(arg.value in {"-w", "--w", "-w=true"} for arg in call.args)
    for operand in (arg for arg in call.args if not arg.value.startswith("-")):
        if write:
            call.writes(operand)
        else:
            call.reads(operand)
    del rules


def ruff(call: Call, rules: Rules) -> None:
    """ruff: format and --fix write, and so does a check that keeps its results for the next."""
    words = [arg.value for arg in call.args]
    verb = words[0] if words else ""
    if verb not in {"check", "format", "rule", "linter", "version", "config", "--version"}:
        call.ask("{program} {verb} does more than check.", verb=verb.replace(HOLE, "…"))
    if (verb == "format" and not {"--check", "--diff"} & set(words)) or any(
        w.startswith(("--fix", "--unsafe", "-o", "--output-file", "--add-noqa", "--conf"))
        for w in words
    ):
        for operand in [a for a in call.args[1:] if not a.value.startswith("-")] or [Argument(".")]:
            call.writes(operand)
    elif verb in {"check", "format"} and not {"-n", "--no-cache"} & set(words):
        call.writes(Argument(".ruff_cache"), append=True)
    del rules


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "rm": rm, "rmdir": rmdir, "shred": shred, "empty": empty, "tee": tee, "copy": copy,
    "move": move, "link": link, "mktemp": mktemp, "mknod": mknod,
    "split": split, "chmod": chmod, "chown": chown,
    "dd": dd,     "uniq": uniq, "xxd": xxd, "format": format_, "gofmt": gofmt, "ruff": ruff,
}  # fmt: skip
