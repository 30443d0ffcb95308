"""Effects on this disk: previewed before an action is approved, and kept to be undone.

Globs are expanded as the shell would, files are counted and sized, and git is asked which of
them it could bring back. Everything is bounded: a preview must never make the user wait. What an
approved action will change is kept first, and restored on request.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kogniterm.errors import StorageError, UsageError
from kogniterm.execution.undo import (
    Preimage,
    PreimageStore,
    WayBack,
    has_second_name,
    settle_path,
    walk,
)
from kogniterm.host.safe_files import resolve_path
from kogniterm.host.safe_git import host_git
from kogniterm.storage.folders import expand_path
from kogniterm.types import (
    CHANGING_KINDS,
    ActionRequest,
    Effect,
    EffectKind,
    Phrase,
    RiskLabel,
    RiskReport,
)

MAX_FILES = 20_000
MAX_SECONDS = 0.5
MAX_MATCHES = 1_000
_GIT_SECONDS = 5.0
"""For a machine so busy that git starts late: what it lists takes a few milliseconds."""
MAX_NAMED = 8
"""Created files that are named one by one."""
BEYOND: frozenset[EffectKind] = frozenset({"network", "privilege", "process"})
"""Effects on something other than files."""


class Touched(NamedTuple):
    """Files that an effect touches; `files` and `size` (bytes) are lower bounds if not `complete`.

    `there` says whether there is anything at all, be it an empty folder; `closed`, whether some
    of it may not be looked at.
    """

    there: bool
    closed: bool
    files: int
    size: int
    tracked: int
    complete: bool


def preview(report: RiskReport, cwd: str) -> tuple[Phrase, ...]:
    """Return one line an effect, the most serious first, for the approval screen.

    `cwd` is the folder that relative targets start from: a report's workspace.
    """
    deadline = time.monotonic() + MAX_SECONDS
    order: Sequence[EffectKind] = (
        "delete", "overwrite", "write", "create", "secret", "privilege", "network",
    )  # fmt: skip
    effects = sorted(
        (e for e in dict.fromkeys(on_disk(report, cwd).effects) if e.kind in order),
        key=lambda effect: order.index(effect.kind),
    )
    created = [e for e in effects if e.kind == "create" and "…" not in e.target]
    inside = [e for e in created if not e.outside]
    outside = [e for e in created if e.outside]
    told = {group[0]: _created_line(group) for group in (inside, outside) if group}
    others = [e for e in effects if e in told or e not in created]
    return tuple(
        told[effect] if effect in told else _line(effect, cwd, deadline)
        for effect in islice(others, 12)
    )


def on_disk(report: RiskReport, workspace: str) -> RiskReport:
    """Return `report` with its effects on files as they are on this disk.

    A file that is copied, moved or linked into a folder that exists lands there under its own name,
    and what is not there yet is created. What links lead out of the workspace is outside of it. A
    folder that the command enters through a link counts as unknown.
    """
    deadline = time.monotonic() + MAX_SECONDS
    root = Path(workspace)
    found: dict[Effect, None] = {}
    through = list[Effect]()
    for effect in report.effects:
        late = time.monotonic() > deadline or len(found) >= MAX_MATCHES
        if late or effect.kind not in CHANGING_KINDS:
            found[effect] = None
            continue
        for landed in _landings(effect, root) if effect.kind != "delete" else (effect,):
            for settled in (_settle_effect(landed, root), _pattern_outside(landed, root)):
                if settled is not None:
                    found[settled] = None
                    through += [settled] * (settled.outside and not landed.outside)
    if not _names_are_certain(report, root):
        found[Effect("write", "…")] = None
        if report.label == "workspace_write":
            why = Phrase("Writes to a file whose name is known only at run time.")
            report = replace(report, label="needs_approval", reasons=(why, *report.reasons))
    parts = tuple(replace(part, folder=_entered_folder(part.folder, root)) for part in report.parts)
    changed = replace(report, effects=tuple(found), parts=parts)
    if not through or report.label == "dangerous":
        return changed
    why = Phrase(
        "Changes {path}, outside the workspace, through a link.", {"path": through[0].target}
    )
    folders = any(e.kind == "delete" and Path(e.target).is_dir() for e in through)
    label: RiskLabel = "dangerous" if folders else "needs_approval"
    return replace(changed, label=label, reasons=(why, *report.reasons))


def _names_are_certain(report: RiskReport, root: Path) -> bool:
    """Return whether the files that a command changes by name are those of that name now.

    They are others where the command goes on in another folder after a failed `cd`, and where it
    puts a link, or a folder with links, at a name and writes there later.
    """
    changing = [effect for effect in report.effects if effect.kind in CHANGING_KINDS]
    entered = {part.folder for part in report.parts} - {"", "…"} if changing else set()
    return all(_surely_entered(folder, changing, root) for folder in entered) and not any(
        _brings_links(effect, root) and _written_below(effect, changing, root)
        for effect in changing
    )


def _surely_entered(folder: str, changing: Sequence[Effect], root: Path) -> bool:
    """Return whether the shell is in `folder` after it was to go there."""
    path = Path(folder)
    made = Effect("create", os.path.relpath(path, root))
    if made in changing and not os.path.lexists(path):
        return os.access(path.parent, os.W_OK | os.X_OK)
    goes = (_at(effect, root) for effect in changing if effect.kind != "create")
    return os.access(path, os.X_OK) and path.is_dir() and not any(map(path.is_relative_to, goes))


def _brings_links(effect: Effect, root: Path) -> bool:
    """Return whether what is put at the effect's target may be a link, or a folder with links."""
    if not effect.source or effect.kind == "delete":
        return False
    sources = expand(effect.source, root)
    below = (entry for path in sources for _, entry in walk(settle_path(path), []))
    entries = list(islice(below, MAX_MATCHES))
    return len(entries) in (0, MAX_MATCHES) or any(
        entry is None or entry.kind in ("link", "absent") for entry in entries
    )


