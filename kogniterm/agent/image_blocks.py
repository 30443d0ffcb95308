"""Images in the history: content blocks of a person's message or of a tool's result, in
LangChain's standard form.

Each block carries its base64 text once, and beside it what is known without decoding it: the
name the person gave and the size in pixels. A model that takes no images, a full window and a
compaction get a sentence in the image's place.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from kogniterm.types import Image, ModelInfo, Observation

ImageBlock = Mapping[str, Any]

TILE = 768
TILE_TOKENS = 258
"""Gemini counts an image in tiles of this many pixels a side (ai.google.dev, "Image
understanding"); no other provider counts more for the sizes that are sent."""
LEAST_TOKENS = 1_600
"""What Anthropic and OpenAI count at most for one image of ordinary size (their vision guides)."""

MOST_BYTES = 15_000_000
"""Base64 of all images in one request: Gemini refuses more than 20 MB, text included."""


def image_block(image: Image) -> ImageBlock:
    """The block of an image."""
    return {
        "type": "image",
        "base64": base64.b64encode(image.data).decode("ascii"),
        "mime_type": image.media_type,
        "extras": {"name": image.name, "width": image.width, "height": image.height},
    }


def image_in(block: ImageBlock) -> Image:
    """The image that `image_block` made a block of."""
    known = block["extras"]
    data = base64.b64decode(block["base64"])
    return Image(data, block["mime_type"], known["name"], known["width"], known["height"])


def observed_images(
    observation: Observation, info: ModelInfo
) -> tuple[str, tuple[ImageBlock, ...]]:
    """What a tool gave back as a model may keep it: its words, and the images the model takes."""
    blocks, words = [], [observation.text]
    for image in observation.images:
        if image.media_type in info.images:
            blocks.append(image_block(image))
        else:
            words.append(f"[{image.name} is not shown: this model takes no such images]")
    return "\n".join(words), tuple(blocks)


def images_of(message: BaseMessage) -> list[ImageBlock]:
    """The image blocks of a message."""
    if isinstance(message.content, str):
        return []
    return [block for block in message.content if isinstance(block, dict) and _is_image(block)]


def image_tokens(message: BaseMessage) -> int:
    """About how many tokens the images of a message take, on the safe side."""
    return sum(_tokens(block) for block in images_of(message))


def with_text(message: BaseMessage, text: str) -> BaseMessage:
    """The message with other words; its images stay."""
    images = images_of(message)
    content: Any = [{"type": "text", "text": text}, *images] if images else text
    return message.model_copy(update={"content": content})


def without_images(message: BaseMessage, why: str) -> BaseMessage:
    """The message with a sentence in each image's place; the same object when it has none."""
    images = images_of(message)
    if not images:
        return message
    gone = "\n".join(f"[image {_name(block)}: {why}]" for block in images)
    return message.model_copy(update={"content": f"{message.text}\n\n{gone}"})


def seen_by(info: ModelInfo, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The history as a model can take it: only the kinds of images it knows, and no more of
    them than one request may hold; the newest stay."""
    seen: list[BaseMessage] = []
    room = MOST_BYTES
    for message in reversed(messages):
        images = images_of(message)
        if any(block.get("mime_type") not in info.images for block in images):
            message = without_images(message, "not shown; this model cannot take it")
        elif images:
            room -= sum(len(block["base64"]) for block in images)
            if room < 0:
                message = without_images(message, "no longer shown")
        seen.append(message)
    return seen[::-1]


def human_content(text: str, images: Sequence[ImageBlock]) -> HumanMessage:
    """A person's message of words and images."""
    if not images:
        return HumanMessage(text)
    return HumanMessage([{"type": "text", "text": text}, *map(dict, images)])


def words_and_images(message: BaseMessage) -> tuple[str, tuple[ImageBlock, ...]]:
    """A person's message taken apart again: its words, and every block behind them."""
    if isinstance(message.content, str):
        return message.content, ()
    words, *rest = message.content
    text = words if isinstance(words, str) else str(words.get("text", ""))
    return text, tuple(block for block in rest if isinstance(block, dict))


def _is_image(block: ImageBlock) -> bool:
    return block.get("type") == "image" and "base64" in block


def _name(block: ImageBlock) -> str:
    return str(block.get("extras", {}).get("name", ""))


def _tokens(block: ImageBlock) -> int:
    known = block.get("extras", {})
    width, height = int(known.get("width", 0)), int(known.get("height", 0))
    tiles = -(-width // TILE) * -(-height // TILE)
    return max(tiles * TILE_TOKENS, LEAST_TOKENS)
