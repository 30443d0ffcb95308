"""Permissions of projects: whose they are, where they hold, and how sessions share them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from kogniterm.approval import Circumstances, RuleSet
from kogniterm.approval.policy.permission_file import Permission
from kogniterm.errors import KognitermError, UsageError
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.runtime.services.permission_store import PermissionStore
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.services.sandbox_service import SandboxService
from kogniterm.types import ActionRequest, Verdict
from tests.host.test_safe_git import modes_of

COMMAND = ActionRequest("a1", "c1", "execute_command", "npm test")
EDIT = ActionRequest("a2", "c2", "write_file", "write a", arguments={"path": "a"}, effect="edit")


@pytest.fixture
def open_project(tmp_path: Path) -> Callable[[Path], PolicyService]:
    def opened(folder: Path) -> PolicyService:
        folder.mkdir(exist_ok=True)
        store = PermissionStore(tmp_path / "config/permissions.toml", tmp_path / "uses.json")
        return PolicyService(
            str(folder),
            SandboxService(None),
            Circumstances(),
            RuleSet(()),
            lambda: 1_700_000_000.0,
            permissions=store,
            bounds=Sandbox("none", str(folder), str(Path.home())),
        )

    return opened


def save(policy: PolicyService, request: ActionRequest = COMMAND, cwd: str = "") -> Permission:
    folder = cwd or policy.workspace
    report = policy.assess(request, folder)
    return policy.save(report, policy.offers(request, report, folder)[0], folder)


def verdict(policy: PolicyService, request: ActionRequest = COMMAND, cwd: str = "") -> Verdict:
    folder = cwd or policy.workspace
    return policy.judge(request, policy.assess(request, folder), modes_of("manual"), folder)


def test_a_permission_holds_in_later_and_in_open_sessions(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    first, open_already = open_project(tmp_path / "one"), open_project(tmp_path / "one")
    assert verdict(first).kind == verdict(open_already).kind == "ask"
    saved = save(first)
    assert saved.lease.id == "p1"
    for policy in (first, open_already, open_project(tmp_path / "one")):
        found = verdict(policy)
        assert (found.kind, found.lease_id) == ("allow", "p1")
    assert [lease.last_used for lease in first.leases] == [1_700_000_000.0]
    assert open_already.revoke("p1").id == "p1"
    for policy in (first, open_already, open_project(tmp_path / "one")):
        assert verdict(policy).kind == "ask"
        assert policy.leases == ()
        with pytest.raises(UsageError, match="Permission p1 not found"):
            policy.revoke("p1")


def test_another_project_has_nothing_of_it(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    save(open_project(one))
    other = open_project(two)
    assert verdict(other).kind == "ask"
    (two / "inside").symlink_to(one)
    assert verdict(other, cwd=str(two / "inside")).kind == "ask"
    above = open_project(tmp_path)
    assert verdict(above, cwd=str(one)).kind == "ask"
    (one / "sub").mkdir()
    assert verdict(open_project(one), cwd=str(one / "sub")).kind == "ask"
    assert verdict(open_project(one / "sub")).kind == "ask"


def test_a_new_folder_of_the_same_name_has_nothing_of_it(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    one = tmp_path / "one"
    save(open_project(one))
    shutil.rmtree(one)
    found = verdict(open_project(one))
    assert found.kind == "ask"
    assert [str(t.reason) for t in found.trace if t.origin == "lease p1"] == [
        f"another folder is now at {one}"
    ]
    one.rmdir()
    (tmp_path / "evil").mkdir()
    one.symlink_to(tmp_path / "evil")
    assert verdict(open_project(one)).kind == "ask"


def test_a_project_reached_by_a_link_is_the_same_project(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    save(open_project(tmp_path / "one"))
    (tmp_path / "link").symlink_to(tmp_path / "one")
    assert verdict(open_project(tmp_path / "link")).kind == "allow"


def test_edits_are_covered_but_not_through_links_nor_of_guarded_files(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    one = tmp_path / "one"
    policy = open_project(one)
    assert "command" not in save(policy, EDIT).toml

    def edit(path: str) -> str:
        request = ActionRequest(
            "a", "c", "write_file", "w", arguments={"path": path}, effect="edit"
        )
        return verdict(policy, request).kind

    (tmp_path / "outside").mkdir()
    (one / "led").symlink_to(tmp_path / "outside")
    (one / "file").symlink_to(tmp_path / "outside/x")
    assert edit("src/new.py") == edit("a") == "allow"
    for path in (
        "led/x", "file", "../x", "/etc/x", ".git/hooks/pre-commit", ".git/config", ".bashrc",
        ".mise.toml", ".pre-commit-config.yaml", "sub/.husky/pre-commit", ".env", "id_ed25519",
        ".kogniterm/policy.toml", str(tmp_path / "config/permissions.toml"),
    ):  # fmt: skip
        assert edit(path) == "ask", path
    assert policy.offers(EDIT, policy.assess(EDIT, policy.workspace), policy.workspace)
    guarded = ActionRequest(
        "a", "c", "write_file", "w", arguments={"path": ".mise.toml"}, effect="edit"
    )
    report = policy.assess(guarded, policy.workspace)
    assert policy.offers(guarded, report, policy.workspace) == ()
    assert verdict(policy, COMMAND).kind == "ask"


def test_sessions_that_write_at_once_lose_nothing(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    projects = [open_project(tmp_path / f"project{number}") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        ids = [one.lease.id for one in pool.map(save, projects)]
    assert sorted(ids) == [f"p{number}" for number in range(1, 9)]
    assert all(verdict(policy).kind == "allow" for policy in projects)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: pair[0].revoke(pair[1]), zip(projects, ids, strict=True)))
    assert all(policy.leases == () for policy in projects)


def test_a_file_with_a_mistake_grants_nothing_and_is_not_written(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    policy = open_project(tmp_path / "one")
    save(policy)
    file = tmp_path / "config/permissions.toml"
    broken = file.read_text() + "[[permission]]\nid = 5\n"
    file.write_text(broken)
    assert verdict(policy).kind == "ask"
    for change in (lambda: save(policy), lambda: policy.revoke("p1")):
        with pytest.raises(KognitermError, match="id must be a string"):
            change()
    assert file.read_text() == broken


def test_the_file_is_private_and_a_link_to_it_stays_one(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "dotfiles").mkdir()
    file, real = tmp_path / "config/permissions.toml", tmp_path / "dotfiles/permissions.toml"
    file.symlink_to(real)
    saved = save(open_project(tmp_path / "one"))
    assert file.is_symlink()
    assert saved.toml in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o600
    assert saved.granted == date(2023, 11, 14)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_closed_folder_is_named(
    open_project: Callable[[Path], PolicyService], tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir(mode=0o500)
    with pytest.raises(KognitermError, match=r"The permission was not saved: .*permissions\.toml"):
        save(open_project(tmp_path / "one"))
