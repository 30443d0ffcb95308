"""The log file: set up once, rotating, private, redacted.

Each module uses `logging.getLogger(__name__)`; only this one adds handlers and sets levels.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from logging.handlers import RotatingFileHandler
from pathlib import Path

from kogniterm.storage.folders import private_folder

MAX_BYTES = 1_000_000
BACKUPS = 3
FORMAT = "%(asctime)s %(levelname)s %(process)d %(session)s %(name)s: %(message)s"
SESSION: ContextVar[str] = ContextVar("session", default="-")
"""The ID of the session that the lines of this task are about."""

SILENT = (
    # Logs a failed sign-in with the answer of the token endpoint; our error says what failed.
    "mcp.client.auth.oauth2",
)


class RedactingFormatter(logging.Formatter):
    """Formats a record, traceback included, and passes the whole text through `redact`.

    Working on the formatted text catches secrets in arguments and in exception messages, which a
    filter over `record.msg` would miss. Line breaks are kept inside one record by indenting.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(FORMAT)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as it is written; one record cannot look like two."""
        record.session = SESSION.get()
        return self._redact(super().format(record)).replace("\n", "\n    ")


class PrivateFileHandler(RotatingFileHandler):
    """A rotating file that only its owner can read, and that never raises into the program."""

    def _open(self):  # type: ignore[no-untyped-def]  # the stub's return type is private
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(descriptor, self.mode, encoding=self.encoding, errors=self.errors)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # inherited name
        """Ignore it: a full disk must not end the session, and stderr belongs to the user."""


def set_up(
    file: Path,
    *,
    level: str = "info",
    redact: Callable[[str], str] = str,
    debug: bool = False,
    on_screen: bool = False,
) -> bool:
    """Send log records to `file`; with `debug` all of ours, and with `on_screen` to stderr as well.

    Libraries log requests, URLs or whole prompts at INFO and below: what they say counts from
    WARNING on, with `debug` from INFO on.

    Repeated calls replace the earlier set-up. Returns False when the file cannot be written;
    the program goes on without a log then.
    """
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h.formatter, RedactingFormatter)]:
        root.removeHandler(old)
        old.close()
    root.setLevel(logging.INFO if debug else logging.WARNING)
    logging.getLogger(__package__).setLevel(logging.DEBUG if debug else level.upper())
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.captureWarnings(True)
    formatter = RedactingFormatter(redact)
    if on_screen:
        screen = logging.StreamHandler(sys.stderr)
        screen.setFormatter(formatter)
        root.addHandler(screen)
    try:
        private_folder(file.parent)
        handler = PrivateFileHandler(
            file, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace"
        )
    except OSError:
        # Without any handler Python would print warnings to stderr by itself.
        fallback = logging.NullHandler()
        fallback.setFormatter(formatter)
        root.addHandler(fallback)
        return False
    handler.setFormatter(formatter)
    root.addHandler(handler)
    return True
