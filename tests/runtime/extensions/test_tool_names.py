"""Names of tools as other agents write them."""

from __future__ import annotations

from kogniterm.runtime.extensions.tool_names import (
    SHARED_NAMES,
    ToolPattern,
    meant_tool,
    own_tools,
    parse_pattern,
    shared_name,
)


def test_a_name_leads_there_and_back() -> None:
    for own, shared in SHARED_NAMES.items():
        assert own_tools(shared) == (own,)
        assert own_tools(own) == (own,)
        assert shared_name(own) == shared


def test_names_of_other_agents_servers_and_nobody() -> None:
    assert own_tools("run_shell_command") == ("execute_command",)
    assert own_tools("apply_patch") == ("edit_file", "write_file")
    assert own_tools("mcp__docs__search") == ("mcp__docs__search",)
    assert own_tools("Nonsense") == ()
    assert own_tools("lookup", ("lookup",)) == ("lookup",)
    assert shared_name("lookup") == "lookup"


def test_patterns() -> None:
    git = ToolPattern("Bash", ("execute_command",), "git diff:*")
    assert parse_pattern("Bash(git diff:*)") == git
    assert parse_pattern("Bash()") == ToolPattern("Bash", ("execute_command",))
    assert parse_pattern("rm -rf /") is None


def test_the_tool_that_was_meant() -> None:
    known = ("execute_command", "read_file")
    assert meant_tool("Bash(rm:*)", known) == "execute_command"
    assert meant_tool("read_fle", known) == "read_file"
    assert meant_tool("Grep", known) is None
