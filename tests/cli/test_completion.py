"""Completion scripts: generated from the parsers' tables, and used by the shells themselves."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

import kogniterm
from docs.completion_scripts import places
from kogniterm.cli import options
from kogniterm.cli.verbs.completion import SCRIPTS
from tests.cli.conftest import KOGNITERM, PATIENCE, Shell
from tests.support.picture import Picture
from tests.support.programs import needs, require


def environ_of(shell: Shell) -> dict[str, str]:
    """Return the user's environment with `kogniterm` on the path: the scripts ask it for names."""
    return shell.environ | {"PATH": f"{KOGNITERM.parent}:{shell.environ['PATH']}", "TERM": "xterm"}


def script(name: str) -> str:
    """Return the completion script for a shell, as it is shipped."""
    return (Path(kogniterm.__file__).parent / "cli" / "completion" / SCRIPTS[name]).read_text()


def script_of(shell: Shell, name: str) -> Path:
    file = shell.home / {"zsh": "_kogniterm"}.get(name, f"kogniterm.{name}")
    file.write_text(script(name))
    return file


def a_session(shell: Shell) -> str:
    """Hold a session and return its id."""
    model = shell.script("replies: [{text: Hello.}]")
    assert shell.run("run", "greet me", "--model", model).returncode == 0
    listed = shell.run("completion", "--list", "sessions").stdout
    session, _tab, title = listed.partition("\t")
    assert title == "greet me\n"
    return session


def completed(shell: Shell, *words: str) -> list[str]:
    """Return the completions bash offers for the last of `words`, split as bash splits them."""
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"source '{script_of(shell, 'bash')}'; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        '_kogniterm; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        capture_output=True,
        text=True,
        cwd=shell.project,
        env=environ_of(shell),
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_every_place_of_the_parsers_is_known() -> None:
    found = {place.path: place for place in places()}
    assert set(found[""].words) == {verb.name for verb in options.VERBS}
    assert "add" in found["/memory"].words
    assert any("--category" in flag.names for flag in found["/memory/add"].flags)
    assert set(found["/completion"].words) == set(SCRIPTS)
    assert found["/sessions/show"].kind == "sessions"
    assert found["/run"].kind == "file"


def test_bash_completes_verbs_actions_options_and_values(shell: Shell) -> None:
    assert completed(shell, "kogniterm", "mem") == ["memory"]
    assert "forget" in completed(shell, "kogniterm", "memory", "")
    assert completed(shell, "kogniterm", "memory", "forget", "--ye") == ["--yes"]
    category = completed(shell, "kogniterm", "memory", "add", "--category", "con")
    assert category == ["constraint"]
    assert completed(shell, "kogniterm", "completion", "z") == ["zsh"]
    assert completed(shell, "kogniterm", "--lang", "e") == ["en", "es"]
    # The names that help and screens use, not those that settings and rules have in addition.
    assert completed(shell, "kogniterm", "--mode", "") == ["ask", "accept-edits", "auto", "plan"]


def test_the_value_of_an_option_is_no_verb(shell: Shell) -> None:
    assert completed(shell, "kogniterm", "--model", "memory", "mem") == ["memory"]
    assert completed(shell, "kogniterm", "--model", "run", "memory", "pi") == ["pin"]
    assert completed(shell, "kogniterm", "--max-steps", "r") == []


def test_files_and_folders_are_completed_where_they_are_wanted(shell: Shell) -> None:
    (shell.project / "project").mkdir()
    (shell.project / "prose.txt").touch()
    both = {"project", "prose.txt"}
    assert completed(shell, "kogniterm", "--cwd", "pro") == ["project"]
    assert set(completed(shell, "kogniterm", "--env-file", "pro")) == both
    assert set(completed(shell, "kogniterm", "sessions", "import", "pro")) == both
    assert set(completed(shell, "kogniterm", "run", "pro")) == both
    assert completed(shell, "kogniterm", "sessions", "list", "pro") == []


def test_bash_completes_sessions_and_models(shell: Shell) -> None:
    session = a_session(shell)
    assert completed(shell, "kogniterm", "sessions", "show", "") == [session]
    assert completed(shell, "kogniterm", "run", "--resume", session[:3]) == [session]
    assert completed(shell, "kogniterm", "sessions", "show", "no-such") == []
    assert "google_genai:gemini-flash-latest" in completed(shell, "kogniterm", "--model", "goo")
    split = ("kogniterm", "--model", "google_genai", ":", "gem")
    assert completed(shell, *split) == ["gemini-flash-latest"]


