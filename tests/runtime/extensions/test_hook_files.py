"""Files of hooks, the answers of their programs, and where they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kogniterm.errors import SettingsError, ToolError, UsageError
from kogniterm.execution.process.confined_program import ProgramResult
from kogniterm.runtime.extensions.hooks.hook_files import (
    MAX_TIMEOUT,
    Hook,
    HookEvent,
    HookSet,
    read_hooks,
    user_hooks,
)
from kogniterm.runtime.extensions.hooks.hook_points import with_input
from kogniterm.runtime.extensions.hooks.hook_runs import HookAnswer, HookPlace, answer_of, run_hook
from kogniterm.runtime.extensions.hooks.hook_service import combine_answers
from kogniterm.runtime.trust.project_places import walk
from kogniterm.types import ActionRequest


def read(data: object, *, own: bool = True) -> HookSet:
    return read_hooks(json.dumps(data), "hooks.json", own=own)


def group(command: str = "true", matcher: object = None, **more: object) -> dict[str, Any]:
    found: dict[str, Any] = {"hooks": [{"type": "command", "command": command, **more}]}
    return found if matcher is None else {**found, "matcher": matcher}


def test_both_shapes_are_read_with_their_defaults() -> None:
    bare = {"PreToolUse": [group("a", "Bash")], "SessionEnd": [group("b")]}
    assert read(bare) == read({"hooks": bare, "description": "mine"})
    first, last = read(bare).hooks
    assert (first.event, first.command, first.matcher, first.timeout) == (
        "PreToolUse", "a", "Bash", 60.0,
    )  # fmt: skip
    assert (last.timeout, last.sandboxed) == (5.0, True)


@pytest.mark.parametrize(
    ("matcher", "matching", "others"),
    [
        ("", ["Bash", "mcp__a__b"], []),
        ("*", ["Bash"], []),
        ("Bash", ["Bash"], ["BashOutput", "bash"]),
        ("Edit|Write", ["Edit", "Write"], ["MultiEdit"]),
        ("mcp__github__.*", ["mcp__github__issues"], ["mcp__git__x"]),
        ("Bash(git push:*)", ["Bash"], ["Edit"]),
    ],
)
def test_a_matcher_is_compared_with_the_whole_name(
    matcher: str, matching: list[str], others: list[str]
) -> None:
    (hook,) = read({"PreToolUse": [group(matcher=matcher)]}).hooks
    assert all(map(hook.matches, matching))
    assert not any(map(hook.matches, others))


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"hooks": []},
        {"PreToolUse": {}},
        {"PreToolUse": [3]},
        {"PreToolUse": [group(matcher="(")]},
        {"PreToolUse": [group(matcher=3)]},
        {"PreToolUse": [group("")]},
        {"PreToolUse": [group("a\0b")]},
        {"PreToolUse": [group(timeout=0)]},
        {"PreToolUse": [group(timeout="long")]},
        {"PreToolUse": [group(sandbox="no")]},
        {"PreToolUse": [{"hooks": 1}]},
        {"PreToolUse": [group() for _ in range(101)]},
    ],
)
def test_a_mistake_is_an_error_that_names_its_file(data: object) -> None:
    with pytest.raises(SettingsError, match=r"hooks\.json"):
        read(data)


def test_what_is_no_json_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"not valid JSON: .* Correct it, or start with --no-hooks"
    ):
        read_hooks("{", "hooks.json", own=True)
    with pytest.raises(SettingsError):
        read_hooks("[" * 100_000, "hooks.json", own=True)
    file = tmp_path / "hooks.json"
    assert user_hooks(file) == HookSet()
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError):
        user_hooks(file)


def test_what_only_others_know_is_left_out_with_a_notice() -> None:
    found = read({
        "PermissionRequest": [group()],
        "Stop": [{"hooks": [{"type": "prompt", "prompt": "Is it done?"}]}],
        "PreToolUse": [group(timeout=100_000)],
    })  # fmt: skip
    assert [hook.timeout for hook in found.hooks] == [MAX_TIMEOUT]
    assert len(found.notices) == 2


def test_a_project_cannot_leave_the_sandbox() -> None:
    data = {"PreToolUse": [group(sandbox=False)]}
    assert read(data, own=True).hooks[0].sandboxed is False
    found = read(data, own=False)
    assert found.hooks[0].sandboxed is True
    assert len(found.notices) == 1


def test_one_command_runs_once_and_the_users_counts() -> None:
    data = {"PreToolUse": [group("a", "Bash"), group("a")]}
    both = read(data) + read(data, own=False)
    (hook,) = both.matching("PreToolUse", "Bash")
    assert hook.own


def test_only_the_hooks_of_a_settings_file_count(tmp_path: Path) -> None:
    file = tmp_path / ".claude/settings.json"
    file.parent.mkdir()

    def found(data: object) -> list[tuple[str, str]]:
        file.write_text(data if isinstance(data, str) else json.dumps(data))
        return [(one.kind, one.digest) for one in walk(tmp_path).files]

    hooks = {"Stop": [group()]}
    first = found({"model": "a", "hooks": hooks})
    assert [kind for kind, _ in first] == ["hooks"]
    assert found({"model": "b", "env": {"A": "b"}, "hooks": hooks}) == first
    assert found({"hooks": {"Stop": [group("false")]}}) != first
    assert found({"model": "a"}) == found({"hooks": {}}) == found("{") == []


def hook(event: HookEvent = "PreToolUse", *, own: bool = True) -> Hook:
    return Hook(event, "guard", "hooks.json", own)


def answered(output: str, code: int = 0, event: HookEvent = "PreToolUse") -> HookAnswer:
    return answer_of(hook(event), ProgramResult(code, output.encode(), b"why"), 0.1)


@pytest.mark.parametrize(
    "output",
    ['{"decision": 3}', '{"continue": "no"}', '{"hookSpecificOutput": []}', "{" * 10_000,
     '{"hookSpecificOutput": {"updatedInput": "x"}}', '{"decision": "block"} trailing'],
)  # fmt: skip
def test_malformed_answers_are_failures(output: str) -> None:
    assert answered(output).failure is not None


@pytest.mark.parametrize(
    ("sandboxed", "late"),
    [(True, "it ran longer than 60 s, in the sandbox without network"),
     (False, "it ran longer than 60 s")],
)  # fmt: skip
def test_a_late_hook_says_where_it_ran(sandboxed: bool, late: str) -> None:
    slow = Hook("PreToolUse", "sleep 99", "hooks.json", own=True, sandboxed=sandboxed)
    answer = answer_of(slow, ProgramResult(None, b"", b"", "timeout"), 60.0)
    assert str(answer.failure) == late


def test_plain_output_is_context_only_where_it_is_meant_for_the_model() -> None:
    assert answered("hello").context == ""
    assert answered("hello", event="SessionStart").context == "hello"
    assert answered("x" * 20_000, event="UserPromptSubmit").context == "x" * 9_999 + "…"


def test_approving_means_something_before_a_tool_only() -> None:
    assert answered('{"decision": "approve"}').choice == "allow"
    assert answered('{"decision": "approve"}', event="Stop").choice == ""
    assert answered('{"decision": "block"}', event="Stop").choice == "deny"
    assert answered("ignored", 2).reason == "why"


def test_allow_of_a_project_does_not_count() -> None:
    own, of_project = (HookAnswer(hook(own=one), choice="allow") for one in (True, False))
    assert combine_answers([of_project]).choice == ""
    assert combine_answers([of_project, own]).choice == "allow"
    failed = HookAnswer(hook(own=False), failure=answered("{").failure)
    assert combine_answers([own, failed]).choice == "deny"
    assert "/trust revoke" in str(combine_answers([failed]).reasons[0])


async def test_without_a_sandbox_a_project_hook_does_not_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    place = HookPlace(str(tmp_path), {"PATH": "/usr/bin:/bin"}, str(tmp_path), None, None)
    stays = Hook("PreToolUse", f"touch {made}", "settings.json", own=False)
    assert combine_answers([await run_hook(stays, {}, place)]).choice == "deny"
    assert not made.exists()
    leaves = Hook("PreToolUse", f"touch {made}", "hooks.json", own=True, sandboxed=False)
    assert (await run_hook(leaves, {}, place)).failure is None
    assert made.exists()


def test_a_change_that_cannot_be_made_is_an_error() -> None:
    request = ActionRequest("1", "c", "mcp__a__b", "a: b()", arguments={}, effect="external")
    with pytest.raises(ToolError, match="mcp__a__b cannot be changed"):
        with_input(request, {"x": 1}, lambda name: None)
