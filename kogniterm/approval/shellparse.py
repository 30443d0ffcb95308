"""Shell text to a small tree of statements, or an admission of what could not be read.

tree-sitter-bash does the parsing. It is error-tolerant and has blind spots, so nothing of it is
believed blindly: only listed node kinds are accepted, every byte between nodes must be blank,
every word is read a second time by `words.WordLexer`, and heredoc ends are checked here. What
fails any of these becomes `Opaque`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kogniterm.approval.naming import names
from kogniterm.approval.shelltree import (
    Assignment,
    Branch,
    Function,
    Group,
    Loop,
    Node,
    Opaque,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    Test,
)
from kogniterm.approval.words import (
    NO_SPANS,
    PLAIN,
    Literal,
    Part,
    Spans,
    Substitution,
    Word,
    WordLexer,
    arithmetic,
)

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode
    from tree_sitter import Parser

MAX_DEPTH = 40

_BLANK = re.compile(r"(?:[ \t\n;]|\\\n)*\Z")

_WORDS = frozenset(
    names(
        """
    word string raw_string ansi_c_string translated_string concatenation simple_expansion
    expansion number command_substitution process_substitution arithmetic_expansion
    brace_expression regex extglob_pattern
    """
    )
)

_SPANNED = frozenset({"command_substitution", "process_substitution"})

_EXPANSIONS = frozenset({"expansion", "arithmetic_expansion"})

_SEPARATORS = frozenset({";", "&", "&&", "||", "\n"})


@functools.cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(command: str) -> Node:
    """The statements of `command`; never raises."""
    source = command.encode("utf-8", "surrogatepass")
    root = _parser().parse(source).root_node
    text = source.decode("latin-1")
    if root.has_error:
        return Opaque(command, "it is not complete, valid shell")
    try:
        return _Builder(text).statements(root, root.start_byte, root.end_byte, 0)
    except _UnreadError as problem:
        return Opaque(command, problem.why)


class _UnreadError(Exception):
    """Something the builder does not account for."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class _Builder:
    def __init__(self, text: str) -> None:
        self._text = text

    # --- statements ---------------------------------------------------------------------------

    def statements(self, node: TreeNode, start: int, end: int, depth: int) -> Node:
        """A run of statements between `start` and `end`: program, do_group, braces, lists."""
        children = [c for c in node.children if c.end_byte > start and c.start_byte < end]
        return self._sequence(children, start, end, depth)

    def _sequence(self, children: list[TreeNode], start: int, end: int, depth: int) -> Node:
        items: list[tuple[str, Node]] = []
        op = ""
        position = start
        for child in children:
            self._gap(position, child.start_byte)
            position = child.end_byte
            if child.type in _SEPARATORS:
                op = child.type
            elif child.type == "comment":
                self._comment(child)
            elif child.type == "list":
                items.extend(self._list(child, op or ";", depth))
                op = ""
            else:
                items.append((op or (";" if items else ""), self.statement(child, depth)))
                op = ""
        self._gap(position, end)
        if op == "&":
            items.append(("&", Sequence(())))
        if len(items) == 1:
            return items[0][1]
        return Sequence(tuple(items))

    def _list(self, node: TreeNode, op: str, depth: int) -> Iterator[tuple[str, Node]]:
        """A left-nested chain of && and ||, unrolled without recursion."""
        chain: list[TreeNode] = []
        position = node.start_byte
        stack = [node]
        while stack:
            current = stack.pop()
            if current.type == "list":
                stack.extend(reversed(current.children))
            else:
                chain.append(current)
        for child in chain:
            self._gap(position, child.start_byte)
            position = child.end_byte
            if child.type in _SEPARATORS:
                op = child.type
            elif child.type == "comment":
                self._comment(child)
            else:
                yield op, self.statement(child, depth)
        self._gap(position, node.end_byte)

    def statement(self, node: TreeNode, depth: int) -> Node:
        """One statement."""
        if depth > MAX_DEPTH:
            raise _UnreadError("it is nested too deeply")
        reader = _READERS.get(node.type)
        if reader is None:
            raise _UnreadError(f"it uses a form that is not judged ({node.type})")
        return reader(self, node, depth + 1)

    def _command(self, node: TreeNode, depth: int) -> Node:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        rest: list[tuple[str, Node]] = []
        position = node.start_byte
        for child in node.children:
            self._gap(position, child.start_byte)
            position = child.end_byte
            if child.type == "command_name":
                words.append(self.word(child, depth))
            elif child.type == "variable_assignment":
                assignments.append(self._assignment(child, depth))
            elif child.type.endswith("redirect"):
                redirects.append(self._redirect(child, words, redirects, rest, depth))
            elif child.type in _WORDS:
                words.append(self.word(child, depth))
            else:
                raise _UnreadError(f"a command contains something unusual ({child.type})")
        self._gap(position, node.end_byte)
        return _with_rest(Simple(tuple(assignments), tuple(words), tuple(redirects)), rest)

    def _declaration(self, node: TreeNode, depth: int) -> Node:
        """export, declare, local…, unset: the assignments stand among the words."""
        words: list[Word] = []
        assignments: list[Assignment] = []
        position = node.start_byte
        for child in node.children:
            self._gap(position, child.start_byte)
            position = child.end_byte
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child, depth))
            elif child.type == "variable_name" or not child.is_named:
                words.append(self._plain(child))
            elif child.type in _WORDS:
                words.append(self.word(child, depth))
            else:
                raise _UnreadError(f"a declaration contains something unusual ({child.type})")
        return Simple(tuple(assignments), tuple(words))

    def _assignments(self, node: TreeNode, depth: int) -> Node:
        children = [node] if node.type == "variable_assignment" else node.children
        position = node.start_byte
        for child in children:
            self._gap(position, child.start_byte)
            position = child.end_byte
        return Simple(tuple(self._assignment(child, depth) for child in children), ())

    def _assignment(self, node: TreeNode, depth: int) -> Assignment:
        name, *rest = node.children
        value = rest[-1] if rest and rest[-1].type not in {"=", "+="} else None
        if name.type not in {"variable_name", "subscript"} or len(rest) > 2:
            raise _UnreadError("an assignment of an unusual form")
        label = self._slice(name)
        if name.type == "subscript" and not re.fullmatch(r"\w+\[\w*\]", label):
            raise _UnreadError("an array subscript that may run commands")
        label = label.partition("[")[0]
        if value is None:
            return Assignment(label, ())
        if value.type == "array":
            inner = [c for c in value.children if c.is_named and c.type != "comment"]
            return Assignment(label, tuple(self.word(c, depth) for c in inner), array=True)
        return Assignment(label, (self.word(value, depth),))

    def _redirected(self, node: TreeNode, depth: int) -> Node:
        body: Node | None = None
        redirects: list[Redirect] = []
        extra: list[Word] = []
        rest: list[tuple[str, Node]] = []
        position = node.start_byte
        for child in node.children:
            self._gap(position, child.start_byte)
            position = child.end_byte
            if child.type.endswith("redirect"):
                redirects.append(self._redirect(child, extra, redirects, rest, depth))
            elif body is None:
                body = self.statement(child, depth)
            else:
                raise _UnreadError("a redirection of an unusual form")
        return _with_rest(_redirect_last(body, tuple(redirects), tuple(extra)), rest)

    def _redirect(
        self,
        node: TreeNode,
        words: list[Word],
        redirects: list[Redirect],
        rest: list[tuple[str, Node]],
        depth: int,
    ) -> Redirect:
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
            raise _UnreadError("a redirection without a target")
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
                redirects.append(self._redirect(child, words, redirects, rest, depth))
            elif child.type in {"|", "|&", "&&", "||", ";", "&"}:
                join = child.type
            elif child.type == "pipeline":
                rest.append((join or "|", self.statement(child, depth)))
            elif child.type in _WORDS:
                words.append(self.word(child, depth))
            elif child.type in _READERS:
                rest.append((join or ";", self.statement(child, depth)))
            else:
                raise _UnreadError("a heredoc of an unusual form")
        if start is None or end is None:
            raise _UnreadError("a heredoc without its end")
        return Redirect(op, None, body=self._heredoc_body(op, start, body, end, depth))

    def _heredoc_body(
        self, op: str, start: TreeNode, body: TreeNode | None, end: TreeNode, depth: int
    ) -> Word:
        raw = self._slice(start)
        delimiter = WordLexer(raw, 0, len(raw), NO_SPANS).word()
        if not all(isinstance(part, Literal) for part in delimiter):
            raise _UnreadError("a heredoc delimiter of an unusual form")
        word = "".join(part.text for part in delimiter if isinstance(part, Literal))
        line = self._text.find("\n", start.end_byte)
        first = body.start_byte if body is not None else end.start_byte
        # The body must start on the next line, and end at the first line that is the delimiter.
        if line < 0 or self._text[line + 1 : first].strip("\t"):
            raise _UnreadError("a heredoc that does not start on the next line")
        lines = self._text[line + 1 :].split("\n")
        if op == "<<-":
            lines = [text.lstrip("\t") for text in lines]
        before = self._text.count("\n", line + 1, end.end_byte)
        if word not in lines or lines.index(word) != before:
            raise _UnreadError("a heredoc whose end is not where it seems to be")
        if any(not isinstance(p, Literal) or p.quoted for p in delimiter) or body is None:
            return Word("", (Literal(self._text[line + 1 : end.start_byte], quoted=True),))
        stop = end.start_byte
        parts = WordLexer(self._text, line + 1, stop, self._spans(body, depth)).quoted()
        return Word(self._text[line + 1 : stop], parts)

    def _pipeline(self, node: TreeNode, depth: int) -> Node:
        parts: list[Node] = []
        position = node.start_byte
        for child in node.children:
            self._gap(position, child.start_byte)
            position = child.end_byte
            if child.type == "comment":
                self._comment(child)
            elif child.is_named:
                parts.append(self.statement(child, depth))
        return Pipeline(tuple(parts))

    def _negated(self, node: TreeNode, depth: int) -> Node:
        return self.statement(node.children[-1], depth)

    def _braces(self, node: TreeNode, depth: int) -> Node:
        first, last = node.children[0], node.children[-1]
        if first.type == "((":
            inner = self._text[first.end_byte : last.start_byte]
            return Test((Word(inner, (arithmetic(inner, quoted=True),)),), extended=False)
        body = self._sequence(node.children[1:-1], first.end_byte, last.start_byte, depth)
        return Group(body, subshell=first.type == "(")

    def _if(self, node: TreeNode, depth: int) -> Node:
        """if/elif/else: conditions and bodies split at the keywords."""
        sections: list[list[TreeNode]] = [[]]
        starts = [node.children[0].end_byte]
        ends: list[int] = []
        nested: list[Node] = []
        for child in node.children[1:]:
            if child.type in {"then", "fi"}:
                ends.append(child.start_byte)
                sections.append([])
                starts.append(child.end_byte)
            elif child.type in {"elif_clause", "else_clause"}:
                ends.append(child.start_byte)
                sections.append([])
                starts.append(child.end_byte)
                nested.append(
                    self._if(child, depth)
                    if child.type == "elif_clause"
                    else self.statements(child, child.children[0].end_byte, child.end_byte, depth)
                )
            else:
                sections[-1].append(child)
        ends.append(node.end_byte)
        built = [
            self._sequence(section, start, end, depth)
            for section, start, end in zip(sections, starts, ends, strict=True)
            if section
        ]
        return Branch(built[0], (*built[1:], *nested))

    def _case(self, node: TreeNode, depth: int) -> Node:
        words: list[Word] = []
        bodies: list[Node] = []
        for child in node.children:
            if child.type in _WORDS:
                words.append(self.word(child, depth))
            elif child.type == "case_item":
                closing = next(c for c in child.children if c.type == ")")
                words.extend(
                    self.word(c, depth)
                    for c in child.children
                    if c.end_byte <= closing.start_byte and c.is_named
                )
                inside = [c for c in child.children if c.start_byte >= closing.end_byte]
                ends = {";;", ";&", ";;&"}
                body = [c for c in inside if c.type not in ends]
                end = next((c.start_byte for c in inside if c.type in ends), child.end_byte)
                bodies.append(self._sequence(body, closing.end_byte, end, depth))
            elif child.type == "comment":
                self._comment(child)
            elif child.is_named:
                raise _UnreadError("a case of an unusual form")
        return Branch(Sequence(()), tuple(bodies), tuple(words))

    def _for(self, node: TreeNode, depth: int) -> Node:
        variable: str | None = None
        words: list[Word] = []
        body: Node | None = None
        given = False
        for child in node.children:
            if child.type == "variable_name":
                variable = self._slice(child)
            elif child.type == "in":
                given = True
            elif child.type in _WORDS:
                words.append(self.word(child, depth))
            elif child.type in {"do_group", "compound_statement"}:
                body = self._do(child, depth)
            elif child.is_named:
                raise _UnreadError("a loop of an unusual form")
        if body is None:
            raise _UnreadError("a loop without a body")
        return Loop(body, variable=variable, words=tuple(words) if given else None)

    def _c_for(self, node: TreeNode, depth: int) -> Node:
        opening = next(c for c in node.children if c.type == "((")
        closing = next(c for c in node.children if c.type == "))")
        inner = self._text[opening.end_byte : closing.start_byte].replace(";", ",")
        head = Test((Word(inner, (arithmetic(inner, quoted=True),)),), extended=False)
        return Loop(self._do(node.children[-1], depth), head=head)

    def _while(self, node: TreeNode, depth: int) -> Node:
        group = node.children[-1]
        head = self._sequence(
            node.children[1:-1], node.children[0].end_byte, group.start_byte, depth
        )
        return Loop(self._do(group, depth), head=head)

    def _do(self, node: TreeNode, depth: int) -> Node:
        first, last = node.children[0], node.children[-1]
        return self._sequence(node.children[1:-1], first.end_byte, last.start_byte, depth)

    def _function(self, node: TreeNode, depth: int) -> Node:
        name = next(c for c in node.children if c.type == "word")
        redirects = [c for c in node.children if c.type.endswith("redirect")]
        body = next(c for c in reversed(node.children) if c not in redirects)
        if redirects:
            raise _UnreadError("a function with redirections")
        return Function(self._slice(name), self.statement(body, depth))

    def _test(self, node: TreeNode, depth: int) -> Node:
        opening = node.children[0].type
        if opening == "((":
            return self._braces(node, depth)
        words = list(self._test_words(node, depth))
        if opening == "[[":
            return Test(tuple(words), extended=True)
        brackets = (self._plain(node.children[0]), *words, self._plain(node.children[-1]))
        return Simple((), brackets)

    def _test_words(self, node: TreeNode, depth: int) -> Iterator[Word]:
        """The operands and operators of a test, left to right, without recursion."""
        stack = list(reversed(node.children[1:-1]))
        position = node.children[0].end_byte
        while stack:
            child = stack.pop()
            inner = {"binary_expression", "unary_expression", "parenthesized_expression"}
            if child.type in inner or child.type == "negated_expression":
                stack.extend(reversed(child.children))
                continue
            self._gap(position, child.start_byte)
            position = child.end_byte
            if child.type in _WORDS:
                yield self.word(child, depth)
            elif not child.is_named or child.type == "test_operator":
                yield self._plain(child)
            else:
                raise _UnreadError(f"a test contains something unusual ({child.type})")
        self._gap(position, node.children[-1].start_byte)

    # --- words --------------------------------------------------------------------------------

    def word(self, node: TreeNode, depth: int) -> Word:
        """The word at `node`, read by our own lexer."""
        start, end = node.start_byte, node.end_byte
        raw = self._text[start:end]
        if PLAIN.match(raw):
            return Word(raw, (Literal(raw, quoted=False),))
        spans = self._spans(node, depth) if "$" in raw or "`" in raw or "(" in raw else NO_SPANS
        if node.type in {"regex", "extglob_pattern"} and spans is NO_SPANS:
            return Word(raw, (Literal(_utf8(raw), quoted=True),))
        parts = WordLexer(self._text, start, end, spans).word()
        return Word(raw, tuple(_decoded(part) for part in parts))

    def _plain(self, node: TreeNode) -> Word:
        raw = self._slice(node)
        return Word(raw, (Literal(raw, quoted=True),))

    def _spans(self, node: TreeNode, depth: int) -> Spans:
        """Where the tree saw substitutions and expansions inside `node`."""
        substitutions: dict[int, tuple[int, Substitution]] = {}
        expansions: dict[int, int] = {}
        stack = [node]
        while stack:
            current = stack.pop()
            if current.type in _SPANNED:
                found = Substitution(self._inside(current, depth), _kind(current), quoted=False)
                substitutions[current.start_byte] = (current.end_byte, found)
                continue
            if current.type in _EXPANSIONS:
                expansions[current.start_byte] = current.end_byte
            stack.extend(current.children)
        return Spans(substitutions, expansions)

    def _inside(self, node: TreeNode, depth: int) -> Node:
        """The statements of a substitution."""
        if depth >= MAX_DEPTH:
            raise _UnreadError("it is nested too deeply")
        first, last = node.children[0], node.children[-1]
        if first.type == "`" or self._text[node.start_byte] == "`":
            inner = self._text[node.start_byte + 1 : node.end_byte - 1]
            unescaped = re.sub(r"\\([$`\\])", r"\1", inner)
            if unescaped != inner:
                return Opaque(inner, "it has escapes inside backticks")
        children = node.children[1:-1]
        if first.type == "$(<" or (children and children[0].type == "file_redirect"):
            start = first
            if len(children) != 1:
                raise _UnreadError("a substitution of an unusual form")
            redirect = self._redirect(children[0], [], [], [], depth)
            return Simple((), (self._cat(),), (redirect,))
        start = first
        return self._sequence(children, start.end_byte, last.start_byte, depth + 1)

    @staticmethod
    def _cat() -> Word:
        """`$(<file)` reads a file as cat would."""
        return Word("cat", (Literal("cat", quoted=False),))

    # --- accounting ---------------------------------------------------------------------------

    def _slice(self, node: TreeNode) -> str:
        return self._text[node.start_byte : node.end_byte]

    def _gap(self, start: int, end: int) -> None:
        if start < end and not _BLANK.match(self._text[start:end]):
            raise _UnreadError("it contains text that could not be read")

    def _comment(self, node: TreeNode) -> None:
        raw = self._slice(node)
        before = self._text[node.start_byte - 1 : node.start_byte]
        if (
            not raw.startswith("#")
            or "\n" in raw
            or before not in {"", " ", "\t", "\n", ";", "&", "|", "(", ")"}
        ):
            raise _UnreadError("a comment of an unusual form")


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


