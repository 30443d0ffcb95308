"""The tools of the web, whose texts are marked as untrusted: `web_fetch`, `web_search`, `github`.

`web_fetch` reads the main content of a page as text, or parts of it. `web_search` asks the first
source there is: Brave, where the user has set a key; the search of the model's own provider;
DuckDuckGo, which needs no key, and Wikipedia where DuckDuckGo gives no results. `github` reads a
repository's tree in one call, its files, and its issues (docs.github.com/rest: git trees,
repository contents, issues); without a token the service allows 60 requests an hour.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from pydantic import Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from kogniterm import __version__
from kogniterm.errors import ToolError
from kogniterm.host.helper_programs import await_helper
from kogniterm.host.programs import host_environment
from kogniterm.protocols import WebSearcher
from kogniterm.text.language import language_of
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.net import NetClient, WebPage, mark_untrusted
from kogniterm.types import Observation, WebAnswer, WebSource

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
        return f"[{page.status} {page.url}]\n{mark_untrusted(page.url, piece)}{rest}"

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


BRAVE_URL = "https://api.search.brave.com/res/v1/web/search"
DUCKDUCKGO_URL = "https://html.duckduckgo.com/html/"
WIKIPEDIA_URL = "https://{language}.wikipedia.org/w/api.php"
MAX_ANSWER = 12_000
MAX_SNIPPET = 500


class SearchArguments(Arguments):
    """A search of the web; `hosts` are set by the tool and are those that the user approved."""

    query: str = Field(min_length=1, max_length=400)
    count: SkipJsonSchema[int] = Field(default=5, ge=1, le=20)
    purpose: SkipJsonSchema[str] = ""
    hosts: SkipJsonSchema[tuple[str, ...]] = ()


class SearchSource(Protocol):
    """A service that is asked for pages."""

    def hosts(self, query: str) -> tuple[str, ...]:
        """Return the hosts that a search may contact; none where the source cannot be used."""

    async def search(self, query: str, count: int) -> WebAnswer:
        """Return the results. Raises `ToolError`."""


def web_search(sources: Sequence[SearchSource]) -> SchemaTool[SearchArguments]:
    """Return the tool that asks the first of `sources` that can be used."""

    def settle(arguments: SearchArguments) -> SearchArguments:
        hosts = (source.hosts(arguments.query) for source in sources)
        return arguments.model_copy(update={"hosts": next(filter(None, hosts), ())})

    async def run(arguments: SearchArguments) -> Observation:
        approved = arguments.hosts or settle(arguments).hosts
        for source in sources:
            if approved and source.hosts(arguments.query) == approved:
                found = await source.search(arguments.query, arguments.count)
                text = mark_untrusted("web search", _result_text(found, arguments.count))
                return Observation(text, usage=found.usage)
        raise ToolError("The search service changed after the approval; call web_search again.")

    return SchemaTool(
        "web_search",
        SearchArguments,
        run,
        effect="network",
        settle=settle,
        describe=lambda arguments: (f"search the web: {arguments.query}", arguments.purpose),
        hosts=lambda arguments: arguments.hosts,
    )


def _result_text(found: WebAnswer, count: int) -> str:
    """Return the results as text for the model, without those that have no page address."""
    pages = [one for one in found.sources if one.url.startswith(("https://", "http://"))]
    entries = [
        "\n".join(
            filter(
                None,
                (
                    f"{number}. {one_line(clean(page.title), 200)}",
                    one_line(clean(page.url), 1_000),
                    one_line(clean(page.text), MAX_SNIPPET),
                ),
            )
        )
        for number, page in enumerate(pages[:count], 1)
    ]
    answer = clean(found.text).strip()[:MAX_ANSWER]
    return "\n\n".join(filter(None, (answer, *entries))) or "no results"


class BraveSearch:
    """Brave's search service, for which the user has a key."""

    def __init__(self, client: NetClient, key: str, url: str = BRAVE_URL) -> None:
        self._client, self._key, self._url = client, key, url

    def hosts(self, query: str) -> tuple[str, ...]:
        return _hosts(self._url)

    async def search(self, query: str, count: int) -> WebAnswer:
        address = f"{self._url}?{urlencode({'q': query, 'count': count})}"
        headers = {"X-Subscription-Token": self._key, "Accept": "application/json"}
        page = await self._client.get(address, headers)
        if page.status in (401, 403):
            raise ToolError(
                "The search service rejected the key; ask the user to set a valid brave_api_key."
            )
        _raise_for(page)
        return WebAnswer(sources=_from_json(page, "web.results", _brave_source))


class ProviderSearch:
    """The search of the model's provider."""

    def __init__(self, searcher: WebSearcher) -> None:
        self._searcher = searcher

    def hosts(self, query: str) -> tuple[str, ...]:
        return (self._searcher.host,) if self._searcher.host else ()

    async def search(self, query: str, count: int) -> WebAnswer:
        return await self._searcher.search(query)


