"""Files that a person named in an input: their text goes to the model as data, within limits;
images go as images to a model that takes them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from kogniterm.agent.images import ImageBlock, image_block
from kogniterm.approval.places import is_secret
from kogniterm.errors import why
from kogniterm.paths import named
from kogniterm.safe_files import look, open_file, resolved
from kogniterm.tools.image_header import (
    HEADER_BYTES,
    IMAGE_BYTES,
    IMAGE_SIDE,
    ImageHeader,
    read_header,
)
from kogniterm.types import Image, ModelInfo, Text

MOST_FILES = 20
MOST_NAMES = 200
"""Names told of an attached folder."""
READ_FACTOR = 4
"""Bytes read for each character that may be kept: UTF-8 has no longer characters."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What goes to the model beside the person's words, and what the person should know of it."""

    text: str = ""
    images: tuple[ImageBlock, ...] = ()
    notices: tuple[Text, ...] = ()


@dataclass(slots=True)
class _Desk:
    """Takes files one after the other, until the room for text is used up."""

    folder: Path
    room: int
    redact: Callable[[str], str]
    model: ModelInfo
    images: list[ImageBlock]
    notices: list[Text]

    def take(self, name: str) -> str:
        """What the model gets of the file called `name`."""
        try:
            path = resolved(named(self.folder, name))
            if self._led_away(name, path):
                self.notices.append(
                    Text(
                        "{name} is a link to {target}, so it was not attached; name {target} "
                        "itself if you mean it.",
                        {"name": name, "target": str(path)},
                    )
                )
                return "[not shown: a link that leads elsewhere]"
            mode = look(path).st_mode
            if stat.S_ISDIR(mode):
                return self._told(_folder(path))
            if not stat.S_ISREG(mode):
                return "[not shown: no regular file]"
            with os.fdopen(open_file(path), "rb") as file:
                header = read_header(file.read(HEADER_BYTES))
                file.seek(0)
                if header is not None:
                    return self._image(name, file, header)
                return self._told(_file(file, max(self.room, 0)))
        except OSError as error:
            return f"[cannot be read: {why(error)}]"
        except ValueError:  # a NUL, or half a character
            return "[cannot be read: no file has such a name]"

    def _told(self, text: str) -> str:
        text = self.redact(text)
        self.room -= len(text)
        return text

    def _led_away(self, name: str, real: Path) -> bool:
        """Whether a name in the workspace is a link out of it, or to something secret.

        A command may have made the link; what the user names themselves is theirs to send.
        """
        path = Path(os.path.normpath(named(self.folder, name)))
        workspace = resolved(self.folder)
        if not path.is_relative_to(self.folder) and not path.is_relative_to(workspace):
            return False
        return not real.is_relative_to(workspace) or (
            is_secret(str(real)) and not is_secret(str(path))
        )

    def _image(self, name: str, file: BinaryIO, header: ImageHeader) -> str:
        size = os.fstat(file.fileno()).st_size
        what = header.described(size)
        problem = _problem(name, size, header, self.model)
        if problem is not None:
            self.notices.append(problem)
            return f"[not shown: {what}]"
        self.images.append(
            image_block(Image(file.read(), header.media_type, name, header.width, header.height))
        )
        return f"[{what}; image {len(self.images)} of this message]"


def attached(
    paths: Sequence[str], folder: Path, limit: int, redact: Callable[[str], str], model: ModelInfo
) -> Attached:
    """The named files as `model` gets them, their text all together in about `limit` characters.

    A file that cannot be shown is described instead; relative names count from `folder`.
    """
    desk = _Desk(folder, limit, redact, model, [], [])
    parts: list[str] = []
    for path in paths[:MOST_FILES]:
        # The name is data as well: it must not end the element it stands in.
        name = path.replace("<", "‹").replace('"', "'").replace("\n", " ")
        parts.append(f'<file name="{name}">\n{desk.take(path)}\n</file>')
    if len(paths) > MOST_FILES:
        parts.append(f"[{len(paths) - MOST_FILES} more files are named, but not shown]")
    return Attached("\n\n".join(parts), tuple(desk.images), tuple(desk.notices))


def _problem(name: str, size: int, header: ImageHeader, model: ModelInfo) -> Text | None:
    """Why an image is not sent, for the person; None when it is."""
    values: dict[str, object] = {"name": name, "model": model.name, "kind": header.kind}
    if not model.images:
        return Text("{model} takes no images; of {name} it gets the name only.", values)
    if header.media_type not in model.images:
        return Text(
            "{model} takes no {kind} images; of {name} it gets the name only. Convert it to PNG.",
            values,
        )
    if not header.whole:
        return Text("{name} is a damaged image; the model gets its name only.", values)
    if not header.fits(size):
        values |= {"size": f"{size / 1e6:.1f}", "most": f"{IMAGE_BYTES / 1e6:.1f}"}
        values |= {"width": header.width, "height": header.height, "side": IMAGE_SIDE}
        return Text(
            "{name} is too large to send ({size} MB, {width}x{height} pixels); {most} MB and "
            "{side} pixels a side are the most.",
            values,
        )
    return None


def _folder(path: Path) -> str:
    listed = open_file(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(listed) as entries:
            names = sorted(
                f"{entry.name}/" if _leads_to_folder(entry) else entry.name
                for entry in islice(entries, MOST_NAMES + 1)
            )
    finally:
        os.close(listed)
    more = [f"[more than {MOST_NAMES} names]"] if len(names) > MOST_NAMES else []
    return "\n".join(["[a folder with:]", *names[:MOST_NAMES], *more])


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _file(file: BinaryIO, limit: int) -> str:
    size = os.fstat(file.fileno()).st_size
    data = file.read(limit * READ_FACTOR + 16)
    if b"\0" in data:
        return f"[not shown: binary, {size} bytes]"
    text = data.decode("utf-8", "replace")
    if len(text) <= limit and len(data) >= size:
        return text.rstrip("\n") or "[empty]"
    return _both_ends(file, text, size, limit)


def _both_ends(file: BinaryIO, start: str, size: int, limit: int) -> str:
    """The first and the last characters: a log's news stand at its end."""
    half = limit // 2
    file.seek(max(size - half * READ_FACTOR, 0))
    end = file.read(half * READ_FACTOR).decode("utf-8", "replace")
    cut = f"[cut here: the file has {size} bytes; read_file shows the rest]"
    return f"{start[:half]}\n{cut}\n{end[len(end) - half :]}"
