"""Parse shell text to a small tree of statements, and report what could not be read.

tree-sitter-bash does the parsing. It is error-tolerant and has blind spots, so its result is
checked: only listed node kinds are accepted, every byte between nodes must be blank,
every word is read a second time by `WordLexer`, and heredoc ends are checked here. What fails any
of these becomes `Opaque`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kogniterm.approval.parser.lexer import PLAIN, WordLexer, arithmetic
from kogniterm.approval.parser.tree import (
    NO_SPANS,
    Assignment,
    Branch,
    Function,
    Group,
    Literal,
    Loop,
    Node,
    Opaque,
    Part,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    Spans,
    Substitution,
    Test,
    Word,
)
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode
    from tree_sitter import Parser

MAX_DEPTH = 40
MAX_WORDS = 400
MAX_CHILDREN = 800
"""A command beyond these limits is asked about without being analysed."""
_BLANK = re.compile(r"(?:[ \t\n;]|\\\n)*\Z")
_WORD_KINDS = frozenset({
    "word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation",
    "simple_expansion", "expansion", "number", "command_substitution", "process_substitution",
    "arithmetic_expansion", "brace_expression", "regex", "extglob_pattern",
})  # fmt: skip
_INTO_VARIABLE = re.compile(r"(?:^|[\s;&|(])\{[A-Za-z_]\w*(?:\[[^\]]*\])?\}\Z")
_SUBSCRIPT = re.compile(r'\w+\["?(?:\$?\{?([A-Za-z_]\w*)\}?|\d*)"?\]', re.ASCII)
_SPANNED = frozenset({"command_substitution", "process_substitution"})
_EXPANSIONS = frozenset({"expansion", "arithmetic_expansion"})
_TEST_EXPRESSIONS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression"})


class UnreadError(Exception):
    """A part of a command that the builder does not account for; `why` names it."""

    def __init__(self, template: str, **values: object) -> None:
        self.why = Phrase(template, values)
        super().__init__(str(self.why))


class _WordReader:
    """A simple command as far as it is read; `rest` stands behind a heredoc's delimiter."""

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        self.words: list[Word] = []
        self.redirects: list[Redirect] = []
        self.rest: list[tuple[str, Node]] = []

    @property
    def command(self) -> Simple:
        return Simple(tuple(self.assignments), tuple(self.words), tuple(self.redirects))


def _group(build: _Builder, node: TreeNode, depth: int) -> Node:
    """Build `{ … }`, `( … )` and `(( … ))`."""
    first, last = node.children[0], node.children[-1]
    if first.type == "((":
        inner = build.calculation(node, first.end_byte, last.start_byte, depth)
        return Test((inner,), extended=False)
    if build.text.startswith("((", node.start_byte):
        raise UnreadError("two opening brackets that may be arithmetic")
    body = build.sequence(node.children[1:-1], first.end_byte, last.start_byte, depth)
    return Group(body, subshell=first.type == "(")


def _if_(build: _Builder, node: TreeNode, depth: int) -> Node:
    """Build if/elif/else: conditions and bodies split at the keywords."""
    sections: list[list[TreeNode]] = [[]]
    starts = [node.children[0].end_byte]
    ends: list[int] = []
    nested: list[Node] = []
    for child in node.children[1:]:
        clause = child.type in {"elif_clause", "else_clause"}
        if not clause and child.type not in {"then", "fi"}:
            sections[-1].append(child)
            continue
        ends.append(child.start_byte)
        sections.append([])
        starts.append(child.end_byte)
        if clause:
            nested.append(
                _if_(build, child, depth)
                if child.type == "elif_clause"
                else build.statements(child, child.children[0].end_byte, child.end_byte, depth)
            )
    ends.append(node.end_byte)
    built = [
        build.sequence(section, start, end, depth)
        for section, start, end in zip(sections, starts, ends, strict=True)
        if section
    ]
    return Branch(built[0], (*built[1:], *nested))


