"""`web_fetch`: the main content of a page as text, or parts of it, marked as untrusted."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from kogniterm.errors import ToolError
from kogniterm.host.helper_programs import await_helper
from kogniterm.host.programs import host_environment
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.net import NetClient, WebPage, untrusted

MAX_CHARS = 20_000
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript")
HTML_TYPES = ("text/html", "application/xhtml+xml")
READER = Path(__file__).with_name("page_reader.py")
READER_CPU_SECONDS = 10
"""Processor time for one page. An ordinary page of 1 MB takes a tenth of a second, one of 2 MB that
is all paragraphs of one word 2 to 4 seconds."""
READER_SECONDS = 15.0
"""Time for one page, which also bounds a machine that is busy."""
WEB_CHARSETS = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|(?:us-)?ascii|(?:iso-?|iso_)8859-?\d{1,2}|latin-?1|windows-?125\d|"
    r"cp125\d|koi8-[ru]|macintosh|ibm866|gbk|gb2312|gb18030|big5(?:-hkscs)?|euc-(?:jp|kr)|"
    r"shift[_-]jis|iso-2022-jp",
)
"""The character sets of the web (encoding.spec.whatwg.org); Python has codecs that are none."""


class FetchArguments(Arguments):
    """A page, or the parts of it that a selector chooses."""

    url: str
    select: str = Field(default="", max_length=500)
    links: bool = False
    start: int = Field(default=0, ge=0)
    purpose: SkipJsonSchema[str] = ""


def web_fetch(client: NetClient) -> SchemaTool[FetchArguments]:
    """Return the tool that reads a page."""

    async def run(arguments: FetchArguments) -> str:
        page = await client.get(arguments.url)
        text = await page_text(page, select=arguments.select, links=arguments.links)
        piece = text[arguments.start : arguments.start + MAX_CHARS]
        end = arguments.start + len(piece)
        rest = f"\n[more from character {end}]" if end < len(text) else ""
        return f"[{page.status} {page.url}]\n{untrusted(page.url, piece)}{rest}"

    return SchemaTool(
        "web_fetch",
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


async def page_text(page: WebPage, *, select: str = "", links: bool = False) -> str:
    """Return the readable text of a page. Raises `ToolError` for what is no text."""
    text = decode_page(page)
    if _kind(page).startswith(HTML_TYPES):
        text = await _read_html(page.url, text, select, links=links)
    elif select:
        raise ToolError("{url} is not HTML; leave out select.", url=page.url)
    return text + ("\n[the rest was too large]" if page.cut else "")


async def _read_html(url: str, html: str, select: str, *, links: bool) -> str:
    """Return the text of HTML, read by a process that hostile pages can use up without harm."""
    answer = await _ask_reader({"url": url, "select": select, "links": links}, html)
    if answer.get("error") == "selector":
        raise ToolError("{select} is not a valid CSS selector.", select=select)
    text, title = clean(str(answer["text"])), one_line(clean(str(answer["title"])), 300)
    if select:
        count = int(answer["count"])
        if not count:
            raise ToolError("Nothing on {url} matches {select}.", url=url, select=select)
        return text
    if not text.strip():
        text = "[the page has no readable text; it may need a browser]"
    shown = title and not text.lstrip("# ").startswith(title)
    return f"Title: {title}\n\n{text}" if shown else text


async def _ask_reader(request: dict[str, Any], html: str) -> Any:
    words = [sys.executable, "-I", str(READER), str(READER_CPU_SECONDS)]
    given = json.dumps(request).encode() + b"\n" + html.encode("utf-8", "replace")
    try:
        reader = await await_helper(
            words, env=host_environment(), seconds=READER_SECONDS, given=given
        )
        return json.loads(reader.output)
    except (TimeoutError, ValueError) as error:
        raise ToolError(
            "{url} is too complex to read; fetch another page.", url=request["url"]
        ) from error


def _kind(page: WebPage) -> str:
    return page.headers.get("content-type", "text/plain").lower().strip()


def decode_page(page: WebPage) -> str:
    """Return the text of a page as it was sent. Raises `ToolError` for what is no text."""
    kind = _kind(page)
    if not kind.startswith(TEXT_TYPES) and "+json" not in kind and "+xml" not in kind:
        raise ToolError("{url} is {kind}, not text.", url=page.url, kind=kind.partition(";")[0])
    return page.body.decode(_charset(page.body, kind), "replace")


def _charset(body: bytes, kind: str) -> str:
    """Return the codec of a text: by its byte order mark, its header, or its first kilobyte."""
    for mark, name in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if body.startswith(mark):
            return name
    said = re.search(r"charset=[\"']?([\w-]+)", kind)
    if said is None and kind.startswith(HTML_TYPES):
        start = body[:1024].decode("latin-1").lower()
        said = re.search(r"<meta[^>]{0,200}charset=[\"']?([\w-]+)", start)
    if said is None or not WEB_CHARSETS.fullmatch(said[1]):
        return "utf-8"
    # Browsers read Latin-1 and ASCII as the larger set of Windows.
    latin = re.fullmatch(r"(?:us-)?ascii|latin-?1|iso-?_?8859-?1", said[1])
    return "cp1252" if latin else _PYTHON_NAMES.get(said[1], said[1])


_PYTHON_NAMES = {"macintosh": "mac_roman"}
