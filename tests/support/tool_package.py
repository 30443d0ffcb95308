"""A real package with tools: a wheel built here, and installed by pip into a folder."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

MODULE = '''
from pathlib import Path
from typing import Annotated

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.tools import tool

RAN = []


@tool(effect="none")
def count_words(text: str, least: Annotated[int, Field(ge=1, description="letters")] = 1) -> str:
    """Count the words of a text.

    This paragraph is for readers of the code.
    """
    RAN.append(text)
    return str(sum(len(word) >= least for word in text.split())) + " words, AKIAIOSFODNN7EXAMPLQ"


@tool(effect="edit")
async def stamp(path: str) -> str:
    """Write a stamp into a file."""
    Path(path).write_text("stamped")
    return "done"


@tool(effect="network", hosts=("stamps.example.org",), programs=("sh",))
def send_stamp(to: str) -> str:
    """Send a stamp."""
    raise ToolError("{to} has no post office.", to=to)


@tool(effect="none")
def breaks() -> str:
    """Break."""
    raise ValueError("broken \\x1b[31m inside")


@tool(effect="none")
def gives_number() -> str:
    """Return what is no text."""
    return 7


@tool(effect="none", programs=("no-such-program-here",))
def needs_program() -> str:
    """Need a program."""
    return ""


@tool(effect="none", name="read_file")
def clashes() -> str:
    """Clash."""
    return ""


@tool(effect="none")
def untyped(text) -> str:
    """Take anything."""
    return ""


@tool(effect="edit")
def edits_nothing() -> str:
    """Edit without a path."""
    return ""


@tool(effect="magic")
def magic() -> str:
    """Do magic."""
    return ""


@tool(effect="none")
def silent(text: str) -> str:
    return ""


def unmarked(text: str) -> str:
    """Count."""
    return ""


NUMBER = 7
'''
GOOD = ("count_words", "stamp", "send_stamp", "breaks", "gives_number")
BAD = {
    "needs_nothing": "acme.nothing:here",
    "clashes": "acme.tools:clashes",
    "untyped": "acme.tools:untyped",
    "edits_nothing": "acme.tools:edits_nothing",
    "magic": "acme.tools:magic",
    "silent": "acme.tools:silent",
    "unmarked": "acme.tools:unmarked",
    "number": "acme.tools:NUMBER",
    "missing": "acme.tools:missing",
    "fails": "acme.fails:run",
    "leaves": "acme.leaves:run",
    "bad name": "acme.tools:count_words",
}
MODULES = {
    "acme/__init__.py": "",
    "acme/tools.py": MODULE,
    "acme/fails.py": "raise RuntimeError('no licence')\n",
    "acme/leaves.py": "raise SystemExit(3)\n",
}


def install(
    target: Path,
    entries: Mapping[str, str] | None = None,
    *,
    name: str = "acme-tools",
    modules: Mapping[str, str] = MODULES,
) -> Path:
    """Build a wheel with these entry points, and let pip install it into `target`."""
    entries = {one: f"acme.tools:{one}" for one in GOOD} if entries is None else entries
    target.mkdir(exist_ok=True)
    info = f"{name.replace('-', '_')}-1.2.dist-info"
    wheel = target.parent / f"{name.replace('-', '_')}-1.2-py3-none-any.whl"
    points = "".join(f"{key} = {value}\n" for key, value in entries.items())
    files = {
        **modules,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[kogniterm.tools]\n{points}" if points else "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
        archive.writestr(f"{info}/RECORD", record)
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
            "--disable-pip-version-check", "--upgrade", "--target", str(target), str(wheel),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return target
