"""Every key KogniTerm binds, as one table: it feeds the bindings, /keys and docs/keys.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kogniterm.types import Phrase
from kogniterm.ui.locale import language

Where = Literal["prompt", "question", "plan", "choice", "answer"]


@dataclass(frozen=True, slots=True)
class Key:
    """`sequences` in prompt_toolkit's names, each a chord of one or more keys.

    `spanish` is the letter that matches the Spanish word. The English one goes on working there
    unless it means something else at the same question.
    """

    action: str
    sequences: tuple[tuple[str, ...], ...]
    shown: str
    help: Phrase
    where: Where = "prompt"
    spanish: str = ""


KEYS = (
    Key("submit", (("enter",),), "Enter", Phrase("send the line; while a turn runs, queue it")),
    Key(
        "newline",
        (("escape", "enter"),),
        "Alt-Enter",
        Phrase("start a new line; so does Enter after a backslash"),
    ),
    Key(
        "interrupt",
        (("c-c",),),
        "Ctrl-C",
        Phrase("clear the line; else stop the running command; else stop the turn"),
    ),
    Key(
        "escape",
        (("escape",),),
        "Esc",
        Phrase("stop the running command; twice: stop the turn, and what you typed comes back"),
    ),
    Key("leave", (("c-d",),), "Ctrl-D", Phrase("leave, on an empty line")),
    Key(
        "send_now",
        (("c-t",),),
        "Ctrl-T",
        Phrase("stop the turn and send what waits in the queue at once"),
    ),
    Key(
        "steer",
        (("c-s",),),
        "Ctrl-S",
        Phrase("say the line to the running turn; on an empty line, what waits in the queue"),
    ),
    Key(
        "take_back",
        (("escape", "up"),),
        "Alt-Up",
        Phrase("take the last queued message back to the line"),
    ),
    Key("complete", (("tab",),), "Tab", Phrase("complete a command, its argument or a @file")),
    Key("mode", (("s-tab",),), "Shift-Tab", Phrase("switch between manual and auto-approve")),
    Key("editor", (("c-x", "c-e"),), "Ctrl-X Ctrl-E", Phrase("write the line in your editor")),
    Key("paste_image", (("c-v",),), "Ctrl-V", Phrase("add the image on the clipboard")),
    Key("search", (("c-r",),), "Ctrl-R", Phrase("search the history")),
    Key("clear", (("c-l",),), "Ctrl-L", Phrase("clear the screen")),
    Key("suspend", (("c-z",),), "Ctrl-Z", Phrase("put KogniTerm in the background")),
    Key(
        "approve",
        (("y",),),
        "y",
        Phrase("approve: exactly what is shown runs"),
        "question",
        spanish="s",
    ),
    Key(
        "reject",
        (("n",),),
        "n",
        Phrase("reject, with a reason for the model if you like"),
        "question",
    ),
    Key(
        "edit",
        (("e",),),
        "e",
        Phrase("change the command in place; it is judged and shown again"),
        "question",
    ),
    Key("explain", (("x",),), "x", Phrase("explain what the rules said"), "question"),
    Key(
        "lease",
        (("l",),),
        "l",
        Phrase("grant a lease, where one is offered"),
        "question",
        spanish="p",
    ),
    Key("stop", (("s",),), "s", Phrase("stop the turn"), "question", spanish="d"),
    Key(
        "page",
        (("space",), ("pagedown",), ("pageup",), ("up",), ("down",)),
        "Space, Page-Up/Down, arrows",
        Phrase("read a question that is longer than the screen"),
        "question",
    ),
    Key(
        "plan_approve",
        (("y",), ("enter",)),
        "y, Enter",
        Phrase("work on the plan as it is shown; its commands are still asked for"),
        "plan",
        spanish="s",
    ),
    Key(
        "plan_reject",
        (("n",),),
        "n",
        Phrase("reject it; the model plans anew with your reason"),
        "plan",
    ),
    Key("plan_edit", (("e",),), "e", Phrase("write it in your editor"), "plan"),
    Key("plan_choose", (("up",), ("down",)), "Up, Down", Phrase("choose a step"), "plan"),
    Key(
        "plan_move",
        (("left",), ("right",)),
        "Left, Right",
        Phrase("do the step sooner or later"),
        "plan",
    ),
    Key("plan_drop", (("d",),), "d", Phrase("drop the step"), "plan", spanish="q"),
    Key("plan_add", (("a",),), "a", Phrase("add a step after it"), "plan"),
    Key("plan_stop", (("s",),), "s", Phrase("stop the turn"), "plan", spanish="d"),
    Key("yes", (("y",),), "y", Phrase("yes: do what the question asks"), "choice", spanish="s"),
    Key("no", (("n",),), "n", Phrase("no: leave everything as it is"), "choice"),
    Key("check", (("c",),), "c", Phrase("let the model check what a command did"), "choice"),
    Key("again", (("a",),), "a", Phrase("let the model propose it again"), "choice", spanish="p"),
    Key("skip", (("g",),), "g", Phrase("go on without it"), "choice", spanish="o"),
    Key("mend", (("e",),), "e", Phrase("open the editor again"), "choice"),
    Key("give_up", (("g",),), "g", Phrase("give the change up"), "choice", spanish="d"),
    Key("answer", (("enter",),), "Enter", Phrase("send the answer"), "answer"),
    Key(
        "answer_newline",
        (("escape", "enter"), ("c-j",)),
        "Alt-Enter",
        Phrase("start a new line of it; so does Enter after a backslash"),
        "answer",
    ),
    Key(
        "answer_pick",
        (("up",), ("down",), ("pageup",), ("pagedown",)),
        "Arrows, Page-Up/Down",
        Phrase("choose one of the answers; read a question that is longer than the screen"),
        "answer",
    ),
    Key(
        "answer_none", (("escape",),), "Esc", Phrase("give no answer; the model is told"), "answer"
    ),
    Key(
        "answer_stop", (("c-c",),), "Ctrl-C", Phrase("clear the line; else stop the turn"), "answer"
    ),
)

_KEY_OF = {key.action: key for key in KEYS}
BUILT_IN = frozenset({"search"})  # prompt_toolkit binds these itself


def sequences(action: str) -> tuple[tuple[str, ...], ...]:
    """Return the chords of `action`. KeyError if the table has none."""
    return _KEY_OF[action].sequences


def letter(action: str, spoken: str = "") -> str:
    """Return the key of `action` in the language in use, or in `spoken`."""
    return _letter(_KEY_OF[action], spoken or language())


def actions(where: Where) -> dict[str, str]:
    """Return every key that does something at a question, with its action.

    Letters of the language in use come first, then the English ones that mean nothing else there.
    """
    found: dict[str, str] = {}
    for spoken in (language(), "en"):
        for key in KEYS:
            if key.where == where:
                others = [chord[0] for chord in key.sequences[1:]]
                for name in (_letter(key, spoken), *others):
                    found.setdefault(name, key.action)
    return found


def _letter(key: Key, spoken: str) -> str:
    return (key.spanish if spoken == "es" else "") or key.sequences[0][0]


YES_WORDS = ("yes", "sí", "si")
"""The whole words that confirm, in every language: nobody has to know which one is in use."""
WORDS = {
    "approve": YES_WORDS,
    "plan_approve": YES_WORDS,
    "yes": YES_WORDS,
    "reject": ("no",),
    "plan_reject": ("no",),
    "no": ("no",),
    "stop": ("stop", "detener"),
    "plan_stop": ("stop", "detener"),
}
NO_WORDS = ("n", "no")
"""Lines that reject without a reason: the only words that answer, because nothing runs then."""
ANSWER_WORDS = frozenset(("y", "n", "s", "ok", "okay", "vale")) | {
    word for words in WORDS.values() for word in words
}
"""Lines that look like an answer: neither one, nor a reason to reject something."""


def action_of(where: Where, line: str) -> str:
    """Return the action of a line that is exactly its key or its word; "" for any other."""
    said = line.strip().lower()
    found = actions(where)
    if len(said) == 1 and said in found:
        return found[said]
    return next((action for action in found.values() if said in WORDS.get(action, ())), "")


def table(where: Where) -> list[tuple[str, Phrase]]:
    """Return (keys as shown, what they do) in the table's order."""
    return [(_shown(key), key.help) for key in KEYS if key.where == where]


def _shown(key: Key) -> str:
    return f"{key.shown} ({key.spanish} in Spanish)" if key.spanish else key.shown
