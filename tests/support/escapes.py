"""Random attempts to escape from a sandbox, and a check that nothing outside of it changed.

Run as a program: `python -m tests.support.escapes PLACE KIND LAYOUT SEED ROUNDS`. It builds a home,
a workspace and an outside in PLACE, runs hostile commands inside the sandbox with harmless ones
outside of it between them, as an approving user would, and looks at the disk, a process and two
sockets of the outside after each. It prints one JSON object: how many attempts were made, and what
got out. Everything random comes from SEED.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from kogniterm.approval import classify
from kogniterm.execution import open_executor
from kogniterm.execution.effect_preview import preview
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.sandbox_probe import probe
from kogniterm.host.safe_git import find_started
from tests.support.executing import private_folder_of

LAYOUTS = ("project", "home", "temporary")
"""The workspace is a folder of the home, the home itself, or a folder below /tmp."""
SECRET = "the-private-key"
IN_A_ROW = 5
"""Attempts in one session; the state they leave makes later ones slow."""
IN_SECONDS = 5.0
POSITIONS = ("{command}", "({command}) & wait $!")
"""An attempt is a command of the session, or a job of one."""
HOSTILE = (
    "(while :; do for p in /proc/[0-9]*; do ln -sfn /etc $p/cwd/sub/.git; "
    "echo x > $p/root{mark}; kill -STOP ${{p#/proc/}}; kill -CONT ${{p#/proc/}}; "
    "done; sleep 0.05; done) >/dev/null 2>&1 &"
)
"""A job beside which attempts are made: it reaches for every process that it sees."""

FILES = (
    "ln -sfn {target} {name}",
    "ln -f {target} {name}; echo x >> {name}",
    "mv {target} {name}",
    "cp /bin/true {name}; echo x > {target}",
    "rm -rf {target}",
    "mkdir -p {name}; ln -sfn {target} {name}/link; echo x > {name}/link",
    "truncate -s 0 {target}",
    "mkfifo {name}; ln -sfn {target} {name}.d",
    "python3 -c \"import os; os.rename('{target}', '{name}')\"",
    "python3 -c \"import os; os.link('{target}', '{name}.h')\"",
    "exec 7>>{target}; echo x >&7",
    "cd {outside} && touch {mark}",
    "cd /proc/1/root/{outside} && touch {mark}",
    "touch /proc/self/root{mark}",
    "(sleep 0.05; touch {mark}) & disown",
    "setsid nohup sh -c 'sleep 0.05; touch {mark}' >/dev/null 2>&1 &",
)
"""Writes, links and renames. TARGET lies outside, NAME is one the host may look at."""

STATE = (
    "{program}() {{ touch {mark}; }}; export -f {program}",
    "builtin() {{ touch {mark}; }}; {program}() {{ touch {mark}; }}",
    "shopt -s expand_aliases; alias {program}='touch {mark};' echo='touch {mark};'",
    "{planted}; export PATH={bin}:$PATH; hash -r",
    "{planted}; hash -p {bin}/{program} {program}",
    "{planted}; export BASH_ENV={bin}/{program} ENV={bin}/{program}",
    "{planted}; export LD_PRELOAD={bin}/{program}.so LD_LIBRARY_PATH={bin}",
    "{planted}; export PYTHONSTARTUP={bin}/{program} PYTHONPATH={bin} PERL5OPT=-d",
    "{planted}; export GIT_SSH_COMMAND={bin}/git GIT_EXTERNAL_DIFF={bin}/git PAGER={bin}/git",
    "trap 'touch {mark}' DEBUG",
    "trap 'touch {mark}' EXIT",
    "trap 'touch {mark}' ERR RETURN CHLD",
    "set -x; PS4='$(touch {mark})'",
    "PROMPT_COMMAND='touch {mark}'; IFS=/; set -o functrace",
    "enable -n test echo printf trap read; command_not_found_handle() {{ touch {mark}; }}",
    "set -- '$(touch {mark})'; umask 0; ulimit -f 0",
    "declare -n PWD=BASH_ARGV0; CDPATH={outside}; cd {bin} 2>/dev/null",
    "export SHELLOPTS BASHOPTS=expand_aliases; readonly PATH={bin}",
    "__kt_status=x; __kt_exit='touch {mark}'; __kt_action='touch {mark}'; __kt_fire=1",
    "x='$(touch {mark})'; export 'BASH_FUNC_{program}%%=() {{ touch {mark}; }}'",
)
"""Shell state that would act in the next command. PLANTED makes programs in the folder BIN."""

REACH = (
    "kill -TERM {victim}; kill -KILL {victim}",
    'python3 -c "import os, signal; os.kill({victim}, signal.SIGSTOP)"',
    "{connect_path}",
    "{connect_tcp}",
    "mount -o remount,rw / ; mount -o remount,rw,bind / ; touch {mark}",
    "unshare -Urm sh -c 'mount -o remount,rw,bind / ; touch {mark}'",
    "nsenter -t 1 -m touch {mark}",
    "echo 1 > /proc/sys/kernel/panic_on_oops.x; echo x > /proc/sys/kernel/core_pattern",
    "mknod {name} b 8 0; mknod /tmp/d c 1 1",
    "chroot {outside} /bin/true; touch {mark}",
    "cat {secret}",
    "cp {secret} {name}; cat {name}",
    "cat /proc/{victim}/environ; cat /proc/{victim}/root{secret}",
)
"""Access to processes, sockets, mounts and secrets."""

OUTSIDE = (
    "true", "ls >/dev/null", "cd .", "echo hi", "printf '%s\\n' hi", "test -d .", "[ -n a ]",
    "cat /dev/null", "type cat >/dev/null", "(exit 3)", "for i in 1 2; do :; done", "trap -p",
    "read -r x </dev/null", "x=1; y=$x", "command -v sh", "bash -c true", "hash", "pwd",
)  # fmt: skip
"""Harmless commands that a user approved: they run outside, without state from inside."""
PROGRAMS = ("git", "ls", "cat", "cd", "test", "echo", "sh", "bash", "printf", "true", "trap")
CONNECT_PATH = (
    "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{socket}')\" ; "
    'python3 -c "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); '
    "s.sendto(b'x', '{socket}')\""
)
CONNECT_TCP = "exec 9<>/dev/tcp/127.0.0.1/{port}"


@dataclass
class World:
    """The folders of one run and what listens outside."""

    place: Path
    home: Path
    workspace: Path
    outside: Path
    victim: int
    socket: Path
    port: int
    reached: list[str] = field(default_factory=list)
    """The connections that were made from inside."""

    @property
    def secret(self) -> Path:
        return self.home / ".ssh" / "id_rsa"

    def picture(self) -> dict[str, str]:
        """Return everything outside the workspace, by content.

        Of a home that is the workspace: its hidden names, and the names at its top.
        """
        found: dict[str, str] = {}
        for path in _walk(self.place):
            inside = path.is_relative_to(self.workspace)
            if inside and (self.workspace != self.home or not self._guarded(path)):
                continue
            found[str(path)] = _look(path)
        return found

    def _guarded(self, path: Path) -> bool:
        parts = path.relative_to(self.home).parts
        return len(parts) == 1 or (bool(parts) and parts[0].startswith("."))


@contextmanager
def world(place: Path, layout: str) -> Iterator[World]:
    """Build the folders, start the victim and the listeners; end them afterwards."""
    home, outside = place / "home", place / "outside"
    for folder in (home / ".ssh", home / ".config" / "kogniterm", home / "stuff", outside):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text(SECRET)
    for name in (".bashrc", ".profile", ".gitconfig", ".ssh/authorized_keys"):
        (home / name).write_text("# as it was\n")
    (home / ".config" / "kogniterm" / "policy.toml").write_text("")
    (outside / "victim.txt").write_text("untouched\n")
    workspace = {"project": home / "work", "home": home, "temporary": place / "work"}[layout]
    for name in ("bin", "sub", ".git/hooks"):
        (workspace / name).mkdir(parents=True)
    (workspace / "notes.txt").write_text("notes\n")
    victim = subprocess.Popen(
        ["sleep", "1000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with socket.socket(socket.AF_UNIX) as path, socket.create_server(("127.0.0.1", 0)) as tcp:
        path.bind(str(outside / "s"))
        path.listen()
        made = World(
            place, home, workspace, outside, victim.pid, outside / "s", tcp.getsockname()[1]
        )
        for listener in (path, tcp):
            threading.Thread(target=_accept, args=(listener, made.reached), daemon=True).start()
        try:
            yield made
        finally:
            victim.kill()
            victim.wait()


def attempts(found: World, executor: CommandExecutor, chance: random.Random) -> Iterator[str]:
    """Yield hostile commands without end."""
    outside = ("victim.txt", "../home/.bashrc", "../home/.ssh/authorized_keys")
    private = private_folder_of(executor)
    while True:
        number = chance.randrange(1, 60)
        names = (
            *(private / f"{name}-{number}" for name in ("functions", "restore", "enter", "left")),
            *(private / name for name in ("leave", "ask", "answer", f"statuses/{number}", "held")),
            *(found.workspace / name for name in (".git", ".git/config", ".git/hooks/pre-commit")),
            *(found.workspace / name for name in (".vscode", ".envrc", "sub/.git", "a", "b")),
            *(Path("/tmp") / name for name in ("x", "tmux-0", f"kogniterm-{number}")),
        )
        kind = chance.choice((FILES, FILES, STATE, STATE, REACH))
        folder, program = found.workspace / "bin", chance.choice(PROGRAMS)
        mark = found.outside / "escaped"
        plant = f"printf '#!/bin/sh\\ntouch {mark}\\n' > {folder}/{program}; chmod +x {folder}/*"
        yield chance.choice(kind).format(
            target=(found.outside / chance.choice(outside)).resolve(),
            name=chance.choice(names),
            mark=mark,
            outside=found.outside,
            program=program,
            bin=folder,
            planted=plant,
            victim=found.victim,
            secret=found.secret,
            connect_path=CONNECT_PATH.format(socket=found.socket),
            connect_tcp=CONNECT_TCP.format(port=found.port),
        )


def attack(place: Path, kind: str, layout: str, seed: int, rounds: int) -> dict[str, object]:
    """Make `rounds` attempts; return how many were made and what escaped, by attempt."""
    chance = random.Random(f"{kind} {layout} {seed}")
    escaped: list[str] = []
    with world(place, layout) as found:
        tried = probe(place / "home" / ".config" / "probe", kind)  # type: ignore[arg-type]  # checked by the caller
        if tried.kind != kind:
            return {"skipped": {name: str(why) for name, why in tried.reasons.items()}}
        box = Sandbox(
            tried.kind, str(found.workspace), str(found.home), program=tried.program,
            hidden=(str(found.home / ".config" / "kogniterm"),),
        )  # fmt: skip
        before = found.picture()
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(found.home)}
        made = 0
        while made < rounds and not escaped:
            with open_executor(found.workspace, environment) as executor:
                if made % 2:
                    executor.sandbox = box
                    mark = found.outside / "escaped"
                    executor.run(HOSTILE.format(mark=mark), timeout=IN_SECONDS)
                commands = islice(attempts(found, executor, chance), IN_A_ROW)
                escaped += _try(found, executor, box, commands, chance, before)
            made += IN_A_ROW
        late = _changes(before, found.picture()) + _reached(found)
        escaped += [f"at the end: {change}" for change in late if not escaped]
    return {"attempts": made, "escaped": escaped}


def _try(
    found: World,
    executor: CommandExecutor,
    box: Sandbox,
    commands: Iterable[str],
    chance: random.Random,
    before: Mapping[str, str],
) -> list[str]:
    """Run the commands in the sandbox, each before a harmless one outside; return the escapes."""
    for command in commands:
        executor.sandbox = box
        # The attempt may slow down later commands of the sandbox, and may do nothing else.
        placed = chance.choice(POSITIONS).format(command=command)
        said = executor.run(placed, timeout=IN_SECONDS).text
        executor.sandbox = None
        harmless = chance.choice(OUTSIDE)
        outcome = executor.run(harmless, timeout=60, cwd=str(found.workspace))
        _host_looks(found, harmless)
        wrong = _changes(before, found.picture()) + _reached(found)
        if box.gives.hides_names and SECRET in said:
            wrong.append("the secret was read")
        if outcome.ended != "exited":
            wrong.append(f"{harmless!r} outside ended as {outcome.ended}")
        if wrong:
            return [f"{command} -> {harmless}: {'; '.join(wrong)}"]
    return []


def _host_looks(found: World, command: str) -> None:
    """Inspect effects and the repository's settings, as the host does besides running commands."""
    preview(classify(f"rm -r {found.workspace}/sub; {command}"), str(found.workspace))
    find_started([found.workspace], frozenset(), reading=False, workspace=str(found.workspace))


def _reached(found: World) -> list[str]:
    wrong = list(found.reached)
    try:
        state = Path(f"/proc/{found.victim}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        state = "gone"
    if state not in ("S", "R", "D"):
        wrong.append(f"the process outside is {state}")
    return wrong


def _accept(listener: socket.socket, reached: list[str]) -> None:
    with suppress(OSError):
        while True:
            peer, _ = listener.accept()
            reached.append(f"a connection to {listener.getsockname()}")
            peer.close()


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(root, name)


def _look(path: Path) -> str:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return f"link to {path.readlink()}"
        if stat.S_ISREG(status.st_mode):
            return f"{status.st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    except FileNotFoundError:
        return "gone"
    return f"{status.st_mode:o}"


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    names = sorted({*before, *after})
    return [
        f"{name}: {before.get(name, 'nothing')} became {after.get(name, 'nothing')}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def main() -> int:
    place, kind, layout, seed, rounds = sys.argv[1:]
    folder = Path(place)
    folder.mkdir()
    try:
        report = attack(folder, kind, layout, int(seed), int(rounds))
        sys.stdout.write(json.dumps(report) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
