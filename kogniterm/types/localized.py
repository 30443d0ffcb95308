"""Sentences for the user: an English template and its values, translated where they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence for the user: English `template` in `str.format` syntax, with its values.

    A value may be a `Text` itself, or several of them, which are told one after the other.
    """

    template: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.said(str, str)

    def said(self, phrase: Callable[[str], str], whole: Callable[[Phrase], str]) -> str:
        """With the template put by `phrase`, and the texts among the values by `whole`."""
        if not self.values:
            return phrase(self.template)
        values = {
            name: whole(value)
            if isinstance(value, Phrase)
            else "; ".join(whole(one).rstrip(". ") for one in value)
            if isinstance(value, tuple | list) and all(isinstance(one, Phrase) for one in value)
            else value
            for name, value in self.values.items()
        }
        return phrase(self.template).format(**values)
