"""Files of a workspace that other tools read or run: searched before and after a command.

Those that tools act on by themselves are kept unchanged (`protected_names.toml`, git's own). Of all
others a command in the sandbox changes none unseen: dot names, what build tools and package
managers read, programs in folders of hooks. The search follows no link, and is bounded: nearest to
the top first. Of small files it compares the content, of others metadata; of a repository's
`config` it reads which files and hooks it names.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Literal

from kogniterm.execution.sandbox.reach import (
    folders_between,
    is_unchanged,
    lasting_state,
    within,
)

_NAMES = Path(__file__).with_name("protected_names.toml")
MOST_ENTRIES = 50_000
"""Entries of the workspace that are looked at."""
MOST_BELOW = 300
"""Entries of one guarded folder that are looked at."""
MOST_MOUNTS = 120
"""Most mounts that protect the findings; each costs a fraction of a millisecond."""
GIT_GUARDED = ("config", "config.worktree", "hooks", "info/attributes", "commondir", "gitdir")
"""Files that steer git in a repository's own folder; index, objects and refs stay writable."""
_HOOKS = re.compile(r"(?:^|[/_.-])(?:git-?)?hooks?$")
_REPOSITORY = {"HEAD", "objects", "refs"}
_LONGEST_CONFIG = 64 << 10
_NAMED_IN_CONFIG = re.compile(rb"^[ \t]*(path|hookspath)[ \t]*=[ \t]*\"?([^\"\n;#]+)", re.I | re.M)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_KEPT_READ_ONLY = ("config", "config.worktree", "hooks", "info/attributes", "commondir")

State = tuple[int | str, ...]
Finds = tuple[int, list[tuple[str, str]]]
_FOUND: dict[tuple[str, str], tuple[tuple[int, ...], Finds]] = {}
"""Finds in each folder of a workspace, with its state before the look."""
How = Literal["appeared", "changed", "removed"]


class GuardedFiles:
    """Findings of a search: the state of each guarded file, and what can be kept by mounts.

    `pinned` are folders that must stay where they are, from the top down; `kept` what must not
    change. Both are real folders and files of the workspace, no links. `named` are the files and
    folders that a repository's `config` names, whether they exist or not, and repositories whose
    folder has another name than `.git`. `stopped` is the folder at which there were more
    entries than are looked at, or "".
    """

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.stopped = ""
        self.pinned: list[str] = []
        self.kept: list[str] = []
        self.named: list[str] = []


@cache
def protected_names(table: str) -> frozenset[str]:
    groups = tomllib.loads(_NAMES.read_text("utf-8"))[table].values()
    return frozenset(name for names in groups for name in names)


@cache
def _read_by_tools() -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, protected_names("read_by_tools"))))


def search(workspace: str, found: GuardedFiles, *, hidden: bool = True) -> None:
    """Add to `found` the files in `workspace` that other tools read or run now.

    Without `hidden` the hidden folders at its top are left out: those of a home cannot be written.
    """
    with suppress(OSError), _root(workspace) as root:
        run, left, folders = _Search(root, workspace, found, hidden), MOST_ENTRIES, deque([""])
        while folders and not found.stopped:
            folder = folders.popleft()
            left -= run.look(folder, folders)
            if left < 0:
                found.stopped = f"{workspace}/{folder}"


def search_repository(folder: str, tree: str, found: GuardedFiles) -> None:
    """Add to `found` what configures git in its own `folder` outside of the working `tree`."""
    above, name = os.path.split(folder)
    with suppress(OSError), _root(above) as root, _root(tree) as top:
        _Search(root, above, found, hidden=True).repository(name)
        run = _Search(top, tree, found, hidden=True)
        for included, value in _paths_in_config(root, name):
            if not included:
                run.guard_named(value)


@contextmanager
def _root(folder: str) -> Iterator[int]:
    root = os.open(folder, _FLAGS | os.O_DIRECTORY)
    try:
        yield root
    finally:
        os.close(root)


def find_planted(
    before: Mapping[str, State], after: Mapping[str, State]
) -> tuple[tuple[str, How], ...]:
    """Return the files that differ after a command, first those that tools run by themselves."""
    different: list[tuple[str, How]] = []
    for path in sorted(before.keys() | after.keys(), key=_rank):
        if before.get(path) != after.get(path):
            known, there = path in before, path in after
            if not there and os.path.lexists(path):  # the search did not get there again
                continue
            how: How = "removed" if not there else "changed" if known else "appeared"
            different.append((path, how))
    return tuple(different)


def _rank(path: str) -> tuple[int, str]:
    names = set(path.split("/"))
    acts = ".git" in names or not names.isdisjoint(protected_names("guarded"))
    return (0 if acts else 2 if "/." in path else 1), path


