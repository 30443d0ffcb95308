"""State carried between commands: any value survives, and scripts behave as when run whole."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.shell.capture import read_dump
from kogniterm.execution.shell.restore import limit_commands
from kogniterm.execution.shell.shell_state import first_state

ANY_BYTES = st.lists(
    st.sampled_from(
        [b"a", b" ", b"\n", b"'", b'"', b"\\", b"$", b"`", b"(", b")", b"=", b"!", b"*"]
    )
    | st.binary(min_size=1, max_size=3).map(lambda b: b.replace(b"\0", b"x")),
    max_size=20,
).map(b"".join)


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandExecutor]:
    with open_executor(tmp_path_factory.mktemp("carry")) as made:
        yield made


def octal(value: bytes) -> str:
    """Return a bash word for any bytes, without quoting."""
    return "$'" + "".join(f"\\{byte:03o}" for byte in value) + "'"


@given(st.lists(ANY_BYTES, min_size=1, max_size=4), st.sampled_from(["-x", "-a", "-A", "--", "-r"]))
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_value_survives(executor: CommandExecutor, values: list[bytes], flag: str) -> None:
    name = f"v{next(NAMES)}"
    if flag in ("-a", "-A"):
        keys = [f"[{octal(b'k' + str(n).encode() + values[0][:3])}]" for n in range(len(values))]
        keys = [f"[{n}]" for n in range(len(values))] if flag == "-a" else keys
        words = " ".join(k + "=" + octal(v) for k, v in zip(keys, values, strict=True))
        executor.run(f"declare {flag} {name}=({words})")
    else:
        executor.run(f"declare {flag} {name}={octal(values[0])}")
    executor.run("true")
    shown = executor.run(f"printf '%s\\0' \"${{{name}[@]}}\" | od -An -v -tx1 | tr -d ' \\n'").text
    got = sorted(bytes.fromhex(shown).split(b"\0")[:-1])
    expected = values if flag in ("-a", "-A") else values[:1]
    assert got == sorted(expected)


def _names() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


NAMES = _names()

SCRIPTS = {
    "build": [
        "set -e",
        "mkdir -p src out",
        "cd src",
        'for i in 1 2 3; do echo "int f$i;" > f$i.c; done',
        "count=$(ls *.c | wc -l)",
        "cd ..",
        "cp src/*.c out/",
        "echo copied $count from ${OLDPWD##*/}",
        "ls -1 out",
    ],
    "virtualenv": [
        "mkdir -p venv/bin",
        "cat > venv/bin/activate <<'E'\ndeactivate() { PATH=$OLD; unset VIRTUAL_ENV OLD; "
        "unset -f deactivate; }\nOLD=$PATH\nVIRTUAL_ENV=$PWD/venv\nexport VIRTUAL_ENV\n"
        "PATH=$VIRTUAL_ENV/bin:$PATH\nE",
        "source venv/bin/activate",
        "printf '#!/bin/sh\\necho mine\\n' > venv/bin/tool; chmod +x venv/bin/tool",
        "tool",
        "echo ${VIRTUAL_ENV##*/}",
        "deactivate",
        "tool 2>/dev/null || echo gone ${VIRTUAL_ENV-unset}",
    ],
    "functions and arrays": [
        "declare -A seen",
        "add() { local word=$1; seen[$word]=$(( ${seen[$word]:-0} + 1 )); }",
        "words=(b a b c)",
        'for w in "${words[@]}"; do add "$w"; done',
        "add b",
        "for k in $(printf '%s\\n' \"${!seen[@]}\" | sort); do echo $k ${seen[$k]}; done",
        "words+=(d)",
        "echo ${#words[@]} ${words[-1]}",
    ],
    "options": [
        "shopt -s nullglob extglob",
        "set -o pipefail",
        "false | true",
        "echo $?",
        "files=(*.none)",
        "echo ${#files[@]}",
        "set -- one 'two three'",
        "shift",
        'echo "$1" $#',
        "IFS=,",
        "line=a,b,c",
        "set -- $line",
        "echo $2",
    ],
    "server": [
        "(sleep 0.3; echo ready > flag; exit 7) &",
        "pid=$!",
        "while ! test -e flag; do sleep 0.02; done",
        "cat flag",
        "wait $pid",
        "echo code $?",
    ],
    "traps": [
        "tmp=$(mktemp -d ./tmp.XXXX)",
        "trap 'rm -rf $tmp; echo cleaned' EXIT",
        "touch $tmp/file",
        "ls $tmp",
        "exit 3",
    ],
    "reading": [
        "printf 'x 1\\ny 2\\n' > data",
        "total=0",
        "while read -r name value; do total=$((total + value)); last=$name; done < data",
        "echo $total $last",
        "mapfile -t rows < data",
        'echo "${rows[1]}"',
        "exec 3< data; read -u 3 first; exec 3<&-; echo $first",
    ],
    "maps, names of names and case": [
        "declare -A ages=([ana]=31 [bo]=27)",
        'ages["d e"]=5',
        'unset "ages[bo]"',
        'for k in "${!ages[@]}"; do echo "$k=${ages[$k]}"; done | sort',
        "target=5",
        "declare -n ref=target",
        "ref=9",
        "echo $target",
        "declare -i n=5; declare -l low=ABC; declare -u up=abc",
        "n+=3; low=XYZ; up=xyz",
        "echo $n $low $up",
    ],
    "folders": [
        "mkdir -p top/a/b/c; cd top",
        "pushd a >/dev/null",
        "pushd b/c >/dev/null",
        "dirs -p | wc -l",
        "popd >/dev/null",
        "cd ..",
        "cd - >/dev/null",
        "echo ${PWD##*/} ${OLDPWD##*/}",
    ],
    "arguments": [
        "set -- -a -b val rest",
        'while getopts ab: o; do echo "$o ${OPTARG-}"; done',
        "shift $((OPTIND - 1))",
        'echo "$@"',
        "mkdir -p x/y/z",
        "cd $_",
        "echo ${PWD##*/}",
    ],
    "sourced": [
        "printf 'libv=1\nlibf() { echo lib $libv; }\nreturn 3\n' > lib.sh",
        ". ./lib.sh",
        "echo r $?",
        "libf",
        "libv=2",
        "libf",
    ],
    "children that end at once": [
        "sleep 0.01 & p=$!",
        "wait $p",
        "echo $?",
        "(exit 3) &",
        "wait $!",
        "echo $?",
        "(exit 4) & q=$!",
        "true",
        "wait $q; echo $?",
    ],
    "descriptors": [
        "exec 3>out 4>&1",
        "echo x >&3",
        "echo z >&4",
        "exec 3>&- 4>&-",
        "exec 5<out",
        "read -u5 a",
        "read -u5 b || echo end $a",
    ],
    "options one by one": [
        "set -u",
        "echo ${nope-default}",
        "set +u; set -o noclobber; echo a > q",
        "echo b 2>/dev/null > q || echo kept",
        "umask u=rwx,g=,o=; touch p; stat -c %a p",
        "ulimit -Sn 64; shopt -s dotglob",
        "touch .h; echo *; ulimit -Sn",
        "shopt -u dotglob; set -f; echo *",
        "set +f; echo [pq]",
    ],
    "words and substitutions": [
        "printf -v 'row[2]' '%05.2f' 3.14159",
        "echo ${row[2]} ${#row[@]}",
        "x=foo.tar.gz; case $x in *.tar.*) echo tar ;;& foo*) echo foo;; esac",
        "echo ${x%%.*} ${x/foo/bar} ${x:0:3} ${#x}",
        "exportable() { echo ef $1; }; export -f exportable",
        "bash -c 'exportable 1'",
        "declare -A m; m[a b]=1 m[']']=2; unset 'm[a b]'; echo ${#m[@]} \"${!m[@]}\"",
        "[[ v1.2 =~ ^v([0-9]+) ]]",
        "echo ${BASH_REMATCH[1]}",
    ],
    "umask and alias": [
        "umask 077",
        "touch private",
        "stat -c %a private",
        "export LC_ALL=C",
        "readonly fixed=5",
        "echo $((fixed + 1))",
        "let n=3 n+=4",
        "echo $n; echo last $_",
        "unset n",
        "echo ${n:-none}",
    ],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_statement_by_statement_is_as_whole(name: str, tmp_path: Path) -> None:
    statements = SCRIPTS[name]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    done = subprocess.run(
        ["bash", "-c", "\n".join(statements)],
        cwd=whole,
        capture_output=True,
        text=True,
        check=False,
    )
    shown = []
    with open_executor(parts) as executor:
        for statement in statements:
            result = executor.run(statement, timeout=60)
            if result.text:
                shown.append(result.text)
    assert "\n".join(shown) == done.stdout.rstrip("\n")
    assert result.exit_code == done.returncode


@given(st.binary(max_size=400))
def test_a_damaged_dump_is_refused(data: bytes) -> None:
    previous = first_state({"A": "1"}, "/")
    assert read_dump(data, previous, {}) is None
    assert read_dump(b"\0begin\0" + data, previous, {}) is None


# --- resource limits, where raising one may not be permitted -------------------------------------


def limits(soft: str, hard: str) -> bytes:
    """Return /proc's table of limits for a process with these limits of open files."""
    heads = ("Limit", "Soft Limit", "Hard Limit", "Units")
    rows = (heads, ("Max open files", soft, hard, "files"))
    return "".join(f"{a:<26}{b:<21}{c:<21}{d:<10}\n" for a, b, c, d in rows).encode()


@pytest.mark.parametrize(
    ("before", "after", "flags"),
    [
        (("10", "20"), ("30", "40"), ["-H -n 40", "-S -n 30"]),
        (("10", "20"), ("unlimited", "unlimited"), ["-H -n unlimited", "-S -n unlimited"]),
        (("30", "unlimited"), ("10", "20"), ["-S -n 10", "-H -n 20"]),
        (("10", "20"), ("10", "20"), []),
    ],
)
def test_a_soft_limit_is_never_above_its_hard_one_on_the_way(
    before: tuple[str, str], after: tuple[str, str], flags: list[str]
) -> None:
    lines = limit_commands(limits(*before), limits(*after)).decode().splitlines()
    assert lines == [rf"\builtin ulimit {flag}" for flag in flags]
