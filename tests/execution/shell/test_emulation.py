"""Shell state that has to be emulated in a new shell: `$!`, PIPESTATUS, traps, job numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor
from kogniterm.execution.shell.emulation import expand_last_background, with_terminal
from tests.support.executing import PATIENCE, run_each
from tests.support.programs import installed

HERE = "cat <<E\n$! don't \\$!\nE\necho $!"
QUOTED = "cat > f <<'E'\n$!\nE\necho $!"
TABS = 'cat <<-"E F"\n\t$!\n\tE F\necho $!'


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo $!", "echo ?"),
        ("echo ${!}", "echo ?"),
        ('kill "$!"', 'kill "?"'),
        ("echo '$!'", "echo '$!'"),
        ("echo \\$!", "echo \\$!"),
        ("sleep 1 & echo $!", "sleep 1 & echo ?"),
        ("echo a >&2; echo $!", "echo a >&2; echo ?"),
        ("# don't\necho $!", "# don't\necho ?"),
        ("echo ${!name}", "echo ${!name}"),
        (HERE, "cat <<E\n? don't \\$!\nE\necho ?"),
        (QUOTED, "cat > f <<'E'\n$!\nE\necho ?"),
        (TABS, 'cat <<-"E F"\n\t$!\n\tE F\necho ?'),
        ("cat <<< '$!' && echo $!", "cat <<< '$!' && echo ?"),
        ("echo $((1<<2)); echo $!\necho $!", "echo $((1<<2)); echo ?\necho ?"),
        ("cat <<A <<'B'\n$!\nA\n$!\nB\n$!", "cat <<A <<'B'\n?\nA\n$!\nB\n?"),
    ],
)
def test_last_background_process(command: str, expected: str) -> None:
    assert expand_last_background(command, 7) == expected.replace("?", "${!:-7}")
    assert expand_last_background(command, None) == command


LESS = "less f" if installed("less") else "cat f"
CASES = [
    ("a script written through a quoted here-document keeps its text", [
        ("sleep 300 &", ""),
        ("cat > run.sh <<'END'\nserver &\necho $! > pid\nEND", ""),
        ("cat run.sh", "server &\necho $! > pid"),
    ]),
    ("a function asks for an earlier command's process", [
        ("stop() { kill $! && echo stopped; }; sleep 300 &", ""),
        ("stop", "stopped"),
        ("declare -f stop | grep -c ':-.*:-'", "0"),
    ]),
    ("own process before an earlier one", [
        ("sleep 300 & first=$!", ""),
        ("sleep 300 & [ $! != $first ] && echo other", "other"),
    ]),
    ("a trap asks for an earlier command's process", [
        ("sleep 300 & pid=$!", ""),
        ("trap 'kill $! && echo killed' EXIT", ""),
        ("exit 0", "killed"),
    ]),
    ("jobs of earlier commands", [
        ("sleep 510 &", ""),
        ("sleep 520 | cat &", ""),
        ("jobs | tr -s ' '", "[1] Running sleep 510 &\n[2] Running sleep 520 | cat &"),
        ("sleep 530 & jobs -p > f; wc -l < f", "3"),
        ("kill %1; wait %1; echo $?", "143"),
        ("end() { kill %2 %3; }; end; wait; echo $?; jobs", "0"),
    ]),
    ("a job that was ended keeps its number for whoever waits for it", [
        ("sleep 510 &", ""), ("sleep 520 &", ""), ("kill %1", ""), ("wait %1; echo $?", "143"),
        ("jobs -p | wc -l; kill %2", "1"), ("wait %2; echo $?", "143"), ("jobs", ""),
    ]),
    ("fg waits for an earlier job", [
        ("(until [ -e go ]; do sleep 0.05; done; exit 5) &", ""),
        ("touch go; fg; echo $?", "5"),
    ]),
    ("builtins that are switched off", [
        ("enable -n test; type -t test", "file"), ("type -t test", "file"),
        ("enable test", ""), ("type -t test", "builtin"),
    ]),
    ("limits", [
        ("ulimit -Sn 60; ulimit -c 0", ""), ("ulimit -Sn; ulimit -Hc; ulimit -Sc", "60\n0\n0"),
    ]),
    ("disown", [("nohup sleep 51 >/dev/null 2>&1 &", ""), ("disown && echo ok", "ok")]),
    ("wait for all, no IFS", [("IFS=; (exit 3) & sleep 0.2 &", ""), ("wait; echo $?", "0")]),
    ("statuses of a pipe", [("false | true | (exit 3)", ""), ('echo "${PIPESTATUS[@]}"', "1 0 3")]),
    ("statuses of a pipe, no IFS", [("IFS=; true | false", ""), ("echo ${PIPESTATUS[1]}", "1")]),
    ("status after set -e", [("set -e; true; (exit 3)", ""), ("echo $?; echo on", "3\non")]),
    ("status beside an error trap", [
        ("trap 'echo E' ERR", ""),
        ("(exit 3)", "E"),
        ("echo $?", "3"),
        ("true | false", "E"),
        ("echo ${PIPESTATUS[@]}", "0 1"),
    ]),
    ("status read by a function", [
        ("f() { echo got $?; }; shopt -s expand_aliases; alias g='echo $?'", ""),
        ("(exit 5)", ""),
        ("f", "got 5"),
        ("(exit 6)", ""),
        ("g", "6"),
        ("echo 'echo $?' > s; (exit 7)", ""),
        (". ./s", "7"),
    ]),
    ("a function that cannot be read again", [
        ("shopt -s extglob; eval 'f() { case $1 in @(a|b)) echo m;; *) echo o;; esac; }'", ""),
        ("shopt -u extglob; a=1", ""),
        ("type -t f; a=2", "function"),
        ("shopt -s extglob; f b; echo $a", "m\n2"),
    ]),
    ("a complaint of a carried function", [
        ("f() {\n nosuch\n}", ""),
        ("f", "bash: line 3: nosuch: command not found"),
    ]),
    ("a complaint of a long command", [
        (f": {'x' * 130_000}\nnosuch", "bash: line 2: nosuch: command not found"),
    ]),
    # Not compared with one shell: that may have forgotten %1 by the time it is to wait for it.
    ("jobs by number", [
        ("sleep 610 &", ""),
        ("sleep 620 &", ""),
        ("jobs -p | wc -l", "2"),
        ("kill %1", ""),
        ("wait %1; echo $?", "143"),
        ("kill %2; wait %2; echo $?", "143"),
    ]),
    ("a folder that is moved", [
        ("mkdir -p a/b; cd a/b; mv ../../a ../../z", ""),
        ('echo "${PWD: -4}"; cd ..; ls', "/z/b\nb"),
        ("mv ../z ../y", ""),
        ('echo "${PWD: -2}"', "/y"),
    ]),
    ("unset what a shell is given", [
        ("unset IFS PATH OPTIND", ""),
        ("echo ${IFS-no} ${PATH-no} ${OPTIND-no}", "no no no"),
        ("PATH=/usr/bin:/bin IFS=,", ""),
        ('a=1,2; set -- $a; echo $# "$PATH" ${OPTIND-no}', "2 /usr/bin:/bin no"),
    ]),
    ("what a function hides is not unset", [
        ("f() { local IFS=, PATH=/bin OPTIND=9; exit 3; }; f", ""),
        ("printf %q \"$IFS\"; ls -d /; echo $OPTIND", "$' \\t\\n'/\n1"),
    ]),
    ("groups of a match", [("[[ key=7 =~ (.*)=(.*) ]]", ""), ("echo ${BASH_REMATCH[2]}", "7")]),
    ("seconds go on", [("SECONDS=1000", ""), ("echo $((SECONDS / 100))", "10")]),
    ("debug trap", [("trap 'echo at 1' DEBUG", ""), ("true", "at 1"), ("trap - DEBUG", "at 1")]),
    ("traps that functions inherit", [
        ("set -o functrace; trap 'echo d' DEBUG", ""),
        ("a=1", "d"),
        ("trap - DEBUG; f() { :; }; trap 'echo r' RETURN", "d"),
        ("f; echo $a", "r\n1"),
    ]),
    ("no trap is listed that nobody set", [
        ("trap -p", ""),
        ("trap 'echo \"it'\\''s\"' USR1; trap", "trap -- 'echo \"it'\\''s\"' SIGUSR1"),
        ("trap 'echo bye' EXIT", ""),
        ("trap -p EXIT", "trap -- 'echo bye' EXIT"),
        ("trap - EXIT USR1; trap -p | cat", ""),
    ]),
    ("an alias for the dot", [("alias .='echo no'; x=1", ""), ("echo $x", "1")]),
    ("a short file in a pager", [(f"echo short > f; {LESS}", "short")]),
]  # fmt: skip


@pytest.mark.parametrize(("_name", "steps"), CASES, ids=[name for name, _steps in CASES])
def test_one_statement_per_command(
    _name: str, steps: list[tuple[str, str]], tmp_path: Path
) -> None:
    run_each(tmp_path, steps)


def test_an_interrupt_typed_at_once_reaches_the_program(tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        for _ in range(8):
            keys = [("go", 0, "\x03")]
            result = executor.run("echo go; sleep 600", timeout=PATIENCE, keystrokes=keys)
            assert result.exit_code == 130


def test_half_a_character_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        with pytest.raises(ExecutionError, match="an unpaired surrogate"):
            executor.run("echo \ud800")
        assert executor.run("echo ok").text.strip() == "ok"


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("python3 -i &", "python3 -i 0<&0 &"),
        (" A=1 ./wizard.sh 'a & b' \"x;y\"& \n", "A=1 ./wizard.sh 'a & b' \"x;y\" 0<&0 &"),
        ("echo 2&", "echo 2 0<&0 &"),
    ],
)
def test_a_program_alone_in_the_background_gets_the_terminal(command: str, run: str) -> None:
    assert with_terminal(command) == run


@pytest.mark.parametrize(
    "command",
    [
        "&", " \n&", "cat", "echo '&", "echo '&'", "echo \\&", "echo # x &", "cat </dev/null &",
        "cat > log &", "yes | head &", "cd x && cat &", "(cat) &", "cat & cat &", "cat & echo",
        "cat &&", "nohup cat &", " setsid cat &", 'echo "$(cat)" &', "cat\ncat &", "cat; cat &",
    ],
)  # fmt: skip
def test_every_other_text_is_passed_on_as_it_is(command: str) -> None:
    assert with_terminal(command) == command
