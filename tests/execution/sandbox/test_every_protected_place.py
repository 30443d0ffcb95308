"""Every place that a sandbox hides or keeps is tried: in what it mounts, and from inside."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kogniterm.execution.process.confined_program import run_confined
from kogniterm.execution.sandbox import planted
from kogniterm.execution.sandbox.confinement import Sandbox, SandboxKind
from kogniterm.execution.sandbox_probe import Probe
from kogniterm.paths import Paths
from kogniterm.runtime.services import policy_service
from kogniterm.settings import Settings
from tests.support.executing import KINDS, PATIENCE, outside_tmp
from tests.support.programs import require_sandbox

SECRET_FOLDERS = sorted(planted.protected_names("secret_folders"))
SECRET_FILES = sorted(planted.protected_names("secret_files"))
OWN = ("config", "data", "cache")


class Place:
    """A home with every place that is protected, and KogniTerm's folders where few have them."""

    def __init__(self, base: Path, kind: SandboxKind, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.home = base / "home"
        self.workspace = self.home / "work"
        self.paths = Paths(*(self.home / "elsewhere" / name for name in OWN))
        self.folders = [self.home / name for name in SECRET_FOLDERS]
        self.files = [self.home / name for name in SECRET_FILES]
        for folder in (*self.folders, *self.own, self.workspace / ".git"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "secret").write_text("a secret")
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_text("a secret")
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setattr(policy_service, "probe", lambda *_: Probe(kind, "/usr/bin/bwrap"))
        self.box, _ = policy_service.open_sandbox(Settings(), self.paths, str(self.workspace))

    @property
    def own(self) -> list[Path]:
        return [getattr(self.paths, name) for name in OWN]

    def view(self) -> dict[str, Any]:
        """Return what the supervisor is told of the sandbox."""
        return self.box.view(shell_files=str(self.base / "shell"), temporary=str(self.base / "tmp"))


@pytest.fixture
def base() -> Iterator[Path]:
    with outside_tmp() as place:
        yield place


def covered(view: dict[str, Any], path: Path) -> bool:
    """Return whether the sandbox hides `path`, or a folder above it."""
    above = {str(path), *map(str, path.parents)}
    if view["kind"] == "landlock":
        return not above.isdisjoint(view["rules"]["hide"])
    steps = (*view["mounts"], *view["protection"])
    hides = {step[-1] for step in steps if step[0] == "--tmpfs" or step[1] == "/dev/.empty"}
    return not above.isdisjoint(hides)


def writable(view: dict[str, Any], path: Path) -> bool:
    """Return whether the sandbox leaves `path` writable; of mounts the last one above it counts."""
    above = {str(path), *map(str, path.parents)}
    if view["kind"] == "landlock":
        rules = view["rules"]
        return not above.isdisjoint(rules["write"]) and above.isdisjoint(rules["close"])
    last = ""
    for option, *_, target in (*view["mounts"], *view["protection"]):
        if target in above:
            last = option
    return last.startswith("--bind") or last == "--tmpfs"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workspace", ["work", "home"])
def test_every_place_is_hidden_and_closed(
    base: Path, kind: SandboxKind, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(base, kind, monkeypatch)
    if workspace == "home":
        place.box, _ = policy_service.open_sandbox(Settings(), place.paths, str(place.home))
    view = place.view()
    hidden = [*place.folders, *place.files, place.paths.config, place.paths.data]
    shown = [path for path in hidden if not covered(view, path)]
    assert shown == []
    open_for_writing = [path for path in (*hidden, *place.own) if writable(view, path)]
    assert open_for_writing == []
    assert writable(view, place.workspace / "a.txt")
    assert not covered(view, place.workspace / "a.txt")


def test_landlock_refuses_every_place_from_inside(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_sandbox("landlock")
    place = Place(base, "landlock", monkeypatch)
    private = base / "private"
    private.mkdir()
    code = """
import sys
for path in sys.argv[1:]:
    for mode in ("r", "a"):
        try:
            open(path, mode).close()
            print(mode, path)
        except OSError:
            pass
"""
    tried = [path / "secret" for path in (*place.folders, place.paths.config, place.paths.data)]
    tried += place.files
    kept = [place.paths.cache / "secret"]
    free = place.workspace / "a.txt"
    done = run_confined(
        [sys.executable, "-I", "-S", "-c", code, *map(str, (*tried, *kept, free))],
        env={**os.environ},
        cwd=str(place.workspace),
        sandbox=place.box,
        temporary=str(private),
        seconds=PATIENCE,
    )
    assert done.output.decode().splitlines() == [f"r {kept[0]}", f"a {free}"], done.complaints
    assert {path.read_text() for path in (*tried, *kept)} == {"a secret"}


@pytest.mark.parametrize("name", sorted(planted.protected_names("guarded")))
def test_every_guarded_name_is_kept_where_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("as it was")
    box = Sandbox("bubblewrap", str(tmp_path), "/nonexistent")
    assert box.protects(str(tmp_path / name))
    found = box.search()
    assert str(tmp_path / name) in {*found.kept, *found.states}
    before = dict(found.states)
    (tmp_path / name).write_text("something else")
    changed = planted.find_planted(before, box.search().states)
    assert list(changed) == [(str(tmp_path / name), "changed")]
