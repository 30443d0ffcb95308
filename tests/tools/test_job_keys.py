"""Keys for a job: names of keys, line breaks in both spellings, and jobs that are not there."""

from __future__ import annotations

import pytest

from kogniterm.errors import ToolError
from kogniterm.tools.session_tools import decode_keys, job_tool
from kogniterm.types import Job


@pytest.mark.parametrize(
    ("keys", "characters"),
    [
        ("demo\n", "demo\n"),
        ("demo\\n", "demo\n"),
        ("a\\nb\\n", "a\nb\n"),
        ("print('a\\nb')\n", "print('a\\nb')\n"),
        ("<Up><enter>", "\x1b[A\r"),
        ("<C-c>", "\x03"),
        ("<b>text</b>", "<b>text</b>"),
    ],
)
def test_keys_stand_for_characters_once(keys: str, characters: str) -> None:
    assert decode_keys(keys) == characters
    assert decode_keys(characters) == characters


class NoJobs:
    """The jobs of a session that has none."""

    def jobs(self) -> tuple[Job, ...]:
        return ()


def test_a_call_that_lacks_an_argument_is_answered_in_plain_words() -> None:
    tool = job_tool(NoJobs())  # type: ignore[arg-type]
    with pytest.raises(ToolError, match=r"^Invalid arguments for jobs: id is missing\.$"):
        tool.check({"action": "wait"})


@pytest.mark.parametrize("action", ["send", "stop", "keep"])
def test_nothing_is_asked_about_a_job_that_is_not_there(action: str) -> None:
    keys = {"keys": "x\n"} if action == "send" else {}
    tool = job_tool(NoJobs())  # type: ignore[arg-type]
    with pytest.raises(ToolError, match="Job j7 not found"):
        tool.describe(tool.check({"action": action, "id": "j7", **keys}))
