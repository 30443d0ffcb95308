"""The terminal's answer about its background selects the theme and never counts as typing."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.ui.screen.screen_preferences import Preferences
from kogniterm.ui.screen.surface import LiveSurface
from kogniterm.ui.terminal.terminal_io import (
    ASK_BACKGROUND,
    AnswerFilter,
    make_output,
    worth_asking,
)
from tests.ui.pty_peer import OpenPeer, PtyPeer

ASKED = ASK_BACKGROUND.encode()
LIGHT = b"\x1b]11;rgb:ffff/fafa/f0f0\x1b\\"
DARK = b"\x1b]11;rgb:1e1e/1e1e/2e2e\x07"
TURN_OVER = " tokens in, "
"""Part of the line that ends a turn; from then on Ctrl-D leaves without asking."""
OPTIONS = ("--no-sandbox", "--memory", "off", "--model", "scripted:demo.yaml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "demo.yaml").write_text("replies: [{text: Hello., repeat: forever}]")
    return tmp_path


def opened(terminal: PtyPeer) -> None:
    terminal.until("scripted:")


@pytest.mark.parametrize(
    ("answer", "colour", "said"),
    [((LIGHT,), "blue", "the background is light"), ((DARK,), "cyan", "the background is dark")],
)
def test_the_answer_settles_the_theme(
    peer: OpenPeer, folder: Path, answer: tuple[bytes, ...], colour: str, said: str
) -> None:
    with peer(folder, *OPTIONS, answers=((ASKED, answer),)) as terminal:
        opened(terminal)
        terminal.send("/theme\r")
        terminal.until(said)
        terminal.until(lambda: terminal.colours_of("›") == {colour})
        assert "rgb:" not in terminal.text
        terminal.send("\x04")
        assert terminal.ended() == 0


def test_an_answer_in_pieces_between_keys_leaks_nothing(peer: OpenPeer, folder: Path) -> None:
    # Not between the first two bytes: an Esc that nothing follows for a moment is the key.
    pieces = (b"te", LIGHT[:2], LIGHT[2:9], LIGHT[9:-1], LIGHT[-1:] + b"rm")
    with peer(folder, *OPTIONS, answers=((ASKED, pieces),)) as terminal:
        terminal.until("› term")
        opened(terminal)
        terminal.send("\r")
        terminal.until(TURN_OVER)
        assert "› term" in terminal.text
        assert "rgb" not in terminal.text
        terminal.send("\x04")
        assert terminal.ended() == 0


def test_a_terminal_that_never_answers_delays_nothing(peer: OpenPeer, folder: Path) -> None:
    # With vi's keys the screen shows when Esc, which could begin an answer, was taken as the key.
    with peer(folder, *OPTIONS, environment={"KOGNITERM_KEYS": "vi"}) as terminal:
        # The prompt stands before the question goes out, and takes keys without an answer.
        terminal.until(lambda: ASKED in terminal.raw)
        assert "› ".encode() in terminal.raw.partition(ASKED)[0]
        opened(terminal)
        terminal.send("hi\x1b")
        terminal.until("vi normal mode")
        terminal.send("\r")
        terminal.until(TURN_OVER)
        terminal.send("/theme\r")
        terminal.until("the terminal does not report its background")
        terminal.send("/theme light\r")
        terminal.until("Theme: light.")
        terminal.until(lambda: terminal.colours_of("›") == {"blue"})
        terminal.send("\x04")
        assert terminal.ended() == 0


def test_an_answer_on_its_way_does_not_meet_the_shell(peer: OpenPeer, folder: Path) -> None:
    shell = (
        "import subprocess, sys;"
        "subprocess.run([sys.executable, '-m', 'kogniterm', *sys.argv[1:]]);"
        "print('left'); print(repr(input()))"
    )
    with peer(
        folder,
        *OPTIONS,
        program=("-c", shell),
        answers=((ASKED, (b"\x04" + LIGHT,)), (b"left", (b"own words\r",))),
    ) as terminal:
        terminal.until("'own words'")
        assert terminal.ended() == 0


def test_a_theme_chosen_later_asks_then(peer: OpenPeer, folder: Path) -> None:
    with peer(
        folder, *OPTIONS, environment={"KOGNITERM_THEME": "dark"}, answers=((ASKED, (LIGHT,)),)
    ) as terminal:
        opened(terminal)
        assert ASKED not in terminal.raw
        terminal.send("/theme auto\r")
        terminal.until(lambda: terminal.colours_of("›") == {"blue"})
        terminal.send("\x04")
        assert terminal.ended() == 0


@pytest.mark.parametrize(
    "changes",
    [{"theme": "dark"}, {"color": False}, {"colorfgbg": "15;0"}, {"term": "linux"}],
)
def test_the_background_is_asked_for_only_if_it_matters(changes: dict[str, object]) -> None:
    assert worth_asking(Preferences())
    assert not worth_asking(Preferences(**changes))  # type: ignore[arg-type]  # as parametrized


@given(
    st.text("abc\x1b]", max_size=8),
    st.text("abc\x1b]", max_size=8),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_no_cut_lets_the_answer_through(before: str, after: str, cuts: list[int]) -> None:
    seen: list[str | None] = []
    whole = before + LIGHT.decode() + after
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    keys = AnswerFilter(seen.append)
    keys.expecting = True
    typed = "".join(keys.feed(whole[a:b]) for a, b in pairwise(places))
    assert seen == ["light"]
    assert typed + keys.release() == before + after


def test_the_escape_key_still_works_while_an_answer_is_expected() -> None:
    keys = AnswerFilter(lambda _background: None)
    keys.expecting = True
    assert keys.feed("\x1b") == ""
    assert keys.release() == "\x1b"
    assert keys.feed("\x1b[A") == "\x1b[A"
    assert keys.feed("\x1b]11;" + "f" * 100) == "\x1b]11;" + "f" * 100


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("a\x1b]11;rgb:0/0/0\x07b", "ab"),  # a second answer, after the first
        ("\x1b[?62;4c\x1b[>0;276;0c\x1b[?1u\x1b[?997;1n\x1b[I\x1b[O\x1b[24;80R", ""),
        ("\x1bP>|kitty(0.32)\x1b\\\x1b_Gi=1;OK\x1b\\\x1b[<0;3;4M", ""),
        ("\x1b[99;5u\x1b[27;5;99~\x1b[97u\x1b[98;3u", "\x03\x03a\x1bb"),
        ("\x1b[A\x1b[[A\x1b[1;5C\x1bf", "\x1b[A\x1b[[A\x1b[1;5C\x1bf"),
        ("\x1b[200~x\x1b[?1u\x1b[201~y", "\x1b[200~x\x1b[?1u\x1b[201~y"),
    ],
)
def test_only_keys_and_pastes_are_typed(sent: str, keys: str) -> None:
    for size in (len(sent), 3, 1):
        taken = AnswerFilter(lambda _background: None)
        pieces = (sent[at : at + size] for at in range(0, len(sent), size))
        assert "".join(map(taken.feed, pieces)) + taken.release() == keys


def test_a_paste_whose_end_was_lost_swallows_no_keys() -> None:
    keys = AnswerFilter(lambda _background: None)
    assert keys.feed("\x1b[200~lo") + keys.feed("st\r") == ""
    assert keys.release() == "\x1b[200~lost\r\x1b[201~"
    assert keys.feed("\x03") == "\x03"
    assert keys.feed("found") == "found"


def test_a_slow_paste_stays_one_to_its_end() -> None:
    keys = AnswerFilter(lambda _background: None)
    assert keys.feed("\x1b[200~one") + keys.release() == "\x1b[200~one\x1b[201~"
    assert keys.feed("two\ry") == ""
    assert keys.release() == "\x1b[200~two\ry\x1b[201~"
    assert keys.feed("\r\x1b[201~") == "\x1b[200~\r\x1b[201~"
    assert keys.feed("y\r") == "y\r"


def test_a_typed_byte_of_another_encoding_is_shown_and_sent(peer: OpenPeer, folder: Path) -> None:
    with peer(folder, *OPTIONS) as terminal:
        opened(terminal)
        terminal.send(b"caf\xe9\r")
        terminal.until(TURN_OVER)
        assert "caf\\xe9" in terminal.text
        terminal.send("\x04")
        assert terminal.ended() == 0


@pytest.mark.parametrize("prompt", [True, False])
def test_the_screen_is_never_erased_from_its_first_cell(prompt: bool) -> None:
    """There tmux scrolls what it erases into its scrollback: a copy of the prompt each time."""
    sent = io.StringIO()
    if prompt:
        output = make_output(sent, Preferences())
        output.erase_down()
        output.flush()
    else:
        surface = LiveSurface(sent, lambda: (24, 80))
        surface.attach(lambda _columns, _rows: ["working"])
        surface.commit("above\n")
        surface.commit("more\n")
    before, erased, after = sent.getvalue().partition("\x1b[J")
    assert (erased, before[-8:], after[:2]) == ("\x1b[J", "\x1b[K\x1b7\x1b[B", "\x1b8")