def _written_below(effect: Effect, changing: Sequence[Effect], root: Path) -> bool:
    """Return whether the command changes the effect's target, or what is below, by another name."""
    target = _at(effect, root)
    # A folder that is made at the target itself writes nothing through what is there by then.
    makes = Effect("create", effect.target)
    others = [one for one in changing if one is not effect and one != makes]
    return any("…" in one.target or _at(one, root).is_relative_to(target) for one in others)


def _at(effect: Effect, root: Path) -> Path:
    """Return the path of an effect's target, its links not followed."""
    return Path(os.path.normpath(expand_path(root, effect.target)))


def _entered_folder(folder: str, root: Path) -> str:
    """Return a folder that a command enters, "…" where it cannot, or through a link only."""
    if folder in ("", "…"):
        return folder
    inside = Path(folder).is_relative_to(root)
    direct = root.resolve() / Path(folder).relative_to(root) if inside else Path(folder)
    there = direct.is_dir() and os.access(direct, os.X_OK)
    return str(direct) if there and os.path.realpath(direct) == str(direct) else "…"


def _landings(effect: Effect, root: Path) -> Iterator[Effect]:
    """Yield the effect, or one for each file that lands in the folder that is its target."""
    alone = replace(effect, source="")
    if not effect.source or "…" in effect.target or glob.has_magic(effect.target):
        yield alone
        return
    try:
        is_folder = expand_path(root, effect.target).is_dir()
    except (OSError, ValueError):  # or a name that no file can have
        is_folder = False
    if not is_folder:
        yield alone
        return
    names = sorted(path.name for path in expand(effect.source, root)) or ["…"]
    for name in names:
        yield replace(alone, target=os.path.normpath(f"{effect.target}/{name}"))


def _settle_effect(effect: Effect, root: Path) -> Effect | None:
    """Return the effect as its target is on this disk; None where nothing would change."""
    if "…" in effect.target or glob.has_magic(effect.target):
        return effect
    path = expand_path(root, effect.target)
    try:
        there = os.path.lexists(path)
        follows = there and effect.kind != "delete"
        real = path.resolve() if follows else path.parent.resolve() / path.name
        leaves = not effect.outside and not real.is_relative_to(root.resolve())
    except (OSError, ValueError, RuntimeError):  # a loop of links, or no possible name
        return effect
    if effect.kind == "create" and os.access(path, os.F_OK):
        return None
    if not there and effect.kind != "delete" and not _may_be_there(path):
        effect = replace(effect, kind="create")
    return replace(effect, target=str(real), outside=True) if leaves else effect


