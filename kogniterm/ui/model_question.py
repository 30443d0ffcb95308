"""A question the model asks the person: what it shows, how words become its answer, and how it
is asked line by line. The panel of the prompt is `model_question_panel`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from kogniterm.runtime.asking import Question
from kogniterm.types import Text as Said
from kogniterm.ui.clean import clean, one_line
from kogniterm.ui.locale import _, translate
from kogniterm.ui.markdown import markdown
from kogniterm.ui.paint import Painter

MOST_SHOWN = 300
ESCAPE = "\x1b"


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A question in the model's words, with answers to choose from; without, words answer it.

    One of KogniTerm's `own` comes as it is to be shown.
    """

    question: str
    answers: tuple[str, ...] = ()
    own: bool = False

    def answer(self, words: str) -> str | None:
        """What `words` stand for: a number chooses, anything else is said; None when blank."""
        said = words.strip().strip(ESCAPE).strip()
        number = self.number(said)
        if number is not None:
            return self.answers[number]
        return said or None

    def number(self, words: str) -> int | None:
        """The place of the answer that `words` choose by its number."""
        said = words.strip()
        if said.isascii() and said.isdecimal() and 1 <= int(said) <= len(self.answers):
            return int(said) - 1
        return None

    def lines(self, painter: Painter, columns: int, chosen: int | None = None) -> list[str]:
        """Question and answers, the one at `chosen` marked."""
        lines = self._heading(painter, columns)
        lines += self._question(painter, columns)
        if not self.answers:
            return lines
        table = Table.grid(padding=(0, 1))
        for index, answer in enumerate(self.answers):
            marked = index == chosen
            sign = painter.symbol("active") if marked else " "
            table.add_row(
                Text(sign, "accent"),
                Text(f"{index + 1}", "accent"),
                Text(one_line(answer, MOST_SHOWN), "accent" if marked else ""),
            )
        return [*lines, *(line for line in painter.lines(table, columns) if line.strip())]

    def transcript(self, painter: Painter, columns: int, reply: str | None) -> str:
        """What stays in the scrollback: the question and what was answered."""
        said = Text(_("No answer."), "muted") if reply is None else Text(clean(reply), "bold")
        row = Table.grid(padding=(0, 1))
        row.add_row(Text(painter.symbol("arrow"), "accent"), said)
        lines = self._heading(painter, columns)
        lines += self._question(painter, columns)
        return "\n".join([*lines, *painter.lines(row, columns)]).rstrip() + "\n\n"

    def _heading(self, painter: Painter, columns: int) -> list[str]:
        words = _("KogniTerm asks:") if self.own else _("The model asks:")
        return painter.lines(Text(words, "heading"), columns)

    def _question(self, painter: Painter, columns: int) -> list[str]:
        if self.own:
            return painter.lines(Text(self.question), columns)
        from kogniterm.approval.display import render_words

        words = "\n".join(map(render_words, self.question.replace("\t", "    ").split("\n")))
        lines = painter.lines(markdown(words, painter.theme), columns)
        return [line for line in lines if line.strip()]


async def ask_in_lines(
    question: ModelQuestion,
    *,
    read_line: Callable[[str, str], Awaitable[str | None]],
    pause: Callable[[], Awaitable[None]],
    write: Callable[[str], None],
    painter: Painter,
    columns: int,
) -> str | None:
    """Ask where a terminal edits the lines; an empty line or the end of input is no answer."""
    write("\n".join(question.lines(painter, columns)) + "\n")
    how = (
        _("Answer with a number or in your own words.")
        if question.answers
        else _("Answer in your own words.")
    )
    more = _("A backslash at the end of a line goes on with the next; an empty line is no answer.")
    write("\n".join(painter.lines(Text(f"{how} {more}"), columns)) + "\n")
    await pause()
    said: list[str] = []
    prompt = f"{_('Your answer')}: "
    while (line := await read_line(prompt, "")) is not None:
        said.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            break
        prompt = "... "
    reply = question.answer("\n".join(said))
    write((_("No answer.") if reply is None else "") + "\n")
    return reply


def asked(question: Question, answers: Sequence[str | Said]) -> ModelQuestion:
    """The question as the tool gave it, or KogniTerm's own sentences in the language in use."""
    shown = tuple(one if isinstance(one, str) else translate(one) for one in answers)
    if isinstance(question, str):
        return ModelQuestion(question, shown)
    first, *lines = map(translate, question)
    return ModelQuestion("\n".join([first, *(f"  {line}" for line in lines)]), shown, own=True)


def meant(reply: str | None, answers: Sequence[str | Said]) -> str | None:
    """The answer that was chosen, in English where it is KogniTerm's own."""
    chosen = (str(one) for one in answers if not isinstance(one, str) and translate(one) == reply)
    return next(chosen, reply)