class OpenSearch:
    """DuckDuckGo's page for browsers without scripts, and Wikipedia where it gives no results."""

    def __init__(
        self, client: NetClient, url: str = DUCKDUCKGO_URL, wikipedia: str = WIKIPEDIA_URL
    ) -> None:
        self._client, self._url, self._wikipedia = client, url, wikipedia

    def hosts(self, query: str) -> tuple[str, ...]:
        return (*_hosts(self._url), *_hosts(self._encyclopedia(query)))

    async def search(self, query: str, count: int) -> WebAnswer:
        try:
            agent = f"Mozilla/5.0 (compatible; KogniTerm/{__version__})"
            address = f"{self._url}?{urlencode({'q': query})}"
            page = await self._client.get(address, {"Accept": "text/html", "User-Agent": agent})
            _raise_for(page)
            reader = _ResultPage()
            reader.feed(decode_page(page))
            reader.close()
            if not reader.found and not reader.is_empty:
                raise ToolError("{host} sent a page without results.", host=_hosts(page.url)[0])
            return WebAnswer(sources=tuple(WebSource(*one) for one in reader.found))
        except ToolError as error:
            first = error
        try:
            found = await self._articles(query, count)
        except ToolError as second:
            raise ToolError(
                "No search service responded ({first} {second}) Use web_fetch with an address you "
                "know, or ask the user to set brave_api_key.",
                first=first.text,
                second=second.text,
            ) from second
        return WebAnswer(f"[Only Wikipedia was searched. {first}]", found)

    def _encyclopedia(self, query: str) -> str:
        return self._wikipedia.format(language=language_of(query))

    async def _articles(self, query: str, count: int) -> tuple[WebSource, ...]:
        address = self._encyclopedia(query)
        wanted = {"action": "query", "list": "search", "format": "json", "srlimit": count}
        page = await self._client.get(f"{address}?{urlencode({**wanted, 'srsearch': query})}")
        _raise_for(page)
        start = address.removesuffix("/w/api.php")

        def source(item: Mapping[str, Any]) -> WebSource:
            title = str(item["title"])
            where = f"{start}/wiki/{quote(title.replace(' ', '_'))}"
            return WebSource(title, where, _plain(str(item.get("snippet", ""))))

        return _from_json(page, "query.search", source)


def _brave_source(item: Mapping[str, Any]) -> WebSource:
    return WebSource(
        str(item["title"]), str(item["url"]), _plain(str(item.get("description") or ""))
    )


