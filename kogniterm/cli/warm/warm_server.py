"""The warm server: loads the libraries, and forks a keeper with a session for each client.

    python -P -m kogniterm.cli.warm.warm_server SOCKET [SECONDS]

It reads no settings, no key and no file of a project: it imports modules, and its environment holds
the home and the locale alone. The server itself never reads a word of a client, so no client can
hold it up. What a client asks for is read by the keeper, a process of its own, which stays until
the session has ended: the server may end before.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import NamedTuple, NoReturn

from kogniterm.cli.warm import warm_messages as messages
from kogniterm.cli.warm.peer_state import same_state
from kogniterm.cli.warm.warm_place import address, is_private, start_key
from kogniterm.host.langsmith_stand_in import keep_out

IDLE_SECONDS = 20 * 60
"""Seconds without a client after which the server ends."""
WAITING = 32
"""Clients that may wait; one more is told at once that the server is busy."""
REQUEST_SECONDS = 2.0
PRELOADED = (
    "kogniterm.cli.main",
    "kogniterm.cli.open_prompt",
    "kogniterm.cli.text_output",
    "kogniterm.cli.user_screen",
    "kogniterm.cli.warm.warm_session",
    "kogniterm.ui.prompt.terminal_front",
    "kogniterm.runtime.assembly",
    "kogniterm.approval.analysis.analyser",
    "kogniterm.approval.analysis.footprint",
    "kogniterm.approval.analysis.same_command",
    "kogniterm.approval.analysis.sandbox_failures",
)
"""Modules that lead to most of what a turn imports. The rest, and the client libraries of the
providers, would take more memory than a server may have that perhaps waits in vain."""
_SAMPLE = "I always do this with asthma. password=0 ghp_0 00000000:AA"
"""Text that has the patterns made that turns need: it begins like what each of them looks for."""
_TO_GROUP = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT)
"""Signals of a terminal, which reach everything in its foreground job."""
_ENDING = {signal.SIGTERM}


class World(NamedTuple):
    """The basis of all sessions: what their starts have in common, and the files it is from.

    `files` are separated by NUL and `stamps` by a line break: one string each, because to use the
    names that the modules have would copy the memory around them in every keeper.
    """

    key: str
    files: str
    stamps: str

    def is_stale(self) -> bool:
        """Return whether one of the files has changed since it was loaded."""
        return _stamps(self.files) != self.stamps


class _EndedError(Exception):
    """The server was told to end."""


def main(path: str, idle: float = IDLE_SECONDS) -> int:
    """Serve at the socket `path` until nobody has come for `idle` seconds."""
    key = start_key()
    folder = Path(path).parent
    if key is None or address(str(folder), key) != path:
        return 1
    os.umask(0o177)
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o700)
    if not is_private(str(folder)):
        return 1
    lock = _locked(path)
    if lock is None:  # another one serves here, or is about to
        return 0
    world = World(key, *_load())
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()  # of a server that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(WAITING)
    identity = _stamp(path)
    try:
        _serve(listener, lock, world, idle)
    except _EndedError:
        pass
    finally:
        if _stamp(path) == identity:
            Path(path).unlink()
    return 0


def _locked(path: str) -> int | None:
    """Return the descriptor of the lock that one server holds, with its process ID in the file."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(f"{path}.lock", flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    os.ftruncate(lock, 0)
    os.write(lock, b"%d\n" % os.getpid())
    return lock


def _load() -> tuple[str, str]:
    """Import the libraries; return all files that this depends on, and their stamps."""
    from kogniterm.prompts import shipped

    gc.disable()
    keep_out()
    for module in PRELOADED:
        importlib.import_module(module)
        gc.collect()
    _prepare()
    gc.collect()
    package = Path(sys.modules["kogniterm"].__file__ or "").parent
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    # Folders of bytecode change whenever somebody imports a module for the first time.
    kinds = (".py", ".pyc")
    found = (file for file in package.rglob("*") if file.name != "__pycache__")
    data = [str(file) for file in found if file.suffix not in kinds]
    prompts = [str(file.path) for file in shipped().values()]
    names = {str(file) for file in (*loaded, *data, *prompts, *sys.path, sys.executable) if file}
    files = "\0".join(sorted(names))
    stamps = _stamps(files)
    # What a fork shares stays shared only as long as nobody writes to it.
    gc.freeze()
    return files, stamps