def _pattern_outside(effect: Effect, root: Path) -> Effect | None:
    """Return what a pattern changes outside the workspace, through a link; None for nothing."""
    if effect.outside or not glob.has_magic(effect.target):
        return None
    folder, name = os.path.split(effect.target)
    paths = [one / name for one in expand(folder, root)]
    paths += expand(effect.target, root) if effect.kind != "delete" else ()
    for path in paths:
        with suppress(OSError, ValueError, RuntimeError):  # a loop of links, or no possible name
            follows = effect.kind != "delete" and not glob.has_magic(path.name)
            real = path.resolve() if follows else path.parent.resolve() / path.name
            if not real.is_relative_to(root.resolve()):
                return replace(effect, target=str(real), outside=True)
    return None


def _may_be_there(path: Path) -> bool:
    """Return whether the path lies in a folder that may not be entered: then nothing is known."""
    try:
        path.lstat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def paths_changed(report: RiskReport, cwd: str) -> tuple[Path, ...]:
    """Return every path the command would create, change or delete, as far as its text tells.

    Of what is created in folders that are not there either, it is the uppermost of these. What is
    written through a link changes where that leads; the link itself may be replaced.
    """
    root = Path(cwd)
    found: dict[Path, None] = {}
    for effect in on_disk(report, cwd).effects:
        for path in expand(effect.target, root) if effect.kind in CHANGING_KINDS else ():
            found[_uppermost_new(path, root)] = None
            with suppress(OSError, ValueError):  # a loop of links, or no possible name
                led = resolve_path(path)
                if effect.kind != "delete" and led != settle_path(path):
                    found[led] = None
    return tuple(found)


def _uppermost_new(path: Path, root: Path) -> Path:
    while path.parent != root and path.is_relative_to(root) and not os.path.lexists(path.parent):
        path = path.parent
    return path


def with_workspace(report: RiskReport) -> RiskReport:
    """Return `report` with the whole workspace changed, where its text does not tell the files.

    Git changes files that its words do not name, and of a pattern not every match may be counted.
    """
    told = report.label == "workspace_write" and not (
        report.git_calls
        or any(
            "…" in effect.target or glob.has_magic(effect.target)
            for effect in report.effects
            if effect.kind in CHANGING_KINDS
        )
    )
    if told or report.label == "safe_readonly":
        return report
    return replace(report, effects=(*report.effects, Effect("write", ".")))


