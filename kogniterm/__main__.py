"""Entry point of `kogniterm` and `python -m kogniterm`: as little as possible before the work."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line; returns the exit status."""
    _forget_working_folder()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from kogniterm import __version__

        sys.stdout.write(f"kogniterm {__version__}\n")
        return 0
    from kogniterm.cli.main import main as run

    return run(sys.argv[1:])


def _forget_working_folder() -> None:
    """Keep modules of the working folder from being imported.

    `python -m` and empty entries of PYTHONPATH put it on the module path, where a hostile
    project's `rich.py` would run as soon as ours is imported. The folders that this code, its
    libraries and Python itself come from stay.
    """
    try:
        here = os.getcwd()  # noqa: PTH109  # pathlib would double the time of --version
    except OSError:
        here = ""
    own = __file__.rpartition("/kogniterm/")[0]
    if here in (own, os.__file__.rpartition("/")[0]) or here.endswith("-packages"):
        return
    sys.path[:] = [entry for entry in sys.path if entry not in ("", ".", here)]


if __name__ == "__main__":
    sys.exit(main())
