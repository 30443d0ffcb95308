"""The word lexer against bash: what a word becomes."""

from __future__ import annotations

import subprocess

import pytest

from kogniterm.approval.analysis.expansion import Scope, expand
from kogniterm.approval.analysis.paths_and_variables import HOLE, Roots
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import Simple
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
        return  # unreadable for the analysis: asked about
    scope = Scope(Roots.of("/w", None), "/w")
    got = [a.value for w in node.words[1:] for a in expand(w, scope)]
    if any(HOLE in value for value in got):
        return
    assert set(got) == set(wanted)
