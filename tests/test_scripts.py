"""Scripts of `make` and CI around the tests: offered and hidden programs, and a test account."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from tests.cli.conftest import PATIENCE
from tests.support.ordinary import ORDINARY

ROOT = Path(__file__).parents[1]
UNAVAILABLE = 69
SCRIPT = ROOT / "scripts" / "test-programs"
ALL = (
    "bwrap", "curl", "fish", "flock", "fuser", "gdb", "git", "less", "lsof", "man", "node", "npm",
    "ps", "ss", "rg", "ssh", "strace", "unshare", "sshd", "tmux", "vim", "zsh",
)  # fmt: skip
NAMED = re.compile(r'\b(?:needs|require)\(((?:"[a-z]+"(?:, )?)+)\)')
Machine = Callable[..., dict[str, str]]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a function that makes the environment of a machine with only the named programs."""

    def make(*programs: str, user: int, apt: bool = True, fails: bool = False) -> dict[str, str]:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
        stand_ins = dict.fromkeys(programs, "")
        stand_ins["id"] = f"echo {user}"
        if apt:
            stand_ins["apt-get"] = f'echo "$@" >>{tmp_path}/asked; exit {int(fails)}'
        for name, body in stand_ins.items():
            (folder / name).write_text(f"#!/bin/sh\n{body}\n")
            (folder / name).chmod(0o755)
        return {"PATH": str(folder)}

    return make


def run(environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    return call_script("test-programs", *arguments, environment=environment)


def call_script(name: str, *arguments: str, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / name), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    return done.returncode, done.stdout


def test_all_programs_that_tests_name_are_offered(machine: Machine) -> None:
    named = {"bash"}
    for file in (ROOT / "tests").rglob("*.py"):
        for words in NAMED.findall(file.read_text(encoding="utf-8")):
            named.update(re.findall(r'"([a-z]+)"', words))
    assert {"bwrap", "git"} <= named
    status, said = run(machine(user=1000), "--list")
    assert (status, tuple(said.split())) == (0, ALL)
    assert named - {"bash", *ALL} == set()


def test_nothing_is_said_where_nothing_is_missing(machine: Machine) -> None:
    assert run(machine(*ALL, user=0)) == (0, "")


def test_nothing_is_installed_unasked(machine: Machine, tmp_path: Path) -> None:
    assert run(machine(*ALL[1:], user=0)) == (
        0,
        "Tests that drive bwrap are skipped; install them with: make test-programs.\n",
    )
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("apt", "how"),
    [
        (True, "install them with: sudo apt-get install bubblewrap ripgrep"),
        (False, "this system's package manager installs them: bubblewrap ripgrep"),
    ],
)
def test_who_may_not_install_is_told_how(machine: Machine, apt: bool, how: str) -> None:
    others = [name for name in ALL if name not in ("bwrap", "rg")]
    environment = machine(*others, user=1000, apt=apt)
    said = f"Tests that drive bwrap rg are skipped; {how}.\n"
    assert run(environment) == (0, said)
    assert run(environment, "--install") == (1, said)


@pytest.mark.parametrize(("answer", "installed"), [("y", True), ("", False), ("no", False)])
def test_root_is_asked_at_a_terminal(
    machine: Machine, tmp_path: Path, answer: str, installed: bool
) -> None:
    environment = machine(*ALL[:-4], user=0)
    child = pexpect.spawn(
        "/bin/sh", [str(SCRIPT)], env=environment, encoding="utf-8", timeout=PATIENCE
    )
    child.expect_exact("missing here: sshd tmux vim zsh.")
    child.expect_exact("[y/N] ")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    asked = tmp_path / "asked"
    assert asked.exists() == installed
    if installed:
        assert asked.read_text().splitlines()[-1].endswith(" openssh-server tmux vim zsh")


def test_an_installation_that_fails_is_said(machine: Machine) -> None:
    status, said = run(machine(*ALL[:-1], user=0, fails=True), "--install")
    assert status == 1
    assert said == "These could not be installed: zsh.\n"


def ci(name: str, *arguments: str) -> str:
    """Return the output of a script of CI; skip the test where the kernel does not support it."""
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / name), *arguments], capture_output=True, text=True
    )
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


LOOKS = """\
import os, sys
from tests.support.programs import installed
print(*(name for name in ("tac", "cat") if installed(name)), os.geteuid())
"""


def test_programs_are_hidden_from_one_command_only() -> None:
    look = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", LOOKS]
    assert ci("without-programs", "tac", "no-such-program", "--", *look) == f"cat {os.geteuid()}\n"
    assert os.access(shutil.which("tac") or "", os.X_OK)


