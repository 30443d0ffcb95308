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

from kogniterm.approval.shellcompound import COMPOUNDS
from kogniterm.approval.shelltree import (
    Assignment,
    Group,
    Node,
    Opaque,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
)
from kogniterm.approval.shellwords import MAX_DEPTH, WORD_KINDS, UnreadError, WordReader
from kogniterm.approval.wordparts import Word

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode
    from tree_sitter import Parser


_TEST_EXPRESSIONS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression"})
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

    # --- statements ---------------------------------------------------------------------------

    def statements(self, node: TreeNode, start: int, end: int, depth: int) -> Node:
        """A run of statements between `start` and `end`: program, do_group, braces, lists."""
        self.words.bounded(node)
        children = [c for c in node.children if c.end_byte > start and c.start_byte < end]
        return self.sequence(children, start, end, depth)

    def sequence(self, children: list[TreeNode], start: int, end: int, depth: int) -> Node:
        items: list[tuple[str, Node]] = []
        op = ""
        position = start
        for child in children:
            self.words.gap(position, child.start_byte)
            position = child.end_byte
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
        self.words.gap(position, end)
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
            self.words.gap(position, child.start_byte)
            position = child.end_byte
            if child.type in _SEPARATORS:
                op = child.type
            elif child.type == "comment":
                self.words.comment(child)
            else:
                yield op, self.statement(child, depth)
        self.words.gap(position, node.end_byte)

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
        position = node.start_byte
        self.words.bounded(node)
        for child in node.children:
            self.words.gap(position, child.start_byte)
            joined = position == child.start_byte
            position = child.end_byte
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
        self.words.gap(position, node.end_byte)
        return _with_rest(Simple(tuple(assignments), tuple(words), tuple(redirects)), rest)

    def _declaration(self, node: TreeNode, depth: int) -> Node:
        """export, declare, local…, unset: the assignments stand among the words."""
        words: list[Word] = []
        assignments: list[Assignment] = []
        position = node.start_byte
        for child in node.children:
            self.words.gap(position, child.start_byte)
            position = child.end_byte
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
        position = node.start_byte
        for child in children:
            self.words.gap(position, child.start_byte)
            position = child.end_byte
        return Simple(tuple(self.words.assignment(child, depth) for child in children), ())

    def _redirected(self, node: TreeNode, depth: int) -> Node:
        body: Node | None = None
        redirects: list[Redirect] = []
        extra: list[Word] = []
        rest: list[tuple[str, Node]] = []
        position = node.start_byte
        for child in node.children:
            self.words.gap(position, child.start_byte)
            position = child.end_byte
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
        position = node.start_byte
        for child in node.children:
            self.words.gap(position, child.start_byte)
            position = child.end_byte
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
    **COMPOUNDS,
    "list": lambda self, node, depth: Sequence(tuple(self._list(node, "", depth))),
}
