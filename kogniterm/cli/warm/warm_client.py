"""The process that the shell started: it hands itself over to a warm session and waits for it.

It stays in the shell's job, so signals, Ctrl-Z, `fg` and the exit status are those of a plain
start. Everything that is not as usual makes `attempt` return None, and the start is a plain one.
"""

from __future__ import annotations

import _locale
import _signal  # type: ignore[import-not-found]  # `signal` takes as long as the whole hand-over
import _socket
import os
import select
import sys

from kogniterm.cli.warm import warm_messages as messages
from kogniterm.cli.warm import warm_place as place

PATIENCE = 0.3
"""Seconds that a server may take to answer at all: one that is stopped must delay nobody."""
READINESS = 1.5
"""Seconds that a session may take to be ready after that; a plain start would take longer."""
_WITHOUT_PROMPT = (
    "run", "sessions", "queue", "hosts", "replay", "memory", "recipe", "policy", "tools", "skills",
    "hooks", "trust", "audit", "config", "models", "mcp", "acp", "storage",
)  # fmt: skip
ONE_SHOT = (*_WITHOUT_PROMPT, "-p", "--prompt")
"""Words of command lines that need the terminal only while they ask."""
VERBS = (*_WITHOUT_PROMPT, "resume")
"""The commands that may start warm, as the prompt does. The others load little, or set up or check
the installation itself; a worker stays for weeks, and its children start warm."""
PLAIN_OPTIONS = ("-h", "--help", "-V", "--version")
_UNTOLD = (_signal.SIGPIPE, _signal.SIGXFSZ)
"""Signals that every Python ignores by itself."""
_LOUD = (
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGCONT",
    "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGWINCH", "SIGXCPU", "SIGPROF", "SIGVTALRM", "SIGIO",
    "SIGURG", "SIGPWR", "SIGTRAP", "SIGABRT",
)  # fmt: skip
PASSED_ON = tuple(int(getattr(_signal, name)) for name in _LOUD)
"""Signals that the session gets in the place of its client."""


def may_be_warm(argv: list[str]) -> bool:
    """Return whether this command line and environment, on this terminal, allow a warm start."""
    if argv and not (argv[0].startswith("-") or argv[0] in VERBS or len(argv[0].split()) > 1):
        return False
    if any(option in argv for option in PLAIN_OPTIONS) or sys.platform != "linux":
        return False
    if place.plain_variables(os.environ) or sys.gettrace() or _signal.pthread_sigmask(0, ()):
        return False
    return None not in (sys.stdin, sys.stdout, sys.stderr) and _owns_its_terminals()


def attempt() -> int | None:
    """Run this command line in a warm session; None where it has to be run in this process."""
    key, folder = place.start_key(), place.socket_folder(os.environ)
    address = place.address(folder, key) if key is not None and folder is not None else None
    if key is None or folder is None or address is None:
        return None
    if not place.is_private(folder) or not place.is_own_socket(address):
        return None
    opened: list[_socket.socket] = []
    terminal = _open_terminal()
    try:
        if not _hand_over(address, key, terminal, opened):
            return None
        keeper, session = opened
        return _Client(keeper, session, terminal).serve()
    except messages.GarbledError:
        return None
    finally:
        for one in opened:
            one.close()
        if terminal is not None:
            os.close(terminal)


def _owns_its_terminals() -> bool:
    """Return whether each standard stream that is a terminal is this job's, in the foreground."""
    own = os.getpgrp()
    try:
        return all(os.tcgetpgrp(fd) == own for fd in (0, 1, 2) if os.isatty(fd))
    except OSError:  # the terminal of another session
        return False


def _hand_over(address: str, key: str, terminal: int | None, opened: list[_socket.socket]) -> bool:
    """Send what the session needs; return whether it waits for its start.

    What is `opened` are the connections to its keeper and to the session.
    """
    keeper = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    opened.append(keeper)
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    opened.append(ours)
    folder = -1
    try:
        keeper.setblocking(False)  # a full queue is a busy server
        keeper.connect(address)
        if messages.peer(keeper)[1] != os.geteuid():
            return False
        keeper.settimeout(PATIENCE)
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        numbers = [fd for fd in place.open_descriptors() if _is_inherited(fd)]
        lent = [folder, theirs.fileno(), *([] if terminal is None else [terminal]), *numbers]
        request = _request(key, numbers, terminal is not None)
        if len(lent) > messages.MOST_DESCRIPTORS or len(request) > messages.LARGEST:
            return False
        if keeper.recv(1) != bytes([messages.HELLO]):
            return False
        keeper.settimeout(READINESS)
        messages.send(keeper, request, lent)
        return keeper.recv(2)[:1] == bytes([messages.READY])
    except OSError:
        return False
    finally:
        theirs.close()
        if folder != -1:
            os.close(folder)


