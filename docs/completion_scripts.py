"""Write the completion scripts for bash, zsh and fish from the parsers' tables.

The scripts hold every verb, action and option, so that a TAB on these starts no Python. Each
follows the words of the line as a path: `kogniterm memory add` stands at `/memory/add`, and each
place knows its options and the words that may come next. What only the user's files know, such as
the ids of sessions, they ask `kogniterm completion --list KIND` for: lines of a word, a tab, and
what it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from kogniterm.cli import options
from kogniterm.cli.main import Parser, build_parser
from kogniterm.cli.options import GENERAL, SESSION
from kogniterm.settings.schema import Settings
from kogniterm.types import APPROVAL_MODES, MODE_NAMES
from kogniterm.ui.commands.help_topics import TOPICS

Kind = Literal["", "file", "folder", "sessions", "models", "recipes"]
"""The kind of thing that a free value or word is the name of."""

_KINDS: Mapping[str, Kind] = {
    "cwd": "folder",
    "project": "folder",
    "folder": "folder",
    "env_file": "file",
    "to": "file",
    "file": "file",
    "source": "file",
    "first": "file",
    "second": "file",
    "task": "file",
    "session": "sessions",
    "sessions": "sessions",
    "resume": "sessions",
    "session_id": "sessions",
    "model": "models",
    "plan": "file",
}
"""By the name under which the parser keeps it."""


@dataclass(frozen=True, slots=True)
class Flag:
    """An option: its names, one line of help, and whether it takes a value.

    The value may be one of `values`, or something of a `kind`; help calls it `metavar`.
    """

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...] = ()
    kind: Kind = ""
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A verb or action: the words that may follow, with help, and its options.

    Any other word is the name of something of `kind`. `path` is made of the words that lead here:
    `/memory/add`. `description` and `examples` are those of its help.
    """

    path: str
    words: Mapping[str, str]
    flags: tuple[Flag, ...]
    kind: Kind = ""
    description: str = ""
    examples: tuple[str, ...] = ()


def places() -> Iterator[Place]:
    """Yield everywhere a word of the command line can lead, the root first."""
    yield _place("", build_parser())
    for verb in options.VERBS:
        yield from _below(f"/{verb.name}", _children(build_parser(verb))[verb.name])


def _below(path: str, parser: argparse.ArgumentParser) -> Iterator[Place]:
    yield _place(path, parser)
    for name, child in _children(parser).items():
        yield from _below(f"{path}/{name}", child)


def _place(path: str, parser: argparse.ArgumentParser) -> Place:
    words: dict[str, str] = {}
    flags = []
    kind: Kind = ""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words |= {one.dest: one.help or "" for one in action._choices_actions}
        elif action.option_strings:
            values = tuple(map(str, action.choices or ())) or _setting_values(action.dest)
            names = tuple(action.option_strings)
            help_ = " ".join((action.help or "").split())
            if action.nargs == 0:
                flags.append(Flag(names, help_, False))
            else:
                metavar = str(action.metavar or "")
                flags.append(Flag(names, help_, True, values, _kind(path, action), metavar))
        elif action.choices:
            words |= {str(choice): action.help or "" for choice in action.choices}
        else:
            kind = kind or _kind(path, action)
    if path == "/help":
        words |= {topic.name: str(topic.title) for topic in TOPICS}
        words |= {verb.name: verb.help for verb in options.VERBS if verb.name not in words}
    examples = tuple(one.line for one in parser.examples) if isinstance(parser, Parser) else ()
    return Place(path, words, tuple(flags), kind, parser.description or "", examples)


def _setting_values(dest: str) -> tuple[str, ...]:
    """Return the values of the setting behind an option, where they are few."""
    names = {option.dest: option.field for option in (*GENERAL, *SESSION)}
    field = Settings.model_fields.get(names.get(dest, ""))
    values = get_args(field.annotation) if field is not None else ()
    if set(values) == set(APPROVAL_MODES):
        return tuple(MODE_NAMES)
    return values if all(isinstance(value, str) for value in values) else ()


def _kind(path: str, action: argparse.Action) -> Kind:
    """Return what a free value of `action` is the name of."""
    if path in ("/recipe/show", "/recipe/run") and action.dest == "name":
        return "recipes"
    return _KINDS.get(action.dest, "")


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


_BASH_HEAD = """\
# Completion for kogniterm in bash. Made by: kogniterm completion bash
_kogniterm_offer() {
    local left=${cur%"${cur##*:}"}
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
    COMPREPLY=("${COMPREPLY[@]#"$left"}")
}
_kogniterm_names() {
    case $1 in
        file) compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        folder) compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        *) local names
            names=$(kogniterm completion --list "$1" 2>/dev/null | cut -f1)
            _kogniterm_offer "$names" ;;
    esac
}
_kogniterm() {
    local at= i words=() said= kind= flags= cur prev
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i)) && [[ ${COMP_WORDS[i]} == :* || ${words[-1]} == *: ]]; then
            words[-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    cur=${words[-1]} prev=${words[-2]}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
"""
_BASH_TAIL = """\
    esac
    if [[ $cur == -* ]]; then
        _kogniterm_offer "$flags"
    elif [[ -n $said ]]; then
        _kogniterm_offer "$said"
    elif [[ -n $kind ]]; then
        _kogniterm_names "$kind"
    fi
}
complete -F _kogniterm kogniterm
"""
_ZSH_HEAD = """\
#compdef kogniterm
# Completion for kogniterm in zsh. Made by: kogniterm completion zsh
_kogniterm_names() {
    local -a items
    local line
    case $1 in
        file) _files; return ;;
        folder) _files -/; return ;;
    esac
    for line in ${(f)"$(kogniterm completion --list $1 2>/dev/null)"}; do
        items+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    _describe $1 items
}
_kogniterm_offer() { compadd -- ${=1} }
_kogniterm() {
    local at= i kind= prev=$words[CURRENT-1]
    local -a items flags
    for ((i = 2; i < CURRENT; i++)); do
        case ${words[i]} in
"""
_ZSH_TAIL = """\
    esac
    if [[ $words[CURRENT] == -* ]]; then
        _describe option flags
    elif (( $#items )); then
        _describe command items
    elif [[ -n $kind ]]; then
        _kogniterm_names $kind
    fi
}
_kogniterm "$@"
"""