def _sort_out(folder: str, entries: list[tuple[str, bool]]) -> list[tuple[str, str]]:
    """Return what each entry of a folder that counts is to a search, and its name."""
    if folder and {name for name, _ in entries} >= _REPOSITORY:
        return [("repository", "")]
    guarded, skipped = protected_names("guarded"), protected_names("not_searched")
    packages, data = protected_names("packages"), protected_names("only_data")
    inside, hooks = "/." in f"/{folder}", _HOOKS.search(folder) is not None
    found = []
    for name, is_folder in entries:
        hidden = name.startswith(".")
        if name == ".git" or name in guarded:
            found.append(("repository" if name == ".git" and is_folder else "guard", name))
        elif is_folder and name not in skipped:
            found.append(("below", name))
        elif is_folder:
            if name in packages or (hidden and name not in data):
                found.append(("cache", name))
        # In `packages` also as a link to a folder of packages.
        elif inside or hooks or hidden or name in packages or _read_by_tools().match(name):
            found.append(("program" if hooks and not inside else "file", name))
    return found


class _Search:
    """A search below the open folder `root`, the workspace, which follows no link."""

    def __init__(self, root: int, workspace: str, found: GuardedFiles, hidden: bool) -> None:
        self.root, self.workspace, self.found, self._hidden = root, workspace, found, hidden

    def look(self, folder: str, below: deque[str]) -> int:
        """Search one folder; return its number of entries. `below` gets the folders in it."""
        count, finds = self._finds_in(folder)
        noted = []
        for how, name in finds:
            path = f"{folder}/{name}" if folder and name else folder or name
            if how == "repository":
                self.repository(path)
            elif how == "guard":
                self._guard(path)
            elif not folder and name.startswith(".") and not self._hidden:
                continue
            elif how == "below":
                below.append(path)
            else:
                noted.append((how, name, path))
        if noted:
            with _opened(self.root, folder) as place:
                for how, name, path in noted:
                    if place is None:
                        break
                    with suppress(OSError):
                        seen = os.stat(name, dir_fd=place, follow_symlinks=False)
                        if how != "program" or seen.st_mode & 0o111:
                            # Of a cache it counts only that it is there.
                            state = (0,) if how == "cache" else _state(place, name, seen)
                            self.found.states[f"{self.workspace}/{path}"] = state
        return count

    def _finds_in(self, folder: str) -> Finds:
        """Return the number of entries of a folder, and those that count, by what they are.

        They are known from an earlier search as long as the folder has the same entries.
        """
        path = f"{self.workspace}/{folder}" if folder else self.workspace
        state, finds = _FOUND.get((self.workspace, folder), ((), (0, [])))
        if is_unchanged(path, state):
            return finds
        with _opened(self.root, folder) as place:
            if place is None:
                return 0, []
            state = lasting_state(place)
            entries = _list_entries(place, MOST_ENTRIES)
            if entries is None:  # unknown is not kept as empty
                return 0, []
            if len(entries) >= MOST_ENTRIES:
                self.found.stopped = f"{self.workspace}/{folder}"
                # Too many to look at each: ask for the names instead.
                return len(entries), _sort_out(folder, _asked_for(place))
        if len(_FOUND) > MOST_ENTRIES:
            _FOUND.clear()
        finds = len(entries), _sort_out(folder, entries)
        _FOUND[self.workspace, folder] = state, finds
        return finds

    def repository(self, folder: str) -> None:
        """Note the files that configure git in a repository's folder, and in its submodules."""
        place = f"{self.workspace}/{folder}"
        self.found.named.append(place)
        mounted = len(self.found.kept) < MOST_MOUNTS
        if mounted:
            self.found.pinned.append(place)
        for name in GIT_GUARDED:
            path = f"{folder}/{name}"
            if name in _KEPT_READ_ONLY:
                parents = folders_between(f"{self.workspace}/{path}", place)
                if self._guard(path, sample=".sample") and mounted:
                    self.found.pinned.extend(parents)
            else:
                self._note(path, sample=".sample")
        for name, _ in self._entries(f"{folder}/worktrees"):
            for file in ("config.worktree", "commondir", "gitdir"):
                self._note(f"{folder}/worktrees/{name}/{file}")
        for included, value in _paths_in_config(self.root, folder):
            self.guard_named(f"{folder if included else folder.rpartition('/')[0]}/{value}")
        self._submodules(f"{folder}/modules", 3)

    def guard_named(self, name: str) -> None:
        """Guard a file or folder of the workspace that a repository's config names."""
        path = os.path.normpath(f"{self.workspace}/{name}")
        if within(path, self.workspace) and path != self.workspace:
            self.found.named.append(path)
            if not any(within(path, one) for one in self.found.kept):
                self._guard(path[len(self.workspace) + 1 :])

    def _submodules(self, folder: str, deepest: int) -> None:
        entries = self._entries(folder) if deepest else []
        if {name for name, _ in entries} >= _REPOSITORY:
            self.repository(folder)
            return
        if entries and len(self.found.kept) < MOST_MOUNTS:
            self.found.pinned.append(f"{self.workspace}/{folder}")
        for name, is_folder in entries:
            if is_folder:
                self._submodules(f"{folder}/{name}", deepest - 1)

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        with _opened(self.root, folder) as place:
            return [] if place is None else _list_entries(place, MOST_BELOW) or []

    def _guard(self, path: str, *, sample: str = "") -> bool:
        """Note the state of `path` and protect it; return whether there is something to protect."""
        kind = self._note(path, sample=sample)
        if kind not in (stat.S_IFDIR, stat.S_IFREG):
            return False
        if len(self.found.kept) < MOST_MOUNTS:
            self.found.kept.append(f"{self.workspace}/{path}")
        return True

    def _note(self, path: str, *, sample: str = "") -> int:
        """Note the state of the file `path`, or of those in it; returns its kind, 0 for none."""
        parent, _, name = path.rpartition("/")
        with _opened(self.root, parent) as place:
            if place is None:
                return 0
            try:
                seen = os.stat(name, dir_fd=place, follow_symlinks=False)
            except OSError:
                return 0
            kind = stat.S_IFMT(seen.st_mode)
            if kind == stat.S_IFDIR:
                with _opened(place, name) as inner:
                    if inner is not None:
                        _note_below(
                            inner, f"{self.workspace}/{path}", self.found, sample, [MOST_BELOW]
                        )
            else:
                self.found.states[f"{self.workspace}/{path}"] = _state(place, name, seen)
            return kind


