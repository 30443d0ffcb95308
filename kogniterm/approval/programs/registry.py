"""The one table from program name to its rules and their handler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from kogniterm.approval.call import Call
from kogniterm.approval.options import Rules, parse_table
from kogniterm.approval.programs import (
    archives,
    builtins,
    changers,
    files,
    finders,
    git,
    interpreters,
    plain,
    readers,
    remote,
    scripts,
    shells,
    system,
    tools,
    wrappers,
)

Handler = Callable[[Call, Rules], None]

_BASES: dict[str, Handler] = {
    "read": plain.reads,
    "list": plain.lists,
    "pattern": plain.pattern,
    "text": plain.text,
    "media": plain.media,
    "binutils": plain.binutils,
    "test": plain.test,
    "jq": plain.jq,
    "yq": plain.yq,
    "echo": plain.echo,
    "none": plain.none,
    "write": plain.writes,
    "verbs": plain.verbs,
    "ask": plain.asks,
    "danger": plain.dangers,
    **wrappers.HANDLERS,
    **builtins.HANDLERS,
    **files.HANDLERS,
    **scripts.HANDLERS,
    **git.HANDLERS,
    **system.HANDLERS,
    **archives.HANDLERS,
    **finders.HANDLERS,
    **interpreters.HANDLERS,
    **remote.HANDLERS,
    **shells.HANDLERS,
    **tools.HANDLERS,
}


@functools.cache
def table() -> Mapping[str, Rules]:
    """Every program known, with its rules."""
    return {":": Rules("text"), **parse_table(readers.TABLE), **parse_table(changers.TABLE)}


def handler(rules: Rules) -> Handler:
    """What judges calls with these rules."""
    return _BASES[rules.base]
