"""An outcome that the database cannot store is spooled to a file and enters the journal once."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from kogniterm.sessions.journal.outcome_spool import MOST, RESERVED_BYTES
from tests.flows.conftest import Flow, MakeFlow
from tests.flows.program import replayed, start, start_run
from tests.support.databases import postgres_server, postgres_url
from tests.support.forge import Forge, Started, until

# Read before the environment of a test is prepared, which removes this variable.
ALL = os.environ.get("KOGNITERM_TEST_FAULTS") == "all"
__all__ = ["postgres_server", "postgres_url"]

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
RUN = f"{{run: 'echo ran >>count; echo pineapple {TOKEN}', purpose: Count}}"
COUNTED = f"replies: [{RUN}, {{text: Done.}}]"
TOLD = """
replies:
  - {when: {last_contains: 'outcome unknown'}, text: Unknown.}
  - {when: {last_contains: 'exit 0'}, text: It went well.}
  - {text: Hello., repeat: forever}
"""


def times_run(flow: Flow) -> int:
    file = flow.folder / "count"
    return len(file.read_text().split()) if file.exists() else 0


def spools(flow: Flow) -> list[Path]:
    return sorted((flow.data / "spool").glob("*"))


def kept(flow: Flow) -> str:
    """Return the spooled outcome as text."""
    (file,) = spools(flow)
    return file.read_bytes().rstrip(b"\0").decode()


def outcomes(flow: Flow) -> list[str]:
    """Return the status of each outcome in the journal."""
    database = flow.data / "kogniterm.db"
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT payload FROM records WHERE kind = 'outcome'").fetchall()
    return [json.loads(payload)["status"] for (payload,) in rows]


def result_of(started: Started) -> dict[str, object]:
    return dict(json.loads(started.out.read_text().splitlines()[-1]))


def resumed(forge: Forge, flow: Flow, **environ: str) -> tuple[int, str]:
    flow.environ.update(environ)
    started = start_run(forge, flow, "-y", "--resume=last")
    return started.wait(), started.said


# --- a disk that is full -----------------------------------------------------------------------


@pytest.mark.parametrize("point", ["before-outcome", "written-outcome"])
def test_what_is_known_is_said_and_enters_the_journal_at_the_next_start(
    make_flow: MakeFlow, forge: Forge, point: str
) -> None:
    flow = make_flow(COUNTED)
    words = ("-y", "--output=json", "count")
    started = start_run(forge, flow, *words, faults=f"full:{point}")
    assert started.wait() == 1, started.said
    result = result_of(started)
    assert "The action has ended, but its outcome could not be written" in str(result["reason"])
    assert "nothing was lost" not in started.said
    (command,) = result["commands"]  # type: ignore[misc]
    assert (command["status"], command["exit_code"]) == ("exited", 0)
    (file,) = spools(flow)
    assert str(file) in str(result["reason"])
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert file.stat().st_size <= max(RESERVED_BYTES, MOST)
    assert "pineapple" in kept(flow)
    assert TOKEN not in kept(flow)
    assert outcomes(flow) == []
    status, said = resumed(forge, make_flow(TOLD))
    assert status == 0, said
    assert "It went well." in said
    assert "1 outcome that could not be saved to the database earlier is now in the journal" in said
    assert outcomes(flow) == ["finished"]
    assert spools(flow) == []
    assert times_run(flow) == 1
    assert start(forge, flow, "audit", "verify").wait() == 0
    assert replayed(forge, flow)[0] == 0


@pytest.mark.parametrize("point", ["before-outcome", "written-outcome", "after-outcome"])
def test_a_crash_while_it_enters_the_journal_neither_loses_nor_repeats_it(
    make_flow: MakeFlow, forge: Forge, point: str
) -> None:
    flow = make_flow(COUNTED)
    assert start_run(forge, flow, "-y", "count", faults="full:before-outcome").wait() == 1
    for _ in range(2):
        again = start_run(forge, make_flow(TOLD), "-y", "--resume=last", faults=f"kill:{point}")
        assert again.wait() in (-signal.SIGKILL, 0), again.said
    resumed(forge, make_flow(TOLD))
    assert outcomes(flow) == ["finished"]
    assert spools(flow) == []
    assert times_run(flow) == 1


def test_nothing_starts_where_there_is_no_room_for_its_outcome(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(COUNTED)
    data = flow.data
    data.mkdir(mode=0o700)
    (data / "spool").write_text("not a folder")
    started = start_run(forge, flow, "-y", "count")
    assert started.wait() == 1
    assert times_run(flow) == 0


def test_an_outcome_that_can_be_kept_nowhere_is_unknown(make_flow: MakeFlow, forge: Forge) -> None:
    data = make_flow().environ["KOGNITERM_DATA_DIR"]
    run = f"echo ran >>count; rm -r {data}/spool; touch {data}/spool"
    flow = make_flow(json.dumps({"replies": [{"run": run, "purpose": "Count"}, {"text": "Done."}]}))
    started = start_run(forge, flow, "-y", "count", faults="full:before-outcome")
    assert started.wait() == 1
    assert "its outcome could not be saved" in started.said
    status, said = resumed(forge, make_flow(TOLD))
    assert status == 3, said
    assert "outcome is unknown" in said
    assert times_run(flow) == 1


def test_a_file_that_may_not_grow_keeps_what_ended(make_flow: MakeFlow, forge: Forge) -> None:
    """The limit is between the size the intent needs and the size the outcome needs."""
    replies = [{"run": "echo ran >>count; seq 1 4000", "purpose": "Count"}, {"text": "Done."}]
    flow = make_flow(json.dumps({"replies": replies}))
    data = flow.data
    killed = start_run(forge, flow, "-y", "count", faults="kill:before-outcome")
    assert killed.wait() == -signal.SIGKILL, killed.said
    log = (data / "kogniterm.db-wal").stat().st_size
    for file in data.rglob("*"):
        if file.is_file():
            file.unlink()
    (flow.folder / "count").unlink()
    model = str(flow.flags["model"])
    started = forge.start(
        ["run", "--no-sandbox", "--model", model, "-y", "count"],
        environ=flow.environ,
        folder=flow.folder,
        scratch=flow.folder.parent,
        file_size=max(log, RESERVED_BYTES) + 16_384,
    )
    assert started.wait() == 1, started.said
    assert "The action has ended, but its outcome could not be written" in started.said
    assert outcomes(flow) == []
    status, said = resumed(forge, make_flow(TOLD))
    assert status == 0, said
    assert outcomes(flow) == ["finished"]
    assert times_run(flow) == 1


def test_a_disk_that_a_command_fills_keeps_how_it_ended(make_flow: MakeFlow, forge: Forge) -> None:
    data = make_flow().data
    data.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", str(data)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a small file system")
    try:
        run = f"echo ran >>count; seq 1 3000; cat /dev/zero >{data}/filler"
        flow = make_flow(json.dumps({"replies": [{"run": run, "purpose": "Count"}]}))
        started = start_run(forge, flow, "-y", "count")
        assert started.wait() == 1, started.said
        assert "The action has ended, but its outcome could not be written" in started.said, (
            started.said[-500:]
        )
        assert "nothing was lost" not in started.said
        (data / "filler").unlink()
        status, said = resumed(forge, make_flow("replies: [{text: I see., repeat: forever}]"))
        assert status == 0, said
        assert "unknown" not in said
        assert outcomes(flow) == ["finished"]
        assert times_run(flow) == 1
    finally:
        subprocess.run(["umount", str(data)], check=True)


async def test_a_kept_outcome_is_forgotten_and_deleted_with_the_rest(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(COUNTED)
    assert start_run(forge, flow, "-y", "count", faults="full:before-outcome").wait() == 1
    forgotten = start(forge, flow, "memory", "forget", "pineapple", "--yes")
    assert forgotten.wait() == 0, forgotten.said
    data = flow.data
    assert not [
        file for file in data.rglob("*") if file.is_file() and b"pineapple" in file.read_bytes()
    ]
    assert (
        start_run(forge, make_flow(COUNTED), "-y", "count", faults="full:before-outcome").wait()
        == 1
    )
    deleted = start(forge, flow, "sessions", "delete", "last", "--yes")
    assert deleted.wait() == 0, deleted.said
    assert spools(flow) == []


# --- a server that is unreachable ---------------------------------------------------------------


class HangingUp:
    """A proxy of the PostgreSQL server that can close its connections and stop listening."""

    def __init__(self, url: str, folder: Path) -> None:
        real = unquote(url.split("host=")[1].split("&")[0])
        self.url = url.replace(quote(real, safe=""), quote(str(folder), safe=""))
        self._real = f"{real}/.s.PGSQL.5432"
        self._folder, self._open = folder, list[socket.socket]()
        self.come_back()

    def come_back(self) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._folder / ".s.PGSQL.5432"))
        self._listening.listen()
        threading.Thread(target=self._serve, args=(self._listening,), daemon=True).start()

    def hang_up(self) -> None:
        (self._folder / ".s.PGSQL.5432").unlink(missing_ok=True)
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def _serve(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._real)
                self._open += [client, server]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def server(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HangingUp]:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp", prefix="kt-") as folder:
        hanging = HangingUp(postgres_url, Path(folder))
        yield hanging
        hanging.hang_up()


WAITING = (
    "replies: [{run: 'echo ran >>count; touch began; until [ -e gone ]; do sleep 0.05; done', "
    "purpose: Count}, {text: Done.}]"
)


def cut_off(forge: Forge, flow: Flow, server: HangingUp) -> Started:
    """Start a run, disconnect the server during its command, and wait until the run reports it."""
    flow.environ["KOGNITERM_DATABASE_URL"] = server.url
    started = start_run(forge, flow, "-y", "--output=stream-json", "count")
    until(lambda: (flow.folder / "began").exists() or started.gone)
    server.hang_up()
    (flow.folder / "gone").touch()
    until(lambda: "Retrying the database for up to" in started.said)
    return started


def test_a_server_that_comes_back_in_time_gets_the_outcome(
    make_flow: MakeFlow, forge: Forge, server: HangingUp
) -> None:
    flow = make_flow(WAITING)
    started = cut_off(forge, flow, server)
    server.come_back()
    assert started.wait() == 0, started.said
    assert spools(flow) == []
    assert times_run(flow) == 1
    assert start(forge, flow, "audit", "verify").wait() == 0
    assert replayed(forge, flow)[0] == 0


@pytest.mark.parametrize("how", ["killed", "given up"])
def test_a_server_that_stays_away_gets_it_at_the_next_start(
    make_flow: MakeFlow, forge: Forge, server: HangingUp, how: str
) -> None:
    if how == "given up" and not ALL:
        pytest.skip("half a minute of waiting belongs to the long fault runs")
    flow = make_flow(WAITING)
    started = cut_off(forge, flow, server)
    if how == "killed":
        started.send(signal.SIGKILL)
        assert started.wait() == -signal.SIGKILL
    else:
        assert started.wait() == 1
        assert "The action has ended, but its outcome could not be written" in started.said
    assert "ran >>count" in kept(flow)
    server.come_back()
    later = make_flow(TOLD)
    status, said = resumed(forge, later, KOGNITERM_DATABASE_URL=server.url)
    assert status == 0, said
    assert "It went well." in said
    assert spools(flow) == []
    assert times_run(flow) == 1


def test_two_crashes_are_remembered_by_a_server_too(
    make_flow: MakeFlow, forge: Forge, postgres_url: str
) -> None:
    kill: Callable[[str, str], int] = lambda faults, words: start_run(  # noqa: E731
        forge, shared(make_flow(COUNTED)), "-y", words, faults=faults
    ).wait()

    def shared(flow: Flow) -> Flow:
        flow.environ["KOGNITERM_DATABASE_URL"] = postgres_url
        return flow

    assert kill("kill:before-outcome", "count") == -signal.SIGKILL
    assert kill("kill:after-outcome", "--resume=last") == -signal.SIGKILL
    flow = shared(make_flow(COUNTED))
    status, said = resumed(forge, flow)
    assert status == 3, said
    assert times_run(flow) == 1
