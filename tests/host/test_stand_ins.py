"""The stand-ins, compared with the real packages, and real runs with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.fake_gemini import FakeGemini

KEEP_OUT = "from kogniterm.host.stand_ins import keep_out; keep_out()\n"
OFF = "import langsmith; langsmith.configure(enabled=False)\n"
ASKED = """
import json
from langsmith import get_tracing_context
from langsmith.run_helpers import _set_tracing_context, get_tracing_context as again
from langsmith.utils import tracing_is_enabled
print(json.dumps([get_tracing_context(), again(), tracing_is_enabled()]))
_set_tracing_context({"parent": None, "enabled": None})
assert not tracing_is_enabled()
"""
TRACED = """
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers import BaseTracer
class Told(BaseTracer):
    def _persist_run(self, run):
        print(type(run).__module__, run.name, run.inputs, run.outputs, bool(run.end_time))
RunnableLambda(str.upper).invoke("a", config={"callbacks": [Told()]})
"""
RUN = """
import sys
from kogniterm.__main__ import main
sys.argv = ["kogniterm", *sys.argv[1:]]
status = main()
print()
import json
print(json.dumps([status, sorted(sys.modules)]))
"""


def python(code: str, *words: str, **environ: str) -> str:
    """Return the output of `code` in its own process, with tracing on in the environment."""
    traced = {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": "http://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **traced, **environ},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(*words: str, home: Path, **environ: str) -> tuple[int, set[str]]:
    """Return the exit status of `kogniterm WORDS`, and the modules that it loaded."""
    said = python(RUN, *words, HOME=str(home), **environ)
    status, modules = json.loads(said.splitlines()[-1])
    return status, set(modules)


def assert_kept_out(modules: set[str]) -> None:
    """Check that LangSmith was asked for, and its client not loaded."""
    assert {"langsmith", "langsmith.run_helpers"} <= modules
    assert not modules & {"langsmith.client", "langsmith.schemas", "langgraph_sdk.client"}


def test_langsmith_says_the_same_with_tracing_off() -> None:
    answers: list[Any] = [json.loads(python(before + ASKED)) for before in (OFF, KEEP_OUT)]
    assert answers[0] == answers[1]
    assert answers[0][2] is False


def test_a_scripted_run_loads_none_of_it(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("replies: [{run: 'true', purpose: Look}, {text: Done.}]")
    words = ("run", "--auto-approve", "--no-sandbox", "--model", f"scripted:{script}", "go")
    status, modules = loaded(*words, home=tmp_path)
    assert status == 0
    assert_kept_out(modules)
    assert not modules & {"requests.models", "urllib3", "websockets"}


def test_a_run_with_gemini_loads_none_of_it(tmp_path: Path, fake_gemini: FakeGemini) -> None:
    fake_gemini.say("Hello.")
    status, modules = loaded(
        *("run", "--model", "google_genai:gemini-2.5-flash", "greet me"),
        home=tmp_path,
        GOOGLE_API_KEY="a-key",
        KOGNITERM_GOOGLE_BASE_URL=fake_gemini.url,
    )
    assert status == 0
    assert "langchain_google_genai" in modules
    assert_kept_out(modules)


def test_a_run_is_traced_by_the_real_class() -> None:
    """langchain-core's tracer uses LangSmith's real class when tracing is on."""
    said = [python(before + TRACED) for before in ("", KEEP_OUT)]
    assert said[0] == said[1]
    assert "langsmith.run_trees" in said[0]


def test_who_needs_more_gets_the_real_package_with_tracing_off() -> None:
    code = """
import langchain_core.runnables
from langsmith.client import Client
from langsmith import traceable, utils
import langsmith
assert langsmith.Client is Client and not utils.tracing_is_enabled()
print(traceable(lambda: "called")())
"""
    assert python(KEEP_OUT + code) == "called\n"


def test_langgraph_works_with_and_without_the_real_packages() -> None:
    code = """
import operator, sys
from typing import Annotated, TypedDict
import requests as imported_early
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph._internal._retry import default_retry_on
State = TypedDict("State", {"n": Annotated[int, operator.add]})
def node(state, runtime: Runtime[dict]):
    assert get_runtime().context == runtime.context
    return {"n": runtime.context["add"]}
graph = StateGraph(State, context_schema=dict)
graph.add_node("node", node)
graph.add_edge(START, "node")
graph.add_edge("node", END)
print(graph.compile().invoke({"n": 1}, context={"add": 2}), default_retry_on(OSError()))
print(any(name.startswith(("urllib3", "langgraph_sdk.client")) for name in sys.modules))
import requests.adapters
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk.auth.types import BaseUser
reply = imported_early.Response()
reply.status_code = 503
error = imported_early.HTTPError(response=reply)
print(default_retry_on(error), isinstance(error, requests.exceptions.HTTPError))
print(RemoteGraph.__module__, BaseUser.__module__)
"""
    real, stood_in = (python(before + code).splitlines() for before in ("", KEEP_OUT))
    assert [real.pop(1), stood_in.pop(1)] == ["True", "False"]
    assert stood_in == real


THREADS = """
import sys, threading
from kogniterm.host.stand_ins import keep_out
sys.setswitchinterval(1e-6)
def use():
    begin.wait()
    try:
        found.append(langsmith.traceable)
    except KeyError as error:
        found.append(error)
for _ in range(200):
    sys.modules.pop("langsmith", None)
    keep_out()
    import langsmith
    begin, found = threading.Barrier(8), []
    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert len(set(found)) == 1, found
"""


def test_threads_that_need_the_real_package_at_once_get_the_same(tmp_path: Path) -> None:
    # A small package in its place, so that it can be loaded 200 times.
    (tmp_path / "langsmith.py").write_text(
        "def configure(**_): pass\ndef traceable(call): return call\n"
    )
    python(THREADS, PYTHONPATH=str(tmp_path))
