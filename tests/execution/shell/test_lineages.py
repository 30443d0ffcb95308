"""Two lineages of shell state: state of a sandboxed command never reaches a command outside."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.shell.capture import read_dump
from kogniterm.execution.shell.restore import Files, enter_scripts
from kogniterm.execution.shell.shell_state import Lineages, first_state
from kogniterm.types import CommandResult
from tests.support.executing import KINDS, PATIENCE, outside_tmp, private_folder_of, sandbox_round


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a home outside of /tmp, because sandboxes have a private /tmp."""
    with outside_tmp() as home:
        (home / "work").mkdir()
        yield home


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest, home: Path) -> Sandbox:
    return sandbox_round(request.param, home / "work", home)


class Shells:
    """One executor whose commands run inside or outside of `box`, as asked."""

    def __init__(self, executor: CommandExecutor, box: Sandbox) -> None:
        self.executor = executor
        self._box = box

    def inside(self, command: str) -> CommandResult:
        self.executor.sandbox = self._box
        return self.executor.run(command, timeout=PATIENCE)

    def outside(self, command: str) -> CommandResult:
        self.executor.sandbox = None
        return self.executor.run(command, timeout=PATIENCE)


@pytest.fixture
def shells(box: Sandbox) -> Iterator[Shells]:
    with open_executor(box.workspace) as executor:
        yield Shells(executor, box)


# --- what a sandboxed command leaves ----------------------------------------------------------

PLANTED = "printf '#!/bin/sh\\necho planted\\n' > sort; chmod +x sort"
LEFT = [
    ("a function", "sort() { echo planted; }", "sort --version", "sort ("),
    (
        "an alias",
        "shopt -s expand_aliases; alias sort='echo planted'",
        "shopt -s expand_aliases\nsort --version",
        "sort (",
    ),
    ("PATH", f"{PLANTED}; PATH=$PWD:$PATH", "sort --version", "sort ("),
    ("the table of programs", f"{PLANTED}; hash -p $PWD/sort sort", "sort --version", "sort ("),
    ("LD_PRELOAD", "export LD_PRELOAD=$PWD/planted.so", "echo ${LD_PRELOAD-unset}", "unset"),
    (
        "BASH_ENV",
        "echo 'echo planted' > env; export BASH_ENV=$PWD/env",
        "bash -c 'echo ran'",
        "ran",
    ),
    ("an exported function", "ls() { echo planted; }; export -f ls", "bash -c 'ls /dev/null'", "/"),
    ("a DEBUG trap", "trap 'echo planted' DEBUG", "echo ran", "ran"),
    ("an ERR trap", "trap 'echo planted' ERR", "false; echo ran", "ran"),
    ("an EXIT trap", "trap 'echo planted' EXIT", "echo ran; exit 0", "ran"),
    ("a RETURN trap", "set -T; trap 'echo planted' RETURN", "f() { echo ran; }; f", "ran"),
    ("PROMPT_COMMAND", "PROMPT_COMMAND='echo planted'", "echo ${PROMPT_COMMAND-unset}", "unset"),
    ("a builtin switched off", "enable -n test", "type -t test", "builtin"),
    ("shell options", "set -fe; shopt -s nullglob", "echo $-; shopt -q nullglob || echo no", "h"),
    ("the umask", "umask 0", "umask", "0022"),
    ("a limit", "ulimit -Sn 60", "[ $(ulimit -Sn) != 60 ] && echo other", "other"),
    ("positional parameters", "set -- planted", "echo $#", "0"),
    ("a variable", "X=planted", "echo ${X-unset}", "unset"),
    ("a variable of ours", "export PAGER=./planted", "echo $PAGER", "cat"),
    ("IFS", "IFS=planted", "a='1 2'; set -- $a; echo $#", "2"),
    ("the status of the last command", "(exit 7)", "echo $?", "0"),
    ("the last argument", "echo planted >/dev/null", 'echo "[$_]"', "["),
]


@pytest.mark.parametrize(
    ("planted", "command", "expected"), [case[1:] for case in LEFT], ids=[c[0] for c in LEFT]
)
def test_nothing_left_in_the_sandbox_applies_outside(
    shells: Shells, planted: str, command: str, expected: str
) -> None:
    os.umask(0o022)
    shells.outside("true")
    shells.inside(planted)
    text = shells.outside(command).text
    assert "planted" not in text
    assert text.startswith(expected)


