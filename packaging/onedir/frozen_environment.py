"""The first steps of both programs of the self-contained folder.

PyInstaller's boot loader changes the environment for its own libraries. Commands of the user must
not inherit that: they would load KogniTerm's libssl instead of their own.
"""

import os
import sys

PYTHON = "kogniterm-python"
_LIBRARIES = "LD_LIBRARY_PATH"


def prepare() -> None:
    """Restore the user's environment and name the program that runs Python code.

    KogniTerm starts some modules of its own with `sys.executable`, as bare programs.
    """
    before = os.environ.pop(f"{_LIBRARIES}_ORIG", None)
    if before is not None:
        os.environ[_LIBRARIES] = before
    else:
        os.environ.pop(_LIBRARIES, None)
    for name in [one for one in os.environ if one.startswith("_PYI_")]:
        del os.environ[name]
    sys.executable = f"{os.path.dirname(sys.executable)}/{PYTHON}"  # noqa: PTH120  # imports nothing
