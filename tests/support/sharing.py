"""Assignment of tests to workers of pytest-xdist: tests that share something run in one worker.

xdist's own groups are marks, which its scheduler reads off the names of tests; pytest 9.2 no longer
lets it write them there.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "tests/addons/local_model/test_chat.py": "the embedded model, loaded",
    "tests/models/providers/test_langchain.py": "the libraries of other providers, imported",
    "tests/models/providers/test_provider_images.py": "the libraries of other providers, imported",
    "tests/addons/warm/test_warm_calls.py": "the code, which a test changes",
    "tests/addons/warm/test_warm_loading.py": "the code, which a test changes",
    "tests/addons/warm/test_warm.py": "the code, which a test changes",
    "tests/house/test_gates.py": "the package, parsed",
    "tests/ui/test_locale.py": "the sentences of the package",
    "tests/sessions/test_cost.py": "long sessions, written",
}
"""Things that tests of these files share: expensive ones, which each worker would otherwise
make, and those that a test changes."""


class SharingScheduler(LoadScopeScheduling):
    """A scheduler that gives out files that share something first and whole, then single tests."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER.get(nodeid.partition("::")[0], nodeid)
