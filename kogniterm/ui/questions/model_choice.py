"""The list of models to pick from: price and window of each, filtered as the user types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.models.catalog import BY_NAME, PRICES_DATE
from kogniterm.text.language import fold_case
from kogniterm.text.shorten import money, one_line
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, tokens, translate
from kogniterm.ui.questions.pick_list import GAP, PickList
from kogniterm.ui.questions.question import Answered, Shown, Step
from kogniterm.ui.screen.surface import cells, cut_middle

if TYPE_CHECKING:
    from rich.text import Text

    from kogniterm.models.model_lists import ListedModel, ModelListing
    from kogniterm.ui.screen.paint import Painter

LEAST_NAME = 16
"""Cells of the name at least, however narrow the screen is."""
LONGEST_NAME = 200
DEFAULT = "default"
"""The word for the effort that leaves it to the provider."""


class Chosen(NamedTuple):
    """The model that was picked, and whether it is to be the default from now on.

    `effort` is None where none was chosen, and empty for the provider's default.
    """

    name: str
    effort: str | None = None
    save: bool = False


class ModelRow(NamedTuple):
    """A model as the list shows it."""

    name: str
    price: str
    window: str
    in_use: bool = False
    efforts: tuple[str, ...] = ()

    def holds(self, word: str) -> bool:
        """Return whether `word` stands in the name, or in that of the provider."""
        label = BY_NAME[self.name.partition(":")[0]].label
        return word in fold_case(f"{self.name} {label} {_('in use') if self.in_use else ''}")


def model_rows(models: Sequence[ListedModel], in_use: str) -> tuple[ModelRow, ...]:
    """Return models as rows, the one that is in use marked."""
    return tuple(
        ModelRow(
            one_line(one.name, LONGEST_NAME),
            price_text(one),
            tokens(one.window).replace(".0", ""),
            one.name == in_use,
            one.efforts,
        )
        for one in models
    )


def price_text(model: ListedModel) -> str:
    """Return the prices of a million tokens in and out, or that they are not known."""
    if model.price is None:
        return "–"
    if not model.price.output:
        return _("free")
    return f"{money(model.price.input)} / {money(model.price.output)}"


def prices_text() -> str:
    """Return what the prices mean, and how old they are."""
    return _("US dollars per million tokens, in / out, as of {date}").format(date=PRICES_DATE)


def source_text(listings: Sequence[ModelListing]) -> str:
    """Return whose list could not be had, and why; empty where all could."""
    missing = [one for one in listings if one.problem is not None]
    if not missing:
        return ""
    first = missing[0]
    assert first.problem is not None
    return _("{providers}: names from the catalog. {reason}").format(
        providers=", ".join(BY_NAME[one.provider].label for one in missing),
        reason=one_line(translate(first.problem)),
    )


def waiting_text(providers: Sequence[str]) -> str:
    """Return whose lists are still to come; empty where none is."""
    if not providers:
        return ""
    labels = ", ".join(BY_NAME[name].label for name in providers)
    return _("Asking {providers} for a list of models…").format(providers=labels)


def model_text(row: ModelRow, columns: int, rows: Sequence[ModelRow]) -> Text:
    """Return a row in the columns that `rows` need in `columns` cells."""
    from rich.text import Text

    price = max(cells(one.price) for one in rows)
    window = max(cells(one.window) for one in rows)
    mark = _("in use")
    longest = max(cells(one.name) for one in rows)
    room = columns - price - window - cells(mark) - 3 * len(GAP)
    width = max(min(longest, room), LEAST_NAME)
    name = cut_middle(row.name, width)
    line = Text(name + " " * (width - cells(name)))
    line.append(GAP).append(row.price.rjust(price), "muted")
    line.append(GAP).append(row.window.rjust(window), "muted")
    return line.append(GAP).append(mark, "good") if row.in_use else line


@dataclass(frozen=True)
class ModelPickList(PickList[ModelRow, "Chosen | None"]):
    """Asks for a model; the answer is None when none was picked.

    `about` says where the lists come from. With `can_save` a key makes the choice the default.
    `effort` is the one in use, and `efforts` are those that were chosen here, by name of the model.
    """

    about: str = ""
    can_save: bool = False
    effort: str = ""
    efforts: tuple[tuple[str, str], ...] = ()

    chords = ("left", "right", "c-s")

    title = Phrase("Which model do you want to use?")
    nothing = Phrase("No model matches.")
    enter = Phrase("use")

    def line(self, row: ModelRow, columns: int) -> Text:
        """Return a model in the columns that all of them need."""
        return model_text(row, columns, self.rows)

    def foot(self, columns: int) -> Sequence[Text]:
        """Return the efforts, the date of the prices, and where the names come from."""
        from rich.text import Text

        notes = [Text(f"  {one}", "muted") for one in (prices_text(), self.about) if one]
        return [self._efforts_line(), *notes]

    def _efforts_line(self) -> Text:
        """Return the efforts of the picked model, the chosen one marked."""
        from rich.text import Text

        row = self.chosen
        if row is None:
            return Text("")
        if not row.efforts:
            return Text(f"  {_('This model has no setting for reasoning effort.')}", "muted")
        at = self._effort_of(row)
        line = Text(f"  {_('Reasoning effort:')}", "muted")
        for effort in ("", *row.efforts):
            word = effort or DEFAULT
            text, style = (f" [{word}]", "accent") if effort == at else (f"  {word} ", "muted")
            line.append(text, style)
        return line

    def _effort_of(self, row: ModelRow) -> str:
        """Return the effort that a model would be used with."""
        kept = self.effort if self.effort in row.efforts else ""
        return dict(self.efforts).get(row.name, kept)

    def take(self, row: ModelRow) -> Step[Chosen | None]:
        """Use a model for this session."""
        return Answered(Chosen(row.name, dict(self.efforts).get(row.name)))

    def with_rows(self, rows: Sequence[ModelRow], about: str) -> ModelPickList:
        """Return the question with the lists as they are now; the picked model stays picked."""
        before = self.chosen
        after = replace(self, rows=rows, about=about, picked=0)
        names = [row.name for row in after.found]
        if before is not None and before.name in names:
            return replace(after, picked=names.index(before.name))
        return after

    def press(self, key: str, *, seen: bool = True) -> Step[Chosen | None]:
        """Choose another row or effort, or use the picked row from now on."""
        row = self.chosen
        if key == "c-s" and self.can_save and row is not None:
            return Answered(Chosen(row.name, dict(self.efforts).get(row.name), save=True))
        if key in ("left", "right"):
            if row is None or not row.efforts:
                return self
            efforts = ("", *row.efforts)
            at = efforts.index(self._effort_of(row)) + (1 if key == "right" else -1)
            effort = efforts[min(max(at, 0), len(efforts) - 1)]
            return replace(self, efforts=tuple({**dict(self.efforts), row.name: effort}.items()))
        return super().press(key, seen=seen)

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys; everything else is text that filters."""
        select, use, cancel = super().keys(painter, typing=typing)
        arrows = "←→" if painter.unicode else "left/right"
        effort = [Shown(arrows, _("effort"))] if self.chosen and self.chosen.efforts else []
        save = [Shown("Ctrl-S", _("use as the default"))] if self.can_save else []
        return [select, *effort, use, *save, cancel]

    def ended(self) -> Chosen | None:
        """Pick none."""
        return None
