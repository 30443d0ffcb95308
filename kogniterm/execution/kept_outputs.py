"""Copies of a session's whole outputs, without secrets, which its commands in the sandbox may read.

All that is in their folder may be read: no output is told apart from another there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kogniterm.execution.command_output import plain_text
from kogniterm.host.safe_files import write_regular
from kogniterm.text.redact import Redactor, find_secrets, replace_secrets, replace_values
from kogniterm.types import CommandResult

_SHOWN = 6_000
"""Characters of an output that every model but the smallest gets as a whole."""
_MOST = 4 << 20
"""Bytes of an output that is copied; to look for secrets takes half a second for each million."""
_MOST_SECRETS, _SHORT, _MARK = 200, 5, "[secret]"


class KeptOutputs:
    """The copies in `folder`, which the session's sandbox shows and nothing inside can write."""

    def __init__(self, folder: Path, secrets: Redactor) -> None:
        self.folder, self.secrets = folder, secrets
        self._known = 0

    def run(self, call: Callable[[], CommandResult]) -> CommandResult:
        """Return the result of `call`, the run of a command, with a copy of a long output.

        Before, copies with what became known as a secret since are made anew.
        """
        values = self.secrets.values
        new, self._known = values[self._known :], len(values)
        for copy in self.folder.glob("*.log") if new else ():
            if any(map(copy.read_text("utf-8").__contains__, new)):
                copy.unlink()
                self._copy(Path(self.folder.parent, *copy.name.rsplit("-", 1)))
        result = call()
        if result.output_path and (result.omitted_bytes or len(result.text) > _SHOWN):
            return replace(result, readable_path=self._copy(Path(result.output_path)))
        return result

    def _copy(self, raw: Path) -> str | None:
        """Copy the output `raw`; return where, or None where it is too large or not there."""
        with suppress(OSError):
            text = plain_text(raw.read_bytes()) if raw.stat().st_size <= _MOST else ""
            found = find_secrets(text)
            if text and len(found) <= _MOST_SECRETS:
                values = {*self.secrets.values, *(text[one.start : one.end] for one in found)}
                text = replace_secrets(text, found, lambda _: _MARK)
                long = (value for value in values if len(value) > _SHORT)
                text = replace_values(text, long, lambda _: _MARK)
                copy = self.folder / f"{raw.parent.name}-{raw.name}"
                write_regular(copy, text.encode("utf-8", "replace"))
                return str(copy)
        return None
