"""An agent and a second writer in the same folders: random actions, and what going back may do.

The agent's actions are kept and noted as those of a session are; the second writer's are not. The
rules are checked from the disk alone: what the second writer made is there after any going back,
what changed was named, what was neither named nor touched by the second writer is as it was before
the actions, and another undo brings back what was there before going back.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from kogniterm.execution.undo import Preimage, PreimageStore, WayBack

NAMES = ("a", "b", "c.txt", os.fsdecode(b"caf\xe9"), "new\nline", "b-2")
MAX_BYTES = 4_000
MAX_ENTRIES = 14

State = dict[str, tuple[object, ...]]


class TwoWriters:
    """A folder that an agent and a second writer change, `step` by step, with going back."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.work = root / "work"
        self.work.mkdir(parents=True)
        self._root, self._opened, self._number = root, 0, 0
        self.begin()

    def begin(self) -> None:
        """Begin a new session: nothing of the earlier ones can be taken back."""
        shutil.rmtree(self._root / "undo", ignore_errors=True)
        self.store = PreimageStore(
            self._root / "undo", max_bytes=MAX_BYTES, max_entries=MAX_ENTRIES
        )
        self.before: dict[str, State] = {}
        self.theirs: set[str] = set()
        self.touched: dict[str, int] = {}
        self.changed: dict[str, list[str]] = {}
        self.recent: list[Path] = []

    # --- what is on the disk -----------------------------------------------------------------

    def state(self) -> State:
        """Return everything below the folder: its kind, mode, content or target."""
        found: State = {}
        for folder, names, files in os.walk(self.work):
            for name in (*names, *files):
                path = f"{folder}/{name}"
                info = os.lstat(path)
                held: object = None
                if stat.S_ISLNK(info.st_mode):
                    held = str(Path(path).readlink())
                elif stat.S_ISREG(info.st_mode):
                    held = Path(path).read_bytes()
                found[path] = (stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), held)
        return found

    def _any(self, *, there: bool | None = None) -> Path:
        """Return a path: one that is there, or that was just changed or is below, or any."""
        known = sorted(self.state())
        recent = [p for p in self.recent if p.parent.is_dir() and p.parent.resolve() == p.parent]
        if recent and not there and self.chance.random() < 0.5:
            path = self.chance.choice(recent)
            inside = path.is_dir() and not path.is_symlink() and self.chance.random() < 0.6
            return path / self.chance.choice((*NAMES, "f0", "f1")) if inside else path
        if known and (there or (there is None and self.chance.random() < 0.6)):
            return Path(self.chance.choice(known))
        folders = [self.work, *(Path(p) for p in known if stat.S_ISDIR(os.lstat(p).st_mode))]
        return self.chance.choice(folders) / self.chance.choice(NAMES)

    def _content(self) -> bytes:
        self._number += 1
        size = self.chance.choice((0, 5, 40, 900, 5_000))
        return b"%d %s" % (self._number, self.chance.randbytes(size))

    # --- changes -------------------------------------------------------------------------------

    def _change(self) -> tuple[tuple[Path, ...], Callable[[], None]]:
        """Return the paths that a random change is said to touch, and the change."""
        path, kind = self._any(), self.chance.randrange(12)
        if kind < 4:
            return (path,), lambda: self._write(path, in_place=kind < 2)
        if kind < 6:
            return (path,), lambda: _clear(path)
        if kind == 6:
            count = self.chance.choice((0, 2, 4, 20))
            return (path,), lambda: self._fill(path, count)
        if kind < 9:
            source = self._any(there=True)
            inside = path.is_relative_to(source) or source.is_relative_to(path)
            if inside or not os.path.lexists(source):
                return (path,), lambda: self._write(path, in_place=False)
            copied = kind == 8
            return ((path,) if copied else (source, path)), lambda: _move(source, path, copied)
        if kind == 9:
            target = self.chance.choice(("a", "../b", os.fsdecode(b"\xff"), str(self._any())))
            return (path,), lambda: _link(path, target)
        if kind == 10:
            return (path,), lambda: _chmod(path, self.chance.choice((0o600, 0o640, 0o755)))
        return (path,), lambda: _pipe(path)

    def _write(self, path: Path, *, in_place: bool) -> None:
        if not in_place or not path.is_file() or path.is_symlink():
            _clear(path)
        path.write_bytes(self._content())

    def _fill(self, path: Path, count: int) -> None:
        _clear(path)
        path.mkdir()
        for number in range(count):
            inner = path / "inner" if number % 3 == 2 else path
            inner.mkdir(exist_ok=True)
            (inner / f"f{number}").write_bytes(self._content())

    def act(self) -> None:
        """Take an action of the agent's; sometimes its end is never noted."""
        name = f"{len(self.before):06}"
        paths, change = self._change()
        state = self.state()
        image = self.store.keep(name, name, paths)
        change()
        self.recent = [*self.recent, *paths][-4:]
        # What the second writer made stays the second writer's where it is as it was.
        now = self.state()
        self.theirs = {path for path in self.theirs if now.get(path) == state.get(path)}
        if image is not None:
            self._note(name, state, now)
            if self.chance.random() < 0.95:
                self.store.note_left(name)

    def _note(self, action: str, before: State, now: State) -> None:
        self.before[action] = before
        self.changed[action] = _differing(before, now)

    def interfere(self) -> None:
        """Let the second writer change something."""
        state = self.state()
        _paths, change = self._change()
        change()
        now = self.state()
        changed = {path for path in now.keys() | state.keys() if now.get(path) != state.get(path)}
        self.theirs = {path for path in self.theirs | changed if path in now}
        self.touched |= dict.fromkeys(changed, len(self.before))

    # --- going back ----------------------------------------------------------------------------

    def go_back(self) -> list[str]:
        """Undo one action, or all since one; return the rules that were violated."""
        images = self.store.images()
        if not images:
            return []
        if self.chance.random() < 0.5:
            chosen: tuple[Preimage, ...] = tuple(i for i in images if not i.undone)[:1]
        else:
            chosen = images[: self.chance.randint(1, min(len(images), 4))]
        if not chosen:
            return []
        everything = self.chance.random() < 0.2
        now = self.state()
        way = self.store.way_back(chosen, everything=everything)
        self.store.restore(way)
        then = self.state()
        wrong = self._named(way, now, then)
        if not everything:
            wrong += self._theirs_stay(now, then)
            wrong += self._is_as_before(way, now, then)
        if way.steps:
            redo = self.store.images()[0]
            self._note(redo.id, now, then)
            if self.chance.random() < 0.5:
                self.store.restore(self.store.way_back([redo]))
                again = self.state()
                self._note(self.store.images()[0].id, then, again)
                wrong += [f"not undone again: {path!r}" for path in _differing(again, now)]
        # What came back is there as long as nobody takes that back.
        self.theirs -= set(_differing(now, then))
        return wrong

    def _named(self, way: WayBack, now: State, then: State) -> list[str]:
        named = [change.path for change in way.changes]
        ending = [c.path for c in way.changes if c.change == "created" or c.path in then]
        return [
            f"not named: {path!r}"
            for path in _differing(now, then)
            if path not in named and not _below(path, ending)
        ]

    def _theirs_stay(self, now: State, then: State) -> list[str]:
        return [
            f"the second writer's {path!r} was {now[path]!r:.60}, is {then.get(path)!r:.60}"
            for path in self.theirs
            if then.get(path) != now.get(path)
        ]

    def _is_as_before(self, way: WayBack, now: State, then: State) -> list[str]:
        """Compare with the state before the actions: the rest must be named, or the second's.

        No content that was there before the actions and is there now, as of a file that was moved,
        vanishes with them.
        """
        names, taken = list(self.before), {image.id for image in way.images}
        since = names.index(way.images[-1].id)
        before = self.before[names[since]]
        others = [path for path, when in self.touched.items() if when > since]
        for name in names[since:]:
            others += self.changed[name] if name not in taken else ()
        held, left = _contents(now), _contents(then)
        lost = [
            f"lost: {path!r}, as it was before"
            for path, (kind, _mode, content) in before.items()
            if kind == stat.S_IFREG and content in held - left and not _near(path, others)
        ]
        kept = [*way.kept, *(p for image in way.images for p in image.skipped)]
        return lost + [
            f"not as before: {path!r}, kept {way.kept!r}"
            for path in _differing(before, then)
            if not _near(path, kept) and not _near(path, others)
        ]

    def step(self) -> list[str]:
        """Do something; return the rules that were violated."""
        kind = self.chance.random()
        if kind < 0.45:
            self.act()
        elif kind < 0.75:
            self.interfere()
        elif kind < 0.97:
            return self.go_back()
        else:
            self.begin()
            if len(self.state()) > 60:
                shutil.rmtree(self.work)
                self.work.mkdir()
        return []


