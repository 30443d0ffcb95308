"""The warm server of the tests: KogniTerm's own, with all that a turn imports loaded.

    python -P tests/addons/warm/warm_server.py FOLDER

Questions take a key at `KEY_TIMES`: what tests wait for is a pause, not the user who looks at a
question.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import ExitStack

from kogniterm.addons.warm import warm_server
from kogniterm.addons.warm.warm_place import CLIENT_LIBRARIES, open_private
from kogniterm.addons.warm.warm_start import take_socket
from kogniterm.ui.questions import answer_keys

KEY_TIMES = answer_keys.KeyTimes(0.05, 0.05, 0.05, 0.0, 0.05)
IDLE_SECONDS = 3600.0
PRELOADED = (
    "kogniterm.cli.json_output",
    "kogniterm.cli.verbs.config",
    "kogniterm.cli.verbs.doctor",
    "kogniterm.cli.verbs.sessions",
    "kogniterm.models.scripted_model",
    "kogniterm.runtime.build",
    "kogniterm.ui.repl",
    "yaml",
)

if __name__ == "__main__":
    answer_keys.KEY_TIMES = KEY_TIMES  # before the modules that take it for a default
    for name in PRELOADED:
        importlib.import_module(name)
    folder = open_private(sys.argv[1])
    assert folder is not None
    with ExitStack() as closing:
        # Sessions that load a client library would put the user's server in the place of this one.
        warm_server.main(*take_socket(folder, closing), CLIENT_LIBRARIES, IDLE_SECONDS)
