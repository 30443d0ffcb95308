"""`github`: a repository's tree in one call, its files, and its issues, by GitHub's REST API.

Source: docs.github.com/rest (git trees, repository contents, issues). Without a token the
service allows 60 requests an hour; its own word on when to go on is passed to the model.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from pydantic import Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from kogniterm.errors import ToolError
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.net import NetClient, WebPage, mark_untrusted

API_URL = "https://api.github.com"
MAX_PATHS = 1_000
MAX_CHARS = 24_000


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
        _raise_for(page)
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
        return mark_untrusted(f"github.com/{arguments.repo}", text[:MAX_CHARS])

    return SchemaTool(
        "github",
        GithubArguments,
        run,
        effect="network",
        hosts=lambda _: (urlsplit(url).netloc,),
        describe=lambda a: (f"github {a.action} {a.repo} {a.path or a.number or ''}", a.purpose),
    )


def _raise_for(page: WebPage) -> None:
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