def _contents(state: State) -> set[object]:
    return {content for kind, _mode, content in state.values() if kind == stat.S_IFREG}


def _differing(one: State, other: State) -> list[str]:
    return sorted(p for p in one.keys() | other.keys() if one.get(p) != other.get(p))


def _below(path: str, folders: list[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in folders)


def _near(path: str, others: list[str]) -> bool:
    """Return whether `path` is above or below one of `others`."""
    return _below(path, others) or any(one.startswith(f"{path}/") for one in others)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _move(source: Path, path: Path, copied: bool) -> None:
    _clear(path)
    if not copied:
        source.rename(path)
    elif source.is_dir() and not source.is_symlink():
        shutil.copytree(source, path, symlinks=True, copy_function=_copied)
    else:
        _copied(str(source), str(path))


def _copied(source: str, path: str) -> None:
    if stat.S_ISFIFO(os.lstat(source).st_mode):
        os.mkfifo(path)
    else:
        shutil.copy2(source, path, follow_symlinks=False)


def _link(path: Path, target: str) -> None:
    _clear(path)
    path.symlink_to(target)


def _chmod(path: Path, mode: int) -> None:
    if path.exists() and not path.is_symlink():
        path.chmod(mode | (0o700 if path.is_dir() else 0))


def _pipe(path: Path) -> None:
    _clear(path)
    os.mkfifo(path)
