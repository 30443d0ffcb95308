"""Actions at once: the attack list of what must run alone, then what a user gains."""

from __future__ import annotations

import pytest

from kogniterm.approval import classify
from kogniterm.approval.analysis.footprint import Footprint, disjoint, footprint
from kogniterm.types import ActionRequest, Effect, EffectClass, Phrase, RiskReport, SandboxRefusal


def of(command: str, *, declared: bool = False) -> Footprint | None:
    """Return a command's footprint, with absolute paths below `/w`."""
    request = ActionRequest("1", "1", "execute_command", command)
    found = footprint(request, classify(command, cwd="/w", workspace="/w"), declared=declared)
    if found is None:
        return None
    reads = frozenset(f"/w/{name}" for name in found.reads)
    writes = frozenset(f"/w/{name}" for name in found.writes)
    return Footprint(reads, writes, found.anywhere)


CHANGES_SHELL = (
    "cd sub && ls", "cd sub; ls", "pushd sub", "popd", "export WORD=1", "declare WORD=1", "WORD=1",
    "WORD=1; ls", "WORD=1 ls", "read word", "mapfile lines", "set -e", "shopt -s nullglob",
    "alias ls=rm", "unalias ls", "trap ls EXIT", "umask 0", "ulimit -n 5", "hash -r", "unset WORD",
    "f() { ls; }", "f() { ls; }; f", "eval ls", "source x", ". x", "exec ls", "exec 3<x",
    "printf -v word x", "getopts a b", "enable -n test", "let x=1", "((x=1))", "[[ a =~ a ]]",
    "command cd /", "builtin cd /",
)  # fmt: skip
IN_BACKGROUND = ("sleep 9 &", "ls & ls", "coproc ls", "nohup ls", "setsid ls", "disown", "wait",
                 "jobs", "fg", "bg", "kill 3", "ls <(ls)")  # fmt: skip
KNOWN_AT_RUN_TIME = (
    "ls $HOME", "cat $(ls)", "cat `ls`", "echo $?", "echo $_", "echo $!", "echo $((1+1))",
    "ls | xargs cat", "cat <<E\n$x\nE", "cat <<< word", "echo x >&3", "cat <&3", "ls 2>&3",
    "for f in a; do cat a; done", "while ls; do ls; done", "if ls; then ls; fi", "(ls)", "{ ls; }",
    "case a in a) ls;; esac", "", "#", "echo 'unfinished",
)  # fmt: skip
RUNS_ANYTHING = (
    "make", "pytest", "npm test", "python -c 1", "sh x", "bash -c ls", "./ls", "/tmp/ls",
    "env ls", "sudo ls", "xargs ls", "timeout 1 ls", "git commit -m x", "git add .", "git gc",
    "git fetch", "pip install x", "apt-get install x", "cargo build", "docker ps", "vim a",
    "less a", "top", "ssh host", "curl https://example.org", "python3 -m http.server 8000",
    "nc -l 8000", "ss -l", "ps aux", "find . -delete", "find . -exec rm {} +", "sed -i s/a/b/ a",
    "tar xf a.tar", "gzip a", "rm a", "ln -s a b", "chmod +x a", "truncate -s 0 a", "rsync a b",
    "sqlite3 a.db x", "unheard-of", "ruff check .", "uniq a b", "sort -o a b", "ls > b",
    "grep x . > b", "cp -b a b", "cp --backup=numbered a b", "mv -S .old a b", "touch -r a b",
    "sleep 5", "date -r a", "wc --files0-from=a", "touch *.py", "cat a >> /etc/passwd",
    "mkdir $(cat a)",
)  # fmt: skip


@pytest.mark.parametrize(
    "command", [*CHANGES_SHELL, *IN_BACKGROUND, *KNOWN_AT_RUN_TIME, *RUNS_ANYTHING]
)
def test_in_doubt_a_command_runs_alone(command: str) -> None:
    assert of(command) is None


