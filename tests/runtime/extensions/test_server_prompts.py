"""Prompts of servers as commands: which words of the line are which argument."""

from __future__ import annotations

import pytest

from kogniterm.errors import UsageError
from kogniterm.runtime.extensions.servers.mcp_servers import prompt_arguments
from kogniterm.tools.mcp.server_values import ServerPrompt

REVIEW = ServerPrompt("review", "Review a file", (("file", True), ("focus", False)))


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("a.py", {"file": "a.py"}),
        ("a.py error handling", {"file": "a.py", "focus": "error handling"}),
    ],
)
def test_the_last_argument_takes_the_rest(line: str, given: dict[str, str]) -> None:
    assert prompt_arguments(REVIEW, line) == given


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(UsageError, match="The prompt review needs: file"):
        prompt_arguments(REVIEW, "")
    assert prompt_arguments(ServerPrompt("hello", ""), "and more words") == {}
