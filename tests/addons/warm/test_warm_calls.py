"""Calls that start warm, calls that must not, and attempts to misuse the server."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kogniterm.host.installation import own_command
from tests.support.fake_gemini import FakeGemini
from tests.support.forge import until
from tests.support.warm import (
    ANCESTORS,
    KOGNITERM,
    LOGGED_IN,
    end,
    runtime_folder,
    server_of,
    sessions,
    until_found,
    variables,
    warm_server,
)

WHO = f"{ANCESTORS} >ancestors\n"
STATE = WHO + "env >seen; umask >>seen; date +%H >>seen; pwd >>seen"
"""A command that tells which processes it descends from and what it got from its call."""
PROCESS = r"""
import json, os

MODULE = "kogniterm.addons.warm.warm_server"

def text(of, name):
    with open(f"/proc/{of}/{name}") as file:
        return file.read()

def is_session(of):
    words = text(of, "cmdline").split("\0")
    return any(word == MODULE or word.endswith("/bin/kogniterm") for word in words)

pid = os.getppid()
while not is_session(pid):
    pid = int(text(pid, "stat").rpartition(")")[2].split()[1])
lines = dict(line.split(":\t") for line in text(pid, "status").splitlines())
state = {name: lines[name] for name in (
    "Umask", "SigIgn", "SigBlk", "SigCgt", "Cpus_allowed", "NoNewPrivs", "CapEff", "Groups",
)}
for name in ("limits", "oom_score_adj", "cgroup"):
    state[name] = text(pid, name)