def _paths_in_config(root: int, folder: str) -> Iterator[tuple[bool, str]]:
    """Yield whether it is an included file, and its path, of each that a repository names."""
    try:
        with _opened(root, folder) as place:
            if place is None:
                return
            file = os.open("config", _FLAGS, dir_fd=place)
    except OSError:
        return
    try:
        text = os.read(file, _LONGEST_CONFIG) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
    for key, value in _NAMED_IN_CONFIG.findall(text):
        yield key.lower() == b"path", os.fsdecode(value).strip()


def _note_below(place: int, path: str, found: GuardedFiles, sample: str, left: list[int]) -> None:
    for name, is_folder in _list_entries(place, MOST_BELOW) or ():
        left[0] -= 1
        if left[0] < 0:
            found.stopped = found.stopped or path
            return
        if sample and name.endswith(sample):
            continue
        if is_folder:
            with _opened(place, name) as inner:
                if inner is not None:
                    _note_below(inner, f"{path}/{name}", found, sample, left)
            continue
        with suppress(OSError):
            seen = os.stat(name, dir_fd=place, follow_symlinks=False)
            found.states[f"{path}/{name}"] = _state(place, name, seen)


def _state(place: int, name: str, seen: os.stat_result) -> State:
    """Return the values that differ between two states: of small files the content.

    It is read each time: what a job writes to a mapped page may give the file no new time.
    """
    target = ""
    if stat.S_ISREG(seen.st_mode) and seen.st_size <= _LONGEST_CONFIG:
        with suppress(OSError):
            file = os.open(name, _FLAGS, dir_fd=place)
            try:
                return (seen.st_mode, sha256(os.read(file, _LONGEST_CONFIG + 1)).hexdigest())
            finally:
                os.close(file)
    if stat.S_ISLNK(seen.st_mode):
        with suppress(OSError):
            target = os.readlink(name, dir_fd=place)
    # The ctime cannot be set back.
    return (seen.st_mode, seen.st_size, seen.st_ino, seen.st_ctime_ns, target)


@contextmanager
def _opened(root: int, path: str) -> Iterator[int | None]:
    """Open a folder below the folder `root` without following any link; None if there is none."""
    place = os.dup(root)
    try:
        for name in path.split("/") if path else ():
            inner = os.open(name, _FLAGS | os.O_DIRECTORY, dir_fd=place)
            os.close(place)
            place = inner
    except OSError:
        os.close(place)
        yield None
        return
    try:
        yield place
    finally:
        os.close(place)


def _asked_for(place: int) -> list[tuple[str, bool]]:
    """Return the entries of an open folder that are guarded, without listing it."""
    found: list[tuple[str, bool]] = []
    for name in (".git", *protected_names("guarded")):
        with suppress(OSError):
            seen = os.stat(name, dir_fd=place, follow_symlinks=False)
            found.append((name, stat.S_ISDIR(seen.st_mode)))
    return found


def _list_entries(place: int, most: int) -> list[tuple[str, bool]] | None:
    """Return (name, whether it is a folder) of what is in an open folder; None if unknown."""
    with suppress(OSError), os.scandir(place) as entries:
        return [(one.name, one.is_dir(follow_symlinks=False)) for one in islice(entries, most)]
    return None
