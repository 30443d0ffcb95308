"""Memory: facts about the user and the project, found by words, forgotten for good.

`open_memory` is the stable face (see docs/memory.md). Uses the standard library only; numpy
and psycopg are loaded when vectors or PostgreSQL are asked for.
"""

from __future__ import annotations

from kogniterm.memory.fact_records import Fact, Origin, Recall
from kogniterm.memory.user_memory import Memory, open_memory

__all__ = ["Fact", "Memory", "Origin", "Recall", "open_memory"]