def _case(build: _Builder, node: TreeNode, depth: int) -> Node:
    """Build case: its subject, its patterns, and the bodies that may run."""
    words: list[Word] = []
    bodies: list[Node] = []
    for child in node.children:
        if child.type in _WORD_KINDS:
            words.append(build.word(child, depth))
        elif child.type == "case_item":
            closing = next(c for c in child.children if c.type == ")")
            words.extend(
                build.word(c, depth)
                for c in child.children
                if c.end_byte <= closing.start_byte and c.is_named
            )
            inside = [c for c in child.children if c.start_byte >= closing.end_byte]
            ends = {";;", ";&", ";;&"}
            body = [c for c in inside if c.type not in ends]
            end = next((c.start_byte for c in inside if c.type in ends), child.end_byte)
            bodies.append(build.sequence(body, closing.end_byte, end, depth))
        elif child.type == "comment":
            build.comment(child)
        elif child.is_named:
            raise UnreadError("an unsupported form of case")
    return Branch(Sequence(()), tuple(bodies), tuple(words))


def _for_(build: _Builder, node: TreeNode, depth: int) -> Node:
    """Build for and select: the words iterated over, or the positional parameters."""
    variable: str | None = None
    words: list[Word] = []
    body: Node | None = None
    given = False
    for child in node.children:
        if child.type == "variable_name":
            variable = build.slice(child)
        elif child.type == "in":
            given = True
        elif child.type in _WORD_KINDS:
            words.append(build.word(child, depth))
        elif child.type in {"do_group", "compound_statement"}:
            body = _body(build, child, depth)
        elif child.is_named:
            raise UnreadError("an unsupported form of loop")
    if body is None:
        raise UnreadError("a loop without a body")
    return Loop(body, variable=variable, words=tuple(words) if given else None)


def _c_for(build: _Builder, node: TreeNode, depth: int) -> Node:
    """Build `for ((…; …; …))`: a calculation before each iteration."""
    opening = next(c for c in node.children if c.type == "((")
    closing = next(c for c in node.children if c.type == "))")
    inner = build.calculation(node, opening.end_byte, closing.start_byte, depth)
    head = Test((inner,), extended=False)
    return Loop(_body(build, node.children[-1], depth), head=head)


def _while_(build: _Builder, node: TreeNode, depth: int) -> Node:
    group = node.children[-1]
    head = build.sequence(node.children[1:-1], node.children[0].end_byte, group.start_byte, depth)
    return Loop(_body(build, group, depth), head=head)


def _body(build: _Builder, node: TreeNode, depth: int) -> Node:
    first, last = node.children[0], node.children[-1]
    return build.sequence(node.children[1:-1], first.end_byte, last.start_byte, depth)


def _function(build: _Builder, node: TreeNode, depth: int) -> Node:
    """Return a function, which is judged where it is defined and where it is called."""
    name = next(c for c in node.children if c.type == "word")
    redirects = [c for c in node.children if c.type.endswith("redirect")]
    body = next(c for c in reversed(node.children) if c not in redirects)
    if redirects:
        raise UnreadError("a function with redirections")
    return Function(build.slice(name), build.statement(body, depth))


def _test(build: _Builder, node: TreeNode, depth: int) -> Node:
    """Build `[[ … ]]` and `[ … ]`."""
    opening = node.children[0].type
    if opening == "((":
        return _group(build, node, depth)
    words = list(_test_words(build, node, depth))
    if opening == "[[":
        return Test(tuple(words), extended=True)
    brackets = (build.plain(node.children[0]), *words, build.plain(node.children[-1]))
    return Simple((), brackets)


def _test_words(build: _Builder, node: TreeNode, depth: int) -> Iterator[Word]:
    """Yield the operands and operators of a test, left to right, without recursion."""
    stack = list(reversed(node.children[1:-1]))
    position = node.children[0].end_byte
    while stack:
        child = stack.pop()
        if child.type in _TEST_EXPRESSIONS:
            stack.extend(reversed(child.children))
            continue
        build.gap(position, child.start_byte)
        position = child.end_byte
        if child.type in _WORD_KINDS:
            yield build.word(child, depth)
        elif not child.is_named or child.type == "test_operator":
            yield build.plain(child)
        else:
            raise UnreadError("an unsupported test ({kind})", kind=child.type)
    build.gap(position, node.children[-1].start_byte)


