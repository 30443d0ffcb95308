"""The programs that an exit status is evidence of, by the text and the shell's statuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from kogniterm.approval.analysis.exit_status import check_problem, with_exit_facts
from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.types import CommandResult, PipeStatus

SHOWS = """
pytest -q
cd sub && pytest
make && make test
timeout 60 pytest
env A=1 nice -n 5 time pytest
sudo -u me pytest
set -o pipefail; pytest | tail -3
set -euo pipefail; pytest | tee log; ls
set -e; pytest; ls
(cd sub && pytest)
{ cd sub; pytest; }
pytest > log 2>&1
pytest || exit 1
pytest || { echo bad; exit 3; }
bash -c 'pytest -q'
bash -euo pipefail -c 'pytest | tail'
ssh host pytest
docker exec box sh -c 'pytest'
x=$(pytest) && echo "$x"
echo begin; pytest
source .venv/bin/activate && pytest
cat data.json | python check.py
site --version | grep -q 4.2
test -f x || exit 1
test -f x || grep -q y z
[ -f x ]
[[ -f x && -f y ]]
find . -name x -exec touch {} +
find . | xargs pytest
jq -e .ok x.json
cat x.json | jq -e .ok
test "$(cat x)" = y
make -k
pytest --exitfirst
echo hi > file
export PATH=/x
"""
HIDES = r"""
pytest | tail -3
pytest |& tail
pytest 2>&1 | tee log
pytest || true
pytest || echo failed
pytest; echo done
pytest; true
pytest; exit 0
pytest; exit $?
pytest && echo ok || echo failed
pytest\necho done
pytest &
pytest & wait
if pytest; then echo ok; fi
case x in *) pytest;; esac; true
while pytest; do break; done
for f in a b; do pytest $f; done
! pytest
! pytest | cat
! (pytest)
! { pytest; }
true && ! pytest
time ! pytest
echo $(pytest)
echo "`pytest`"
x=$(pytest); echo $x
A=$(pytest) true
cat < <(pytest)
(pytest) | tail
{ pytest; echo x; } | tail
{ pytest; } || :
(set -o pipefail); pytest | tail
pytest | tail; set -o pipefail
set -o pipefail; set +o pipefail; pytest | tail
set -n; pytest
set -- -e; pytest; ls
true && set -e; pytest; ls
bash -c 'pytest | tail'
bash -c "pytest; true"
bash -lc 'pytest || true'
echo pytest | bash
bash -s
bash <<'X'\npytest\necho\nX
bash <<< "pytest; true"
ssh host 'pytest | tail'
docker exec box sh -c 'pytest; true'
timeout 9 bash -c 'pytest || :'
xargs sh -c 'pytest | tail' < x
su me -c 'pytest | tail'
eval pytest
trap 'exit 0' EXIT; pytest
pytest() { true; }; pytest
function pytest { true; }; env pytest
alias pytest=true; pytest
enable -f x pytest; pytest
hash -p /bin/true pytest; pytest
$RUN pytest
"$(which pytest)" -q
coproc pytest
setsid pytest
screen -dm pytest
find . -name t -exec pytest {} \;
make -i
make -ki test
make --ignore-errors
make -n
ruff check --exit-zero
npm test --if-present
pytest --collect-only
echo Verified
printf ok
true
:
sleep 1
wait
echo Verified > /dev/null
echo Verified >&2
set -e; echo Verified
f() { pytest; }
(
"""
HIDES_IN_CHECKS = """
ls | wc -l
grep -q x f; echo done
grep -q x f; ls
cat x.json | jq .
! grep -q x f
"""


def each(texts: str) -> list[str]:
    return [line.replace(r"\n", "\n") for line in texts.strip().splitlines()]


def ended(command: str, code: int = 0, text: str = "", *pipe: int) -> CommandResult:
    statuses = tuple(map(PipeStatus, pipe))
    result = CommandResult(command, "exited", code, text, 0.1, "/", pipe=statuses)
    return with_exit_facts(command, result)


@pytest.mark.parametrize("command", each(SHOWS))
def test_a_failure_that_shows_makes_evidence(command: str) -> None:
    assert check_problem(command) is None
    pipe = (0, 0) if "| grep" in command or "| jq" in command else ()
    assert ended(command, 0, "", *pipe).masked == ""


@pytest.mark.parametrize("command", each(HIDES))
def test_a_masked_failure_is_no_evidence_and_no_check(command: str) -> None:
    assert check_problem(command) is not None
    assert ended(command, 0, "", 0, 0).masked
    assert ended(command).masked


@pytest.mark.parametrize("command", each(HIDES_IN_CHECKS))
def test_a_check_hides_no_answer(command: str) -> None:
    assert check_problem(command) is not None


def test_what_hides_the_failure_is_named() -> None:
    told = [check_problem(one) for one in ("pytest | tail -3", "npm test || true", "make; echo x")]
    assert [str(one[0]) for one in told if one] == [
        "it passes even if pytest fails (| tail)",
        "it passes even if npm fails (|| true)",
        "it passes even if make fails (; echo)",
    ]


def test_a_program_that_another_one_judges_must_have_ended_well() -> None:
    command = "./app | grep -q ready"
    assert ended(command, 0, "", 0, 0).masked == ""
    assert "app in the pipe ended with exit 1" in ended(command, 0, "", 1, 0).masked
    assert ended(command, 0, "", 141, 0).masked
    assert ended(command).masked
    assert ended(f"bash -c '{command}'").masked
    assert ended(f"{command} && x | grep -q y", 0, "", 0, 0).masked


def test_a_cut_output_and_an_answer_are_no_failures() -> None:
    cut = ended("cat f | head -1", 0, "", 141, 0)
    assert [str(one) for one in cut.pipe_told] == ["cat in the pipe: output cut"]
    assert cut.masked == ""
    broken = ended("python3 gen.py | head -1", 0, "BrokenPipeError: Broken pipe", 1, 0)
    assert [str(one) for one in broken.pipe_told] == ["python3 in the pipe: output cut"]
    assert broken.masked
    answer = ended("grep x f | sort", 0, "", 1, 0)
    assert (answer.masked, answer.pipe[0].failed) == ("", False)
    assert ended("cat f | sort", 0, "", 1, 0).masked == "cat in the pipe ended with exit 1"


def test_statuses_are_named_only_where_the_text_tells_it() -> None:
    told = [str(one) for one in ended("a | b; c | d", 0, "", 3, 0).pipe_told]
    assert told == ["a program in the pipe: exit 3"]
    told = [str(one) for one in ended("cd x && ./a | b | c", 0, "", 0, 3, 0).pipe_told]
    assert told == ["b in the pipe: exit 3"]


@contextmanager
def programs(folder: Path) -> Iterator[CommandExecutor]:
    """Yield an executor with the programs `pytest`, which fails, and `good`."""
    for name, code in (("pytest", 1), ("good", 0)):
        note = f"echo >> {folder}/ran; " if code else ""
        (folder / name).write_text(f"#!/bin/sh\n{note}echo {code} failed\nexit {code}\n")
        (folder / name).chmod(0o755)
    (folder / "defines").write_text("pytest() { true; }\n")
    path = f"{folder}:{os.environ['PATH']}"
    with open_executor(folder, {**os.environ, "PATH": path}) as executor:
        yield executor


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[CommandExecutor]:
    with programs(tmp_path) as executor:
        yield executor


def test_the_shell_that_earlier_commands_left_decides_too(executor: CommandExecutor) -> None:
    def run(command: str) -> CommandResult:
        return with_exit_facts(command, executor.run(command))

    piped = run("pytest | tail -3")
    assert (piped.exit_code, [str(one) for one in piped.pipe_told]) == (
        0, ["pytest in the pipe: exit 1"],
    )  # fmt: skip
    assert piped.masked
    assert run("good | cat").masked
    run("set -o pipefail")
    assert run("good | cat").masked == ""
    assert run("pytest | cat").exit_code == 1
    run("set +o pipefail; pytest() { true; }")
    assert run("pytest").masked
    run("unset -f pytest; alias pytest=true")
    assert run("pytest").masked
    run("unalias pytest")
    assert run(". ./defines; pytest").masked
    run("unset -f pytest; trap 'echo again' ERR")
    assert run("good").masked
    run("trap - ERR; echo \"trap 'exit 0' EXIT\" > traps")
    assert run(". ./traps; pytest").masked
    assert run("exec good").masked
    assert run("good").masked == ""


ATOMS = (
    *(
        "pytest",
        "pytest",
        "good",
        "true",
        "cat defines",
        "[ -f no ]",
        "x=$(pytest)",
        "echo $(good)",
    ),
    *("set -e", "set -o pipefail", "set +e", "exit 0", "exit $?", "wait", "cd .", "eval pytest"),
    *("f() { pytest; }; f", "pytest > out", "exec good", "coproc pytest", "trap 'exit 0' EXIT"),
)
JOINED = (
    *("{} && {}", "{} || {}", "{}; {}", "{} | {}", "{} | tail -1", "{} | grep -q f", "{} & {}"),
    *("({})", "{{ {}; }}", "! {}", "if {}; then {}; fi", "for i in 1; do {}; done", "x=$({})"),
    *("bash -c '{}'", "{}\n{}", "while {}; do break; done", "{} || exit 1", "timeout 9 {}"),
)


def composed(random: Random, depth: int) -> str:
    if depth == 0:
        return random.choice(ATOMS)
    form = random.choice(JOINED)
    return form.format(*(composed(random, random.randrange(depth)) for _ in range(2)))


def test_no_composed_command_is_evidence_although_a_program_failed(tmp_path: Path) -> None:
    random, hidden, evident = Random(7), 0, 0
    with programs(tmp_path) as executor:
        for _ in range(80):
            command = composed(random, 3)
            (tmp_path / "ran").unlink(missing_ok=True)
            result = with_exit_facts(command, executor.run(command, timeout=9))
            if result.exit_code == 0 and (tmp_path / "ran").exists():
                hidden += 1
                assert result.masked, command
            evident += result.exit_code == 0 and not result.masked
    assert hidden > 5
    assert evident > 5
