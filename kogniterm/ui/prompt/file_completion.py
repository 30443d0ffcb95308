"""The workspace's files as `@` completion offers them: which, in which order, and which fit.

Source comes first, then what was changed lately, then what is near the shell's folder. Caches and
files that hold neither text nor a picture are not offered. The order is made once for a listing;
a key only filters it, so that typing stays quick among a hundred thousand files.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from itertools import islice

_SOURCE = frozenset((
    "bash", "c", "cc", "clj", "cpp", "cs", "css", "dart", "el", "erl", "ex", "exs", "fs",
    "go", "h", "hpp", "hs", "html", "java", "jl", "js", "jsx", "kt", "lua", "m", "mjs", "ml", "mm",
    "php", "pl", "proto", "ps1", "py", "pyi", "r", "rb", "rs", "scala", "scss", "sh", "sql",
    "svelte", "swift", "tex", "tf", "ts", "tsx", "vue", "zig", "zsh",
))  # fmt: skip
_PROSE = frozenset(("adoc", "md", "mdx", "org", "rst", "txt"))
_LATE = frozenset((
    "csv", "gif", "ico", "jpeg", "jpg", "lock", "log", "map", "mo", "pdf", "png", "snap", "sum",
    "svg", "tsv", "webp",
))  # fmt: skip
_BINARY = frozenset((
    "7z", "a", "avi", "bin", "bz2", "class", "db", "dll", "dylib", "eot", "exe", "flac", "gguf",
    "gz", "jar", "lib", "mkv", "mov", "mp3", "mp4", "npy", "o", "obj", "onnx", "otf", "parquet",
    "pickle", "pkl", "pt", "pyc", "pyo", "rlib", "so", "sqlite", "sqlite3", "swp", "tar", "tgz",
    "ttf", "war", "wasm", "wav", "whl", "woff", "woff2", "xz", "zip", "zst",
))  # fmt: skip
_CACHES = frozenset((
    ".cache", ".direnv", ".git", ".gradle", ".hg", ".idea", ".mypy_cache", ".next", ".nox",
    ".pytest_cache", ".ruff_cache", ".svn", ".terraform", ".tox", ".venv", "__pycache__",
    "node_modules", "venv",
))  # fmt: skip
_TESTS = frozenset(("__tests__", "fixtures", "spec", "specs", "test", "testdata", "tests"))
_DOCS = frozenset(("doc", "docs"))
_GENERATED = frozenset(("build", "dist", "generated", "target", "third_party", "vendor"))
_TEST_NAME = re.compile(r"(?:test_|conftest\.).*|.*[._](?:test|spec)s?\.\w+")
_GENERATED_NAME = re.compile(
    r".*(?:\.min\.\w+|_pb2(?:_grpc)?\.pyi?|\.pb\.go|\.generated\.\w+|-lock\.(?:json|yaml))"
)
SOURCE, OTHER, TEST, PROSE, LATE = range(5)
AGES = (3_600.0, 86_400.0, 7 * 86_400.0)
"""Seconds since the last change that count as just now, today and this week."""
MOST_SCATTERED = 400
"""Paths compared that have the typed letters apart from each other."""


def kind_of_file(path: str) -> int | None:
    """Return the place of a file's kind in the order; None for what is not offered."""
    *folders, name = path.lower().split("/")
    _, dot, extension = name.rpartition(".")
    extension = extension if dot else ""
    if extension in _BINARY or not _CACHES.isdisjoint(folders):
        return None
    hidden = name.startswith(".") or any(one.startswith(".") for one in folders)
    made = _GENERATED_NAME.fullmatch(name) or not _GENERATED.isdisjoint(folders)
    if hidden or made or extension in _LATE:
        return LATE
    if not _TESTS.isdisjoint(folders) or _TEST_NAME.fullmatch(name):
        return TEST
    if extension in _PROSE or not _DOCS.isdisjoint(folders):
        return PROSE
    return SOURCE if extension in _SOURCE else OTHER


