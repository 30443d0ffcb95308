r"""Text of others as it is shown: nothing in it deceives the eye or controls the terminal.

A command is shown character by character: `render` is injective, so that two different commands
never look the same, and `unrender` gives the command back. A hidden character appears as
`\u{200B}`; a run that would push text out of sight (spaces, blank lines) as `\u{20*300}`; and a
literal `\u{` of the command as `\u{5C}u{`. From prose, `clean` takes out what cannot be shown.
Lone surrogates, which JSON can carry and no file, terminal or provider takes, are replaced by
`whole`. The output of commands keeps its colours: see `sanitize`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.types import ActionRequest

_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U00016fe4"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u2800"
_CONTROL = "\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff"

SUSPECT = re.compile(f"[{_CONTROL}{_IGNORABLE}{_BLANK}]")
"""Fast test: a text without a match and without rarer categories holds nothing invisible."""

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_EMOJI_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


def is_invisible(char: str) -> bool:
    """Return whether `char` shows nothing, moves the cursor, or is drawn as an unknown blank."""
    if char == "\n" or " " <= char <= "~":
        return False
    if SUSPECT.match(char):
        return True
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}


def hidden_characters(text: str) -> tuple[str, ...]:
    """Return the invisible characters of `text` that can deceive, each once, in order.

    Plain tabs and newlines are not among them, nor the joiners and variation selectors that
    belong to an emoji.
    """
    if text.isascii() and not SUSPECT.search(text):
        return ()
    found: dict[str, None] = {}
    previous = ""
    for char in text:
        joins_emoji = char in _EMOJI_JOINERS and previous > "\u2000"
        if char != "\t" and not joins_emoji and is_invisible(char):
            found[char] = None
        previous = char
    return tuple(found)


_LOOK_ALIKES = dict(
    zip(
        # Cyrillic, then Greek, then Armenian, Cherokee, Latin extensions and punctuation.
        "аеорсухіјѕԁһԛԝѡҽӏкптвмнгьзАВЕЗІЈКМНОРСТУХЅԌԚԜҮ"
        "αονρυκιτωγχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
        "օսցոհքɑɡıƖ"
        "‐‑‒–—―−﹣－∕⁄／⧸∖⧵＼；︔;︰：։ː‘’‛′ʹ＇“”″＂`｀∣ǀ｜＆﹠＞＜＄＊～∼．․。，‚（）",
        "aeopcyxijsdhqwwelknmBMHrb3ABE3IJKMHOPCTYXSGQWY"
        "aovpukitwyxABEZHIKMNOPTYX"
        "ousnhpagiI"
        "---------////\\\\\\;;;::::''''''\"\"\"\"``|||&&><$*~~...,,()",
        strict=True,
    )
)


def look_alike(char: str) -> str | None:
    """Return the ASCII character `char` could be taken for, or None."""
    if char < "\x80":
        return None
    known = _LOOK_ALIKES.get(char)
    if known is not None:
        return known
    folded = unicodedata.normalize("NFKC", char)
    return folded if len(folded) == 1 and " " < folded <= "~" else None


def is_right_to_left(char: str) -> bool:
    """Return whether a terminal with bidirectional display may reorder the text round `char`."""
    return char > "\u058f" and unicodedata.bidirectional(char) in {"R", "AL"}


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
    """Return `text` with invisible characters and piled-up combining marks escaped."""
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
    """Return `command` as it is shown before approval; ordinary text is untouched.

    Newlines stay lines. Linear in the length of `command`, and never raises.
    """
    text = _visible(_LITERAL.sub(r"\\u{5C}", command))
    text = _SPACES.sub(_shown_spaces, text)
    return _NEWLINES.sub(lambda run: f"\n{_escape(chr(10), len(run[0]))}\n", text)


def render_line(text: str) -> str:
    """Return `text` as `render` shows it, but on one row: line breaks are escaped too.

    For file names, addresses and lines of a diff, which must not forge a row of a panel.
    """
    return render_again(_LITERAL.sub(r"\\u{5C}", text))


def render_request(request: ActionRequest) -> str:
    """Return a request as it is shown: only a command has lines, any other is one row."""
    lines = request.effect in ("command", "hosts")
    return render(request.command) if lines else render_line(request.command)


def render_again(shown: str) -> str:
    """Return `shown` unchanged if it was rendered already; otherwise nothing in it is hidden."""
    return _SPACES.sub(_shown_spaces, _visible(shown).replace("\n", _escape("\n")))


def render_words(text: str) -> str:
    """Return foreign words for a sentence, on one row; emoji stay, deceptive characters do not."""
    if text.isascii() and text.isprintable():
        return text
    for char in ("\n", "\t", *hidden_characters(text)):
        text = text.replace(char, _escape(char))
    return text


def unrender(shown: str) -> str:
    """Return the command whose rendering is `shown`."""
    shown = re.sub(r"\n(\\u\{A\*[0-9]+\})\n", r"\1", shown)
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) * int(found[2] or 1), shown)


def warnings(command: str) -> tuple[Phrase, ...]:
    """Return warnings about hidden or look-alike characters and odd addresses in `command`."""
    found: list[Phrase] = []
    hidden = hidden_characters(command)
    if hidden:
        names = ", ".join(f"U+{ord(char):04X}" for char in hidden[:5])
        found.append(Phrase("Contains invisible characters: {names}.", {"names": names}))
    for word in dict.fromkeys(
        re.findall(r"[^\s|;&()<>'\"/=]*[^\x00-\x7f][^\s|;&()<>'\"/=]*", command)
    ):
        twins = [(char, look_alike(char)) for char in word]
        alike = [char for char, twin in twins if twin is not None]
        only_alike = all(twin is not None or char < "\x80" for char, twin in twins)
        if alike and (only_alike or any(unicodedata.category(c)[0] in "PS" for c in alike)):
            plain = "".join(twin or char for char, twin in twins)
            found.append(
                Phrase(
                    "{word} is not {plain}: it contains look-alike characters ({names}).",
                    {
                        "word": render(word[:40]),
                        "plain": plain[:40],
                        "names": ", ".join(f"U+{ord(c):04X}" for c in dict.fromkeys(alike[:5])),
                    },
                )
            )
    if any(is_right_to_left(char) for char in command):
        found.append(Phrase("Contains right-to-left text, which a terminal may show reordered."))
    if _PUNYCODE.search(command):
        found.append(
            Phrase("Contains an internationalised host name (xn--…) that may imitate another.")
        )
    if _URL_USER.search(command):
        found.append(Phrase("Contains a URL with a host-like user name before the real host (…@)."))
    lines = command.count("\n") + 1
    if len(command) > 2000 or lines > 41:
        size = {"characters": len(command), "lines": lines}
        found.append(
            Phrase("Long command: {characters} characters on one line. Read it to the end.", size)
            if lines == 1
            else Phrase(
                "Long command: {characters} characters on {lines} lines. Read it to the end.", size
            )
        )
    return tuple(found)


def clean(text: str) -> str:
    """Return `text` without control characters (newline and tab stay) and direction overrides."""
    return _UNSAFE.sub("", text.replace("\r\n", "\n"))


def without_marks(text: str) -> str:
    """Return `text` without the marks around text from elsewhere, which are for the model."""
    return re.sub(r"</?untrusted[^>]*>", "", text).strip()


def without_style(text: str) -> str:
    """Return `text` without colour sequences."""
    return _SGR.sub("", text)


def whole(text: str) -> str:
    r"""Return `text` with its surrogate pairs joined, and bytes that are no UTF-8 as `\xe9`.

    Other lone surrogates are replaced.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        shown = show_bytes(joined).encode("utf-16", "surrogatepass")
        return shown.decode("utf-16", "replace")
    return text


FOREIGN = re.compile("[\udc80-\udcff]")
"""Finds a byte that is no text in its encoding, such as one of a file's name."""


def show_bytes(text: str) -> str:
    r"""Return `text` with each byte that is no text as `\xe9`."""
    return FOREIGN.sub(lambda one: f"\\x{ord(one[0]) - 0xDC00:02x}", text)


def code_block(text: str, language: str = "") -> str:
    """Return `text` as a block of code in Markdown, in which nothing of it is Markdown."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of JSON with `change` applied to all its texts, names included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {with_texts(name, change): with_texts(one, change) for name, one in value.items()}
    return [with_texts(one, change) for one in value] if isinstance(value, list) else value
