"""The place of the warm server of this user and installation, and the starts that may use it.

Imports nothing that a bare interpreter has not loaded: it is read at every start.
"""

from __future__ import annotations

import os
import stat
import sys
from zlib import crc32

TYPE_CHECKING = False  # `typing` takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCH = "KOGNITERM_WARM"
PLAIN_NAMES = frozenset({"CI", "GLIBC_TUNABLES", "PY_SAX_PARSER"})
PLAIN_PREFIXES = (
    "LANGGRAPH_",
    "LD_",
    "MALLOC_",
    "OPENSSL_",
    "PYDANTIC_",
    "PYTHON",
    "SUDO_",
    "WCWIDTH_",
    "WEBSOCKETS_",
    "_PYTHON",
)
"""Variables that the loader, the interpreter or a library reads while it is loaded, which a fork
would be too late for, and those of CI and sudo. A start with one of them is a plain one."""
LONGEST_ADDRESS = 107
"""Most bytes in the address of a Unix socket (`sun_path`)."""
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_INHERITED = ("coredump_filter", "timerslack_ns")
"""Files of `/proc/PID` with what a process has from its parent, and the second of which no other
process may read."""
_USER_MANAGER = "/user@"


def plain_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the variables of this environment that ask for a plain start."""
    found = [name for name in environ if name in PLAIN_NAMES or name.startswith(PLAIN_PREFIXES)]
    return [*found, SWITCH] if environ.get(SWITCH, "").lower() == "off" else found


def socket_folder(environ: Mapping[str, str]) -> str | None:
    """Return the folder of the server's socket; None without a private runtime folder."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if not runtime.startswith("/") or not is_private(runtime):
        return None
    return f"{runtime.rstrip('/')}/kogniterm"


def is_private(folder: str) -> bool:
    """Return whether this is a folder, no link, that is the user's own and closed to others."""
    try:
        found = os.lstat(folder)
    except (OSError, ValueError):
        return False
    mode = found.st_mode
    return stat.S_ISDIR(mode) and found.st_uid == os.geteuid() and not mode & 0o077


def is_own_socket(path: str) -> bool:
    """Return whether this is a socket that only this user may use."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    mode = found.st_mode
    return stat.S_ISSOCK(mode) and found.st_uid == os.geteuid() and not mode & 0o177


def address(folder: str, key: str) -> str | None:
    """Return the path of the socket of the server for `key`; None where it would be too long."""
    path = f"{folder}/warm-{crc32(key.encode('utf-8', 'surrogateescape')):08x}.sock"
    return path if len(os.fsencode(path)) <= LONGEST_ADDRESS else None


def start_key() -> str | None:
    """Return what a start and its server must have in common; None where that cannot be told.

    The package, the interpreter and its options, the module path, the encoding of file names, the
    user, the namespaces, the control group as far as a process cannot change it by itself, and
    what a process has from its parent.
    """
    try:
        # Linked names stay as they are: an environment is chosen by the name of its interpreter.
        interpreter = os.stat(sys.executable)  # noqa: PTH116  # imports nothing
        spaces = [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES]  # noqa: PTH115  # as above
        groups = fixed_groups("self")
        inherited = [process_text("self", name) for name in _INHERITED]
    except OSError:
        return None
    if sys._xoptions or sys.warnoptions:
        return None
    flags = [flag for name, flag in _flags() if name not in ("safe_path", "hash_randomization")]
    parts = (
        __file__,
        sys.executable,
        f"{interpreter.st_ino} {interpreter.st_mtime_ns}",
        sys.version,
        f"{flags} {sys.getfilesystemencoding()} {sys.getfilesystemencodeerrors()}",
        f"{os.getuid()} {os.geteuid()} {os.getgid()} {os.getegid()}",
        *_module_path(),
        *spaces,
        groups,
        *inherited,
    )
    return "\n".join(parts)


def fixed_groups(pid: int | str) -> str:
    """Return the control groups of a process, without the part below the user's own manager.

    A desktop puts every window into a group below `user@UID.service`, and the user may move
    processes between those. Raises `OSError`.
    """
    lines = []
    for line in process_text(pid, "cgroup").splitlines():
        before, manager, below = line.partition(_USER_MANAGER)
        if line.startswith("0::") and manager:
            line = before + manager + below.partition("/")[0]
        lines.append(line)
    return "\n".join(sorted(lines))


def open_descriptors() -> list[int]:
    """Return the open descriptors of this process; one more that was open for this list."""
    return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208  # imports nothing


def process_text(pid: int | str, name: str) -> str:
    """Return the text of a file of `/proc/PID`. Raises `OSError`."""
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(descriptor, 65536):
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return os.fsdecode(b"".join(pieces))


def _flags() -> list[tuple[str, int]]:
    return [(name, getattr(sys.flags, name)) for name in dir(sys.flags) if name[0] != "_"
            and isinstance(getattr(sys.flags, name), int)]  # fmt: skip


def _module_path() -> list[str]:
    """Return the module path without the folders that only this way of starting puts first."""
    script = os.path.dirname(sys.argv[0]) if sys.argv else ""  # noqa: PTH120  # imports nothing
    return [entry for entry in sys.path if entry not in ("", ".", script)]