_SEPARATORS = frozenset({";", "&", "&&", "||", "\n"})


@functools.cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(command: str) -> Node:
    """Return the statements of `command`; never raises."""
    source = command.encode("utf-8", "surrogatepass")
    root = _parser().parse(source).root_node
    text = source.decode("latin-1")
    if root.has_error:
        return Opaque(command, Phrase("incomplete or invalid shell syntax"))
    try:
        return _Builder(text).statements(root, 0, len(text), 0)
    except UnreadError as problem:
        return Opaque(command, problem.why)


class _Builder:
    """Builds statements, and the words and redirections in them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = 0

    def statements(self, node: TreeNode, start: int, end: int, depth: int) -> Node:
        """Return the statements between `start` and `end`: program, do_group, braces, lists."""
        self.check_children(node)
        children = [c for c in node.children if c.end_byte > start and c.start_byte < end]
        return self.sequence(children, start, end, depth)

    def sequence(self, children: list[TreeNode], start: int, end: int, depth: int) -> Node:
        items: list[tuple[str, Node]] = []
        op = ""
        for child in self.account_for(children, start, end):
            if child.type in _SEPARATORS:
                op = child.type
            elif child.type == "comment":
                self.comment(child)
            elif child.type == "list":
                items.extend(self._list(child, op or ";", depth))
                op = ""
            else:
                items.append((op or (";" if items else ""), self.statement(child, depth)))
                op = ""
        if op == "&":
            items.append(("&", Sequence(())))
        if len(items) == 1:
            return items[0][1]
        return Sequence(tuple(items))

    def _list(self, node: TreeNode, op: str, depth: int) -> Iterator[tuple[str, Node]]:
        """Yield a left-nested chain of && and ||, without recursion."""
        chain: list[TreeNode] = []
        stack = [node]
        while stack:
            current = stack.pop()
            if current.type == "list":
                stack.extend(reversed(current.children))
            else:
                chain.append(current)
        for child in self.account_for(chain, node.start_byte, node.end_byte):
            if child.type in _SEPARATORS:
                op = child.type
            elif child.type == "comment":
                self.comment(child)
            else:
                yield op, self.statement(child, depth)

    def statement(self, node: TreeNode, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise UnreadError("too many levels of nesting")
        reader = _READERS.get(node.type)
        if reader is None:
            raise UnreadError("an unsupported construct ({kind})", kind=node.type)
        return reader(self, node, depth + 1)

    def _command(self, node: TreeNode, depth: int) -> Node:
        parts = _WordReader()
        self.check_children(node)
        end = node.start_byte
        for child in self.account_for(node.children, end, node.end_byte):
            joined, end = end == child.start_byte, child.end_byte
            if child.type == "variable_assignment":
                parts.assignments.append(self.assignment(child, depth))
            elif child.type.endswith("redirect"):
                self.redirect(child, parts, depth)
            elif child.type == "command_name" or child.type in _WORD_KINDS:
                if joined and parts.words and child.type != "command_name":
                    raise UnreadError("words without a space between them")
                parts.words.append(self.word(child, depth))
            else:
                raise UnreadError("an unsupported part of a command ({kind})", kind=child.type)
        return _with_rest(parts.command, parts.rest)

    def _declaration(self, node: TreeNode, depth: int) -> Node:
        """Build export, declare, local…, unset, whose assignments are among the words."""
        parts = _WordReader()
        for child in self.account_for(node.children, node.start_byte):
            if child.type == "variable_assignment":
                parts.assignments.append(self.assignment(child, depth))
            elif child.type == "variable_name" or not child.is_named:
                parts.words.append(self.plain(child))
            elif child.type in _WORD_KINDS:
                parts.words.append(self.word(child, depth))
            else:
                raise UnreadError("an unsupported declaration ({kind})", kind=child.type)
        return parts.command

    def _assignments(self, node: TreeNode, depth: int) -> Node:
        children = [node] if node.type == "variable_assignment" else node.children
        given = self.account_for(children, node.start_byte)
        return Simple(tuple(self.assignment(child, depth) for child in given), ())

    def _read_redirects(self, node: TreeNode, depth: int) -> Node:
        body: Node | None = None
        parts = _WordReader()
        for child in self.account_for(node.children, node.start_byte):
            if child.type.endswith("redirect"):
                self.redirect(child, parts, depth)
            elif body is None:
                body = self.statement(child, depth)
            else:
                raise UnreadError("an unsupported form of redirection")
        return _with_rest(_redirect_last(body, parts.command), parts.rest)

    def _pipeline(self, node: TreeNode, depth: int) -> Node:
        self.check_children(node)
        parts: list[Node] = []
        for child in self.account_for(node.children, node.start_byte):
            if child.type == "comment":
                self.comment(child)
            elif child.is_named:
                parts.append(self.statement(child, depth))
        return Pipeline(tuple(parts))

    # --- words and redirections ---

    def assignment(self, node: TreeNode, depth: int) -> Assignment:
        name, *rest = node.children
        value = rest[-1] if rest and rest[-1].type not in {"=", "+="} else None
        if name.type not in {"variable_name", "subscript"} or len(rest) > 2:
            raise UnreadError("an unsupported form of assignment")
        label = self.slice(name)
        computes: tuple[str, ...] = ()
        if name.type == "subscript":
            subscript = _SUBSCRIPT.fullmatch(label)
            if subscript is None:
                raise UnreadError("an array subscript that may run commands")
            computes = (subscript[1],) if subscript[1] else ()
        label = label.partition("[")[0]
        element = name.type == "subscript"
        adds = element or any(child.type == "+=" for child in rest)
        if value is None:
            return Assignment(label, (), element, computes, adds)
        if value.type == "array":
            inner = [c for c in value.children if c.is_named and c.type != "comment"]
            for child in inner:
                computes += _subscript_names(self.slice(child))
            words = tuple(self.word(child, depth) for child in inner)
            return Assignment(label, words, array=True, computes=computes, adds=adds)
        return Assignment(label, (self.word(value, depth),), element, computes, adds)

    def redirect(self, node: TreeNode, parts: _WordReader, depth: int) -> None:
        """Add the redirection to `parts`, and the words and statements that it holds."""
        if _INTO_VARIABLE.search(self.text[max(0, node.start_byte - 200) : node.start_byte]):
            raise UnreadError("a redirection that sets a variable")
        if node.type == "heredoc_redirect":
            parts.redirects.append(self._heredoc(node, parts, depth))
            return
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
            body = targets[0] if targets else None
            parts.redirects.append(Redirect("<<<", None, body=body))
            return
        if not targets and op not in {"<&-", ">&-"}:
            raise UnreadError("a redirection without a target")
        # The grammar lets one redirection swallow the words that follow it.
        parts.words.extend(targets[1:])
        parts.redirects.append(Redirect(op, targets[0] if targets else None))

    def _heredoc(self, node: TreeNode, parts: _WordReader, depth: int) -> Redirect:
        """Read a heredoc, with what stands behind it on its first line."""
        pieces = {child.type: child for child in node.children}
        op, join = "<<-" if "<<-" in pieces else "<<", ""
        for child in node.children:
            if child.type in {"<<", "<<-", "heredoc_start", "heredoc_body", "heredoc_end"}:
                continue
            if child.type.endswith("redirect") and child.type != "heredoc_redirect":
                self.redirect(child, parts, depth)
            elif child.type in {"|", "|&", "&&", "||", ";", "&"}:
                join = child.type
            elif child.type in _WORD_KINDS:
                parts.words.append(self.word(child, depth))
            elif child.type in _READERS:
                default = "|" if child.type == "pipeline" else ";"
                parts.rest.append((join or default, self.statement(child, depth)))
            else:
                raise UnreadError("an unsupported form of heredoc")
        start, end = pieces.get("heredoc_start"), pieces.get("heredoc_end")
        if start is None or end is None:
            raise UnreadError("an unterminated heredoc")
        body = self._heredoc_body(op, start, pieces.get("heredoc_body"), end, depth)
        return Redirect(op, None, body=body)

    def _heredoc_body(
        self, op: str, start: TreeNode, body: TreeNode | None, end: TreeNode, depth: int
    ) -> Word:
        raw = self.slice(start)
        lexed = WordLexer(raw, 0, len(raw), NO_SPANS).word()
        delimiter = [part for part in lexed if isinstance(part, Literal)]
        if len(delimiter) < len(lexed):
            raise UnreadError("an unsupported heredoc delimiter")
        word = "".join(part.text for part in delimiter)
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
            raise UnreadError("a heredoc with an ambiguous end")
        content = self.text[line + 1 : end.start_byte]
        if any(part.quoted for part in delimiter) or body is None:
            return Word("", (Literal(content, quoted=True),))
        spans = self._spans(body, depth)
        return Word(content, WordLexer(self.text, line + 1, end.start_byte, spans).read_quoted())

    def word(self, node: TreeNode, depth: int) -> Word:
        """Return the word at `node`, read by our own lexer."""
        self._words += 1
        if self._words > MAX_WORDS:
            raise UnreadError("too many words")
        start, end = node.start_byte, node.end_byte
        raw = self.text[start:end]
        if PLAIN.match(raw):
            return Word(raw, (Literal(raw, quoted=False),))
        spans = self._spans(node, depth) if "$" in raw or "`" in raw or "(" in raw else NO_SPANS
        if node.type in {"regex", "extglob_pattern"} and spans is NO_SPANS:
            return Word(raw, (Literal(_utf8(raw), quoted=True),))
        lexer = WordLexer(self.text, start, end, spans, pattern=node.type == "regex")
        return Word(raw, tuple(map(_decode_part, lexer.word())))

    def calculation(self, node: TreeNode, start: int, end: int, depth: int) -> Word:
        """Return the arithmetic of `((…))` or a C-style loop, between `start` and `end`."""
        spans = self._spans(node, depth)
        return Word(self.text[start:end], (arithmetic(self.text, start, end, spans),))

    def plain(self, node: TreeNode) -> Word:
        """Return the text of `node` as a literal word: an operator, a bracket, a name."""
        raw = self.slice(node)
        return Word(raw, (Literal(raw, quoted=True),))

    def _spans(self, node: TreeNode, depth: int) -> Spans:
        """Return the places of the substitutions and expansions inside `node`."""
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
        """Return the statements of a substitution."""
        if depth >= MAX_DEPTH:
            raise UnreadError("too many levels of nesting")
        start, last = node.children[0], node.children[-1]
        if start.type == "`" or self.text[node.start_byte] == "`":
            inner = self.text[node.start_byte + 1 : node.end_byte - 1]
            if re.search(r"\\[$`\\]", inner):
                return Opaque(inner, Phrase("escapes inside backticks"))
        children = node.children[1:-1]
        if start.type == "$(<" or (children and children[0].type == "file_redirect"):
            if len(children) != 1:
                raise UnreadError("an unsupported form of substitution")
            # It reads a file as cat would.
            cat = Word("cat", (Literal("cat", quoted=False),))
            parts = _WordReader()
            self.redirect(children[0], parts, depth)
            return Simple((), (cat,), tuple(parts.redirects))
        return self.sequence(children, start.end_byte, last.start_byte, depth + 1)

    def slice(self, node: TreeNode) -> str:
        return self.text[node.start_byte : node.end_byte]

    def gap(self, start: int, end: int) -> None:
        if start < end and not _BLANK.match(self.text[start:end]):
            raise UnreadError("unrecognised text")
        # The tree takes a continued line for a blank; bash joins the text around it.
        between = self.text[start:end]
        if "\\\n" in between and not between.replace("\\\n", ""):
            raise UnreadError("a word broken across two lines")

    def account_for(
        self, children: Iterable[TreeNode], start: int, end: int | None = None
    ) -> Iterator[TreeNode]:
        """Yield the `children` in order; refuse unread text between them or behind."""
        for child in children:
            self.gap(start, child.start_byte)
            start = child.end_byte
            yield child
        if end is not None:
            self.gap(start, end)

    def comment(self, node: TreeNode) -> None:
        raw = self.slice(node)
        before = self.text[node.start_byte - 1 : node.start_byte]
        if not raw.startswith("#") or "\n" in raw or before.strip(" \t\n;&|()"):
            raise UnreadError("an unsupported form of comment")

    def check_children(self, node: TreeNode) -> None:
        """Refuse a node with more than MAX_CHILDREN children."""
        if node.child_count > MAX_CHILDREN:
            raise UnreadError("too many parts")


def _subscript_names(element: str) -> tuple[str, ...]:
    """Return the variables in the subscript of an element `[…]=value`; `@` for anything else."""
    match = re.match(r"\[([^\]]*)\]\+?=", element)
    if match is None:
        return ("@",) if element.startswith("[") and "$" in element.partition("]")[0] else ()
    if "$(" in match[1] or "`" in match[1]:
        return ("@",)
    names = re.findall(r"[A-Za-z_]\w*|(?<=\$)[^\w{]|(?<=\$)\{?[0-9]", match[1], re.ASCII)
    return tuple(name if name.isidentifier() else "@" for name in names)


def _kind(node: TreeNode) -> str:
    if node.type == "command_substitution":
        return "command"
    return "output" if node.children[0].type == ">(" else "input"


def _utf8(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")


def _decode_part(part: Part) -> Part:
    if isinstance(part, Literal) and not part.text.isascii():
        return Literal(_utf8(part.text), part.quoted)
    return part


def _with_rest(first: Node, rest: list[tuple[str, Node]]) -> Node:
    """Return `first` joined with the text after a heredoc's delimiter."""
    for op, node in rest:
        if op in {"|", "|&"}:
            tail = node.parts if isinstance(node, Pipeline) else (node,)
            head = first.parts if isinstance(first, Pipeline) else (first,)
            first = Pipeline((*head, *tail))
        else:
            first = Sequence((("", first), (op, node)))
    return first


