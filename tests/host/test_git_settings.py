"""Attacks by the settings of a repository: each runs its canary in real git, and is asked about."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from kogniterm.approval import Circumstances, RuleSet
from kogniterm.execution.shell.shell_state import PROPOSED
from kogniterm.host import safe_files
from kogniterm.host.git_settings import is_harmless
from kogniterm.host.programs import SYSTEM_PATH
from kogniterm.host.safe_git import files_known_to_git, host_git
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.services.sandbox_service import SandboxService
from kogniterm.types import ActionRequest
from tests.host.test_safe_git import modes_of
from tests.support.git_repositories import git
from tests.support.programs import needs

pytestmark = needs("git")

EVIL = "EVIL"
"""Stands for a program that creates the canary."""
SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"
MISSING = "git show HEAD:a.txt"
FAR: Mapping[str, str] = {
    "core.repositoryformatversion": "1",
    "remote.far.promisor": "true",
    "remote.far.fetch": "+refs/heads/*:refs/remotes/far/*",
}
EXT: Mapping[str, str] = {**FAR, "remote.far.url": "ext::EVIL", "protocol.ext.allow": "always"}


def add_settings(folder: Path, settings: Mapping[str, str], evil: str) -> None:
    for name, value in settings.items():
        git(folder, "config", name.replace(EVIL, evil), value.replace(EVIL, evil))


def commit(folder: Path, text: str) -> str:
    (folder / "a.txt").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository with a merge of a conflict, a signed commit and a changed file."""
    folder = tmp_path_factory.mktemp("template")
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitattributes").write_text("*.txt diff=ev filter=ev merge=ev\n")
    first = commit(folder, "first")
    theirs = commit(folder, "theirs")
    git(folder, "reset", "-q", "--hard", first)
    ours = commit(folder, "ours")
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    merge = git(folder, "commit-tree", tree, "-p", ours, "-p", theirs, "-m", "merge")
    head, _, message = git(folder, "cat-file", "commit", merge).partition("\n\n")
    signed = f"{head}\n{SIGNATURE}\n{message}\n"
    name = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", data=signed)
    git(folder, "update-ref", "HEAD", name)
    (folder / "a.txt").write_text("changed\n")
    return folder


class Attacked:
    """A copy of the template, a program that creates the canary, and the home of its user."""

    def __init__(self, place: Path, template: Path) -> None:
        self.place = place
        self.workspace = place / "ws"
        shutil.copytree(template, self.workspace)
        (place / "home").mkdir()
        self.canary = place / "canary"
        self.program = place / "evil"
        self.program.write_text(f"#!/bin/sh\n: > {self.canary}\nexit 1\n")
        self.program.chmod(0o755)

    @property
    def evil(self) -> str:
        return str(self.program)

    @property
    def monitor(self) -> str:
        """Return the text of a configuration whose monitor is the program."""
        return f"[core]\n\tfsmonitor = {self.evil}\n"

    def store(self, name: str = "store") -> Path:
        """Return git's folder of a repository that lies outside the workspace's own `.git`."""
        folder = self.workspace / name
        git(self.workspace, "clone", "-q", ".", str(folder.with_name(f"{name}-tree")))
        shutil.move(folder.with_name(f"{name}-tree") / ".git", folder)
        shutil.rmtree(folder.with_name(f"{name}-tree"))
        with (folder / "config").open("a") as file:
            file.write(self.monitor)
        return folder

    def link(self, parent: Path, name: str) -> Path:
        """Make `name` a submodule of `parent` by its index alone."""
        head = git(self.workspace, "rev-parse", "HEAD")
        git(parent, "update-index", "--add", "--cacheinfo", f"160000,{head},{name}")
        folder = parent / name
        folder.mkdir(parents=True)
        return folder

    def runs(self, command: str, **variables: str) -> bool:
        """Return whether the program runs when a user types `command` in a terminal."""
        ours, theirs = pty.openpty()
        home = str(self.place / "home")
        env = {"PATH": SYSTEM_PATH, "HOME": home, **PROPOSED, **variables}
        with subprocess.Popen(
            ["bash", "-c", command], cwd=self.workspace, env=env, stdin=subprocess.DEVNULL,
            stdout=theirs, stderr=theirs,
        ):  # fmt: skip
            os.close(theirs)
            with suppress(OSError):  # EIO at its end
                while os.read(ours, 4096):
                    pass
        os.close(ours)
        return self.canary.exists()

    def policy(self) -> PolicyService:
        """Return a policy that allows everything that only reads."""
        unasked = Circumstances(safe_unasked=True)
        return PolicyService(str(self.workspace), SandboxService(None), unasked, RuleSet(()), float)

    def is_asked(self, command: str) -> bool:
        """Return whether `command` is asked about where everything that only reads is allowed."""
        policy = self.policy()
        request = ActionRequest("a1", "c1", "execute_command", command)
        report = policy.assess(request, str(self.workspace))
        found = policy.judge(request, report, modes_of("manual"), str(self.workspace))
        assert not self.canary.exists()
        assert (found.kind == "ask") == (report.label != "safe_readonly")
        return found.kind == "ask"


