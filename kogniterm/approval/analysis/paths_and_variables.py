"""Paths and variables by name: where paths lie, and which hold secrets or configure programs.

Everything is lexical (the analysis does no I/O); the sandbox and the preview resolve symbolic
links. Patterns are matched against globs too: a path that a glob could reach counts.
"""

from __future__ import annotations

import fnmatch
import functools
import posixpath
import re
from pathlib import Path
from typing import NamedTuple

_TABLES = Path(__file__).parents[1] / "tables"


def names(text: str) -> frozenset[str]:
    """Return the words of `text`."""
    return frozenset(text.split())


def table_lines(name: str) -> dict[str, str]:
    """Return the lines `key: text` of a table of `approval/tables`.

    A line that begins with four blanks continues the line before, one with `#` is a comment.
    """
    text = (_TABLES / f"{name}.txt").read_text(encoding="utf-8").replace("\n    ", " ")
    lines = (line.partition(": ") for line in text.splitlines() if not line.startswith("#"))
    return {key: rest for key, colon, rest in lines if colon}


@functools.cache
def _names_in(key: str) -> frozenset[str]:
    return names(table_lines("sensitive_paths")[key])


HOLE = "\0"
"""Stands in an argument's value for text that is only known when the command runs."""

SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/sbin", "/usr/sbin"})

UNKNOWN_WORKSPACE = "/\x01workspace"
HOME = "/\x01home"

_PROCESS_FOLDER = re.compile(
    r"/+proc/+(?:self|thread-self|\d+)/+(?:task/+[^/]+/+)?(?P<folder>root|cwd)(?=/|\Z)"
)
"""A process' view of the disk: other names for the same files."""
_HOME_OF = re.compile(r"(/home/[^/]+|/root|/Users/[^/]+)(?:/|\Z)")


class ResolvedPath(NamedTuple):
    """A resolved path: absolute, normalised, possibly a glob or with holes.

    `inside` says it lies in the workspace; `known` that no hole decides where it lies.
    """

    path: str
    inside: bool
    known: bool
    glob: bool


class Roots(NamedTuple):
    """The workspace and the home folder."""

    workspace: str
    home: str

    @classmethod
    def of(cls, cwd: str | None, workspace: str | None) -> Roots:
        """Return the roots for the caller's folders; the workspace tells the home folder."""
        root = posixpath.normpath(workspace or cwd or UNKNOWN_WORKSPACE)
        match = _HOME_OF.match(root)
        return cls(root, match[1] if match else HOME)

    def tilde(self, value: str) -> str:
        """Expand a leading `~`; another user's home is taken to be below /home."""
        if value == "~" or value.startswith("~/"):
            return self.home + value[1:]
        if re.match(r"~[+-](?:/|\Z)", value):
            return ("." if value[1] == "+" else HOLE) + value[2:]
        if value.startswith("~"):
            return "/home/" + value[1:]
        return value

    def resolve(self, value: str, cwd: str | None, *, glob: bool = False) -> ResolvedPath:
        """Return where `value` leads from `cwd` (None: the folder is not known any more)."""
        through = _PROCESS_FOLDER.match(value)
        if through is not None:
            seen_from = "" if through["folder"] == "root" else cwd or "/" + HOLE
            value = seen_from + value[through.end() :] or "/"
        known = not value.startswith(HOLE) and (cwd is not None or value.startswith("/"))
        if not value.startswith("/"):
            value = posixpath.join(cwd if cwd is not None else "/" + HOLE, value)
        path = posixpath.normpath(value)
        if path.startswith("//"):
            path = path[1:]
        hidden_up = HOLE in path and ".." in path.split("/")
        inside = known and not hidden_up and within(path, self.workspace)
        return ResolvedPath(path, inside, known, glob)

    def show_path(self, path: str) -> str:
        """Return `path` as it is shown: relative in the workspace, `~` for the home folder."""
        if within(path, self.workspace):
            path = posixpath.relpath(path, self.workspace)
        path = path.replace(HOME, "~").replace(HOLE, "…")
        return path.replace(UNKNOWN_WORKSPACE, ".")


