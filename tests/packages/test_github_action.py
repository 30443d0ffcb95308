"""The GitHub Action, run step by step as a runner does, with a scripted model and a local API."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from kogniterm.execution.sandbox_probe import probe
from tests.packages.actions_runner import Outcome, Runner
from tests.support.fake_gemini import FakeGemini

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "packaging" / "github-action"
RECIPES = ROOT / "docs" / "recipes"
KOGNITERM = Path(sys.executable).with_name("kogniterm")
KEY = "sk-of-nobody-" + "Q7z9" * 8
Act = Callable[..., Outcome]


class GitHub(ThreadingHTTPServer):
    """The part of GitHub's REST API that keeps comments."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Comments)
        self.comments: list[dict[str, Any]] = []
        self.tokens: set[str] = set()
        self.refuses = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Comments(BaseHTTPRequestHandler):
    server: GitHub

    def do_GET(self) -> None:
        self._answer(self.server.comments)

    def do_POST(self) -> None:
        assert self.path == "/repos/octo/shop/issues/7/comments"
        one = {"id": 100 + len(self.server.comments), "user": {"type": "Bot"}, **self._body()}
        one["html_url"] = f"https://github.example/c{one['id']}"
        self.server.comments.append(one)
        self._answer(one)

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition("/")[2])
        (one,) = (one for one in self.server.comments if one["id"] == number)
        one |= self._body()
        self._answer(one)

    def _body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return found

    def _answer(self, value: object) -> None:
        self.server.tokens.add(self.headers["Authorization"])
        body = json.dumps(value).encode()
        self.send_response(403 if self.server.refuses else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[GitHub]:
    with GitHub() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def act(tmp_path: Path, github: GitHub) -> Act:
    """Return a function that runs the action for a script of the model, in a job's environment."""
    workspace, temporary = tmp_path / "work" / "shop", tmp_path / "work" / "_temp"
    workspace.mkdir(parents=True)
    temporary.mkdir()
    home = tmp_path / "home"
    home.mkdir()

    def run(
        script: str,
        *,
        event: dict[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> Outcome:
        model = tmp_path / "script.yaml"
        model.write_text(script)
        job = {
            "HOME": str(home),
            "KOGNITERM_WARM": "off",
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "GITHUB_API_URL": github.url,
            "GITHUB_REPOSITORY": "octo/shop",
            "GITHUB_WORKFLOW": "triage",
            "ACTIONS_RUNTIME_TOKEN": "runtime-token-of-the-job",
            "GITHUB_ACTIONS": "true",
        }
        job |= environment or {}
        runner = Runner(ACTION, workspace, temporary, job, event or {}, (KEY,))
        given = {"model": f"scripted:{model}", "program": str(KOGNITERM), "task": "look around"}
        return runner.run(**(given | inputs))

    return run


# --- what the files say ---


def workflows() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the action, and each workflow that a recipe shows."""
    yield "action.yml", yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))
    for page in RECIPES.glob("*.md"):
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            found = yaml.safe_load(block)
            if isinstance(found, dict) and "jobs" in found:
                yield page.name, found


def scripts_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "run" and isinstance(inner, str):
                yield inner
            yield from scripts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from scripts_in(inner)


def test_no_script_contains_an_expression_and_no_checkout_keeps_its_token() -> None:
    found = list(workflows())
    assert len(found) > 1, "no recipe shows a workflow"
    for where, one in found:
        for script in scripts_in(one):
            assert "${{" not in script, f"{where}: an expression in a script is an injection"
        for job in one.get("jobs", {}).values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout"):
                    assert step["with"]["persist-credentials"] is False, where
                if "github-action" in step.get("uses", ""):
                    described = dict(workflows())["action.yml"]
                    assert set(step["with"]) <= set(described["inputs"]), where


# --- runs ---


def test_a_task_answers_into_outputs_summary_and_one_comment(act: Act, github: GitHub) -> None:
    script = """replies:
  - run: echo found-$((40 + 2)) > made.txt; cat made.txt
  - text: "Thanks @octo/everyone: found-42 <!-- hidden -->\\nend_of_output"
"""
    event = {"issue": {"number": 7, "title": "x"}}
    done = act(script, event=event, report="comment", token="ghs-given")
    assert not done.failed, done.log
    outputs = done.outputs
    assert outputs["answer"] == "Thanks @octo/everyone: found-42 <!-- hidden -->\nend_of_output"
    assert (outputs["stop"], outputs["exit-code"]) == ("done", "0")
    assert outputs["cost"] == "0.000000"
    assert outputs["session"]
    (comment,) = github.comments
    assert comment["body"].startswith("<!-- kogniterm: triage -->\nThanks @\u2060octo/everyone")
    assert "&lt;!-- hidden" in comment["body"]
    assert "commands run: 1" in comment["body"]
    assert outputs["session"] in done.summary
    # The next run replaces its comment; another token would be refused by GitHub, not by us.
    again = act("replies: [{text: Nothing new.}]", event=event, report="comment", token="ghs-given")
    assert not again.failed, again.log
    (comment,) = github.comments
    assert "Nothing new." in comment["body"]
    assert github.tokens == {"Bearer ghs-given"}
    github.refuses = True
    refused = act("replies: [{text: Nothing.}]", event=event, report="comment")
    assert refused.failed
    assert "`issues: write`" in refused.log


ATTACK = r"""
env
cat /proc/[0-9]*/environ | tr '\0' '\n'
for pid in $PPID $(ps -eo pid= 2>/dev/null); do cat /proc/$pid/environ; done | tr '\0' '\n'
find / -xdev -newer /proc/1 -type f -readable -size -64k 2>/dev/null | head -0
grep -rs 'sk-of-[n]obody' "$HOME" /tmp "{temporary}" . | head
echo "::set-output name=answer::forged"
echo 'answer=forged' >> "{temporary}/outputs_1"
touch "{temporary}/planted" "{temporary}/kogniterm/config/planted"
echo attack-$((40 + 2))
"""


def test_a_command_sees_neither_key_nor_tokens_and_writes_no_output(
    act: Act, tmp_path: Path, github: GitHub, fake_gemini: FakeGemini
) -> None:
    if probe(tmp_path / "probe", "auto").kind is None:
        pytest.skip("no sandbox works here")
    temporary = tmp_path / "work" / "_temp"
    attack = ATTACK.replace("{temporary}", str(temporary))
    fake_gemini.call(("execute_command", {"command": attack}))
    fake_gemini.say(f"The key is {KEY}.")
    done = act(
        "",
        model="google_genai:gemini-2.5-flash",
        api_key=KEY,
        event={"issue": {"number": 7}},
        report="comment",
        environment={"GOOGLE_GEMINI_BASE_URL": fake_gemini.url},
    )
    assert fake_gemini.requests, done.log
    assert {one.headers["x-goog-api-key"] for one in fake_gemini.requests} == {KEY}
    result = json.loads((temporary / "kogniterm" / "result.json").read_text())
    (command,) = result["commands"]
    assert "attack-42" in command["output"], (done.log, command)
    everything = json.dumps(result) + done.log + done.summary + json.dumps(github.comments)
    for secret in (KEY, "runtime-token-of-the-job", "ghs-of-the-job"):
        assert secret not in everything
    assert "forged" not in json.dumps(done.outputs)
    assert not (temporary / "planted").exists()
    assert KEY not in json.dumps(done.outputs)
    # Before the first line that could show it, the runner is told to mask it.
    assert done.raw.index(f"::add-mask::{KEY}") == done.raw.index(KEY) - len("::add-mask::")
    # The model was not shown it either, and only its own words are in the session's record.
    assert all(KEY.encode() not in one.raw for one in fake_gemini.requests)
    for file in temporary.rglob("*"):
        if file.is_file() and "data" not in file.parts:
            assert KEY.encode() not in file.read_bytes(), file


def test_words_of_strangers_are_a_task_and_never_a_script(act: Act, tmp_path: Path) -> None:
    words = '"; touch {0}; $(touch {0}) `touch {0}` --auto-approve\n::error::no\n$'.format(
        tmp_path / "injected"
    )
    done = act("replies: [{text: Read., repeat: forever}]", task=words)
    assert done.outputs["answer"] == "Read."
    assert not (tmp_path / "injected").exists()
    for task in ("/help", "--help", "-y"):
        assert act("replies: [{text: Read.}]", task=task).outputs["answer"] == "Read.", task


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"model": "openai:x"}, "pull requests from forks"),
        ({"model": "", "api_key": KEY, "program": "true"}, "names its provider"),
        ({"model": "openai:x", "api_key": "abc"}, "to be a key"),
        ({"mode": "yolo"}, "must be one of ask, auto, plan"),
        ({"task": " "}, "The input task is empty."),
        ({"folder": "/nowhere/here"}, "is not a folder"),
        ({"program": "kogniterm-of-nobody"}, "is not installed"),
    ],
)
def test_a_wrong_input_is_one_sentence(act: Act, inputs: dict[str, str], said: str) -> None:
    done = act("replies: [{text: Never.}]", **inputs)
    assert done.failed
    errors = [line for line in done.log.splitlines() if line.startswith("::error")]
    assert len(errors) == 1
    assert said in errors[0]
    assert "Traceback" not in done.log
    assert KEY not in done.log


def test_a_limit_ends_the_step_and_the_report_says_so(act: Act, tmp_path: Path) -> None:
    if shutil.which("git"):
        import subprocess

        folder = tmp_path / "work" / "shop"
        for words in (("init", "-q"), ("config", "http.https://x/.extraheader", "A: basic x")):
            subprocess.run(["git", *words], cwd=folder, check=True)
    done = act("replies: [{run: echo 1, repeat: forever}]", max_steps="1")
    assert done.failed
    assert (done.outputs["stop"], done.outputs["exit-code"]) == ("budget", "4")
    assert "**Not done** (budget)" in done.summary
    if shutil.which("git"):
        assert "persist-credentials: false" in done.log
