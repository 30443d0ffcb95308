"""`kogniterm completion`: a completion script for bash, zsh or fish, from the parsers' tables.

The scripts hold every verb, action and option, so a TAB starts no Python. They follow the words
of the line as a path: `kogniterm memory add` stands at `/memory/add`, and each place knows its
options and the words that may come next.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kogniterm.cli import verbs
from kogniterm.ui.locale import _

SHELLS = ("bash", "zsh", "fish")
_FOLDERS = frozenset({"--cwd", "-C", "--project"})
_FILES = frozenset({"--env-file", "--to"})


@dataclass(frozen=True, slots=True)
class Flag:
    """An option: its names, one line of help, whether it takes a value, and which it may be."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A verb or action: the words that may follow (with help) and its options."""

    path: str
    words: Mapping[str, str]
    flags: tuple[Flag, ...]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `completion` with the name of the shell."""
    parser = subparsers.add_parser(
        "completion",
        help=_("print a completion script for a shell"),
        description=_(
            "Print a script that completes KogniTerm's commands and options. For bash put its "
            "output into ~/.local/share/bash-completion/completions/kogniterm, for zsh into a "
            "file _kogniterm in a folder of $fpath, for fish into "
            "~/.config/fish/completions/kogniterm.fish."
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help=_("the shell that is to read it"))


def run(args: argparse.Namespace) -> int:
    """Print the script; returns the exit status."""
    sys.stdout.write({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](list(places())))
    return 0


def places() -> Iterator[Place]:
    """Everywhere a word of the command line can lead, the root first."""
    from kogniterm.cli.main import build_parser

    yield _place("", build_parser())
    for verb in verbs.VERBS:
        yield from _below(f"/{verb.name}", _children(build_parser(verb))[verb.name])


def _below(path: str, parser: argparse.ArgumentParser) -> Iterator[Place]:
    yield _place(path, parser)
    for name, child in _children(parser).items():
        yield from _below(f"{path}/{name}", child)


def _place(path: str, parser: argparse.ArgumentParser) -> Place:
    words: dict[str, str] = {}
    flags = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words |= {one.dest: one.help or "" for one in action._choices_actions}
        elif action.option_strings:
            values = tuple(map(str, action.choices)) if action.choices else ()
            names = tuple(action.option_strings)
            flags.append(Flag(names, " ".join((action.help or "").split()),
                              action.nargs != 0, values))  # fmt: skip
        elif action.choices:
            words |= {str(choice): action.help or "" for choice in action.choices}
    return Place(path, words, tuple(flags))


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


# --- the scripts -------------------------------------------------------------------------------


def bash(found: Sequence[Place]) -> str:
    """For bash, with or without the package bash-completion."""
    lines = [
        "# Completion for kogniterm in bash. Made by: kogniterm completion bash",
        "_kogniterm() {",
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= i words=",
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        "        case ${COMP_WORDS[i]} in",
        f"            {_valued(found)}) ((i++)); continue ;;",
        "        esac",
        '        case "$at/${COMP_WORDS[i]}" in',
        f"            {'|'.join(_paths(found))}) at+=/${{COMP_WORDS[i]}} ;;",
        "        esac",
        "    done",
        '    case "$at:$prev" in',
        *(
            f"        {path}:{name}) words={_quoted(values)} ;;"
            for path, name, values in _set(found)
        ),
        f"        *:{'|*:'.join(sorted(_FOLDERS))})",
        '            mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;',
        f"        *:{'|*:'.join(sorted(_FILES))})",
        '            mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;',
        "    esac",
        '    [[ -n $words ]] || case "$at" in',
        *(
            f"        {place.path or _quoted([])}) words={_quoted(_all(place))} ;;"
            for place in found
        ),
        "    esac",
        '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")',
        "}",
        "complete -o bashdefault -o default -F _kogniterm kogniterm",
    ]
    return "\n".join(lines) + "\n"


def zsh(found: Sequence[Place]) -> str:
    """For zsh, as an autoloaded function of `compinit`."""
    lines = [
        "#compdef kogniterm",
        "# Completion for kogniterm in zsh. Made by: kogniterm completion zsh",
        "_kogniterm() {",
        "    local at= i",
        "    local -a items flags",
        "    for ((i = 2; i < CURRENT; i++)); do",
        "        case $words[i] in",
        f"            {_valued(found)}) ((i++)); continue ;;",
        "        esac",
        "        case $at/$words[i] in",
        f"            {'|'.join(_paths(found))}) at+=/$words[i] ;;",
        "        esac",
        "    done",
        "    case $at:$words[CURRENT-1] in",
        *(
            f"        {path}:{name}) compadd -- {' '.join(values)}; return ;;"
            for path, name, values in _set(found)
        ),
        f"        *:{'|*:'.join(sorted(_FOLDERS))}) _files -/; return ;;",
        f"        *:{'|*:'.join(sorted(_FILES))}) _files; return ;;",
        "    esac",
        "    case $at in",
    ]
    for place in found:
        words = " ".join(_described(word, help_) for word, help_ in place.words.items())
        flags = " ".join(_described(flag.names[-1], flag.help) for flag in place.flags)
        lines.append(f"        {place.path or _quoted([])}) items=({words}) flags=({flags}) ;;")
    lines += [
        "    esac",
        "    if [[ $words[CURRENT] == -* ]]; then",
        "        _describe option flags",
        "    elif (( $#items )); then",
        "        _describe command items",
        "    else",
        "        _files",
        "    fi",
        "}",
        '_kogniterm "$@"',
    ]
    return "\n".join(lines) + "\n"


def fish(found: Sequence[Place]) -> str:
    """For fish."""
    lines = [
        "# Completion for kogniterm in fish. Made by: kogniterm completion fish",
        "function __kogniterm_at",
        "    set -l at ''",
        "    for word in (commandline -opc)[2..-1]",
        '        switch "$at/$word"',
        f"            case {' '.join(map(_single, _paths(found)))}",
        '                set at "$at/$word"',
        "        end",
        "    end",
        '    test "$at" = "$argv[1]"',
        "end",
        "complete -c kogniterm -f",
    ]
    for place in found:
        start = f"complete -c kogniterm -n '__kogniterm_at \"{place.path}\"'"
        for word, help_ in place.words.items():
            lines.append(f"{start} -a {_single(word)} -d {_single(help_)}")
        for flag in place.flags:
            lines.append(f"{start} {_fish_flag(flag)} -d {_single(flag.help)}")
    return "\n".join(lines) + "\n"


def _fish_flag(flag: Flag) -> str:
    parts = [f"-l {name[2:]}" if name[:2] == "--" else f"-s {name[1:]}" for name in flag.names]
    if flag.values:
        parts.append(f"-x -a {_single(' '.join(flag.values))}")
    elif flag.takes_value:
        known = _FOLDERS | _FILES
        parts.append("-r -F" if known & set(flag.names) else "-x")
    return " ".join(parts)


def _paths(found: Sequence[Place]) -> list[str]:
    return [place.path for place in found if place.path]


def _valued(found: Sequence[Place]) -> str:
    """A pattern of every option that takes the next word as its value."""
    flags = (flag for place in found for flag in place.flags if flag.takes_value)
    return "|".join(sorted({name for flag in flags for name in flag.names}))


def _set(found: Sequence[Place]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The options whose values are known: place, name, values."""
    for place in found:
        for flag in place.flags:
            if flag.values:
                for name in flag.names:
                    yield place.path, name, flag.values


def _all(place: Place) -> list[str]:
    return [*place.words, *(name for flag in place.flags for name in flag.names)]


def _quoted(words: Sequence[str]) -> str:
    return _single(" ".join(words))


def _described(word: str, text: str) -> str:
    """word:help, as `_describe` of zsh splits it."""
    return _single(f"{word}:{text}")


def _single(text: str) -> str:
    """In single quotes, for every one of the three shells."""
    return "'" + text.replace("'", "’") + "'"
