"""Clipping and keeping of output: no unreported loss, and bounded memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kogniterm.execution.command_output import OutputKeeper, OutputLimits, clip
from kogniterm.execution.process.running_command import LiveFeed
from tests.support.executing import Sink


@given(st.text(alphabet="ab\nñ🙂", max_size=3000), st.integers(20, 500))
@settings(deadline=None)
def test_clipping_counts_what_it_leaves_out(text: str, limit: int) -> None:
    clipped, omitted = clip(text, limit)
    if len(text) <= limit:
        assert (clipped, omitted) == (text, 0)
        return
    found = re.search(rf"\[… (?:(\d+) lines, )?{omitted} bytes left out …\]\n", clipped)
    assert found is not None
    head, rest = clipped[: found.start()], clipped[found.end() :]
    kept = head if text.startswith(head) else head[:-1]
    assert text.startswith(kept)
    assert text.endswith(rest)
    assert len(kept.encode()) + len(rest.encode()) + omitted == len(text.encode())
    lines = text.count("\n") - kept.count("\n") - rest.count("\n")
    assert int(found[1] or 0) == (lines if lines > 1 else 0)


def test_lines_that_differ_in_numbers_only_are_folded_before_others_are_left_out() -> None:
    log = "".join(f"12:00:{n:02} request {n} done\n" for n in range(1_000))
    text, omitted = clip(f"start\n{log}ERROR disk full\n{log}end\n", 2_000)
    assert text.splitlines() == [
        "start", "12:00:00 request 0 done", "12:00:01 request 1 done",
        "[… 997 lines left out that differ in numbers only …]", "12:00:999 request 999 done",
        "ERROR disk full", "12:00:00 request 0 done", "12:00:01 request 1 done",
        "[… 997 lines left out that differ in numbers only …]", "12:00:999 request 999 done", "end",
    ]  # fmt: skip
    assert omitted == 2 * len(log) + 26 - len(text.encode())
    rows = "".join(f"{n},{n * n}\n" for n in range(1_000))
    assert "differ" not in clip(rows, 2_000)[0]


def test_a_program_that_prints_such_a_line_is_not_believed() -> None:
    words = [f"line {'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}" for n in range(100)]
    words[50] = "[… 997 lines left out that differ in numbers only …]"
    text, _ = clip("\n".join(words), 400)
    told = re.search(r"\[… (\d+) lines, \d+ bytes left out", text)
    assert told
    assert int(told[1]) + len(text.splitlines()) - 1 == 100


@pytest.mark.parametrize("count", [600, 1_500, 24_000])
def test_every_line_is_shown_or_counted(count: int) -> None:
    lines = [
        f"request number {n} took {n * 3} ms" if n % 10 else f"unique {'abcdefghij'[n % 7 :] * 4}"
        for n in range(count)
    ]
    keeper = OutputKeeper(None, OutputLimits(8_000), (40, 100))
    keeper.add("".join(f"{line}\r\n" for line in lines).encode())
    shown = keeper.render().text.splitlines()
    told = [int(one[1]) for line in shown if (one := re.match(r"\[… (\d+) lines", line))]
    assert len(told) > 1
    assert sum(told) + sum(not line.startswith("[…") for line in shown) == count


@given(st.lists(st.binary(max_size=4000), max_size=40))
@settings(max_examples=40)
def test_the_file_holds_every_byte(tmp_path_factory: object, chunks: list[bytes]) -> None:
    folder: Path = tmp_path_factory.mktemp("out")  # type: ignore[attr-defined]  # pytest's own
    keeper = OutputKeeper(folder / "f", OutputLimits(), (40, 120))
    for chunk in chunks:
        keeper.add(chunk)
    keeper.close()
    data = b"".join(chunks)
    assert keeper.total == len(data)
    assert (folder / "f").read_bytes() == data if data else keeper.path is None


def test_file_limit(tmp_path: Path) -> None:
    keeper = OutputKeeper(tmp_path / "f", OutputLimits(file=10), (40, 120))
    keeper.add(b"123456789abcdef")
    keeper.close()
    assert (tmp_path / "f").read_bytes() == b"123456789a"
    assert keeper.cut_file
    assert keeper.render().text == "123456789abcdef"


def test_a_full_disk_does_not_end_the_command(tmp_path: Path) -> None:
    keeper = OutputKeeper(Path("/dev/full"), OutputLimits(), (40, 120))
    keeper.add(b"kept in memory")
    keeper.close()
    assert keeper.render().text == "kept in memory"
    assert keeper.cut_file


def test_head_and_tail_of_more_than_memory_holds(tmp_path: Path) -> None:
    keeper = OutputKeeper(None, OutputLimits(text=1000), (40, 120))
    for n in range(0, 400_000, 10):
        keeper.add(b"".join(b"%d\n" % one for one in range(n, n + 10)))
    rendered = keeper.render()
    lines = rendered.text.splitlines()
    assert lines[0] == "0"
    assert lines[-1] == "399999"
    shown = len(rendered.text.encode())
    assert abs(keeper.total - rendered.omitted - shown) < 200


def test_a_character_cut_by_the_middle_is_not_garbled(tmp_path: Path) -> None:
    keeper = OutputKeeper(None, OutputLimits(text=400_000), (40, 120))
    keeper.add("ñ".encode() * 2_000_000)
    assert "\ufffd" not in keeper.render().text.replace("\n", "")[-100:]


@given(st.lists(st.binary(max_size=300), max_size=50))
def test_a_trickle_reaches_the_sink_whole(chunks: list[bytes]) -> None:
    sink = Sink()
    feed = LiveFeed(sink)
    for chunk in chunks:
        feed.add(chunk)
    feed.flush()
    assert (sink.data, sink.waits) == (b"".join(chunks), [])


def test_a_flood_is_thinned_and_says_so() -> None:
    sink = Sink()
    feed = LiveFeed(sink)
    feed.add(b"first\n")
    feed.add(b"x" * 99 + b"\n")
    for _ in range(50_000):
        feed.add(b"y" * 99 + b"\n")
    feed.add(b"last\n")
    feed.flush()
    assert sink.data.startswith(b"first\n")
    assert sink.data.endswith(b"last\n")
    assert b" B \xe2\x80\xa6]" in sink.data
    assert len(sink.data) < 5_000_000