def _redirect_last(body: Node | None, last: Simple) -> Node:
    """Move redirections, which the tree hangs over a whole list, to its last part."""
    if body is None:
        return last
    if isinstance(body, Simple):
        words, redirects = (*body.words, *last.words), (*body.redirects, *last.redirects)
        return Simple(body.assignments, words, redirects)
    if last.words:
        raise UnreadError("an unsupported form of redirection")
    if isinstance(body, Pipeline):
        return Pipeline((*body.parts[:-1], _redirect_last(body.parts[-1], last)))
    if isinstance(body, Sequence) and body.items:
        op, node = body.items[-1]
        return Sequence((*body.items[:-1], (op, _redirect_last(node, last))))
    return Group(body, redirects=last.redirects)


_READERS: dict[str, Callable[[_Builder, TreeNode, int], Node]] = {
    "command": _Builder._command,
    "declaration_command": _Builder._declaration,
    "unset_command": _Builder._declaration,
    "variable_assignment": _Builder._assignments,
    "variable_assignments": _Builder._assignments,
    "redirected_statement": _Builder._read_redirects,
    "pipeline": _Builder._pipeline,
    "negated_command": lambda self, node, depth: Group(
        self.statement(node.children[-1], depth), negated=True
    ),
    "compound_statement": _group,
    "subshell": _group,
    "if_statement": _if_,
    "case_statement": _case,
    "for_statement": _for_,
    "c_style_for_statement": _c_for,
    "while_statement": _while_,
    "function_definition": _function,
    "test_command": _test,
    "list": lambda self, node, depth: Sequence(tuple(self._list(node, "", depth))),
}