def _prepare() -> None:
    """Do once what each session would do again: schemas of tools and patterns."""
    from kogniterm.memory.extraction import preference_statements, statements
    from kogniterm.memory.forgetter import forget_request
    from kogniterm.memory.sensitive_topics import personal_kind
    from kogniterm.text.redact import find_secrets
    from kogniterm.tools.tool_registry import listed_tools

    listed_tools()
    preference_statements.preferences_in(_SAMPLE)
    statements.find_statements(_SAMPLE)
    forget_request(_SAMPLE)
    find_secrets(_SAMPLE)
    personal_kind(_SAMPLE)


def _stamps(files: str) -> str:
    return "\n".join(map(_stamp, files.split("\0")))


def _stamp(file: str) -> str:
    try:
        found = os.stat(file)  # noqa: PTH116  # pathlib doubles the time of a start's check
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _end(_number: int, _frame: object) -> None:
    raise _EndedError


def _serve(listener: socket.socket, lock: int, world: World, idle: float) -> None:
    """Fork a keeper for each client."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while poll.poll(idle * 1000):
        # Without room for one more descriptor or process, the client starts by itself.
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            # To be ended is for the server alone, never for what it has just forked.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
            if os.fork() == 0:
                _keep(listener, lock, connection, world)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


# --- the keeper of one session ------------------------------------------------------------------


def _keep(listener: socket.socket, lock: int, connection: socket.socket, world: World) -> NoReturn:
    """Run the session of one client beside this process, which ends with it."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        server = os.getppid()
        # The lock is the server's, for as long as one process has it open.
        os.close(lock)
        listener.close()
        os.setsid()
        connection.settimeout(REQUEST_SECONDS)
        connection.send(bytes([messages.HELLO]))
        session = _admit(connection, world, server)
        if session is None:
            connection.send(bytes([messages.REFUSED, 0]))
        else:
            _attend(connection, session)
    except (OSError, messages.GarbledError):
        pass  # the client is gone, or is none
    finally:
        os._exit(0)


def _admit(connection: socket.socket, world: World, server: int) -> int | None:
    """Check the client and fork its session; return its process ID once it may begin."""
    from kogniterm.cli.warm.warm_session import Request, be_session

    client, user = messages.peer(connection)
    data, descriptors = messages.receive(connection)
    request = Request.parsed(data, descriptors)
    if user != os.geteuid() or request.key != world.key or not same_state(client):
        return None
    if world.is_stale():
        os.kill(server, signal.SIGTERM)
        return None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    session = os.fork()
    if session == 0:
        connection.close()
        ours.close()
        be_session(request, client, theirs)
    theirs.close()
    for descriptor in descriptors:
        os.close(descriptor)
    with ours:
        word = ours.recv(1)
        if word == bytes([messages.REFUSED]):  # warm starts are switched off
            os.kill(server, signal.SIGTERM)
        if word != bytes([messages.READY]):
            return None
        connection.send(bytes([messages.READY, 0]))
        if connection.recv(1) == bytes([messages.GO]):
            ours.send(bytes([messages.GO]))
            return session
    os._exit(0)  # the client did not wait; the session ends without the word


def _attend(connection: socket.socket, session: int) -> None:
    """Pass signals to the session, and its stops and its end to the client."""
    connection.settimeout(None)
    children, written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(children, select.POLLIN)
    ended = _told_changes(connection, session)
    while not ended:
        for descriptor, _events in poll.poll():
            if descriptor == children:
                os.read(children, 4096)
                ended = _told_changes(connection, session)
            elif not (numbers := connection.recv(4096)):
                # The client was killed, and a plain process would have been.
                os.kill(session, signal.SIGKILL)
                return
            else:
                _deliver(numbers, session)


def _deliver(numbers: bytes, session: int) -> None:
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            if number in _TO_GROUP:
                os.killpg(session, number)
            else:
                os.kill(session, number)


def _told_changes(connection: socket.socket, session: int) -> bool:
    """Tell the client that the session stopped or ended; return whether it ended."""
    while True:
        pid, status = os.waitpid(session, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return False
        if os.WIFSTOPPED(status):
            connection.send(bytes([messages.STOPPED, os.WSTOPSIG(status)]))
        elif os.WIFSIGNALED(status):
            connection.send(bytes([messages.KILLED, os.WTERMSIG(status)]))
            return True
        else:
            connection.send(bytes([messages.EXITED, os.WEXITSTATUS(status)]))
            return True


if __name__ == "__main__":
    if os.fork() == 0:  # whoever started the server has nothing to wait for
        sys.exit(main(sys.argv[1], *map(float, sys.argv[2:])))
