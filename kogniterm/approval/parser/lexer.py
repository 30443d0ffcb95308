"""Shell words: quoting, escapes and expansions of one word, read independently of the parser.

The tree gives the position of a word and the nodes of its substitutions; this lexer reads the same
text by itself. A disagreement between the two becomes an `Unknown` with `opaque` set, which is
asked about. Texts are Latin-1 views of the UTF-8 source, so that offsets are the tree's.
"""

from __future__ import annotations

import re

from kogniterm.approval.parser.tree import Literal, Part, Spans, Substitution, Unknown, Variable
from kogniterm.types import Phrase

MAX_PARTS = 200
MAX_STEPS = 1500
_RUN = re.compile(r"[^\\'\"$`<>()|;&\s]+")

PLAIN = re.compile(r"[\w./:,@%+=^-]*\Z", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SPECIAL_NAME = "@*#?-$!0123456789_"
_PARAMETER = re.compile(
    r"(?P<prefix>[!#]?)(?P<name>[A-Za-z_]\w*|[0-9]+|[@*#?$!_-])"
    r"(?P<index>\[(?:[0-9@*]+|-[0-9]+|\$?(?P<key>[A-Za-z_]\w*)|\$\{(?P<braced>[A-Za-z_]\w*)\})\])?"
    r"(?P<rest>.*)\Z",
    re.DOTALL | re.ASCII,
)
_SAFE_OPERATOR = re.compile(r"(?::?[-=+?]|%%?|##?|//?[#%]?|:|\^\^?|,,?|@[QULua]\Z|\Z)")
_META = frozenset(" \t\n;&|<>()")
_ANSI = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI_ESCAPE = re.compile(
    r"\\(?:(?P<plain>[abeEfnrtv\\'\"?])|x(?P<hex>[0-9A-Fa-f]{1,2})|(?P<octal>[0-7]{1,3})"
    r"|u(?P<u4>[0-9A-Fa-f]{1,4})|U(?P<u8>[0-9A-Fa-f]{1,8})|c(?P<control>.))",
    re.DOTALL,
)


def decode_ansi(body: str) -> str:
    """Return the text between `$'` and `'`, unescaped as bash does (a NUL ends it)."""

    def unescape(match: re.Match[str]) -> str:
        if match["plain"]:
            return _ANSI[match["plain"]]
        if match["control"]:
            return chr(ord(match["control"]) & 0x1F)
        if match["octal"]:
            return chr(int(match["octal"], 8) & 0xFF)
        if match["hex"]:
            return chr(int(match["hex"], 16))
        code = int(match["u4"] or match["u8"], 16)
        return chr(code).encode().decode("latin-1") if code < 0x110000 else "?"

    return _ANSI_ESCAPE.sub(unescape, body).partition("\0")[0]


class WordLexer:
    """Reads `text[start:end]` as exactly one word, or as the inside of double quotes.

    In a `pattern` (behind `=~`) parentheses and bars stand for themselves.
    """

    def __init__(
        self, text: str, start: int, end: int, spans: Spans, *, pattern: bool = False
    ) -> None:
        self._text = text
        self._at = start
        self._end = end
        self._spans = spans
        self._meta = frozenset(" \t\n;&") if pattern else _META
        self._parts: list[Part] = []

    def word(self) -> tuple[Part, ...]:
        steps = 0
        while self._at < self._end:
            self._read_unquoted(self._text[self._at])
            steps += 1
            if len(self._parts) > MAX_PARTS or steps > MAX_STEPS:
                self._opaque("a word with too many parts")
        return tuple(self._parts)

    def read_quoted(self) -> tuple[Part, ...]:
        """Return the parts of a text in which only `$`, backtick and backslash are special."""
        self._double(self._end)
        return tuple(self._parts)

    def _add(self, text: str, *, quoted: bool) -> None:
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Literal) and last.quoted == quoted:
            self._parts[-1] = Literal(last.text + text, quoted)
        else:
            self._parts.append(Literal(text, quoted))

    def _opaque(self, why: str, *, quoted: bool = False, **values: object) -> None:
        """Give up on the rest of the word."""
        self._parts.append(_opaque(why, quoted=quoted, **values))
        self._at = self._end

    def _read_unquoted(self, char: str) -> None:
        text, at = self._text, self._at
        if char == "\\":
            if text[at + 1 : at + 2] != "\n":
                self._add(text[at + 1 : at + 2] or "\\", quoted=True)
            self._at += 2
        elif char == "'":
            self._single(at + 1)
        elif char == '"':
            self._quotes(at + 1)
        elif char == "$" and text[at + 1 : at + 2] == "'":
            self._ansi(at + 2)
        elif char == "$" and text[at + 1 : at + 2] == '"':
            self._quotes(at + 2)
        elif char in "$`":
            self._expansion(quoted=False)
        elif char in "<>" and text[at + 1 : at + 2] == "(":
            self._substitution("<(" if char == "<" else ">(", quoted=False)
        elif char in self._meta:
            self._opaque("an unexpected {char} inside a word", char=repr(char))
        else:
            run = _RUN.match(text, at, self._end)
            plain = run[0] if run else char
            self._add(plain, quoted=False)
            self._at += len(plain)

    def _single(self, start: int) -> None:
        close = self._text.find("'", start, self._end)
        if close < 0:
            self._opaque("an unclosed single quote")
            return
        self._add(self._text[start:close], quoted=True)
        self._at = close + 1

    def _ansi(self, start: int) -> None:
        match = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL).match(self._text, start, self._end)
        if match is None:
            self._opaque("an unclosed $' quote")
            return
        self._add(decode_ansi(match[0][:-1]), quoted=True)
        self._at = match.end()

    def _quotes(self, start: int) -> None:
        self._at = start
        self._add("", quoted=True)
        self._double(None)

    def _double(self, stop: int | None) -> None:
        """Read double-quoted text up to the closing quote, or up to `stop` if there is none."""
        text = self._text
        while self._at < self._end and len(self._parts) <= MAX_PARTS:
            char = text[self._at]
            if char == '"' and stop is None:
                self._at += 1
                return
            if char == "\\":
                following = text[self._at + 1 : self._at + 2]
                if following != "\n":
                    self._add(following if following in '$`"\\' else "\\" + following, quoted=True)
                self._at += 2
            elif char in "$`":
                self._expansion(quoted=True)
            else:
                run = re.compile(r'[^"\\$`]+|"').match(text, self._at, self._end)
                assert run is not None
                self._add(run[0], quoted=True)
                self._at = run.end()
        if len(self._parts) > MAX_PARTS:
            self._opaque("a word with too many parts", quoted=True)
        elif stop is None:
            self._opaque("an unclosed double quote")

    def _expansion(self, *, quoted: bool) -> None:
        text, at = self._text, self._at
        following = text[at + 1 : at + 2]
        if text[at] == "`" or (following == "(" and text[at + 1 : at + 3] != "(("):
            self._substitution("$(", quoted=quoted)
        elif following == "(":
            if at in self._spans.substitutions:
                self._substitution("$(", quoted=quoted)
            else:
                self._arithmetic(quoted=quoted)
        elif following == "{":
            self._parameter(quoted=quoted)
        elif following == "[":
            self._opaque("old-style arithmetic $[…]", quoted=quoted)
        elif name := _NAME.match(text, at + 1, self._end):
            self._parts.append(Variable(name[0], quoted))
            self._at = name.end()
        elif following and following in _SPECIAL_NAME and at + 1 < self._end:
            self._parts.append(Variable(following, quoted))
            self._at += 2
        else:
            self._add("$", quoted=quoted)
            self._at += 1

    def _substitution(self, what: str, *, quoted: bool) -> None:
        span = self._spans.substitutions.get(self._at)
        if span is None or span[0] > self._end:
            self._opaque("an unreadable substitution ({start}…)", quoted=quoted, start=what)
            return
        end, found = span
        self._parts.append(Substitution(found.node, found.kind, quoted))
        self._at = end

    def _arithmetic(self, *, quoted: bool) -> None:
        end = self._spans.expansions.get(self._at)
        if end is None or not self._text.endswith("))", self._at, end):
            self._opaque("unsupported arithmetic", quoted=quoted)
            return
        found = arithmetic(self._text, self._at + 3, end - 2, self._spans, quoted=quoted)
        self._parts.append(found)
        self._at = end

    def _parameter(self, *, quoted: bool) -> None:
        """Read `${…}`: a plain name is a variable, everything else counts as unknown."""
        start = self._at
        end = self._spans.expansions.get(start)
        simple = re.compile(r"\$\{([A-Za-z_]\w*|[0-9@*#?$!])\}", re.ASCII).match(self._text, start)
        if simple is not None:
            self._parts.append(Variable(simple[1], quoted))
            self._at = simple.end()
        elif end is None or end > self._end or self._text[end - 1] != "}":
            self._opaque("an expansion with an unclear end", quoted=quoted)
        else:
            inside = sorted(self._spans.substitutions.items())
            nested = tuple(found for at, (_, found) in inside if start < at < end)
            self._parts.append(_expansion(self._text[start + 2 : end - 1], nested, quoted=quoted))
            self._at = end


