"""The core without an add-on, and without any: its folder and its rows are deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kogniterm
from tests.support.core_copy import ADD_ONS, delete_rows

PACKAGE = Path(kogniterm.__file__).parent
JOURNEY = """
import contextlib, importlib, io, pkgutil, sys
import kogniterm
from kogniterm.__main__ import main
from kogniterm.errors import ModelKeyMissingError
from kogniterm.models.calling import ModelOptions
from kogniterm.models.model_registry import default_name

for module in pkgutil.walk_packages(kogniterm.__path__, "kogniterm."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
status = main()
shown = []
for words in ("--help", "sessions export --help"):
    sys.argv[1:] = words.split()
    with contextlib.redirect_stdout(io.StringIO()) as page:
        main()
    shown.append(page.getvalue())
try:
    print(default_name(ModelOptions()))
except ModelKeyMissingError as error:
    print(error)
print(kogniterm.__path__[0])
verbs = ("warm", "queue", "recipe", "hosts")
print(*(f" {verb} " in shown[0] for verb in verbs), "atif" in shown[1])
sys.exit(status)
"""


@pytest.mark.parametrize("deleted", [[one] for one in ADD_ONS] + [ADD_ONS], ids="-".join)
def test_the_rest_is_imported_and_does_a_task(tmp_path: Path, deleted: list[str]) -> None:
    own = tmp_path / "kogniterm"
    shutil.copytree(PACKAGE, own, ignore=shutil.ignore_patterns("__pycache__"))
    prompts = PACKAGE.parent / "prompts"
    shutil.copytree(prompts if prompts.is_dir() else PACKAGE / "_prompts", tmp_path / "prompts")
    for folder in deleted:
        shutil.rmtree(own / "addons" / folder)
        delete_rows(own / "addons" / "table.py", folder)
    work = tmp_path / "work"
    work.mkdir()
    script = tmp_path / "script.yaml"
    script.write_text("replies: [{run: touch made}, {text: Done.}]")
    done = subprocess.run(
        [sys.executable, "-c", JOURNEY, "run", "-y", "--model", f"scripted:{script}", "go"],
        cwd=work, env={"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"],
                           "PYTHONPATH": str(tmp_path), "TMPDIR": os.environ["TMPDIR"]},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (work / "made").exists()
    model, *rest = done.stdout.splitlines()[-3:]
    if "local_model" in deleted:
        assert model == (
            "No model is configured. Run `kogniterm login`, or set GOOGLE_API_KEY, "
            "OPENAI_API_KEY, ANTHROPIC_API_KEY or OLLAMA_HOST."
        )
    with_signs = ("warm", "fleet", "recipes", "hosts", "trajectory")
    assert rest == [
        str(own),
        " ".join(str(one not in deleted) for one in with_signs),
    ]
