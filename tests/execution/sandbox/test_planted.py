"""Files that configure other tools: write-protected where mounts can, else reported as changed."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.execution import open_executor
from kogniterm.execution.sandbox.confinement import Sandbox, SandboxKind
from kogniterm.execution.sandbox.planted import find_planted
from kogniterm.execution.sandbox.reach import folder_state
from kogniterm.host.programs import SYSTEM_PATH, find_program
from kogniterm.host.safe_git import repository_outside
from tests.support.executing import BUILT, KINDS, outside_tmp, sandbox_round
from tests.support.programs import require, require_sandbox

GIT = find_program("git")
NOBODY = {
    "PATH": SYSTEM_PATH,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{
        f"GIT_{who}_{what}": "nobody"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}


@pytest.fixture
def work() -> Iterator[Path]:
    with outside_tmp() as place:
        (place / "home" / "work").mkdir(parents=True)
        yield place / "home" / "work"


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest, work: Path) -> Sandbox:
    return sandbox_round(request.param, work, work.parent)


def git(folder: Path, *arguments: str) -> str:
    require("git")
    done = subprocess.run(
        [GIT, *arguments], cwd=folder, env=NOBODY, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def changed(box: Sandbox, *commands: str) -> list[str]:
    """Return the configuration of other tools that the commands changed, as `path how`."""
    before = box.search().states
    with open_executor(box.workspace, NOBODY, sandbox=box) as executor:
        for command in commands:
            executor.run(command, timeout=60)
    different = find_planted(before, box.search().states)
    return [f"{os.path.relpath(path, box.workspace)} {how}" for path, how in different]


def test_the_same_bytes_written_again_are_no_change(work: Path) -> None:
    box = sandbox_round("landlock", work, work.parent)
    (work / "Makefile").write_text("all:\n")
    again = "cp Makefile x && mv x Makefile && touch Makefile"
    assert changed(box, again) == []
    assert changed(box, "echo 'all: evil' > Makefile", again) == ["Makefile changed"]
    assert changed(box, "echo 'all: good' > Makefile") == ["Makefile changed"]


def test_a_page_that_a_job_writes_without_a_new_time_is_seen(work: Path) -> None:
    (work / "Makefile").write_text("all:\n")
    box = sandbox_round("landlock", work, work.parent)
    with (work / "Makefile").open("r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        page[:1] = b"a"  # dates the file; what is written before this reaches the disk does not
        before = box.search().states
        page[:] = b"evil\n"
        after = box.search().states
    assert find_planted(before, after) == ((f"{work}/Makefile", "changed"),)


ATTACKS = {
    "a hook": "echo evil > .git/hooks/pre-commit",
    "the config": "printf '[core]\\n fsmonitor = evil\\n' >> .git/config",
    "the config by git": "git config core.fsmonitor evil",
    "another repository in its place": (
        "mv .git away; git init -q . ; git config core.fsmonitor evil;"
        " echo evil > .git/hooks/update"
    ),
    "hooks moved away": "mv .git/hooks .git/old; mkdir .git/hooks; echo evil > .git/hooks/update",
    "info moved away": (
        "mv .git/info .git/old; mkdir .git/info; echo '* filter=evil' > .git/info/attributes"
    ),
    "a common folder": "echo ../elsewhere > .git/commondir",
    "a link for the repository": "rm -rf .git; mkdir x; ln -s x .git",
    "a nested repository's hook": "echo evil > sub/deep/.git/hooks/pre-commit",
    "a nested repository replaced": (
        "rm -rf sub; git init -q sub/deep; echo x > sub/deep/.git/hooks/a"
    ),
    "a submodule's hook": "echo evil > .git/modules/lib/hooks/post-checkout",
    "submodules moved away": (
        "mv .git/modules .git/m; mkdir -p .git/modules/lib/hooks; cp -r .git/m/lib/[HOr]*"
        " .git/modules/lib; echo evil > .git/modules/lib/hooks/post-checkout"
    ),
    "a worktree's folder": "echo /elsewhere > .git/worktrees/w/commondir",
    "a repository without a name": (
        "mkdir -p docs/objects docs/refs; echo 'ref: refs/heads/main' > docs/HEAD;"
        " printf '[core]\\n fsmonitor = evil\\n' > docs/config"
    ),
    "the hooks folder that the config names": "echo evil >> tools/hooks/pre-commit",
    "a file that the config includes": "printf '[core]\\n fsmonitor = evil\\n' >> shared.gitconfig",
    "tasks of an editor": "mkdir -p .vscode; echo evil > .vscode/tasks.json",
    "tasks of an editor that are there": "echo evil >> .idea/workspace.xml; rm -r .idea",
    "a folder's environment": "echo 'evil' > .envrc",
    "a link for a folder's environment": "ln -s notes .envrc",
    "servers of another agent": (
        "echo evil > sub/.mcp.json; mkdir sub/.claude; echo x > sub/.claude/s"
    ),
    "our own rules": "mkdir -p .kogniterm; echo evil > .kogniterm/policy.toml",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_nothing_that_runs_by_itself_is_left_unseen(box: Sandbox, work: Path, attack: str) -> None:
    git(work, "init", "-q")
    git(work, "config", "core.hooksPath", "tools/hooks")
    git(work, "config", "include.path", "../shared.gitconfig")
    git(work, "init", "-q", "sub/deep")
    git(work, "init", "-q", "--bare", ".git/modules/lib")
    for name in (".git/worktrees/w/commondir", ".idea/workspace.xml", "tools/hooks/pre-commit"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("as it was\n")
    (work / "shared.gitconfig").write_text("")
    (work / "docs").mkdir()
    before = steering(work)
    seen = changed(box, attack)
    assert seen or steering(work) == before, attack


STEERING = """
.cargo/config.toml .cargo/config mise.local.toml .config/mise.toml .yarn/releases/yarn.cjs .pdbrc
.Rprofile .Renviron .irbrc .pryrc .helix/config.toml .dir-locals-2.el .dir-locals.el .roo/mcp.json
.clinerules .amazonq/mcp.json .aider.conf.yml .junie/guidelines.md .crush.json AGENTS.md CLAUDE.md
sub/GEMINI.md .ghci .sqliterc .psqlrc .inputrc .tmux.conf .editorconfig .bazelrc .buckconfig
.mvn/extensions.xml .sbtopts .jvmopts .cmake/x .clangd .clang-tidy .rspec .rubocop.yml
.eslintrc.js .prettierrc.js .babelrc.js .stylelintrc.js .lintstagedrc.js .gitattributes
.gitmodules .github/workflows/x.yml .gitlab-ci.yml .envrc.local .env .python-version .nvmrc
.ruby-version .terraformrc .tflint.hcl .yamllint .direnvrc .pythonrc .sub/deep/er/x
a/b/c/d/e/f/g/h/i/j/.x Makefile GNUmakefile sub/common.mk package.json conftest.py sub/setup.py
pyproject.toml tox.ini noxfile.py build.rs Cargo.toml CMakeLists.txt meson.build BUILD.bazel
build.gradle.kts gradlew pom.xml go.work Gemfile Rakefile composer.json mix.exs Dockerfile
compose.yaml Vagrantfile Jenkinsfile justfile Taskfile.yml flake.nix shell.nix vite.config.ts
webpack.config.js eslint.config.mjs sitecustomize.py usercustomize.py x.pth requirements-dev.txt
pnpm-lock.yaml Pipfile .pnp.cjs lefthook-local.yml webpack.config.babel.js Snakefile build.zig
NuGet.config terragrunt.hcl Makefile.am configure.ac x.vcxproj Setup.hs Guardfile
sub/tools/hooks/pre-push git-hooks/commit-msg
""".split()  # noqa: SIM905 - read as a list of paths


@pytest.mark.parametrize("how", ["appeared", "changed", "removed"])
def test_whatever_other_tools_read_is_seen(work: Path, how: str) -> None:
    box = Sandbox("none", str(work), str(work.parent))
    before = box.search().states
    if how != "appeared":
        for name in STEERING:
            plant(work / name, "as it was")
        before = box.search().states
    for name in STEERING:
        (work / name).unlink() if how == "removed" else plant(work / name, "evil")
    for name in ("src/main.py", "notes.txt", "data.json", "src/hooks/readme", "lib/x.h"):
        plant(work / name, "plain", mode=0o644)
    different = find_planted(before, box.search().states)
    seen = {os.path.relpath(path, work) for path, _how in different}
    assert (seen, {how for _path, how in different}) == (set(STEERING), {how})


def plant(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def test_a_cache_is_one_entry_and_what_changes_in_it_is_none(work: Path) -> None:
    box = Sandbox("none", str(work), str(work.parent))
    before = box.search().states
    for name in (".venv/bin/x", ".tox/py/x", "node_modules/.bin/x", "build/Makefile"):
        plant(work / name, "x")
    after = box.search().states
    seen = [os.path.relpath(path, work) for path, _how in find_planted(before, after)]
    assert seen == ["node_modules", ".tox", ".venv"]
    plant(work / ".venv/bin/y", "y")
    assert find_planted(after, box.search().states) == ()
    (work / "sub").mkdir()
    (work / "sub" / "node_modules").symlink_to("/tmp")
    found = find_planted(after, box.search().states)
    assert [path for path, _how in found] == [f"{work}/sub/node_modules"]


def test_a_cache_of_data_only_is_no_entry(work: Path) -> None:
    box = Sandbox("none", str(work), str(work.parent))
    before = box.search().states
    for name in (".pytest_cache/.gitignore", "src/.mypy_cache/3.12/a.json", ".ruff_cache/x"):
        plant(work / name, "x")
    assert find_planted(before, box.search().states) == ()
    (work / ".hypothesis").symlink_to("/tmp")
    found = find_planted(before, box.search().states)
    assert [path for path, _how in found] == [f"{work}/.hypothesis"]


def test_only_the_short_list_is_refused(work: Path) -> None:
    box = Sandbox("none", str(work), str(work.parent))
    for name in ("Makefile", ".helix/config.toml", ".envrc"):
        plant(work / name, "x")
    assert [
        name
        for name in ("Makefile", ".helix/config.toml", ".envrc")
        if box.protects(f"{work}/{name}")
    ] == [".envrc"]
    assert box.search().kept == [f"{work}/.envrc"]


def test_a_search_says_where_it_stopped(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kogniterm.execution.sandbox.planted.MOST_ENTRIES", 10)
    for number in range(9):
        plant(work / f"near/f{number}", "x")
    box = Sandbox("none", str(work), str(work.parent))
    assert box.search().stopped == ""
    plant(work / "far/deep/x", "x")
    plant(work / "far/deep/.pdbrc", "x")
    found = box.search()
    assert found.stopped in (f"{work}/far", f"{work}/far/deep", f"{work}/near")


def steering(work: Path) -> dict[str, str]:
    """Return the contents of every file except git's objects, index and samples."""
    return {
        str(path): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in work.rglob("*")
        if (path.is_file() or path.is_symlink())
        and not {"objects", "old", "away", "m"} & set(path.relative_to(work).parts)
        and not path.name.endswith(".sample")
    }


