"""Toolbar, theme, banner, numbers, history, pastes: the parts with one rule each."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from prompt_toolkit.utils import get_cwidth

from kogniterm.settings import quick
from kogniterm.text.visible import clean, one_line, without_style
from kogniterm.ui.commands.registry import Explained
from kogniterm.ui.front import banner
from kogniterm.ui.locale import duration, size, tokens, use_language
from kogniterm.ui.prompt.attachments import Pastes
from kogniterm.ui.prompt.input_line import KEPT, PrivateHistory
from kogniterm.ui.prompt.layout import Facts, short_folder, toolbar
from kogniterm.ui.questions.panel import Line, QuestionPanel, key_row
from kogniterm.ui.questions.question import ChoiceQuestion, Option
from kogniterm.ui.screen.paint import CHARACTERS, LINES, Painter, sent
from kogniterm.ui.screen.surface import Attention
from kogniterm.ui.screen_preferences import (
    ROLES,
    Preferences,
    background_from_colorfgbg,
    choose_theme,
    from_quick,
    prompt_style,
    split_osc11,
)

FACTS = Facts(
    model="google_genai:gemini-2.5-flash",
    mode="auto",
    plan_mode="always",
    session="20260101",
    folder="~/project",
    tokens=12_345,
    jobs=2,
    context=13,
    dollars=0.0123,
)


READY = Line(armed=True, ready=True)


@pytest.mark.parametrize("columns", range(10, 160, 7))
def test_the_toolbar_is_one_line_that_fits(columns: int) -> None:
    line = "".join(text for _style, text in toolbar(FACTS, columns))
    assert get_cwidth(line) <= columns
    assert "\n" not in line


def test_the_toolbar_drops_what_matters_least_first() -> None:
    def shown(columns: int) -> str:
        return "".join(text for _style, text in toolbar(FACTS, columns))

    assert shown(150) == (
        " google_genai:gemini-2.5-flash · auto-approve · plan: always · 2 jobs · "
        "12.3k tokens · context 13 % · $0.01 · 20260101 · ~/project"
    )
    assert shown(60) == " google_genai:gemini-2.5-flash · auto-approve · 2 jobs"
    assert shown(46) == " google_genai:gemini-2.5-flash · auto-approve"


def test_a_full_window_warns_and_a_cost_too_small_for_cents_is_said_so() -> None:
    line = toolbar(replace(FACTS, context=75, dollars=0.001), 150)
    assert ("class:warn", "context 75 %") in line
    assert any(text == "<$0.01" for _style, text in line)
    free = toolbar(replace(FACTS, dollars=0.0), 150)
    unknown = toolbar(replace(FACTS, dollars=None), 150)
    assert not any("$" in text for _style, text in (*free, *unknown))


def test_folders_are_shortened_in_the_middle() -> None:
    assert short_folder("/home/ana/code", "/home/ana") == "~/code"
    assert short_folder("/home/anabel", "/home/ana") == "/home/anabel"
    assert short_folder("/very/long/path/that/goes/on/and/on/here", "") == "…/on/here"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (3.25, "3.2 s"), (59.4, "59 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_counts_and_sizes() -> None:
    assert [tokens(n) for n in (0, 999, 1000, 999_949, 1_200_000)] == [
        "0", "999", "1.0k", "999.9k", "1.2M",
    ]  # fmt: skip
    assert [size(n) for n in (999, 1500, 100_000_000)] == ["999 B", "1.5 kB", "100.0 MB"]


@pytest.mark.parametrize(
    ("value", "background"),
    [("15;0", "dark"), ("0;15", "light"), ("0;default;7", "light"), ("", None), ("x", None)],
)
def test_colorfgbg(value: str, background: str | None) -> None:
    assert background_from_colorfgbg(value) == background


def test_the_terminals_answer_is_taken_out_of_the_keys() -> None:
    assert split_osc11("ab\x1b]11;rgb:ffff/ffff/eeee\x1b\\cd") == ("abcd", "light")
    assert split_osc11("\x1b]11;rgb:1e1e/1e1e/2e2e\x07") == ("", "dark")
    assert split_osc11("typed") == ("typed", None)


def test_themes_have_every_role_and_no_color_has_no_colours() -> None:
    for name in ("auto", "dark", "light", "plain"):
        theme = choose_theme(name, color=True, background=None)
        assert set(theme.styles) == set(ROLES)
        assert prompt_style(theme)
    assert choose_theme("dark", color=False, background="dark").name == "plain"
    assert choose_theme("auto", color=True, background="light").name == "light"
    colours = {"cyan", "green", "red", "yellow", "blue", "magenta", "bright_black"}
    plain = choose_theme("plain", color=True, background=None)
    assert not colours & {word for style in plain.styles.values() for word in style.split()}


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 160])
def test_the_banner_fits(columns: int) -> None:
    theme = choose_theme("dark", color=True, background=None)
    lines = without_style(banner("1.2.3", columns, theme)).splitlines()
    assert max(len(line) for line in lines) <= max(columns, 34)
    assert any("1.2.3" in line for line in lines)


def test_the_banner_without_colour_or_attributes() -> None:
    plain = choose_theme("plain", color=False, background=None)
    assert "\x1b[38" not in banner("1", 80, plain, color=False)
    assert "\x1b" not in banner("1", 80, plain, attributes=False)
    assert banner("1", 80, plain, unicode=False, attributes=False).isascii()


def test_words_of_a_model_are_shown_not_obeyed() -> None:
    assert clean("a\x1b[2Jb\r\nc\td\u202e") == "a[2Jb\nc\td"
    assert one_line("a\n  b\x07", 10) == "a b\\u{7}"
    assert one_line("a\u200bb \u26a0\ufe0f", 20) == "a\\u{200B}b \u26a0\ufe0f"
    assert one_line("abcdefgh", 5) == "abcd…"


def test_history_is_private_bounded_and_survives_damage(tmp_path: Path) -> None:
    file = tmp_path / "history"
    lines = [json.dumps(f"entry {n}") for n in range(2 * KEPT + 5)]
    file.write_text("\n".join([*lines, "{broken", "7"]) + "\n")
    history = PrivateHistory(file)
    newest = list(history.load_history_strings())
    assert newest[0] == f"entry {2 * KEPT + 4}"
    assert len(file.read_text().splitlines()) == KEPT
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(PrivateHistory(tmp_path / "none" / "x").load_history_strings()) == []


def test_history_goes_on_without_a_file_it_may_write(tmp_path: Path) -> None:
    file = tmp_path / "folder"
    file.mkdir()
    history = PrivateHistory(file)
    history.append_string("kept in memory")
    assert history.get_strings() == ["kept in memory"]


def test_no_line_parts_a_key_from_its_words() -> None:
    painter = Painter(choose_theme("plain", color=False, background=None), attributes=False)
    keys = [("s", "aprobar"), ("n", "rechazar"), ("p", "permiso"), ("d", "detener el turno")]
    assert key_row(keys, READY, painter, 34) == [
        "[s] aprobar  [n] rechazar",
        "[p] permiso  [d] detener el turno",
    ]
    whole = "[s] aprobar  [n] rechazar  [p] permiso  [d] detener el turno"
    assert key_row(keys, READY, painter, 80) == [whole]


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


def test_signals_follow_the_preferences() -> None:
    sent: list[str] = []
    loud = Attention(Preferences(notify="osc9"), sent.append)
    loud.title("hi\x1b\x07 there")
    loud.working(True)
    loud.working(True)
    loud.call("come")
    loud.close()
    assert sent == [
        "\x1b]2;hi\\u{1B}\\u{7} there\a",
        "\x1b]9;4;3;0\a",
        "\x1b]9;come\a",
        "\x1b]9;4;0;0\a",
        "\x1b]2;\a",
    ]
    sent.clear()
    bare = Attention(Preferences(term="dumb", notify="osc9"), sent.append)
    bare.title("x")
    bare.working(True)
    bare.call("x")
    bare.close()
    assert sent == []


class Place:
    """A prompt with nothing around the panel."""

    painter = Painter(choose_theme("plain", color=False, background=None), attributes=False)

    def refresh(self) -> None:
        pass

    def question_opened(self) -> None:
        pass

    def question_closed(self, transcript: str) -> None:
        pass

    def question_entry_opened(self, text: str) -> None:
        raise AssertionError("a choice takes no words")

    async def edit_text(self, text: str) -> str | None:
        raise AssertionError("a choice needs no editor")

    def stop_turn(self) -> None:
        raise AssertionError("a choice stops nothing")


async def test_a_choice_shows_its_keys_in_brackets_once_they_work() -> None:
    panel = QuestionPanel(Place())
    question = ChoiceQuestion(
        "Bring it back?",
        ["$ rm a"],
        [Option("yes", "bring it back", "yes"), Option("no", "leave it", "no")],
    )
    answer = asyncio.ensure_future(panel.ask(question))
    await asyncio.sleep(0)
    assert panel.lines(80, 10, Line())[-1] == " y  bring it back   n  leave it"
    assert panel.lines(80, 10, READY)[-1] == "[y] bring it back  [n] leave it"
    assert panel.lines(80, 10, Line(words="words"))[-1].startswith("You are typing")
    assert "Esc: back" in panel.lines(80, 10, Line(armed=True, words="words"))[-1]
    use_language("es")
    assert panel.lines(80, 10, READY)[-1] == "[s] bring it back  [n] leave it"
    assert set(panel.options()) == {"s", "n", "y"}
    use_language("en")
    panel.key("n")
    assert await answer == "no"


# --- what is explained -----------------------------------------------------------------------


def test_explanations_stand_beside_or_on_a_narrow_screen_below() -> None:
    painter = Painter(choose_theme("plain", color=False, background=None), attributes=False)
    shown = Explained([("/help [NAME]", "list the commands"), ("/quit", "leave")], "command")
    assert painter.paint(shown, 60).split("\n") == [
        " /help [NAME]  list the commands", " /quit         leave", "",
    ]  # fmt: skip
    assert painter.paint(shown, 30).split("\n") == [
        " /help [NAME]", "    list the commands", " /quit", "    leave", "",
    ]  # fmt: skip


# --- what was sent ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, LINES, LINES + 1])
def test_what_was_sent_stays_whole(count: int) -> None:
    painter = Painter(choose_theme("plain", color=False, background=None), attributes=False)
    lines = [f"line {number}" for number in range(count)]
    assert sent("\n".join(lines), painter).plain == "› " + "\n  ".join(lines)


def test_of_a_long_paste_the_two_ends_stay() -> None:
    painter = Painter(choose_theme("plain", color=False, background=None), attributes=False)
    text = "\r\n".join([*(f"line {number}" for number in range(100)), "y" * 1_000_000])
    shown = sent(text, painter).plain.split("\n")
    assert len(shown) == LINES + 1
    assert shown[0] == "› line 0"
    assert shown[LINES // 2] == f"  … {101 - LINES} more lines"
    assert shown[LINES // 2 + 1] == f"  line {101 - LINES // 2}"
    assert shown[-1] == f"  {'y' * CHARACTERS}…"


@pytest.mark.parametrize(
    ("installed", "chosen", "expected"),
    [
        ((), "", ["cat"]),
        (("more",), "", ["more"]),
        (("less", "more"), "", ["less", "-R"]),
        (("less", "mine"), "mine --quiet", ["mine", "--quiet"]),
        (("less",), "missing", None),
    ],
)
def test_the_pager_is_the_chosen_one_or_the_first_that_is_installed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: tuple[str, ...],
    chosen: str,
    expected: list[str] | None,
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in (*installed, "cat"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    pager = from_quick(
        quick({"HOME": str(tmp_path), "PAGER": chosen}), str(tmp_path / "project")
    ).pager
    assert list(pager) == (
        [str(programs / expected[0]), *expected[1:]] if expected else ["missing"]
    )
