"""Private checkouts of git repositories: a folder for each task, made by the worker that does it.

A mirror of what was fetched is kept for all tasks of a machine, in the cache, which commands can
read and not write; the checkouts borrow their objects from it. So a checkout costs no more than its
files. The changes of a task are read with a git folder of the worker's own: that of the checkout
belongs to the task, whose settings and hooks may name any program.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kogniterm.errors import KognitermError, UsageError
from kogniterm.host.helper_programs import await_helper
from kogniterm.host.programs import find_program, host_environment
from kogniterm.paths import SessionId
from kogniterm.settings import environment
from kogniterm.storage.folders import private_folder

PLACE = "checkout/"
"""Begins the folder of a task that works in a checkout of its own."""
LONGEST_PATCH = 5_000_000
"""Bytes of a patch that is stored with the task."""
_PROTOCOLS = "https:http:ssh:git:file"
_SCHEME = re.compile(r"(?:https?|ssh|git|file)://")
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)\S+")
_REF = re.compile(r"(?!-)[^\s:?*\[\\^~\x00-\x1f\x7f]+")
_PASSWORD = re.compile(r"https?://[^/@]*:[^/@]*@")
_CREDENTIALS = (
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK",
    "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy",
    "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "ALL_PROXY",
)  # fmt: skip
_NEVER_ASK = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
}
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
_QUIET = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "advice.detachedHead=false", "-c", "diff.ignoreSubmodules=all",
    "-c", "submodule.recurse=false", "-c", "core.attributesFile=/dev/null",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository by its address, and a branch, tag or commit of it."""

    address: str
    ref: str = "HEAD"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of a task; `fresh` says that this start made it."""

    folder: Path
    commit: str
    fresh: bool


class CheckoutError(KognitermError):
    """A repository cannot be fetched or checked out; the message has git's own words."""


def repository_of(text: str) -> Repository | None:
    """Return the repository that `--workspace` names; None for a folder.

    Raises `UsageError` for an address with a password, and for a wrong name of a branch.
    """
    address, at, ref = text.rpartition("@")
    if not at or not _is_address(address):
        address, ref = text, ""
    if not _is_address(address) or (not ref and Path(address).is_dir() and not _is_bare(address)):
        return None
    if _PASSWORD.match(address):
        raise UsageError(
            "The address of the workspace contains a password, which would be stored. Leave it "
            "out: the worker's git has credentials of its own."
        )
    if ref and not _REF.fullmatch(ref):
        raise UsageError("{ref} is no branch, tag or commit.", ref=ref)
    return Repository(address, ref or "HEAD")


def _is_address(text: str) -> bool:
    """Return whether `text` is a URL with a path, `host:path`, or an absolute path."""
    scheme = _SCHEME.match(text)
    if scheme is not None:
        return "/" in text[scheme.end() :]
    return text.startswith("/") or bool(_SCP.fullmatch(text))


def _is_bare(folder: str) -> bool:
    return Path(folder, "objects").is_dir() and Path(folder, "HEAD").is_file()


