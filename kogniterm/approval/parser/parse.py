"""Shell text to a small tree of statements, or an admission of what could not be read.

tree-sitter-bash does the parsing. It is error-tolerant and has blind spots, so nothing of it is
believed blindly: only listed node kinds are accepted, every byte between nodes must be blank,
every word is read a second time by `words.WordLexer`, and heredoc ends are checked here. What
fails any of these becomes `Opaque`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kogniterm.approval.parser.tree import (
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
    Word,
)
from kogniterm.approval.parser.words import (
    MAX_DEPTH,
    WORD_KINDS,
    UnreadError,
    WordReader,
)

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode
    from tree_sitter import Parser

_TEST_EXPRESSIONS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression"})


def _group(build: _Builder, node: TreeNode, depth: int) -> Node:
    """`{ … }`, `( … )` and `(( … ))`."""
    first, last = node.children[0], node.children[-1]
    if first.type == "((":
        inner = build.words.calculation(node, first.end_byte, last.start_byte, depth)
        return Test((inner,), extended=False)
    body = build.sequence(node.children[1:-1], first.end_byte, last.start_byte, depth)
    return Group(body, subshell=first.type == "(")


def _if_(build: _Builder, node: TreeNode, depth: int) -> Node:
    """if/elif/else: conditions and bodies split at the keywords."""
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
    """case: what it looks at and its patterns, and the bodies that may run."""
    words: list[Word] = []
    bodies: list[Node] = []
    for child in node.children:
        if child.type in WORD_KINDS:
            words.append(build.words.word(child, depth))
        elif child.type == "case_item":
            closing = next(c for c in child.children if c.type == ")")
            words.extend(
                build.words.word(c, depth)
                for c in child.children
                if c.end_byte <= closing.start_byte and c.is_named
            )
            inside = [c for c in child.children if c.start_byte >= closing.end_byte]
            ends = {";;", ";&", ";;&"}
            body = [c for c in inside if c.type not in ends]
            end = next((c.start_byte for c in inside if c.type in ends), child.end_byte)
            bodies.append(build.sequence(body, closing.end_byte, end, depth))
        elif child.type == "comment":
            build.words.comment(child)
        elif child.is_named:
            raise UnreadError("a case of an unusual form")
    return Branch(Sequence(()), tuple(bodies), tuple(words))


def _for_(build: _Builder, node: TreeNode, depth: int) -> Node:
    """for, select: the words it goes through, or the positional parameters."""
    variable: str | None = None
    words: list[Word] = []
    body: Node | None = None
    given = False
    for child in node.children:
        if child.type == "variable_name":
            variable = build.words.slice(child)
        elif child.type == "in":
            given = True
        elif child.type in WORD_KINDS:
            words.append(build.words.word(child, depth))
        elif child.type in {"do_group", "compound_statement"}:
            body = _body(build, child, depth)
        elif child.is_named:
            raise UnreadError("a loop of an unusual form")
    if body is None:
        raise UnreadError("a loop without a body")
    return Loop(body, variable=variable, words=tuple(words) if given else None)


def _c_for(build: _Builder, node: TreeNode, depth: int) -> Node:
    """`for ((…; …; …))`: a calculation before each round."""
    opening = next(c for c in node.children if c.type == "((")
    closing = next(c for c in node.children if c.type == "))")
    inner = build.words.calculation(node, opening.end_byte, closing.start_byte, depth)
    head = Test((inner,), extended=False)
    return Loop(_body(build, node.children[-1], depth), head=head)


def _while_(build: _Builder, node: TreeNode, depth: int) -> Node:
    """while, until."""
    group = node.children[-1]
    head = build.sequence(node.children[1:-1], node.children[0].end_byte, group.start_byte, depth)
    return Loop(_body(build, group, depth), head=head)


def _body(build: _Builder, node: TreeNode, depth: int) -> Node:
    first, last = node.children[0], node.children[-1]
    return build.sequence(node.children[1:-1], first.end_byte, last.start_byte, depth)


def _function(build: _Builder, node: TreeNode, depth: int) -> Node:
    """A function, which is judged where it is defined and where it is called."""
    name = next(c for c in node.children if c.type == "word")
    redirects = [c for c in node.children if c.type.endswith("redirect")]
    body = next(c for c in reversed(node.children) if c not in redirects)
    if redirects:
        raise UnreadError("a function with redirections")
    return Function(build.words.slice(name), build.statement(body, depth))


def _test(build: _Builder, node: TreeNode, depth: int) -> Node:
    """`[[ … ]]` and `[ … ]`."""
    opening = node.children[0].type
    if opening == "((":
        return _group(build, node, depth)
    words = list(_test_words(build, node, depth))
    if opening == "[[":
        return Test(tuple(words), extended=True)
    brackets = (build.words.plain(node.children[0]), *words, build.words.plain(node.children[-1]))
    return Simple((), brackets)


def _test_words(build: _Builder, node: TreeNode, depth: int) -> Iterator[Word]:
    """The operands and operators of a test, left to right, without recursion."""
    stack = list(reversed(node.children[1:-1]))
    position = node.children[0].end_byte
    while stack:
        child = stack.pop()
        if child.type in _TEST_EXPRESSIONS:
            stack.extend(reversed(child.children))
            continue
        build.words.gap(position, child.start_byte)
        position = child.end_byte
        if child.type in WORD_KINDS:
            yield build.words.word(child, depth)
        elif not child.is_named or child.type == "test_operator":
            yield build.words.plain(child)
        else:
            raise UnreadError(f"a test contains something unusual ({child.type})")
    build.words.gap(position, node.children[-1].start_byte)


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
        return _Builder(text).statements(root, 0, len(text), 0)
    except UnreadError as problem:
        return Opaque(command, problem.why)


class _Builder:
    """Builds statements."""

    def __init__(self, text: str) -> None:
        self.words = WordReader(text, self)

    def statements(self, node: TreeNode, start: int, end: int, depth: int) -> Node:
        """A run of statements between `start` and `end`: program, do_group, braces, lists."""
        self.words.bounded(node)
        children = [c for c in node.children if c.end_byte > start and c.start_byte < end]
        return self.sequence(children, start, end, depth)

    def sequence(self, children: list[TreeNode], start: int, end: int, depth: int) -> Node:
        items: list[tuple[str, Node]] = []
        op = ""
        for child in self.words.accounted(children, start, end):
            if child.type in _SEPARATORS:
                op = child.type
            elif child.type == "comment":
                self.words.comment(child)
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
        """A left-nested chain of && and ||, unrolled without recursion."""
        chain: list[TreeNode] = []
        stack = [node]
        while stack:
            current = stack.pop()
            if current.type == "list":
                stack.extend(reversed(current.children))
            else:
                chain.append(current)
        for child in self.words.accounted(chain, node.start_byte, node.end_byte):
            if child.type in _SEPARATORS:
                op = child.type
            elif child.type == "comment":
                self.words.comment(child)
            else:
                yield op, self.statement(child, depth)

    def statement(self, node: TreeNode, depth: int) -> Node:
        """One statement."""
        if depth > MAX_DEPTH:
            raise UnreadError("it is nested too deeply")
        reader = _READERS.get(node.type)
        if reader is None:
            raise UnreadError(f"it uses a form that is not judged ({node.type})")
        return reader(self, node, depth + 1)

    def _command(self, node: TreeNode, depth: int) -> Node:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        rest: list[tuple[str, Node]] = []
        self.words.bounded(node)
        end = node.start_byte
        for child in self.words.accounted(node.children, end, node.end_byte):
            joined, end = end == child.start_byte, child.end_byte
            if child.type == "command_name":
                words.append(self.words.word(child, depth))
            elif child.type == "variable_assignment":
                assignments.append(self.words.assignment(child, depth))
            elif child.type.endswith("redirect"):
                redirects.append(self.words.redirect(child, words, redirects, rest, depth))
            elif child.type in WORD_KINDS:
                if joined and words:
                    raise UnreadError("words that run together")
                words.append(self.words.word(child, depth))
            else:
                raise UnreadError(f"a command contains something unusual ({child.type})")
        return _with_rest(Simple(tuple(assignments), tuple(words), tuple(redirects)), rest)

    def _declaration(self, node: TreeNode, depth: int) -> Node:
        """export, declare, local…, unset: the assignments stand among the words."""
        words: list[Word] = []
        assignments: list[Assignment] = []
        for child in self.words.accounted(node.children, node.start_byte):
            if child.type == "variable_assignment":
                assignments.append(self.words.assignment(child, depth))
            elif child.type == "variable_name" or not child.is_named:
                words.append(self.words.plain(child))
            elif child.type in WORD_KINDS:
                words.append(self.words.word(child, depth))
            else:
                raise UnreadError(f"a declaration contains something unusual ({child.type})")
        return Simple(tuple(assignments), tuple(words))

    def _assignments(self, node: TreeNode, depth: int) -> Node:
        children = [node] if node.type == "variable_assignment" else node.children
        given = self.words.accounted(children, node.start_byte)
        return Simple(tuple(self.words.assignment(child, depth) for child in given), ())

    def _redirected(self, node: TreeNode, depth: int) -> Node:
        body: Node | None = None
        redirects: list[Redirect] = []
        extra: list[Word] = []
        rest: list[tuple[str, Node]] = []
        for child in self.words.accounted(node.children, node.start_byte):
            if child.type.endswith("redirect"):
                redirects.append(self.words.redirect(child, extra, redirects, rest, depth))
            elif body is None:
                body = self.statement(child, depth)
            else:
                raise UnreadError("a redirection of an unusual form")
        return _with_rest(_redirect_last(body, tuple(redirects), tuple(extra)), rest)

    def _pipeline(self, node: TreeNode, depth: int) -> Node:
        self.words.bounded(node)
        parts: list[Node] = []
        for child in self.words.accounted(node.children, node.start_byte):
            if child.type == "comment":
                self.words.comment(child)
            elif child.is_named:
                parts.append(self.statement(child, depth))
        return Pipeline(tuple(parts))

    def _negated(self, node: TreeNode, depth: int) -> Node:
        return self.statement(node.children[-1], depth)


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
        raise UnreadError("a redirection of an unusual form")
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
