"""Failures below the program: a full disk, a locked or corrupted database, concurrent programs."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.forge import Forge, Started

COUNT = {"replies": [{"run": "echo ran >>count", "purpose": "Count"}, {"text": "Done."}]}


@dataclass(frozen=True)
class Place:
    """A user's folders, and a method that starts the program in them."""

    forge: Forge
    root: Path

    @property
    def database(self) -> Path:
        return self.root / "DATA" / "kogniterm.db"

    @property
    def counted(self) -> int:
        file = self.root / "work" / "count"
        return len(file.read_text().split()) if file.exists() else 0

    def start(self, *words: str, script: object = COUNT, **environ: str) -> Started:
        (self.root / "work").mkdir(exist_ok=True)
        file = self.root / "script.yaml"
        if not file.exists() or json.loads(file.read_text()) != script:
            file.write_text(json.dumps(script))  # not while another program reads it
        kinds = {f"KOGNITERM_{k}_DIR": str(self.root / k) for k in ("CONFIG", "DATA", "CACHE")}
        given = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG")}
        given |= {"HOME": str(self.root), "KOGNITERM_WARM": "off"}
        given |= {"KOGNITERM_MODEL": f"scripted:{file}", "KOGNITERM_MEMORY": "off", **kinds}
        return self.forge.start(
            ["run", "-y", "--no-sandbox", *words, "go"],
            environ=given | environ,
            folder=self.root / "work",
            scratch=self.root,
        )


@pytest.fixture
def place(forge: Forge, tmp_path: Path) -> Place:
    return Place(forge, tmp_path)


def test_no_command_starts_when_its_intent_cannot_be_written(place: Place) -> None:
    started = place.start(KOGNITERM_FAULTS="full:before-intent")
    assert started.wait() == 1
    assert place.counted == 0
    assert "Traceback" not in started.said
    assert place.start().wait() == 0
    assert place.counted == 1


def test_a_really_full_disk_starts_nothing_and_loses_nothing(place: Place) -> None:
    data = place.root / "DATA"
    data.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(data)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("only root may mount a small file system")
    try:
        assert place.start().wait() == 0
        with (data / "filler").open("wb") as filler:
            try:
                while True:
                    os.write(filler.fileno(), b"x" * 4096)
            except OSError:
                pass
        started = place.start()
        assert started.wait() == 1
        assert "Traceback" not in started.said
        assert place.counted == 1
        (data / "filler").unlink()
        assert place.start().wait() == 0
        assert place.counted == 2
    finally:
        subprocess.run(["umount", str(data)], check=True)


def test_a_held_database_is_said_and_nothing_runs(place: Place) -> None:
    assert place.start().wait() == 0
    with closing(sqlite3.connect(place.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        started = place.start()
        assert started.wait() == 1
        other.execute("ROLLBACK")
    assert "Traceback" not in started.said
    assert place.counted == 1
    assert place.start().wait() == 0


def test_two_programs_in_one_project_keep_out_of_each_others_way(
    place: Place, tmp_path: Path
) -> None:
    commands = [{"run": f"echo {n} >>$WHO", "purpose": "Count"} for n in range(20)]
    script = {"replies": [*commands, {"text": "Done."}]}
    other = Forge()
    try:
        first = place.start(script=script, WHO="one")
        second = Place(other, place.root).start(script=script, WHO="two")
        # Both forges number their files alike; only the exit statuses of the programs count here.
        assert (first.wait(), second.wait()) == (0, 0), first.said
    finally:
        other.close()
    for who in ("one", "two"):
        lines = (place.root / "work" / who).read_text().split()
        assert lines == [str(n) for n in range(20)]
    with closing(sqlite3.connect(place.database)) as database:
        assert database.execute("SELECT count(*) FROM sessions").fetchone() == (2,)
        assert database.execute("SELECT count(DISTINCT seq) FROM records").fetchone()[0] > 100


@pytest.mark.parametrize("shift", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_changes_no_order(place: Place, shift: float) -> None:
    assert place.start().wait() == 0
    with closing(sqlite3.connect(place.database)) as database:
        database.execute("UPDATE sessions SET updated = updated + ?", (shift,))
        database.commit()
    started = place.start("--continue")
    assert started.wait() == 0, started.said
    with closing(sqlite3.connect(place.database)) as database:
        numbers = [row[0] for row in database.execute("SELECT seq FROM records ORDER BY rowid")]
    assert numbers == list(range(1, len(numbers) + 1))
