"""The reader of HTML, run as a program of its own: hostile pages cost a bounded process, not us.

`tools.web` starts this file with Python. The first line of its input is a JSON object (`url`,
`select`, `links`), the rest is the page in UTF-8. It answers with one JSON object: `text`, or
`error` with the name of what is wrong. It imports nothing of KogniTerm, so that it starts fast.

Without `select` the main content of the page is kept: navigation, footers, banners and forms are
left out, and of the rest the page's own `main` or `article`, if that holds its prose.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

MEMORY = 1024 * 1024 * 1024
MAX_TEXT = 2 * 1024 * 1024
"""Characters of text that are returned."""
MAX_MATCHES = 500
"""Elements that a selector may choose; the others are counted."""
LEAST_PROSE = 0.4
"""Share of a page's prose below which a part of it is not taken for its main content."""

SILENT = (
    "script", "style", "noscript", "template", "svg", "math", "head", "iframe", "object", "embed",
    "canvas", "audio", "video", "dialog", "datalist", "select", "button", "input", "textarea",
    "[hidden]", "[aria-hidden=true]",
)  # fmt: skip
AROUND = (
    "nav", "footer", "aside", "menu", "[role=navigation]", "[role=banner]", "[role=contentinfo]",
    "[role=search]", "[role=complementary]", "[role=dialog]", "[role=alertdialog]", "[role=menu]",
    "body > header", "body > div > header",
)  # fmt: skip
"""Elements that stand around the content of a page."""
BANNER = re.compile(
    r"cookie[\s_-]?(?:banner|bar|consent|law|notice|popup|wall)|cookiebot|onetrust|didomi|truste|"
    r"gdpr|(?:^|[\s_-])consent(?:$|[\s_-])",
    re.IGNORECASE,
)
"""Classes and ids of banners that ask for consent. Plain words do not count in an id: a chapter
about cookies has the id "cookies"."""
CLASSES_AROUND = frozenset({
    "ad", "ads", "advert", "advertisement", "breadcrumb", "breadcrumbs", "menu", "modal", "nav",
    "navbar", "navigation", "newsletter", "pager", "pagination", "popup", "promo", "related",
    "share", "sharing", "sidebar", "sidenav", "skip-link", "social", "sphinxsidebar", "sponsored",
    "subscribe",
})  # fmt: skip
"""Classes of what stands around the content."""
MARK = re.compile(r"\n *(?:-|\d+\.) ")
"""The beginning of a list item."""
ITEM = re.compile(r"( *)(?:-|\d+\.) ")
NOTHING = re.compile(r"[|\s]*|>|#+|\s*-|\s*\d+\.")
"""A line of marks without content."""
BLANKS = re.compile(r"\s+")
KEPT_WHOLE = frozenset({"html", "body", "main", "article"})
BLOCKS = frozenset({
    "p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "figure",
    "figcaption", "address", "details", "summary", "form", "fieldset", "dl", "dt", "dd", "ul",
    "ol", "body", "center", "hgroup", "caption", "legend",
})  # fmt: skip
HEADINGS = {f"h{level}": level for level in range(1, 7)}


