"""Colours of code where rich's own two tables fail: on a light background, and on an unknown one.

Only the terminal's sixteen colours. rich paints strings yellow and types cyan for light
terminals, which cannot be read on white.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from rich.syntax import ANSI_LIGHT, ANSISyntaxTheme, SyntaxTheme

_LIGHT: Mapping[str, str] = {
    "Comment": "italic bright_black",
    "Keyword": "blue",
    "Keyword.Type": "magenta",
    "Operator.Word": "blue",
    "Name.Builtin": "magenta",
    "Name.Class": "bold",
    "Name.Decorator": "magenta",
    "Name.Exception": "magenta",
    "Name.Function": "bold",
    "Name.Tag": "blue",
    "Literal.Number": "red",
    "Literal.String": "green",
    "Generic.Deleted": "red",
    "Generic.Inserted": "green",
    "Generic.Heading": "bold",
    "Generic.Subheading": "bold",
    "Error": "underline red",
}
_EITHER: Mapping[str, str] = {
    **_LIGHT,
    "Comment": "italic dim",
    "Keyword": "bold",
    "Operator.Word": "bold",
    "Name.Tag": "bold",
    "Name.Class": "underline",
    "Name.Function": "underline",
}
_OWN = {"light": _LIGHT, "either": _EITHER}


def code_style(name: str) -> str | SyntaxTheme:
    """What rich's `Syntax` takes for the code style called `name` in a theme."""
    table = _OWN.get(name)
    if table is None:
        return name
    styles = {token: table.get(repr(token).removeprefix("Token.")) for token in ANSI_LIGHT}
    return ANSISyntaxTheme({token: Style.parse(style) for token, style in styles.items() if style})