@pytest.mark.parametrize("command", [*CHANGES_SHELL, "sleep 9 &", "wait", *KNOWN_AT_RUN_TIME])
def test_no_rule_lets_what_concerns_the_shell_run_beside_others(command: str) -> None:
    alone_for_its_programs = command == "ls | xargs cat"
    assert (of(command, declared=True) is None) != alone_for_its_programs


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("touch a", "touch a"),
        ("touch a", "cat a"),
        ("echo x > a", "cat < a"),
        ("echo x > a", "echo y >> a"),
        ("echo x | tee a", "wc -l a"),
        ("cp a b", "cp b c"),
        ("cp a b", "mv a c"),
        ("mv a b", "head a"),
        ("mkdir a", "touch a/b"),
        ("touch a/b", "cp -r a c"),
        ("touch a/b", "ls a"),
        ("touch a", "ls"),
        ("touch a", "git status"),
        ("touch a", "grep -r x ."),
        ("touch a", "test -f a"),
        ("touch a.py", "cat *.py"),
        ("touch a.py", "echo *"),
        ("echo x > a", "sed -n 1p b"),
        ("touch a", "find . -name a"),
    ],
)
def test_what_one_writes_the_other_must_not_touch(one: str, other: str) -> None:
    first, second = of(one), of(other)
    assert first is not None
    assert second is not None
    assert not disjoint(first, second)
    assert not disjoint(second, first)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ls", "git status"),
        ("cat a b", "grep -rn word ."),
        ("git log --oneline | head -5", "git diff 2>&1"),
        ("cat *.py", "wc -l *.py"),
        ("touch a", "cat b"),
        ("mkdir a", "mkdir b"),
        ("cp a b", "cp a c"),
        ("sort a > b && head -3 a", "tail -n +3 c | tee d"),
        ("touch ab", "cat a"),
    ],
)
def test_what_does_not_meet_runs_at_once(one: str, other: str) -> None:
    first, second = of(one), of(other)
    assert first is not None
    assert second is not None
    assert disjoint(first, second)
    assert disjoint(second, first)


def test_a_declared_command_minds_what_others_write_and_not_what_it_writes_itself() -> None:
    pytest_, mypy, reader = (of(one, declared=True) for one in ("pytest -q", "mypy .", "ls"))
    writer = of("touch a")
    assert pytest_ is not None
    assert mypy is not None
    assert reader is not None
    assert writer is not None
    assert disjoint(pytest_, mypy)
    assert disjoint(pytest_, reader)
    assert not disjoint(pytest_, writer)


@pytest.mark.parametrize(
    ("tool", "effect", "known"),
    [
        ("web_fetch", "network", True),
        ("web_search", "network", True),
        ("github", "network", True),
        ("another", "network", False),
        ("ask_user", "person", False),
        ("job", "keystrokes", False),
    ],
)
def test_tools_that_only_read_the_network_run_at_once(
    tool: str, effect: EffectClass, known: bool
) -> None:
    report = RiskReport("x", "needs_approval", (Phrase("Uses the network."),),
                        (Effect("network", "example.org", outside=True),))  # fmt: skip
    found = footprint(ActionRequest("1", "1", tool, "x", effect=effect), report)
    assert (found is not None) == known


def test_edits_are_told_apart_by_their_files() -> None:
    def edit(path: str) -> Footprint:
        report = RiskReport(path, "workspace_write", (), (Effect("overwrite", path),))
        found = footprint(ActionRequest("1", "1", "edit_file", path, effect="edit"), report)
        assert found is not None
        return found

    assert disjoint(edit("/w/a"), edit("/w/b"))
    assert not disjoint(edit("/w/a"), edit("/w/a"))


def test_what_the_sandbox_stopped_runs_alone() -> None:
    refusal = SandboxRefusal(Phrase("why"), "output")
    request = ActionRequest("1", "1", "execute_command", "ls", refusal=refusal)
    assert footprint(request, classify("ls")) is None
