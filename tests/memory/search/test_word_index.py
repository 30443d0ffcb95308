"""Facts found by questions that do not use the words of the fact."""

from __future__ import annotations

import pytest

from kogniterm.memory import Memory
from kogniterm.text.language import stem, translated_stems
from tests.memory.conftest import OpenMemory

FACTS = (
    "The user's cat is called Schrödinger and wakes him at five.",
    "The nightly backup failed on 3 March because the disk was full.",
    "The front end is written in Svelte with TypeScript.",
    "The team's daily stand-up is at 9:45 in the morning.",
    "The domain certificate expires on 11 November.",
    "The company laptop runs Fedora.",
    "La base de datos de producción está alojada en Fráncfort.",
    "El presupuesto del proyecto es de 80.000 euros.",
    "Su hermana Inés trabaja como enfermera en un hospital de Vigo.",
    "El usuario prefiere tomar el tren.",
)


def first(memory: Memory, question: str) -> str:
    for fact in FACTS:
        memory.add(fact)
    memory.search(question, 1)
    memory.searcher.settle()
    found = memory.search(question, 1)
    return found[0].text if found else ""


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("¿cómo se llama mi gato?", 0),
        ("¿por qué falló la copia de seguridad?", 1),
        ("¿cuándo caduca el certificado?", 4),
        ("where is the production database hosted", 6),
        ("what is the budget of the project", 7),
        ("what is my sister's profession", 8),
    ],
)
def test_a_question_in_one_language_finds_a_fact_in_the_other(
    open_here: OpenMemory, question: str, fact: int
) -> None:
    assert first(open_here(), question) == FACTS[fact]


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("frontend", 2),
        ("when is the standup", 3),
        ("certficate", 4),
        ("certificat expiration", 4),
        ("how does the lap top boot", 5),
    ],
)
def test_compounds_and_slips_are_found(open_here: OpenMemory, question: str, fact: int) -> None:
    assert first(open_here(), question) == FACTS[fact]


def test_a_name_is_not_taken_for_a_word_of_the_other_language(open_here: OpenMemory) -> None:
    memory = open_here()
    memory.add("He takes the train whenever possible.")
    assert memory.search("What did Tom do yesterday?", 5) == []


@pytest.mark.parametrize("forms", ["pongo pone puso", "quiero quiere quiso", "prefiero prefiere"])
def test_irregular_spanish_verbs_meet(forms: str) -> None:
    assert len({stem(form, "es") for form in forms.split()}) == 1


def test_translations_are_looked_up_in_one_direction(open_here: OpenMemory) -> None:
    assert "take" in translated_stems("es")[stem("tomar", "es")]
    assert stem("tomar", "es") not in translated_stems("en")


def test_facts_with_stems_of_an_older_version_are_found(open_here: OpenMemory) -> None:
    with open_here() as memory:
        memory.add("Ana studies at the university in the evening.")
        memory.sql.run("UPDATE facts SET terms = 'ana studi univers even'")
    again = open_here()
    assert (
        first(again, "evenings at universities") == "Ana studies at the university in the evening."
    )
