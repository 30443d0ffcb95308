"""Both languages have the same messages: everything a user reads exists in Spanish."""

from __future__ import annotations

import string
from collections.abc import Iterator

import pytest
from langchain_core.messages import AIMessage

from kogniterm.agent.replies import is_unusable, no_usable_reply
from kogniterm.types import Phrase
from kogniterm.ui.locale import (
    _,
    catalogue,
    duration,
    language,
    plural,
    read_po,
    size,
    tokens,
    translate,
    use_language,
)
from tests.ui.messages import PACKAGE, TEMPLATES, Message, dynamic, messages


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    use_language("en")


def fields(template: str) -> list[str]:
    """Return the placeholders of a template, with their format, in any order."""
    parts = string.Formatter().parse(template)
    return sorted(f"{name}:{spec}" for _text, name, spec, _conversion in parts if name is not None)


def entry(message: Message) -> str:
    """Return the catalogue entry to fill in for `message`."""
    quoted = message.text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'#: {message.where}\nmsgid "{quoted}"\nmsgstr ""\n'


def test_every_sentence_has_a_spanish_one() -> None:
    spanish = catalogue("es")
    assert spanish is not None
    missing = {
        message.text: message
        for message in messages()
        if (
            (message.text, message.many) not in spanish.plural
            if message.many
            else message.text not in spanish.singular
        )
    }
    assert not missing, "\n" + "\n".join(entry(message) for message in missing.values())


def test_the_search_for_sentences_finds_the_kinds_it_must() -> None:
    found = {message.text for message in messages()}
    assert "Run this command?" in found  # _()
    assert "list the commands, or explain one" in found  # Text in a table
    assert "Unknown command /{name}; /help lists the commands." in found  # an error
    assert "{count} job" in found  # plural()
    assert [module for module in TEMPLATES if not (PACKAGE / module).is_file()] == []


def test_no_sentence_is_put_together_where_it_cannot_be_translated() -> None:
    assert [where for where in dynamic() if where.startswith("ui/")] == []


def test_translations_keep_the_placeholders() -> None:
    spanish = catalogue("es")
    assert spanish is not None
    wrong = [
        english for english, other in spanish.singular.items() if fields(english) != fields(other)
    ]
    wrong += [
        one
        for (one, many), forms in spanish.plural.items()
        if fields(many) != fields(forms[1]) or set(fields(forms[0])) - set(fields(many))
    ]
    assert wrong == []


def test_nothing_is_translated_that_is_no_longer_said() -> None:
    spanish = catalogue("es")
    assert spanish is not None
    said = {message.text for message in messages()}
    assert [english for english in spanish.singular if english not in said] == []


def test_a_language_is_used_at_once_and_others_read_as_english() -> None:
    use_language("es")
    assert _("Thinking") == "Pensando"
    assert plural("{count} job", "{count} jobs", 1) == "1 trabajo"
    assert plural("{count} job", "{count} jobs", 3) == "3 trabajos"
    use_language("tlh")
    assert language() == "en"
    assert _("Thinking") == "Thinking"


def test_a_text_is_translated_with_its_values_and_the_texts_among_them() -> None:
    use_language("es")
    text = Phrase("Model: {name}. {why}", {"name": "local", "why": Phrase("Thinking")})
    assert translate(text) == "Modelo: local. Pensando"
    assert translate(Phrase("Not in any catalogue {x}", {"x": 1})) == "Not in any catalogue 1"
    assert translate(Phrase("Braces {stay} without values")) == "Braces {stay} without values"


def test_a_catalogue_is_read_as_gettext_writes_it() -> None:
    found = read_po(
        'msgid ""\nmsgstr "Language: xx"\n\n'
        '# a comment\nmsgid "one "\n"line"\nmsgstr "una \\"línea\\"\\n"\n\n'
        'msgid "a"\nmsgid_plural "b"\nmsgstr[0] "x"\nmsgstr[1] "y"\n\n'
        '#, fuzzy\nmsgid "guess"\nmsgstr "adivina"\n\n'
        'msgid "empty"\nmsgstr ""\n'
    )
    assert found.singular == {"one line": 'una "línea"\n'}
    assert found.plural == {("a", "b"): ("x", "y")}


def test_entries_without_an_empty_line_between_them_are_all_read() -> None:
    found = read_po(
        'msgid "one"\nmsgstr "uno"\nmsgid "two"\nmsgstr "dos"\n'
        '#, fuzzy\nmsgid "guess"\nmsgstr "adivina"\n# why\nmsgid "three"\nmsgstr "tres"\n'
    )
    assert found.singular == {"one": "uno", "two": "dos", "three": "tres"}


@pytest.mark.parametrize(
    ("text", "line"),
    [('msgid "a\n', 1), ('msgid "a"\nnonsense "b"\n', 2), ('"lost"\n', 1), ("msgid 3\n", 1)],
)
def test_a_broken_catalogue_names_the_line(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=f"line {line}:"):
        read_po(text)


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


def test_why_a_reply_could_not_be_used_is_told_in_spanish() -> None:
    use_language("es")
    problem = is_unusable(AIMessage(""))
    assert problem == "it was empty"
    assert "(la última: estaba vacía)" in translate(no_usable_reply(Phrase(problem)).text)
