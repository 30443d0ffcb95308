"""Repositories whose configuration would run programs when git inspects them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kogniterm.approval import Circumstances, RuleSet, classify, load_rules
from kogniterm.execution.command_output import OutputStore
from kogniterm.execution.effect_preview import preview
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.host.safe_git import find_started
from kogniterm.protocols import Model
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.services.sandbox_service import SandboxService
from kogniterm.runtime.turn_ports import SessionModes
from kogniterm.settings.user_files import toml_values
from kogniterm.tools.search_files import files_below, search_text
from kogniterm.types import (
    ActionRequest,
    ApprovalMode,
    CommandResult,
    ModelInfo,
    RiskReport,
    Verdict,
)
from tests.support.git_repositories import git
from tests.support.programs import needs

pytestmark = needs("git")


def reading(*folders: Path) -> tuple[str, ...]:
    found = find_started(folders, frozenset(), reading=True, workspace=str(folders[0]))
    return found.settings


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitattributes").write_text("*.txt diff=ev filter=ev\n")
    return tmp_path


def test_a_repository_hidden_in_the_files_of_another(repository: Path) -> None:
    git(repository, "init", "-q", "--bare", "data")
    git(repository / "data", "config", "core.fsmonitor", "./evil")
    assert reading(repository) == ()
    assert reading(repository / "data") == ("core.fsmonitor",)


def test_the_users_own_settings_do_not_count(repository: Path, tmp_path: Path) -> None:
    assert reading(repository, tmp_path / "nowhere", Path("/")) == ()


def assess(folder: Path, command: str) -> RiskReport:
    policy = PolicyService(
        str(folder), SandboxService(None), Circumstances(), RuleSet(()), lambda: 0.0
    )
    return policy.assess(ActionRequest("a1", "c1", "execute_command", command), str(folder))


@pytest.mark.parametrize(
    "command", ["git status", "ls && git diff | cat", "cd src && git log -1", "git -C src show"]
)
def test_reading_such_a_repository_is_asked_about(repository: Path, command: str) -> None:
    (repository / "src").mkdir()
    assert assess(repository, command).label == "safe_readonly"
    git(repository, "config", "core.fsmonitor", "./evil")
    report = assess(repository, command)
    assert report.label == "needs_approval"
    assert "core.fsmonitor" in str(report.reasons[0])
    assert assess(repository, "ls").label == "safe_readonly"


def add_hook(folder: Path, name: str, mode: int = 0o755) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hook = folder / name
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(mode)


@pytest.mark.parametrize("command", ["git commit -m x", "cd src && git add . && git stash"])
def test_changing_a_repository_with_hooks_is_asked_about(repository: Path, command: str) -> None:
    (repository / "src").mkdir()
    hooks = repository / ".git" / "hooks"
    add_hook(hooks, "pre-push.sample")
    add_hook(hooks, "commit-msg", mode=0o644)
    assert assess(repository, command).label == "workspace_write"
    add_hook(hooks, "pre-commit")
    report = assess(repository, command)
    assert report.label == "needs_approval"
    assert "Runs the repository's own hooks (pre-commit)" in str(report.reasons[0])
    assert assess(repository, "git status").label == "safe_readonly"
    assert not (repository / "ran").exists()


def test_a_hook_that_a_reader_runs_is_asked_about(repository: Path) -> None:
    add_hook(repository / ".git" / "hooks", "post-index-change")
    assert assess(repository, "git status").label == "needs_approval"


def test_hooks_in_a_folder_that_the_repository_names_count(repository: Path) -> None:
    git(repository, "config", "core.hooksPath", ".husky")
    add_hook(repository / ".husky", "pre-commit")
    assert assess(repository, "git commit -m x").label == "needs_approval"


def test_hooks_of_the_user_do_not_count(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    add_hook(home / "hooks", "pre-commit")
    (home / "config").write_text(f"[core]\n\thooksPath = {home}/hooks\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "config"))
    assert assess(repository, "git commit -m x").label == "workspace_write"


# --- programs of a repository, without a sandbox ------------------------------------------------


def verdict(
    folder: Path, command: str, *, boxed: bool = False, mode: ApprovalMode = "auto"
) -> Verdict:
    """Return the verdict on `command` in auto mode with `--no-sandbox`, or in a sandbox."""
    box = Sandbox("bubblewrap", str(folder), str(folder)) if boxed else None
    policy = PolicyService(
        str(folder),
        SandboxService(box),
        Circumstances(unsandboxed_ok=True),
        RuleSet(()),
        lambda: 0.0,
    )
    request = ActionRequest("a1", "c1", "execute_command", command)
    report = policy.assess(request, str(folder))
    return policy.judge(request, report, modes_of(mode), str(folder))


def modes_of(approval: ApprovalMode) -> SessionModes:
    """Return the modes of a session whose model has an arbitrary size."""
    info = ModelInfo("scripted:x", "scripted", 32_000, 1_000)
    return SessionModes(cast(Model, SimpleNamespace(info=info)), approval)


READERS = (
    "git status",
    "git diff",
    "cd sub && git log -1",
    "git -C sub status",
    "(cd sub; git diff)",
)
RUNS = [
    ("core.fsmonitor", READERS),
    ("diff.external", READERS),
    ("filter.ev.clean", READERS),
    ("diff.ev.textconv", READERS),
    ("gpg.program", READERS),
    ("core.sshCommand", ("git fetch",)),
    ("remote.x.uploadpack", ("git fetch",)),
    ("core.editor", ("git commit", "git add . && git commit -m x")),
    ("sequence.editor", ("git rebase -i HEAD~2",)),
    ("merge.ev.driver", ("git merge b",)),
    ("credential.helper", ("git push",)),
    ("credential.https://x.helper", ("git fetch",)),
    ("trailer.x.command", ("git commit -m x",)),
    ("submodule.x.update", ("git submodule update",)),
    ("alias.st", ("git st", "cd sub && git st")),
    ("difftool.x.cmd", ("git difftool",)),
    ("tar.x.command", ("git archive HEAD",)),
]


@pytest.mark.parametrize(
    ("name", "command"), [(name, command) for name, commands in RUNS for command in commands]
)
def test_without_a_sandbox_a_repositorys_program_is_never_run_unasked(
    repository: Path, name: str, command: str
) -> None:
    (repository / "sub").mkdir()
    before = verdict(repository, command)
    git(repository, "config", name, "!./evil" if name.startswith("alias") else "./evil")
    found = verdict(repository, command)
    assert (before.kind, found.kind) == ("allow", "ask"), command
    assert name.lower() in str(found.reasons[0])
    assert verdict(repository, command, boxed=True).kind == "allow"


def test_the_programs_of_the_main_repository_count_in_its_worktree(repository: Path) -> None:
    git(repository, *COMMIT)
    git(repository, "worktree", "add", "-q", "other")
    git(repository, "config", "core.fsmonitor", "./evil")
    assert verdict(repository / "other", "git status").kind == "ask"


COMMIT = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")


@pytest.mark.parametrize(
    "command",
    [
        "GIT_DIR=elsewhere git status",
        "export GIT_DIR=elsewhere; git status",
        "env GIT_WORK_TREE=/ git status",
        "GIT_CONFIG_GLOBAL=x git status",
        "git --git-dir=evil.git status",
        "git --git-dir evil.git log",
        "git --exec-path=bin status",
        'cd "$(cat where)" && git status',
        'git -C "$x" status',
        "cd - && git status",
        "tar xf a.tar && cd a && git status",
    ],
)
def test_a_repository_that_is_not_known_is_asked_about(repository: Path, command: str) -> None:
    git(repository, "init", "-q", "--bare", "evil.git")
    git(repository / "evil.git", "config", "core.fsmonitor", "./evil")
    assert verdict(repository, command).kind == "ask"


def test_a_variable_that_an_earlier_command_exported_is_remembered(repository: Path) -> None:
    policy = PolicyService(
        str(repository),
        SandboxService(None),
        Circumstances(unsandboxed_ok=True),
        RuleSet(()),
        float,
    )
    command = "export GIT_DIR=elsewhere"
    policy.after_run(command, CommandResult(command, "exited", 0, "", 0.0, str(repository)), None)
    request = ActionRequest("a1", "c1", "execute_command", "git status")
    report = policy.assess(request, str(repository))
    assert "GIT_DIR" in str(report.reasons[0])


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git add . && git commit -m x",
        "mkdir new && cd new && git init && git add .",
        "git clone https://example.org/x && cd x && git log",
        "npm test && git diff",
        "git st",
    ],
)
def test_harmless_repositories_are_left_alone(repository: Path, command: str) -> None:
    git(repository, "config", "filter.lfs.process", "git-lfs filter-process")
    git(repository, "config", "credential.helper", "store")
    git(repository, "config", "alias.other", "!./evil")
    assert verdict(repository, command).kind == "allow"


def test_neither_a_rule_nor_a_lease_lets_a_repository_run_its_programs(repository: Path) -> None:
    git(repository, "config", "core.fsmonitor", "./evil")
    rules = load_rules(
        toml_values("policy.toml", '[[rule]]\ndecision = "allow"\nprogram = "git"\n')
    )
    policy = PolicyService(
        str(repository),
        SandboxService(None),
        Circumstances(unsandboxed_ok=True),
        rules,
        lambda: 0.0,
    )
    request = ActionRequest("a1", "c1", "execute_command", "git status")
    modes: tuple[ApprovalMode, ...] = ("manual", "auto")
    for mode in modes:
        report = policy.assess(request, str(repository))
        assert policy.judge(request, report, modes_of(mode), str(repository)).kind == "ask"


# --- git as the host process runs it ------------------------------------------------------------

HOSTILE = """[core]
	fsmonitor = {evil}
	hooksPath = hooks
	pager = {evil}
	editor = {evil}
	askPass = {evil}
	sshCommand = {evil}
	gitProxy = {evil}
	alternateRefsCommand = {evil}
	repositoryformatversion = 1
