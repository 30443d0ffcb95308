"""The list of models: one line each at every width, filtered, renewed while it is open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from kogniterm.errors import ModelUnavailableError
from kogniterm.models.catalog import FREE, efforts_of, price_of, window_of
from kogniterm.models.model_lists import ListedModel, ModelListing
from kogniterm.ui.questions.model_choice import (
    Chosen,
    ModelPickList,
    model_rows,
    source_text,
    waiting_text,
)
from kogniterm.ui.questions.question import Answered
from tests.ui.face import PLAIN


def listed(name: str) -> ListedModel:
    provider, _colon, model = name.partition(":")
    return ListedModel(
        name, provider, window_of(provider, model)[0], price_of(name), efforts_of(provider, model)
    )


NAMES = (
    "google_genai:gemini-flash-latest",
    "google_genai:gemini-2.5-pro",
    "openai:gpt-4.1-mini",
    "anthropic:claude-opus-5",
    "ollama:registry.example.org/a-team/a-model-with-a-very-long-name:70b-instruct-q4_k_m",
)
ROWS = model_rows([listed(name) for name in NAMES], NAMES[1])
QUESTION = ModelPickList(ROWS, picked=1, can_save=True)


def shown(question: ModelPickList, columns: int = 100) -> str:
    return "\n".join(question.document(PLAIN, columns, 24).lines)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize("rows", [6, 24])
def test_each_model_is_one_line_that_fits(columns: int, rows: int) -> None:
    lines = QUESTION.document(PLAIN, columns, rows).lines
    assert sum("▸" in line for line in lines) == 1
    assert all(cell_len(line) <= columns for line in lines)


def test_a_line_shows_name_price_window_and_what_is_in_use() -> None:
    lines = shown(QUESTION, 120).split("\n")
    assert lines[1].split() == ["google_genai:gemini-flash-latest", "–", "1M"]
    assert lines[2].split()[1:] == [
        "google_genai:gemini-2.5-pro", "$1.25", "/", "$10.00", "1M", "in", "use",
    ]  # fmt: skip
    assert lines[5].split()[1:] == ["free", "32.8k"]
    assert "US dollars per million tokens, in / out, as of 20" in lines[7]


def test_words_filter_by_name_and_by_provider() -> None:
    assert [row.name for row in QUESTION.line_changed("opus").found] == [NAMES[3]]
    assert [row.name for row in QUESTION.line_changed("google pro").found] == [NAMES[1]]
    nothing = QUESTION.line_changed("no such model")
    assert "No model matches." in shown(nothing)
    assert nothing.words("no such model") == nothing
    assert nothing.press("c-s") == nothing


def test_enter_uses_a_model_and_a_key_makes_it_the_default() -> None:
    assert QUESTION.words("") == Answered(Chosen(NAMES[1]))
    assert QUESTION.press("c-s") == Answered(Chosen(NAMES[1], save=True))
    assert QUESTION.back() == Answered(None)
    kept = replace(QUESTION, can_save=False)
    assert kept.press("c-s") == kept
    assert "Ctrl-S" not in str(kept.keys(PLAIN, typing=False))


def pressed(question: ModelPickList, *keys: str) -> ModelPickList:
    for key in keys:
        after = question.press(key)
        assert isinstance(after, ModelPickList)
        question = after
    return question


def test_the_arrows_choose_an_effort_for_each_model() -> None:
    question = replace(QUESTION, effort="low")
    assert "Reasoning effort:  default  [low]  medium   high" in shown(question)
    assert question.words("") == Answered(Chosen(NAMES[1], None))
    high = pressed(question, "right", "right", "right")
    assert "[high]" in shown(high)
    assert high.words("") == Answered(Chosen(NAMES[1], "high"))
    assert high.press("c-s") == Answered(Chosen(NAMES[1], "high", save=True))
    # Another model has its own, and the one before keeps what was chosen.
    other = pressed(high, "up", "left", "left", "left")
    assert "[default]" in shown(other)
    assert other.words("") == Answered(Chosen(NAMES[0], ""))
    assert pressed(other, "down").words("") == Answered(Chosen(NAMES[1], "high"))


def test_a_model_without_efforts_says_so() -> None:
    plain = pressed(QUESTION, "down")
    assert "This model has no setting for reasoning effort." in shown(plain)
    assert pressed(plain, "right").words("") == Answered(Chosen(NAMES[2], None))
    assert "effort" not in [one.does for one in plain.keys(PLAIN, typing=False)]


def test_a_list_that_arrives_leaves_the_picked_model_picked() -> None:
    more = [listed(f"google_genai:gemini-new-{number}") for number in range(5)]
    rows = model_rows([*more, *map(listed, NAMES)], NAMES[1])
    renewed = QUESTION.with_rows(rows, "")
    assert renewed.words("") == Answered(Chosen(NAMES[1]))
    # With the picked one gone the first is picked, and the filter stays.
    assert QUESTION.with_rows(rows[:2], "").words("") == Answered(Chosen(more[0].name))
    filtered = QUESTION.line_changed("opus").with_rows(rows, "")
    assert [row.name for row in filtered.found] == [NAMES[3]]


def test_line_by_line_a_number_or_words_choose() -> None:
    assert "  4  anthropic:claude-opus-5" in "\n".join(QUESTION.text(PLAIN, 100).lines)
    assert QUESTION.typed("4") == Answered(Chosen(NAMES[3]))
    assert QUESTION.typed("opus") == Answered(Chosen(NAMES[3]))
    assert QUESTION.typed("") == Answered(None)


def test_where_the_names_come_from_is_told_in_one_line() -> None:
    problem = ModelUnavailableError("{provider} sent\x1b[2J nothing.", provider="OpenAI").text
    listing = ModelListing("openai", (), problem=problem)
    told = source_text([ModelListing("anthropic", (), live=True), listing])
    assert told.startswith("OpenAI: names from the catalog. OpenAI sent")
    assert "\x1b" not in told
    assert source_text([ModelListing("openai", (), live=True)]) == ""
    assert waiting_text(["openai", "anthropic"]) == "Asking OpenAI, Anthropic for a list of models…"
    hostile = ListedModel("openai:x\x1b]0;title\a\ny", "openai", 1, FREE)
    assert "\x1b" not in shown(replace(QUESTION, rows=model_rows([hostile], ""), picked=0))
