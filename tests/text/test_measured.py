"""Redaction measured on sentences that its shapes were not written for, and on real text."""

from __future__ import annotations

import pytest

from kogniterm.text.redact import redact
from tests.text import harmless, secret_corpus


@pytest.mark.parametrize("half", ["HELD_OUT", "SEEN"])
def test_secrets_in_sentences_files_commands_and_logs_are_found(half: str) -> None:
    samples = list(secret_corpus.samples(getattr(secret_corpus, half), seed=20, each=6))
    assert len(samples) >= 400
    missed = [one.text for one in samples if one.secret in redact(one.text)]
    assert len(missed) <= len(samples) * 0.05, missed


def test_no_kind_of_secret_is_missed_more_than_now_and_then() -> None:
    missed: dict[str, list[str]] = {}
    for one in secret_corpus.samples(secret_corpus.HELD_OUT, seed=21, each=6):
        kind = missed.setdefault(one.kind, [])
        if one.secret in redact(one.text):
            kind.append(one.text)
    assert set(missed) == set(secret_corpus.MAKERS)
    counts = {kind: len(texts) for kind, texts in missed.items()}
    assert max(counts.values()) <= 12, missed


def test_ids_sums_times_and_numbers_stay() -> None:
    lines = list(harmless.made(3000, seed=22))
    changed = [line for line in lines if redact(line) != line]
    assert len(changed) <= len(lines) * 0.005, changed[:20]


def test_real_text_stays() -> None:
    lines = harmless.of_the_repository(each=20, seed=23)
    changed = [line for line in lines if redact(line) != line]
    assert len(lines) >= 3000
    assert len(changed) <= len(lines) * 0.03, changed[:20]


def test_talk_about_secrets_stays() -> None:
    lines = harmless.SAID.strip().splitlines()
    changed = [line for line in lines if redact(line) != line]
    assert len(changed) <= len(lines) * 0.03, changed
