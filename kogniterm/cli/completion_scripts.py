"""The completion scripts of bash, zsh and fish, written from the table of places.

Each script follows the words of the line as a path: `kogniterm memory add` stands at
`/memory/add`, and each place knows its options and the words that may come next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kogniterm.cli.command_tree import Flag, Kind, Place

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
    """For bash, with or without the package bash-completion.

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
    """For zsh, as an autoloaded function of `compinit`."""
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
    """The part that bash and zsh share: find the place, and complete the value of an option."""
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
    """For fish."""
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


SCRIPTS: Mapping[str, Callable[[Sequence[Place]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


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
    """Every option that takes the next word as its value."""
    flags = (flag for place in found for flag in place.flags if flag.takes_value)
    return sorted({name for flag in flags for name in flag.names})


def _single(text: str) -> str:
    """In single quotes, for every one of the three shells."""
    return "'" + text.replace("'", "’") + "'"
