"""The scan of the workspace in the background, where the user trusts it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from kogniterm.errors import KognitermError
from kogniterm.memory.project.project_profile import ProjectProfile, ProjectRepository
from kogniterm.memory.project.project_scan import manifest_state, scan
from kogniterm.protocols import Clock

log = logging.getLogger(__name__)
CLOSING_SECONDS = 2.0
"""Seconds by which a scan that is told to stop may delay the exit."""


class ProjectScanner:
    """Keeps the profile of the workspace up to date, on a thread of its own.

    Nothing of a folder is read before `trusted` says so. `profiles` returns where profiles are
    kept, None while memory may not be written.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        trusted: Callable[[], bool],
        profiles: Callable[[], ProjectRepository | None],
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.trusted = trusted
        self.profiles = profiles
        self._untrusted = False
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def look(self) -> None:
        """Scan in the background if the manifests changed since the last scan; return at once."""
        if self._stopping.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        if self._untrusted and not self.trusted():
            return
        self._thread = threading.Thread(target=self._look, name="project scan", daemon=True)
        self._thread.start()

    def settled(self) -> None:
        """Wait for a scan that runs."""
        if self._thread is not None:
            self._thread.join()

    def scan_now(self) -> ProjectProfile:
        """Scan because the user asks for it; keep the profile where the folder is trusted."""
        found = scan(self.folder, self.clock, stopped=self._stopping.is_set)
        profiles = self.profiles()
        if profiles is not None and not self._stopping.is_set() and self.trusted():
            profiles.save(found)
        return found

    def close(self) -> None:
        """Stop a scan that runs; what it found is not kept."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def _look(self) -> None:
        try:
            profiles = self.profiles()
            if profiles is None:
                return
            known = profiles.load()
            self._untrusted = not self.trusted()
            if self._untrusted:
                profiles.drop()
            elif known is None or known.state != manifest_state(self.folder):
                self.scan_now()
        except (KognitermError, OSError):
            # What is known stays: the next turn looks again.
            log.exception("the project folder could not be scanned")