class _Text:
    """The text of elements, written as the walk enters and leaves them."""

    def __init__(self, base: str, *, links: bool) -> None:
        self.parts: list[str] = []
        self.size = 0
        self._base, self._links = base, links
        self._lists: list[int | None] = []
        self._pre = 0
        self._cells: list[str] = []
        self._heads: list[int] = []
        self._targets: list[tuple[str, int]] = []

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.size += len(text)

    def data(self, text: str) -> None:
        if self._pre:
            self.add(text)
            return
        squeezed = BLANKS.sub(" ", text)
        if squeezed == " " and (not self.parts or self.parts[-1].endswith(("\n", " "))):
            return
        self.add(squeezed)

    def enter(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "br":
            self.add(" " if self._cells else "\n")
        elif tag == "hr":
            self.add("\n\n---\n\n")
        elif tag in HEADINGS:
            self.add("\n\n" + "#" * HEADINGS[tag] + " ")
        elif tag == "li":
            indent = "  " * (min(len(self._lists), 8) - 1)
            number = self._lists[-1] if self._lists else None
            if number is not None:
                self._lists[-1] = number + 1
            self.add(f"\n{indent}{f'{number}.' if number is not None else '-'} ")
        elif tag == "pre":
            self._pre += 1
            self.add("\n\n```\n")
        elif tag in ("code", "kbd", "samp") and not self._pre:
            self.add("`")
        elif tag == "img":
            alt = (node.attributes.get("alt") or "").strip()
            if alt:
                self.add(f"[image: {' '.join(alt.split())}]")
        elif tag == "a":
            self._targets.append((self._target(node), len(self.parts)))
        elif tag == "blockquote":
            self.add("\n\n> ")
        elif tag in ("table", "tr", "td", "th"):
            self._enter_table(tag)
        elif tag in BLOCKS and not self._cells:
            if tag in ("ul", "ol"):
                self._lists.append(1 if tag == "ol" else None)
            self._end_block()

    def leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag in HEADINGS or tag == "blockquote":
            self.add("\n\n")
        elif tag == "pre":
            self._pre -= 1
            self.add("\n```\n\n")
        elif tag in ("code", "kbd", "samp") and not self._pre:
            self.add("`")
        elif tag == "a" and self._targets:
            target, began = self._targets.pop()
            said = "".join(self.parts[began:]).strip()
            if target and said:
                self.parts[began:] = [f"[{' '.join(said.split())}]({target})"]
                self.size += len(target)
        elif tag in ("table", "tr", "td", "th"):
            if tag == "table":
                if self._heads:
                    self._heads.pop()
                self.add("\n\n")
            elif tag == "tr":
                if self._heads and self._heads[-1] > 1:
                    self.add("\n|" + " --- |" * self._heads[-1])
            elif self._cells:
                self._cells.pop()
                self.add(" |")
        elif tag in BLOCKS and not self._cells:
            if tag in ("ul", "ol") and self._lists:
                self._lists.pop()
            self._end_block()

    def _end_block(self) -> None:
        """End a block; the first one of a list item stays beside its mark."""
        if self._lists and self.parts and MARK.fullmatch(self.parts[-1]):
            return
        self.add("\n" if self._lists else "\n\n")

    def _target(self, node: LexborNode) -> str:
        """Return where a link leads, absolute; "" where links are not wanted, or it is none."""
        href = node.attributes.get("href") or ""
        if not self._links or not href or href.startswith("#"):
            return ""
        try:
            target = urljoin(self._base, href.strip())
        except ValueError:
            return ""
        return target if target.startswith(("http://", "https://")) else ""

    def _enter_table(self, tag: str) -> None:
        if tag == "table":
            self._heads.append(0)
            self.add("\n\n")
        elif not self._heads:
            self.add("\n")  # a cell that a selector chose, without its table
        elif tag == "tr":
            self._heads[-1] = 0
            self.add("\n|")
        else:
            self._cells.append(tag)
            self._heads[-1] += tag == "th"
            self.add(" ")

    @property
    def full(self) -> bool:
        return self.size > MAX_TEXT


def render_nodes(nodes: list[LexborNode], base: str, *, links: bool) -> str:
    """Return the text of `nodes` with the marks of Markdown, cut at `MAX_TEXT` characters."""
    texts = []
    for node in nodes:
        text = _Text(base, links=links)
        for entering, one in _walk(node):
            if one.tag == "-text":
                if entering:
                    text.data(one.text_content or "")
            elif entering:
                text.enter(one)
            else:
                text.leave(one)
            if text.full:
                break
        texts.append(_tidy_text("".join(text.parts)))
    return "\n\n".join(filter(None, texts))[:MAX_TEXT]


def _walk(root: LexborNode) -> Iterator[tuple[bool, LexborNode]]:
    """Yield (True, node) on the way in and (False, node) on the way out, without recursion."""
    node, depth = root, 0
    while True:
        yield True, node
        child = node.child
        if child is not None:
            node, depth = child, depth + 1
            continue
        while True:
            yield False, node
            if depth == 0:
                return
            after = node.next
            if after is not None:
                node = after
                break
            parent = node.parent
            assert parent is not None
            node, depth = parent, depth - 1


def _tidy_text(text: str) -> str:
    """Return `text` without trailing blanks and needless blank lines, except inside fences."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        if line.strip() == "```":
            fenced = not fenced
            line = "```"
        elif not fenced:
            line, mark = _tidied_line(line)
            if not line and (not lines or not lines[-1]):
                continue
            if mark and len(lines) > 1 and not lines[-1] and ITEM.match(lines[-2]):
                lines.pop()
        lines.append(line.rstrip() if fenced else line)
    return "\n".join(lines).strip("\n")


def _tidied_line(line: str) -> tuple[str, bool]:
    """Return a line without needless blanks, "" where it has only marks, and if it is an item."""
    words = " ".join(line.split())
    if not words or words[0].isalpha():  # most lines: no mark begins with a letter
        return words, False
    mark = ITEM.match(line)
    words = (mark[1] if mark else "") + words
    return ("" if NOTHING.fullmatch(words) else words), mark is not None


def main_content(page: LexborHTMLParser) -> LexborNode | None:
    """Return the part of the page that holds its prose, after leaving out what is around it."""
    body = page.body
    if body is None:
        return page.root
    whole = _prose(body)
    for selector in AROUND:
        for node in body.css(selector):
            node.decompose()
    for node in body.css("[class], [id]"):
        # A page whose body is called "has-cookie-banner" must not vanish.
        if node.tag not in KEPT_WHOLE and _is_around(node) and _prose(node) * 2 < whole:
            node.decompose()
    least = LEAST_PROSE * _prose(body)
    for selector in ("main, [role=main]", "article"):
        found = [node for node in body.css(selector) if _prose(node) >= least]
        if found and (selector != "article" or len(found) == 1):
            return found[0]
    return body


def _is_around(node: LexborNode) -> bool:
    classes = (node.attributes.get("class") or "").lower()
    named = f"{classes} {node.attributes.get('id') or ''}"
    return not CLASSES_AROUND.isdisjoint(classes.split()) or bool(BANNER.search(named))


def _prose(node: LexborNode) -> int:
    """Return the characters of an element's text that are in no link."""
    linked = sum(len(link.text(deep=True).strip()) for link in node.css("a"))
    return max(0, len(node.text(deep=True).strip()) - linked)


def _select_nodes(page: LexborHTMLParser, selector: str) -> tuple[list[LexborNode], int]:
    """Return what a selector chooses, without what stands in another match, and how many."""
    nodes: list[LexborNode] = []
    inside: set[int] = set()
    for node in page.css(selector):
        above = node.parent
        if node.mem_id in inside or (above is not None and above.mem_id in inside):
            inside.add(node.mem_id)
            continue
        inside.update(one.mem_id for entering, one in _walk(node) if entering)
        nodes.append(node)
    return nodes[:MAX_MATCHES], len(nodes)


def read(html: str, url: str, *, select: str = "", links: bool = False) -> dict[str, Any]:
    """Return the text of a page, its title, and how many elements `select` chose."""
    from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    page = LexborHTMLParser(html)
    found = page.css_first("title")
    title = " ".join(found.text(deep=True).split())[:300] if found is not None else ""
    first = page.css_first("base[href]")
    base = urljoin(url, first.attributes.get("href") or "") if first is not None else url
    if select:
        try:
            nodes, count = _select_nodes(page, select)
        except SelectolaxError:
            return {"error": "selector"}
        for node in nodes:
            for silent in node.css(", ".join(SILENT[:7])):
                if silent.mem_id != node.mem_id:
                    silent.decompose()
        return {"text": render_nodes(nodes, base, links=links), "title": title, "count": count}
    for node in page.css(", ".join(SILENT)):
        if node.tag not in KEPT_WHOLE:
            node.decompose()
    main = main_content(page)
    text = render_nodes([main], base, links=links) if main is not None else ""
    return {"text": text, "title": title, "count": 1}


def main() -> None:
    """Read the request and the page from standard input; answer on standard output."""
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    request = json.loads(sys.stdin.buffer.readline())
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    answer = read(html, request["url"], select=request["select"], links=request["links"])
    with os.fdopen(1, "wb") as out:
        out.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
