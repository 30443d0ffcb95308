"""A question of yes or no for verbs that delete."""

from __future__ import annotations

import asyncio
import sys

from kogniterm.ui.choice import Option, chosen
from kogniterm.ui.typeahead import typed_before


def confirmed(question: str) -> bool:
    """Ask on the terminal; True only for a line that is exactly yes, or its key.

    What would go has to be on the screen already: what was typed until now is no answer.
    """
    asyncio.run(typed_before(sys.stdin.fileno()))
    sys.stderr.write(question)
    sys.stderr.flush()
    return chosen((Option("yes", "", "yes"),), sys.stdin.readline()) is not None