def test_a_list_for_a_shell_is_never_an_error(shell: Shell) -> None:
    result = shell.run("completion", "--list", "sessions")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not list(shell.data.glob("*.db*"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_shell_can_read_its_script(shell: Shell, name: str) -> None:
    require(name)
    file = script_of(shell, name)
    done = subprocess.run([name, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@needs("fish")
def test_fish_completes_as_bash_does(shell: Shell) -> None:
    session = a_session(shell)
    (shell.project / "prose.txt").touch()
    (shell.project / "folder").mkdir()
    file = script_of(shell, "fish")

    def offered(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {file}; complete -C '{line}'"],
            capture_output=True,
            text=True,
            check=True,
            env=environ_of(shell),
            cwd=shell.project,
        )
        assert done.stderr == ""
        return [one.partition("\t")[0] for one in done.stdout.splitlines()]

    assert offered("kogniterm mem") == ["memory"]
    assert "pin" in offered("kogniterm memory ")
    assert offered("kogniterm memory forget --ye") == ["--yes"]
    assert offered("kogniterm --model memory mem") == ["memory"]
    assert offered("kogniterm sessions show ") == [session]
    assert offered("kogniterm run --resume ") == [session]
    assert "google_genai:gemini-flash-latest" in offered("kogniterm --model goo")
    assert offered("kogniterm sessions import pro") == ["prose.txt"]
    assert offered("kogniterm --cwd f") == ["folder/"]
    assert offered("kogniterm sessions list pro") == []


class Zsh:
    """An interactive zsh whose screen can be waited for."""

    def __init__(self, shell: Shell) -> None:
        functions = script_of(shell, "zsh").parent
        self._picture = Picture(50, 120)
        self.child = pexpect.spawn(
            "zsh",
            ["-f", "-i"],
            env=environ_of(shell),
            cwd=str(shell.project),
            timeout=PATIENCE,
            dimensions=(50, 120),
        )
        self.child.sendline(f"PROMPT='rea''dy> '; fpath=({functions} $fpath); setopt nobeep")
        self.until(lambda: self.line == "ready>")
        self.child.sendline("autoload -U compinit; compinit -u -D; unset zle_bracketed_paste")
        self.child.sendline("PROMPT='take''s> '")
        self.until(lambda: self.line == "takes>")

    def until(self, holds: Callable[[], bool]) -> None:
        """Read until the screen is as expected."""
        while not holds():
            try:
                self._picture.feed(self.child.read_nonblocking(65536, timeout=PATIENCE))
            except (pexpect.TIMEOUT, pexpect.EOF) as error:
                raise AssertionError(self._picture.text) from error

    @property
    def line(self) -> str:
        """The line being edited, including the prompt."""
        prompts = [line for line in self._picture.lines if line.startswith(("ready>", "takes>"))]
        return prompts[-1] if prompts else ""

    def completes(self, typed: str, wanted: str) -> None:
        """Press TAB after `typed` and wait until `wanted` is inserted."""
        self._tab(typed, lambda: self.line.startswith(f"takes> {typed}{wanted}"))

    def lists(self, typed: str, wanted: str) -> None:
        """Press TAB after `typed` and wait until `wanted` is listed below."""
        self._tab(typed, lambda: wanted in self._picture.text)

    def _tab(self, typed: str, holds: Callable[[], bool]) -> None:
        """Type, press TAB, wait for `holds`, and clear the line with Ctrl-U.

        Ctrl-C would be a signal, which zsh ignores while it completes.
        """
        self.child.send(typed)
        self.until(lambda: self.line == f"takes> {typed}".rstrip())
        self.child.send("\t")
        self.until(holds)
        self.child.send("\x15")
        self.until(lambda: self.line == "takes>")

    def close(self) -> None:
        self.child.sendline("exit")
        self.child.expect(pexpect.EOF)
        self.child.wait()
        self.child.close()


@needs("zsh")
def test_zsh_completes_at_its_prompt(shell: Shell) -> None:
    session = a_session(shell)
    (shell.project / "prose.txt").touch()
    (shell.project / "folder").mkdir()
    zsh = Zsh(shell)
    zsh.completes("kogniterm mem", "ory")
    zsh.lists("kogniterm memory ", "Change the text of a memory")
    zsh.completes("kogniterm memory forget --ye", "s")
    zsh.completes("kogniterm --model x mem", "ory")
    zsh.completes("kogniterm sessions show ", session)
    zsh.completes(f"kogniterm run --resume {session[:3]}", session[3:])
    zsh.completes("kogniterm --model goo", "gle_genai:gemini-flash-latest")
    zsh.completes("kogniterm sessions import pro", "se.txt")
    zsh.completes("kogniterm --cwd fol", "der")
    zsh.completes("kogniterm memory add --category con", "straint")
    zsh.close()


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_command_prints_the_script(shell: Shell, name: str) -> None:
    result = shell.run("completion", name)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"kogniterm completion {name}" in result.stdout


def test_an_unknown_shell_is_a_sentence(shell: Shell) -> None:
    result = shell.run("completion", "tcsh")
    assert result.returncode == 2
    assert "tcsh" in result.stderr


def test_without_a_shell_it_says_which_there_are(shell: Shell) -> None:
    result = shell.run("completion")
    assert result.returncode == 2
    assert "bash, zsh, fish" in result.stderr
