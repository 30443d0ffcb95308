"""Keys of the user: files beside the databases, with which digests of texts are made.

A database alone tells nothing about a text by its digest, not even to who can guess the text.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from kogniterm.errors import UsageError
from kogniterm.storage import drivers
from kogniterm.storage.folders import read_file, write_private

_KEY_BYTES = 32
_LABEL = "kogniterm-queue-key:"


def read_key(path: Path) -> bytes:
    """Return the key in `path`, made (0600) when there is none. Raises `StorageError` kinds."""
    with drivers.storage_errors(path):
        key = b""
        with suppress(FileNotFoundError):
            key = read_file(path)
        if len(key) == _KEY_BYTES:
            with suppress(OSError):
                path.chmod(0o600)  # however it was copied here
            return key
        made = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
        write_private(made, secrets.token_bytes(_KEY_BYTES), durable=True)
        try:
            os.link(made, path)
        except FileExistsError:
            # Another process made one meanwhile; or it was cut short when it was written.
            if path.stat().st_size != _KEY_BYTES:
                made.replace(path)
        finally:
            made.unlink(missing_ok=True)
        return read_file(path)


def export_key(path: Path) -> str:
    """Return the key in `path` as a line of text, in a form that redaction recognises."""
    return f"{_LABEL}{read_key(path).hex()}"


def take_over(path: Path, text: str) -> None:
    """Put the key that `export_key` gave in the place of that in `path`.

    Raises `UsageError` for other text, and `StorageError` kinds.
    """
    key = b""
    with suppress(ValueError):
        key = bytes.fromhex(text.strip().removeprefix(_LABEL))
    if len(key) != _KEY_BYTES:
        raise UsageError("This is no key; write one with: kogniterm queue key export FILE")
    with drivers.storage_errors(path):
        write_private(path, key, durable=True)
