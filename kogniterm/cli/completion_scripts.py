"""The completion scripts of bash, zsh and fish, written from the table of places.

Each script follows the words of the line as a path: `kogniterm memory add` stands at
`/memory/add`, and each place knows its options and the words that may come next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kogniterm.cli.completion_places import Flag, Kind, Place

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
_kogniterm() {
    local at= i kind=
    local -a items flags
    for ((i = 2; i < CURRENT; i++)); do
        case $words[i] in
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
    lines = [
        f"            {_valued(found)}) ((i++)); continue ;;",
        "        esac",
        '        case "$at/${words[i]}" in',
        f"            {'|'.join(_paths(found))}) at+=/${{words[i]}} ;;",
        "        esac",
        "    done",
        '    case "$at:$prev" in',
        *(
            f"        {path}:{name}) _kogniterm_offer {_quoted(values)}; return ;;"
            for path, name, values in _set(found)
        ),
        *(
            f"        *:{'|*:'.join(names)}) _kogniterm_names {kind}; return ;;"
            for kind, names in _by_kind(found).items()
        ),
        f"        *:{_valued(found).replace('|', '|*:')}) return ;;",
        "    esac",
        '    case "$at" in',
    ]
    for place in found:
        flags = _quoted([name for flag in place.flags for name in flag.names])
        said = f"said={_quoted(list(place.words))} " if place.words else ""
        kind = f"kind={place.kind} " if place.kind else ""
        lines.append(f"        {place.path or _quoted([])}) {said}{kind}flags={flags} ;;")
    return _BASH_HEAD + "\n".join(lines) + "\n" + _BASH_TAIL


def zsh(found: Sequence[Place]) -> str:
    """For zsh, as an autoloaded function of `compinit`."""
    lines = [
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
        *(
            f"        *:{'|*:'.join(names)}) _kogniterm_names {kind}; return ;;"
            for kind, names in _by_kind(found).items()
        ),
        f"        *:{_valued(found).replace('|', '|*:')}) return ;;",
        "    esac",
        "    case $at in",
    ]
    for place in found:
        words = " ".join(_described(word, help_) for word, help_ in place.words.items())
        flags = " ".join(_described(flag.names[-1], flag.help) for flag in place.flags)
        lines.append(
            f"        {place.path or _quoted([])}) kind={place.kind} items=({words}) "
            f"flags=({flags}) ;;"
        )
    return _ZSH_HEAD + "\n".join(lines) + "\n" + _ZSH_TAIL


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
        f"            case {' '.join(_valued(found).split('|'))}",
        "                set value 1",
        "        end",
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


def _by_kind(found: Sequence[Place]) -> dict[str, list[str]]:
    """The options whose value is the name of something, by what it names."""
    kinds: dict[str, set[str]] = {}
    for place in found:
        for flag in place.flags:
            if flag.kind and not flag.values:
                kinds.setdefault(flag.kind, set()).update(flag.names)
    return {kind: sorted(names) for kind, names in sorted(kinds.items())}


def _quoted(words: Sequence[str]) -> str:
    return _single(" ".join(words))


def _described(word: str, text: str) -> str:
    """word:help, as `_describe` of zsh splits it."""
    return _single(f"{word}:{text}")


def _single(text: str) -> str:
    """In single quotes, for every one of the three shells."""
    return "'" + text.replace("'", "’") + "'"