def test_nothing_left_in_the_sandbox_applies_to_the_first_command_outside(shells: Shells) -> None:
    shells.inside("sort() { echo planted; }; export PATH=$PWD:$PATH A=planted PAGER=planted")
    result = shells.outside("sort --version; [[ $PATH == $PWD* ]]; echo $? ${A-unset} $PAGER")
    assert result.text.startswith("sort (")
    assert result.text.endswith("1 unset cat")


# --- links in the executor's folder -----------------------------------------------------------

PLANT = """
for folder in "$1" "$1/inside" "$1/shell"; do
  mkdir -p "$folder/statuses"
  for name in capture ask answer held left enter restore functions command; do
    for n in '' -1 -2 -3 -4 -5 -6; do
      rm -f "$folder/$name$n"; ln -s "$2" "$folder/$name$n"
    done
  done
  for n in $(seq 1 100) $$ $!; do ln -s "$2" "$folder/statuses/$n" "$folder/statuses/$n.new"; done
done
"""


def test_links_in_the_executors_folder_are_not_followed(shells: Shells, home: Path) -> None:
    victim = home / "victim"
    victim.write_text("mine")
    shells.inside(f"sleep 0.01 & set -- {private_folder_of(shells.executor)} {victim}\n{PLANT}")
    shells.inside("f() { :; }; A=1; sleep 0.01 & wait")
    assert shells.outside("g() { :; }; sleep 0.01 & true").exit_code == 0
    assert shells.outside(f": {'x' * 130_000}\ng && echo fine").text == "fine"
    assert victim.read_text() == "mine"


def test_no_file_of_the_executor_can_be_changed_from_inside(shells: Shells) -> None:
    folder = private_folder_of(shells.executor)

    def listed() -> dict[str, int]:
        changing = {folder / "tmp", folder / "outputs"}
        paths = (p for p in folder.rglob("*") if not changing & {p, *p.parents})
        return {str(path): path.lstat().st_ino for path in paths}

    shells.inside("true")
    before = listed()
    shells.inside(f"echo x > {folder}/x; rm -rf {folder}/*; mv {folder} {folder}x")
    assert listed() == before
    shells.inside(f"echo 1 > {folder}/ask; echo 1 > {folder}/answer; echo 1 > {folder}/held")
    assert shells.outside("exec 3>f; echo on").text == "on"
    assert shells.outside("echo on >&3; cat f").text == "on"


def test_temporary_files_do_not_decide_where_mounts_are_made(shells: Shells, home: Path) -> None:
    """A mount point inside the private /tmp would be made through a link left there."""
    victim = home / "victim"
    victim.mkdir()
    folder = private_folder_of(shells.executor)
    shells.inside(f"rm -rf {folder}; mv {folder} /tmp/moved; ln -s /oldroot{victim} {folder}")
    shells.inside("true")
    assert list(victim.iterdir()) == []


