"""The word lexer compared with bash."""

from __future__ import annotations

import subprocess

import pytest

from kogniterm.approval import classify
from kogniterm.approval.analysis.expansion import Scope, expand
from kogniterm.approval.analysis.paths_and_variables import HOLE, Roots
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import Simple
from kogniterm.ui.locale import translate
from tests.support.language import in_spanish
from tests.support.programs import needs

_WORDS = [
    "plain", "r\\m", "'r''m'", '"r"m', "$'\\x72m'", "$'\\162\\155'", "$'a\\tb'", "$'\\u00e9'",
    '"a\\"b"',
    '"a\\$b"', "a\\ b", "'a b'", '"a\\b"', "a\\\nb", '"x\\\ny"', "''", '""', "a''b", "{a,b}",
    "x{a,b}y",
    "{a,b}{c,d}", "{1..3}", "{a..c}", "{a}", "{a,b", "a{b,c{d,e}}f", "'{a,b}'", "\\{a,b}", "{,x}",
    "-{r,f}", "a=b", "$'\\''", "\"'\"", "'\"'", "é", "日本", "a#b", "%s", "!", "a!b", "^x", "$",
    "a$",
    '"$"', "\\$x", "a,b", "@", "+x", "$'\\cA'x", "$'a\\0b'c", "{1..1}", "{3..1}", "{01..2}x",
]  # fmt: skip


@needs("bash")
@pytest.mark.parametrize("word", _WORDS)
def test_a_word_becomes_what_bash_makes_of_it(word: str) -> None:
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {word}"], capture_output=True, check=True
    ).stdout.decode()
    wanted = shown.split("\0")[:-1]
    node = parse(f"echo {word}")
    if not isinstance(node, Simple):
        return  # unreadable for the analysis, so it is asked about
    scope = Scope(Roots.of("/w", None), "/w")
    got = [a.value for w in node.words[1:] for a in expand(w, scope)]
    if any(HOLE in value for value in got):
        return
    assert set(got) == set(wanted)


@pytest.mark.parametrize(
    ("command", "english", "spanish"),
    [
        ("ls ;; pwd", "an unsupported construct (;;)", "una construcción no admitida (;;)"),
        (
            "cat <<EOF\n`x`\nEOF",
            "an unreadable substitution ($(…)",
            "una sustitución ilegible ($(…)",
        ),
    ],
)
def test_the_reason_why_a_command_could_not_be_parsed_is_translated(
    command: str, english: str, spanish: str
) -> None:
    texts = [text for text in classify(command).reasons if "parsed" in text.template]
    assert str(texts[0]) == f"Could not be parsed: {english}."
    with in_spanish():
        assert translate(texts[0]) == f"No se pudo analizar: {spanish}."
