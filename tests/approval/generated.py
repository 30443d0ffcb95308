"""Commands made of pieces: ways by which data reaches a variable, and uses that run it as code.

`evaluated` gives every combination; in all of them bash would run what a file holds. `composed`
mixes the same pieces with harmless ones at random, for the comparison with a real shell.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

CANARY = "canary"
FILES = {
    "data": f"a[$(>{CANARY})]\n",
    "list": f"($(>{CANARY}))\n",
    "option": f"-va[$(>{CANARY})]\n",
    "words": f"-v a[$(>{CANARY})]\n",
    "number": "5\n",
    "plain": "one two\nthree\n",
    "g": f"#!/bin/sh\necho > {CANARY}\n",
}
"""Files in the folder of a command."""

FILLS = (
    "{v}=$(cat {f})",
    "{v}=`cat {f}`",
    "{v}=$(<{f})",
    "read -r {v} < {f}",
    'read {v} <<< "$(cat {f})"',
    "IFS= read -r {v} < {f}",
    'read -r x {v} <<< "1 $(cat {f})"',
    "mapfile -t {v} < {f}",
    "readarray -t {v} < {f}",
    "mapfile -t < {f}; {v}=${{MAPFILE[0]}}",
    "read -r < {f}; {v}=$REPLY",
    "read -ra {v} < {f}",
    'printf -v {v} %s "$(cat {f})"',
    "printf -v{v} '%s' \"$(cat {f})\"",
    "{v}=($(cat {f}))",
    '{v}=("$(cat {f})")',
    "{v}=(5); {v}[0]=$(cat {f})",
    "{v}=; {v}+=$(cat {f})",
    "export {v}=$(cat {f})",
    "declare {v}=$(cat {f})",
    'for {v} in "$(cat {f})"; do :; done',
    "while read -r y; do {v}=$y; done < {f}",
    'set -- "$(cat {f})"; {v}=$1',
    "[[ $(cat {f}) =~ .* ]]; {v}=$BASH_REMATCH",
    "[[ $(cat {f}) =~ (.*) ]]; {v}=${{BASH_REMATCH[1]}}",
    ': "$(cat {f})"; {v}=$_',
    ": ${{{v}:=$(cat {f})}}",
    "shopt -s lastpipe; cat {f} | read -r {v}",
    "shopt -s lastpipe; cat {f} | {{ read -r {v}; }}",
    "w=$(cat {f}); {v}=$w",
    "w=$(cat {f}); {v}=${{w:-1}}",
    "w=$(cat {f}); {v}=${{w%x}}",
    'w=$(cat {f}); {v}="$w"',
    "{v}=5; read -r {v} < {f}",
    "{v}=5; {v}=5 && {v}=$(cat {f})",
    "{v}=$(cat {f}); false && {v}=5",
    "{v}=$(cat {f}); true || {v}=5",
    "{v}=$(cat {f}); {v}=5 & wait",
    "{v}=$(cat {f}); ({v}=5)",
    "{v}=$(cat {f}); true | {v}=5",
    "{v}=$(cat {f}); if false; then {v}=5; fi",
    "{v}=$(cat {f}); for x in; do {v}=5; done",
    "{v}=$(cat {f}); while false; do {v}=5; done",
    "{v}=$(cat {f}); case x in y) {v}=5;; esac",
    "{v}=5; f() {{ read -r {v} < {f}; }}; f",
    'f() {{ {v}=$1; }}; f "$(cat {f})"',
    "{v}=$(cat {f}); f() {{ return; {v}=5; }}; f",
    "{v}=$(cat {f}); local {v}=5",
    "{v}=$(cat {f}); declare -p {v}=5",
    "{v}=$(cat {f}); : $((0 && ({v}=5)))",
    "readonly {v}=$(cat {f}); export {v}=5",
    "{v}=$(head -1 {f})",
    "{v}=$(sed -n 1p {f})",
    "{v}=$(awk 1 {f})",
    "{v}=$(sort {f} | head -n 1)",
    "{v}=$(cat {f} | tr -d '\\n')",
    "{v}=$(grep . {f})",
    "{v}=$(date +%s; cat {f})",
    '{v}=$(echo "$(cat {f})")',
    '{v}=$(printf %s "$(cat {f})")',
    "{v}=$(cut -c1- {f})",
    'OPTIND=1; getopts x: y -x"$(cat {f})"; {v}=$OPTARG',
    "IFS=, read -r {v} z < {f}",
    "read -r -d '' {v} < {f}; :",
    "{{ read -r {v}; }} < {f}",
    "exec < {f}; read -r {v}",
)
"""Ways to fill the variable {v} from the file {f}."""

FLOWS = (
    "",
    "u=$n; n=$u",
    'n="$n"',
    "n=${n:-0}",
    "export n",
    "readonly n",
    "true; :",
    "if true; then :; fi",
    'set -- "$n"; n=$1',
    "n=${n#x}",
    "cd .",
    "for i in 1 2; do :; done",
    "q=($n); n=${q[0]}",
    "{ m=5; }",
    "i=5; ((i++))",
    "n+=''",
)
"""Uses of the variable in between."""

USES = (
    "((n))",
    "((n++))",
    "((n+1>0))",
    "((x=n))",
    "((x=5, n))",
    "((1 ? n : 0))",
    "echo $((n))",
    "echo $((n*2))",
    "echo $(( $n + 1 ))",
    'echo "$((n))"',
    "let n",
    "let 'x=n+1'",
    'let "n++"',
    "[[ n -gt 5 ]]",
    "[[ $n -gt 5 ]]",
    '[[ "$n" -eq 1 ]]',
    "[[ 5 -lt n ]]",
    "[[ 1 -eq 1 && n -ne 3 ]]",
    "[[ ! n -ge 3 ]]",
    "if [[ $n -le 3 ]]; then echo x; fi",
    "echo ${PWD:n}",
    "echo ${PWD:0:n}",
    "echo ${PWD:$n}",
    "echo ${PWD: $n:1}",
    "set -- a b; echo ${@:n}",
    "echo ${*:0:n}",
    "b=(1 2); echo ${b[n]}",
    "b=(1 2); echo ${b[$n]}",
    "b=(1 2); echo ${b[@]:n}",
    "b[n]=1",
    "b[$n]=1",
    "b=([n]=1)",
    "b=([$n]=1)",
    "RANDOM=$n",
    "SRANDOM=$n",
    "OPTIND=$n",
    "HISTCMD=$n",
    "export RANDOM=$n",
    'for RANDOM in "$n"; do :; done',
    'for SECONDS in "$n"; do :; done',
    'read RANDOM <<< "$n"',
    'printf -v RANDOM %s "$n"',
    'mapfile -t RANDOM <<< "$n"',
    "for ((i=n;i<1;i++)); do :; done",
    "for ((i=0;i<n;i++)); do break; done",
    "while ((n)); do break; done",
    "[[ -v $n ]]",
    '[[ -v "$n" ]]',
    'test -v "$n"',
    '[ -v "$n" ]',
    '[ -n x -a -v "$n" ]',
    'o=-v; [ "$o" "$n" ]',
    'printf -v "$n" x',
    "printf -v$n x",
    'printf "-v$n" x',
    'read "$n" <<< x',
    'mapfile -C "$n" -c1 <<< x',
    'wait -p "$n" $!',
    'a=1; unset "$n"',
    'unset -v "$n"',
    'getopts x "$n"',
    "declare -i x=$n",
    "declare -i x; x=$n",
    'declare "$n=1"',
    'declare -n r="$n"; echo $r',
    "echo ${!n}",
    "echo ${n@P}",
    "m=n; ((m))",
    "m='n+1'; echo $((m))",
    "m=n; [[ m -gt 1 ]]",
    'f() { echo $(($1)); }; f "$n"',
    'f() { local k=$1; ((k)); }; f "$n"',
    'eval "echo $n"',
    "echo $[n]",
    "echo $[ $n ]",
    "for ((;n;)); do break; done",
    "(( $(cat data) ))",
    "echo $(( $(cat data) + 1 ))",
    "x=$((n)); echo $x",
    "ls > ${PWD:n}x",
    "cat <<< $((n))",
    "cat <<E\n$((n))\nE",
    "case $((n)) in 5) ;; esac",
    "echo a | while ((n)); do break; done",
)
"""Uses that evaluate what the variable n holds."""

LISTS = (
    'declare -a b="$n"',
    'declare -a "b=$n"',
    'local -a b="$n"',
    'typeset -a b="$n"',
    'readonly -a b="$n"',
    'export -a b="$n"',
    'declare -A b="$n"',
    'typeset -ga b="$n"',
    'b=(1); declare b="$n"',
    'f() { local -a b="$n"; }; f',
    'declare -a b; declare b="$n"',
)
"""Uses that take what the variable n holds for the text of an array."""


def evaluated() -> Iterator[str]:
    """Yield commands in which bash runs what a file holds, or refuses to."""
    for fill, flow, use in product(FILLS, FLOWS, USES):
        yield _joined(fill.format(v="n", f="data"), flow, use)
    for fill, flow, use in product(FILLS, FLOWS, LISTS):
        yield _joined(fill.format(v="n", f="list"), flow, use)


def _joined(*pieces: str) -> str:
    return "; ".join(filter(None, pieces)).replace("& wait;", "& wait;")


def composed(random: Random) -> tuple[str, ...]:
    """Return one to three commands in a row, of which some hold no data but numbers and words."""
    name = random.choice("nnnmx")
    parts = []
    for _ in range(random.randrange(1, 4)):
        kind = random.random()
        if kind < 0.45:
            source = random.choice(list(FILES))
            parts.append(random.choice(FILLS).format(v=name, f=source))
        elif kind < 0.7:
            parts.append(random.choice(LITERALS).replace("n", name))
        else:
            parts.append(random.choice([*FLOWS, *HARMLESS]))
        parts[-1] = random.choice(FRAMES).replace("@", parts[-1])
    use = random.choice([*USES, *USES, *LISTS, *SOFT])
    parts.append(random.choice(FRAMES).replace("@", use))
    parts = [part for part in parts if part]
    cut = random.randrange(len(parts))
    commands = ["; ".join(parts[:cut]), "; ".join(parts[cut:])] if cut else ["; ".join(parts)]
    return tuple(commands)


LITERALS = (
    "n=5",
    "n=-3",
    "n=0",
    "n=$((3+4))",
    "n=$(wc -l < plain)",
    "n=$(date +%s)",
    "n=${#PWD}",
    "n=$#",
    "n=$RANDOM",
    "for n in 1 2 3; do :; done",
    "((n=5))",
    "((n=2, n++))",
    "let n=5",
    "n=5; ((n+=2))",
    "declare n=5",
    "export n=5",
    "n=(1 2 3)",
    "n=x",
    "n='x y'",
    "n=x5",
    "n=$(nproc)",
    "for ((n=0; n<3; n++)); do :; done",
    "n=5 && n=6",
    "n=$(seq 1 3)",
    "n=5; n=$n",
    "n=1 true",
    "n='m+1'",
    "m=5; n=m",
    "x5=$(cat data); i=5; n=x$i",
    "unset n",
    "n=$(grep -c . plain)",
    "n=$(stat -c %s plain)",
    "n=$(ls | wc -l)",
    "n=$((RANDOM % 5))",
    "n=${n:-5}",
    "n=(5); n+=(6)",
    "n[1]=5",
    "n+=5",
)
HARMLESS = (
    "ls",
    'echo "$n"',
    "cat plain",
    '[ "$n" = x ]',
    "[[ $n == 5 ]]",
    "[[ -n $n ]]",
    '[ -n "$n" ]',
    "printf '%s\\n' \"$n\"",
    "echo ${n:-x}",
    "echo ${n^^}",
    'echo "${n//a/b}"',
    "grep -c . plain",
    "[ $# -gt 0 ]",
    "set -e",
    "set -u",
    "shopt -s lastpipe",
    "shopt -s nullglob",
    "true",
    "false",
    "read -r z < plain",
    'for f in *; do echo "$f"; done',
    "test -f plain",
    "cd .",
    "type ls",
    "command -v ls",
    "wait",
    "hash",
    "jobs",
    "times",
    "umask",
    "g() { ls; }",
    "g() { ls; }; g",
    "g",
    "command g",
    "xargs g < number",
    "unset -f g",
    "g() { ls; } &",
    "f() { g() { ls; }; }",
    "timeout 1 g",
)
SOFT = (
    "[ $n ]",
    "[ -n $n ]",
    "[ $n = x ]",
    "[ $n -gt 5 ]",
    '[ "$n" -gt 5 ]',
    '[ "$n" "$n" ]',
    "test $n",
    'test "$n" = y -o "$n" = x',
    'printf "$n"',
    'printf "$n" x',
    "printf $n x",
    'printf -- "$n"',
    "read $n < plain",
    "mapfile $n < plain",
    "export $n",
    "declare $n",
    "unset $n",
    "echo $n",
    "type $n",
    "hash $n",
    "command $n",
    "wait $n",
    "set $n",
    "set -- $n; echo $1",
    "shift $n",
    "cd $n",
    "pushd $n",
    "umask $n",
    "ulimit -n $n",
    "kill -0 $n",
    "jobs $n",
    "dirs $n",
    "sort $n plain",
    "grep $n plain",
    "find $n",
    "ls $n",
    "cat $n",
    "head -n $n plain",
    "date $n",
    "seq $n",
    "wc $n",
    "uniq plain $n",
    "xargs $n < plain",
    "echo x | xargs $n",
    "tail $n plain",
    "printf '%d' \"$n\"",
    "local n=$n",
    "declare x=$n",
    "x=$n",
    "export x=$n",
    "y=(1); declare y=$n",
    "exit $n",
    "return $n",
    "getopts ab $n",
    "shopt -s $n",
    "enable $n",
    "alias $n",
    "test -e $n",
    "[[ -e $n ]]",
    "case $n in a) ;; esac",
    "diff plain $n",
    "tr $n x < plain",
    "cut $n plain",
    "awk $n plain",
    "sed $n plain",
    "jq $n plain",
    "rg $n plain",
    'compgen -W "$n"',
    "sleep $n",
    "timeout $n ls",
    "env $n ls",
    "nice $n ls",
)
"""Uses that are harmless with some data."""
FRAMES = (
    "@",
    "@",
    "@",
    "@",
    "@",
    "{ @; }",
    "if true; then @; fi",
    "for k in 1 2; do @; done",
    "(@)",
    "@ || true",
    "true && @",
    "false || @",
    "while :; do @; break; done",
    "f() { @; }; f",
    "@ | cat",
    "true | @",
    "x=$(@)",
    'echo "$(@)"',
    "case x in x) @;; esac",
    "until false; do @; break; done",
    "@ &",
    "! @",
    "cat number | while read -r k; do @; done",
    "time @",
    "{ @; } < number",
    "for k in 1 2; do @; n=$(cat data); m=5; done",
    "{ @; } 2>/dev/null",
)

PROGRAM_FILES = {
    **FILES,
    "run": f"#!/bin/sh\necho > {CANARY}\n",
    "conftest.py": f"open('{CANARY}', 'w')\n",
    "sitecustomize.py": f"open('{CANARY}', 'w')\n",
    ".ripgreprc": "--pre=./run\n",
    ".ackrc": "--pager=./run\n",
    ".toprc": "x\n",
    ".lesskey": "#command\nq shell ./run\\n\n",
    ".jq": f'def f: "{CANARY}";\n',
    ".inputrc": "set editing-mode vi\n",
    ".gitattributes": "* diff=run\n",
    "list.json": '{"a": [1, 2]}\n',
    "table.csv": "a,b\n1,2\n",
    "page.xml": "<a><b/></a>\n",
}
"""Files in the folder of a program: settings that it could obey, and a program."""
_LONG = (
    "output",
    "output-file",
    "out",
    "exec",
    "exec-batch",
    "pre",
    "pager",
    "vcs",
    "compress-program",
    "use-compress-program",
    "filter",
    "to-command",
    "info-script",
    "rsh-command",
    "checkpoint-action",
    "checkpoint",
    "diff-program",
    "config",
    "config-file",
    "lesskey-file",
    "log-file",
    "files0-from",
    "hostname-bin",
    "plugin",
    "replace",
    "in-place",
    "null",
    "rm",
    "recursive",
    "report-file",
    "make",
    "init-file",
    "create-rc",
    "write",
    "save",
    "dump",
    "trace",
    "append",
    "max-lines",
    "eof",
    "split-string",
    "debug",
    "lessopen",
    "type-add",
    "ignore-file",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012#@+"
_VALUES = (
    "./run",
    "run",
    "out",
    f">{CANARY}",
    f"touch {CANARY}",
    "plain",
    "5",
    "=./run",
    "=out",
    "-",
    "exec=./run",
    "1,touch",
)


def program_call(random: Random, program: str, longs: tuple[str, ...]) -> str:
    """Return a call of `program` with options that it knows or that are dangerous elsewhere."""
    words = [program]
    for _ in range(random.randrange(1, 4)):
        if random.random() < 0.5:
            word = "-" + "".join(random.choices(_LETTERS, k=random.choice([1, 1, 2, 3])))
            if random.random() < 0.4:
                word += random.choice(_VALUES).lstrip("=")
        else:
            name = random.choice([*longs, *_LONG])
            word = "--" + (
                name if random.random() < 0.7 else name[: random.randrange(1, len(name) + 1)]
            )
            if random.random() < 0.5:
                word += "=" + random.choice(_VALUES).lstrip("=")
        words.append(word)
        if random.random() < 0.5:
            words.append(random.choice(_VALUES))
    operands = ["plain", "number", "list.json", "table.csv", "page.xml", ".", "x", "out", "run"]
    words += random.choices(operands, k=random.randrange(0, 3))
    quoted = [words[0], *(f"'{word}'" for word in words[1:])]
    return " ".join(quoted) + random.choice(["", "", " < plain", " | cat"])
