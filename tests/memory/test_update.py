"""Decay, and precedence between contradicting statements: pure rules, tested on any value."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.errors import UsageError
from kogniterm.memory import fact_records, searcher
from kogniterm.memory.fact_records import CATEGORIES, Candidate, Fact, Source, fact_id
from kogniterm.memory.update import judge

NOW = 1_700_000_000.0
facts = st.builds(
    Fact,
    id=st.integers(1, 9),
    text=st.just("text"),
    category=st.sampled_from(CATEGORIES),
    confidence=st.floats(0, 1),
    source=st.sampled_from(get_args(Source)),
    pinned=st.booleans(),
    last_confirmed=st.floats(0, NOW),
)


@given(facts, st.floats(0, 4000), st.floats(0, 4000))
def test_confidence_only_falls_and_stays_in_range(fact: Fact, one: float, two: float) -> None:
    early, late = sorted((one, two))
    first = fact_records.effective_confidence(fact, fact.last_confirmed + early * fact_records.DAY)
    second = fact_records.effective_confidence(fact, fact.last_confirmed + late * fact_records.DAY)
    assert 0 <= second <= first <= fact.confidence
    if fact.pinned or fact_records.HALF_LIVES[fact.category] is None:
        assert second == fact.confidence


@given(facts)
def test_confidence_halves_in_its_half_life_and_never_grows_before(fact: Fact) -> None:
    half_life = fact_records.HALF_LIVES[fact.category]
    assert fact_records.effective_confidence(fact, fact.last_confirmed - 1000) == fact.confidence
    if half_life is not None and not fact.pinned:
        later = fact.last_confirmed + half_life * fact_records.DAY
        assert fact_records.effective_confidence(fact, later) == pytest.approx(fact.confidence / 2)


@given(facts, st.sampled_from(get_args(Source)), st.floats(0, 1))
def test_only_the_user_overrules_the_user(old: Fact, source: Any, confidence: float) -> None:
    new = Candidate("text", source=source, confidence=confidence)
    action = judge("update", new, old, NOW)
    if source == "explicit":
        assert action == "supersede"
    elif old.source == "explicit" or old.pinned:
        assert action == "pend"
    else:
        strong = confidence >= fact_records.effective_confidence(old, NOW)
        assert action == ("supersede" if strong else "pend")
    assert judge("same", new, old, NOW) == "confirm"
    assert judge("detail", new, old, NOW) == judge("other", new, old, NOW) == "add"


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What happened on 3 May 2023?", 1),
        ("What happened on May 3rd, 2023?", 1),
        ("2023-05-03 notes", 1),
        ("¿Qué pasó el 3 de mayo de 2023?", 1),
        ("in May 2023", 31),
        ("en diciembre de 2023", 31),
        ("in Feb 2024", 29),
    ],
)
def test_a_named_day_or_month_is_understood(question: str, days: int) -> None:
    period = searcher.named_period(question)
    assert period is not None
    assert period[1] - period[0] == days * 86_400


@pytest.mark.parametrize("question", ["may I deploy?", "31 February 2023", "in 2023", ""])
def test_what_names_no_day_is_none(question: str) -> None:
    assert searcher.named_period(question) is None


@pytest.mark.parametrize("value", [7, "7", "m7", "[m7]", " M7 "])
def test_ids_are_read_in_every_form(value: int | str) -> None:
    assert fact_id(value) == 7


@pytest.mark.parametrize("value", ["", "x7", "m", "m7m", "-1"])
def test_what_is_no_id_is_refused(value: str) -> None:
    with pytest.raises(UsageError):
        fact_id(value)


@pytest.mark.parametrize(
    "text",
    [
        "ghp_abcdefghijklmnopqrstuvwxyz012345",
        "AKIAABCDEFGHIJKLMNOP",
        "password is hunter22",
        "la contraseña es tortuga",
        "postgresql://ana:tortuga@db/shop",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_secrets_are_seen(text: str) -> None:
    assert fact_records.why_not_kept(text) is not None
    assert not fact_records.may_be_recalled(text)


@pytest.mark.parametrize(
    "text", ["Ana changes the password every month", "the API key lives in the vault", "m7"]
)
def test_talk_about_secrets_is_none(text: str) -> None:
    assert fact_records.why_not_kept(text) is None
    assert fact_records.may_be_recalled(text)
