"""Entry point of `kogniterm` and `python -m kogniterm`: as little as possible before the work."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes as long as --version
import gc
import os
import sys

OBJECTS_BETWEEN_COLLECTIONS = 500_000
"""Instead of 700: importing the libraries makes up to 410,000 objects and no garbage, and each look
through 200,000 of them takes 85 ms. A step leaves about 70."""


def main() -> int:
    """Run the command line; returns the exit status."""
    # While modules are read, and once all is done, an interrupt has nothing to unwind.
    interruptible = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if interruptible:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _forget_working_folder()
    if sys.stdout and sys.argv[1:] in (["--version"], ["-V"]):
        from kogniterm.host.checkout import running_version

        try:
            sys.stdout.write(f"kogniterm {running_version()}\n")
            sys.stdout.flush()
        except OSError as error:
            from kogniterm.cli.streams_and_signals import give_up_output

            return give_up_output(error)
        return 0
    from kogniterm.installed import parts

    for around_call in parts("AROUND_CALL"):
        return int(around_call(sys.argv[1:], run_here))
    return run_here()


def run_here() -> int:
    """Run the command line in this process."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 10, 10)
    from kogniterm.cli.main import main as run
    from kogniterm.host.stand_ins import keep_out

    keep_out()
    status = run(sys.argv[1:])
    # The interpreter ends with two searches for garbage, which take a fifth of a one-shot's time.
    gc.freeze()
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)
    return status


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
