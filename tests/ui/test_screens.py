"""Screens of the main flow on a terminal, compared with golden files."""

from __future__ import annotations

import pytest

from tests.ui.golden_screens import DATA, same, scripted_prompt
from tests.ui.pty_peer import OpenPeer

ENGLISH = ("[y] start", "[y] approve", "tokens in")


@pytest.mark.parametrize(
    ("name", "columns", "words", "environment"),
    [
        ("en-80", 80, ENGLISH, {}),
        (
            "es-60",
            60,
            ("[s] sí, iniciar", "[s] sí, aprobar", "tokens de entrada"),
            {"LANG": "es_ES.UTF-8"},
        ),
    ],
)
def test_the_main_flow(
    peer: OpenPeer,
    name: str,
    columns: int,
    words: tuple[str, str, str],
    environment: dict[str, str],
) -> None:
    plan, question, end = words
    script = (DATA / "demo.yaml").read_text(encoding="utf-8")
    with scripted_prompt(peer, script, 40, columns, **environment) as terminal:
        terminal.send("How long are my notes?\r")
        same(terminal, f"{name}-plan", plan)
        terminal.look()
        terminal.send("y")
        terminal.until(question)
        terminal.look()
        terminal.send("y")
        terminal.until("rm -r draft")
        same(terminal, f"{name}-question", question)
        terminal.look()
        terminal.send("y")
        same(terminal, f"{name}-answer", end)
