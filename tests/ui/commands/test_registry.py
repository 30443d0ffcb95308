"""The registry of slash commands, and their shared behaviour."""

from __future__ import annotations

import pytest

from kogniterm.errors import UsageError
from kogniterm.runtime.inputs.called_input import is_slash_command, split_line
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import Explained
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.slash_commands import Command, Registry
from tests.ui.face import PLAIN


def test_explanations_stand_beside_or_on_a_narrow_screen_below() -> None:
    shown = Explained([("/help [NAME]", "list the commands"), ("/quit", "leave")], "command")
    assert PLAIN.paint(shown, 60).split("\n") == [
        " /help [NAME]  list the commands", " /quit         leave", "",
    ]  # fmt: skip
    assert PLAIN.paint(shown, 30).split("\n") == [
        " /help [NAME]", "    list the commands", " /quit", "    leave", "",
    ]  # fmt: skip


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
    with pytest.raises(UsageError, match="Unknown command /zzz; /help lists the commands"):
        registry.find("zzz")


def test_an_unknown_command_names_the_one_that_was_meant() -> None:
    registry = Registry(COMMANDS)
    for typed, meant in (("thmee", "theme"), ("exti", "exit"), ("compct", "compact")):
        with pytest.raises(
            UsageError, match=rf"^Unknown command /{typed}\. Did you mean /{meant}\?$"
        ):
            registry.find(typed)


def test_usage_and_completion_follow_from_the_actions() -> None:
    registry = Registry(COMMANDS)
    assert registry.find("permissions").arguments == "[list|revoke ID|all]"
    memory = registry.find("memory")
    assert memory.arguments == (
        "[list|search WORD|show ID|lessons|add TEXT|edit ID TEXT|confirm|pin|undo ID"
        "|project [rescan]]"
    )
    assert {"list", "undo", "project rescan"} <= set(memory.completions(None))


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