def _from_json(
    page: WebPage, path: str, source: Callable[[Mapping[str, Any]], WebSource]
) -> tuple[WebSource, ...]:
    """Return the results below `path` of a JSON page. Raises `ToolError` for another page."""
    try:
        found = json.loads(page.body)
        for name in path.split("."):
            found = found.get(name, {})
        return tuple(source(item) for item in found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(
            "{host} sent results that cannot be read.", host=_hosts(page.url)[0]
        ) from error


def _raise_for(page: WebPage) -> None:
    values = {"host": _hosts(page.url)[0], "status": page.status}
    if page.status == 429:
        raise ToolError("The rate limit of {host} is reached; try again later.", **values)
    if page.status != 200:
        raise ToolError("{host} returned status {status}.", **values)


def _hosts(url: str) -> tuple[str, ...]:
    return (urlsplit(url).netloc,)


def _plain(html: str) -> str:
    return unescape(re.sub(r"<[^<>]*>", "", html))


class _ResultPage(HTMLParser):
    """Gathers (title, address, excerpt) of DuckDuckGo's results; advertisements are left out."""

    TITLE, EXCERPT, NOTHING = "result__a", "result__snippet", "no-results"

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.is_empty = False
        self.found: list[tuple[str, str, str]] = []
        self._into = ""
        self._tag = ""
        self._depth = 0
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        kinds = given.get("class", "").split()
        self.is_empty |= self.NOTHING in kinds
        if self._into:
            self._depth += tag == self._tag
        elif self.TITLE in kinds:
            address = _target(given.get("href", ""))
            self._into, self._tag = (self.TITLE if address else ""), tag
            if address:
                self.found.append(("", address, ""))
            self._open = bool(address)
        elif self.EXCERPT in kinds and self.found and self._open:
            self._into, self._tag = self.EXCERPT, tag

    def handle_endtag(self, tag: str) -> None:
        if self._into and tag == self._tag:
            self._depth -= 1
            if self._depth < 0:
                self._into, self._depth = "", 0

    def handle_data(self, data: str) -> None:
        if self._into:
            title, address, excerpt = self.found[-1]
            if self._into == self.TITLE:
                title += data
            else:
                excerpt += data
            self.found[-1] = (title, address, excerpt)


def _target(link: str) -> str:
    """Return the page that a result's link leads to; "" for an advertisement."""
    try:
        parts = urlsplit(link)
        if parts.path == "/l/":
            link = parse_qs(parts.query).get("uddg", [""])[0]
            parts = urlsplit(link)
    except ValueError:
        return ""
    own = (parts.hostname or "duckduckgo.com").endswith("duckduckgo.com")
    return "" if own and parts.path in ("/y.js", "") else link


API_URL = "https://api.github.com"
MAX_PATHS = 1_000
GITHUB_CHARS = 24_000


class GithubArguments(Arguments):
    """A part of a repository to read."""

    action: Literal["tree", "file", "issues", "issue"]
    repo: str
    path: str = ""
    ref: str = "HEAD"
    number: int | None = Field(default=None, ge=1)
    purpose: SkipJsonSchema[str] = ""

    @field_validator("repo")
    @classmethod
    def _owner_and_name(cls, value: str) -> str:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", value) or ".." in value:
            raise ValueError("give it as owner/name")
        return value


def github(client: NetClient, token: str | None = None, url: str = API_URL) -> SchemaTool[Any]:
    async def ask(path: str) -> Any:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        page = await client.get(f"{url}{path}", headers)
        _raise_for_github(page)
        try:
            return json.loads(page.body)
        except ValueError as error:
            raise ToolError("GitHub's answer is too large or not JSON; ask for less.") from error

    async def run(arguments: GithubArguments) -> str:
        base = f"/repos/{arguments.repo}"
        if arguments.action == "tree":
            ref = quote(arguments.ref, safe="")
            text = _tree(await ask(f"{base}/git/trees/{ref}?recursive=1"), arguments.path)
        elif arguments.action == "file":
            path, ref = quote(arguments.path), quote(arguments.ref, safe="")
            text = _file(await ask(f"{base}/contents/{path}?ref={ref}"))
        elif arguments.action == "issues":
            answer = await ask(f"{base}/issues?per_page=30&state=open")
            lines = [
                f"#{item['number']} {item['title']}" + " (pull request)" * ("pull_request" in item)
                for item in answer
            ]
            text = "\n".join(lines) or "[no open issues]"
        else:
            if arguments.number is None:
                raise ToolError("number is missing; the action issue needs it.")
            issue = await ask(f"{base}/issues/{arguments.number}")
            comments = await ask(f"{base}/issues/{arguments.number}/comments?per_page=30")
            parts = [
                f"#{issue['number']} {issue['title']} ({issue['state']})",
                issue.get("body") or "",
            ]
            parts += [f"{item['user']['login']}: {item.get('body') or ''}" for item in comments]
            text = "\n\n".join(parts)
        return mark_untrusted(f"github.com/{arguments.repo}", text[:GITHUB_CHARS])

    return SchemaTool(
        "github",
        GithubArguments,
        run,
        effect="network",
        hosts=lambda _: (urlsplit(url).netloc,),
        describe=lambda a: (f"github {a.action} {a.repo} {a.path or a.number or ''}", a.purpose),
    )


def _raise_for_github(page: WebPage) -> None:
    if page.status == 200:
        return
    left = page.headers.get("x-ratelimit-remaining")
    if page.status == 429 or (page.status == 403 and left == "0"):
        reset = page.headers.get("x-ratelimit-reset", "")
        wait = page.headers.get("retry-after") or ""
        if not wait and reset.isdigit():
            wait = str(max(0, int(reset) - int(time.time())))
        if not wait:
            raise ToolError(
                "GitHub's rate limit is reached; continue with other work and try again later."
            )
        raise ToolError(
            "GitHub's rate limit is reached; continue with other work and try again in {wait} s.",
            wait=wait,
        )
    if page.status == 404:
        raise ToolError("GitHub answered 404: it does not exist or is private; check the name.")
    if page.status == 401:
        raise ToolError("GitHub rejected the token; ask the user to set a valid github_token.")
    raise ToolError("GitHub returned status {status}.", status=page.status)


def _tree(answer: Any, below: str) -> str:
    prefix = f"{below.strip('/')}/" if below.strip("/") else ""
    lines = [
        f"{entry['path']}/"
        if entry["type"] == "tree"
        else f"{entry['path']} {entry.get('size', 0)}"
        for entry in answer.get("tree", ())
        if entry["path"].startswith(prefix)
    ]
    if answer.get("truncated") or len(lines) > MAX_PATHS:
        lines = [*lines[:MAX_PATHS], "[more; name a folder in path]"]
    return "\n".join(lines) or "[nothing there]"


def _file(answer: Any) -> str:
    if isinstance(answer, list):
        return "\n".join(f"{entry['path']} ({entry['type']})" for entry in answer)
    if answer.get("encoding") != "base64":
        raise ToolError("This file is too large for GitHub's API; clone the repository.")
    try:
        return base64.b64decode(answer["content"]).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ToolError("{path} is not text.", path=answer.get("path")) from error
