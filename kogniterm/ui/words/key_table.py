"""Every key KogniTerm binds, as one table: it feeds the bindings, /keys and docs/keys.md."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kogniterm.types import Phrase
from kogniterm.ui.locale import language, translate

FIX = Phrase("fix it in the editor")
DISCARD = Phrase("discard the changes")
"""The ways out of a plan with errors, in the same words at each question about it."""

Where = Literal["prompt", "question", "plan", "choice", "answer"]


class Key(NamedTuple):
    """A key where it applies. `keys` are chords in prompt_toolkit's names, as in "y, enter".

    `shown` is how the keys are told, unless it is the same. `spanish` is the letter that matches
    the Spanish word. The English one goes on working there unless it means something else at the
    same question.
    """

    where: Where
    action: str
    keys: str
    help: Phrase
    shown: str = ""
    spanish: str = ""

    @property
    def sequences(self) -> tuple[tuple[str, ...], ...]:
        """The chords, each of one or more keys."""
        return tuple(tuple(chord.split()) for chord in self.keys.split(", "))


KEYS = (
    Key("prompt", "submit", "enter",
        Phrase("send the line, or queue it while a turn runs"), shown="Enter"),
    Key("prompt", "newline", "escape enter",
        Phrase("insert a new line (or Enter after a backslash)"), shown="Alt-Enter"),
    Key("prompt", "interrupt", "c-c",
        Phrase("clear the line; if empty, stop the command, then the turn"),
        shown="Ctrl-C"),
    Key("prompt", "escape", "escape",
        Phrase("stop the command, then the turn; twice when idle: go back"),
        shown="Esc"),
    Key("prompt", "leave", "c-d", Phrase("exit, on an empty line"), shown="Ctrl-D"),
    Key("prompt", "send_now", "c-t",
        Phrase("stop the turn and send the queued messages now"), shown="Ctrl-T"),
    Key("prompt", "steer", "c-s",
        Phrase("send the line to the running turn; on an empty line, the queued messages"),
        shown="Ctrl-S"),
    Key("prompt", "take_back", "escape up",
        Phrase("move the last queued message back to the line"), shown="Alt-Up"),
    Key("prompt", "complete", "tab",
        Phrase("complete a command, its argument or a @file"), shown="Tab"),
    Key("prompt", "mode", "s-tab",
        Phrase("change the mode: ask, accept edits, auto, plan; also when asked"),
        shown="Shift-Tab"),
    Key("prompt", "background", "c-b",
        Phrase("let the running command go on as a background job"), shown="Ctrl-B"),
    Key("prompt", "thoughts", "c-o",
        Phrase("show or fold the model's thoughts"), shown="Ctrl-O"),
    Key("prompt", "editor", "c-x c-e",
        Phrase("edit the line in your editor"), shown="Ctrl-X Ctrl-E"),
    Key("prompt", "paste_image", "c-v", Phrase("attach the image from the clipboard"),
        shown="Ctrl-V"),
    Key("prompt", "search", "c-r", Phrase("search the history"), shown="Ctrl-R"),
    Key("prompt", "clear", "c-l", Phrase("clear the screen"), shown="Ctrl-L"),
    Key("prompt", "suspend", "c-z", Phrase("suspend KogniTerm; fg resumes it"), shown="Ctrl-Z"),
    Key("question", "approve", "y", Phrase("approve exactly what is shown"), spanish="s"),
    Key("question", "reject", "n", Phrase("reject, with an optional reason for the model")),
    Key("question", "edit", "e",
        Phrase("edit the command; it is checked and shown again")),
    Key("question", "explain", "x", Phrase("explain why you are asked")),
    Key("question", "reveal", "v", Phrase("show or hide the secrets in it")),
    Key("question", "allow_session", "a",
        Phrase("approve, and allow this kind for this session")),
    Key("question", "allow_project", "p",
        Phrase("approve, and allow this kind for this project")),
    Key("question", "allow_reads", "r",
        Phrase("approve, and allow all read-only commands"), spanish="l"),
    Key("question", "each", "o", Phrase("decide on each of several commands"), spanish="u"),
    Key("question", "stop", "s", Phrase("stop the turn"), spanish="d"),
    Key("question", "page", "space, pagedown, pageup, up, down",
        Phrase("scroll a question that is longer than the screen"),
        shown="Space, Page-Up/Down, arrows"),
    Key("plan", "plan_approve", "y, enter",
        Phrase("start the plan as shown; its commands need approval as usual"),
        shown="y, Enter", spanish="s"),
    Key("plan", "plan_checks", "c",
        Phrase("start the plan, and run its checks in the sandbox without asking")),
    Key("plan", "plan_files", "f", Phrase("start the plan, and accept edits of files")),
    Key("plan", "plan_reject", "n",
        Phrase("reject the plan; the model makes a new one using your reason")),
    Key("plan", "plan_edit", "e", Phrase("edit the plan in your editor")),
    Key("plan", "plan_stop", "s", Phrase("stop the turn"), spanish="d"),
    Key("choice", "yes", "y", Phrase("yes: do what the question asks"), spanish="s"),
    Key("choice", "no", "n", Phrase("no: change nothing")),
    Key("choice", "unlimited", "a", Phrase("continue without this limit in this session")),
    Key("choice", "check", "c", Phrase("let the model check what a command did")),
    Key("choice", "again", "a", Phrase("propose it again"), spanish="p"),
    Key("choice", "skip", "g", Phrase("go on without it"), spanish="o"),
    Key("choice", "later", "l", Phrase("decide later"), spanish="m"),
    Key("choice", "back_both", "b",
        Phrase("go back in the conversation, and restore the files"), spanish="t"),
    Key("choice", "back_conversation", "c", Phrase("go back in the conversation only")),
    Key("choice", "back_files", "f", Phrase("restore the files only"), spanish="a"),
    Key("choice", "back_changes", "d", Phrase("show the changes of the files"), spanish="v"),
    Key("choice", "undo_all", "a", Phrase("also take back what changed since"), spanish="t"),
    Key("choice", "mend", "e", FIX),
    Key("choice", "give_up", "g", DISCARD, spanish="d"),
    Key("answer", "answer", "enter", Phrase("send the answer"), shown="Enter"),
    Key("answer", "answer_newline", "escape enter, c-j",
        Phrase("insert a new line (or Enter after a backslash)"), shown="Alt-Enter"),
    Key("answer", "answer_pick", "up, down, pageup, pagedown",
        Phrase("select an answer; scroll a question that is longer than the screen"),
        shown="Arrows, Page-Up/Down"),
    Key("answer", "answer_none", "escape",
        Phrase("send no answer; the model is informed"), shown="Esc"),
    Key("answer", "answer_stop", "c-c",
        Phrase("clear the line; if empty, stop the turn"), shown="Ctrl-C"),
)  # fmt: skip

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


def paging() -> list[str]:
    """Return the keys that scroll a question."""
    return [key for key, action in actions("question").items() if action == "page"]


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


def table(where: Where, spoken: str = "") -> list[tuple[str, Phrase]]:
    """Return (keys as shown, what they do) in the table's order.

    The letters are those of the language `spoken`, by default of every language.
    """
    return [(_shown(key, spoken), key.help) for key in KEYS if key.where == where]


_NAMES = {
    "Space": Phrase("Space"),
    "Page-Up/Down": Phrase("Page-Up/Down"),
    "arrows": Phrase("arrows"),
    "Arrows": Phrase("Arrows"),
    "Up": Phrase("Up"),
    "Down": Phrase("Down"),
    "Left": Phrase("Left"),
    "Right": Phrase("Right"),
}
"""The keys whose names on a keyboard are words of a language."""


def _shown(key: Key, spoken: str) -> str:
    shown = key.shown or key.keys
    if spoken and spoken == language():
        names = shown.split(", ")
        shown = ", ".join(translate(_NAMES[name]) if name in _NAMES else name for name in names)
    if not key.spanish or spoken == "en":
        return shown
    if spoken == "es":
        return ", ".join([key.spanish, *shown.split(", ")[1:]])
    return f"{shown} ({key.spanish} in Spanish)"
