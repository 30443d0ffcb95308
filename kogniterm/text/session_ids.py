"""IDs of sessions and of queued tasks: typed by users, and the names of folders and files."""

from __future__ import annotations

import re
from typing import Self

from kogniterm.errors import UsageError
from kogniterm.text.shorten import one_line

LAST = "last"
"""The reference that means the session used last."""
_FORM = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_SHOWN = 80


class SessionId(str):
    """An ID that can be the name of a folder: no case, no dots, no separators.

    Whatever makes a path of an ID takes this type. Making one raises `UsageError` for any other
    text, as an imported file or a shared database may hold.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Return `text` as an ID."""
        if text == LAST or not _FORM.fullmatch(text):
            raise UsageError(
                "{value} cannot be the ID of a session. Use up to 64 lower-case letters, digits "
                "and hyphens, not beginning or ending with a hyphen, and not the word last.",
                value=one_line(text, _SHOWN),
            )
        return super().__new__(cls, text)
