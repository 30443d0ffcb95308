"""Words typed at the question of a run never answer it: a real terminal, real rhythms.

How fast somebody types is the input of these tests, not a way to synchronise: what has to be on
the screen before a key is pressed is waited for.
"""

from __future__ import annotations

from tests.support.typing_user import scripted
from tests.terminal.conftest import OpenTerminal

SAID = [("yes and why?", 0.04), ("yes and why?", 0.08), ("yes", 0.15), ("yes", 0.2)]
"""Words, and the seconds between two keys of them; slow words are short.

A busy machine presses later than said, and past 350 ms a key stands alone and answers rightly:
times close to that belong to the tests of the rule, which have their own clock.
"""


def test_words_at_the_question_of_a_run_never_answer_it(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal()
    ran = terminal.folder / "ran"
    commands = [f"{{run: touch {ran}{number}}}" for number in range(4)]
    model = scripted(terminal, f"replies: [{', '.join(commands)}, {{text: Heard.}}]")
    terminal.start(f"kogniterm run --no-sandbox --memory off --model {model} go")
    terminal.send("y")  # before the question: no answer
    for number, (words, every) in enumerate(SAID):
        terminal.until(f"touch {ran}{number}")
        terminal.until(lambda n=number: terminal.text.count("Run this command?") > n)
        terminal.until(lambda n=number: terminal.text.count("Not an answer: y") > n)
        terminal.until(lambda: "Your decision [y = approve" in "".join(terminal.shown[-2:]))
        terminal.type(f"{words} now\r", every=every)
        terminal.until(lambda n=number: terminal.text.count("Press Enter to reject") > n)
        assert not list(terminal.folder.glob("ran*"))
        terminal.send("\r" if number == len(SAID) - 1 else "\ry")
    assert terminal.status() == 3
    assert not list(terminal.folder.glob("ran*"))
