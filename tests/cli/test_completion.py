"""Completion scripts: from the parsers' tables, and understood by the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kogniterm.cli import verbs
from kogniterm.cli.completion import SHELLS, bash, fish, places, zsh
from tests.cli.conftest import Shell


def completed(tmp_path: Path, *words: str) -> list[str]:
    """What bash offers for the last of `words`."""
    script = tmp_path / "kogniterm.bash"
    script.write_text(bash(list(places())))
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"source '{script}'; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        '_kogniterm; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_every_place_of_the_parsers_is_known() -> None:
    found = {place.path: place for place in places()}
    assert set(found[""].words) == {verb.name for verb in verbs.VERBS}
    assert "add" in found["/memory"].words
    assert any("--category" in flag.names for flag in found["/memory/add"].flags)
    assert set(found["/completion"].words) == set(SHELLS)


def test_bash_completes_verbs_actions_options_and_values(tmp_path: Path) -> None:
    assert completed(tmp_path, "kogniterm", "mem") == ["memory"]
    assert "forget" in completed(tmp_path, "kogniterm", "memory", "")
    assert completed(tmp_path, "kogniterm", "memory", "forget", "--ye") == ["--yes"]
    category = completed(tmp_path, "kogniterm", "memory", "add", "--category", "con")
    assert category == ["constraint"]
    assert completed(tmp_path, "kogniterm", "completion", "z") == ["zsh"]


def test_the_value_of_an_option_is_no_verb(tmp_path: Path) -> None:
    assert completed(tmp_path, "kogniterm", "--model", "memory", "mem") == ["memory"]
    assert completed(tmp_path, "kogniterm", "--model", "run", "memory", "pi") == ["pin"]


def test_folders_are_completed_after_cwd(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "prose.txt").touch()
    assert completed(tmp_path, "kogniterm", "--cwd", "pro") == ["project"]
    assert set(completed(tmp_path, "kogniterm", "--env-file", "pro")) == {"project", "prose.txt"}


@pytest.mark.parametrize(("name", "script"), [("bash", bash), ("zsh", zsh), ("fish", fish)])
def test_the_shell_can_read_its_script(tmp_path: Path, name: str, script: object) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    assert callable(script)
    file = tmp_path / f"completion.{name}"
    file.write_text(script(list(places())))
    done = subprocess.run([name, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_completes_as_bash_does(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    file = tmp_path / "kogniterm.fish"
    file.write_text(fish(list(places())))

    def offered(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {file}; complete -C '{line}'"],
            capture_output=True, text=True, check=True, env={"HOME": str(tmp_path), "PATH": "/bin"},
        )  # fmt: skip
        return [one.partition("\t")[0] for one in done.stdout.splitlines()]

    assert offered("kogniterm mem") == ["memory"]
    assert "pin" in offered("kogniterm memory ")
    assert offered("kogniterm memory forget --ye") == ["--yes"]


@pytest.mark.parametrize("name", SHELLS)
def test_the_command_prints_the_script(shell: Shell, name: str) -> None:
    result = shell.run("completion", name)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"kogniterm completion {name}" in result.stdout


def test_an_unknown_shell_is_a_sentence(shell: Shell) -> None:
    result = shell.run("completion", "tcsh")
    assert result.returncode == 2
    assert "tcsh" in result.stderr
