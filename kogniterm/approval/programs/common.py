"""What handlers of several families share."""

from __future__ import annotations

import re

from kogniterm.approval.call import Call
from kogniterm.approval.places import HOLE, is_secret
from kogniterm.approval.scope import Argument


def mentions(call: Call) -> None:
    """Secret files named anywhere in the arguments, also as `@file` or `name=file`."""
    for arg in call.args:
        for piece in re.split(r"[=@:,;]", arg.value):
            if not piece or len(piece) > 300 or " " in piece:
                continue
            place = call.place(Argument(call.scope.ground.tilde(piece), arg.glob))
            if is_secret(place.path, glob=arg.glob):
                call.secret(place)


def words_of(call: Call) -> list[str]:
    """The arguments as text for people, holes as …."""
    return [arg.value.replace(HOLE, "…") for arg in call.args]


def operands_of(call: Call) -> list[Argument]:
    """The arguments that are not options."""
    return [arg for arg in call.args if not arg.value.startswith("-")]