def test_an_ordinary_user_has_an_account_and_sees_what_is_named(tmp_path: Path) -> None:
    home, shut = tmp_path / "home", tmp_path / "shut"
    (shut / "given").mkdir(parents=True)
    (shut / "given" / "weights").write_text("here")
    (shut / "secret").write_text("not here")
    shut.chmod(0o700)
    home.mkdir()
    look = f"id -u; echo $HOME; cat {shut}/given/weights; echo; touch own && ls; cat {shut}/secret"
    said = ci(
        "as-ordinary-user", str(home), str(shut / "given"), "--", "sh", "-c", f"{look}; id -un"
    )
    root = os.geteuid() == 0
    number = ORDINARY if root else os.geteuid()
    assert said.startswith(f"{number}\n{home}\nhere\nown\n")
    if root:
        assert said.endswith("own\nordinary\n")


NO_LIBRARY = "ImportError: libgomp.so.1: cannot open shared object file: No such file or directory"
TOUR = 'case "$1" in tour) echo "the tour is played";; *) echo "$@";; esac'


def demo(
    machine: Machine,
    tmp_path: Path,
    *,
    user: int = 1000,
    apt: bool = True,
    fails: bool = False,
    terminal: bool = True,
) -> tuple[int, str]:
    """Run the demo on a machine whose local model lacks a library until it is installed."""
    environment = machine(user=user, apt=apt, fails=fails) | {"HOME": str(tmp_path)}
    folder = tmp_path / "bin"
    for name in ("dirname", "grep", "head", "mktemp", "rm", "sed", "wc"):
        (folder / name).symlink_to(shutil.which(name) or name)
    loads = f"""case "$2" in *openpty*) exit {int(not terminal)};; esac
[ ! -e {tmp_path}/asked ] || exit {int(fails)}; echo '{NO_LIBRARY}' >&2; exit 1"""
    for name, body in (("python", loads), ("kogniterm", TOUR)):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return call_script("demo", str(folder / "kogniterm"), environment=environment)


@pytest.mark.parametrize(
    ("apt", "how"),
    [
        (True, "install it with: sudo apt-get install libgomp1"),
        (False, "install it with this system's package manager."),
    ],
)
def test_a_demo_without_a_library_plays_the_tour_and_downloads_nothing(
    machine: Machine, tmp_path: Path, apt: bool, how: str
) -> None:
    status, said = demo(machine, tmp_path, apt=apt)
    assert f"The local model needs libgomp.so.1; {how}\n" in said
    assert (status, "models pull" in said, "the tour is played" in said) == (0, False, True)


def test_the_demo_of_root_installs_the_library(machine: Machine, tmp_path: Path) -> None:
    status, said = demo(machine, tmp_path, user=0)
    assert "needs libgomp.so.1: installing libgomp1 with apt-get\n" in said
    assert (tmp_path / "asked").read_text().endswith(" libgomp1\n")
    assert "models pull\n" in said
    assert status == 1  # the stand-in for the model answers nothing


def test_the_tour_is_played_where_the_library_cannot_be_installed(
    machine: Machine, tmp_path: Path
) -> None:
    status, said = demo(machine, tmp_path, user=0, fails=True)
    assert "libgomp1 could not be installed" in said
    assert (status, "the tour is played" in said) == (0, True)


def test_the_demo_says_that_no_terminal_can_be_opened(machine: Machine, tmp_path: Path) -> None:
    status, said = demo(machine, tmp_path, terminal=False)
    assert (status, said) == (
        1,
        "No terminal can be opened here: mount a devpts file system at /dev/pts.\n",
    )


@pytest.mark.parametrize(
    ("user", "how"), [(0, "apt-get"), (1000, "sudo apt-get")], ids=["root", "ordinary"]
)
def test_an_environment_that_cannot_be_made_is_explained(
    machine: Machine, tmp_path: Path, user: int, how: str
) -> None:
    environment = machine("python3", "rm", user=user)
    lacking = '#!/bin/sh\n[ "$1" = -c ]\n'
    (tmp_path / "bin" / "python3").write_text(lacking)
    assert call_script("make-venv", str(tmp_path / "venv"), environment=environment) == (
        1,
        "python3 cannot create a virtual environment; "
        f"install what it lacks with: {how} install python3-venv\n",
    )


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (1000, "Building Debian systems needs root; run: sudo make test-machines\n"),
        (0, "debootstrap is missing; install it with: apt-get install debootstrap\n"),
    ],
    ids=["ordinary", "root"],
)
def test_machines_are_built_by_root_with_debootstrap(
    machine: Machine, tmp_path: Path, user: int, said: str
) -> None:
    environment = machine("unshare", "git", "apt-get", user=user)
    (tmp_path / "bin" / "dirname").symlink_to(shutil.which("dirname") or "dirname")
    done = subprocess.run(
        [shutil.which("bash") or "bash", str(ROOT / "scripts" / "test-machines")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (UNAVAILABLE, said)
