"""KogniTerm as an agent of Harbor: `harbor run -a kogniterm_harbor:KogniTerm` (docs/benchmarks.md).

The package has two sides. `agent` runs beside Harbor, which needs Python 3.12, and knows nothing of
KogniTerm but its commands and formats. `in_container` runs in the container of a task and knows
nothing of Harbor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogniterm_harbor.agent import KogniTerm

__all__ = ["KogniTerm"]


def __getattr__(name: str) -> Any:
    """Load the agent on first use: there is no Harbor in the container."""
    if name != "KogniTerm":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kogniterm_harbor.agent import KogniTerm

    return KogniTerm
