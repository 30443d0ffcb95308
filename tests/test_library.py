"""The stable interfaces work as docs/library.md shows."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

from kogniterm import approval

PAGE = Path(__file__).resolve().parents[1] / "docs" / "library.md"


def test_the_examples_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"KOGNITERM_{kind}_DIR", str(tmp_path / kind.lower()))
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 30
    assert not failed


def test_each_name_of_approval_is_the_one_of_its_module() -> None:
    stub = Path(approval.__file__).with_suffix(".pyi").read_text("utf-8")
    told = re.findall(r"^from ([\w.]+) import (\w+) as \2$", stub, re.MULTILINE)
    assert len(told) > 30
    for module, name in told:
        assert getattr(approval, name) is getattr(import_module(module), name)
    assert not hasattr(approval, "other")
