"""Which tests run in one worker of pytest-xdist, one after the other: those that share something.

xdist's own groups are marks, which its scheduler reads off the names of tests; pytest 9.2 no longer
lets it write them there.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "tests/models/local/test_chat.py": "the embedded model, loaded",
    "tests/models/providers/test_langchain.py": "the libraries of other providers, imported",
    "tests/models/providers/test_provider_images.py": "the libraries of other providers, imported",
    "tests/house/test_gates.py": "the package, parsed",
    "tests/ui/test_locale.py": "the sentences of the package",
    "tests/sessions/test_cost.py": "long sessions, written",
}
"""What the tests of a file share, and what would be made again in every worker."""


class SharingScheduler(LoadScopeScheduling):
    """Gives workers what shares something first and whole, then all other tests one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER.get(nodeid.partition("::")[0], nodeid)