def _is_inherited(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:  # the list's own
        return False


def _open_terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _request(key: str, numbers: list[int], has_terminal: bool) -> bytes:
    os.umask(mask := os.umask(0o077))
    ignored = [
        number
        for number in range(1, _signal.NSIG)
        if number not in _UNTOLD and _signal.getsignal(number) == _signal.SIG_IGN
    ]
    streams = (sys.stdin, sys.stdout, sys.stderr)
    kinds = [text for one in streams for text in (one.encoding, one.errors or "strict")]
    parts = (
        os.fsencode(key),
        messages.packed(map(os.fsencode, sys.argv)),
        messages.packed(map(os.fsencode, sys.orig_argv)),
        messages.packed(b"%b=%b" % pair for pair in os.environb.items()),
        messages.packed(map(os.fsencode, sys.path)),
        messages.packed(b"%d" % number for number in numbers),
        messages.packed(b"%d" % number for number in ignored),
        messages.packed(map(os.fsencode, kinds)),
        os.fsencode(_locale.setlocale(_locale.LC_CTYPE, None)),
        b"%d" % mask,
        b"%d" % has_terminal,
    )
    return messages.packed(parts)


class _Client:
    """The client of one session: passes signals on, stops with it, and runs its editor."""

    def __init__(
        self, keeper: _socket.socket, session: _socket.socket, terminal: int | None
    ) -> None:
        self._keeper, self._session, self._terminal = keeper, session, terminal
        self._is_prompt = not any(word in sys.argv for word in ONE_SHOT)
        self._continued = 0
        self._program: int | None = None
        self._signals, written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (*PASSED_ON, _signal.SIGCHLD):
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self._note)
        _signal.set_wakeup_fd(written, warn_on_full_buffer=False)

    def serve(self) -> int:
        """Let the session begin, and return its exit status. Dies as the session dies."""
        self._keeper.settimeout(None)
        poll = select.poll()
        for descriptor in (self._signals, self._keeper.fileno(), self._session.fileno()):
            poll.register(descriptor, select.POLLIN)
        _say(self._keeper, bytes([messages.GO]))
        while True:
            ready = {descriptor for descriptor, _events in poll.poll()}
            if self._signals in ready:
                self._pass_on(os.read(self._signals, 4096))
            if self._session.fileno() in ready and not self._answer():
                poll.unregister(self._session.fileno())
            if self._keeper.fileno() in ready:
                status = self._heard()
                if status is not None:
                    return status

    def _note(self, number: int, _frame: object) -> None:
        """Note that this process was continued; every number is in the pipe besides."""
        self._continued += number == _signal.SIGCONT

    def _pass_on(self, numbers: bytes) -> None:
        if _signal.SIGCHLD in numbers:
            self._reap()
        told = bytes(number for number in numbers if number in PASSED_ON)
        if _signal.SIGCONT in told and self._is_prompt:
            self._await_foreground()
        if told:
            _say(self._keeper, told)

    def _heard(self) -> int | None:
        """Take the keeper's next word; return the exit status once it is known."""
        try:
            word = self._keeper.recv(2)
        except OSError:
            word = b""
        # A keeper that says nothing was killed, and its session with it.
        kind, number = word if len(word) == 2 else (messages.KILLED, _signal.SIGKILL)
        if kind == messages.EXITED:
            return int(number)
        if kind == messages.KILLED:
            return _die(number)
        if kind == messages.STOPPED:
            self._stop(number)
        return None

    def _stop(self, number: int) -> None:
        """Stop with the whole job, and continue the session when the job is continued."""
        self._stop_by(number)
        if self._is_prompt:
            self._await_foreground()
        _say(self._keeper, bytes([_signal.SIGCONT]))

    def _await_foreground(self) -> None:
        """Stop, as the kernel stops a job of the background that uses its terminal."""
        while self._terminal is not None:
            try:
                if os.tcgetpgrp(self._terminal) == os.getpgrp():
                    return
            except OSError:  # the terminal is gone
                return
            before = self._continued
            self._stop_by(_signal.SIGTTOU)
            if self._continued == before:  # it was not stopped, as nobody could continue it
                return

    def _stop_by(self, number: int) -> None:
        """Stop by the signal's own effect; return when continued, or at once if it has none."""
        if number == _signal.SIGSTOP:
            os.kill(os.getpid(), number)
            return
        _signal.signal(number, _signal.SIG_DFL)
        try:
            os.kill(0, number)
        finally:
            _signal.signal(number, self._note)

    def _answer(self) -> bool:
        """Do what the session asks for; return whether it may ask for more."""
        try:
            data, descriptors = messages.receive(self._session)
            what, *more = messages.unpacked(data) or [b""]
        except (OSError, messages.GarbledError):
            return False
        if what == b"run" and len(more) == 2 and descriptors:
            self._run(messages.unpacked(more[0]), messages.unpacked(more[1]), descriptors)
        elif what == b"foreground":
            self._await_foreground()
            _say(self._session, b"0")
        for descriptor in descriptors:
            os.close(descriptor)
        return bool(data)

    def _run(self, argv: list[bytes], environ: list[bytes], descriptors: list[int]) -> None:
        """Start a program of this job: only that may own the terminal, as an editor has to."""
        folder, *keyboard = descriptors
        variables = dict(one.split(b"=", 1) for one in environ)
        try:
            os.fchdir(folder)
            self._program = os.posix_spawn(
                argv[0],
                argv,
                variables,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, 0) for fd in keyboard],
                setsigdef=_UNTOLD,
            )
        except OSError as error:
            _say(self._session, b"!%d" % (error.errno or 0))

    def _reap(self) -> None:
        if self._program is None:
            return
        pid, status = os.waitpid(self._program, os.WNOHANG)
        if pid:
            self._program = None
            _say(self._session, b"%d" % os.waitstatus_to_exitcode(status))


def _say(connection: _socket.socket, word: bytes) -> None:
    try:  # noqa: SIM105  # contextlib takes as long as all of this
        connection.send(word)
    except OSError:
        pass  # the other end is gone, which is read from its connection


def _die(number: int) -> int:
    """End by the same signal as the session; the memory of this process tells nothing."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != _signal.SIGKILL:
        _signal.signal(number, _signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