@pytest.mark.parametrize("kind", BUILT)
@pytest.mark.parametrize("attack", ["hook", "config", "replace"])
def test_mounts_refuse_to_change_what_is_there(work: Path, attack: str, kind: SandboxKind) -> None:
    found = require_sandbox(kind)
    box = Sandbox(found.kind, str(work), str(work.parent), program=found.program)
    git(work, "init", "-q")
    (work / ".vscode").mkdir()
    command = {
        "hook": "echo evil > .git/hooks/pre-commit",
        "config": "echo evil >> .git/config; echo evil > .vscode/tasks.json",
        "replace": "mv .git away; rm -rf .git/hooks .vscode",
    }[attack]
    before = steering(work)
    assert changed(box, command) == []
    assert steering(work) == before


def test_ordinary_work_with_git_goes_on_unseen(box: Sandbox, work: Path) -> None:
    git(work, "init", "-q")
    (work / "a").write_text("one\n")
    seen = changed(
        box,
        "git add a && git commit -qm one && git checkout -qb two && echo two >> a",
        "git commit -qam two && git tag v1 && git checkout -q - && git merge -q two && git gc -q",
        "git stash list; git mv a b && git commit -qm moved && mkdir src && echo x > src/y",
    )
    assert seen == []
    assert git(work, "log", "--format=%s").split() == ["moved", "two", "one"]


