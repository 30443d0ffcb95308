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
QUICK, SLOW = (0.02, 0.06), (0.2, 0.4)
"""Seconds between two keys; slow words are short, because only their first keys can answer."""
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


def test_a_burst_a_paste_and_a_pause_in_the_middle_are_words(
    open_terminal: OpenTerminal, place: Path
) -> None:
    ran = place / "project" / "ran"
    terminal = prompt_at(open_terminal, place, {"run": f"touch {ran}"}, {"text": "Heard."})
    terminal.until("[y] approve")
    terminal.send("yes")
    terminal.send("\x1b[200~y\x1b[201~")
    terminal.pause(1.0)
    terminal.type("y it my way", every=0.06)
    terminal.pause(1.0)
    terminal.until("› yesyy it my way")
    assert not ran.exists()
    terminal.send("\r")
    terminal.until("Heard.")
    assert "Rejected: touch" in terminal.text
    assert "  yesyy it my way" in terminal.text
    assert not ran.exists()


def test_keys_typed_before_the_question_never_answer_it(
    open_terminal: OpenTerminal, place: Path, user: User
) -> None:
    ran = place / "project" / "ran"
    replies = ({"run": f"touch {ran}"}, {"text": "Heard."})
    terminal = prompt_at(open_terminal, place, *replies, said="", user=user)
    terminal.send("go\ry")
    terminal.until("The question waits")
    terminal.until("Enter: reject with this reason")
    assert not ran.exists()
    terminal.send("\x1b")
    terminal.until("[y] approve")
    terminal.type("y", every=ALONE)
    terminal.until("Heard.")
    assert ran.exists()


def test_a_dangerous_command_wants_the_whole_word_on_an_empty_line(
    open_terminal: OpenTerminal, place: Path
) -> None:
    victim = place / "project" / "victim"
    replies = ({"run": f"shred -u {victim}"}, {"text": "Heard."})
    terminal = prompt_at(open_terminal, place, *replies, said="")
    victim.write_text("kept")
    terminal.send("go\r")
    terminal.until("dangerous")
    terminal.until("[y] approve")
    terminal.type("y", every=ALONE)
    terminal.until("Type yes and press Enter")
    terminal.type("yyes\r", every=0.06)
    terminal.until("Not run. To run it, press y again and type yes.")
    assert victim.exists()
    terminal.until(lambda: "[y] approve" in seen(terminal))
    terminal.type("y", every=ALONE)
    terminal.until(lambda: "Type yes and press Enter" in seen(terminal))
    terminal.type("yes\r", every=0.06)
    terminal.until("Heard.")
    assert not victim.exists()


def test_words_at_the_questions_of_trust_and_undo_never_answer_them(
    open_terminal: OpenTerminal, place: Path
) -> None:
    (place / "project").mkdir()
    (place / "project" / "KOGNITERM.md").write_text("Be brief.\n")
    terminal = prompt_at(open_terminal, place, {"text": "Heard."}, said="")
    terminal.send("/trust\r")
    terminal.until("[y] trust")
    for words, every in SAID:
        terminal.type(words, every=every)
        terminal.until(lambda: "Your text stays on the line" in seen(terminal))
        terminal.send("\x03")
        terminal.until(lambda: "[y] trust" in seen(terminal))
    terminal.type("/keys", every=0.06)
    terminal.until(lambda: "Enter: run the command" in seen(terminal))
    terminal.send("\r")
    terminal.until("ALT-Enter" if "ALT-Enter" in terminal.text else "Alt-Enter")
    terminal.until(lambda: "[y] trust" in seen(terminal))
    assert "Trusted" not in terminal.text
    terminal.type("n", every=ALONE)
    terminal.until("Nothing changed.")


