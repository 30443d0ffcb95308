"""The table of what each kind of sandbox gives: the page, doctor and the model's note follow it."""

from __future__ import annotations

import re
from pathlib import Path

from kogniterm.execution.sandbox.confinement import GIVES

PAGE = Path(__file__).parents[3] / "docs" / "approval.md"
ROW = re.compile(r"^\|.*\(`(\w+)`\) \| (.+) \|$", re.MULTILINE)


def test_the_page_shows_what_each_kind_gives() -> None:
    text = PAGE.read_text("utf-8")
    kinds = [gives for kind, gives in GIVES.items() if kind != "none"]
    assert f"| | {' | '.join(gives.name for gives in kinds)} |" in text
    shown = {name: cells.split(" | ") for name, cells in ROW.findall(text)}
    abilities = [name for name in kinds[0]._asdict() if name != "name"]
    given = {
        name: ["yes" if getattr(gives, name) else "no" for gives in kinds] for name in abilities
    }
    assert shown == given
