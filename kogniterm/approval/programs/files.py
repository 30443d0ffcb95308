"""Programs whose operands are files to make, copy, move, delete, pack or unpack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kogniterm.approval.analysis.arguments import CallWord, Parsed
from kogniterm.approval.analysis.paths_and_variables import (
    HOLE,
    ResolvedPath,
    is_broad,
    is_harmless_device,
    is_secret,
    is_steering,
    within,
)
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.analysis.shared_findings import (
    DELETES_ROOT,
    MANY_PERMISSIONS,
    MIRRORS,
    MOVES_MANY,
)
from kogniterm.approval.programs.basic_rules import (
    apply_options,
    ask_unclear,
    ask_unlisted,
    options,
    reads_below,
)

# --- deleting -----------------------------------------------------------------------------------


def rm(call: Call) -> None:
    """Judge rm, rmdir and unlink by what they delete."""
    parsed = call.parse()
    removes = call.name == "rm"
    recursive = parsed.has("r", "R", "recursive", "rec", "recur") or parsed.has_unknown
    forced = removes and parsed.has("f", "force")
    if parsed.has("no-preserve-root") and removes:
        call.danger(DELETES_ROOT)
    for operand in parsed.operands:
        call.deletes(operand, recursive=removes and recursive, forced=forced)
    if not parsed.operands:
        call.ask("{program} deletes files.")


def shred(call: Call) -> None:
    """Judge shred, which destroys its operands for good."""
    for operand in call.parse().operands:
        call.deletes(operand)
        call.writes(operand)
    call.danger("{program} destroys files permanently.")


def truncate(call: Call) -> None:
    """Judge truncate, which discards content."""
    for operand in call.parse().operands:
        call.writes(operand)
        call.findings.effect("delete", call.show_path(call.resolve(operand)))
    call.ask("{program} truncates files.")


# --- copying and moving -------------------------------------------------------------------------


def tee(call: Call) -> None:
    """Judge tee, which writes its operands."""
    parsed = call.parse()
    for operand in parsed.operands:
        if operand.split and HOLE in operand.value:
            call.ask("Writes to a file whose name is known only at run time.")
        call.writes(operand, "write" if parsed.has("a", "append") else "overwrite")


def _split_target(parsed: Parsed) -> tuple[tuple[CallWord, ...], CallWord | None]:
    folders = parsed.values("t", "target-directory")
    if folders:
        return parsed.operands, folders[-1]
    return parsed.operands[:-1], parsed.operands[-1] if parsed.operands else None


def copy(call: Call) -> None:
    """Judge cp and install: the sources are read, the target is written."""
    parsed = call.parse()
    sources, target = _split_target(parsed)
    for source in sources:
        call.reads(source)
        if parsed.has("r", "R", "a", "recursive", "archive"):
            reads_below(call, source)
        if is_harmless_device(source.value):
            call.ask("Empties a file.")
    installs = call.name == "install"
    if installs and any(_SET_UID.search(mode.value) for mode in parsed.values("m", "mode")):
        call.danger("Makes files run with their owner's permissions (set-uid).")
    if installs and parsed.has("d", "directory"):
        for operand in parsed.operands:
            call.writes(operand, "create")
    elif target is not None:
        _into(call, parsed, sources, target)
        symbolic = not installs and parsed.has("s", "symbolic-link")
        for source in sources if symbolic or parsed.has("l", "link") else ():
            list(_links(call, source, target, beside=symbolic))
    _ask_disguised(call, parsed)


def _ask_disguised(call: Call, parsed: Parsed) -> None:
    if parsed.unclear or parsed.has_unknown:
        ask_unclear(call)


def _into(call: Call, parsed: Parsed, sources: tuple[CallWord, ...], target: CallWord) -> None:
    """Judge writing `sources` to `target`, which may be a folder."""
    named = parsed.has("T", "no-target-directory") or not sources
    for one in (None,) if named else sources:
        call.writes(target, source=one)
    if parsed.values("backup", "suffix", "S") or parsed.has("b", "backup"):
        call.writes(CallWord(f"{target.value}{HOLE}"))
    for source in sources:
        name = source.value.rstrip("/").rpartition("/")[2]
        landed = call.resolve(CallWord(target.value.rstrip("/") + "/" + name))
        if name and is_steering(landed.path) and not is_steering(call.resolve(target).path):
            call.danger(
                "Changes {path}, which controls other programs.", path=call.show_path(landed)
            )


def move(call: Call) -> None:
    """Judge mv, which deletes its sources and writes its target."""
    parsed = call.parse()
    sources, target = _split_target(parsed)
    for source in sources:
        resolved = call.resolve(source)
        if is_broad(resolved, call.scope.roots) and (
            resolved.glob or not resolved.inside or not resolved.path.count("/") > 1
        ):
            call.danger(MOVES_MANY, path=call.show_path(resolved))
        else:
            call.changes("move", resolved)
        moved_to = call.show_path(call.resolve(target)) if target is not None else ""
        call.effect("delete", resolved, source=moved_to)
        call.read_later([source])
    if target is not None:
        if call.resolve(target).path == "/dev/null":
            call.danger("Moves files to /dev/null, where they are lost.")
        _into(call, parsed, sources, target)
    _ask_disguised(call, parsed)


def _links(
    call: Call, source: CallWord, target: CallWord, *, beside: bool = False
) -> Iterator[ResolvedPath]:
    """Record links to `source` at `target`, and in it as it may be a folder; yield their ends.

    An end that does not begin at the root is seen from the shell's folder, or from `beside` the
    link, as a symbolic link has it.
    """
    folder, _, name = source.value.rstrip("/").rpartition("/")
    matches = source.glob  # each in the folder, under its own name
    for place in (target.value, f"{target.value.rstrip('/')}/{name}")[: 1 if matches else 2]:
        link = call.scope.resolve(place).path
        end = (folder or ".") if matches else source.value
        if beside and not end.startswith(("/", "~")):
            end = f"{link if matches else link.rpartition('/')[0]}/{end}"
        leads = call.scope.resolve(end)
        yield leads
        if not within(leads.path, link):
            call.scope.links[link] = leads.path


def link(call: Call) -> None:
    """Judge ln: later reads and writes follow the link."""
    parsed = call.parse()
    sources, target = _split_target(parsed)
    if target is not None and sources:
        named = parsed.has("T", "n", "no-target-directory", "no-dereference")
        for one in (None,) if named else sources:
            call.writes(target, source=one)
    elif len(parsed.operands) == 1:
        name = parsed.operands[0].value.rstrip("/").rpartition("/")[2]
        sources, target = parsed.operands, CallWord(name or HOLE)
        call.writes(target)
    beside = parsed.has("s", "symbolic") and not parsed.has("r", "relative")
    for source in sources:
        ends = _links(call, source, target or source, beside=beside)
        for resolved in dict.fromkeys((call.resolve(source), *ends)):
            if is_secret(resolved.path, glob=resolved.glob):
                call.secret(resolved)
            elif not resolved.inside:
                call.ask(
                    "Creates a link to {path}, outside the workspace.",
                    path=call.show_path(resolved),
                )


# --- making and changing ------------------------------------------------------------------------


def mktemp(call: Call) -> None:
    """Judge mktemp, which creates a file in the folder for temporary files."""
    parsed = call.parse()
    folders = parsed.values("p", "tmpdir")
    templates = parsed.operands or ((CallWord("tmp.XX"),) if folders else ())
    if not templates:
        call.findings.effect("create", "/tmp/tmp.…", outside=True)
    for template in templates:
        name = re.sub(r"XX+", HOLE, template.value)
        call.writes(CallWord(f"{folders[-1].value}/{name}" if folders else name), "write")
    call.notes("{program} creates a temporary file.")


def mknod(call: Call) -> None:
    """Judge mknod: it makes a pipe or a device."""
    name, *kind = call.parse().operands or (CallWord(""),)
    if kind and kind[0].value == "p":
        call.writes(name, "write")
    else:
        call.findings.effect("privilege", "mknod", outside=True)
        call.danger("{program} creates a device file.")


def split(call: Call) -> None:
    """Judge split and csplit, which write several files."""
    parsed = options(call)
    for operand in parsed.operands[:1]:
        call.reads(operand)
    given = parsed.operands[1:2] if call.name == "split" else parsed.values("f", "prefix")
    call.writes(CallWord((given[-1].value if given else "x") + HOLE))


def _changes_rights(call: Call, operands: tuple[CallWord, ...], *, recursive: bool) -> None:
    for resolved in (
        one for operand in operands for one in call.scope.meanings(operand.value, glob=operand.glob)
    ):
        call.effect("write", resolved)
        if recursive and is_broad(resolved, call.scope.roots):
            shown = call.show_path(resolved)
            call.danger(MANY_PERMISSIONS, path=shown)
        else:
            call.changes("rights", resolved)


_SET_UID = re.compile(r"[ugoa]*[+=][rwxXt]*s|^[0-7]?[2-7][0-7]{3}$")


def chmod(call: Call) -> None:
    """Judge chmod: wide rights and set-uid ask; +x in the workspace is an ordinary write."""
    flags = re.compile(r"-[RvcfhHLP]+|--(?!reference)[a-z-]+")
    words = [arg for arg in call.args if not flags.fullmatch(arg.value)]
    recursive = any(re.fullmatch(r"-\w*R\w*|--recursive", arg.value) for arg in call.args)
    mode = words[0].value if words else ""
    _changes_rights(call, tuple(words[1:]), recursive=recursive)
    usual = re.fullmatch(r"[ugoa]*[-+=][rwxX,+=ugoa-]*|0?[0-7]{3}", mode)
    if _SET_UID.search(mode) and not mode.startswith("0"):
        call.danger("Makes files run with their owner's permissions (set-uid).")
    elif recursive or re.search(r"777|666|[oa]\+\w*w", mode) or not usual:
        call.ask("{program} changes file permissions.")
    else:
        call.notes("{program} changes file permissions in the workspace.")


def chown(call: Call) -> None:
    parsed = call.parse()
    recursive = parsed.has("R", "recursive")
    _changes_rights(call, parsed.operands[1:] or parsed.operands, recursive=recursive)
    call.ask("{program} changes file ownership.")


_DD_HARMLESS = re.compile(r"bs|ibs|obs|cbs|count|skip|seek|conv|iflag|oflag|status|iseek|oseek")


def dd(call: Call) -> None:
    """Judge dd: if= is read, of= is written."""
    for arg in call.args:
        key, _, value = arg.value.partition("=")
        if key == "if":
            call.reads(CallWord(value, arg.glob))
        elif key == "of":
            call.writes(CallWord(value, arg.glob))
            call.ask("{program} writes raw data.")
        elif not _DD_HARMLESS.fullmatch(key):
            call.ask("Unknown argument of {program}: {argument}.", argument=arg.value)


def uniq(call: Call) -> None:
    """Judge uniq and xxd, which write their second operand."""
    if call.name == "xxd":
        call = replace(call, args=_without_xxd_options(call.args))
    parsed = call.parse(operands_end=call.name == "xxd")
    apply_options(call, parsed)
    if any(arg.brings_words or arg.glob for arg in call.args):
        call.ask("{program} may receive a second file, which it overwrites.")
    for operand in parsed.operands[:1]:
        call.reads(operand)
    for operand in parsed.operands[1:2]:
        call.writes(operand)
        call.ask("{program} overwrites its second file argument.")


def _without_xxd_options(args: tuple[CallWord, ...]) -> tuple[CallWord, ...]:
    """Return `args` without harmless options: they do not cluster, and end with an operand."""
    left, rest = [], list(args)
    while rest and re.match(r"-.", rest[0].value):
        arg = rest.pop(0)
        if re.fullmatch(r"-[clgso]", arg.value) and rest and rest[0].known:
            rest.pop(0)
        elif not re.fullmatch(r"-(?:[abCeEipruvd]|ps|plain|[clgso]\d+)", arg.value):
            left.append(arg)
    return (*left, *rest)


def format_(call: Call) -> None:
    """Judge formatters, which rewrite files unless told to check or to show."""
    parsed = options(call)
    shows = parsed.has("check", "diff", "check-only", "c", "d", "version", "help")
    if call.name in {"shfmt", "clang-format", "gofmt", "goimports"}:
        shows = not parsed.has("w", "i")
    for operand in parsed.operands:
        if shows:
            call.reads(operand)
        else:
            call.writes(operand)


def ruff(call: Call) -> None:
    """Judge ruff: format and --fix write the files, and a check writes its cache."""
    verb, *words = [arg.value for arg in call.args] or [""]
    if verb not in {"check", "format", "rule", "linter", "version", "config", "--version"}:
        call.ask("{program} {verb} does more than check.", verb=verb)
    writing = ("--fix", "--unsafe", "-o", "--output-file", "--add-noqa", "--conf")
    shows = {"--check", "--diff"} & set(words)
    if (verb == "format" and not shows) or any(w.startswith(writing) for w in (verb, *words)):
        operands = [arg for arg in call.args[1:] if not arg.value.startswith("-")]
        for operand in operands or [CallWord(".")]:
            call.writes(operand)
    elif verb in {"check", "format"} and not {"-n", "--no-cache"} & set(words):
        call.writes(CallWord(".ruff_cache"), "write")


# --- archives and copies of trees ---------------------------------------------------------------

_TAR_READS = ("t", "list", "d", "diff", "compare", "O", "to-stdout")
_TAR_CHANGES = ("r", "append", "u", "update", "A", "catenate", "concatenate")


def tar(call: Call) -> None:
    """Judge tar: listing reads, creating writes the archive, extracting writes any file."""
    call = replace(call, args=_tar_dashed(call))
    parsed = call.parse()
    apply_options(call, parsed)
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
            return
        ask_unlisted(call, parsed)
        if parsed.has("O", "to-stdout"):
            call.mentions(parsed.operands)
        return
    _unpacks(call, parsed.values("C", "directory", "one-top-level"), parsed.operands)
    for folder in parsed.values("C", "directory"):
        resolved = call.resolve(folder)
        call.changes("write", resolved)
        if not resolved.inside and is_broad(resolved, call.scope.roots):
            call.danger(
                "{program} unpacks into {path} and may overwrite files there.",
                path=call.show_path(resolved),
            )


def _unpacks(call: Call, folders: tuple[CallWord, ...], members: tuple[CallWord, ...]) -> None:
    call.ask("{program} unpacks files and may overwrite existing ones.")
    for folder in folders[-1:] or (CallWord("."),):
        for member in members or (CallWord(HOLE),):
            call.writes(CallWord(f"{folder.value}/{member.value}", member.glob))


def _tar_dashed(call: Call) -> tuple[CallWord, ...]:
    """Return the arguments with dashes for the letters of the old form."""
    args = call.args
    if not args or not re.fullmatch(r"[A-Za-z]+", args[0].value):
        return args
    rest = list(args[1:])
    dashed: list[CallWord] = []
    for letter in args[0].value:
        dashed.append(CallWord("-" + letter))
        if call.rules.takes_value(letter) and rest:
            value = rest.pop(0)
            dashed[-1] = value._replace(value=f"-{letter}{value.value}")
    return (*dashed, *rest)


def _tar_packs(call: Call, parsed: Parsed) -> None:
    """Record that the files to pack are read, from the folders that -C names."""
    if parsed.has("T", "files-from"):
        call.ask("{program} packs files listed in another file.")
    folders = parsed.values("C", "directory")
    for folder in folders or (CallWord("."),):
        scope = call.scope.branch()
        scope.cwd = call.resolve(folder).path if folders else scope.cwd
        inner = replace(call, scope=scope)
        for operand in parsed.operands:
            inner.reads(operand)
            reads_below(inner, operand)


def unzip(call: Call) -> None:
    """Judge unzip, which unpacks unless it lists (-l) or prints (-p)."""
    parsed = options(call)
    ask_unlisted(call, parsed)
    for operand in parsed.operands[:1]:
        call.reads(operand)
    if parsed.unclear:
        ask_unclear(call)
    if not parsed.has(*"lvtpcZz") or parsed.has("T"):
        _unpacks(call, parsed.values("d"), parsed.operands[1:])
    elif parsed.has("p", "c"):
        call.mentions(parsed.operands[1:])


def sevenzip(call: Call) -> None:
    """Judge 7z, which asks for all but its reading commands."""
    for operand in call.args[1:2]:
        call.reads(operand)
    plain = re.compile(r"-(?:slt|ba|bd|bb[0-3]|r|p.*)")
    words = [arg.value for arg in call.args[1:] if arg.value.startswith(("-", "@", HOLE))]
    reading = call.args and call.args[0].value in {"l", "t", "h", "i", "b"}
    if not reading or not all(map(plain.fullmatch, words)):
        call.ask("{program} packs or unpacks files.")


_ZIP_PLAIN = re.compile(
    r"-(?!TT|lf)[rRqjyvXDgoufTlkcz0-9]+|--(?:recurse-paths|quiet|junk-paths|symlinks|verbose|no-extra"
    r"|no-dir-entries|update|freshen|test|version|help)|-[xi]|--(?:exclude|include)(?:=.*)?"
)
_ZIP_VALUED = frozenset({"-n", "-t", "-Z", "-P", "--suffixes", "--password"})


def zip_(call: Call) -> None:
    """Judge zip: the first operand is written, the rest read; -TT runs a program, -m deletes."""
    operands: list[CallWord] = []
    words = list(call.args)
    patterns = False
    while words:
        word = words.pop(0)
        if not word.value.startswith("-"):
            # Behind -x and -i stand patterns, up to the next option.
            operands.extend(() if patterns else (word,))
            continue
        patterns = re.match(r"-[xi]|--(?:exclude|include)", word.value) is not None
        if word.value in _ZIP_VALUED:
            del words[:1]
        elif not _ZIP_PLAIN.fullmatch(word.value):
            call.ask("An option of {program} deletes files or runs a program.")
            if word.value in {"-TT", "--unzip-command"} and words:
                call.starts(words.pop(0).value)
    for operand in operands[1:]:
        call.reads(operand)
        if any(re.match(r"-\w*[rR]|--recurse", arg.value) for arg in call.args):
            reads_below(call, operand)
    for operand in operands[:1]:
        call.writes(operand)
    if any(arg.maybe_option for arg in call.args):
        ask_unclear(call)


def compress(call: Call) -> None:
    """Judge gzip and similar programs, which replace files unless they print or test."""
    parsed = options(call)
    if _only_shows(call, parsed):
        ask_unlisted(call, parsed)
        for operand in parsed.operands:
            call.reads(operand)
        return
    keeps_unasked = call.name in {"zstd", "unzstd", "lz4"}
    removes = parsed.has("rm") if keeps_unasked else not parsed.has("k", "keep")
    operands = parsed.operands
    if call.name == "lz4" and len(operands) == 2:
        call.writes(operands[1])
    for operand in operands:
        call.reads(operand)
        made = _made_of(call, parsed, operand)
        if removes:
            known = HOLE not in made.value
            call.effect(
                "delete", call.resolve(operand), call.show_path(call.resolve(made)) if known else ""
            )
            call.changes("write", call.resolve(operand))
        # What -o names is judged as an option.
        if not parsed.has("o"):
            call.writes(made)
            if operand.glob:
                call.writes(_unknown_beside(operand))


def _only_shows(call: Call, parsed: Parsed) -> bool:
    """Return whether it prints, lists or tests: of two such options most take the last."""
    if parsed.has("c", "stdout", "to-stdout", "V", "version", "h", "help"):
        return True
    # With lz4, -l chooses a format.
    tests = parsed.has("t", "test") or (call.name != "lz4" and parsed.has("l", "list"))
    replaces = parsed.has("z", "compress", *_UNPACKS) and call.name not in {"gzip", "gunzip"}
    return tests and not replaces


_COMPRESSED = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}
_UNPACKS = ("d", "decompress", "uncompress")
_NAMES_STAY = re.compile(
    r"[fkqvnTe0-9]|force|keep|rm|quiet|verbose|no-name|fast|best|extreme|threads|ultra|long|"
    + "|".join(_UNPACKS)
)
"""Options with which the name that is made follows from the operand; any other may change it."""


def _made_of(call: Call, parsed: Parsed, operand: CallWord) -> CallWord:
    """Return the file made of `operand`, an unknown one where the text does not tell it."""
    program = {"gunzip": "gzip", "bunzip2": "bzip2"}.get(call.name, call.name.removeprefix("un"))
    suffix = _COMPRESSED.get(program)
    if suffix is None or not all(map(_NAMES_STAY.fullmatch, parsed.names)):
        return _unknown_beside(operand)
    name = operand.value
    if program == call.name and not parsed.has(*_UNPACKS):
        return operand._replace(value=f"{name}{suffix}")
    unpacked = name.removesuffix(suffix)
    if unpacked in ("", name) or unpacked.endswith("/"):
        return _unknown_beside(operand)
    return operand._replace(value=unpacked)


def _unknown_beside(operand: CallWord) -> CallWord:
    folder, slash, _ = operand.value.rstrip("/").rpartition("/")
    return CallWord(f"{folder}{slash}{HOLE}")


def rsync(call: Call) -> None:
    """Judge rsync: always asked; remote hosts, --delete and -e are judged too."""
    parsed = call.parse()
    call.ask("{program} copies files and may overwrite or delete existing ones.")
    *sources, target = parsed.operands or (CallWord("."),)
    for operand in parsed.operands:
        if re.match(r"[^/]+:|rsync://", operand.value):
            call.network(operand.value)
    for source in sources:
        if not re.match(r"[^/]+:", source.value):
            call.reads(source)
    if not re.match(r"[^/]+:", target.value):
        call.writes(target)
        resolved = call.resolve(target)
        deletes = any(name.startswith("del") for name in parsed.names)
        if deletes and (is_broad(resolved, call.scope.roots) or not resolved.inside):
            shown = call.show_path(resolved)
            call.danger(MIRRORS, path=shown)
    apply_options(call, parsed)


HANDLERS: Mapping[str, Callable[[Call], None]] = {
    "rm": rm, "shred": shred, "truncate": truncate, "tee": tee, "copy": copy, "move": move,
    "link": link, "mktemp": mktemp, "mknod": mknod, "split": split, "chmod": chmod, "chown": chown,
    "dd": dd, "uniq": uniq, "format": format_,  "ruff": ruff, "tar": tar,
    "unzip": unzip, "sevenzip": sevenzip, "zip": zip_, "compress": compress, "rsync": rsync,
}  # fmt: skip