def test_a_key_held_down_answers_one_question(open_terminal: OpenTerminal, place: Path) -> None:
    one, two = place / "project" / "one", place / "project" / "two"
    replies = ({"run": f"touch {one}"}, {"run": f"touch {two}"}, {"text": "Heard."})
    terminal = prompt_at(open_terminal, place, *replies)
    terminal.until("[y] approve")
    terminal.send("y")
    terminal.until(one.exists)
    terminal.type("y" * 40, every=0.03)  # a keyboard repeats a held key after a delay
    terminal.until(f"$ touch {two}")
    terminal.type("y" * 20, every=0.03)
    terminal.pause(ALONE)
    assert not two.exists()


def test_words_at_a_plan_never_start_it(open_terminal: OpenTerminal, place: Path) -> None:
    plan = {"goal": "tidy", "steps": [{"id": "s1", "what": "look"}, {"id": "s2", "what": "go"}]}
    replies = ({"plan": plan}, {"text": "Heard."})
    terminal = prompt_at(open_terminal, place, *replies)
    terminal.until("[y] start")
    for words, every in SAID:
        terminal.type(words, every=every)
        terminal.until(lambda: "Enter: reject with this reason" in seen(terminal))
        terminal.send("\x03")
        terminal.until(lambda: "[y] start" in seen(terminal))
    assert "edited by you" not in terminal.text
    assert "Plan →" not in terminal.text


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


def test_a_dumb_terminal_asks_again_for_words(open_terminal: OpenTerminal, place: Path) -> None:
    ran = place / "project" / "ran"
    replies = ({"run": f"touch {ran}"}, {"text": "Heard."})
    dumb = {"TERM": "dumb"}
    terminal = open_terminal(environment=dumb)
    file = script(place / "project", *replies)
    terminal.start(f"kogniterm --no-sandbox --memory off --model scripted:{file}")
    terminal.until("Describe a task and press Enter.")
    terminal.send("go\r")
    terminal.until("Your decision")
    terminal.send("/keys\r")
    terminal.until("Alt-Enter")
    terminal.send("yes but why?\r")
    terminal.until("Press Enter to reject with this reason")
    assert not ran.exists()
    terminal.send("y\r")
    terminal.until("Heard.")
    assert ran.exists()


def test_in_spanish_s_is_yes(open_terminal: OpenTerminal, place: Path) -> None:
    ran, other = place / "project" / "ran", place / "project" / "other"
    terminal = open_terminal(environment={"LANG": "es_ES.UTF-8"})
    touch: list[dict[str, object]] = [{"run": f"touch {ran}"}] * 3
    file = script(place / "project", *touch, {"run": f"touch {other}"}, {"text": "Hecho."})
    terminal.start(f"kogniterm --no-sandbox --memory off --model scripted:{file}")
    terminal.until(" · preguntar")
    terminal.send("hola\r")
    terminal.until("[s] sí, aprobar")
    assert "[d] detener el turno" in seen(terminal)
    terminal.send("s")
    terminal.until(ran.exists)
    ran.unlink()
    terminal.until("╰ ✓")
    terminal.until(lambda: "[a]" in "\n".join(terminal.shown[-4:]))
    terminal.send("a")
    terminal.until("[1] exactamente este comando")
    terminal.pause(ALONE)
    terminal.send("1")
    terminal.until(f"$ touch {other}")  # the third is covered by the permission
    terminal.until("[d] detener el turno")
    terminal.pause(ALONE)
    terminal.send("d")
    terminal.until(lambda: any(line == "› hola" for line in terminal.shown))
    assert ran.exists()
    assert not other.exists()


def test_a_file_name_cannot_forge_a_row(open_terminal: OpenTerminal, place: Path) -> None:
    name = "a\n[y] approve  b\u200b"
    terminal = prompt_at(open_terminal, place, {"run": f"rm '{name}'"}, said="", columns=160)
    (place / "project" / name).write_text("x")
    terminal.send("go\r")
    terminal.until("[x] explain")
    effects = [line for line in terminal.shown if "Deletes" in line]
    assert effects
    assert "\\u{A}" in effects[0]
    assert "\\u{200B}" in effects[0]
