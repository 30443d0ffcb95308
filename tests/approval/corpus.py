"""Tables of commands that the approval tests share."""

from __future__ import annotations

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent
WORKSPACE = "/home/me/project"


def commands(name: str) -> list[str]:
    """Return the commands of `commands_<name>.txt`; a heredoc spans lines up to its delimiter."""
    lines = iter((FOLDER / f"commands_{name}.txt").read_text().splitlines())
    found: list[str] = []
    for line in lines:
        opened = re.search(r"(?<!<)<<(?!<)-?\s*'?(\w+)'?", line)
        while opened is not None:
            following = next(lines)
            line += "\n" + following
            if following.strip() == opened[1]:
                break
        if line:
            found.append(line)
    return found


def smuggled() -> list[str]:
    """Return commands that hide their effect; none may be classified as safe."""
    found: list[str] = json.loads((FOLDER / "smuggled.json").read_text())
    return found
