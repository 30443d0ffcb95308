"""Compound statements of the tree: groups, if, case, loops, functions and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from kogniterm.approval.shelltree import (
    Branch,
    Function,
    Group,
    Loop,
    Node,
    Sequence,
    Simple,
    Test,
)
from kogniterm.approval.shellwords import WORD_KINDS, StatementReader, UnreadError, WordReader
from kogniterm.approval.wordparts import Word

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode

_TEST_EXPRESSIONS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression"})


class Statements(StatementReader, Protocol):
    """What reads the statements inside a compound one."""

    words: WordReader

    def statements(self, node: TreeNode, start: int, end: int, depth: int) -> Node:
        """A run of statements of `node` between `start` and `end`."""


def read_group(build: Statements, node: TreeNode, depth: int) -> Node:
    """`{ … }`, `( … )` and `(( … ))`."""
    first, last = node.children[0], node.children[-1]
    if first.type == "((":
        inner = build.words.calculation(node, first.end_byte, last.start_byte, depth)
        return Test((inner,), extended=False)
    body = build.sequence(node.children[1:-1], first.end_byte, last.start_byte, depth)
    return Group(body, subshell=first.type == "(")


def read_if(build: Statements, node: TreeNode, depth: int) -> Node:
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
                read_if(build, child, depth)
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


def read_case(build: Statements, node: TreeNode, depth: int) -> Node:
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


def read_for(build: Statements, node: TreeNode, depth: int) -> Node:
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


def read_c_for(build: Statements, node: TreeNode, depth: int) -> Node:
    """`for ((…; …; …))`: a calculation before each round."""
    opening = next(c for c in node.children if c.type == "((")
    closing = next(c for c in node.children if c.type == "))")
    inner = build.words.calculation(node, opening.end_byte, closing.start_byte, depth)
    head = Test((inner,), extended=False)
    return Loop(_body(build, node.children[-1], depth), head=head)


def read_while(build: Statements, node: TreeNode, depth: int) -> Node:
    """while, until."""
    group = node.children[-1]
    head = build.sequence(node.children[1:-1], node.children[0].end_byte, group.start_byte, depth)
    return Loop(_body(build, group, depth), head=head)


def _body(build: Statements, node: TreeNode, depth: int) -> Node:
    first, last = node.children[0], node.children[-1]
    return build.sequence(node.children[1:-1], first.end_byte, last.start_byte, depth)


def read_function(build: Statements, node: TreeNode, depth: int) -> Node:
    """A function, which is judged where it is defined and where it is called."""
    name = next(c for c in node.children if c.type == "word")
    redirects = [c for c in node.children if c.type.endswith("redirect")]
    body = next(c for c in reversed(node.children) if c not in redirects)
    if redirects:
        raise UnreadError("a function with redirections")
    return Function(build.words.slice(name), build.statement(body, depth))


def read_test(build: Statements, node: TreeNode, depth: int) -> Node:
    """`[[ … ]]` and `[ … ]`."""
    opening = node.children[0].type
    if opening == "((":
        return read_group(build, node, depth)
    words = list(_test_words(build, node, depth))
    if opening == "[[":
        return Test(tuple(words), extended=True)
    brackets = (build.words.plain(node.children[0]), *words, build.words.plain(node.children[-1]))
    return Simple((), brackets)


def _test_words(build: Statements, node: TreeNode, depth: int) -> Iterator[Word]:
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


COMPOUNDS: Mapping[str, Callable[[Statements, TreeNode, int], Node]] = {
    "compound_statement": read_group,
    "subshell": read_group,
    "if_statement": read_if,
    "case_statement": read_case,
    "for_statement": read_for,
    "c_style_for_statement": read_c_for,
    "while_statement": read_while,
    "function_definition": read_function,
    "test_command": read_test,
}
