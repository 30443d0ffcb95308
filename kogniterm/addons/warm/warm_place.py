"""The socket of the warm server of this user and installation, and what is said on it.

Imports nothing that a bare interpreter has not loaded: it is read at every start.
"""

from __future__ import annotations

import _locale
import _signal  # type: ignore[import-not-found]  # `signal` takes as long as the whole hand-over
import os
import stat
import sys
from zlib import crc32

TYPE_CHECKING = False  # `typing` takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCH = "KOGNITERM_WARM"
PLAIN_NAMES = ("ANTHROPIC_LOG", "CI", "GLIBC_TUNABLES", "OPENAI_LOG", "PY_SAX_PARSER")
PLAIN_PREFIXES = (
    "DEFER_PYDANTIC_", "LANGGRAPH_", "LD_", "MALLOC_", "OPENSSL_", "OTEL_PYTHON_CONTEXT",
    "PYDANTIC_", "SUDO_", "WCWIDTH_", "WEBSOCKETS_", "_PYTHON",
)  # fmt: skip
"""Variables that the loader or a library reads while it is loaded, which a fork would be too late
for, and those of CI and sudo. A start with one of them is a plain one."""
LARGEST = 200_000
"""Most bytes of a message. A start with a larger environment is a plain one."""
READY, GO = b"ready", b"go"
"""The session's word that it could begin, and the client's that it still waits for it."""
VERBS = (
    "run", "resume", "sessions", "queue", "hosts", "replay", "memory", "recipe", "policy", "tools",
    "skills", "hooks", "trust", "audit", "config", "models", "mcp", "acp", "storage",
)  # fmt: skip
"""The commands that may start warm, as the prompt does. The others load little, or set up or check
the installation itself; a worker stays for weeks, and its children start warm."""
CLIENT_LIBRARIES = ("langchain_google_genai", "langchain_openai", "langchain_anthropic")
"""Clients of providers, which take 0.6 to 2 s to import: a server loads those that calls have used.
That of Ollama makes a client, of the variables that it finds, while it is loaded."""
UNTOLD = (_signal.SIGPIPE, _signal.SIGXFSZ)
"""Signals that every Python ignores by itself."""


def may_be_warm(argv: list[str]) -> bool:
    """Return whether this command line and process, on this terminal, allow a warm start."""
    if argv and not (argv[0].startswith("-") or argv[0] in VERBS or len(argv[0].split()) > 1):
        return False
    # A descriptor that the caller opened for this command is named by its path.
    if any("/fd/" in word for word in argv) or sys.platform != "linux":
        return False
    if plain_variables(os.environ) or sys._xoptions or sys.warnoptions or sys.gettrace():
        return False
    signals = [number for number in range(1, _signal.NSIG) if number not in UNTOLD]
    if _signal.SIG_IGN in map(_signal.getsignal, signals) or _signal.pthread_sigmask(0, ()):
        return False
    own = os.getpgrp()
    try:  # each standard stream that is a terminal is this job's, in the foreground
        return all(os.tcgetpgrp(fd) == own for fd in (0, 1, 2) if os.isatty(fd)) and (
            None not in (sys.stdin, sys.stdout, sys.stderr)
        )
    except OSError:  # the terminal of another session
        return False


def plain_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the variables of this environment that ask for a plain start."""
    return [
        name
        for name, value in environ.items()
        if name in PLAIN_NAMES
        or name.startswith(PLAIN_PREFIXES)
        # Such a module of the module path may read any variable.
        or (name == "PYTHONPATH" and "sitecustomize" in sys.modules)
        or (name == SWITCH and value.lower() == "off")
    ]


def loaded_clients() -> list[str]:
    """Return the client libraries that this process has loaded."""
    return [name for name in CLIENT_LIBRARIES if name in sys.modules]


_READ_AT_START = frozenset(
    f"PYTHON_{name}"
    for name in ("CONTEXT_AWARE_WARNINGS", "CPU_COUNT", "FROZEN_MODULES", "GIL", "JIT",
                 "THREAD_INHERIT_CONTEXT", "TLBC", "ZSTANDARD_IMPORT_POLICY")
)  # fmt: skip
"""Variables that are read at the start, and begin as others do that may hold a secret.

Source: https://docs.python.org/3.14/using/cmdline.html#environment-variables
"""


def interpreter_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a server gets too, as part of its key.

    A session has standard streams of its own, which `PYTHONUNBUFFERED` is about.
    """
    found = {
        name: value
        for name, value in environ.items()
        if value and ((name.startswith("PYTHON") and name[6:7] != "_") or name in _READ_AT_START)
    }
    found.pop("PYTHONUNBUFFERED", None)
    return found


def socket_folder(environ: Mapping[str, str]) -> str | None:
    """Return the folder of the server's socket, which need not exist; None if there can be none.

    It is in the private runtime folder of a login, or else in the cache of `kogniterm.paths`.
    """
    runtime = environ.get("XDG_RUNTIME_DIR", "").rstrip("/")
    if runtime.startswith("/") and (folder := open_private(runtime)) is not None:
        os.close(folder)
        return f"{runtime}/kogniterm"
    home, cache = environ.get("HOME", ""), environ.get("XDG_CACHE_HOME", "")
    base = cache if cache.startswith("/") else home and f"{home}/.cache"
    own = environ.get("KOGNITERM_CACHE_DIR", "") or (base and f"{base}/kogniterm")
    if own == "~" or own.startswith("~/"):
        own = home and home + own[1:]
    return f"{own.rstrip('/')}/warm-{os.geteuid()}" if own.startswith("/") else None


def server_name() -> str:
    """Return the name of the one server of this installation, behind that of the machine.

    A cache may be shared by machines and containers, in which a process ID means another process.
    """
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:  # noqa: PTH123  # imports nothing
        machine = file.read() + os.fsencode(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115  # as above
    return f"warm-{crc32(machine):08x}-{crc32(os.fsencode(__file__ + sys.executable)):08x}"


def socket_name() -> str:
    """Return the name of the server's socket if it can serve this start."""
    return f"{server_name()}-{crc32(start_key()):08x}.sock"


def start_key() -> bytes:
    """Return what a start and its server must have in common.

    The package, the interpreter with its options and variables, the module path, the locale of
    characters, and the control group above the user's own manager, below which a user may move
    processes.
    """
    script = os.path.dirname(sys.argv[0]) if sys.argv else ""  # noqa: PTH120  # imports nothing
    with open("/proc/self/cgroup", "rb") as file:  # noqa: PTH123  # imports nothing
        group = file.read().partition(b"/user@")[0]
    parts = (
        __file__,
        sys.executable,  # with its links, because an environment is chosen by that name
        sys.version,
        repr(sys.flags).replace("safe_path=True", "safe_path=False"),
        _locale.setlocale(_locale.LC_CTYPE, None),
        *(entry for entry in sys.path if entry != script),
        *(f"{name}={value}" for name, value in sorted(interpreter_variables(os.environ).items())),
    )
    return group + os.fsencode("\n".join(parts))


def open_private(folder: str) -> int | None:
    """Return a descriptor of this folder, no link, that is the user's own and closed to others.

    What is done below the descriptor is done in the folder that was checked, whatever its path
    leads to by then. None if it is none of these.
    """
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    found = os.fstat(opened)
    if found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077:
        return opened
    os.close(opened)
    return None


def below(folder: int, name: str) -> str:
    """Return a path in an open folder, short enough for a socket."""
    return f"/proc/self/fd/{folder}/{name}"
