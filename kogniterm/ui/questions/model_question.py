"""A question that the model asks the user: its words, the answers to choose from, the reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Answered, Question, QuestionText, Shown, Step
from kogniterm.ui.screen.markdown import markdown
from kogniterm.ui.screen.paint import Readable

if TYPE_CHECKING:
    from kogniterm.runtime import turn_ports
    from kogniterm.ui.questions.question import Asker
    from kogniterm.ui.screen.paint import Painter

MOST_SHOWN = 300
ESCAPE = "\x1b"


async def ask_user(
    asker: Asker, question: turn_ports.Question, answers: Sequence[str | Phrase]
) -> str | None:
    """Ask for the model: the reply, in English where it is one of KogniTerm's own answers.

    `question` is the tool's, or KogniTerm's own sentences, shown in the language in use.
    """
    shown = tuple(one if isinstance(one, str) else translate(one) for one in answers)
    if isinstance(question, str):
        reply = await asker.ask(ModelQuestion(question, shown))
    else:
        first, *lines = map(translate, question)
        words = "\n".join([first, *(f"  {line}" for line in lines)])
        reply = await asker.ask(ModelQuestion(words, shown, own=True))
    chosen = (str(one) for one in answers if not isinstance(one, str) and translate(one) == reply)
    return next(chosen, reply)


@dataclass(frozen=True)
class ModelQuestion(Question[str | None]):
    """A question in the model's words, with answers to choose from; without, words answer it.

    One of KogniTerm's `own` comes as it is to be shown; it may confirm something, so Enter alone
    never answers it. Elsewhere the first answer is selected at the start. `picked` is the answer
    that the arrows chose. The answer is None when there is none.
    """

    question: str
    answers: tuple[str, ...] = ()
    own: bool = False
    picked: int | None = None

    free = True
    reading = ("pageup", "pagedown")

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return question and answers; the answers stay in sight while one is chosen."""
        number = self._number(words)
        chosen = self._selected if number is None and not words.strip() else number
        lines = [*self.text(painter, columns, chosen).lines, ""]
        return QuestionText(lines, to_end=number is not None or self.picked is not None)

    def text(self, painter: Painter, columns: int, chosen: int | None = None) -> QuestionText:
        """Return question and answers, the one at `chosen` marked."""
        lines = self._question(painter, columns)
        if not self.answers:
            return QuestionText(lines)
        table = Table.grid(padding=(0, 1))
        for index, answer in enumerate(self.answers):
            marked = index == chosen
            sign = painter.symbol("active") if marked else " "
            table.add_row(
                Text(sign, "accent"),
                Text(f"{index + 1}", "accent"),
                Text(one_line(answer, MOST_SHOWN), "accent" if marked else ""),
            )
        rows = (line for line in painter.lines(Readable(table), columns) if line.strip())
        return QuestionText([*lines, *rows])

    def transcript(
        self, painter: Painter, columns: int, answer: Answered[str | None] | None
    ) -> str:
        """Return the question and the reply; nothing of one that a stopped turn took back."""
        if answer is None:
            return ""
        reply = answer.value
        said = Text(_("No answer."), "muted") if reply is None else Text(clean(reply), "bold")
        row = Table.grid(padding=(0, 1))
        row.add_row(Text(painter.symbol("arrow"), "accent"), said)
        lines = [*self._question(painter, columns), *painter.lines(Readable(row), columns)]
        return "\n".join(lines).rstrip() + "\n\n"

    def _question(self, painter: Painter, columns: int) -> list[str]:
        heading = _("KogniTerm asks:") if self.own else _("The model asks:")
        head = painter.lines(Text(heading, "heading"), columns)
        if self.own:
            return [*head, *painter.lines(Readable(Text(self.question)), columns)]
        from kogniterm.text.visible import render_words

        words = "\n".join(map(render_words, self.question.replace("\t", "    ").split("\n")))
        lines = painter.lines(markdown(words, painter.theme), columns)
        return [*head, *(line for line in lines if line.strip())]

    # --- single keys ---------------------------------------------------------------------------

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys; those that send and clear act on the words of the line."""
        numbers = f"1-{min(len(self.answers), 9)}"
        how = [Shown(f"{numbers}, {'↑↓' if painter.unicode else 'up/down'}", _("select"))]
        return [
            Shown("Page-Down", _("more"), more=True),
            *(how if self.answers else []),
            Shown("Enter", _("send text") if typing else _("send")),
            Shown("Alt-Enter", _("new line")),
            Shown("Esc", _("no answer")),
            Shown("Ctrl-C", _("clear line") if typing else _("stop turn")),
        ]

    def press(self, key: str, *, seen: bool = True) -> Step[str | None]:
        """Choose an answer with an arrow; a page key reads on instead."""
        count, picked = len(self.answers), None
        if key in ("up", "down"):
            picked = self._selected
            if count:
                step, start = (1, -1) if key == "down" else (-1, count)
                picked = ((start if picked is None else picked) + step) % count
        return replace(self, picked=picked, note="")

    def words(self, text: str) -> Step[str | None]:
        """Take words as the answer, a number as the answer it chooses, nothing as the picked."""
        reply = self._meant(text)
        if reply is None and self._selected is not None:
            reply = self.answers[self._selected]
        if reply is None:
            return self.with_note(_("Choose or type an answer first, or press Esc to send none."))
        return Answered(reply)

    def back(self) -> Step[str | None] | None:
        """Give no answer."""
        return Answered(None)

    # --- whole lines ---------------------------------------------------------------------------

    def menu(self) -> Sequence[str]:
        """Return how to answer."""
        how = _("Answer in your own words.")
        if self.answers:
            how = _("Answer with a number or in your own words.")
        more = _(
            "End a line with a backslash to continue on the next line; an "
            "empty line sends no answer."
        )
        return [how, more]

    def typed(self, line: str) -> Step[str | None] | None:
        """Take everything that was typed as the answer."""
        return Answered(self._meant(line))

    def ended(self) -> str | None:
        """Return no answer."""
        return None

    @property
    def _selected(self) -> int | None:
        """The answer that Enter sends from an empty line."""
        if self.picked is None and self.answers and not self.own:
            return 0
        return self.picked

    def _meant(self, words: str) -> str | None:
        """Return the answer that `words` mean: a number chooses, or to the model they are said."""
        said = words.strip().strip(ESCAPE).strip()
        number = self._number(said)
        other = None if self.own and self.answers else said or None
        return self.answers[number] if number is not None else other

    def _number(self, words: str) -> int | None:
        said = words.strip()
        if said.isascii() and said.isdecimal() and 1 <= int(said) <= len(self.answers):
            return int(said) - 1
        return None
