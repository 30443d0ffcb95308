"""Words typed at an open question never answer it: real terminals, real commands, real rhythms.

How fast somebody types is the input of these tests, not a way to synchronise: what has to be on
the screen before a key is pressed is waited for.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.real_terminal import RealTerminal, User
from tests.terminal.conftest import OpenTerminal

WORDS = "why do you want this?"
QUICK, SLOW = (0.04, 0.08), (0.15, 0.2)
"""Seconds between two keys; slow words are short, because only their first keys can answer.

A busy machine presses later than said, and past 350 ms a key stands alone and answers rightly:
times close to that belong to the tests of the rule, which have their own clock.
"""
ALONE = 1.0
"""Seconds after which a key that was pressed alone has answered."""


SAID = [("yes and why?", every) for every in QUICK] + [("yes", every) for every in SLOW]


def script(project: Path, *replies: dict[str, object], at_end: str = "fail") -> Path:
    """Write a scripted model that answers with `replies`; return its file."""
    file = project / "model.yaml"
    file.write_text(json.dumps({"replies": replies, "at_end": at_end}))
    file.chmod(0o644)
    return file


def prompt_at(
    open_terminal: OpenTerminal,
    place: Path,
    *replies: dict[str, object],
    said: str = "go",
    user: User = "current",
    **more: object,
) -> RealTerminal:
    """Open a prompt in a real terminal whose model answers `said` with `replies`."""
    terminal = open_terminal(user=user, **more)
    file = script(place / "project", *replies)
    terminal.start(f"kogniterm --no-sandbox --memory off --model scripted:{file}")
    terminal.until("Describe a task and press Enter.")
    terminal.until(" · ask")
    if said:
        terminal.send(said)
        terminal.until(f"› {said}")
        terminal.send("\r")
    return terminal


def seen(terminal: RealTerminal) -> str:
    return "\n".join(terminal.shown)


def test_words_typed_at_an_approval_never_answer_it(
    open_terminal: OpenTerminal, place: Path
) -> None:
    ran = place / "project" / "ran"
    terminal = prompt_at(open_terminal, place, {"run": f"touch {ran}"}, {"text": "Finished."})
    terminal.until("[y] approve")
    typed = [(words, every) for every in QUICK for words in (WORDS, "1 y")]
    typed += [(words, every) for every in SLOW for words in ("y but", "x y")]
    for words, every in typed:
        terminal.type(words, every=every)
        terminal.until(f"› {words}")
        terminal.until(lambda: "Enter: reject with this reason" in seen(terminal))
        assert not ran.exists()
        terminal.send("\x03")
        terminal.until(lambda: "[y] approve" in seen(terminal))
    assert not ran.exists()
    terminal.type("y", every=ALONE)
    terminal.until("Finished.")
    assert ran.exists()


def test_words_at_the_question_of_a_run_never_answer_it(
    open_terminal: OpenTerminal, place: Path
) -> None:
    terminal = open_terminal()
    ran = place / "project" / "ran"
    commands: list[dict[str, object]] = [{"run": f"touch {ran}{number}"} for number in range(4)]
    file = script(place / "project", *commands, {"text": "Heard."})
    terminal.start(f"kogniterm run --no-sandbox --memory off --model scripted:{file} go")
    terminal.send("y")  # before the question: no answer
    for number, (words, every) in enumerate(SAID):
        terminal.until(f"touch {ran}{number}")
        terminal.until(lambda n=number: terminal.text.count("Run this command?") > n)
        terminal.until(lambda n=number: terminal.text.count("Not an answer: y") > n)
        terminal.until(lambda: "Your decision [y = approve" in "".join(terminal.shown[-2:]))
        terminal.type(f"{words} now\r", every=every)
        terminal.until(lambda n=number: terminal.text.count("Press Enter to reject") > n)
        assert not list((place / "project").glob("ran*"))
        terminal.send("\r" if number == len(SAID) - 1 else "\ry")
    assert terminal.status() == 3
    assert not list((place / "project").glob("ran*"))