def test_a_workspace_that_holds_temporary_files_does_not_hold_the_executors(
    box: Sandbox, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", box.workspace)
    monkeypatch.setattr(tempfile, "tempdir", None)
    with open_executor(box.workspace, sandbox=box, workspace=box.workspace) as executor:
        assert not private_folder_of(executor).is_relative_to(box.workspace)
        assert executor.run("echo on", timeout=PATIENCE).text == "on"


def test_a_sandbox_that_may_write_the_executors_folder_is_refused(box: Sandbox) -> None:
    everything = replace(box, writable=("/tmp",))
    with open_executor(box.workspace, sandbox=everything, workspace="/") as executor:
        with pytest.raises(ExecutionError, match="TMPDIR"):
            executor.run("echo ran > ran", timeout=PATIENCE)
        assert not (Path(box.workspace) / "ran").exists()


# --- the descriptor through which the state comes back ----------------------------------------

DESCRIPTORS = "for f in /proc/$$/fd/*; do n=${f##*/}; case $(readlink $f) in *memfd*) "
EACH = f"{DESCRIPTORS} [ -w $f ] && %s >&$n 2>/dev/null;; esac; done; true"
GARBAGE = [
    ("zeros", "head -c 3000000 /dev/zero"),
    ("noise", "head -c 3000000 /dev/urandom"),
    ("a beginning", "printf '\\0begin\\0%0.s\\0\\0\\0\\0' $(seq 1 30000)"),
    ("numbers", "printf '\\0begin\\0%s\\0' $(printf '9%.0s' $(seq 1 9000))"),
    ("an end", "printf '%0.s\\0end\\0' $(seq 1 30000)"),
]


@pytest.mark.parametrize("garbage", [g[1] for g in GARBAGE], ids=[g[0] for g in GARBAGE])
def test_garbage_for_the_state_harms_nothing(shells: Shells, garbage: str) -> None:
    shells.outside("A=1")
    assert shells.inside(EACH % garbage).exit_code == 0
    assert shells.inside("echo inside").text == "inside"
    assert shells.outside("echo $A").text == "1"


def test_a_process_that_keeps_the_descriptors_does_not_delay_the_next_command(
    shells: Shells,
) -> None:
    result = shells.inside(
        f"B=2; {DESCRIPTORS} (while :; do echo x; done) >&$n 2>/dev/null & ;; esac; done; "
        "sleep 600 & echo left"
    )
    assert result.text.startswith("left")
    assert shells.inside("echo ${B-unset}").text in ("2", "unset")
    assert shells.outside("echo on").text == "on"


def test_a_state_that_is_too_large_is_left_and_that_is_said(shells: Shells) -> None:
    shells.inside("B=1")
    result = shells.inside("B=2; x=$(head -c 20000000 /dev/zero | tr '\\0' x)")
    assert result.exit_code == 0
    assert any("too large" in note for note in result.notes)
    assert shells.inside("echo $B ${#x}").text == "1 0"
    assert shells.outside("echo ${#x}").text == "0"


FIELDS = 23
"""Fields of a dump, each ended by a NUL."""


def dump(fields: Sequence[bytes]) -> bytes:
    """Return a complete dump of these fields, as a program in a sandbox may write it."""
    return b"\0begin\0" + b"".join(field + b"\0" for field in fields) + b"end\0"


PIECES = st.lists(
    st.sampled_from(
        [
            *(
                b"declare -f f\n",
                b"declare -x A=",
                b'"',
                b"'",
                b"\\",
                b"\n",
                b"f () \n",
                b"9" * 5000,
            ),
            *(b"trap -- 'x' EXIT\n", b"alias a='b'\n", b"enable -n test\n", b"inside", b"/", b".."),
            *(
                b"__kt_limits",
                b"Max open files   1  2",
                b"trap () \n{\n",
                b"-1",
                b"7",
                b"1e5",
                b"\xff",
            ),
        ]
    ),
    max_size=4,
).map(b"".join)


@given(st.lists(PIECES, min_size=FIELDS, max_size=FIELDS))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_sandbox_claims_is_read_or_refused(fields: list[bytes]) -> None:
    lineages = Lineages.first(first_state({"A": "1"}, "/usr"))
    state = read_dump(dump(fields), lineages.state(wrapped=True), {})
    if state is None:
        return
    after = lineages.after_inside(state)
    folder, real = after.folder()
    assert Path(folder).is_dir()
    assert Path(real) == Path(real).resolve()
    assert after.outside == replace(lineages.outside, cwd=after.outside.cwd)
    files = Files(b"leave", b"restore", b"functions", b">&90", b"")
    enter_scripts(after.state(wrapped=True), "trap", files, {})


LARGE = 4 << 20
SLOW = [
    ("names of functions", b"declare -f ", b""),
    ("functions that are not there", b"declare -f f\n", b""),
    ("lines that set traps", b"declare -f f\n", b"f () \n" + b"trap " * (LARGE // 5)),
    ("functions like ours", b"declare -f trap\n", b"trap () \n{\n" * (LARGE // 10)),
]


@pytest.mark.parametrize(("flags", "functions"), [s[1:] for s in SLOW], ids=[s[0] for s in SLOW])
def test_a_large_state_is_read_in_linear_time(flags: bytes, functions: bytes) -> None:
    fields = [b""] * FIELDS
    fields[7], fields[8] = functions, flags if functions else flags * (LARGE // len(flags))
    fields[9] = b'declare -- __kt_limits="' + b"Max " + b" " * LARGE + b'"\n'
    fields[11] = b"trap -- '\\'' " * (LARGE // 14)
    previous = Lineages.first(first_state({}, "/")).state(wrapped=True)
    state = read_dump(dump(fields), previous, {})
    assert state is not None
    files = Files(b"leave", b"restore", b"functions", b">&90", b"")
    enter_scripts(state, "trap; echo $?", files, {})


# --- what is carried --------------------------------------------------------------------------


def test_state_is_carried_from_inside_to_inside(shells: Shells) -> None:
    shells.inside(
        "export A=1; b=2; f() { echo f; }; shopt -s expand_aliases; alias g='echo g'; set -f; "
        "mkdir -p d; cd d; umask 077; trap 'echo usr' USR1; set -- p q; PATH=$PATH:/planted"
    )
    shells.outside("true")
    result = shells.inside(
        'echo $A $b $# $- "${PWD##*/}" ${PATH##*:}; f; umask\ng; trap -p USR1; (exit 3)'
    )
    first, *others = result.text.splitlines()
    assert first.split()[:3] == ["1", "2", "2"]
    assert "f" in first.split()[3]
    assert first.split()[4:] == ["d", "/planted"]
    assert others == ["f", "0077", "g", "trap -- 'echo usr' SIGUSR1"]
    assert shells.inside("echo $?").text == "3"


def test_state_is_carried_from_outside_to_outside(shells: Shells) -> None:
    shells.outside("export A=1; f() { echo f; }; umask 027; exec 3>file")
    shells.outside("trap 'echo bye' EXIT")
    shells.inside("A=2; unset -f f; umask 0; trap - EXIT")
    assert shells.outside("echo $A; umask; echo x >&3; f; exit 0").text == "1\n0027\nf\nbye"


def test_changes_made_outside_reach_both_sides(shells: Shells) -> None:
    shells.outside("A=1 B=1; f() { echo f; }; h() { echo h; }; shopt -s expand_aliases")
    shells.inside("A=2 C=2; f() { echo inside; }; unset h; set -f")
    shells.outside(
        "B=3 D=3; g() { echo g; }; unset -f h; alias k='echo k'; set -u; umask 077; PAGER=less"
    )
    result = shells.inside("echo $A $B $C $D $PAGER; f; g; type -t h; umask; echo $-\nk")
    lines = result.text.splitlines()
    assert lines[:4] == ["2 3 2 3 less", "inside", "g", "0077"]
    assert {"f", "u"} <= set(lines[4])
    assert lines[5] == "k"
    assert shells.outside("echo $A $B ${C-unset} $D $PAGER").text == "1 3 unset 3 less"


def test_a_session_that_begins_inside_gets_what_is_set_outside(shells: Shells) -> None:
    shells.inside("IFS=,; A=1; umask 077")
    shells.outside("export B=2; f() { echo f; }")
    result = shells.inside("x=1,2; set -- $x; echo $# $A $B; f; umask")
    assert result.text == "2 1 2\nf\n0077"


def test_an_unset_outside_reaches_the_inside(shells: Shells) -> None:
    shells.outside("A=1; f() { :; }")
    shells.inside("true")
    shells.outside("unset A; unset -f f")
    assert shells.inside("echo ${A-unset}; type -t f || echo none").text == "unset\nnone"


def test_what_is_not_carried_outside_is_said_once(shells: Shells) -> None:
    shells.outside("A=1")
    shells.inside("ls / >/dev/null; cd /; cd - >/dev/null")
    assert shells.outside("true").notes == ()
    shells.inside("A=2; B=3; f() { :; }")
    (note,) = shells.outside("true").notes
    assert "sandbox" in note
    assert all(name in note for name in ("A", "B", "f"))
    assert shells.outside("true").notes == ()
    shells.inside("C=4")
    (note,) = shells.outside("true").notes
    assert "C" in note
    shells.inside("D=5")
    assert shells.outside("D=5").notes == ()


# --- the folder -------------------------------------------------------------------------------


def test_the_folder_is_carried_resolved(shells: Shells, home: Path) -> None:
    shells.inside("mkdir -p a/b; ln -s a/b l; cd l")
    assert shells.executor.cwd == str(home / "work" / "a" / "b")
    assert shells.outside("echo $PWD; cd ..").text == str(home / "work" / "a" / "b")
    assert shells.inside("echo $PWD").text == str(home / "work" / "a")


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_folder_swapped_for_a_link_is_not_entered(shells: Shells, home: Path, where: str) -> None:
    cd = shells.inside if where == "inside" else shells.outside
    shells.inside("mkdir d")
    cd("cd d")
    (home / "work" / "d").rmdir()
    (home / "work" / "d").symlink_to(home)  # as a sandboxed job could do at any time
    assert shells.executor.cwd == str(home / "work")
    result = shells.outside("pwd -P")
    assert result.text == str(home / "work")
    assert any("started in" in note for note in result.notes)


def test_a_folder_reached_by_a_link_keeps_its_name(shells: Shells) -> None:
    shells.outside("mkdir -p a/b; ln -s a/b l; cd l")
    assert shells.inside("echo ${PWD##*/}").text == "l"
    assert shells.outside("echo ${PWD##*/}; cd ..; echo ${PWD##*/}").text == "l\nwork"


def test_a_folder_that_is_removed_inside(shells: Shells, home: Path) -> None:
    shells.inside("mkdir d; cd d; rmdir ../d")
    assert shells.executor.cwd == str(home / "work")
    result = shells.inside("pwd")
    assert result.text == str(home / "work")
    assert result.notes == (f"{home}/work/d no longer exists; started in {home}/work.",)


def test_a_folder_that_exists_only_inside(shells: Shells, box: Sandbox) -> None:
    if not box.gives.private_tmp:
        pytest.skip("Landlock has no files of its own")
    name = f"only-{os.getpid()}"
    result = shells.inside(f"mkdir /tmp/{name}; cd /tmp/{name}")
    assert any("outside the sandbox" in note for note in result.notes)
    assert shells.inside("pwd").text == f"/tmp/{name}"
    assert shells.executor.cwd == "/tmp"
    result = shells.outside("pwd")
    assert result.text == "/tmp"
    assert any(f"/tmp/{name}" in note for note in result.notes)


@pytest.mark.parametrize("path", ["relative", "", "/proc/self/cwd", "$'/a\\nb'", "$'/\\xff'"])
def test_a_folder_that_is_claimed_is_checked(shells: Shells, path: str, home: Path) -> None:
    shells.inside(f"PWD={path}")
    assert Path(shells.executor.cwd).is_dir()
    assert shells.outside("pwd -P").text.startswith("/")


# --- processes --------------------------------------------------------------------------------


def test_process_numbers_stay_where_they_are(shells: Shells) -> None:
    shells.outside("sleep 600 & echo $! > pid")
    shells.inside("(exit 5) & wait; sleep 600 &")
    result = shells.outside("[ $! = $(cat pid) ] && jobs -p | wc -l; kill $! && wait $!; echo $?")
    assert result.text == "1\n143"
    result = shells.inside("echo ${!-none}; jobs")
    assert result.text == "none"
    assert any("jobs are read and stopped by their id" in note for note in result.notes)


def test_exit_codes_are_not_written_from_a_sandbox(shells: Shells) -> None:
    shells.outside("(until [ -e go ]; do sleep 0.02; done; exit 5) & echo $! > pid")
    noted = f"{private_folder_of(shells.executor)}/statuses"
    shells.inside(f"echo 0 > {noted}/$(cat pid); (exit 9) & sleep 0.1; touch go")
    assert shells.outside("wait $(cat pid); echo $?").text == "5"


def test_descriptors_are_not_carried_from_a_sandbox_and_that_is_said(shells: Shells) -> None:
    said = "Descriptors opened with exec are not carried over from a sandbox."
    assert shells.inside("exec 3>f; exec {fd}>g").notes == (said,)
    assert shells.inside("exec >log").notes == (said,)
    assert shells.inside(f": {'x' * 130_000}\necho long").notes == ()
    assert shells.inside("cat < /dev/null; cat <(echo x) | cat >/dev/null; : 3>f").notes == ()
