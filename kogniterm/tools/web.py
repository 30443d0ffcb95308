"""`web_fetch`: pages as text, marked as untrusted."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.net import NetClient, WebPage, untrusted

MAX_CHARS = 20_000
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript")


class FetchArguments(Arguments):
    """A page."""

    url: str
    start: int = Field(default=0, ge=0, description="first character")
    purpose: str = ""


def web_fetch(client: NetClient) -> SchemaTool[FetchArguments]:
    """Return the tool that reads a page."""

    async def run(arguments: FetchArguments) -> str:
        page = await client.get(arguments.url)
        text = page_text(page)
        piece = text[arguments.start : arguments.start + MAX_CHARS]
        end = arguments.start + len(piece)
        rest = f"\n[more from character {end}]" if end < len(text) else ""
        return f"[{page.status} {page.url}]\n{untrusted(page.url, piece)}{rest}"

    return SchemaTool(
        "web_fetch",
        "Fetch a web page or file as text.",
        FetchArguments,
        run,
        effect="network",
        describe=lambda arguments: (f"fetch {arguments.url}", arguments.purpose),
        hosts=lambda arguments: _host(arguments.url),
    )


def _host(url: str) -> tuple[str, ...]:
    try:
        host = urlsplit(url).netloc
    except ValueError:
        return ()
    return (host,) if host else ()


def page_text(page: WebPage) -> str:
    """Return the readable text of a page. Raises `ToolError` for what is no text."""
    text = decoded(page)
    if "html" in page.headers.get("content-type", "").lower():
        text = html_text(text)
    return text + ("\n[the rest was too large]" if page.cut else "")


def decoded(page: WebPage) -> str:
    """Return the text of a page as it was sent. Raises `ToolError` for what is no text."""
    kind = page.headers.get("content-type", "text/plain").lower()
    if not kind.startswith(TEXT_TYPES) and "+json" not in kind and "+xml" not in kind:
        raise ToolError("{url} is {kind}, not text.", url=page.url, kind=kind.partition(";")[0])
    match = re.search(r"charset=[\"']?([\w-]+)", kind)
    try:
        return page.body.decode(match[1] if match else "utf-8", "replace")
    except LookupError:
        return page.body.decode("utf-8", "replace")


class _Reader(HTMLParser):
    """Keeps text, headings, lists and links; drops what is no content."""

    SILENT = frozenset({"script", "style", "noscript", "template", "svg", "head"})
    BLOCKS = frozenset({"p", "div", "section", "article", "br", "tr", "pre", "ul", "ol", "table"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.SILENT:
            self._silent += 1
        elif tag in self.BLOCKS:
            self.parts.append("\n")
        elif re.fullmatch(r"h[1-6]", tag):
            self.parts.append(f"\n\n{'#' * int(tag[1])} ")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag == "a" and self._links:
            target = self._links.pop()
            if target.startswith(("http://", "https://")):
                self.parts.append(f" ({target})")
        elif tag in self.BLOCKS or re.fullmatch(r"h[1-6]", tag):
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


def html_text(html: str) -> str:
    """Return the readable text of HTML, broken or not."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = [" ".join(line.split()) for line in "".join(reader.parts).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
