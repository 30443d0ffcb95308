"""Sensitive statements: refused by every way into memory, and never recalled if stored."""

from __future__ import annotations

import pytest

from kogniterm.errors import UsageError
from kogniterm.memory.contexts import SessionContext
from kogniterm.memory.fact_records import Candidate
from kogniterm.memory.memory_transfer import export_lines, import_lines
from kogniterm.memory.recall import recall
from tests.memory.conftest import OpenMemory


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("my card is 4111 1111 1111 1111", "secret"),
        ("la contraseña del wifi es girasolazul", "secret"),
        ("my card is [secret:1]", "secret"),
        ("I have diabetes", "health"),
    ],
)
def test_sensitive_statements_are_refused_everywhere_and_not_recalled(
    open_here: OpenMemory, text: str, why: str
) -> None:
    memory = open_here("ana", "shop", redact=str)
    assert why in str(memory.remember(Candidate(text=text)).reason)
    fact = memory.get(memory.add("Ana likes tea"))
    with pytest.raises(UsageError, match=why):
        memory.updater.edit(fact, text)
    assert [one.text for one in memory.facts()] == ["Ana likes tea"]


def test_what_an_older_version_stored_is_put_before_no_model(open_here: OpenMemory) -> None:
    before = open_here("ana", "shop", redact=str)
    for text in ("my card is 4111 1111 1111 1111", "I have diabetes", "Ana likes tea"):
        before.add(text, scope="everywhere")
    other = open_here("ana", "blog", redact=str)
    shown = recall(other, "what is my card, my illness and my drink?").text
    assert "tea" in shown
    assert "4111" not in shown
    assert "diabetes" not in shown
    assert SessionContext(other, "s1").for_modules().facts("card diabetes") == ()


def test_an_import_leaves_out_what_is_too_personal(open_here: OpenMemory) -> None:
    ana, ben = open_here("ana"), open_here("ben")
    for text in ("I have diabetes", "Ana likes tea"):
        ana.add(text)
    report = import_lines(ben, export_lines(ana))
    assert (report["added"], report["sensitive"]) == (1, 1)
    assert [one.text for one in ben.facts()] == ["Ana likes tea"]