@dataclass(frozen=True, slots=True)
class Checkouts:
    """The checkouts of one machine, below `folder`, and the `mirrors` that they borrow from."""

    folder: Path
    mirrors: Path

    def place(self, task_id: str) -> Path:
        """Return the folder of the checkout of a task."""
        return self.folder / SessionId(task_id)

    async def resolve(self, repository: Repository, commit: str) -> str:
        """Fetch what is needed; returns the commit, which is `commit` unless that is empty.

        Raises `CheckoutError`.
        """
        async with self._mirror(repository) as mirror:
            if commit and await _has(mirror, commit):
                return commit
            found = await _fetch(mirror, repository.address, commit or repository.ref)
            await _git("update-ref", f"refs/kept/{found}", found, at=mirror)
            return found

    async def open(self, task_id: str, repository: Repository, commit: str, patch: str) -> Checkout:
        """Return the checkout of a task at `commit`, made anew where it is not there.

        `patch` is what an earlier start changed. Raises `CheckoutError`.
        """
        folder = self.place(task_id)
        if (folder / ".git").is_dir():
            return Checkout(folder, commit, fresh=False)
        private_folder(self.folder)
        new = self.folder / f".{task_id}.new"
        shutil.rmtree(new, ignore_errors=True)
        branch = f"refs/heads/kogniterm/{task_id}"
        await _git("init", "--quiet", "--template=", str(new), at=self.folder)
        borrowed = new / ".git" / "objects" / "info"
        borrowed.mkdir(parents=True, exist_ok=True)
        (borrowed / "alternates").write_text(f"{self._path(repository) / 'objects'}\n")
        await _git("remote", "add", "origin", repository.address, at=new)
        await _git("update-ref", branch, commit, at=new)
        await _git("symbolic-ref", "HEAD", branch, at=new)
        if repository.ref != "HEAD" and not repository.ref.startswith(commit[:7]):
            known = f"refs/remotes/origin/{repository.ref}"
            with suppress(CheckoutError):  # a name that is no branch is left out
                await _git("update-ref", known, commit, at=new)
        await _git("reset", "--quiet", "--hard", at=new)
        if patch:
            await _git("apply", "--binary", "--whitespace=nowarn", at=new, given=patch.encode())
        new.rename(folder)
        return Checkout(folder, commit, fresh=True)

    async def patch(self, task_id: str, repository: Repository, commit: str) -> bytes:
        """Return the changes of a task since `commit`, committed or not, as a patch of git.

        Raises `CheckoutError`.
        """
        folder, mirror = self.place(task_id), self._path(repository)
        with tempfile.TemporaryDirectory(prefix=".patch-", dir=self.folder) as own:
            objects = Path(own, "objects")
            objects.mkdir()
            env = {
                "GIT_DIR": str(mirror),
                "GIT_WORK_TREE": str(folder),
                "GIT_INDEX_FILE": f"{own}/index",
                "GIT_OBJECT_DIRECTORY": str(objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(mirror / "objects"),
            }
            await _git("read-tree", commit, at=folder, env=env)
            await _git("add", "--all", "--ignore-errors", ".", at=folder, env=env, strict=False)
            words = ("diff", "--cached", "--binary", "--no-ext-diff", "--no-textconv", "--no-color")
            return await _git(*words, commit, at=folder, env=env)

    def remove(self, task_id: str) -> None:
        """Delete the checkout of a task, if it is there."""
        shutil.rmtree(self.place(task_id), ignore_errors=True)
        self.note_told(task_id)

    def keep(self, task_id: str) -> None:
        """Leave the checkout of a task to the user, who has to look for its changes there."""
        (self.folder / f".{task_id}.kept").touch()

    def ids(self) -> list[str]:
        """Return the tasks that have a checkout here, which is not left to the user."""
        with suppress(OSError):
            names = [one.name for one in self.folder.iterdir()]
            return [one for one in names if one[0] != "." and f".{one}.kept" not in names]
        return []

    def tell(self, task_id: str) -> None:
        """Note that the model has to learn of its new checkout."""
        (self.folder / f".{task_id}.untold").touch()

    def is_untold(self, task_id: str) -> bool:
        """Return whether the model has not learnt of its new checkout yet."""
        return (self.folder / f".{task_id}.untold").exists()

    def note_told(self, task_id: str) -> None:
        """Note that the model knows."""
        (self.folder / f".{task_id}.untold").unlink(missing_ok=True)

    def _path(self, repository: Repository) -> Path:
        name = hashlib.sha256(repository.address.encode()).hexdigest()[:24]
        return self.mirrors / f"{name}.git"

    @asynccontextmanager
    async def _mirror(self, repository: Repository) -> AsyncIterator[Path]:
        """Hold the mirror of a repository, made where it is not there, against other workers."""
        private_folder(self.mirrors)
        mirror = self._path(repository)
        with mirror.with_suffix(".lock").open("w") as file:
            await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
            if not (mirror / "HEAD").is_file():
                await _git("init", "--quiet", "--bare", "--template=", str(mirror), at=self.mirrors)
            yield mirror


def checkouts_beside(data: Path, cache: Path) -> Checkouts:
    """Return the checkouts of a user whose data and cache are in these folders.

    Commands have to write in a checkout, and the data is closed to them.
    """
    return Checkouts(data.with_name(f"{data.name}-checkouts"), cache / "repositories")


async def _has(mirror: Path, commit: str) -> bool:
    with suppress(CheckoutError):
        await _git("cat-file", "-e", f"{commit}^{{commit}}", at=mirror)
        return True
    return False


async def _fetch(mirror: Path, address: str, ref: str) -> str:
    """Fetch a branch, tag or commit and return its commit. Raises `CheckoutError`."""
    fetch = ("fetch", "--quiet", "--force", "--no-tags", "--", address)
    try:
        await _git(*fetch, f"+{ref}:refs/fetched", at=mirror, network=True)
        wanted = "refs/fetched"
    except CheckoutError as error:
        if not re.fullmatch(r"[0-9a-f]{7,40}", ref):
            raise
        # Not every server hands out a commit by its name alone.
        every = ("+refs/heads/*:refs/all/heads/*", "+refs/tags/*:refs/all/tags/*")
        await _git(*fetch, *every, at=mirror, network=True)
        wanted = ref
        if not await _has(mirror, ref):
            raise error
    found = await _git("rev-parse", "--verify", f"{wanted}^{{commit}}", at=mirror)
    return found.decode().strip()


async def _git(
    *words: str,
    at: Path,
    env: dict[str, str] | None = None,
    given: bytes = b"",
    network: bool = False,
    strict: bool = True,
) -> bytes:
    """Run git and return what it prints. Raises `CheckoutError` with its last line.

    With `network` it has the worker's credentials and settings, and else none.
    """
    program = find_program("git")
    if program is None:
        raise CheckoutError("git is not installed on this machine; a workspace of git needs it.")
    path = {"PATH": environment().get("PATH", "")} if network else _NO_SETTINGS
    try:
        git = await await_helper(
            [program, *_QUIET, *words],
            env=host_environment(*_CREDENTIALS) | _NEVER_ASK | path | (env or {}),
            seconds=None,
            cwd=at,
            given=given,
        )
    except TimeoutError as error:
        raise CheckoutError(
            "git {verb} failed: {detail}", verb=words[0], detail=str(error)
        ) from error
    if strict and git.status:
        lines = git.complaints.decode("utf-8", "replace").strip().splitlines() or [""]
        fatal = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
        raise CheckoutError(
            "git {verb} failed: {detail}",
            verb=words[0],
            detail=fatal.removeprefix("fatal: ") or f"status {git.status}",
        )
    return git.output