def _with_rest(first: Node, rest: list[tuple[str, Node]]) -> Node:
    """`first` joined with what stood behind a heredoc's delimiter."""
    for op, node in rest:
        if op in {"|", "|&"}:
            tail = node.parts if isinstance(node, Pipeline) else (node,)
            head = first.parts if isinstance(first, Pipeline) else (first,)
            first = Pipeline((*head, *tail))
        else:
            first = Sequence((("", first), (op, node)))
    return first


def _redirect_last(
    body: Node | None, redirects: tuple[Redirect, ...], words: tuple[Word, ...]
) -> Node:
    """The tree hangs a redirection over a whole list or pipeline; it belongs to the last part."""
    if body is None:
        return Simple((), words, redirects)
    if isinstance(body, Simple):
        return Simple(body.assignments, (*body.words, *words), (*body.redirects, *redirects))
    if words:
        raise _UnreadError("a redirection of an unusual form")
    if isinstance(body, Pipeline):
        last = _redirect_last(body.parts[-1], redirects, ())
        return Pipeline((*body.parts[:-1], last))
    if isinstance(body, Sequence) and body.items:
        op, node = body.items[-1]
        return Sequence((*body.items[:-1], (op, _redirect_last(node, redirects, ()))))
    return Group(body, redirects=redirects)


_READERS: dict[str, Callable[[_Builder, TreeNode, int], Node]] = {
    "command": _Builder._command,
    "declaration_command": _Builder._declaration,
    "unset_command": _Builder._declaration,
    "variable_assignment": _Builder._assignments,
    "variable_assignments": _Builder._assignments,
    "redirected_statement": _Builder._redirected,
    "pipeline": _Builder._pipeline,
    "negated_command": _Builder._negated,
    "compound_statement": _Builder._braces,
    "subshell": _Builder._braces,
    "if_statement": _Builder._if,
    "case_statement": _Builder._case,
    "for_statement": _Builder._for,
    "c_style_for_statement": _Builder._c_for,
    "while_statement": _Builder._while,
    "function_definition": _Builder._function,
    "test_command": _Builder._test,
    "list": lambda self, node, depth: Sequence(tuple(self._list(node, "", depth))),
}
