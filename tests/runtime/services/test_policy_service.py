"""Variables filled from data stay untrusted, whether read inside or outside of a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.approval import Circumstances, RuleSet
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.services.sandbox_service import SandboxService
from kogniterm.types import ActionRequest, CommandResult


@pytest.fixture
def policy(tmp_path: Path) -> PolicyService:
    box = Sandbox("bubblewrap", str(tmp_path), str(tmp_path))
    return PolicyService(
        str(tmp_path), SandboxService(box), Circumstances(), RuleSet(()), lambda: 0.0
    )


def ran(policy: PolicyService, command: str, *, inside: bool) -> None:
    result = CommandResult(command, "exited", 0, "", 0.0, policy.workspace)
    policy.after_run(command, result, policy.sandbox.box if inside else None)


def label(policy: PolicyService, command: str) -> str:
    request = ActionRequest("a1", "c1", "execute_command", command)
    return policy.assess(request, policy.workspace).label


@pytest.mark.parametrize("inside", [True, False])
def test_a_value_that_was_read_is_suspect_on_both_sides(
    policy: PolicyService, inside: bool
) -> None:
    assert label(policy, "find $x") != "safe_readonly"
    ran(policy, "x=5", inside=False)
    assert label(policy, "find $x") == "safe_readonly"
    ran(policy, "x=$(cat f)", inside=inside)
    assert label(policy, "find $x") != "safe_readonly"


def test_a_value_read_inside_stays_suspect_until_it_is_given_inside(policy: PolicyService) -> None:
    ran(policy, "x=$(cat f)", inside=True)
    ran(policy, "x=5", inside=False)
    assert label(policy, "find $x") != "safe_readonly"
    ran(policy, "x=5", inside=True)
    assert label(policy, "find $x") == "safe_readonly"


def test_a_value_read_outside_is_not_made_harmless_by_one_inside(policy: PolicyService) -> None:
    ran(policy, "x=$(cat f)", inside=False)
    ran(policy, "x=5", inside=True)
    assert label(policy, "find $x") != "safe_readonly"


def test_a_command_that_failed_leaves_no_value(policy: PolicyService) -> None:
    result = CommandResult("x=5; false", "exited", 1, "", 0.0, policy.workspace)
    policy.after_run("x=5; false", result, None)
    assert label(policy, "[[ x -gt 3 ]]") != "safe_readonly"
    ran(policy, "x=5", inside=False)
    assert label(policy, "[[ x -gt 3 ]]") == "safe_readonly"


def test_a_value_given_outside_is_harmless_on_both_sides(policy: PolicyService) -> None:
    ran(policy, "x=$(cat f)", inside=False)
    ran(policy, "x=5", inside=False)
    assert label(policy, "find $x") == "safe_readonly"