def _opaque(why: str, *, quoted: bool, **values: object) -> Unknown:
    return Unknown(quoted, opaque=Phrase(why, values))


def _expansion(inner: str, nested: tuple[Substitution, ...], *, quoted: bool) -> Unknown:
    """Return the expansion `${inner}`, whose substitutions are `nested`."""
    match = _PARAMETER.match(inner)
    if match is None or not _SAFE_OPERATOR.match(match["rest"]):
        return _opaque("an unsupported form of expansion", quoted=quoted)
    rest, length = match["rest"], match["prefix"] == "#"
    if match["prefix"] == "!" and not match["index"] and rest not in {"*", "@"}:
        return _opaque("an indirect expansion ${!…}", quoted=quoted)
    if len(HIDDEN_CODE.findall(inner)) != len(nested):
        return _opaque("code inside an expansion", quoted=quoted)
    if re.match(r":(?![-=+?])", rest) and not re.fullmatch(r"[: \w$-]*", rest):
        return _opaque("a substring expansion with computed bounds", quoted=quoted)
    names = (match["name"], *re.findall(r"\$\{?([A-Za-z_]\w*|[0-9@*])", rest))
    bounds: tuple[str, ...] = ()
    if re.match(r":(?![-=+?])", rest):
        if _JOINED.search(rest):
            return _opaque("a substring expansion with computed bounds", quoted=quoted)
        bounds = calculated_names(rest.replace(":", ","))[0]
    if length and (match["index"] or "@").strip("[]") in {"@", "*"}:
        names = ()  # A length does not look at the value.
    return Unknown(
        quoted,
        nested,
        digits=length and not rest,
        names=names,
        assigns=match["name"] if rest.lstrip(":").startswith("=") else None,
        computes=(*filter(None, (match["key"], match["braced"])), *bounds),
        given=rest.lstrip(":-=+").strip("'\"") if rest.lstrip(":")[:1] in "-=+" else "",
        whole=not match["prefix"] and not rest,
    )