def bash(found: Sequence[Place]) -> str:
    """Return the script for bash, with or without the package bash-completion.

    A colon breaks words in bash, and model names have one: the words are put together again.
    """
    lines = []
    for place in found:
        flags = _single(" ".join(name for flag in place.flags for name in flag.names))
        said = f"said={_single(' '.join(place.words))} " if place.words else ""
        kind = f"kind={place.kind} " if place.kind else ""
        lines.append(f"        '{place.path}') {said}{kind}flags={flags} ;;\n")
    return _BASH_HEAD + _walk(found) + "".join(lines) + _BASH_TAIL


def zsh(found: Sequence[Place]) -> str:
    """Return the script for zsh, as an autoloaded function of `compinit`."""
    lines = []
    for place in found:
        # word:help, as `_describe` of zsh splits it.
        words = " ".join(_single(f"{word}:{help_}") for word, help_ in place.words.items())
        flags = " ".join(_single(f"{flag.names[-1]}:{flag.help}") for flag in place.flags)
        lines.append(
            f"        '{place.path}') kind={place.kind} items=({words}) flags=({flags}) ;;\n"
        )
    return _ZSH_HEAD + _walk(found) + "".join(lines) + _ZSH_TAIL


def _walk(found: Sequence[Place]) -> str:
    """Return what bash and zsh share: find the place, and complete an option's value."""
    valued = _valued(found)
    lines = [
        f"            {'|'.join(valued)}) ((i++)); continue ;;",
        "        esac",
        '        case "$at/${words[i]}" in',
        f"            {'|'.join(place.path for place in found if place.path)}) "
        "at+=/${words[i]} ;;",
        "        esac",
        "    done",
        '    case "$at:$prev" in',
    ]
    kinds: dict[str, set[str]] = {}
    for place in found:
        for flag in place.flags:
            values = _single(" ".join(flag.values))
            if flag.values:
                lines += [
                    f"        {place.path}:{name}) _kogniterm_offer {values}; return ;;"
                    for name in flag.names
                ]
            elif flag.kind:
                kinds.setdefault(flag.kind, set()).update(flag.names)
    for kind, names in sorted(kinds.items()):
        lines.append(f"        *:{'|*:'.join(sorted(names))}) _kogniterm_names {kind}; return ;;")
    lines += [f"        *:{'|*:'.join(valued)}) return ;;", "    esac", '    case "$at" in', ""]
    return "\n".join(lines)


def fish(found: Sequence[Place]) -> str:
    """Return the script for fish."""
    lines = [
        "# Completion for kogniterm in fish. Made by: kogniterm completion fish",
        "function __kogniterm_at",
        "    set -l at ''",
        "    set -l value 0",
        "    for word in (commandline -opc)[2..-1]",
        "        if test $value = 1",
        "            set value 0",
        "            continue",
        "        end",
        "        switch $word",
        f"            case {' '.join(_valued(found))}",
        "                set value 1",
        "        end",
        '        switch "$at/$word"',
        f"            case {' '.join(_single(place.path) for place in found if place.path)}",
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
        if place.kind:
            lines.append(f"{start} {_fish_kind(place.kind)}")
        for flag in place.flags:
            lines.append(f"{start} {_fish_flag(flag)} -d {_single(flag.help)}")
    return "\n".join(lines) + "\n"


_WRITERS: Mapping[str, Callable[[Sequence[Place]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def script(shell: str) -> str:
    """Return the script for bash, zsh or fish."""
    return _WRITERS[shell](list(places()))


def _fish_flag(flag: Flag) -> str:
    parts = [f"-l {name[2:]}" if name[:2] == "--" else f"-s {name[1:]}" for name in flag.names]
    if flag.values:
        parts.append(f"-x -a {_single(' '.join(flag.values))}")
    elif flag.kind:
        parts.append(f"-r {_fish_kind(flag.kind)}")
    elif flag.takes_value:
        parts.append("-x")
    return " ".join(parts)


def _fish_kind(kind: Kind) -> str:
    if kind == "file":
        return "-F"
    if kind == "folder":
        return "-f -a '(__fish_complete_directories (commandline -ct))'"
    return f"-f -a '(kogniterm completion --list {kind} 2>/dev/null)'"


def _valued(found: Sequence[Place]) -> list[str]:
    """Return every option that takes the next word as its value."""
    flags = (flag for place in found for flag in place.flags if flag.takes_value)
    return sorted({name for flag in flags for name in flag.names})


def _single(text: str) -> str:
    """Return `text` in single quotes, for every one of the three shells."""
    return "'" + text.replace("'", "’") + "'"