def beside(work: Path, kind: str) -> Path:
    """Make a repository whose own folder lies beside the working tree; return the tree."""
    main, tree = work / "main", work / "tree"
    git(work, "init", "-q", str(main))
    git(main, "commit", "-qm", "first", "--allow-empty")
    if kind == "worktree":
        git(main, "worktree", "add", "-q", str(tree))
    elif kind == "submodule":
        tree = main / "part"
        git(work, "clone", "-q", "main", "other")
        allowed = ("-c", "protocol.file.allow=always")
        git(main, *allowed, "submodule", "--quiet", "add", str(work / "other"), "part")
    else:
        (tree := main / "sub").mkdir()
    return tree


@pytest.mark.parametrize("kind", ["worktree", "submodule", "subfolder"])
def test_git_works_where_its_own_folder_lies_outside_the_workspace(
    box: Sandbox, work: Path, kind: str
) -> None:
    tree = beside(work, kind)
    found = repository_outside(tree)
    assert found is not None
    own = Path(found[0])
    before = steering_of(own)
    inside = replace(box, workspace=str(tree), repository=found)
    seen = changed(inside, "echo x > a && git add a && git commit -qm done && git checkout -qb two")
    assert git(tree, "log", "--format=%s", "-1") == "done"
    assert seen == []
    attacked = changed(inside, f"echo evil > {own}/hooks/pre-commit; echo evil >> {own}/config")
    assert (steering_of(own) == before) is inside.gives.namespaces
    assert bool(attacked) is not inside.gives.namespaces


