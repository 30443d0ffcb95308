"""The gate on CPU time fails for a slower KogniTerm, and the results name no machine."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.bench import machine, table, tables, write
from benchmarks.rows import Row

ROOT = Path(__file__).resolve().parents[2]
SLOW = "\nfor _ in range(6_000_000):\n    pass\n"


def gate(checkout: Path) -> subprocess.CompletedProcess[str]:
    words = ["-m", "benchmarks.gate", "--only", "version", "--checkout", str(checkout)]
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)


def test_slow_import_fails_the_gate_and_this_checkout_does_not(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "kogniterm", tmp_path / "kogniterm")
    shutil.copytree(ROOT / "prompts", tmp_path / "prompts")
    fast = gate(tmp_path)
    assert fast.returncode == 0, fast.stdout + fast.stderr
    changed = tmp_path / "kogniterm" / "host" / "checkout.py"
    changed.write_text(changed.read_text() + SLOW)
    slow = gate(tmp_path)
    assert slow.returncode == 1, slow.stdout + slow.stderr
    assert "TOO MUCH CPU TIME" in slow.stdout


def test_agents_are_columns_of_their_environment() -> None:
    found = [
        Row(
            "first answer", "s", 0.5, {"KogniTerm warm": 0.25, "codex": 1}, environment="container"
        ),
        Row("sandboxed", "s", 2, {"codex": 4}, environment="container"),
        Row("x", "MB", 1),
    ]
    assert tables(found) == [
        "| container | unit | KogniTerm plain | KogniTerm warm | codex |",
        "|---|---|---:|---:|---:|",
        "| first answer | s | 0.5 | 0.25 | 1 |",
        "| sandboxed | s | 2 | – | 4 |",
        "",
        *table(found[2:]),
    ]


def test_page_has_ratios_and_no_name_of_the_machine(tmp_path: Path) -> None:
    found = [
        Row("a step", "ms", 12.0, {"LangGraph loop": 6.0, "bash": 3.0}, "12"),
        Row("x", "MB", 1),
    ]
    assert table(found)[2:] == [
        "| a step | 12 ms | 12 | LangGraph loop 6 | 2.00 |",
        "|  |  |  | bash 3 | 4.00 |",
        "| x | 1 MB |  |  |  |",
    ]
    page = write(found, machine(), tmp_path)
    data = json.loads(page.with_suffix(".json").read_text())
    assert data["rows"][0]["floors"] == {"LangGraph loop": 6.0, "bash": 3.0}
    for text in (page.read_text(), json.dumps(data)):
        assert platform.node() not in text
