"""Prompt texts: one Markdown file per model call, from the package, never from the folder.

The wheel carries them as `kogniterm/_prompts`; a checkout has them in `prompts/` beside the
package. The working directory plays no part, so a hostile folder cannot replace them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def load(name: str) -> str:
    """Return the text of `prompts/NAME.md` without surrounding blank lines. Raises `KeyError`."""
    package = Path(__file__).resolve().parent
    for folder in (package / "_prompts", package.parent / "prompts"):
        file = folder / f"{name}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8").strip()
    raise KeyError(f"no prompt text is called {name!r}")
