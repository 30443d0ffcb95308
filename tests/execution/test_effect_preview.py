"""The preview of what the paths of a command mean on this disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kogniterm.approval import classify
from kogniterm.execution.effect_preview import (
    measure_target,
    on_disk,
    paths_changed,
    plain_paths,
    preview,
)
from kogniterm.types import Effect, RiskReport
from tests.support.git_repositories import git
from tests.support.ordinary import ordinary
from tests.support.programs import needs


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("a.log", "b.log", ".hidden.log", "keep.txt"):
        (tmp_path / name).write_bytes(b"x" * 600)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print()\n")
    return tmp_path


def report(*effects: Effect) -> RiskReport:
    return RiskReport("command", "needs_approval", effects=effects)


def lines(work: Path, *effects: Effect) -> list[str]:
    return [str(line) for line in preview(report(*effects), str(work))]


def test_globs_are_expanded_counted_and_sized(work: Path) -> None:
    assert lines(work, Effect("delete", "*.log")) == [
        "Deletes *.log: 2 files, 1 KB; not tracked by git"
    ]


def test_folders_are_counted_with_what_is_in_them(work: Path) -> None:
    assert lines(work, Effect("delete", "src")) == ["Deletes src: 1 file, 8 B; not tracked by git"]


@needs("git")
def test_git_is_asked_what_it_could_bring_back(work: Path) -> None:
    git(work, "init", "-q")
    git(work, "add", "a.log")
    assert lines(work, Effect("overwrite", "a.log"), Effect("delete", "*.log")) == [
        "Deletes *.log: 2 files, 1 KB; 1 tracked by git, the rest not",
        "Overwrites a.log: 1 file, 600 B; all tracked by git",
    ]


def test_what_git_keeps_itself_is_not_said_to_be_untracked(work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".git" / "index").write_bytes(b"x" * 8)
    assert lines(work, Effect("delete", ".git")) == ["Deletes .git: 1 file, 8 B; git's own data"]


@needs("git")
def test_a_hostile_repository_runs_nothing(work: Path) -> None:
    git(work, "init", "-q")
    trap = work / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {work}/sprung\n")
    trap.chmod(0o755)
    git(work, "config", "core.fsmonitor", str(trap))
    lines(work, Effect("delete", "a.log"))
    assert not (work / "sprung").exists()


def test_serious_effects_come_first_and_new_files_are_named(work: Path) -> None:
    assert lines(
        work,
        Effect("network", "example.org"),
        Effect("write", "new.txt"),
        Effect("secret", "~/.ssh/id_rsa"),
        Effect("delete", "gone"),
    ) == [
        "Deletes gone: does not exist",
        "Creates new.txt",
        "Reads a secret: ~/.ssh/id_rsa",
        "Uses the network: example.org",
    ]


def test_what_only_the_run_shows_is_said_to_be_unknown(work: Path) -> None:
    assert lines(work, Effect("overwrite", "f….txt"), Effect("delete", "git checkout …")) == [
        "Deletes files known only at run time: git checkout …",
        "Creates or changes files known only at run time: f….txt",
    ]


def test_outside_the_workspace_is_marked(work: Path) -> None:
    (line,) = lines(work, Effect("write", "/tmp/definitely/not/there", outside=True))
    assert line == "Creates /tmp/definitely/not/there (outside the workspace)"


def test_a_new_file_outside_is_not_said_to_be_behind_a_link(work: Path, tmp_path: Path) -> None:
    command = f"echo x > {tmp_path.parent}/not-there-yet"
    found = on_disk(classify(command, cwd=str(work), workspace=str(work)), str(work))
    assert not any("link" in str(reason) for reason in found.reasons)


def test_the_paths_to_keep_are_all_that_change(work: Path) -> None:
    found = paths_changed(
        report(Effect("read", "keep.txt"), Effect("delete", "*.log"), Effect("write", "n")),
        str(work),
    )
    assert sorted(path.name for path in found) == ["a.log", "b.log", "n"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo x > new", ["Creates new"]),
        ("echo x > new >> a.log",
         ["Changes a.log: 1 file, 600 B; not tracked by git", "Creates new"]),
        ("cp a.log new", ["Creates new"]),
        ("cp a.log src", ["Creates src/a.log"]),
        ("cp a.log b.log src/", ["Creates src/a.log, src/b.log"]),
        ("cp *.log src", ["Creates src/a.log, src/b.log"]),
        ("cp -t src a.log", ["Creates src/a.log"]),
        ("cp keep.txt src/main.py", ["Overwrites src/main.py: 1 file, 8 B; not tracked by git"]),
        ("cp -r src copy", ["Creates copy"]),
        ("mv a.log new", ["Deletes a.log: 1 file, 600 B; not tracked by git", "Creates new"]),
        ("mv a.log src", ["Deletes a.log: 1 file, 600 B; not tracked by git", "Creates src/a.log"]),
        ("install -m 644 a.log src", ["Creates src/a.log"]),
        ("install -d one two", ["Creates one, two"]),
        ("ln -s a.log link", ["Creates link"]),
        ("ln -s src/main.py", ["Creates main.py"]),
        ("tee one two < a.log", ["Creates one, two"]),
        ("dd if=a.log of=image", ["Creates image"]),
        ("curl -o page http://h/x", ["Creates page", "Uses the network: http://h/x"]),
        ("curl -O http://h/x.tgz", ["Creates x.tgz", "Uses the network: http://h/x.tgz"]),
        ("wget -q http://h/y", ["Creates y", "Uses the network: http://h/y"]),
        ("sed -i.bak s/x/y/ a.log",
         ["Overwrites a.log: 1 file, 600 B; not tracked by git", "Creates a.log.bak"]),
        ("sed -i'old/*' s/x/y/ a.log",
         ["Overwrites a.log: 1 file, 600 B; not tracked by git", "Creates old/a.log"]),
        ("split a.log part-", ["Creates or changes files known only at run time: part-…"]),
        ("tar xf x.tar -C src", ["Creates or changes files known only at run time: src/…"]),
        ("tar xf x.tar one two", ["Creates one, two"]),
        ("touch one a.log", ["Changes a.log: 1 file, 600 B; not tracked by git", "Creates one"]),
        ("mkdir -p src deep/er", ["Creates deep/er"]),
        ("echo x > f$(date)", ["Creates or changes files known only at run time: f…"]),
        ("touch {1..10}", ["Creates 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"]),
    ],
)  # fmt: skip
def test_created_files_are_told(work: Path, command: str, expected: list[str]) -> None:
    found = classify(command, cwd=str(work), workspace=str(work))
    assert [str(line) for line in preview(found, str(work))] == expected


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("mkdir -p bin && cp built bin/", "workspace_write"),
        ("mkdir -p src && cp -r built src", "workspace_write"),
        ("mkdir -p bin && cp -r built bin && mkdir -p bin/built/x", "needs_approval"),
        ("mkdir -p bin && cp -a built bin && echo x > bin/built", "needs_approval"),
    ],
)
def test_a_folder_made_for_what_is_not_there_yet_hides_nothing(
    work: Path, command: str, label: str
) -> None:
    found = classify(command, cwd=str(work), workspace=str(work))
    assert on_disk(found, str(work)).label == label


def test_the_files_that_land_in_a_folder_are_the_ones_to_keep(work: Path) -> None:
    found = classify("cp *.log src; mkdir -p one/two", cwd=str(work), workspace=str(work))
    kept = sorted(str(path.relative_to(work)) for path in paths_changed(found, str(work)))
    assert kept == ["one", "src/a.log", "src/b.log"]


def test_a_link_out_of_the_workspace_is_followed_to_where_it_leads(
    work: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (work / "out").symlink_to(other)
    judged = classify("echo x > out/f", cwd=str(work), workspace=str(work))
    assert judged.label == "workspace_write"
    found = on_disk(judged, str(work))
    assert found.label == "needs_approval"
    lines = [str(line) for line in preview(found, str(work))]
    assert lines == [f"Creates {other}/f (outside the workspace)"]


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("rm out/f", "needs_approval"),
        ("mv out/f .", "needs_approval"),
        ("rm -r out/sub", "dangerous"),
        ("rm out", "needs_approval"),
    ],
)
def test_what_is_deleted_through_a_link_is_outside(
    work: Path, tmp_path_factory: pytest.TempPathFactory, command: str, label: str
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "sub").mkdir()
    (other / "f").touch()
    (work / "out").symlink_to(other)
    found = on_disk(classify(command, cwd=str(work), workspace=str(work)), str(work))
    outside = [Path(one.target).parent for one in found.effects if one.outside]
    assert (found.label, outside) == (label, [] if command == "rm out" else [other])


def test_pipes_and_loops_do_not_block(work: Path) -> None:
    os.mkfifo(work / "src" / "pipe")
    (work / "src" / "loop").symlink_to(work)
    assert lines(work, Effect("delete", "src"))[0].startswith("Deletes src: 3 files")


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("empty", "Deletes empty: empty folder"),
        ("listed", "Deletes listed: contents cannot be read"),
        ("shut", "Deletes shut: contents cannot be read"),
        ("shut/a.txt", "Deletes shut/a.txt: contents cannot be read"),
        ("part", "Deletes part: 1 file, ≥ 4 B; not tracked by git"),
        ("a.log/none", "Deletes a.log/none: does not exist"),
        ("~nobody-of-this-name", "Deletes ~nobody-of-this-name: does not exist"),
        ("a\ud800", "Deletes a\ud800: does not exist"),
    ],
)
def test_what_may_not_be_looked_at_is_not_told_as_nothing(
    work: Path, target: str, line: str
) -> None:
    for name in ("empty", "listed", "shut", "part", "part/shut"):
        (work / name).mkdir()
    for name in ("listed/a.txt", "shut/a.txt", "part/a.txt", "part/shut/b.txt"):
        (work / name).write_text("one\n")
    closed = {"listed": 0o600, "shut": 0o000, "part/shut": 0o000}
    for name, mode in closed.items():
        (work / name).chmod(mode)
    with ordinary():
        assert lines(work, Effect("delete", target)) == [line]
    for name in closed:
        (work / name).chmod(0o700)


def test_a_preview_that_comes_too_late_still_tells_that_there_is_something(work: Path) -> None:
    found = measure_target("*.log", work, deadline=0.0)
    assert (found.there, found.files, found.complete) == (True, 1, False)


def test_a_file_with_two_names_is_nothing_to_compare(work: Path) -> None:
    (work / "link").symlink_to("keep.txt")
    (work / "folder").symlink_to("src")
    (work / "hard").hardlink_to(work / "a.log")
    (work / "loop").symlink_to("loop")
    for reads, writes in (
        (["link"], []), ([], ["link"]), (["folder/main.py"], []), ([], ["folder/new"]),
        ([], ["hard"]), ([], ["a.log"]), (["/dev/tty"], []), ([], ["/dev/full"]), (["loop"], []),
    ):  # fmt: skip
        assert plain_paths(reads, writes, str(work)) is None


def test_paths_to_compare_are_absolute_and_without_links(work: Path, tmp_path: Path) -> None:
    os.mkfifo(work / "pipe")
    alias = tmp_path.parent / f"{tmp_path.name}-alias"
    alias.symlink_to(work)
    found = plain_paths(
        ["a.log", "./src/../b.log", "pipe", "/dev/null"], ["new/deep/x"], str(alias)
    )
    real = work.resolve()
    assert found is not None
    reads, writes = found
    assert reads == {f"{real}/a.log", f"{real}/b.log", "/dev/null"}
    assert writes == {f"{real}/pipe", f"{real}/new"}


def test_a_folder_that_a_command_enters_is_known_only_where_it_is_one(work: Path) -> None:
    (work / "inside").symlink_to("src")
    (work / "away").symlink_to("/usr")
    alias = work.parent / f"{work.name}-entered"
    alias.symlink_to(work)
    for root in (work, alias):
        for folder, expected in (
            ("src", f"{work.resolve()}/src"), (f"{root}/src", f"{work.resolve()}/src"),
            ("inside", "…"), ("away/bin", "…"), ("a.log", "…"), ("gone", "…"), ("$X", "…"),
            ("/usr", "/usr"), (".", ""),
        ):  # fmt: skip
            found = classify(f"cd {folder} && make", cwd=str(root), workspace=str(root))
            entered = {part.folder for part in on_disk(found, str(root)).parts}
            assert entered == {expected}, folder
