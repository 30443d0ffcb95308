"""Loading the warm server: no state that sessions would share, and none of a caller."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from kogniterm.addons.warm.warm_place import VERBS, interpreter_variables, plain_variables
from kogniterm.cli import options

LOAD = """
import importlib, json, os, sys
from kogniterm.addons.warm.warm_place import CLIENT_LIBRARIES
from kogniterm.addons.warm.warm_server import PRELOADED
from kogniterm.host.stand_ins import keep_out

def load():
    keep_out()
    for module in (*PRELOADED, *CLIENT_LIBRARIES):
        importlib.import_module(module)
"""
WATCHED = """
asked, real = set(), os._Environ.__getitem__

def get(environ, name):
    asked.add(name)
    return real(environ, name)

os._Environ.__getitem__ = get
load()
print(json.dumps(sorted(asked)))
"""
STATE = """
load()
import asyncio, concurrent.futures, gc, io, logging, random, socket, sqlite3, ssl, tempfile
import threading
kinds = (
    asyncio.AbstractEventLoop, concurrent.futures.Executor, io.IOBase, logging.FileHandler,
    socket.socket, sqlite3.Connection, ssl.SSLContext, threading.Thread,
)
made = [repr(one) for one in gc.get_objects() if isinstance(one, kinds)]
descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
print(json.dumps([made, tempfile.tempdir, max(descriptors), logging.root.handlers]))
"""
OF_OPENAI = {"AZURE_OPENAI_ENDPOINT", "OPENAI_API_TYPE", "OPENAI_API_VERSION", "SSLKEYLOGFILE"}
"""Variables of a client of the module openai, and of the context by which its LangChain client
measures images of the web: no session uses either."""
KINDS = ("random", "uuid4", "uuid7", "temporary name")
FORKS = """
load()
import random, tempfile, uuid
from langchain_core.utils.uuid import uuid7
for _ in range(20):
    if (pid := os.fork()) == 0:
        print(random.random(), uuid.uuid4(), uuid7(), tempfile.mktemp(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def python(code: str) -> str:
    """Return the output of `code` after `LOAD`, in its own process."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD + code],
        env={"HOME": os.environ["HOME"], "LANG": "C.UTF-8", "TMPDIR": os.environ["TMPDIR"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_variable_that_is_read_while_libraries_are_loaded_is_the_same_for_a_server() -> None:
    # A release of a library that reads another one needs it in the table.
    asked = set(json.loads(python(WATCHED))) - {"HOME"} - OF_OPENAI
    assert asked
    assert [
        name
        for name in sorted(asked)
        if not plain_variables({name: "1"}) and not interpreter_variables({name: "1"})
    ] == []


def test_loading_makes_nothing_that_sessions_would_share() -> None:
    made, temporary, highest, handlers = json.loads(python(STATE))
    standard = ("<stdin>", "<stdout>", "<stderr>", "_MainThread")
    others = [one for one in made if not any(name in one for name in standard)]
    assert [one.partition(" object")[0] for one in others] == ["<ssl.SSLContext"]  # of OF_OPENAI
    assert (temporary, highest <= 3, handlers) == (None, True, [])


def test_sessions_draw_their_own_random_numbers() -> None:
    drawn = [line.split() for line in python(FORKS).splitlines()]
    assert len(drawn) == 20
    for kind, column in zip(KINDS, zip(*drawn, strict=True), strict=True):
        assert len(set(column)) == 20, kind


def test_the_verbs_that_start_warm_exist() -> None:
    assert {*VERBS} <= {verb.name for verb in options.VERBS}