def plain_paths(
    reads: Iterable[str], writes: Iterable[str], workspace: str
) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the absolute paths of files that are read and written; None where one has two names.

    A link in the workspace, a second hard link to a file that is written, and a device may be
    another action's file under another name. What is read from a pipe is gone for others, so it
    counts as written; of what is created it is the uppermost folder that is not there yet.
    """
    root = Path(os.path.realpath(workspace))
    read, written = set[str](), set[str]()
    for name in reads:
        path = _resolve_plain(name, root)
        kind = _kind(path) if path is not None else None
        if path is None or kind is None:
            return None
        (written if kind == stat.S_IFIFO else read).add(str(path))
    for name in writes:
        path = _resolve_plain(name, root)
        if path is None or _kind(path) is None or has_second_name(path):
            return None
        written.add(str(_uppermost_new(path, root)))
    return frozenset(read), frozenset(written)


def _resolve_plain(name: str, root: Path) -> Path | None:
    """Return the path that `name` means in `root`, None where it leads through a link there."""
    path = Path(os.path.normpath(expand_path(root, name)))
    real = Path(os.path.realpath(path))
    return None if path.is_relative_to(root) and path != real else real


def _kind(path: Path) -> int | None:
    """Return the kind of a file, 0 for none; None for a device or a socket, and in doubt."""
    if path == Path(os.devnull):
        return stat.S_IFREG
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        return None
    return kind if kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO) else None


def expand(target: str, cwd: Path) -> tuple[Path, ...]:
    """Return the paths `target` stands for: itself, or the matches of its glob, as in bash.

    A target with `…` in it is only known when the command runs, and stands for nothing here.
    """
    if "…" in target:
        return ()
    pattern = str(expand_path(cwd, target))
    if not glob.has_magic(target):
        return (Path(pattern),)
    matches = glob.iglob(pattern)  # noqa: PTH207 - absolute patterns, and bash's hidden-file rule
    return tuple(Path(match) for match in islice(matches, MAX_MATCHES))


def measure_target(target: str, cwd: Path, deadline: float) -> Touched:
    """Count and size the files that `target` stands for."""
    paths = expand(target, cwd)
    files, size, complete, closed = 0, 0, True, False
    for entry in _files(paths):
        # However late it is: that there is something is not to be taken for that there is nothing.
        if files >= MAX_FILES or (files and time.monotonic() > deadline):
            complete = False
            break
        if entry is None:
            complete, closed = False, True
            continue
        files += 1
        size += entry
    there = [path for path in paths if os.path.lexists(path)]
    tracked = _count_tracked(there, cwd) if files else 0
    # What lies in a folder that may not be entered does not look as if it were there.
    is_there = bool(there) or closed
    return Touched(is_there, closed, files, size, tracked, complete)


def _created_line(effects: Sequence[Effect]) -> Phrase:
    """Return the line for files that are created, all inside the workspace or all outside."""
    shown = ", ".join(effect.target for effect in effects[:MAX_NAMED])
    left = len(effects) - MAX_NAMED
    if left > 0:
        listed = Phrase("{target} and {n} more", {"target": shown, "n": left})
        return Phrase("Creates {target}", {"target": _mark_outside(listed, effects[0])})
    return Phrase("Creates {target}", {"target": _mark_outside(shown, effects[0])})


def _mark_outside(target: Phrase | str, effect: Effect) -> Phrase | str:
    """Return `target`, marked where the effect lies outside the workspace."""
    return (
        Phrase("{target} (outside the workspace)", {"target": target}) if effect.outside else target
    )


def _line(effect: Effect, workspace: str, deadline: float) -> Phrase:
    values: dict[str, object] = {"target": effect.target}
    if effect.kind == "network":
        return Phrase("Uses the network: {target}", values)
    if effect.kind == "privilege":
        return Phrase("Runs with elevated privileges: {target}", values)
    if effect.kind == "secret":
        return Phrase("Reads a secret: {target}", values)
    values["target"] = _mark_outside(effect.target, effect)
    if "…" in effect.target:
        if effect.kind == "delete":
            return Phrase("Deletes files known only at run time: {target}", values)
        return Phrase("Creates or changes files known only at run time: {target}", values)
    found = measure_target(effect.target, Path(workspace), deadline)
    files = Phrase("1 file") if found.files == 1 else Phrase("{n} files", {"n": found.files})
    values |= {"files": files, "size": _size(found)}
    if not found.files:
        if effect.kind == "delete":
            if found.closed:
                return Phrase("Deletes {target}: contents cannot be read", values)
            if found.there:
                return Phrase("Deletes {target}: empty folder", values)
            return Phrase("Deletes {target}: does not exist", values)
        if found.there:
            return Phrase("Changes {target}: empty folder", values)
        return Phrase("Creates {target}", values)
    template = {
        "delete": "Deletes {target}: {files}, {size}; {kept}",
        "overwrite": "Overwrites {target}: {files}, {size}; {kept}",
        "write": "Changes {target}: {files}, {size}; {kept}",
    }[effect.kind]
    return Phrase(template, {**values, "kept": _kept(found, effect.target)})


def _kept(found: Touched, target: str) -> Phrase:
    if ".git" in Path(target).parts:
        return Phrase("git's own data")
    if found.tracked >= found.files:
        return Phrase("all tracked by git")
    if found.tracked:
        return Phrase("{tracked} tracked by git, the rest not", {"tracked": found.tracked})
    return Phrase("not tracked by git")


def _size(found: Touched) -> str:
    size, more = float(found.size), "" if found.complete else "≥ "
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{more}{size:.0f} {unit}"
        size /= 1000
    return f"{more}{size:.1f} GB"


def _files(paths: Iterable[Path]) -> Iterator[int | None]:
    """Yield the size of each file at or below `paths`, None for what may not be looked at.

    Links count as themselves.
    """
    closed: list[str] = []
    for path in paths:
        for _, entry in walk(settle_path(path), closed):
            if entry is None:
                yield None
            elif entry.kind not in ("folder", "absent"):
                yield entry.size
    if closed:
        yield None


def _count_tracked(paths: Sequence[Path], cwd: Path) -> int:
    """Return how many files below `paths` git tracks unchanged in its index."""
    if not paths:
        return 0
    try:
        listed = host_git(
            cwd,
            *("--literal-pathspecs", "ls-files", "-z", "--", *(str(path) for path in paths[:200])),
            seconds=_GIT_SECONDS,
        )
    except TimeoutError:
        return 0
    return listed.count(b"\0") if listed is not None else 0


class UndoService:
    """The pre-images of one session. Only files in the workspace are kept."""

    def __init__(self, store: PreimageStore, workspace: Path) -> None:
        self.store = store
        self.workspace = workspace
        self.running: set[str] = set()

    def covers(self, report: RiskReport) -> bool:
        """Return whether all that an action may change in the workspace would be kept."""
        paths = paths_changed(with_workspace(report), str(self.workspace))
        return self.store.unkept(paths, alone=True) is None

    def keep(
        self, request: ActionRequest, report: RiskReport, relied_on: bool = False
    ) -> Preimage | None:
        """Keep what `request` will overwrite, delete or create. Raises `StorageError`.

        Where policy `relied_on` that, it is also what the text of a command does not tell.
        """
        paths = self._paths(request, report)
        widened = self._paths(request, with_workspace(report)) if relied_on else ()
        if not (paths or widened) or request.effect == "hosts":
            return None
        self.running.add(request.id)
        return self.store.keep(request.id, request.command, paths, widened)

    def note_left(self, request_id: str) -> None:
        """Note what an action that has ended left: only that is taken back unasked."""
        if request_id in self.running:
            with suppress(StorageError):
                self.store.note_left(request_id)

    def preview(self, request: ActionRequest, report: RiskReport) -> tuple[Phrase, ...]:
        """Return what the request would do to this disk, and whether that can be undone."""
        if request.effect == "hosts":
            safe = report.label == "safe_readonly"
            return () if safe else (Phrase("On other machines, nothing can be undone with /undo."),)
        promise, lines = self.promise(request, report), preview(report, str(self.workspace))
        return (*lines, promise) if promise is not None else lines

    def promise(self, request: ActionRequest, report: RiskReport) -> Phrase | None:
        """Return whether the action can be undone; None when it changes nothing."""
        changed = [e for e in report.effects if e.kind in CHANGING_KINDS]
        beyond = [e for e in report.effects if e.kind in BEYOND]
        if request.effect == "edit":
            if not self._paths(request, report):
                path = {"target": request.arguments.get("path", "")}
                return Phrase("Cannot be undone: {target}", path)
            return Phrase("Can be undone with /undo.")
        if report.label == "safe_readonly":
            return None
        never = [e.target for e in changed if e.outside or "…" in e.target]
        if never:
            return Phrase("Cannot be undone: {target}", {"target": never[0]})
        # A file that is written and replaced is not the one any more that its other names are.
        alone = len(changed) > 1 or len(report.programs) > 1
        paths = self._paths(request, report) if not beyond else ()
        unkept = self.store.unkept(paths, alone=alone)
        if changed and unkept is not None:
            return Phrase(
                "Can be undone with /undo, except {target} (too large, unreadable or a hard link).",
                {"target": unkept.removeprefix(f"{self.workspace}/")},
            )
        if changed and not beyond:
            return Phrase("Changes in the workspace can be undone with /undo.")
        return Phrase("May not be reversible.")

    def beyond(self, report: RiskReport, *, own: bool = False) -> Iterator[Effect]:
        """Yield the effects of an action that happened that no saved copy can undo.

        For a command of the user's `own` nothing was saved.
        """
        for effect in report.effects:
            unsaved = own or effect.outside or "…" in effect.target
            runs = effect.kind == "execute" and report.label != "workspace_write"
            if effect.kind in BEYOND or runs or (effect.kind in CHANGING_KINDS and unsaved):
                yield effect

    def images(self) -> tuple[Preimage, ...]:
        """Return what can be undone, the newest first."""
        return tuple(image for image in self.store.images() if not image.undone)

    def latest(self) -> WayBack:
        """Return the way back to before the last action that left a changed file.

        It may only keep files. Raises `UsageError` without such an action.
        """
        for image in self.images():
            way = self.store.way_back([image])
            if way.changes or way.kept:
                return way
        raise UsageError("Nothing to undo: no saved file has changed.")

    def _paths(self, request: ActionRequest, report: RiskReport) -> tuple[Path, ...]:
        if request.effect == "edit" and "path" in request.arguments:
            found: Iterable[Path] = (Path(str(request.arguments["path"])),)
        else:
            found = map(settle_path, paths_changed(report, str(self.workspace)))
        inside = os.path.realpath(self.workspace)
        return tuple(path for path in found if path.is_relative_to(inside))