HIDDEN_CODE = re.compile(r"\$\(|`|[<>]\(|\$\[")
"""The beginnings of code inside a text that is otherwise read as a whole."""

_ARITHMETIC = re.compile(r"[\w\s+\-*/%<>=!&|^~?:(),$#.{}]*\Z", re.ASCII)
_JOINED = re.compile(r"[\w}]\$|\$\{#?\w+\}\w|\$[0-9]\w", re.ASCII)
"""An expansion that becomes part of a name or a number."""


def arithmetic(text: str, start: int, end: int, spans: Spans, *, quoted: bool = True) -> Unknown:
    """Return the arithmetic `text[start:end]`; array subscripts can run commands: they are opaque.

    What the substitutions in it print is taken for an expression too: they are in `inner`.
    """
    nested: list[Substitution] = []
    pieces: list[str] = []
    at = start
    for offset, (stop, found) in sorted(spans.substitutions.items()):
        if not at <= offset < end:
            continue
        # A number stands for what it prints, and only where it is an operand by itself.
        operand = found.kind == "command" and not re.match(r"[\w$}]", text[offset - 1])
        pieces.append(text[at:offset] + ("0" if operand else "["))
        nested.append(found)
        at = stop
    inner = "".join((*pieces, text[at:end])).replace(";", ",")
    inner = re.sub(r"(?<![\w}])\$\{#\w+\}(?!\w)", "0", inner, flags=re.ASCII)
    plain = re.sub(r"\$\{#?\w+\}", "", inner)
    unclear = HIDDEN_CODE.search(inner) or _JOINED.search(inner) or "{" in plain
    if unclear or not _ARITHMETIC.match(inner):
        return _opaque("arithmetic that may run commands (subscripts)", quoted=quoted)
    names, targets, settles = calculated_names(inner)
    return Unknown(
        quoted, tuple(nested), digits=True, names=names, targets=targets, settles=settles
    )


_ASSIGNED = re.compile(
    r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)",
    re.ASCII,
)


def calculated_names(inner: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the variables that arithmetic takes the value of, those it sets, and surely sets.

    A value that was surely set before it is taken is a number: it is not among the first.
    """
    text = re.sub(r"\b(?:0[xX][0-9a-fA-F]+|\d+#\w+)", "0", inner)
    used = dict.fromkeys(re.findall(r"\$\{?([0-9@*])", text), True)
    settled: dict[str, bool] = {}
    surely = True
    for piece in text.split(","):
        given = re.match(r"\s*([A-Za-z_]\w*)\s*=(?!=)", piece, re.ASCII) if surely else None
        taken = piece[given.end() :] if given else piece
        for name in re.findall(r"[A-Za-z_]\w*", taken, re.ASCII):
            if not settled.get(name):
                used[name] = True
        # What stands in brackets or behind a condition may come first, or not at all.
        surely = surely and not re.search(r"[(?&|]", piece)
        if given:
            settled[given[1]] = surely
    targets = dict.fromkeys(match[1] or match[2] for match in _ASSIGNED.finditer(text))
    return tuple(used), tuple(targets), tuple(settled)