[extensions]
	partialClone = far
[remote "far"]
	promisor = true
	url = ext::{evil}
	uploadpack = {evil}
	vcs = evil
[protocol]
	allow = always
[protocol "ext"]
	allow = always
[diff]
	external = {evil}
[diff "ev"]
	textconv = {evil}
	command = {evil}
[filter "ev"]
	clean = {evil}
	smudge = {evil}
	process = {evil}
	required = true
[credential]
	helper = !{evil}
[gpg]
	program = {evil}
[log]
	showSignature = true
[pager]
	ls-files = {evil}
	config = {evil}
	rev-parse = {evil}
[alias]
	ls-files = !{evil}
	config = !{evil}
	rev-parse = !{evil}
[include]
	path = /dev/null
"""


def make_hostile(folder: Path) -> Path:
    """Make a repository whose settings all name a program that creates the file `ran`."""
    git(folder, "init", "-q")
    for name in ("a.txt", "sub/b.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("one\n")
    git(folder, "add", ".")
    git(folder, *COMMIT)
    evil = folder / "evil"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> {folder}/ran\nexit 1\n')
    evil.chmod(0o755)
    (folder / ".gitattributes").write_text("* diff=ev filter=ev merge=ev\n")
    (folder / ".git" / "config").write_text(HOSTILE.format(evil=evil))
    hooks = folder / "hooks"
    for place in (hooks, folder / ".git" / "hooks"):
        for name in ("post-index-change", "fsmonitor-watchman", "post-checkout", "pre-commit"):
            add_hook(place, name)
            (place / name).write_text(evil.read_text())
    for name in ("a.txt", "sub/b.txt"):
        (folder / name).write_text("two two\n")
    return folder / "ran"


def plain_git_runs(folder: Path, ran: Path) -> bool:
    """Return whether `git status`, as a user types it, runs the repository's programs."""
    subprocess.run(["git", "status"], cwd=folder, check=False, capture_output=True)
    return ran.exists()


async def test_nothing_that_the_host_asks_git_runs_a_repositorys_program(repository: Path) -> None:
    ran = make_hostile(repository)
    assert "a.txt" in {str(path) for path in files_below(repository, [])}
    report = classify("rm -r sub a.txt", cwd=str(repository), workspace=str(repository))
    assert any("tracked by git" in str(line) for line in preview(report, str(repository)))
    for command in ("git status", "git diff", "git commit -m x", "git st"):
        assert assess(repository, command).label == "needs_approval"
    outputs = OutputStore(repository.parent / "outputs")
    tool = search_text(lambda: str(repository), str(repository), lambda path: False, outputs)
    assert "a.txt:1:two two" in (await tool.run({"pattern": "two"})).text
    assert not ran.exists(), ran.read_text()
    assert plain_git_runs(repository, ran)
