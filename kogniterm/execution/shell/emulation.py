"""What a new shell cannot simply be told: exit traps and children of the shell before it.

Some builtins are stood in for by functions, and only in commands where it matters:

* `trap`, when the command (or a carried function) sets an EXIT trap or lists the traps: our own
  EXIT trap writes the state, so the user's action is kept beside it and run after it. It runs at
  the end of the command that set it, as with `bash -c`; when setting it is all the command does,
  it is carried and runs when a later command exits, as in one terminal.
* `wait`, while background processes of earlier commands are known: they are not this shell's
  children any more, but their exit codes were noted where `wait` can read them.

* `jobs`, `kill %n`, `fg`, `bg` and `disown`, while what they list is still running: a shell numbers
  only its own jobs, so those of earlier commands come first and its own after them.
* `disown`, when the command mentions it: what is disowned stays when the executor ends, so it is
  noted where the supervisor reads it.

`$!` cannot be set in a shell that has not started the process itself. After a command that left
one it is replaced by `${!:-PID}`, in the next command's text and in carried functions and traps.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kogniterm.execution.process.processes import DISOWNED, process_state
from kogniterm.execution.shell.shell_state import EarlierJob, decode, encode, quoted

TRAP_FUNCTION = rb"""trap () {
  if [[ $# -eq 0 || $1 == -p ]]; then
    \builtin local __kt_t __kt_q="'\\''"; __kt_t=$(\builtin trap -p "${@:2}")
    if [[ $__kt_t == *$'left-'*"' EXIT"* ]]; then
      __kt_t=${__kt_t#*"' EXIT"}; __kt_t=${__kt_t#$'\n'}
      if [[ -n $__kt_exit ]]
      then \builtin printf "trap -- '%s' EXIT\n" "${__kt_exit//"'"/"$__kt_q"}"; fi
    fi
    if [[ -n $__kt_t ]]; then \builtin printf '%s\n' "$__kt_t"; fi
    return
  fi
  if [[ $BASH_SUBSHELL -ne 0 || $1 == -l ]]; then \builtin trap "$@"; return; fi
  if [[ $1 == -- ]]; then \builtin shift; fi
  if [[ $# -eq 1 ]]; then \builtin set -- - "$1"; fi
  \builtin local __kt_a __kt_s; \builtin local -a __kt_r; __kt_a=$1 __kt_r=(); \builtin shift
  for __kt_s; do
    case ${__kt_s^^} in
      EXIT|SIGEXIT|0) if [[ $__kt_a == - ]]; then __kt_exit=; else __kt_exit=$__kt_a; fi;;
      *) __kt_r+=("$__kt_s");;
    esac
  done
  if [[ ${#__kt_r[@]} -gt 0 ]]; then \builtin trap -- "$__kt_a" "${__kt_r[@]}"; fi
}
"""

WAIT_FUNCTION = rb"""wait () {
  \builtin local IFS=' ' __kt_all= __kt_p __kt_c=0 __kt_d=%(folder)s __kt_k=' %(pids)s '
  if [[ $BASH_SUBSHELL -ne 0 || $1 == -* ]]; then \builtin wait "$@"; return; fi
  if [[ $# -eq 0 ]]; then \builtin wait; \builtin set -- $__kt_k; __kt_all=1; fi
  for __kt_p; do
    if [[ $__kt_p == %%* ]] && \builtin declare -F __kt_job >/dev/null
    then \builtin local __kt_j; __kt_job "$__kt_p"; __kt_p=${__kt_j[-1]}; fi
    if [[ $__kt_k == *" $__kt_p "* ]]; then
      while [[ ! -e $__kt_d/$__kt_p && -d /proc/$__kt_p ]]; do
        \builtin read -t 0.05 <>"$__kt_d/never"
      done
      __kt_c=127; if [[ -e $__kt_d/$__kt_p ]]; then __kt_c=$(<"$__kt_d/$__kt_p"); fi
    else
      \builtin wait "$__kt_p"; __kt_c=$?
    fi
  done
  return $((__kt_all ? 0 : __kt_c))
}
"""

_TRAP_WORD = re.compile(rb"\btrap\b", re.IGNORECASE)
_EXIT_NAME = re.compile(rb"\b(?:SIG)?EXIT\b|\s0\b", re.IGNORECASE)
_LISTS_TRAPS = re.compile(rb"\btrap(?:\s+-p\b|[ \t]*(?:[;|&\n)]|\Z))")
_LONE_TRAP = re.compile(
    r"""\s*trap\s+(?:--\s+)?(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s;&|'"]+)(?:\s+\w+)+\s*;?\s*\Z""",
    re.DOTALL,
)
_EXITS = re.compile(r"(?:^|[;&|\n({]|\b(?:then|do|else))\s*exit\b")


def minds_exit_trap(command: str, functions: bytes) -> bool:
    """Whether `command` or a carried function may set an EXIT trap or list the traps."""
    data = encode(command)
    return bool(
        _LISTS_TRAPS.search(data)
        or _sets_exit_trap(data)
        or (b"trap" in functions and _sets_exit_trap(functions))
    )


def _sets_exit_trap(source: bytes) -> bool:
    """Return whether some line names EXIT after `trap`; in linear time, whatever the text is."""
    for line in source.split(b"\n"):
        word = _TRAP_WORD.search(line)
        if word is not None and _EXIT_NAME.search(line, word.end()):
            return True
    return False


def exit_trap_prelude(command: str, carried: bytes) -> bytes:
    """Definitions for a command in which an EXIT trap matters; `carried` is a pending action.

    `__kt_fire` tells the capture file when to run the action: 1 always, 0 only when it changed in
    this command, empty never.
    """
    fire = b"1" if _EXITS.search(command) else b"0"
    if _LONE_TRAP.match(command):
        fire = b""
    action = quoted(carried)
    return TRAP_FUNCTION + b"__kt_exit=%s __kt_before=%s __kt_fire=%s\n" % (action, action, fire)


def wait_prelude(folder: bytes, pids: tuple[int, ...]) -> bytes:
    """A `wait` that knows the background processes `pids` of earlier commands."""
    listed = b" ".join(b"%d" % pid for pid in pids)
    return WAIT_FUNCTION % {b"folder": quoted(folder), b"pids": listed}


JOB_FUNCTIONS = rb"""__kt_job () {
  case $1 in
%(cases)s    %%[0-9]*) __kt_j=("%%$((${1#%%} - %(highest)d))");;
    ''|%%|%%+|%%-|%%%%) __kt_j=(%%+)
      if [[ -z $(\builtin jobs -p) ]]; then __kt_j=(%(last)s); fi;;
    *) __kt_j=("$1");;
  esac
}
jobs () {
  \builtin local __kt_p __kt_n __kt_t
  while \builtin read -r __kt_n __kt_p __kt_t; do
    if [[ ! -d /proc/$__kt_p || -e %(folder)s/$__kt_p ]]; then continue; fi
    case ${1-} in
      -p) \builtin echo "$__kt_p";;
      -l) \builtin printf '[%%d]  %%5d %%-24s%%s\n' "$__kt_n" "$__kt_p" Running "$__kt_t";;
      *) \builtin printf '[%%d]   %%-24s%%s\n' "$__kt_n" Running "$__kt_t";;
    esac
  done <<< %(list)s
  \builtin jobs "$@"
}
kill () {
  \builtin local __kt_p __kt_j; \builtin local -a __kt_a; __kt_a=()
  for __kt_p; do
    __kt_j=("$__kt_p"); if [[ $__kt_p == %%* ]]; then __kt_job "$__kt_p"; fi
    __kt_a+=("${__kt_j[@]}")
  done
  # Processes of a pipe end each other: one that is gone is an error only when all are.
  if [[ ${#__kt_a[@]} -gt $# ]] && \builtin kill "${__kt_a[@]}" 2>/dev/null; then return; fi
  \builtin kill "${__kt_a[@]}"
}
fg () {
  \builtin local __kt_j; __kt_job "${1-}"
  if [[ $__kt_j == %%* ]]; then \builtin fg "$__kt_j"; return; fi
  \builtin kill -CONT "${__kt_j[@]}" 2>/dev/null; wait "${__kt_j[-1]}"
}
bg () {
  \builtin local __kt_j; __kt_job "${1-}"
  if [[ $__kt_j == %%* ]]; then \builtin bg "$__kt_j"; else \builtin kill -CONT "${__kt_j[@]}"; fi
}
"""
DISOWN_FUNCTION = rb"""__kt_pids () {
  \builtin local __kt_n __kt_p __kt_r
  while \builtin read -r __kt_n __kt_p __kt_r; do
    case $__kt_n in
      [[]*) \builtin echo "$__kt_p";;
      [0-9]*) \builtin echo "$__kt_n";;
    esac
  done <<< "$(\builtin jobs -l)"
}
disown () {
  \builtin local IFS=$' \t\n' __kt_w __kt_all __kt_rest __kt_code=0
  \builtin local -a __kt_j __kt_a __kt_o
  __kt_a=() __kt_o=()
  for __kt_w; do
    case $__kt_w in
      -*) __kt_o+=("$__kt_w"); \builtin continue;;
    esac
    __kt_j=("$__kt_w")
    if \builtin declare -F __kt_job >/dev/null; then __kt_job "$__kt_w"; fi
    if [[ $__kt_j != %%* ]]; then \builtin printf '%%s\n' "${__kt_j[@]}" >>%(disowned)s; fi
    if [[ $__kt_w != %%* || $__kt_j == %%* ]]; then __kt_a+=("$__kt_j"); fi
  done
  if [[ $# -eq 0 ]] && \builtin declare -F __kt_job >/dev/null; then
    __kt_job ''
    if [[ $__kt_j != %%* ]]; then
      \builtin printf '%%s\n' "${__kt_j[@]}" >>%(disowned)s; \builtin return
    fi
  fi
  if [[ $# -gt 0 && ${#__kt_a[@]} -eq 0 && ${#__kt_o[@]} -eq 0 ]]; then \builtin return; fi
  __kt_all=" $(__kt_pids) "
  __kt_rest=" $(\builtin disown ${__kt_o[@]//h} "${__kt_a[@]}" 2>/dev/null; __kt_pids) "
  for __kt_w in $__kt_all; do
    case $'\n'${__kt_rest// /$'\n'}$'\n' in
      *$'\n'"$__kt_w"$'\n'*) ;;
      *) \builtin echo "$__kt_w" >>%(disowned)s;;
    esac
  done
  \builtin disown "${__kt_o[@]}" "${__kt_a[@]}" || __kt_code=$?
  \builtin return $__kt_code
}
"""
_DISOWNS = re.compile(rb"\bdisown\b")
_MOST_ENDED = 8
_JOB_WORDS = re.compile(r"%|\b(?:jobs|[fb]g|disown)\b")
_PROCESS_WORDS = re.compile(r"\$!|\$\{!|(?:^|[\s;&|({])(?:wait|jobs|fg|bg|disown|kill|pkill)\b|%\d")
_LISTED = re.compile(rb"\[(\d+)\][-+ ]? +\d+ (?:Running|Stopped)\b.*\n(?: +\d+ .*\n)*")
_LISTED_PID = re.compile(rb"^(?:\[\d+\][-+ ]?)? +(\d+) ", re.MULTILINE)
_LISTED_TEXT = re.compile(rb"(?:Running|Stopped(?: \([^)\n]*\))?|\n +\d+) +(.*)")


def known_jobs(previous: tuple[EarlierJob, ...], listed: bytes) -> tuple[EarlierJob, ...]:
    """The jobs of before and what this shell's `jobs -l` printed.

    Ended ones keep their numbers while another runs, and for one command more: `kill %1` may be
    followed by `wait %1`.
    """
    highest = max((job.number for job in previous), default=0)
    jobs = [replace(job, runs=_runs(job.pids)) for job in previous]
    for match in _LISTED.finditer(listed):
        text = b" ".join(_LISTED_TEXT.findall(match[0]))
        pids = tuple(int(pid) for pid in _LISTED_PID.findall(match[0]))
        jobs.append(EarlierJob(highest + int(match[1]), pids, text, _runs(pids)))
    if not any(job.runs for job in (*previous, *jobs)):
        return ()
    ended = [job for job in jobs if not job.runs]
    return tuple(job for job in jobs if job.runs or job in ended[-_MOST_ENDED:])


def _runs(pids: tuple[int, ...]) -> bool:
    """Whether any of them does; one that has ended may still wait to be collected."""
    states = (process_state(pid) for pid in pids)
    return any(state is not None and state.state not in "ZX" for state in states)


def mentions_jobs(command: str, functions: bytes) -> bool:
    """Whether `command` may ask for a job by its number; inside functions, `%n` counts only."""
    return bool(_JOB_WORDS.search(command)) or b"kill %" in functions or b"wait %" in functions


def mentions_processes(command: str) -> bool:
    """Return whether `command` may ask for processes of earlier commands."""
    return bool(_PROCESS_WORDS.search(command))


def mentions_disown(command: str, functions: bytes) -> bool:
    """Return whether `command` or a carried function may disown a job."""
    return "disown" in command or bool(_DISOWNS.search(functions))


def disown_prelude(folder: bytes) -> bytes:
    """A `disown` that notes in `folder` which processes are to stay when the executor ends."""
    return DISOWN_FUNCTION % {b"disowned": quoted(folder + b"/" + DISOWNED.encode())}


def job_prelude(folder: bytes, jobs: tuple[EarlierJob, ...]) -> bytes:
    """The functions that know `jobs`, of which there is at least one.

    Which of them have ended stands in `folder` a moment before the kernel forgets them.
    """
    lists = {job.number: b" ".join(b"%d" % pid for pid in job.pids) for job in jobs}
    cases = [b"    %%%d) __kt_j=(%s);;\n" % item for item in lists.items()]
    rows = b"\n".join(b"%d %d %s" % (job.number, job.pids[0], job.text) for job in jobs)
    return JOB_FUNCTIONS % {
        b"folder": quoted(folder),
        b"cases": b"".join(cases),
        b"highest": max(lists),
        b"last": lists[max((job.number for job in jobs if job.runs), default=max(lists))],
        b"list": quoted(rows),
    }


_SEEDS = re.compile(r"(?:^|[\s;&|({])RANDOM=")
_NAMED_AFTER_SHELL = re.compile(r"[\w./-](?:\$\$|\$\{\$\})(?![\w({])")


def not_carried(command: str) -> list[str]:
    """What of `command` no later one can go on with, in sentences; most often nothing."""
    notes = []
    if _SEEDS.search(command):
        notes.append("The sequence of random numbers that RANDOM=… starts ends with this command.")
    words = command.split() if "$$" in command or "${$}" in command else ()
    if any(
        _NAMED_AFTER_SHELL.search(word) and "=" not in word and "/proc/$" not in word
        for word in words
    ):
        notes.append("$$ is another number in every command: keep a name made of it in a variable.")
    return notes


_PIECE = re.compile(
    r"""(?P<plain>\\. | '[^']*' | \$'(?:[^'\\]|\\.)*' | (?<![^\s;&|(])\#[^\n]* | <<<)
    | (?P<here><<-?[ \t]*(?P<end>(?:\\.|'[^']*'|"[^"]*"|[^\s;&|()<>'"\\])+))
    | (?P<line>\n)
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<last>\$!|\$\{!\})""",
    re.DOTALL | re.VERBOSE,
)
_LAST = re.compile(r"(\\.)|\$!|\$\{!\}", re.DOTALL)


def expand_last_background(command: str, pid: int | None) -> str:
    """`command` with `$!` replaced by `${!:-pid}`: an earlier command's job until it has its own.

    Text that the shell would not expand (quoted, comments, here-documents with a quoted end) is
    left alone.
    """
    if pid is None or ("$!" not in command and "${!}" not in command):
        return command
    word = f"${{!:-{pid}}}"
    parts: list[str] = []
    documents: list[re.Match[str]] = []
    position = 0
    while match := _PIECE.search(command, position):
        parts.append(command[position : match.start()])
        position = match.end()
        kind = match.lastgroup
        if kind == "last":
            parts.append(word)
        elif kind == "quoted":
            parts.append(_LAST.sub(lambda m: m[1] or word, match[0]))
        else:
            parts.append(match[0])
        if kind == "here":
            documents.append(match)
        elif kind == "line" and documents:
            text, position = _documents(command, position, documents, word)
            parts.append(text)
            documents = []
    return "".join(parts) + command[position:]


def _documents(
    command: str, position: int, documents: list[re.Match[str]], word: str
) -> tuple[str, int]:
    """The here-documents that begin at `position`, expanded as their ends say; where they stop."""
    parts: list[str] = []
    for document in documents:
        end = re.sub(r"\\(.)|['\"]", r"\1", document["end"])
        tabs = r"\t*" if document[0].startswith("<<-") else ""
        stop = re.compile(rf"^{tabs}{re.escape(end)}$", re.MULTILINE).search(command, position)
        if stop is None:
            continue  # not a here-document after all: a shift in an expression, say
        body = command[position : stop.end()]
        expands = end == document["end"]
        parts.append(_LAST.sub(lambda m: m[1] or word, body) if expands else body)
        position = stop.end()
    return "".join(parts), position


def with_last_background(source: bytes, pid: int | None) -> bytes:
    """`expand_last_background` for functions as bash prints them."""
    if pid is None or b"$!" not in source:
        return source
    text = expand_last_background(decode(source), pid)
    return encode(text)


def actions_with_last_background(actions: bytes, pid: int | None) -> bytes:
    """The same for the actions of traps, whose quotes are not the shell's last word."""
    return actions if pid is None else actions.replace(b"$!", b"${!:-%d}" % pid)


def without_last_background(source: bytes, pid: int | None) -> bytes:
    """The inverse of all of them."""
    return source if pid is None else source.replace(b"${!:-%d}" % pid, b"$!")
