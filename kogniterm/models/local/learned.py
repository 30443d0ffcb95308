"""Examples from a person's own use: requests with the command they approved and that worked.

One JSON object a line in a file of the person's, the newest last and a bounded number of them.
They stand beside the bank, so that a similar request is shown what served before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kogniterm.models.local.bank import Example
from kogniterm.storage.folders import write_private
from kogniterm.text.language import language_of

MOST = 300
MAX_REQUEST = 300
MAX_COMMAND = 500


@dataclass(frozen=True, slots=True)
class LearnedExamples:
    """The examples in `file`; what in it cannot be read is passed over."""

    file: Path

    def load(self) -> tuple[Example, ...]:
        """Every example, oldest first."""
        try:
            lines = self.file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return ()
        return tuple(example for line in lines if (example := _example(line)) is not None)

    def add(self, request: str, command: str) -> bool:
        """Keep a pair, in place of an earlier one for the same request; whether it was kept.

        Raises `OSError`. What spans lines or is long teaches the model nothing and is left out.
        """
        request, command = " ".join(request.split()), command.strip()
        if not request or len(request) > MAX_REQUEST:
            return False
        if not command or "\n" in command or len(command) > MAX_COMMAND:
            return False
        kept = [one for one in self.load() if one.request.casefold() != request.casefold()]
        kept.append(Example(request, command, language_of(request)))
        write_private(self.file, "".join(map(_line, kept[-MOST:])).encode())
        return True


def _line(example: Example) -> str:
    pair = {"request": example.request, "command": example.command}
    return json.dumps(pair, ensure_ascii=False) + "\n"


def _example(line: str) -> Example | None:
    try:
        data = json.loads(line)
        request, command = data["request"], data["command"]
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(request, str) or not isinstance(command, str):
        return None
    return Example(request, command, language_of(request))
