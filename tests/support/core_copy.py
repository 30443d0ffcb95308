"""A copy of the checkout without add-ons: their folders, their rows and their tests are deleted.

    python -m tests.support.core_copy FOLDER [ADD-ON…]

Without names all add-ons are deleted. The copy has an environment of its own, `.venv`, whose
packages are those of this one, so that programs which tests start are those of the copy.
"""

from __future__ import annotations

import ast
import shutil
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADD_ONS = sorted(one.parent.name for one in ROOT.glob("kogniterm/addons/*/__init__.py"))
MADE = (".venv", ".git", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "*.so")


def copy_without(deleted: Sequence[str], copy: Path) -> None:
    """Write a copy of the checkout without some add-ons."""
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*MADE))
    for folder in deleted:
        shutil.rmtree(copy / "kogniterm" / "addons" / folder)
        shutil.rmtree(copy / "tests" / "addons" / folder)
        delete_rows(copy / "kogniterm" / "addons" / "table.py", folder)


def delete_rows(table: Path, folder: str) -> None:
    """Delete the rows of the table that name a part of `kogniterm.addons.FOLDER`."""
    lines = table.read_text("utf-8").splitlines()
    for node in ast.parse(table.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            rows = [one for one in node.value.elts if f"addons.{folder}." not in ast.unparse(one)]
            kept = ast.unparse(ast.Tuple(rows, ast.Load()))
            lines[node.lineno - 1] = f"{ast.unparse(node.targets[0])} = {kept}"
            for number in range(node.lineno, node.end_lineno or node.lineno):
                lines[number] = ""
    table.write_text("\n".join(lines), "utf-8")


def add_environment(copy: Path) -> None:
    """Make an environment in the copy, with the packages and programs of this one."""
    made = copy / ".venv"
    venv.create(made, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(made)}))
    paths = (copy, copy / "packaging" / "harbor", sysconfig.get_path("purelib"))
    (packages / "copy.pth").write_text("".join(f"{path}\n" for path in paths), "utf-8")
    here = Path(sys.executable).parent
    for program in here.iterdir():
        own = made / "bin" / program.name
        if not own.exists():
            text = program.read_bytes()
            own.write_bytes(text.replace(f"#!{here}/".encode(), f"#!{made}/bin/".encode(), 1))
            own.chmod(0o755)


if __name__ == "__main__":
    target = Path(sys.argv[1]).absolute()
    copy_without(sys.argv[2:] or ADD_ONS, target)
    add_environment(target)
