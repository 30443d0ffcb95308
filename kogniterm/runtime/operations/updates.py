"""Notices about a newer KogniTerm, from what is on this disk: nothing is asked over the network.

A checkout knows of newer commits once its user has fetched them; an installation that was
replaced while a session runs knows of the newer version.
"""

from __future__ import annotations

from pathlib import Path

import kogniterm
from kogniterm.host.checkout import commit_of, version_on_disk
from kogniterm.host.installation import program_folder
from kogniterm.host.safe_git import host_git
from kogniterm.storage.folders import write_private
from kogniterm.types import Phrase


class UpdateWatch:
    """Finds what is newer than the running program, and tells each update once.

    `told` is the file that holds the last commit that the user was told of, in any session, and
    `folder` the one that holds the package.
    """

    def __init__(self, told: Path, folder: Path | None = None) -> None:
        self.told = told
        self.folder = folder or program_folder().parent
        self._restart_told = False

    def newer_commits(self) -> Phrase | None:
        """Return the notice about commits that were fetched and not told yet."""
        upstream = _git(self.folder, "rev-parse", "@{upstream}")
        if not upstream or _text(self.told) == upstream:
            return None
        notice = fetched_commits(self.folder)
        if notice is not None:
            try:
                write_private(self.told, upstream.encode())
            except OSError:
                return None  # it would be told at every start
        return notice

    def newer_version(self) -> Phrase | None:
        """Return the notice about a version that was installed while this one runs, once."""
        notice = None if self._restart_told else installed_version()
        self._restart_told = notice is not None or self._restart_told
        return notice


def fetched_commits(folder: Path) -> Phrase | None:
    """Return the notice that the upstream branch of a checkout, as last fetched, is ahead of it."""
    count = _git(folder, "rev-list", "--count", "HEAD..@{upstream}")
    if not count or count == "0":
        return None
    return Phrase(
        "Newer commits of KogniTerm were fetched: {count}. Update with: git -C {folder} pull",
        {"count": count, "folder": folder},
    )


def installed_version() -> Phrase | None:
    """Return the notice that another version was installed in place of the running one."""
    there, running = version_on_disk(), kogniterm.__version__
    if there in ("", running):
        return None
    return Phrase(
        "KogniTerm {new} was installed; this session runs {old}. Restart KogniTerm to use it.",
        {"new": there, "old": running},
    )


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints about the checkout; "" where there is none, or git is slow."""
    if not commit_of(str(folder)):
        return ""
    try:
        return (host_git(folder, *arguments) or b"").decode("utf-8", "replace").strip()
    except TimeoutError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
