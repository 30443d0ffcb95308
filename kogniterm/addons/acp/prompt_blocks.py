"""The content of a prompt as an input: words, files that are named, images and texts beside it."""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
)

from kogniterm.errors import UsageError
from kogniterm.runtime.named_files import mentions
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean, whole
from kogniterm.types import UserInput
from kogniterm.types.images import IMAGE_BYTES, read_header

Block: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
MOST_TEXT = 100_000
"""Characters of the words of a prompt: what a user says, not what they attach."""
MOST_DATA = 1_000_000
"""Characters of the texts beside them, such as an unsaved file."""


class PromptFiles:
    """The images of prompts, in files of this process that only the user can read."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count: int = 0

    def keep(self, data: str) -> str:
        """Keep an image given in base64; return its file. Raises `UsageError`."""
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UsageError("An image of this message is not valid base64.") from error
        header = read_header(raw)
        if header is None:
            raise UsageError("An image of this message is of a kind that KogniTerm cannot read.")
        if len(raw) > IMAGE_BYTES:
            raise UsageError(
                "An image of this message has {size} bytes; at most {most} are allowed.",
                size=len(raw),
                most=IMAGE_BYTES,
            )
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kogniterm-acp-")
        self._count += 1
        path = Path(self._folder.name) / f"image-{self._count}.{header.kind.lower()}"
        path.write_bytes(raw)
        return str(path)

    def close(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def read_prompt(blocks: Sequence[Block], folder: str, files: PromptFiles) -> UserInput:
    """Return the input that a prompt makes. Raises `UsageError` for one that cannot be used."""
    words: list[str] = []
    texts: list[str] = []
    named: list[str] = []
    for block in blocks:
        match block:
            case TextContentBlock():
                words.append(block.text)
                named += mentions(block.text, folder)
            case ResourceContentBlock():
                path = local_path(block.uri)
                words.append(f"@{path}" if path else f"<{one_line(block.uri, 2_000)}>")
                named += [path] if path else []
            case EmbeddedResourceContentBlock():
                resource = block.resource
                name = local_path(resource.uri) or one_line(resource.uri, 500)
                if isinstance(resource, BlobResourceContents):
                    raise UsageError(
                        "{name} is no text; attach it as a file or an image.", name=name
                    )
                texts.append(f"[{name}]\n{resource.text}")
                words.append(f"[{name}]")
            case ImageContentBlock():
                named.append(files.keep(block.data))
            case _:
                raise UsageError("Audio cannot be used; send words, files or images.")
    text = whole(clean("".join(words))).strip()
    if not text and not named:
        raise UsageError("The task is empty; describe what to do.")
    if len(text) > MOST_TEXT:
        raise UsageError(
            "The task has {length} characters; the limit is {most}. Put long text in a file and "
            "attach the file.",
            length=len(text),
            most=MOST_TEXT,
        )
    data = whole("\n\n".join(texts)) or None
    if data is not None and len(data) > MOST_DATA:
        raise UsageError(
            "The texts beside the message have {length} characters; the limit is {most}.",
            length=len(data),
            most=MOST_DATA,
        )
    return UserInput(text, data=data, attachments=tuple(dict.fromkeys(named)))


def local_path(uri: str) -> str:
    """Return the file of this machine that a `file:` address names; "" for other addresses."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return ""
    path = unquote(parts.path)
    return path if path.startswith("/") and "\0" not in path else ""