state["priority"] = os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)
state["folder"] = os.readlink(f"/proc/{pid}/cwd")
state["environment"] = {**os.environ, "KOGNITERM_WARM": "as it may be"}
json.dump(state, open("state", "w"))
"""
"""A program that notes the state of the session that it was run by."""


@dataclass(frozen=True)
class Warm:
    """A user with a home, a runtime folder and a warm server."""

    home: Path
    runtime: Path
    socket: Path
    prefix: tuple[str, ...] = ()

    @property
    def server(self) -> int:
        return server_of(self.socket)

    @property
    def environ(self) -> dict[str, str]:
        return variables(self.home, self.runtime)

    def words(self, run: str) -> list[str]:
        """Return a command line whose model runs `run` and then says that it is done."""
        script = self.home / "script.yaml"
        script.write_text(json.dumps({"replies": [{"run": run}, {"text": "Done."}]}))
        model = f"scripted:{script}"
        return [*self.prefix, KOGNITERM, "run", "-y", "--no-sandbox", "--model", model, "go"]

    def start(self, run: str = "true", **more: object) -> subprocess.Popen[bytes]:
        """Start a call whose model runs `run`."""
        plain: dict[str, object] = {
            "env": self.environ,
            "cwd": self.home,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        return subprocess.Popen(self.words(run), **{**plain, **more})  # type: ignore[call-overload, no-any-return]  # any of its arguments

    def run(self, run: str = WHO, **more: object) -> bool:
        """Make a call to its end; return whether it was warm."""
        folder = Path(str(more.get("cwd", self.home)))
        (folder / "ancestors").unlink(missing_ok=True)
        process = self.start(run, **more)
        out, err = process.communicate()
        assert (process.returncode, out) == (0, b"Done.\n"), err
        return "warm_server" in (folder / "ancestors").read_text()

    def run_warm(self, run: str = WHO, **more: object) -> None:
        """Make a call until it is warm: on a busy machine it may not wait for the server."""
        until(lambda: self.run(run, **more))


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    home = tmp_path_factory.mktemp("home")
    runtime = runtime_folder(home)
    with warm_server(home, variables(home, runtime)) as found:
        yield Warm(home, runtime, found)


def test_a_call_has_all_of_its_own_and_nothing_of_another(warm: Warm, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, own in ((first, "SECRET_ONE"), (second, "SECRET_TWO")):
        folder.mkdir()
        zone = 5 if own == "SECRET_ONE" else 4
        warm.run_warm(
            STATE,
            cwd=folder,
            env={**warm.environ, own: "value", "TZ": f"UTC-{zone}"},
            umask=0o077 if own == "SECRET_ONE" else 0o027,
        )
    seen = [(folder / "seen").read_text() for folder in (first, second)]
    assert ["SECRET_ONE=value" in text for text in seen] == [True, False]
    assert ["SECRET_TWO=value" in text for text in seen] == [False, True]
    assert [text.splitlines()[-3] for text in seen] == ["0077", "0027"]
    assert [text.splitlines()[-1] for text in seen] == [str(first), str(second)]
    hours = [int(text.splitlines()[-2]) for text in seen]
    assert (hours[0] - hours[1]) % 24 in (0, 1)
    # The server itself has the home and the locale, no folder and no file.
    server = Path(f"/proc/{warm.server}")
    names = {one.partition("=")[0] for one in (server / "environ").read_text().split("\0") if one}
    assert names <= {"HOME", "LANG", "LC_CTYPE"}
    assert str((server / "cwd").readlink()) == "/"
    opened = {str(one.readlink()) for one in (server / "fd").iterdir()}
    # Some builds of libffi keep their own file open: it holds the code of each callback.
    opened = {one for one in opened if not Path(one).name.startswith("libffi.so")}
    [lock] = warm.socket.parent.glob("*.lock")
    assert opened - {"/dev/null", str(lock)} == {one for one in opened if one.startswith("socket:")}
    assert len(list((server / "task").iterdir())) == 1


def test_a_call_speaks_the_language_of_its_own_environment(warm: Warm) -> None:
    def said(**variables_: str) -> bytes:
        while True:
            process = warm.start(WHO, env={**warm.environ, **variables_})
            _out, err = process.communicate()
            if "warm_server" in (warm.home / "ancestors").read_text():
                return err

    assert b"[exit 0, " in said()
    assert b"[salida 0, " in said(LC_MESSAGES="es_ES.UTF-8")
    assert b"[salida 0, " in said(KOGNITERM_LANGUAGE="es")
    assert b"[exit 0, " in said(LC_MESSAGES="en_GB.UTF-8")
    # With another locale for everything, another server answers, or none.
    process = warm.start(env={**warm.environ, "LC_ALL": "es_ES.UTF-8"})
    assert b"[salida 0, " in process.communicate()[1]
    assert b"[exit 0, " in said()


def test_a_session_has_the_state_of_a_plain_start(warm: Warm) -> None:
    program = warm.home / "process.py"
    program.write_text(PROCESS)
    command = f"{sys.executable} {program}; {WHO}"
    environ = {**warm.environ, "COLUMNS": "77", "NO_COLOR": "1", "TERM": "vt100"}
    warm.run_warm(command, env=environ, umask=0o027)
    begun_warm = (warm.home / "state").read_text()
    assert not warm.run(command, env={**environ, "KOGNITERM_WARM": "off"}, umask=0o027)
    assert json.loads(begun_warm) == json.loads((warm.home / "state").read_text())


def test_an_unusual_call_starts_plain(warm: Warm) -> None:
    for unusual in (
        lambda: os.nice(5),
        lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}),
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (333, 444)),
        lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # nohup
    ):
        assert not warm.run(preexec_fn=unusual)
    for name, value in (
        ("KOGNITERM_WARM", "off"),
        ("CI", "true"),
        ("A", "x" * 100_000),  # with the next, more than a message takes
    ):
        assert not warm.run(env={"B": "x" * 110_000, **warm.environ, name: value}), name
    config = warm.home / ".config/kogniterm"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text('warm = "off"\n')
    pid = warm.server
    try:
        until(lambda: not warm.run() and not Path(f"/proc/{pid}").exists())
    finally:
        (config / "config.toml").unlink()
    # It starts again after the next use.
    until(lambda: warm.run() or warm.run())


def test_a_call_with_another_interpreter_has_its_server_when_the_first_has_ended(
    warm: Warm,
) -> None:
    warm.run_warm(env={**warm.environ, "PYTHONUNBUFFERED": "1"})
    asked = {**warm.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "1"}
    assert not warm.run(env=asked)
    first = warm.server
    assert not warm.run(env=asked)
    assert [int(lock.read_text()) for lock in warm.socket.parent.glob("*.lock")] == [first]
    end(first)
    until(lambda: warm.run(env=asked))
    assert not warm.run()
    end(server_of(until_found(warm.socket.parent)))
    until(warm.run)


def test_input_output_and_descriptors_are_those_of_the_call(warm: Warm) -> None:
    keys = warm.home / "keys.env"
    keys.write_text("KOGNITERM_MAX_STEPS=0\n")
    with keys.open() as file:
        words = warm.words("true")
        words[2:2] = ["--env-file", f"/dev/fd/{file.fileno()}"]
        done = subprocess.run(
            words,
            env=warm.environ,
            cwd=warm.home,
            input=b"data",
            capture_output=True,
            pass_fds=[file.fileno()],
            check=False,
        )
    assert done.returncode == 2
    assert b"KOGNITERM_MAX_STEPS is 0" in done.stderr
    # A pipe ends with the call: nothing of the server holds it open.
    assert warm.start().communicate()[0] == b"Done.\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_ends_a_call_and_its_command(warm: Warm, number: signal.Signals) -> None:
    def interrupted() -> bool:
        begun = warm.home / "begun"
        begun.unlink(missing_ok=True)
        process = warm.start("echo $$ >begun; sleep 1000")
        until(lambda: begun.exists() and begun.read_text().strip() != "")
        was_warm, command = bool(sessions(warm.server)), int(begun.read_text())
        process.send_signal(number)
        process.communicate()
        assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
        until(lambda: not Path(f"/proc/{command}").exists())
        until(lambda: not sessions(warm.server))
        return was_warm

    until(interrupted)


def test_a_call_of_a_worker_is_warm_and_ends_with_its_process_group(warm: Warm) -> None:
    def killed() -> bool:
        begun = warm.home / "begun"
        begun.unlink(missing_ok=True)
        process = subprocess.Popen(
            [*own_command(), *warm.words("echo $$ >begun; sleep 1000")[1:]],
            env=warm.environ,
            cwd=warm.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until(lambda: begun.exists() and begun.read_text().strip() != "")
        was_warm, command = bool(sessions(warm.server)), int(begun.read_text())
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        until(lambda: not Path(f"/proc/{command}").exists())
        return was_warm

    until(killed)


def test_the_server_takes_less_than_its_limit(warm: Warm) -> None:
    held = Path(f"/proc/{warm.server}/smaps_rollup").read_text()
    memory = 1024 * int(held.split("Pss:")[1].split()[0])
    # The same libraries take a fifth more on Python 3.14 than on 3.11: 80 and 66 MB for langgraph,
    # langchain-core, pydantic, httpx and prompt_toolkit.
    limit = 66_000_000 if sys.version_info < (3, 14) else 80_000_000
    assert 20_000_000 < memory < limit


def test_who_misuses_the_socket_gets_nothing_and_stops_nobody(warm: Warm) -> None:
    held = []
    for data in (b"", b"x", b"9999999999:", b"1:x" * 50, os.urandom(1000)):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.connect(str(warm.socket))
        if data:
            one.send(data)
        held.append(one)
    warm.run_warm()
    for one in held:
        one.settimeout(60)
        assert one.recv(20).isdigit()
        assert one.recv(20) == b""
        one.close()
    until(lambda: not sessions(warm.server))


def test_a_folder_that_others_could_use_is_not_used(warm: Warm, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(warm.runtime)
    assert not warm.run(env={**warm.environ, "XDG_RUNTIME_DIR": str(link)})
    folder = warm.socket.parent
    folder.chmod(0o755)
    assert not warm.run()
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
        assert not warm.run()
        os.chown(folder, 0, 0)
    warm.run_warm()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_socket_of_another_user_gets_nothing(warm: Warm, tmp_path: Path) -> None:
    warm.run_warm()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "s"))
        os.seteuid(12345)  # as which the kernel notes who listens
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        kept = warm.socket.with_name("kept")
        warm.socket.rename(kept)
        warm.socket.symlink_to(tmp_path / "s")
        try:
            assert not warm.run()
        finally:
            kept.rename(warm.socket)
        taken = listener.accept()[0]
        assert taken.recv(100) == b""
        taken.close()


def test_a_call_without_a_login_is_warm(tmp_path: Path) -> None:
    environ = variables(tmp_path, tmp_path / "none") | {"PYTHONUNBUFFERED": "1"}
    del environ["XDG_RUNTIME_DIR"], environ["LANG"]
    folder = tmp_path / f".cache/kogniterm/warm-{os.geteuid()}"
    with warm_server(tmp_path, environ, folder, LOGGED_IN) as found:
        call = Warm(tmp_path, tmp_path, found, LOGGED_IN)
        # As in a container, in a service and over ssh: no terminal, locale or session of a login,
        # and for the kernel's audit each login is another.
        call.run_warm(env=environ, start_new_session=True)


def test_the_next_server_has_loaded_the_client_of_a_provider_that_was_used(
    tmp_path: Path, fake_gemini: FakeGemini
) -> None:
    environ = variables(tmp_path, runtime_folder(tmp_path)) | {
        "GOOGLE_API_KEY": "key", "GOOGLE_GEMINI_BASE_URL": fake_gemini.url,
    }  # fmt: skip
    asked = [KOGNITERM, "run", "-y", "--no-sandbox", "--model", "google_genai:gemini-2.5-pro", "go"]

    def is_warm() -> bool:
        fake_gemini.call(("execute_command", {"command": WHO, "purpose": "Look."}))
        fake_gemini.say("Done.")
        subprocess.run(asked, env=environ, cwd=tmp_path, stdin=subprocess.DEVNULL, check=True)
        return "warm_server" in (tmp_path / "ancestors").read_text()

    with warm_server(tmp_path, environ) as found:  # after a call with a scripted model
        first = server_of(found)
        until(is_warm)
        until(lambda: until_found(found.parent) == found and server_of(found) != first)
        until(is_warm)
        second = server_of(found)
        assert "langchain_google_genai" in Path(f"/proc/{second}/cmdline").read_text()
        # A session that loaded it itself would replace the server again.
        until(is_warm)
        assert server_of(found) == second


def test_a_change_of_the_code_is_seen_at_once(warm: Warm) -> None:
    warm.run_warm()
    pid = warm.server
    changed = Path(sys.modules["kogniterm"].__file__ or "").with_name("errors.py")
    os.utime(changed)
    until(lambda: not warm.run() and not Path(f"/proc/{pid}").exists())
    until(lambda: until_found(warm.socket.parent) is not None and warm.server != pid)
    warm.run_warm()


def test_a_server_that_is_killed_or_stopped_delays_nobody(warm: Warm) -> None:
    # Descriptors that it would keep in its queue would keep the reader of this pipe waiting.
    os.kill(warm.server, signal.SIGSTOP)
    try:
        assert not warm.run()
    finally:
        os.kill(warm.server, signal.SIGCONT)
    os.kill(pid := warm.server, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert not warm.run()
    until(lambda: warm.server != pid)
    warm.run_warm()
    end(warm.server)
    assert not warm.run()
