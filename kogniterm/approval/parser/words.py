"""Words, redirections and heredocs of the tree, and the accounting that leaves no text unread."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from kogniterm.approval.analysis.paths_and_variables import names
from kogniterm.approval.parser.lexer import PLAIN, WordLexer, arithmetic
from kogniterm.approval.parser.tree import (
    NO_SPANS,
    Assignment,
    Literal,
    Node,
    Opaque,
    Part,
    Redirect,
    Simple,
    Spans,
    Substitution,
    Word,
)

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode

MAX_DEPTH = 40
MAX_WORDS = 400
MAX_CHILDREN = 800
"""Beyond these a command is asked about unread: nobody reads it to its end either."""
_BLANK = re.compile(r"(?:[ \t\n;]|\\\n)*\Z")
WORD_KINDS = names(
    """
    word string raw_string ansi_c_string translated_string concatenation simple_expansion
    expansion number command_substitution process_substitution arithmetic_expansion
    brace_expression regex extglob_pattern
    """
)
_INTO_VARIABLE = re.compile(r"(?:^|[\s;&|(])\{[A-Za-z_]\w*(?:\[[^\]]*\])?\}\Z")
_SUBSCRIPT = re.compile(r'\w+\["?(?:\$?\{?([A-Za-z_]\w*)\}?|\d*)"?\]', re.ASCII)
_SPANNED = frozenset({"command_substitution", "process_substitution"})
_EXPANSIONS = frozenset({"expansion", "arithmetic_expansion"})
STATEMENT_KINDS = names("""
    command declaration_command unset_command variable_assignment variable_assignments
    redirected_statement pipeline negated_command compound_statement subshell if_statement
    case_statement for_statement c_style_for_statement while_statement function_definition
    test_command list
""")


class UnreadError(Exception):
    """Something the builder does not account for."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class StatementReader(Protocol):
    """What reads the statements inside words and redirections: `shellparse`'s builder."""

    def statement(self, node: TreeNode, depth: int) -> Node:
        """One statement."""

    def sequence(self, children: list[TreeNode], start: int, end: int, depth: int) -> Node:
        """The run of statements `children`, which must account for `start` to `end`."""