def steering_of(own: Path) -> list[str]:
    return [(own / "config").read_text(), *sorted(one.name for one in (own / "hooks").iterdir())]


def test_a_file_of_a_project_opens_no_foreign_repository(work: Path) -> None:
    git(work, "init", "-q", "main")
    beside(work / "main", "worktree")
    (forged := work / "forged").mkdir()
    for named in ("main/.git", "main/main/.git/worktrees/tree"):
        (forged / ".git").write_text(f"gitdir: {work}/{named}\n")
        assert repository_outside(forged) is None
    (forged / "circle").symlink_to("circle")
    (forged / ".git").write_text("gitdir: circle\n")
    assert repository_outside(forged) is None


def test_a_folder_of_packages_costs_no_search(box: Sandbox, work: Path) -> None:
    (work / "node_modules" / "a" / ".vscode").mkdir(parents=True)
    (work / "node_modules" / "a" / ".vscode" / "tasks.json").touch()
    assert [*box.search().states] == [f"{work}/node_modules"]


def test_the_search_follows_no_link(box: Sandbox, work: Path) -> None:
    elsewhere = work.parent / "elsewhere"
    (elsewhere / ".vscode").mkdir(parents=True)
    (elsewhere / ".vscode" / "tasks.json").touch()
    (work / "linked").symlink_to(elsewhere)
    (work / ".git").symlink_to(elsewhere)
    found = box.search()
    assert list(found.states) == [f"{work}/.git"]
    assert not found.kept
    assert not found.pinned


def test_names_are_found_in_a_large_workspace(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kogniterm.execution.sandbox.planted.MOST_ENTRIES", 1_000)
    for number in range(1_001):
        os.mknod(f"{work}/f{number}")
    (work / ".envrc").touch()
    assert f"{work}/.envrc" in Sandbox("none", str(work), str(work.parent)).search().states


@pytest.mark.parametrize("kind", BUILT)
def test_a_command_that_still_runs_moves_no_mount(work: Path, kind: SandboxKind) -> None:
    """A job exchanges folders for links while the next command's mounts are made."""
    found = require_sandbox(kind)
    outside = work.parent / "outside"
    outside.mkdir()
    box = Sandbox(found.kind, str(work), str(work.parent), program=found.program)
    flip = (
        "mkdir -p sub/d; (while :; do mkdir -p sub/.git/hooks .vscode; rm -rf sub/.git .vscode;"
        " ln -s ../../outside sub/.git; ln -s ../outside .vscode; rm sub/.git .vscode; done)"
        " >/dev/null 2>&1 &"
    )
    with open_executor(work, NOBODY, sandbox=box) as executor:
        executor.run(flip, timeout=60)
        for _ in range(15):
            assert executor.run("touch ../outside/x .vscode/x sub/.git/x; true").exit_code == 0
    assert list(outside.iterdir()) == []


def test_a_search_leaves_no_descriptor_open(box: Sandbox, work: Path) -> None:
    (work / "below").mkdir()
    box.search()  # what is imported with the first one may stay open
    before = len([*Path("/proc/self/fd").iterdir()])
    box.search()
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_a_folder_that_was_searched_before_is_searched_again_when_it_has_changed(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1 << 62)  # long after all changes
    sub, beside = work / "sub" / "deep", work.parent / "beside"
    for folder in (sub, beside):
        folder.mkdir(parents=True)
        (folder / "Makefile").touch()
    box = sandbox_round("landlock", work, work.parent)
    assert box.search().states.keys() == {f"{sub}/Makefile"}
    (sub / "Makefile").write_text("all:")
    known, count = folder_state(str(sub)), 0
    while folder_state(str(sub)) == known:  # clocks of file systems are coarse
        count += 1
        (sub / f".env{count}").touch()
    found = box.search().states
    assert found.keys() == {f"{sub}/Makefile", *(f"{sub}/.env{n + 1}" for n in range(count))}
    sub.parent.rename(work / "moved")
    (work / "sub").symlink_to(beside.parent)
    (work / "moved" / "deep" / "Makefile").unlink()
    assert not any("Makefile" in path for path in box.search().states)
