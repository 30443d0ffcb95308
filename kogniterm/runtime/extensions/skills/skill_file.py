"""A skill as its SKILL.md describes it, in the public Agent Skills format.

The front matter has `name`, `description`, and optionally `license`, `compatibility`, `metadata`
and `allowed-tools`; `user-invocable` and `disable-model-invocation` are understood as Claude Code
has them. See https://agentskills.io/specification.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kogniterm.errors import UnusableValueError
from kogniterm.runtime.extensions.front_matter import Document, read_document
from kogniterm.text.shorten import one_line

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TOOL = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_IGNORED = ("context", "agent", "model", "hooks")
"""Fields of Claude Code that have no effect here."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as its SKILL.md describes it.

    `for_user` is whether `/NAME` runs it, `for_model` whether the model is offered it; `tools` are
    those that it names in `allowed-tools`, which grants nothing. `ignored` are its fields without
    effect here.
    """

    name: str
    description: str
    body: str
    tools: tuple[str, ...] = ()
    license: str = ""
    compatibility: str = ""
    for_user: bool = True
    for_model: bool = True
    ignored: tuple[str, ...] = ()


def parse_skill(folder: str, text: str) -> Skill:
    """Return the skill in the SKILL.md of a folder of this name. Raises `UnusableValueError`."""
    document = read_document(text)
    name = document.text("name") or folder
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise UnusableValueError(
            "its name {name} is not up to {most} of a-z, 0-9 and single hyphens",
            name=one_line(name, LONGEST_NAME),
            most=LONGEST_NAME,
        )
    if name != folder:
        raise UnusableValueError(
            "its name {name} is not that of its folder, {folder}",
            name=name,
            folder=one_line(folder, LONGEST_NAME),
        )
    first = next((line for line in document.body.splitlines() if line.strip("# \t")), "")
    description = one_line(document.text("description") or first.strip("# \t"), LONGEST_DESCRIPTION)
    if not description:
        raise UnusableValueError("it has no description")
    # `allowed-tools` is a list, or words between blanks or commas.
    tools = _TOOL.findall(" ".join(document.words("allowed-tools")))
    return Skill(
        name,
        description,
        document.body.strip(),
        tuple(dict.fromkeys(one_line(tool, 200) for tool in tools)),
        one_line(document.text("license"), 200),
        one_line(document.text("compatibility"), LONGEST_COMPATIBILITY),
        for_user=_is_on(document, "user-invocable", default=True),
        for_model=not _is_on(document, "disable-model-invocation", default=False),
        ignored=tuple(name for name in _IGNORED if name in document.fields),
    )


def _is_on(document: Document, name: str, *, default: bool) -> bool:
    value = document.text(name).lower()
    return default if not value else value in ("true", "yes", "on", "1")
