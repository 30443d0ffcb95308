"""Libraries that are not loaded: stand-ins compared with the real ones, and real runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.fake_gemini import FakeGemini

KEEP_OUT = "from kogniterm.host.unused_libraries import keep_out; keep_out()\n"
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
    """Check that LangSmith and its SDK are loaded without the parts that are never used."""
    assert {"langsmith", "langsmith.run_helpers", "langgraph_sdk"} <= modules
    assert not modules & {"langsmith.client", "langsmith.schemas", "langgraph_sdk.client"}
    assert not modules & {"prompt_toolkit.shortcuts", "snowballstemmer.arabic_stemmer"}


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
    assert not modules & {"_ssl", "http", "langgraph_sdk.auth.exceptions"}


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


def test_the_client_of_the_server_is_loaded_at_its_first_use() -> None:
    code = """
import sys
from langgraph_sdk.auth.types import BaseUser
kept = "langgraph_sdk.client" not in sys.modules
import langgraph_sdk
from langgraph_sdk.client import get_client
assert langgraph_sdk.get_client is get_client
print(kept, langgraph_sdk.__version__, type(langgraph_sdk).__name__)
"""
    assert python(code).startswith("False ")
    assert python(KEEP_OUT + code) == python(code).replace("False", "True")


ENCRYPTED = """
import asyncio, ssl, sys
print("_ssl" in sys.modules, "SSLProtocol" in vars(asyncio.sslproto))
def context(side):
    made = ssl.SSLContext(side)
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")  # needs no certificate
    return made
async def main():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context(ssl.PROTOCOL_TLS_SERVER))
    port = server.sockets[0].getsockname()[1]
    client = context(ssl.PROTOCOL_TLS_CLIENT)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    writer.write(b"hello\\n")
    print(await reader.read(), writer.get_extra_info("cipher"))
    writer.close()
    server.close()
asyncio.run(main())
print(type(ssl).__name__, ssl.__file__, isinstance(asyncio.sslproto, type(sys)))
"""


def test_encrypted_connections_load_what_they_need() -> None:
    said = [python(before + ENCRYPTED) for before in ("", KEEP_OUT)]
    assert said[0].startswith("True True\nb'hello")
    assert said[1] == said[0].replace("True True", "False False", 1)


def test_threads_that_use_a_package_at_once_all_see_it_whole() -> None:
    code = """
import ssl, sys, threading
sys.setswitchinterval(1e-6)
begin, found = threading.Barrier(8), []
def use():
    begin.wait()
    found.append(ssl.create_default_context and ssl.SSLContext)
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(found)), found[0])
"""
    assert python(KEEP_OUT + code) == "8 1 <class 'ssl.SSLContext'>\n"


def test_types_of_the_server_are_the_real_ones_where_they_are_used() -> None:
    code = """
from langgraph.runtime import BaseUser
from langgraph_sdk import auth
class User:
    identity = display_name = "a"
    is_authenticated, permissions = True, ()
    def __getitem__(self, key): return "a"
    def __contains__(self, key): return True
    def __iter__(self): return iter(())
print(isinstance(User(), BaseUser), isinstance(1, BaseUser), auth.types.BaseUser.__module__)
"""
    assert python(KEEP_OUT + code) == python(code) == "True False langgraph_sdk.auth.types\n"


def test_packages_are_the_real_ones_from_the_first_use_of_a_name() -> None:
    code = """
import sys
import prompt_toolkit.application, snowballstemmer.english_stemmer
parts = {"prompt_toolkit.shortcuts", "snowballstemmer.arabic_stemmer"} & set(sys.modules)
print(len(parts), snowballstemmer.stemmer("english").stemWord("running"))
print(prompt_toolkit.__version__, prompt_toolkit.PromptSession)
for package in (prompt_toolkit, snowballstemmer):
    print(sorted(name for name in dir(package) if name[0] != "_"), type(package).__name__)
"""
    assert python(code).startswith("2 run")
    before = "import prompt_toolkit.shortcuts, snowballstemmer\n"
    assert python(KEEP_OUT + code) == python(before + code).replace("2", "0", 1)


def test_each_module_of_prompt_toolkit_can_be_the_first_to_be_imported() -> None:
    package = Path(__file__).parents[2] / "kogniterm"
    named = re.compile(r"(?m)^ *from (prompt_toolkit[\w.]*) import")
    used = {name for file in package.rglob("*.py") for name in named.findall(file.read_text())}
    assert len(used) > 10
    code = f"""
import importlib, os
for name in {sorted(used)}:
    if os.fork() == 0:
        importlib.import_module(name)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""
    python(KEEP_OUT + code)


STREAMED = """
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
model = GenericFakeChatModel(messages=iter([AIMessage(content="one two", id="1")]))
events = list(model.stream_events("go", version="v3"))
from langchain_core.language_models._compat_bridge import MessageStartData, UsageInfo
print(events, MessageStartData(event="message-start", role="ai"), type(UsageInfo()))
"""
VERSIONS = """
import pydantic, pytest
from langchain_core.utils.utils import check_package_version
check_package_version("pydantic", gte_version="2.0")
with pytest.raises(ValueError):
    check_package_version("pydantic", lt_version="2.0")
"""


def test_messages_of_the_streaming_protocol_are_the_same() -> None:
    # A message has a random ID.
    random = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
    said = [random.sub("", python(before + STREAMED)) for before in ("", KEEP_OUT)]
    assert "message-start" in said[0]
    assert said[0] == said[1]


def test_versions_of_packages_are_found_when_they_are_asked_for() -> None:
    python(VERSIONS)
    python(KEEP_OUT + VERSIONS)


WATCHER = """
print("loaded")
def new_schema_validator(*_schema, **_more):
    return None, None, None
"""


def test_plugins_of_pydantic_are_not_loaded(tmp_path: Path) -> None:
    about = tmp_path / "watcher-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: watcher\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pydantic]\nwatcher = watcher\n")
    (tmp_path / "watcher.py").write_text(WATCHER)
    code = "import pydantic\nclass A(pydantic.BaseModel):\n    x: int\n"
    said = [python(before + code, PYTHONPATH=str(tmp_path)) for before in ("", KEEP_OUT)]
    assert said == ["loaded\n", ""]


OLD_MODELS = """
import sys
from langchain_core.utils import pydantic as asked
import pydantic
class New(pydantic.BaseModel):
    a: int = 1
def told(model):
    fields = sorted(asked.get_fields(model))
    is_old = asked.is_pydantic_v1_subclass(model)
    is_any = asked.is_basemodel_subclass(model), asked.is_basemodel_instance(model())
    return is_old, is_any, fields
print(told(New), isinstance(New(), asked.PydanticBaseModel), asked.is_basemodel_instance(1))
loaded = "pydantic.v1" in sys.modules
import pydantic.v1
class Old(pydantic.v1.BaseModel):
    a: int = 1
    b: int = 2
part = asked._create_subset_model("Part", Old, ["b"])
print(told(Old), told(part), told(New), issubclass(part, pydantic.v1.BaseModel), part().b)
print(loaded)
"""


def test_models_of_pydantic_1_are_known_as_such_once_there_are_any() -> None:
    real, kept_out = python(OFF + OLD_MODELS), python(KEEP_OUT + OLD_MODELS)
    assert real.endswith("True\n")
    assert kept_out == real.removesuffix("True\n") + "False\n"