class WordReader:
    """Reads everything below the level of statements, and those with the help of `statements`."""

    def __init__(self, text: str, statements: StatementReader) -> None:
        self.text = text
        self._statements = statements
        self._words = 0

    def assignment(self, node: TreeNode, depth: int) -> Assignment:
        name, *rest = node.children
        value = rest[-1] if rest and rest[-1].type not in {"=", "+="} else None
        if name.type not in {"variable_name", "subscript"} or len(rest) > 2:
            raise UnreadError("an assignment of an unusual form")
        label = self.slice(name)
        computes: tuple[str, ...] = ()
        if name.type == "subscript":
            subscript = _SUBSCRIPT.fullmatch(label)
            if subscript is None:
                raise UnreadError("an array subscript that may run commands")
            computes = (subscript[1],) if subscript[1] else ()
        label = label.partition("[")[0]
        if value is None:
            return Assignment(label, (), computes=computes)
        if value.type == "array":
            inner = [c for c in value.children if c.is_named and c.type != "comment"]
            for child in inner:
                computes += _subscript_names(self.slice(child))
            words = tuple(self.word(child, depth) for child in inner)
            return Assignment(label, words, array=True, computes=computes)
        appends = any(child.type == "+=" for child in rest)
        return Assignment(label, (self.word(value, depth),), computes=computes, appends=appends)

    def redirect(
        self,
        node: TreeNode,
        words: list[Word],
        redirects: list[Redirect],
        rest: list[tuple[str, Node]],
        depth: int,
    ) -> Redirect:
        if _INTO_VARIABLE.search(self.text[max(0, node.start_byte - 200) : node.start_byte]):
            raise UnreadError("a redirection that sets a variable")
        if node.type == "heredoc_redirect":
            return self._heredoc(node, words, redirects, rest, depth)
        op = ""
        targets: list[Word] = []
        for child in node.children:
            if child.type == "file_descriptor":
                continue
            if child.is_named:
                targets.append(self.word(child, depth))
            else:
                op = child.type
        if node.type == "herestring_redirect":
            return Redirect("<<<", None, body=targets[0] if targets else None)
        if not targets and op not in {"<&-", ">&-"}:
            raise UnreadError("a redirection without a target")
        # The grammar lets one redirection swallow the words that follow it.
        words.extend(targets[1:])
        return Redirect(op, targets[0] if targets else None)

    def _heredoc(
        self,
        node: TreeNode,
        words: list[Word],
        redirects: list[Redirect],
        rest: list[tuple[str, Node]],
        depth: int,
    ) -> Redirect:
        """A heredoc, with what stands behind it on its first line."""
        op, start, body, end = "<<", None, None, None
        join = ""
        for child in node.children:
            if child.type in {"<<", "<<-"}:
                op = child.type
            elif child.type == "heredoc_start":
                start = child
            elif child.type == "heredoc_body":
                body = child
            elif child.type == "heredoc_end":
                end = child
            elif child.type.endswith("redirect") and child.type != "heredoc_redirect":
                redirects.append(self.redirect(child, words, redirects, rest, depth))
            elif child.type in {"|", "|&", "&&", "||", ";", "&"}:
                join = child.type
            elif child.type == "pipeline":
                rest.append((join or "|", self._statements.statement(child, depth)))
            elif child.type in WORD_KINDS:
                words.append(self.word(child, depth))
            elif child.type in STATEMENT_KINDS:
                rest.append((join or ";", self._statements.statement(child, depth)))
            else:
                raise UnreadError("a heredoc of an unusual form")
        if start is None or end is None:
            raise UnreadError("a heredoc without its end")
        return Redirect(op, None, body=self._heredoc_body(op, start, body, end, depth))

    def _heredoc_body(
        self, op: str, start: TreeNode, body: TreeNode | None, end: TreeNode, depth: int
    ) -> Word:
        raw = self.slice(start)
        delimiter = WordLexer(raw, 0, len(raw), NO_SPANS).word()
        if not all(isinstance(part, Literal) for part in delimiter):
            raise UnreadError("a heredoc delimiter of an unusual form")
        word = "".join(part.text for part in delimiter if isinstance(part, Literal))
        line = self.text.find("\n", start.end_byte)
        first = body.start_byte if body is not None else end.start_byte
        # The body must start on the next line, and end at the first line that is the delimiter.
        if line < 0 or self.text[line + 1 : first].strip("\t"):
            raise UnreadError("a heredoc that does not start on the next line")
        lines = self.text[line + 1 :].split("\n")
        if op == "<<-":
            lines = [text.lstrip("\t") for text in lines]
        before = self.text.count("\n", line + 1, end.end_byte)
        if word not in lines or lines.index(word) != before:
            raise UnreadError("a heredoc whose end is not where it seems to be")
        if any(not isinstance(p, Literal) or p.quoted for p in delimiter) or body is None:
            return Word("", (Literal(self.text[line + 1 : end.start_byte], quoted=True),))
        stop = end.start_byte
        parts = WordLexer(self.text, line + 1, stop, self._spans(body, depth)).quoted()
        return Word(self.text[line + 1 : stop], parts)

    def word(self, node: TreeNode, depth: int) -> Word:
        """The word at `node`, read by our own lexer."""
        self._words += 1
        if self._words > MAX_WORDS:
            raise UnreadError("it has too many words")
        start, end = node.start_byte, node.end_byte
        raw = self.text[start:end]
        if PLAIN.match(raw):
            return Word(raw, (Literal(raw, quoted=False),))
        spans = self._spans(node, depth) if "$" in raw or "`" in raw or "(" in raw else NO_SPANS
        if node.type in {"regex", "extglob_pattern"} and spans is NO_SPANS:
            return Word(raw, (Literal(_utf8(raw), quoted=True),))
        lexer = WordLexer(self.text, start, end, spans, pattern=node.type == "regex")
        parts = lexer.word()
        return Word(raw, tuple(_decoded(part) for part in parts))

    def calculation(self, node: TreeNode, start: int, end: int, depth: int) -> Word:
        """The arithmetic text between `start` and `end` of `node`: `((…))` and C-style loops."""
        spans = self._spans(node, depth)
        return Word(self.text[start:end], (arithmetic(self.text, start, end, spans),))

    def plain(self, node: TreeNode) -> Word:
        """A word that is exactly what it looks like: an operator, a bracket, a name."""
        raw = self.slice(node)
        return Word(raw, (Literal(raw, quoted=True),))

    def _spans(self, node: TreeNode, depth: int) -> Spans:
        """Where the tree saw substitutions and expansions inside `node`."""
        substitutions: dict[int, tuple[int, Substitution]] = {}
        expansions: dict[int, int] = {}
        stack = [node]
        while stack:
            current = stack.pop()
            # The tree takes blanks between two expansions of a string for part of the second.
            raw = self.slice(current)
            start = current.start_byte + len(raw) - len(raw.lstrip())
            if current.type in _SPANNED:
                found = Substitution(self._inside(current, depth), _kind(current), quoted=False)
                substitutions[start] = (current.end_byte, found)
                continue
            if current.type in _EXPANSIONS:
                expansions[start] = current.end_byte
            stack.extend(current.children)
        return Spans(substitutions, expansions)

    def _inside(self, node: TreeNode, depth: int) -> Node:
        """The statements of a substitution."""
        if depth >= MAX_DEPTH:
            raise UnreadError("it is nested too deeply")
        start, last = node.children[0], node.children[-1]
        if start.type == "`" or self.text[node.start_byte] == "`":
            inner = self.text[node.start_byte + 1 : node.end_byte - 1]
            unescaped = re.sub(r"\\([$`\\])", r"\1", inner)
            if unescaped != inner:
                return Opaque(inner, "it has escapes inside backticks")
        children = node.children[1:-1]
        if start.type == "$(<" or (children and children[0].type == "file_redirect"):
            if len(children) != 1:
                raise UnreadError("a substitution of an unusual form")
            redirect = self.redirect(children[0], [], [], [], depth)
            # It reads a file as cat would.
            return Simple((), (Word("cat", (Literal("cat", quoted=False),)),), (redirect,))
        return self._statements.sequence(children, start.end_byte, last.start_byte, depth + 1)

    def slice(self, node: TreeNode) -> str:
        return self.text[node.start_byte : node.end_byte]

    def gap(self, start: int, end: int) -> None:
        if start < end and not _BLANK.match(self.text[start:end]):
            raise UnreadError("it contains text that could not be read")
        # The tree takes a continued line for a blank; bash joins what stands round it.
        between = self.text[start:end]
        if "\\\n" in between and not between.replace("\\\n", ""):
            raise UnreadError("a word is broken over two lines")

    def accounted(
        self, children: Iterable[TreeNode], start: int, end: int | None = None
    ) -> Iterator[TreeNode]:
        """The `children` in order; text that stands unread between them or behind is refused."""
        for child in children:
            self.gap(start, child.start_byte)
            start = child.end_byte
            yield child
        if end is not None:
            self.gap(start, end)

    def comment(self, node: TreeNode) -> None:
        raw = self.slice(node)
        before = self.text[node.start_byte - 1 : node.start_byte]
        if (
            not raw.startswith("#")
            or "\n" in raw
            or before not in {"", " ", "\t", "\n", ";", "&", "|", "(", ")"}
        ):
            raise UnreadError("a comment of an unusual form")

    def bounded(self, node: TreeNode) -> None:
        """Refuse a node with more children than anybody would read."""
        if node.child_count > MAX_CHILDREN:
            raise UnreadError("it has too many parts")


def _subscript_names(element: str) -> tuple[str, ...]:
    """The variables in the subscript of an array's element `[…]=value`; `@` for anything else."""
    match = re.match(r"\[([^\]]*)\]\+?=", element)
    if match is None:
        return ("@",) if element.startswith("[") and "$" in element.partition("]")[0] else ()
    if "$(" in match[1] or "`" in match[1]:
        return ("@",)
    return tuple(re.findall(r"[A-Za-z_]\w*", match[1], re.ASCII))


def _kind(node: TreeNode) -> str:
    if node.type == "command_substitution":
        return "command"
    return "output" if node.children[0].type == ">(" else "input"


def _utf8(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")


def _decoded(part: Part) -> Part:
    if isinstance(part, Literal) and not part.text.isascii():
        return Literal(_utf8(part.text), part.quoted)
    return part
