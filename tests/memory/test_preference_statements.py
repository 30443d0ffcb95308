"""Preferences in the user's words: what sets one, and what does not."""

from __future__ import annotations

import pytest

from kogniterm.memory.preference_statements import preferences_in, without_preferences


@pytest.mark.parametrize(
    ("said", "name", "value"),
    [
        ("answer briefly from now on", "verbosity", "short"),
        ("From now on, answer in Spanish.", "language", "es"),
        ("Always reply in English, please", "language", "en"),
        ("Please always answer in German", "language", "de"),
        ("I prefer short answers", "verbosity", "short"),
        ("be brief from now on", "verbosity", "short"),
        ("From now on, give me detailed answers", "verbosity", "long"),
        ("use pytest, not unittest", "test_runner", "pytest"),
        ("I prefer pytest to unittest", "test_runner", "pytest"),
        ("always use yarn", "package_manager", "yarn"),
        ("explain every command before you run it", "explain_commands", True),
        ("don't explain commands", "explain_commands", False),
        ("Stop explaining the commands to me.", "explain_commands", False),
        ("Call me Ana María", "name", "Ana María"),
        ("never use emojis", "emoji", False),
        ("always use emojis", "emoji", True),
        ("I use fish as my shell", "shell", "fish"),
        ("my editor is nvim", "editor", "nvim"),
        ("Always use conventional commits", "commit_style", "conventional"),
        ("use metric units", "units", "metric"),
        ("responde siempre en español", "language", "es"),
        ("Prefiero que respondas en inglés", "language", "en"),
        ("explícame los comandos", "explain_commands", True),
        ("no me expliques los comandos", "explain_commands", False),
        ("prefiero respuestas cortas", "verbosity", "short"),
        ("Sé breve siempre", "verbosity", "short"),
        ("responde con más detalle siempre", "verbosity", "long"),
        ("usa pnpm en vez de npm", "package_manager", "pnpm"),
        ("usa siempre el sistema métrico", "units", "metric"),
        ("llámame Íñigo", "name", "Íñigo"),
        ("uso emacs como editor", "editor", "emacs"),
        ("mi shell es zsh", "shell", "zsh"),
        ("sin emojis, por favor", "emoji", False),
        ("siempre escribe los mensajes de commit en imperativo", "commit_style", "imperative"),
    ],
)
def test_a_statement_sets_a_preference(said: str, name: str, value: object) -> None:
    assert [(one.name, one.value, one.scope) for one in preferences_in(said)] == [
        (name, value, "everywhere")
    ]


@pytest.mark.parametrize(
    "said",
    [
        "can you always answer in Spanish?",
        "¿respondes siempre en español?",
        "why do you always answer in Spanish",
        "do you prefer pytest?",
        "The README says: always answer in Spanish",
        "my boss says always answer in Spanish",
        '"always answer in Spanish"',
        "«responde siempre en español»",
        "`always answer in Spanish`",
        "> always answer in Spanish",
        "```\nalways answer in Spanish\n```",
        "- always answer in Spanish",
        "Summarise this text:\nalways answer in Spanish",
        "What does this say\nFrom now on, answer in German",
        "answer in Spanish",
        "be brief",
        "use pytest",
        "Write a test for the parser. Use pytest, not unittest.",
        "Explain the commands. Then run them.",
        "always answer in this file",
        "from now on, list the files",
        "don't answer in Spanish from now on",
        "Translate it and always answer in Spanish to my mother",
        "explain the command",
        "I prefer tea",
        "always use tea",
        "My name is on the list",
        "call me later",
        "llámame cuando termines",
        "install pnpm",
        "always answer in Klingon",
        "my editor is ../evil",
        "x " * 600 + "always answer in Spanish",
    ],
)
def test_a_question_a_quotation_or_a_task_sets_none(said: str) -> None:
    assert preferences_in(said) == []
    assert without_preferences(said) == said.strip()


def test_the_project_is_meant_where_it_is_named() -> None:
    for said in ("In this project, always use vitest", "en este proyecto usa siempre vitest"):
        assert [(one.value, one.scope) for one in preferences_in(said)] == [("vitest", "project")]


def test_a_task_beside_a_standing_preference_stays() -> None:
    said = "Answer in Spanish from now on. List the largest files."
    assert [one.value for one in preferences_in(said)] == ["es"]
    assert without_preferences(said) == "List the largest files."
