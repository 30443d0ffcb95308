"""/help lists every command in one group, and /help NAME explains each with an example."""

from __future__ import annotations

from kogniterm.runtime.inputs.called_input import split_line
from kogniterm.ui.commands.command_details import DETAILS, GROUPS, OTHERS, group_commands
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.slash_commands import Command


def test_every_command_stands_in_one_group_and_has_an_example() -> None:
    names = [command.name for command in COMMANDS]
    assert sorted(name for group in GROUPS for name in group.names) == sorted(names)
    assert sorted(DETAILS) == sorted(names)


def test_every_example_uses_its_command_and_each_group_shows_one_of_its_own() -> None:
    for name, detail in DETAILS.items():
        assert split_line(detail.example)[0] == name
    for group in GROUPS:
        assert group.shown in group.names


def test_custom_commands_come_last_without_an_example() -> None:
    custom = Command("review", COMMANDS[0].help, COMMANDS[0].run)
    *built_in, last = group_commands((*COMMANDS, custom))
    assert last == (OTHERS, [custom], None)
    assert [len(commands) for _title, commands, _detail in built_in] == [
        len(group.names) for group in GROUPS
    ]