@pytest.fixture
def attacked(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Attacked:
    made = Attacked(tmp_path, template)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return made


def without_file(attacked: Attacked) -> None:
    """Take a file's content out of the repository, as a partial clone has none of it."""
    name = git(attacked.workspace, "rev-parse", "HEAD:a.txt")
    (attacked.workspace / ".git" / "objects" / name[:2] / name[2:]).unlink()


MAN = {"man.viewer": "x", "man.x.cmd": EVIL}
WEB = {"help.format": "web", "help.htmlpath": "http://127.0.0.1"}
REMERGED = {"merge.ev.driver": EVIL}
SETTINGS: list[tuple[str, Mapping[str, str]]] = [
    ("git status", {"core.fsmonitor": EVIL}),
    ("git -C . ls-files -m", {"core.fsmonitor": EVIL}),
    ("git diff", {"diff.external": EVIL}),
    ("git diff", {"diff.ev.command": EVIL}),
    ("git log -p", {"diff.ev.textconv": EVIL}),
    ("git stash list; git show HEAD^", {"diff.ev.textconv": EVIL}),
    ("git blame a.txt", {"diff.ev.textconv": EVIL}),
    ("git diff", {"filter.ev.clean": EVIL}),
    ("git diff --stat", {"filter.ev.process": EVIL}),
    ("git log --remerge-diff", REMERGED),
    ("git show --remerge-diff", REMERGED),
    ("git show --diff-merges=remerge", REMERGED),
    ("git log -p --diff-merges=r", REMERGED),
    ("git log -p --diff-merges=on", REMERGED | {"log.diffMerges": "remerge"}),
    ("git log -m -p", REMERGED | {"log.diffMerges": "r"}),
    ("git log", {"gpg.program": EVIL, "log.showSignature": "true"}),
    ("git show", {"gpg.openpgp.program": EVIL, "format.pretty": "%G?"}),
    ("git log --pretty=x", {"gpg.program": EVIL, "pretty.x": "%G?"}),
    ("env -i git log", {"core.pager": EVIL}),
    ("env -u GIT_PAGER git branch", {"pager.branch": EVIL}),
    ("env -i git config --list", {"pager.config": EVIL}),
    ("git log --help", MAN),
    ("git status --help", MAN),
    ("git --help log", MAN),
    ("git -h log", MAN),
    ("git log --help", WEB | {"help.browser": "x", "browser.x.cmd": EVIL}),
    ("git log --help", WEB | {"web.browser": "x", "browser.x.cmd": EVIL}),
    ("git ST", {"alias.st": f"!{EVIL}"}),
]
FETCHING: list[tuple[str, Mapping[str, str]]] = [
    (MISSING, EXT),
    ("git log -p", EXT),
    ("git blame a.txt", EXT),
    ("git grep x HEAD", EXT),
    (MISSING, EXT | {"protocol.ext.allow": "user", "protocol.allow": "always"}),
    (MISSING, {**EXT, "extensions.partialClone": "far", "remote.far.promisor": "false"}),
    (
        MISSING,
        {**EXT, "remote.far.url": "https://127.0.0.1/", "url.ext::EVIL %S .insteadOf": "https:"},
    ),
    (MISSING, {**FAR, "remote.far.url": "ssh://h/x", "core.sshCommand": EVIL}),
    (MISSING, {**FAR, "remote.far.url": "git@h:x", "core.sshCommand": EVIL}),
    (MISSING, {**FAR, "remote.far.url": "git://127.0.0.1/x", "core.gitProxy": EVIL}),
    (MISSING, {**FAR, "remote.far.url": "./x", "remote.far.uploadpack": EVIL}),
    (MISSING, {**FAR, "remote.far.url": "file:///x", "remote.far.uploadpack": EVIL}),
]


def name_of(value: object) -> str:
    name = value if isinstance(value, str) else getattr(value, "__name__", value)
    return " ".join(value) if isinstance(value, dict) else str(name)


@pytest.mark.parametrize(("command", "settings"), SETTINGS, ids=name_of)
def test_a_setting_that_runs_a_program(
    attacked: Attacked, command: str, settings: Mapping[str, str]
) -> None:
    add_settings(attacked.workspace, settings, attacked.evil)
    assert attacked.is_asked(command)
    assert attacked.runs(command)


@pytest.mark.parametrize(("command", "settings"), FETCHING, ids=name_of)
def test_a_partial_clone_that_runs_a_program(
    attacked: Attacked, command: str, settings: Mapping[str, str]
) -> None:
    without_file(attacked)
    add_settings(attacked.workspace, settings, attacked.evil)
    assert attacked.is_asked(command)
    assert attacked.runs(command)


# --- other places of settings, and other repositories --------------------------------------------


def linked_submodule(attacked: Attacked) -> None:
    folder = attacked.link(attacked.workspace, "lib")
    (folder / ".git").write_text(f"gitdir: {attacked.store()}\n")


def submodule_of_a_submodule(attacked: Attacked) -> None:
    folder = attacked.link(attacked.workspace, "lib")
    git(folder, "init", "-q")
    (attacked.link(folder, "deep/er") / ".git").write_text(f"gitdir: {attacked.store()}\n")


def submodule_in_modules(attacked: Attacked) -> None:
    linked_submodule(attacked)
    modules = attacked.workspace / ".git" / "modules"
    modules.mkdir()
    shutil.move(attacked.workspace / "store", modules / "lib")
    (attacked.workspace / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n")


def submodule_with_a_chain(attacked: Attacked) -> None:
    folder = attacked.link(attacked.workspace, "lib")
    store = attacked.store()
    inner = store / "worktrees" / "x"
    inner.mkdir(parents=True)
    (inner / "commondir").write_text("../..\n")
    (inner / "gitdir").write_text(f"{folder}/.git\n")
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git").write_text(f"gitdir: {inner}\n")


def submodule_with_another_worktree(attacked: Attacked) -> None:
    """Make a submodule whose own submodule lies in a folder that its setting names."""
    folder = attacked.link(attacked.workspace, "lib")
    git(folder, "init", "-q")
    elsewhere = attacked.workspace / "elsewhere"
    deep = attacked.link(folder, "deep")
    elsewhere.mkdir()
    shutil.move(deep, elsewhere / "deep")
    git(folder, "config", "core.worktree", "../../elsewhere")
    (elsewhere / "deep" / ".git").write_text(f"gitdir: {attacked.store()}\n")


def submodule_with_worktree_settings(attacked: Attacked) -> None:
    folder = attacked.link(attacked.workspace, "lib")
    git(folder, "init", "-q")
    git(folder, "config", "extensions.worktreeConfig", "true")
    (folder / ".git" / "config.worktree").write_text(attacked.monitor)


def worktree_settings(attacked: Attacked) -> None:
    git(attacked.workspace, "config", "extensions.worktreeConfig", "true")
    (attacked.workspace / ".git" / "config.worktree").write_text(attacked.monitor)


def included(attacked: Attacked) -> None:
    (attacked.workspace / "more").write_text(attacked.monitor)
    git(attacked.workspace, "config", "include.path", "../more")


def included_twice(attacked: Attacked) -> None:
    included(attacked)
    (attacked.workspace / "other").write_text("[include]\n\tpath = more\n")
    git(attacked.workspace, "config", "include.path", "../other")


def included_by_condition(attacked: Attacked) -> None:
    (attacked.workspace / "more").write_text(attacked.monitor)
    git(attacked.workspace, "config", "includeIf.onbranch:main.path", "../more")


def included_by_the_user(attacked: Attacked) -> None:
    """Have the user's own settings include a file that commands can write."""
    (attacked.workspace / "more").write_text(attacked.monitor)
    own = attacked.place / "home" / ".gitconfig"
    own.write_text(f"[include]\n\tpath = {attacked.workspace}/more\n")


def settings_of_the_user_linked(attacked: Attacked) -> None:
    (attacked.workspace / "gitconfig").write_text(attacked.monitor)
    (attacked.place / "home" / ".gitconfig").symlink_to(attacked.workspace / "gitconfig")


def unusual_text(attacked: Attacked) -> None:
    text = (
        f'[user] name = "a\\nb" ; \\\n[CORE]FSMonitor="{attacked.evil[:5]}"\\\n{attacked.evil[5:]}'
    )
    (attacked.workspace / ".git" / "config").write_text("\ufeff[core]\n\tbare = false\n" + text)


def folder_that_is_a_repository(attacked: Attacked) -> None:
    for entry in sorted((attacked.workspace / ".git").iterdir()):
        if entry.is_dir():
            shutil.copytree(entry, attacked.workspace / entry.name)
        else:
            shutil.copy(entry, attacked.workspace / entry.name)
    git(attacked.workspace, "--bare", "config", "diff.ev.textconv", attacked.evil)


def hooks_of_a_submodule(attacked: Attacked) -> None:
    folder = attacked.link(attacked.workspace, "lib")
    git(folder, "init", "-q")
    commit(folder, "text")
    git(folder, "config", "core.hooksPath", str(attacked.workspace / "tools"))
    (attacked.workspace / "tools").mkdir()
    shutil.copy(attacked.program, attacked.workspace / "tools" / "post-index-change")
    os.utime(folder / "a.txt", (1, 1))


def removed_submodule(attacked: Attacked) -> None:
    """Keep a submodule of an earlier commit, with a text converter; the user shows such changes."""
    folder = attacked.link(attacked.workspace, "lib")
    git(folder, "init", "-q")
    (folder / ".gitattributes").write_text("* diff=ev\n")
    one, two = commit(folder, "one"), commit(folder, "two")
    git(folder, "config", "diff.ev.textconv", attacked.evil)
    for head in (one, two):
        git(attacked.workspace, "update-index", "--cacheinfo", f"160000,{head},lib")
        git(attacked.workspace, "commit", "-q", "-m", "lib")
    git(attacked.workspace, "rm", "-q", "--cached", "lib")
    git(attacked.workspace, "commit", "-q", "-m", "no lib")
    own = attacked.place / "home" / ".gitconfig"
    own.write_text("[diff]\n\tsubmodule = diff\n")


def bisecting(attacked: Attacked) -> None:
    git(attacked.workspace, "checkout", "-q", ".")
    git(attacked.workspace, "bisect", "start", "HEAD", "HEAD^")
    add_settings(attacked.workspace, {"alias.st": f"!{EVIL}"}, attacked.evil)


def symbolic_head(attacked: Attacked) -> None:
    linked_submodule(attacked)
    head = attacked.workspace / "store" / "HEAD"
    head.unlink()
    head.symlink_to("refs/heads/none")


def itself(attacked: Attacked) -> None:
    """Have the repository of the workspace run the program, and one in it not."""
    git(attacked.workspace, "init", "-q", "ok")
    git(attacked.workspace, "config", "core.fsmonitor", attacked.evil)


def nested(attacked: Attacked) -> None:
    """Have a repository in the workspace run the program that is no submodule."""
    folder = attacked.workspace / "lib" / "sub"
    folder.mkdir(parents=True)
    git(attacked.workspace / "lib", "init", "-q")
    git(attacked.workspace / "lib", "config", "core.fsmonitor", attacked.evil)
    (attacked.workspace / "link").symlink_to("lib/sub")


PLACES: list[tuple[str, Callable[[Attacked], None]]] = [
    ("git status", linked_submodule),
    ("git diff", linked_submodule),
    ("git diff HEAD --stat", linked_submodule),
    ("cd lib && git status", linked_submodule),
    ("git status", submodule_of_a_submodule),
    ("git status", submodule_in_modules),
    ("git status", submodule_with_a_chain),
    ("git status", submodule_with_another_worktree),
    ("git status", submodule_with_worktree_settings),
    ("git status", worktree_settings),
    ("git status", included),
    ("git status", included_twice),
    ("git status", included_by_condition),
    ("git status", included_by_the_user),
    ("git status", settings_of_the_user_linked),
    ("git status", unusual_text),
    ("git --bare show HEAD^", folder_that_is_a_repository),
    ("env -u GIT_OPTIONAL_LOCKS git status", hooks_of_a_submodule),
    ("git log -p", removed_submodule),
    ("git bisect view st", bisecting),
    ("git status", symbolic_head),
    *(
        (command, itself)
        for command in (
            "mkdir x && cd x && git status",
            "cd nowhere/../ok; git status",
            "cd ok ok; git status",
            "cd ok & git status",
            "false && cd ok; git status",
            "[ -d none ] && cd ok; git status",
            "pushd -n ok; git status",
            "cd ok < none; git status",
        )
    ),
    *(
        (command, nested)
        for command in (
            "cd lib && git status",
            "cd nowhere; cd lib; git status",
            "find . -execdir git status \\;",
            "git -C link/.. status",
            "cd link && git -C .. status",
            "cd -P link/..; git status",
            "env -C link/.. git status",
            "echo lib status | xargs git -C",
            "printf 'lib\\0status' | xargs -0 git -C",
            "echo -e 'lib\\cx' | xargs -I% git -C % status",
        )
    ),
]


@pytest.mark.parametrize(("command", "make"), PLACES, ids=name_of)
def test_a_repository_that_runs_a_program(
    attacked: Attacked, command: str, make: Callable[[Attacked], None]
) -> None:
    make(attacked)
    assert attacked.is_asked(command)
    assert attacked.runs(command)


# --- what cannot be listed, and what is harmless -------------------------------------------------


def test_a_pipe_in_place_of_settings_is_not_waited_for(attacked: Attacked) -> None:
    config = attacked.workspace / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    assert attacked.is_asked("git status; git push")
    assert host_git_is_too_slow(attacked.workspace)


@pytest.mark.parametrize("name", [".gitignore", "sub/.gitignore", ".git/info/exclude"])
def test_a_pipe_for_what_is_ignored_is_not_waited_for(attacked: Attacked, name: str) -> None:
    pipe = attacked.workspace / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    (pipe.parent / "new").touch()
    with safe_files.folder(attacked.workspace.resolve()) as folder, pytest.raises(TimeoutError):
        files_known_to_git(folder, 86400)


def host_git_is_too_slow(folder: Path) -> bool:
    """Return whether git is not run because it would wait, although it may for a day."""
    with pytest.raises(TimeoutError):
        host_git(folder, "config", "--list", seconds=86400)
    return True


def test_a_repository_that_only_another_git_reads_is_asked_about(attacked: Attacked) -> None:
    settings = {"core.repositoryformatversion": "1", "extensions.ofLaterVersions": "1"}
    add_settings(attacked.workspace, settings, "")
    assert attacked.is_asked("git status")


def test_more_submodules_than_are_looked_at_are_asked_about(attacked: Attacked) -> None:
    head = git(attacked.workspace, "rev-parse", "HEAD")
    lines = [f"160000 {head}\tlib{number}\n" for number in range(301)]
    for number in range(301):
        (attacked.workspace / f"lib{number}" / ".git").mkdir(parents=True)
    git(attacked.workspace, "update-index", "--add", "--index-info", data="".join(lines))
    assert attacked.is_asked("git status")


def test_the_files_of_the_settings_decide_what_runs(attacked: Attacked) -> None:
    linked_submodule(attacked)
    included(attacked)
    policy = attacked.policy()
    request = ActionRequest("a1", "c1", "execute_command", "git status")
    report = policy.assess(request, str(attacked.workspace))
    assert {".git/config", "store/config", "more"} <= set(report.deciding)
    states = policy.file_states(request, report)
    (attacked.workspace / "more").write_text("")
    assert policy.changed_file(states) == "more"


REPOSITORIES = re.split(
    r"^--- ", (Path(__file__).parent / "repository_settings.txt").read_text(), flags=re.M
)[1:]
EVERYDAY = (
    "git status; git log --oneline -5; git log -p; git diff --stat HEAD; git show HEAD; "
    "git branch -vv; git blame a.txt; git grep -n x; git stash list; git describe --always"
)


@pytest.mark.parametrize("text", REPOSITORIES, ids=lambda text: text.partition("\n")[0])
def test_reading_an_ordinary_repository_is_not_asked_about(attacked: Attacked, text: str) -> None:
    place = f"{attacked.place.name}/ws"
    with (attacked.workspace / ".git" / "config").open("a") as file:
        file.write(text.partition("\n")[2].replace("WORKSPACE", place))
    assert not attacked.is_asked(EVERYDAY)


def test_an_ordinary_clone_with_submodules_and_worktrees(attacked: Attacked) -> None:
    for name in ("one", "two"):
        add = ("submodule", "--quiet", "add", str(attacked.workspace), f"vendor/{name}")
        git(attacked.workspace, "-c", "protocol.file.allow=always", *add)
    git(attacked.workspace, "commit", "-qm", "submodules")
    git(attacked.workspace, "worktree", "add", "-q", "other")
    git(attacked.workspace, "sparse-checkout", "set", "vendor")
    clone = ("clone", "-q", "--filter=blob:none", f"file://{attacked.workspace}", "part")
    git(attacked.workspace, *clone)
    assert not attacked.is_asked(EVERYDAY)
    assert not attacked.is_asked(f"cd vendor/one && {EVERYDAY}")
    assert not attacked.is_asked(f"cd other; {EVERYDAY}")


@pytest.mark.parametrize(
    ("name", "value", "harmless"),
    [
        ("lfs.extension.x.clean", "evil %f", False),
        ("filter.lfs.clean", "git-lfs clean -- %f; evil", False),
        ("filter.lfs.clean", "git-lfs clean -- %f\nevil", False),
        ("filter.lfs.process", "./git-lfs filter-process", False),
        ("Core.Pager", "less -oevil", False),
        ("core.pager", "less -FRX", True),
        ("core.fsmonitor", "vi", False),
        ("remote.x.url", "ext::evil", False),
        ("remote.x.url", "evil::https://host/x", False),
        ("remote.x.url", "https://me:secret@host:8443/x.git", True),
        ("remote.x.url", "../x.git", False),
        ("remote.a.b.url", "git@host:a/b.git", True),
        ("remote.x.vcs", "evil", False),
        ("gc.recentObjectsHook", "evil", False),
        ("hook.x.command", "evil", False),
        ("merge.x.driver", "true ./evil", False),
        ("branch.x.mergeOptions", "-s evil", False),
        ("branch.x.anything", "evil", True),
        ("core.ofALaterGit", "1", False),
        ("diff.x.ofALaterGit", "1", False),
        ("gpg.ssh.defaultKeyCommand", "evil", False),
        ("uploadpack.packObjectsHook", "evil", False),
    ],
)
def test_which_settings_are_harmless(name: str, value: str, harmless: bool) -> None:
    assert is_harmless(name, value) == harmless
