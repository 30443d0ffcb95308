"""What a person is shown of a command: every invisible thing made visible, nothing left out.

`render` is injective: two different commands never look the same, and `unrender` gives the
command back. A hidden character appears as `\\u{200B}`; a run that would push text out of
sight (spaces, blank lines) as `\\u{20*300}`; and a literal `\\u{` of the command as `\\u{5C}u{`.
"""

from __future__ import annotations

import re
import unicodedata

from kogniterm.approval.characters import (
    SUSPECT,
    hidden_characters,
    is_invisible,
    is_right_to_left,
    look_alike,
)
from kogniterm.types import Text

_MAX_SPACES = 16
_MAX_INDENT = 40
_MAX_NEWLINES = 4
_MAX_MARKS = 2

_ESCAPE = re.compile(r"\\u\{([0-9A-F]{1,6})(?:\*([0-9]+))?\}")
_LITERAL = re.compile(r"\\(?=u\{)")
_SPACES = re.compile(rf"(?m)(^ {{{_MAX_INDENT + 1},}}| +$|(?<![\n ]) {{{_MAX_SPACES},}})")
_NEWLINES = re.compile(rf"\n{{{_MAX_NEWLINES},}}")
_URL_USER = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/?#'\"@]*\.[^\s/?#'\"@]*@", re.IGNORECASE)
_PUNYCODE = re.compile(r"\bxn--[a-z0-9-]+", re.IGNORECASE)


def _escape(char: str, count: int = 1) -> str:
    return f"\\u{{{ord(char):X}*{count}}}" if count > 1 else f"\\u{{{ord(char):X}}}"


def _visible(text: str) -> str:
    """`text` with invisible characters and piled-up combining marks escaped."""
    if not SUSPECT.search(text) and text.isascii():
        return text
    pieces: list[str] = []
    marks = 0
    bare = True
    for char in text:
        if unicodedata.combining(char):
            marks += 1
            pieces.append(_escape(char) if bare or marks > _MAX_MARKS else char)
            continue
        marks = 0
        hidden = is_invisible(char)
        bare = hidden or char.isspace()
        pieces.append(_escape(char) if hidden else char)
    return "".join(pieces)


def _shown_spaces(match: re.Match[str]) -> str:
    run = match[0]
    trailing = match.end() == len(match.string) or match.string[match.end()] == "\n"
    blank = match.string[match.start() - 1 : match.start()] == "\n"
    return run if trailing and not blank and len(run) < _MAX_NEWLINES else _escape(" ", len(run))


def render(command: str) -> str:
    """`command` as it must be shown before anybody approves it; ordinary text is untouched.

    Newlines stay lines. Linear in the length of `command`, and never raises.
    """
    text = _visible(_LITERAL.sub(r"\\u{5C}", command))
    text = _SPACES.sub(_shown_spaces, text)
    return _NEWLINES.sub(lambda run: f"\n{_escape(chr(10), len(run[0]))}\n", text)


def render_line(text: str) -> str:
    """`text` as `render` shows it, but on one row: a line break is an escape like the others.

    For file names, addresses and lines of a diff, which must not forge a row of a panel.
    """
    shown = _visible(_LITERAL.sub(r"\\u{5C}", text)).replace("\n", _escape("\n"))
    return _SPACES.sub(_shown_spaces, shown)


def render_words(text: str) -> str:
    """Foreign words inside a sentence, on one row: what deceives is escaped, emoji stay whole."""
    if text.isascii() and text.isprintable():
        return text
    for char in ("\n", "\t", *hidden_characters(text)):
        text = text.replace(char, _escape(char))
    return text


def unrender(shown: str) -> str:
    """The command whose rendering is `shown`."""
    shown = re.sub(r"\n(\\u\{A\*[0-9]+\})\n", r"\1", shown)
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) * int(found[2] or 1), shown)


def warnings(command: str) -> tuple[Text, ...]:
    """What could deceive the eye in `command`: hidden or look-alike characters, odd addresses."""
    found: list[Text] = []
    hidden = hidden_characters(command)
    if hidden:
        names = ", ".join(f"U+{ord(char):04X}" for char in hidden[:5])
        found.append(Text("It contains characters that cannot be seen: {names}.", {"names": names}))
    for word in dict.fromkeys(
        re.findall(r"[^\s|;&()<>'\"/=]*[^\x00-\x7f][^\s|;&()<>'\"/=]*", command)
    ):
        twins = [(char, look_alike(char)) for char in word]
        alike = [char for char, twin in twins if twin is not None]
        only_alike = all(twin is not None or char < "\x80" for char, twin in twins)
        if alike and (only_alike or any(unicodedata.category(c)[0] in "PS" for c in alike)):
            plain = "".join(twin or char for char, twin in twins)
            found.append(
                Text(
                    "{word} is not {plain}: it contains look-alike characters ({names}).",
                    {
                        "word": render(word[:40]),
                        "plain": plain[:40],
                        "names": ", ".join(f"U+{ord(c):04X}" for c in dict.fromkeys(alike[:5])),
                    },
                )
            )
    if any(is_right_to_left(char) for char in command):
        found.append(Text("It contains right-to-left text, which a terminal may show reordered."))
    if _PUNYCODE.search(command):
        found.append(Text("It names an internationalised host (xn--…) that may imitate another."))
    if _URL_USER.search(command):
        found.append(Text("An address in it has a host-like user name before the real host (…@)."))
    if len(command) > 2000 or command.count("\n") > 40:
        found.append(_long(len(command), command.count("\n") + 1))
    return tuple(found)


def _long(characters: int, lines: int) -> Text:
    values = {"characters": characters, "lines": lines}
    if lines == 1:
        return Text("It is long: {characters} characters on one line. Read it to its end.", values)
    return Text("It is long: {characters} characters on {lines} lines. Read it to its end.", values)
