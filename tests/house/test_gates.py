"""The package passes every gate, and every gate detects a planted violation."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house import gates
from tests.house.source import Tree, checkout

ROOT = Path(__file__).resolve().parents[2]

HEADER = '"""A module."""\n'

TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
METHODS = "".join(f"    def m{number}(self): ...\n" for number in range(21))

# gate, file below the package, text that breaks the rule
PLANTED: tuple[tuple[Callable[[Tree], list[str]], str, str], ...] = (
    (gates.layers, "errors.py", "from kogniterm.runtime import turn\n"),
    (gates.layers, "models/x.py", "def f():\n    from kogniterm.sessions import fold\n"),
    (gates.layers, "runtime/x.py", "from ..ui import repl\n"),
    (gates.layers, "settings.py", "from kogniterm import memory\n"),
    (gates.folder_layers, "ui/screen/x.py", "from kogniterm.ui.questions import panel\n"),
    (gates.folder_layers, "ui/x.py", "import kogniterm.ui.app\n"),
    (gates.folder_layers, "runtime/services/x.py", "from kogniterm.runtime import turn\n"),
    (gates.folder_layers, "memory/x.py", "from kogniterm.memory import open_memory\n"),
    (gates.folder_layers, "memory/x.py", "from kogniterm.memory.extract import extract\n"),
    (gates.folder_layers, "execution/shell/x.py", "from kogniterm.execution import undo\n"),
    (gates.unknown_parts, "utils.py", ""),
    (gates.agent_cannot_act, "agent/x.py", "import subprocess\n"),
    (gates.agent_cannot_act, "agent/x.py", "from kogniterm import prompts\n"),
    (gates.pure_parts, "approval/x.py", "def f():\n    import os\n"),
    (gates.pure_parts, "types.py", "from langchain_core.messages import AIMessage\n"),
    (gates.pure_parts, "types/x.py", "import os\n"),
    (gates.package_owners, "runtime/x.py", "from rich.console import Console\n"),
    (gates.package_owners, "models/x.py", "import sqlite3\n"),
    (gates.package_owners, "cli/verbs/x.py", "import argparse\n"),
    (gates.package_owners, "agent/x.py", "import google.genai\n"),
    (gates.package_owners, "agent/x.py", "import yaml\n"),
    (
        gates.extension_port,
        "runtime/gate.py",
        "def f():\n    from kogniterm.runtime.extensions.hooks import hook_points\n",
    ),
    (gates.turn_drivers, "runtime/x.py", "def f(a, s):\n    run(TurnIO(a, s))\n"),
    (gates.light_roots, "models/__init__.py", "import langchain_google_genai\n"),
    (gates.light_roots, "cli/main.py", "from kogniterm.runtime import turn\n"),
    (gates.no_cycles, "sessions/__init__.py", "from kogniterm.sessions import other\n"),
    (gates.no_cycles, "sessions/__init__.py", TYPES + "    from kogniterm.sessions import other\n"),
    (gates.full_classes, "runtime/x.py", "class Full:\n    'Doc.'\n" + METHODS),
    (gates.small_modules, "runtime/x.py", "from kogniterm.runtime import turn\n"),
    (gates.repeated_names, "runtime/fold.py", ""),
    (gates.repeated_classes, "runtime/x.py", "class _SessionRow:\n    pass\n"),
    (gates.unused_names, "runtime/x.py", "def public():\n    'Do nothing.'\n"),
    (gates.environment_owner, "cli/x.py", "import os\nHOME = os.environ['HOME']\n"),
    (gates.environment_owner, "cli/x.py", "from os import getenv\n"),
    (gates.environment_changes, "settings/x.py", "import os\nos.environ['NO_PROXY'] = ''\n"),
    (gates.environment_changes, "settings/x.py", "import os\nos.environ.update(before)\n"),
    (gates.process_owner, "runtime/x.py", "def f(pid):\n    return open(f'/proc/{pid}/stat')\n"),
    (gates.events_told_apart, "acp/x.py", "def f(it):\n    return isinstance(it, ev.Notice)\n"),
    (
        gates.events_told_apart,
        "acp/x.py",
        "class Sink(EventVisitor):\n    def on_job_left(self, event: ev.JobsLeft): ...\n",
    ),
    (gates.walk_owner, "runtime/x.py", "def f(path):\n    return path.rglob('*')\n"),
    (
        gates.record_readers,
        "runtime/x.py",
        "from kogniterm.sessions.records import Outcome\n"
        "def f(record):\n    return isinstance(record.body, Outcome)\n",
    ),
    (
        gates.record_readers,
        "sessions/x.py",
        "from kogniterm.sessions.records import Outcome\n"
        "def f(record):\n    return isinstance(record.body, Outcome)\n",
    ),
    (
        gates.record_readers,
        "ui/x.py",
        "from kogniterm.sessions.records import Intent\n"
        "def f(record):\n    match record.body:\n        case Intent():\n            return 1\n",
    ),
    (gates.user_file_owner, "memory/x.py", "def f(p):\n    return json.loads(p.read_text())\n"),
    (gates.user_file_owner, "memory/x.py", "def f(text):\n    return tomllib.loads(text)\n"),
    (gates.program_owner, "tools/x.py", "import subprocess\nsubprocess.run(['/bin/true'])\n"),
    (gates.tool_message_owner, "runtime/x.py", "m = messages.ToolMessage('x')\n"),
    (gates.stream_owners, "cli/x.py", "print('x')\n"),
    (gates.metaphors, "ui/x.py", "class KeyboardLent:\n    pass\n"),
    (gates.bare_participles, "ui/x.py", "def _listed(x):\n    return x\n"),
    (gates.metaphors, "ui/x.py", "x = 1  # what the rooms share\n"),
    (gates.stream_owners, "runtime/x.py", "import sys\nsys.stderr.write('x')\n"),
    (gates.instruction_texts, "agent/x.py", "TOLD = 'Do not run it again.'\n"),
    (
        gates.instruction_texts,
        "memory/x.py",
        "def f(x):\n    return f'{x}. Reply with {x} words alone.'\n",
    ),
    (gates.instruction_texts, "tools/x.py", "tool('a', '(Plan mode. Read and search only.)')\n"),
    (gates.possessive_groups, "text/x.py", 'PATTERN = r"(?:a|b)*+c"\n'),
    (gates.broad_except, "runtime/x.py", "try:\n    f()\nexcept Exception:\n    pass\n"),
    (gates.broad_except, "runtime/x.py", "try:\n    f()\nexcept:\n    pass\n"),
    (
        gates.broad_except,
        "runtime/x.py",
        "try:\n    f()\nexcept (ValueError, Exception):\n    g()\n",
    ),
    (gates.broad_except, "runtime/x.py", "with contextlib.suppress(Exception):\n    f()\n"),
    (gates.reasons_for_exceptions, "runtime/x.py", "import x  # noqa: F401\n"),
    (gates.reasons_for_exceptions, "runtime/x.py", "x = 1  # type: ignore[misc]\n"),
    (gates.sizes, "runtime/x.py", "def f():\n" + "    x = 1\n" * 80),
    (gates.sizes, "runtime/x.py", "def f(x):\n" + "    if x:\n        x = 1\n" * 15),
    (gates.docstrings, "runtime/x.py", "LIMIT = 1\n'Whether it is enough.'\n"),
    (gates.docstrings, "runtime/x.py", "class _Own:\n    ' Nothing, or a name.'\n"),
)


@pytest.fixture(scope="module")
def package() -> Tree:
    return checkout()


@pytest.mark.parametrize("gate", gates.ALL, ids=lambda gate: gate.__name__)
def test_the_package_passes(gate: Callable[[Tree], list[str]], package: Tree) -> None:
    violations = gate(package)
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    ("gate", "file", "text"),
    PLANTED,
    ids=[f"{gate.__name__}-{number}" for number, (gate, _, _) in enumerate(PLANTED)],
)
def test_a_planted_violation_is_found(
    gate: Callable[[Tree], list[str]], file: str, text: str, tmp_path: Path
) -> None:
    plant(tmp_path)
    assert gate(Tree(tmp_path)) == [], "the planted package starts clean"
    target = tmp_path / "kogniterm" / file
    target.parent.mkdir(exist_ok=True)
    target.write_text(HEADER + text, encoding="utf-8")
    assert gate(Tree(tmp_path)), f"{gate.__name__} did not see it"


def test_every_gate_has_been_seen_to_fail() -> None:
    assert {gate for gate, _, _ in PLANTED} == set(gates.ALL)


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "docs", "packaging"])
def test_docstrings_of_other_folders_begin_with_a_noun_or_a_verb(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    parsed = ((file, ast.parse(file.read_text(encoding="utf-8"))) for file in files)
    found = [one for file, tree in parsed for one in gates.openings(file, tree)]
    assert not found, "\n".join(found)


def test_tests_of_the_core_load_no_add_on() -> None:
    """Else they could not run where it is deleted; `make test-core` runs them there."""
    loading = re.compile(
        r"^(?:from|import) (?:kogniterm|tests)(?:\.| import )addons\b", re.MULTILINE
    )
    assert loading.search("import os\nfrom tests.addons.acp.conftest import make_editor\n")
    assert loading.search("from kogniterm import addons\n")
    files = sorted({*ROOT.glob("tests/**/*.py")} - {*ROOT.glob("tests/addons/**/*.py")})
    found = [str(file) for file in files if loading.search(file.read_text("utf-8"))]
    assert not found, "\n".join(found)


def test_a_name_that_only_add_ons_use_is_found_unless_it_is_offered(tmp_path: Path) -> None:
    plant(tmp_path)
    text = "from kogniterm.runtime.turn import offered\noffered()\n"
    files = {"runtime/turn.py": "def offered():\n    'Do nothing.'\n", "addons/x.py": text}
    for name, planted in files.items():
        (tmp_path / "kogniterm" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "kogniterm" / name).write_text(HEADER + planted, encoding="utf-8")
    (found,) = gates.unused_names(Tree(tmp_path))
    assert found.endswith("only add-ons use offered")
    page = tmp_path / "docs" / "architecture.md"
    page.parent.mkdir()
    page.write_text("For them alone it has `offered`.\n", encoding="utf-8")
    assert gates.unused_names(Tree(tmp_path)) == []
    (tmp_path / "kogniterm/runtime/x.py").write_text(HEADER + text, encoding="utf-8")
    assert gates.unused_names(Tree(tmp_path)) == [
        "docs/architecture.md: the core uses offered itself"
    ]


def test_cleaning_up_and_raising_is_no_broad_except(tmp_path: Path) -> None:
    plant(tmp_path)
    text = HEADER + "try:\n    f()\nexcept BaseException:\n    g()\n    raise\n"
    (tmp_path / "kogniterm/runtime/x.py").write_text(text, encoding="utf-8")
    assert gates.broad_except(Tree(tmp_path)) == []


def test_types_for_the_checker_alone_do_not_count_as_reached(tmp_path: Path) -> None:
    plant(tmp_path)
    text = HEADER + "if TYPE_CHECKING:\n    import langchain_core\n"
    (tmp_path / "kogniterm/types.py").write_text(text, encoding="utf-8")
    assert gates.pure_parts(Tree(tmp_path)) == []


def plant(root: Path) -> None:
    """Write a small package in which every rule holds."""
    files = {
        "__init__.py": "",
        "errors.py": "from kogniterm import types\n",
        "types.py": "",
        "settings.py": "import os\ndef environment():\n    '''Read.'''\n    return os.environ\n",
        # Reached by one of the planted imports: does what the agent must not.
        "prompts.py": "import subprocess\n",
        "protocols.py": "from kogniterm import types\n",
        "models/__init__.py": "",
        "agent/__init__.py": "",
        "approval/__init__.py": "",
        "ui/app.py": "",
        "ui/questions.py": "",
        "sessions/__init__.py": "",
        "sessions/fold.py": "class _SessionRow:\n    pass\n",
        "memory/__init__.py": "",
        "memory/extract.py": "",
        "sessions/other.py": "from kogniterm import sessions\n",
        "execution/__init__.py": "",
        "execution/undo.py": "",
        "runtime/__init__.py": "",
        "runtime/turn.py": "import langchain_core\nfrom kogniterm import settings\n",
        "ui/__init__.py": "",
        "ui/repl.py": "",
        "cli/__init__.py": "",
        "cli/main.py": "from kogniterm.settings import environment\nenviron = environment()\n",
    }
    for name, text in files.items():
        file = root / "kogniterm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEADER + text, encoding="utf-8")
