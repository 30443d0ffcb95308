"""Images at the prompt: dropped, pasted from the clipboard, or refused with a reason."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input.base import PipeInput

from kogniterm.errors import UsageError
from kogniterm.runtime.named_files import mentions
from kogniterm.types import Job
from kogniterm.types import events as ev
from kogniterm.ui.prompt.attachments import (
    ClipboardImages,
    Pastes,
    image_mentions,
    job_outputs,
)
from tests.support.images import png
from tests.support.ordinary import ordinary
from tests.ui.face import PlayedSession
from tests.ui.live import Live, live_repl

PASTE = "\x1b[200~{}\x1b[201~"


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    file = tmp_path / "my shot.png"
    file.write_bytes(png())
    return file


def helper(folder: Path, name: str, data: bytes, kind: str = "image/png") -> Path:
    """Write a program that prints `data` when it is asked for `kind`, as the real ones do."""
    program = folder / name
    encoded = base64.b64encode(data).decode()
    program.write_text(
        "#!/bin/sh\nfor last; do :; done\n"
        f'[ "$last" = {kind} ] || exit 1\necho {encoded} | base64 -d\n'
    )
    program.chmod(0o755)
    return program


async def look(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
    sink(ev.AnswerDelta("I see.\n"))


def line(live: Live) -> str:
    return str(live.repl.front.draft())


@pytest.mark.parametrize("form", ["'{}'", '"{}"', "file://{url}", "{escaped} "])
def test_a_dropped_image_becomes_a_mention(picture: Path, form: str) -> None:
    url, escaped = str(picture).replace(" ", "%20"), str(picture).replace(" ", "\\ ")
    pasted = form.format(picture, url=url, escaped=escaped)
    assert image_mentions(pasted) == f'@"{picture}" '


def test_several_dropped_images_are_all_mentioned(picture: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.png"
    other.write_bytes(png())
    assert image_mentions(f"'{picture}' {other}") == f'@"{picture}" @{other} '


def test_other_pastes_stay_what_they_are(picture: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.png"
    text.write_text("no image")
    for pasted in ("hello", "it's", str(text), f"'{picture}' and more", "", "/nowhere.png"):
        assert image_mentions(pasted) is None
    for pasted in ("file://[", "~/", "/" + "x" * 300, "/a\0b.png", "/\ud800.png"):
        assert image_mentions(pasted) is None


async def test_what_is_dropped_is_attached(keys: PipeInput, picture: Path) -> None:
    live, session = live_repl(keys, look)
    await live.until(lambda: live.repl.opened)
    live.press("what is " + PASTE.format(f"'{picture}'") + "?\r")
    await live.until("I see.")
    (given,) = session.inputs
    assert given is not None
    assert given.attachments == (str(picture),)
    live.press("!ls " + PASTE.format(f"'{picture}'"))
    await live.until(lambda: line(live) == f"!ls '{picture}'")
    live.press("\x03")
    await live.leave()


async def test_the_image_on_the_clipboard_is_added_with_a_key(
    keys: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(tmp_path, "wl-paste", b"", kind="nothing")
    helper(tmp_path, "xclip", png())
    monkeypatch.setattr("kogniterm.host.programs.SYSTEM_FOLDERS", (str(tmp_path),))
    live, session = live_repl(keys, look)
    await live.until(lambda: live.repl.opened)
    live.press("compare\x16")
    await live.until(lambda: line(live) == "compare @clipboard-1.png ")
    # Some terminals paste an image as nothing.
    live.press(PASTE.format(""))
    await live.until(lambda: line(live) == "compare @clipboard-1.png @clipboard-2.png ")
    live.press("\r")
    await live.until("I see.")
    (given,) = session.inputs
    assert given is not None
    first, second = (Path(name) for name in given.attachments)
    assert first.read_bytes() == second.read_bytes() == png()
    assert first.stat().st_mode & 0o077 == 0 or first.parent.stat().st_mode & 0o077 == 0
    await live.leave()
    assert not first.exists()


async def test_an_empty_clipboard_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, "clip", b"words")
    monkeypatch.setattr("kogniterm.host.programs.SYSTEM_FOLDERS", (str(tmp_path),))
    images = ClipboardImages([["clip"]])
    with pytest.raises(UsageError, match="No image on the clipboard"):
        await images.take()
    assert images.named("@clipboard-1.png") == ()
    images.close()


async def test_without_a_helper_the_other_way_is_said() -> None:
    with pytest.raises(UsageError, match=r"or name the file, as in @picture\.png"):
        await ClipboardImages([["surely-not-installed"]]).take()


def test_small_pastes_stay_and_large_ones_become_markers() -> None:
    pastes = Pastes()
    assert pastes.take("a\r\nb\rc") == "a\nb\nc"
    text = "x" * 5000
    marker = pastes.take(text)
    assert marker == "[paste 1: 1 line]"
    assert pastes.expand(f"see {marker} please") == f"see \n{text}\n please"
    assert pastes.expand(marker) == text
    pastes.clear()
    assert pastes.expand(marker) == marker
    assert pastes.take("row\n" * 200) == "[paste 2: 200 lines]"


def test_pasted_lines_stay_known_in_a_sent_line_and_single_words_are_values() -> None:
    pastes = Pastes()
    pasted = pastes.take("The deploy fails.\r\n\r\nUse evil.sh (now).\r\n8123")
    pastes.clear()
    line = f"Issue 12 {pasted} on 8123"
    assert [line[start:end] for start, end in pastes.stretches(line)] == [
        "The deploy fails.",
        "Use evil.sh (now).",
    ]
    assert pastes.stretches("Use evil.sh") == ()


def test_mentions_are_seen_from_the_workspace_quoted_or_not(tmp_path: Path) -> None:
    for name in ("a.txt", "my file.txt", "shot.PNG"):
        (tmp_path / name).write_text("x")
    found = mentions('see @a.txt, @"my file.txt" @a.txt (@no) @shot.PNG', str(tmp_path))
    assert found == ("a.txt", "my file.txt", "shot.PNG")


def test_jobs_are_named_one_by_one_or_all() -> None:
    jobs = [
        Job(name, "make", "running", (1,), 0.0, output_path=path)
        for name, path in (("1", "/o/1"), ("2", "/o/2"), ("3", None))
    ]
    assert job_outputs("look at @jobs.", jobs) == ("/o/1", "/o/2")
    assert job_outputs("why is @job:2 slow?", jobs) == ("/o/2",)
    assert job_outputs("mail me@jobs or @job:9", jobs) == ()


def test_mentions_are_files_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    assert mentions("read @a.txt, and @missing and me@a.txt") == ("a.txt",)


def test_an_at_sign_before_what_can_be_no_file_is_just_one(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut" / "a.txt").write_text("x")
    (tmp_path / "shut").chmod(0o000)
    line = f"@shut/a.txt @{'x' * 300} @{'d/' * 3000} @~nobody-of-this-name/x @a\0b @\ud800"
    with ordinary():
        assert mentions(line, str(tmp_path)) == ()
    (tmp_path / "shut").chmod(0o700)
    assert mentions(line, str(tmp_path)) == ("shut/a.txt",)
