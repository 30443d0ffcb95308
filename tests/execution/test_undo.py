"""Undo restores overwritten, deleted and created files exactly, whether or not git tracks them."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.approval import classify
from kogniterm.errors import StorageError
from kogniterm.execution.effect_preview import UndoService, on_disk, preview
from kogniterm.execution.undo import FileDifference, FileSnapshot, Preimage, PreimageStore
from kogniterm.types import ActionRequest
from tests.support.ordinary import ordinary
from tests.support.two_writers import TwoWriters


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "sub").mkdir(mode=0o750)
    (folder / "sub" / "b.bin").write_bytes(b"\0\xff")
    (folder / "sub" / "link").symlink_to("../a.txt")
    (folder / "run.sh").write_text("echo hi\n")
    (folder / "run.sh").chmod(0o755)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> PreimageStore:
    return PreimageStore(tmp_path / "undo")


def snapshot(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        kind: object = "folder"
        if path.is_symlink():
            kind = ("link", str(path.readlink()))
        elif path.is_file():
            kind = ("file", path.read_bytes(), path.stat().st_mode)
        found[str(path.relative_to(folder))] = kind
    return found


def kept(store: PreimageStore, *paths: Path) -> Preimage:
    image = store.keep("1", "test", paths)
    assert image is not None
    return image


def changes(store: PreimageStore, image: Preimage) -> tuple[FileDifference, ...]:
    return store.way_back([image]).changes


def undo(store: PreimageStore, image: Preimage) -> tuple[str, ...]:
    """Undo an action that left what is there now."""
    store.note_left(image.id)
    (image,) = (one for one in store.images() if one.id == image.id)
    return store.restore(store.way_back([image]))


@pytest.mark.parametrize(
    "command",
    [
        "rm -r sub a.txt",
        "echo two > a.txt",
        "chmod 600 run.sh; echo x >> run.sh",
        "rm -r sub && echo file > sub",
        "rm a.txt && mkdir a.txt && touch a.txt/x",
        "ln -sf /etc/passwd sub/link",
        "mv sub other && touch new.txt",
        "rm run.sh && ln -s a.txt run.sh",
    ],
)
def test_undo_brings_everything_back(work: Path, store: PreimageStore, command: str) -> None:
    before = snapshot(work)
    names = ("a.txt", "sub", "run.sh", "other", "new.txt")
    image = kept(store, *(work / name for name in names))
    subprocess.run(["bash", "-c", command], cwd=work, check=True)
    assert snapshot(work) != before
    assert undo(store, image)
    assert snapshot(work) == before
    assert changes(store, image) == ()


def test_an_undo_can_be_undone(work: Path, store: PreimageStore) -> None:
    image = kept(store, work / "a.txt")
    (work / "a.txt").write_text("changed\n")
    assert undo(store, image) == (str(work / "a.txt"),)
    redo = store.images()[0]
    assert redo.what == "undo of: test"
    store.restore(store.way_back([redo]))
    assert (work / "a.txt").read_text() == "changed\n"


def test_differences_show_text(work: Path, store: PreimageStore) -> None:
    image = kept(store, work / "a.txt", work / "new.txt")
    (work / "a.txt").write_text("two\n")
    (work / "new.txt").write_text("n")
    ((changed, created),) = store.changes([[image]])
    assert (changed.change, changed.before, changed.after) == ("modified", b"one\n", b"two\n")
    assert (created.change, created.before, created.after) == ("created", None, b"n")


@pytest.mark.parametrize("theirs", ["echo mine >> made", "rm made; mkdir made", "touch made"])
def test_what_changed_since_stays_and_comes_back_when_it_is_asked_for(
    work: Path, store: PreimageStore, theirs: str
) -> None:
    image = kept(store, work / "a.txt", work / "made")
    (work / "a.txt").write_text("two\n")
    (work / "made").write_text("new\n")
    store.note_left("1")
    subprocess.run(["bash", "-c", theirs], cwd=work, check=True)
    now = snapshot(work)
    (image,) = store.images()
    way = store.way_back([image])
    assert (way.kept, [one.path for one in way.changes]) == (
        (f"{work}/made",),
        [f"{work}/a.txt"],
    )
    store.restore(way)
    assert snapshot(work) == {**now, "a.txt": snapshot(work)["a.txt"]}
    assert (work / "a.txt").read_text() == "one\n"
    store.restore(store.way_back([image], everything=True))
    assert not (work / "made").exists()
    store.restore(store.way_back(store.images()[:1]))
    assert snapshot(work)["made"] == now["made"]


def test_files_at_the_top_of_everything_have_a_way_back(store: PreimageStore) -> None:
    image = Preimage(
        "1", 0.0, "rm", (FileSnapshot("/no-such-file", "link", 0o777, "0"),), (), after={}
    )
    assert [one.change for one in store.way_back([image]).changes] == ["deleted"]


@pytest.mark.parametrize("theirs", ["echo mine > a.txt", "mkfifo a.txt"])
def test_what_was_moved_stays_where_its_old_place_is_taken(
    work: Path, store: PreimageStore, theirs: str
) -> None:
    kept(store, work / "a.txt", work / "moved")
    (work / "moved").mkdir()
    (work / "a.txt").rename(work / "moved" / "a.txt")
    store.note_left("1")
    subprocess.run(["bash", "-c", theirs], cwd=work, check=True)
    way = store.way_back(store.images())
    assert (way.changes, set(way.kept)) == ((), {f"{work}/a.txt", f"{work}/moved"})
    store.restore(way)
    assert (work / "moved" / "a.txt").read_text() == "one\n"


def test_a_folder_that_was_made_anew_stays(work: Path, store: PreimageStore) -> None:
    kept(store, work / "made")
    (work / "made").mkdir()
    store.note_left("1")
    (work / "made").rmdir()
    (work / "made").mkdir()  # of the same inode on some file systems
    store.restore(store.way_back(store.images()))
    assert (work / "made").is_dir()


def test_what_is_no_copy_of_is_not_removed(work: Path, tmp_path: Path) -> None:
    store = PreimageStore(tmp_path / "undo", max_bytes=10)
    (work / "big").write_bytes(b"x" * 11)
    image = kept(store, work / "big", work / "moved", work / "made")
    (work / "big").rename(work / "moved")
    (work / "made").mkdir()
    (work / "made" / "big").write_bytes(b"x" * 11)
    assert undo(store, image) == ()
    assert (work / "moved").exists()
    assert (work / "made" / "big").exists()


def test_a_file_that_grew_beyond_the_limit_can_be_taken_back_once_it_is_small(
    work: Path, tmp_path: Path
) -> None:
    store = PreimageStore(tmp_path / "undo", max_bytes=10)
    undo_service = UndoService(store, work)
    kept(store, work / "a.txt")
    (work / "a.txt").write_text("more than ten bytes")
    store.note_left("1")
    way = undo_service.latest()
    assert (way.changes, way.kept) == ((), (f"{work}/a.txt",))
    store.restore(way)
    assert [image.undone for image in store.images()] == [False]
    (work / "a.txt").write_text("small")
    store.restore(store.way_back(store.images(), everything=True))
    assert (work / "a.txt").read_text() == "one\n"
    assert [image.undone for image in store.images()] == [False, True]


def test_undo_offers_the_last_action_although_its_files_changed_since(
    work: Path, store: PreimageStore
) -> None:
    undo_service = UndoService(store, work)
    acted(undo_service, "touch new")
    acted(undo_service, "echo two > a.txt")
    (work / "a.txt").write_text("mine\n")
    way = undo_service.latest()
    assert (way.images[0].what, way.changes, way.kept) == (
        "echo two > a.txt",
        (),
        (f"{work}/a.txt",),
    )
    store.restore(store.way_back(way.images, everything=True))
    assert (work / "a.txt").read_text() == "one\n"
    assert (work / "new").exists()


def acted(undo_service: UndoService, command: str) -> None:
    """Run a command that may change files as an action whose files are kept before."""
    work = str(undo_service.workspace)
    report = classify(command, cwd=work, workspace=work)
    number = str(len(undo_service.images()))
    undo_service.keep(ActionRequest(number, number, "execute_command", command), report)
    subprocess.run(["bash", "-c", command], cwd=work, check=True)
    undo_service.note_left(number)


@pytest.mark.parametrize(
    ("setup", "command"),
    [
        # through a link that is there
        ("ln -s a.txt l", "echo X > l"),
        ("ln -s a.txt l", "echo X >> l"),
        ("ln -s a.txt l", "echo X | tee l"),
        ("ln -s a.txt l", "cp run.sh l"),
        ("ln -s a.txt l", "chmod 600 l"),
        ("ln -s a.txt l", "truncate -s 0 l"),
        ("ln -s a.txt l", "exec > l; echo hi"),
        ("ln -s a.txt l; ln -s l m", "sort -o m run.sh"),
        ("ln -s ../a.txt sub/run.sh", "cp run.sh sub"),
        ("ln -s a.txt 1.x", "for f in *.x; do echo X > $f; done"),
        ("ln -s missing l", "echo X > l"),
        ("ln -s missing l", "touch l"),
        # through a link that the command makes
        ("", "ln a.txt b; echo new > b"),
        ("", "ln -s a.txt b; echo new > b"),
        ("", "ln -s a.txt b; ln -s b c; echo new > c"),
        ("", "(ln a.txt b); echo new > b"),
        ("", "ln a.txt sub; echo new > sub/a.txt"),
        ("", "ln -s ../run.sh sub/x; echo new > sub/x"),
        ("", "ln *.txt sub; echo new > sub/a.txt"),
        ("", "cp -l a.txt b; echo new > b"),
        ("", "cp -al sub d; echo new > d/b.bin"),
        ("", "cp -s $PWD/a.txt b; echo new > b"),
        ("", "ln -sf run.sh a.txt; echo new > a.txt"),
        ("ln -s sub k", "ln -sfn run.sh k"),
        ("", "ln -s nowhere sub; echo new > sub/b.bin"),
        ("", "ln a.txt b; chmod 600 b"),
        # another file in the place
        ("", "ln -f run.sh a.txt"),
        ("", "cp -lf run.sh a.txt"),
        ("ln run.sh c", "mv -f run.sh a.txt"),
        ("ln run.sh c", "rm a.txt; ln run.sh a.txt"),
        # the same file, which has other names
        ("ln a.txt b", "echo X > a.txt"),
        ("ln a.txt b", "echo X > a.txt; chmod 600 b"),
        ("ln a.txt b", "sed -i s/one/two/ a.txt"),
    ],
)
def test_what_links_lead_to_comes_back(
    work: Path, store: PreimageStore, setup: str, command: str
) -> None:
    subprocess.run(["bash", "-c", setup], cwd=work, check=True)
    undo_service, before = UndoService(store, work), snapshot(work)
    acted(undo_service, command)
    changed = snapshot(work)
    assert changed != before
    store.restore(undo_service.latest())
    assert snapshot(work) == before
    store.restore(undo_service.latest())
    assert snapshot(work) == changed


@pytest.mark.parametrize(
    "command",
    [
        "mv sub/link m; echo X > m",
        "cp -a sub/link m; echo X > m",
        "mv sub d; echo X > d/link",
        "cp -r sub d; cd d; echo X > link",
        "ln -s sub n; mv n m; echo X > m/b.bin",
        "cd gone; echo X > a.txt",
        "mkdir gone/in; cd gone/in; echo X > a.txt",
        "pushd run.sh; rm a.txt",
        "mv sub other; cd sub; echo X > a.txt",
        "ln a.txt h; cd h; echo X > a.txt",
    ],
)
def test_undo_promises_nothing_of_names_that_change_their_meaning(
    work: Path, store: PreimageStore, command: str
) -> None:
    undo_service = UndoService(store, work)
    report = on_disk(classify(command, cwd=str(work), workspace=str(work)), str(work))
    promise = undo_service.promise(ActionRequest("1", "1", "execute_command", command), report)
    assert (str(promise), report.label) == ("Cannot be undone: …", "needs_approval")
    assert undo_service.covers(report)  # by a copy of the whole workspace
    lines = [str(line) for line in preview(report, str(work))]
    assert "Creates or changes files known only at run time: …" in lines


@pytest.mark.parametrize(
    "command",
    [
        "mv a.txt m; echo X > m",
        "cp -r sub/b.bin m; sed -i s/x/y/ m",
        "mv sub/link m; echo X > a.txt",
        "cd sub; echo X > b.bin",
        "mkdir new && cd new && echo X > f",
        "ls; cd gone; ls; touch",
    ],
)
def test_undo_promises_what_names_surely_mean(
    work: Path, store: PreimageStore, command: str
) -> None:
    report = on_disk(classify(command, cwd=str(work), workspace=str(work)), str(work))
    assert not [one for one in report.effects if "…" in one.target]
    promise = UndoService(store, work).promise(
        ActionRequest("1", "1", "execute_command", command), report
    )
    changes = any(one.kind != "read" for one in report.effects)
    assert not changes or str(promise) == "Changes in the workspace can be undone with /undo."


@pytest.mark.parametrize(
    ("command", "promised"),
    [
        ("echo X > a.txt", True),
        ("rm a.txt", True),
        ("echo X > a.txt; rm a.txt", False),
        ("echo X > a.txt; sed -i s/X/Y/ a.txt", False),
        ("echo X > run.sh; rm run.sh", True),
    ],
)
def test_the_promise_names_a_hard_link_that_is_written_and_replaced(
    work: Path, store: PreimageStore, command: str, promised: bool
) -> None:
    os.link(work / "a.txt", work.parent / "other name")
    report = classify(command, cwd=str(work), workspace=str(work))
    request = ActionRequest("1", "1", "execute_command", command)
    told = "Changes in the workspace can be undone with /undo."
    named = "Can be undone with /undo, except a.txt (too large, unreadable or a hard link)."
    assert str(UndoService(store, work).promise(request, report)) == (told if promised else named)


def test_undo_leaves_a_file_outside_that_took_the_place(
    work: Path, store: PreimageStore, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("theirs")
    os.link(tmp_path / "outside", work / "b")
    undo_service = UndoService(store, work)
    acted(undo_service, "mv -f b a.txt")
    store.restore(undo_service.latest())
    assert (work / "a.txt").read_text() == "one\n"
    assert (work / "b").read_text() == (tmp_path / "outside").read_text() == "theirs"


def test_where_a_wider_tree_is_too_large_the_named_paths_are_kept(
    work: Path, tmp_path: Path
) -> None:
    store = PreimageStore(tmp_path / "undo", max_bytes=20)
    (work / "big").write_bytes(b"x" * 21)
    image = store.keep("1", "test", [work / "a.txt"], [work])
    assert image is not None
    assert ([one.path for one in image.entries], image.skipped) == ([f"{work}/a.txt"], ())
    (work / "big").unlink()
    image = store.keep("2", "test", [work / "a.txt"], [work])
    assert image is not None
    assert str(work) in [one.path for one in image.entries]


def test_what_was_moved_out_of_a_tree_without_a_copy_stays(work: Path, tmp_path: Path) -> None:
    store = PreimageStore(tmp_path / "undo", max_bytes=15)
    (work / "big").mkdir()
    for name in ("one", "two"):
        (work / "big" / name).write_text("8 bytes.")
    image = kept(store, work / "big", work / "a.txt", work / "run.sh")
    (work / "big" / "one").rename(work / "a.txt")
    (work / "run.sh").write_text("in place")
    assert undo(store, image) == (f"{work}/run.sh",)
    assert (work / "a.txt").read_text() == "8 bytes."


@pytest.mark.parametrize("count", [9, 30])
def test_a_tree_with_too_many_files_stays_whole(work: Path, tmp_path: Path, count: int) -> None:
    store = PreimageStore(tmp_path / "undo", max_entries=5)
    kept(store, work / "made", work / "a.txt")
    (work / "made" / "deep").mkdir(parents=True)
    for number in range(count):
        (work / "made" / "deep" / f"{number:02}").write_text("x")
    (work / "a.txt").write_text("two")
    store.note_left("1")
    for everything in (False, True):
        way = store.way_back(store.images(), everything=everything)
        assert [one.path for one in way.changes] == [f"{work}/a.txt"]
        assert way.kept
        assert all(path.startswith(f"{work}/made") for path in way.kept)
    store.restore(way)
    assert len(list((work / "made" / "deep").iterdir())) == count


def test_an_action_whose_end_is_not_known_is_only_asked_about(
    work: Path, store: PreimageStore
) -> None:
    image = kept(store, work / "a.txt", work / "sub")
    before = snapshot(work)
    (work / "a.txt").write_text("two\n")
    (work / "sub" / "new").mkdir()
    way = store.way_back([image])
    assert (way.changes, way.kept) == ((), (f"{work}/a.txt", f"{work}/sub/new"))
    store.restore(store.way_back([image], everything=True))
    assert snapshot(work) == before


def test_what_changes_at_the_question_is_not_replaced(work: Path, store: PreimageStore) -> None:
    kept(store, work / "a.txt", work / "run.sh")
    for name in ("a.txt", "run.sh"):
        (work / name).write_text("two\n")
    store.note_left("1")
    way = store.way_back(store.images())
    (work / "a.txt").write_text("mine\n")
    with pytest.raises(StorageError, match="could not be restored: changed meanwhile"):
        store.restore(way)
    assert (work / "a.txt").read_text() == "mine\n"
    assert (work / "run.sh").read_text() == "echo hi\n"


@pytest.mark.parametrize("seed", range(3))
def test_with_a_second_writer_only_what_is_an_actions_own_goes_back(
    tmp_path: Path, seed: int
) -> None:
    folder = TwoWriters(tmp_path, seed)
    for step in range(80):
        assert folder.step() == [], step


def test_what_is_too_large_is_named_and_not_kept(work: Path, tmp_path: Path) -> None:
    store = PreimageStore(tmp_path / "undo", max_bytes=10)
    (work / "big").write_bytes(b"x" * 11)
    image = store.keep("1", "test", [work / "big", work / "a.txt"])
    assert image is not None
    assert image.skipped == (str(work / "big"),)
    assert [entry.path for entry in image.entries] == [str(work / "a.txt")]


def test_pipes_are_passed_over_without_blocking(work: Path, store: PreimageStore) -> None:
    os.mkfifo(work / "sub" / "pipe")
    image = kept(store, work / "sub", work / "new")
    (work / "sub" / "pipe").unlink()
    (work / "sub" / "b.bin").unlink()
    os.mkfifo(work / "new")
    assert undo(store, image) == (f"{work}/sub/b.bin",)
    assert store.way_back(store.images()[1:]).kept == (f"{work}/new",)
    assert image.skipped == (f"{work}/sub/pipe",)


def test_the_list_is_newest_first(work: Path, store: PreimageStore) -> None:
    store.keep("1", "first", [work / "a.txt"])
    store.keep("2", "second", [work / "run.sh"])
    assert [image.what for image in store.images()] == ["second", "first"]


def test_contents_are_private(work: Path, store: PreimageStore, tmp_path: Path) -> None:
    kept(store, work / "a.txt")
    for path in (tmp_path / "undo").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or path.is_dir()


def test_a_content_that_was_blanked_is_kept_anew(work: Path, store: PreimageStore) -> None:
    kept(store, work / "a.txt")
    for blob in (work.parent / "undo" / "contents").iterdir():
        blob.write_text("---\n")
    image = store.keep("2", "test", [work / "a.txt"])
    assert image is not None
    (work / "a.txt").unlink()
    undo(store, image)
    assert (work / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("left", [b"---\n", b"", None])
def test_what_there_is_no_whole_copy_of_stays(
    work: Path, store: PreimageStore, left: bytes | None
) -> None:
    kept(store, work / "a.txt", work / "run.sh")
    (work / "a.txt").write_text("two\n")
    (work / "run.sh").unlink()
    for blob in (work.parent / "undo" / "contents").iterdir():
        if blob.read_text() == "one\n":
            blob.write_bytes(left) if left is not None else blob.unlink()
    store.note_left("1")
    for everything in (False, True):
        way = store.way_back(store.images(), everything=everything)
        assert [one.path for one in way.changes] == [f"{work}/run.sh"]
        assert way.kept == (f"{work}/a.txt",)
    store.restore(way)
    assert (work / "a.txt").read_text() == "two\n"


def test_images_of_paths_that_must_not_be_named_go_whole(work: Path, store: PreimageStore) -> None:
    kept(store, work / "a.txt")
    other = store.keep("2", "test", [work / "run.sh"])
    assert store.drop(lambda path: path.endswith("a.txt")) == 1
    assert store.images() == (other,)
    assert len(list((work.parent / "undo" / "contents").iterdir())) == 1


def test_what_may_not_be_read_is_named_and_the_rest_is_kept(
    work: Path, store: PreimageStore
) -> None:
    (work / "sub" / "mute").write_text("x")
    (work / "sub" / "shut").mkdir()
    (work / "sub" / "shut" / "c").write_text("x")
    (work / "sub" / "mute").chmod(0o000)
    (work / "sub" / "shut").chmod(0o000)
    with ordinary():
        assert store.unkept([work / "sub"]) in {f"{work}/sub/mute", f"{work}/sub/shut"}
        assert store.unkept([work / "a.txt", work / "new", work / "a.txt" / "below"]) is None
        image = kept(store, work / "sub", work / "sub" / "shut" / "c", work / ("a" * 300))
        (work / "sub" / "b.bin").write_bytes(b"changed")
        assert undo(store, image) == (f"{work}/sub/b.bin",)
    (work / "sub" / "shut").chmod(0o700)
    too_long = str(work / ("a" * 300))
    assert set(image.skipped) == {too_long, f"{work}/sub/mute", f"{work}/sub/shut"}
    assert (work / "sub" / "b.bin").read_bytes() == b"\0\xff"


def test_a_write_protected_folder_comes_back_with_what_was_in_it(
    work: Path, store: PreimageStore
) -> None:
    (work / "sub").chmod(0o555)
    before = snapshot(work)
    with ordinary():
        image = kept(store, work / "sub")
        subprocess.run(["bash", "-c", "chmod -R u+w sub; rm -r sub"], cwd=work, check=True)
        undo(store, image)
        assert (work / "sub").stat().st_mode & 0o777 == 0o555
    assert snapshot(work) == before
    (work / "sub").chmod(0o755)


def test_what_cannot_be_brought_back_is_said_and_the_rest_is_brought_back(
    work: Path, store: PreimageStore
) -> None:
    image = kept(store, work / "a.txt", work / "sub")
    for name in ("a.txt", "sub/b.bin"):
        (work / name).write_text("changed")
    (work / "sub" / "b.bin").unlink()
    (work / "sub" / "b.bin").mkdir()
    (work / "sub" / "b.bin" / "held").touch()
    (work / "sub" / "b.bin").chmod(0o000)
    with ordinary(), pytest.raises(StorageError, match="could not be restored: "):
        undo(store, image)
    assert (work / "a.txt").read_text() == "one\n"
    (work / "sub" / "b.bin").chmod(0o700)
    undo(store, image)
    assert changes(store, image) == ()
    assert (work / "sub" / "b.bin").read_bytes() == b"\0\xff"


def test_names_that_are_no_text_and_the_longest_come_back(work: Path, store: PreimageStore) -> None:
    names = [os.fsdecode(b"caf\xe9"), "n" * 251 + ".txt", "new\nline"]
    for name in names:
        (work / name).write_text("one\n")
    image = kept(store, *(work / name for name in names))
    for name in names:
        (work / name).unlink()
    restored = undo(store, store.images()[0])
    assert sorted(restored) == sorted(str(work / name) for name in names)
    assert changes(store, image) == ()
    assert {(work / name).read_text() for name in names} == {"one\n"}


def test_what_root_brings_back_is_its_owners(work: Path, store: PreimageStore) -> None:
    if os.geteuid() == 0:
        for name in ("a.txt", "sub", "sub/link"):
            os.chown(work / name, 1234, 4321, follow_symlinks=False)
    before = {name: (work / name).lstat() for name in ("a.txt", "sub", "sub/link")}
    image = kept(store, work / "a.txt", work / "sub")
    shutil.rmtree(work / "sub")
    (work / "a.txt").write_text("two\n")
    undo(store, image)
    for name, was in before.items():
        now = (work / name).lstat()
        assert (now.st_uid, now.st_gid, now.st_mode) == (was.st_uid, was.st_gid, was.st_mode)


# --- links that a command created ---------------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir(mode=0o755)
    (folder / "a.txt").write_text("theirs\n")
    (folder / "b.bin").write_text("theirs\n")
    return folder


def state_of(folder: Path) -> dict[str, object]:
    return {**snapshot(folder), ".": folder.stat().st_mode}


def swap(folder: Path, outside: Path) -> None:
    """Replace `folder` by a link to `outside`."""
    shutil.rmtree(folder)
    folder.symlink_to(outside)


def test_a_kept_folder_that_became_a_link_comes_back_as_a_folder(
    work: Path, store: PreimageStore, outside: Path
) -> None:
    before, theirs = snapshot(work), state_of(outside)
    image = kept(store, work / "sub")
    swap(work / "sub", outside)
    undo(store, image)
    assert snapshot(work) == before
    assert state_of(outside) == theirs


def test_what_was_kept_below_a_folder_that_became_a_link_is_not_put_through_it(
    work: Path, store: PreimageStore, outside: Path
) -> None:
    theirs = state_of(outside)
    image = kept(store, work / "sub" / "b.bin", work / "sub" / "new.txt")
    swap(work / "sub", outside)
    (outside / "new.txt").write_text("theirs\n")
    theirs = state_of(outside)
    assert undo(store, image) == ()
    assert state_of(outside) == theirs


def test_what_a_link_in_the_middle_leads_to_is_kept_under_its_own_path(
    work: Path, store: PreimageStore
) -> None:
    (work / "also").symlink_to("sub")
    image = kept(store, work / "also" / "b.bin")
    assert [entry.path for entry in image.entries] == [f"{work}/sub/b.bin"]


def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(
    work: Path, store: PreimageStore, outside: Path
) -> None:
    theirs = state_of(outside)
    image = kept(store, work / "a.txt", work / "created")
    (work / "a.txt").unlink()
    for name in ("a.txt", "created"):
        (work / name).symlink_to(outside / "a.txt")
    undo(store, image)
    assert (work / "a.txt").read_text() == "one\n"
    assert not (work / "a.txt").is_symlink()
    assert not (work / "created").is_symlink()
    assert state_of(outside) == theirs


@given(st.data())
def test_whatever_was_planted_nothing_outside_changes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("planted")
    work, outside = root / "work", root / "outside"
    names = ("a", "a/b", "a/b/c.txt", "d.txt")
    for folder in (work / "a" / "b", outside / "b"):
        folder.mkdir(parents=True)
    for file in (work / "a/b/c.txt", work / "d.txt", outside / "c.txt", outside / "b/c.txt"):
        file.write_text(f"of {file.parent.name}\n")
    theirs = state_of(outside)
    store = PreimageStore(root / "undo")
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1))
    image = kept(store, *(work / name for name in chosen))
    for name in data.draw(st.permutations(names)):
        path = work / name
        if path.parent.resolve() != path.parent or not path.parent.is_dir():
            continue  # the folder above is a link or already removed
        match data.draw(st.sampled_from(["leave", "link", "delete", "write"])):
            case "link":
                _clear(path)
                path.symlink_to(outside / data.draw(st.sampled_from([".", "b", "c.txt", "new"])))
            case "delete":
                _clear(path)
            case "write" if path.is_file() and not path.is_symlink():
                path.write_text("changed\n")
    with suppress(StorageError):
        undo(store, image)
    assert state_of(outside) == theirs
    shutil.rmtree(root)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "command",
    [
        'for f in out/*.a; do cp "$f" "$f.bak"; done',
        'for f in *.a; do cp "$f" "$f.bak"; done',
        "rm out/*.a",
    ],
)
def test_a_pattern_that_leads_out_through_a_link_is_no_change_of_the_workspace(
    tmp_path: Path, command: str
) -> None:
    work, outside = tmp_path / "inside", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (work / "x.a").touch()
    (outside / "y.a").touch()
    (work / "out").symlink_to(outside)
    (work / "x.a.bak").symlink_to(outside / "y.a")
    report = on_disk(classify(command, cwd=str(work), workspace=str(work)), str(work))
    assert report.label == "needs_approval"
    assert any(one.outside and one.target.startswith(str(outside)) for one in report.effects)
