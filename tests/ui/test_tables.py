"""The tables of keys and commands feed everything that speaks of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.errors import UsageError
from kogniterm.types import Job, Phrase
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.commands.registry import Command, Registry, is_slash_command, split_line
from kogniterm.ui.prompt.attachments import job_outputs, mentions
from kogniterm.ui.prompt.bindings import prompt_actions
from kogniterm.ui.prompt.key_table import BUILT_IN, KEYS
from tests.support.ordinary import ordinary


def test_every_key_of_the_table_does_something_and_nothing_else_is_bound() -> None:
    class Prompt:
        controls = None

    actions = set(prompt_actions(Prompt()))  # type: ignore[arg-type]  # only names are looked at
    assert actions | BUILT_IN == {key.action for key in KEYS if key.where == "prompt"}


def test_keys_and_chords_are_named_once_in_each_place() -> None:
    for where in ("prompt", "question"):
        chords = [chord for key in KEYS if key.where == where for chord in key.sequences]
        assert len(chords) == len(set(chords))


def test_commands_have_help_and_arguments_that_can_be_completed() -> None:
    for command in COMMANDS:
        assert str(command.help)
        assert not command.choices or command.arguments


def test_commands_are_found_by_name_alias_and_beginning() -> None:
    registry = Registry(COMMANDS)
    assert registry.find("exit").name == "quit"
    assert registry.find("he").name == "help"
    with pytest.raises(UsageError, match="/mode, /model"):
        registry.find("mo")
    with pytest.raises(UsageError, match="There is no command /zzz"):
        registry.find("zzz")


def test_two_commands_may_not_share_a_name() -> None:
    def nothing(_context: object, _argument: str) -> None:
        """Do nothing."""

    one = Command("a", Phrase("x"), nothing)
    with pytest.raises(ValueError, match="same name"):
        Registry([one, Command("b", Phrase("x"), nothing, aliases=("a",))])


def test_lines_are_split_and_told_apart() -> None:
    assert split_line("/Model  a b ") == ("model", "a b")
    assert is_slash_command("/help")
    assert not is_slash_command("/etc/hosts")
    assert not is_slash_command("/help\nmore")


def test_mentions_are_seen_from_the_workspace_quoted_or_not(tmp_path: Path) -> None:
    for name in ("a.txt", "my file.txt", "shot.PNG"):
        (tmp_path / name).write_text("x")
    found = mentions('see @a.txt, @"my file.txt" @a.txt (@no) @shot.PNG', str(tmp_path))
    assert found == ("a.txt", "my file.txt", "shot.PNG")


def test_jobs_are_named_one_by_one_or_all() -> None:
    jobs = [
        Job(name, "make", "running", (1,), 0.0, output_path=path)
        for name, path in (("1", "/o/1"), ("2", "/o/2"), ("3", None))
    ]
    assert job_outputs("look at @jobs.", jobs) == ("/o/1", "/o/2")
    assert job_outputs("why is @job:2 slow?", jobs) == ("/o/2",)
    assert job_outputs("mail me@jobs or @job:9", jobs) == ()


def test_mentions_are_files_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    assert mentions("read @a.txt, and @missing and me@a.txt") == ("a.txt",)


def test_an_at_sign_before_what_can_be_no_file_is_just_one(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut" / "a.txt").write_text("x")
    (tmp_path / "shut").chmod(0o000)
    line = f"@shut/a.txt @{'x' * 300} @{'d/' * 3000} @~nobody-of-this-name/x @a\0b @\ud800"
    with ordinary():
        assert mentions(line, str(tmp_path)) == ()
    (tmp_path / "shut").chmod(0o700)
    assert mentions(line, str(tmp_path)) == ("shut/a.txt",)