def within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# --- secrets -----------------------------------------------------------------------------------

_PUBLIC = re.compile(
    r"\.pub\Z|/known_hosts\Z|/kogniterm/outputs/[\w-]+/readable/[\w-]+\.log\Z"  # without secrets
)


@functools.cache
def _name_pattern(key: str) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, _names_in(key))))


def _glob_matches(pattern: str, name: str) -> bool:
    """Return whether the glob `pattern` (one component, holes allowed) could expand to `name`."""
    if name.startswith(".") and not pattern.startswith((".", HOLE)):
        return False
    return fnmatch.fnmatchcase(name, pattern.replace(HOLE, "*"))


def _name_is_secret(name: str, *, glob: bool) -> bool:
    name, secret = name.lower(), _name_pattern("secret-names")
    if _name_pattern("public-names").match(name):
        return False
    if secret.match(name):
        return True
    # The unknown part may be empty.
    if HOLE in name and name != HOLE and secret.match(name.replace(HOLE, "")):
        return True
    wild = glob and any(char in name for char in "*?[" + HOLE)
    # A wildcard alone reaches everything; it is judged by the folder it stands in.
    if not wild or not name.strip("*?" + HOLE):
        return False
    if name.startswith(("*.", HOLE)):
        return False
    return any("*" not in one and _glob_matches(name, one) for one in _names_in("secret-names"))


def _folder_is_secret(path: str, *, glob: bool) -> bool:
    parts = path.strip("/").split("/")
    for folder in _names_in("secret-folders"):
        wanted = folder.split("/")
        for at in range(len(parts) - len(wanted) + 1):
            pairs = list(zip(parts[at : at + len(wanted)], wanted, strict=True))
            # A wildcard alone reaches everything; it counts beside a name that is the folder's.
            named = any(part.strip("*?" + HOLE) for part, _ in pairs)
            if named and all(_same(part, name, glob=glob) for part, name in pairs):
                return True
    return False


def holds_secret_folder(path: str, roots: Roots) -> bool:
    """Return whether a folder that keeps secrets lies below `path`."""
    return any(within(f"{roots.home}/{folder}", path) for folder in _names_in("secret-folders"))


def _same(part: str, name: str, *, glob: bool) -> bool:
    if part == name:
        return True
    return glob and any(c in part for c in "*?[") and _glob_matches(part, name)


@functools.lru_cache(maxsize=4096)
def is_secret(path: str, *, glob: bool = False) -> bool:
    """Return whether the absolute `path` names, or as a glob could reach, something secret."""
    if _PUBLIC.search(path):
        return False
    name = posixpath.basename(path)
    if _name_is_secret(name, glob=glob) or _name_pattern("secret-paths").match(path):
        return True
    if glob and name != HOLE and path.startswith(("/etc", "/proc", "/root", "/?", "/*", "/[")):
        tail = path.split("/")
        for exemplar in ("/etc/shadow", "/etc/gshadow", "/proc/self/environ", "/etc/sudoers"):
            wanted = exemplar.split("/")
            pairs = zip(tail, wanted, strict=False)
            if len(tail) == len(wanted) and all(_glob_matches(p, w) for p, w in pairs):
                return True
    return ("." in path or "Library" in path or glob) and _folder_is_secret(path, glob=glob)


def secret_sought(pattern: str) -> str | None:
    """Return a pattern of find that reaches a secret as the shell would write it, or None.

    find's wildcards match a leading dot, the shell's do not.
    """
    bare = re.sub(r"(^|/)\*+(?=[^/*])", r"\1", pattern)
    dotted = re.sub(r"^(?:\?|\[[^]]*\])", ".", bare)
    wider = [] if bare.startswith((".", "/")) or len(bare) < 2 else ["." + bare, ".*" + bare]
    tried = (one.lstrip("/") for one in (pattern, bare, dotted, *wider))
    return next((one for one in tried if is_secret(f"/{one}", glob=True)), None)


