"""Statements about a user's health, faith and politics, told apart from talk about data."""

from __future__ import annotations

import pytest

from kogniterm.memory.sensitive_topics import personal_kind


@pytest.mark.parametrize(
    "statement",
    [
        "I have diabetes",
        "I'm diabetic",
        "My mother was diagnosed with breast cancer",
        "Tengo diabetes tipo 2",
        "Soy celíaco",
        "soy alérgica a la penicilina",
        "The person is allergic to penicillin",
        "La persona tiene depresión",
        "me diagnosticaron esclerosis múltiple",
        "tomo 50 mg de sertralina al día",
        "I take insulin twice a day",
        "my blood type is A+",
        "mi mujer está embarazada",
        "Luis has epilepsy",
        "I’m HIV positive",
        "Marta's diagnosis is lupus",
        "mi diagnóstico es cáncer de pulmón",
    ],
)
def test_statements_about_health_are_seen(statement: str) -> None:
    assert personal_kind(statement) == "health"


@pytest.mark.parametrize(
    "statement", ["I am gay", "soy musulmán", "My religion is private", "I vote for the greens"]
)
def test_statements_about_faith_and_politics_are_seen(statement: str) -> None:
    assert personal_kind(statement) == "belief"


@pytest.mark.parametrize(
    "statement",
    [
        "We use the diabetes dataset from sklearn",
        "the patients table has a diabetes column",
        "Ana works on the cancer detection model",
        "run the health check before deploying",
        "the service was diagnosed as slow",
        "I vote for tabs over spaces",
        "mi operación de merge falló",
        "The build is broken on Mondays",
        "I have a cold cache problem",
        "Tomo café por las mañanas",
        "el proyecto es de código abierto",
        "The cluster has a virus scanner",
    ],
)
def test_talk_about_data_and_programs_is_none(statement: str) -> None:
    assert personal_kind(statement) is None
