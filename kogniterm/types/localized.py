"""Sentences for the user: an English template and its values, translated where they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence for the user: English `template` in `str.format` syntax, with its values.

    A value may be a `Phrase` itself, or several of them, which become one list.
    """

    template: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.said(str, str)

    def said(self, phrase: Callable[[str], str], whole: Callable[[Phrase], str]) -> str:
        """Return the text; `phrase` applies to the template, `whole` to texts among the values."""
        if not self.values:
            return phrase(self.template)
        values = {
            name: whole(value)
            if isinstance(value, Phrase)
            else _join_parts([whole(one) for one in value])
            if isinstance(value, tuple | list) and all(isinstance(one, Phrase) for one in value)
            else value
            for name, value in self.values.items()
        }
        return phrase(self.template).format(**values)


def _join_parts(parts: list[str]) -> str:
    """Return `parts` as a list: by semicolons where a part has punctuation, else by commas."""
    mark = "; " if any(set(".,:;") & set(part) for part in parts) else ", "
    return mark.join(part.rstrip(". ") for part in parts)