class RankedFiles:
    """Files, given as path and time of the last change, in the order in which they are offered.

    `near` is the shell's folder, seen from the workspace like the paths.
    """

    def __init__(
        self, files: Iterable[tuple[str, float]] = (), *, now: float = 0.0, near: str = ""
    ) -> None:
        away = _distance(near)
        ranked = sorted(
            (kind, sum(now - changed > age for age in AGES), away(path), len(path), path)
            for path, changed in files
            if (kind := kind_of_file(path)) is not None
        )
        self.paths = [row[-1] for row in ranked]
        self._lower = [path.lower() for path in self.paths]
        self._names = [path.rpartition("/")[2] for path in self._lower]

    def matching(self, typed: str, most: int) -> list[str]:
        """Return at most `most` files that fit what was typed, best first.

        Names that begin with it beat names that hold it, these beat folders that do, and these
        beat paths that have its letters in this order.
        """
        wanted = typed.lower()
        names, paths = self._names, self._lower
        ways: tuple[Callable[[], Iterable[int]], ...] = (
            lambda: (at for at, name in enumerate(names) if name.startswith(wanted)),
            lambda: (at for at, name in enumerate(names) if wanted in name),
            lambda: (at for at, path in enumerate(paths) if wanted in path),
            lambda: self._match_scattered(wanted),
        )
        found: dict[int, None] = {}
        for way in ways:
            for at in way():
                found[at] = None
                if len(found) == most:
                    return [self.paths[one] for one in found]
        return [self.paths[at] for at in found]

    def _match_scattered(self, wanted: str) -> list[int]:
        """Return paths that have the letters of `wanted` in order, the closest together first."""
        apart = "".join(f"[^{re.escape(one)}]*{re.escape(one)}" for one in wanted[1:])
        letters = re.compile(re.escape(wanted[:1]) + apart)
        hits = ((letters.search(path), at) for at, path in enumerate(self._lower))
        spans = ((hit.end() - hit.start(), at) for hit, at in hits if hit is not None)
        return [at for _, at in sorted(islice(spans, MOST_SCATTERED))]


def _distance(near: str) -> Callable[[str], int]:
    """Return the function that counts the folders between `near` and a path."""
    if not near:
        return lambda path: path.count("/")
    start = near.split("/")

    def steps(path: str) -> int:
        folders = path.split("/")[:-1]
        shared = 0
        for mine, theirs in zip(start, folders, strict=False):
            if mine != theirs:
                break
            shared += 1
        return len(start) + len(folders) - 2 * shared

    return steps


FRESH_SECONDS = 5.0
LISTING_SHARE = 20
"""A list stays fresh for this many times the time it took, so that listing is rare work."""


class FileIndex:
    """Answers at once with what is known; `arrived` is called on the thread that listed.

    `near` gives the shell's folder below the workspace.
    """

    def __init__(
        self,
        listing: Callable[[], Iterable[tuple[str, float]]],
        *,
        clock: Callable[[], float],
        arrived: Callable[[], None],
        near: Callable[[], str] = str,
    ) -> None:
        self._listing = listing
        self._clock = clock
        self._arrived = arrived
        self._near = near
        self._known = RankedFiles()
        self._stale = float("-inf")
        self._busy = threading.Lock()

    def __call__(self) -> RankedFiles:
        """Return the files as last listed; a stale list is renewed behind it."""
        if self._clock() > self._stale and self._busy.acquire(blocking=False):
            threading.Thread(target=self._list, daemon=True, name="files").start()
        return self._known

    def _list(self) -> None:
        begun = self._clock()
        try:
            self._known = RankedFiles(self._listing(), now=time.time(), near=self._near())
            ended = self._clock()
            self._stale = ended + max(FRESH_SECONDS, LISTING_SHARE * (ended - begun))
        finally:
            self._busy.release()
        self._arrived()