_SECRET_VARIABLE = re.compile(
    r"(?i)(?:passw(?:or)?d|passphrase|secret|token|api_?key|access_?key|private_?key"
    r"|credential|_auth\Z"
    r"|_pat\Z|(?:\A|_)p(?:ass|w)\Z|_key\Z|\Akey_|authorization|session_?id|cookie|_pwd\Z|dsn\Z|database_url)"
)


_SAYS_LITTLE = re.compile(
    r"(?i)tokeniz|(?:_(?:file|path|dir|folder|name|type|count|len|length|size|limit|ttl)|tokens)\Z"
)
_SECRET_FILE_VARIABLE = re.compile(
    r"(?:\w*HISTFILE|KUBECONFIG|NETRC|PGPASSFILE|XAUTHORITY|GNUPGHOME|DOCKER_CONFIG"
    r"|CLOUDSDK_CONFIG|AWS_CONFIG_FILE|BOTO_CONFIG|RCLONE_CONFIG|NPM_CONFIG_USERCONFIG)\Z"
)


def is_secret_variable(name: str) -> bool:
    """Return whether a variable of this name usually holds a secret."""
    return bool(_SECRET_VARIABLE.search(name)) and not _SAYS_LITTLE.search(name)


def is_secret_file_variable(name: str) -> bool:
    """Return whether a variable of this name usually holds the path of a file with secrets."""
    if _SECRET_FILE_VARIABLE.match(name):
        return True
    return bool(_SECRET_VARIABLE.search(name) and re.search(r"_(?:FILE|PATH)\Z|CREDENTIALS", name))


_HISTORY = re.compile(r"\.\w*_history|fish_history")


def is_history(path: str) -> bool:
    """Return whether a shell, or a program like one, keeps at `path` what was typed."""
    return bool(_HISTORY.fullmatch(posixpath.basename(path)))


# --- places that steer the machine -------------------------------------------------------------

_SYSTEM = re.compile(
    r"/(?:etc|boot|usr|bin|sbin|lib|lib32|lib64|libx32|sys|proc|var/spool/cron|var/lib|var/log|root"
    r"|opt|System|Library|Applications|efi)(?:/|\Z)"
)
_HARMLESS_DEVICE = re.compile(
    r"/dev/(?:null|zero|full|stdin|stdout|stderr|tty|fd/\d+|random|urandom)\Z"
)
_DEVICE = re.compile(r"/dev/(?!shm/|pts/|tcp/|udp/|fd/).*")


def is_harmless_device(path: str) -> bool:
    """Return whether writing to `path` changes nothing, as with `/dev/null`."""
    return bool(_HARMLESS_DEVICE.match(path))


def is_device(path: str) -> bool:
    """Return whether `path` is a disk, memory or another device that writing destroys."""
    return bool(_DEVICE.match(path)) and not is_harmless_device(path)


def is_network_device(path: str) -> bool:
    """Return whether `path` is bash's `/dev/tcp/host/port` or `/dev/udp/…`."""
    return path.startswith(("/dev/tcp/", "/dev/udp/"))


def is_system(path: str) -> bool:
    """Return whether `path` lies in a folder of the system."""
    return bool(_SYSTEM.match(path))


def is_inside_repository(path: str) -> bool:
    """Return whether git keeps its own files there; a folder with a `HEAD` can be a repository."""
    return "/.git/" in path or posixpath.basename(path) == "HEAD"


def is_steering(path: str) -> bool:
    """Return whether a change of `path` makes other programs run or trust something later."""
    if posixpath.basename(path) in _names_in("steering-names"):
        return True
    padded = f"{path}/"
    return any(f"/{part}/" in padded for part in _names_in("steering-folders"))


_TOP = re.compile(
    r"/[^/]*\Z|/home/[^/]*\Z|/Users/[^/]*\Z|/usr/[^/]*\Z|/var/[^/]*\Z|/mnt/[^/]*\Z|/media/[^/]*\Z"
)


