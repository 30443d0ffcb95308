"""Write the result of a task to the job's summary, and as a comment on the issue or pull request.

A comment of an earlier run is replaced, so that a thread keeps one. Reads RESULT (the file of the
result), REPORT, NUMBER and TOKEN. Uses the REST API of GitHub (https://docs.github.com/rest).
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPORTS = ("comment", "none", "summary")
MAX_CHARACTERS = 60_000
"""GitHub takes 65536 in a comment."""
MARK = "<!-- kogniterm: {workflow} -->"
PAGES = 20
"""Pages of 100 comments that are searched for an earlier one."""
SECONDS = 30


def body_of(result: dict[str, Any]) -> str:
    """Return the report in Markdown."""
    answer = str(result.get("answer") or "").strip()
    if len(answer) > MAX_CHARACTERS:
        answer = f"{answer[:MAX_CHARACTERS]}\n\n[shortened; the output `answer` has all of it]"
    lines = [harmless(answer) or "KogniTerm gave no answer."]
    if result.get("stop") != "done":
        reason = harmless(str(result.get("reason") or "no reason is given"))
        lines += ["", f"**Not done** ({result.get('stop')}): {reason}"]
    return "\n".join([*lines, "", f"<sub>{' · '.join(facts_of(result))}</sub>"])


def harmless(text: str) -> str:
    """Return text of a model that notifies nobody and hides nothing in comments of HTML."""
    return text.replace("@", "@\u2060").replace("<!--", "&lt;!--")


def facts_of(result: dict[str, Any]) -> Iterator[str]:
    """Yield what the task took."""
    if result.get("model"):
        yield f"KogniTerm with {result['model']}"
    commands = result.get("commands") or []
    ran = sum("exit_code" in one for one in commands)
    refused = sum(one.get("status") == "refused" for one in commands)
    yield f"commands run: {ran}" + (f", refused: {refused}" if refused else "")
    if result.get("cost") is not None:
        yield f"${result['cost']:.4f}"
    if result.get("session_id"):
        yield f"session {result['session_id']}"


def ask(method: str, url: str, token: str, body: object = None) -> Any:
    """Send one request; return the answer's JSON."""
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.loads(answer.read() or b"null")


def comment(body: str, number: str, token: str) -> str:
    """Write the comment, or replace the earlier one of this workflow; return its address."""
    mark = MARK.format(workflow=os.environ.get("GITHUB_WORKFLOW", "").replace("--", "-"))
    repository = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}"
    comments = f"{repository}/issues/{int(number)}/comments"
    text = {"body": f"{mark}\n{body}"}
    for page in range(1, PAGES + 1):
        found = ask("GET", f"{comments}?per_page=100&page={page}", token)
        for one in found:
            if str(one.get("body", "")).startswith(mark) and one["user"]["type"] == "Bot":
                changed = ask("PATCH", f"{repository}/issues/comments/{one['id']}", token, text)
                return str(changed["html_url"])
        if len(found) < 100:
            break
    return str(ask("POST", comments, token, text)["html_url"])


def main() -> int:
    """Write the report that the workflow asks for; return the exit status of the step."""
    report = os.environ["REPORT"]
    if report not in REPORTS:
        print(f"::error title=KogniTerm::The input report is {report}, but must be one of: "
              f"{', '.join(REPORTS)}.")  # fmt: skip
        return 2
    if report == "none":
        return 0
    body = body_of(json.loads(Path(os.environ["RESULT"]).read_text(encoding="utf-8")))
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
        summary.write(f"{body}\n")
    if report == "summary":
        return 0
    number = os.environ["NUMBER"]
    if not number.isdecimal():
        print("::error title=KogniTerm::There is no issue or pull request to comment on; "
              "set the input number.")  # fmt: skip
        return 2
    try:
        print(f"Comment: {comment(body, number, os.environ['TOKEN'])}")
    except urllib.error.HTTPError as error:
        print(f"::error title=KogniTerm::GitHub refused the comment (HTTP {error.code}). The job "
              "needs the permission `issues: write` or `pull-requests: write`.")  # fmt: skip
        return 1
    except OSError as error:
        print(f"::error title=KogniTerm::The comment could not be written: {error}.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
