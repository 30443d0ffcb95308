"""A question with a few fixed answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kogniterm.ui.keys import KEYS, WORDS, letter
from kogniterm.ui.locale import _

_ACTIONS = frozenset(key.action for key in KEYS if key.where == "choice")


@dataclass(frozen=True, slots=True)
class Option:
    """One answer: its action in the table of keys, or a key of its own; words; value."""

    action: str
    words: str
    value: str

    @property
    def key(self) -> str:
        """The key that is shown, in the language in use."""
        return letter(self.action) if self.action in _ACTIONS else self.action

    @property
    def english(self) -> str:
        """The key in English, which works as well unless it means something else."""
        return letter(self.action, "en") if self.action in _ACTIONS else self.action


def by_key(options: Sequence[Option]) -> dict[str, Option]:
    """The options by every key that chooses one."""
    found = {option.key: option for option in options}
    for option in options:
        found.setdefault(option.english, option)
    return found


def chosen(options: Sequence[Option], line: str) -> Option | None:
    """The option that a whole line stands for: exactly its key or its word."""
    said = line.strip().lower()
    named = {word: option for option in options for word in WORDS.get(option.action, ())}
    return by_key(options).get(said) or named.get(said)


def unknown_outcome(command: str, output: str) -> tuple[str, list[str], list[Option]]:
    """The question about a command that may or may not have run: title, body, answers."""
    from kogniterm.approval.display import render

    command_lines = render(command).split("\n")
    return (
        _("KogniTerm was stopped while this command ran; nobody knows how it ended:"),
        [
            *(f"{'  ' if number else '$ '}{line}" for number, line in enumerate(command_lines)),
            *(f"  {line}" for line in render(output).split("\n")),
        ],
        [
            Option("check", _("let the model check what it did"), "check"),
            Option("again", _("let the model propose it again"), "again"),
            Option("skip", _("go on without it"), "skip"),
        ],
    )


async def choose_in_lines(
    options: Sequence[Option],
    *,
    read_line: Callable[[str, str], Awaitable[str | None]],
    write: Callable[[str], None],
) -> str:
    """Ask where a terminal edits the lines; the end of input takes the last option."""
    menu = ", ".join(f"{option.key} = {option.words}" for option in options)
    while True:
        reply = await read_line(f"{_('Your decision')} [{menu}]: ", "")
        if reply is None:
            return options[-1].value
        option = chosen(options, reply)
        if option is not None:
            return option.value
        write(_("Please answer with one of the letters shown.") + "\n")