def is_broad(resolved: ResolvedPath, roots: Roots) -> bool:
    """Return whether deleting or changing `resolved` would hit far more than one file."""
    path = resolved.path
    name = posixpath.basename(path)
    if resolved.glob and not name.strip("*.?[]!") and name:
        path = posixpath.dirname(path)
    if within(roots.workspace, path) or within(roots.home, path):
        return True
    return (bool(_TOP.match(path)) and not within(path, "/tmp")) or path == "/tmp"


def is_temporary(path: str) -> bool:
    """Return whether `path` lies in a shared folder for temporary files."""
    return within(path, "/tmp") or within(path, "/var/tmp") or within(path, "/dev/shm")


_STEERING = re.compile(
    r"(?:PATH|LD_|DYLD_|BASH|ENV\Z|IFS\Z|PS[0-4]\Z|PROMPT|SHELL|GIT_|SSH_|GPG_|\w*PAGER\Z|LESS|MAN"
    r"|\w*EDITOR\Z|VISUAL|PYTHON|PERL|RUBY|NODE_|NPM_|JAVA_|_JAVA|JDK_|CLASSPATH|GREP_OPTIONS"
    r"|RIPGREP|FZF|CDPATH|GLOBIGNORE|FIGNORE|EXECIGNORE|HIST|HOME\Z|TMPDIR\Z|XDG_|\w*_PROXY\Z"
    r"|\w*proxy\Z|OPENSSL|CURL|SSL_|REQUESTS_|GCONV_PATH|LOCPATH|NLSPATH|MALLOC|GLIBC|TERMINFO"
    r"|TERMCAP|INPUTRC|MAIL|DOCKER_|KUBE|AWS_|GOOGLE_|AZURE_|PG[A-Z]|MYSQL|CC\Z|CXX\Z|\w*FLAGS\Z"
    r"|MAKE|CMAKE|GO[A-Z]+\Z|CARGO|RUST|PIP_|VIRTUAL|CONDA|SUDO_|DISPLAY\Z|DBUS|BROWSER"
    r"|TAR_OPTIONS|RSYNC|KOGNITERM|OPENAI|ANTHROPIC|GEMINI|FPATH|ZDOTDIR|TMOUT|TERM_PROGRAM"
    r"|WINDOWID|UID\Z|OPTIND\Z|POSIXLY|BAT_|ACKRC|JQ_|RC\Z)"
)
_INJECTING = re.compile(
    r"(?:LD_(?:PRELOAD|AUDIT|LIBRARY_PATH)|BASH_ENV|PROMPT_COMMAND|BASH_FUNC_\w*|SHELLOPTS"
    r"|DYLD_INSERT_LIBRARIES)\Z"
)
_TAMPERING = re.compile(r"(?:HISTFILE|HISTSIZE|HISTFILESIZE|HISTCONTROL|HISTIGNORE)\Z")
_HARMLESS = re.compile(
    r"(?:LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?"
    r"|COLORTERM|GREP_COLORS?|LS_COLORS|BLOCKSIZE|BLOCK_SIZE|TIME_STYLE|PYTHONUNBUFFERED"
    r"|SYSTEMD_COLORS|JQ_COLORS|TIMEFORMAT|CI|GIT_OPTIONAL_LOCKS)\Z"
)


def steers(name: str) -> bool:
    """Return whether programs obey this variable in ways that can make them do something else."""
    return bool(_STEERING.match(name))


def injects(name: str) -> bool:
    """Return whether setting it makes other programs load or run code."""
    return bool(_INJECTING.match(name))


def hides_tracks(name: str) -> bool:
    """Return whether it governs the shell's history."""
    return bool(_TAMPERING.match(name))


def is_harmless(name: str, value: str = "") -> bool:
    """Return whether setting it (to `value`) for one program does not change what it does.

    A language or terminal with a slash in its name is a file that somebody made.
    """
    if "/" in value and name.startswith(("LANG", "LC_", "TERM")):
        return False
    return bool(_HARMLESS.match(name))
