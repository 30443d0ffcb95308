"""The playbooks that Ansible runs for us, and the scripts in them that read a host's job file.

A command runs as an asynchronous job of Ansible. `async_wrapper` writes its outcome into a file of
the host, in a folder named by the request; the time limit is kept there, too. So neither the
connection nor KogniTerm has to last as long as the command, and only that file is believed.
"""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from kogniterm.addons.hosts.host_values import HostRequest

OUTPUT_BYTES = 256 << 10
"""The most that a host keeps of a command's output: the end, so that its memory is bounded."""
FILE_BYTES = 128 << 10
"""The largest file whose change is shown."""
CHANGES_BYTES = 64 << 10
"""The most of all changes of one host."""
LONGEST_COMMAND = 100_000
"""Bytes; Linux refuses single arguments above 128 KiB."""
PREPARE, START, REPORT, HOSTS = "prepare", "start", "report", "hosts"
"""The names of tasks, by which their results are told apart."""
Moment = Literal["ended", "running", "lost", "absent", "stopped"]
_PATIENCE = 20
"""Seconds for which one connection waits for the end of a command."""
_MARK = "kogniterm-report:"
_CHANGES = "kogniterm-changes-%s:"
_NO_TERMINAL = {"ansible_ssh_use_tty": False}
"""`raw` asks for a terminal, which servers may forbid, and which mixes its own words in."""

# The exit code of a pipe's first program, as POSIX shells can have it: through a descriptor.
# The copies of files are in the job's private folder and are removed with it.
_BOUNDED = """d="$HOME/.ansible_async/kogniterm-%(id)s"
command=$1
shift
place() {
    case $1 in "~/"*) printf "%%s" "$HOME/${1#??}" ;; *) printf "%%s" "$1" ;; esac
}
fits() {
    [ ! -e "$1" ] || { [ -f "$1" ] && [ -r "$1" ] && [ "$(wc -c <"$1")" -le %(file)d ]; }
}
n=0
for f; do
    n=$((n + 1))
    p=$(place "$f")
    if ! fits "$p"; then : >"$d/left-out-$n"; elif [ -e "$p" ]; then cp "$p" "$d/before-$n"; fi
done
exec 4>&1
code=$({ { /bin/sh -c "$command" 3>&- 4>&- </dev/null 2>&1; echo $? >&3; } |
tail -c %(output)d >&4 3>&-; } 3>&1)
if [ $# -gt 0 ]; then
    printf "\\n%(mark)s\\n"
    n=0
    for f; do
        n=$((n + 1))
        p=$(place "$f")
        if [ -e "$d/left-out-$n" ] || ! fits "$p"; then continue; fi
        [ -e "$p" ] || p=/dev/null
        old="$d/before-$n"
        [ -e "$old" ] || old=/dev/null
        diff -u -L "$f" -L "$f" "$old" "$p"
    done 2>/dev/null | head -c %(changes)d
fi
exit "$code"
"""

# POSIX shell without Python, so that it also works where that is broken. A pattern with brackets
# does not find the process that searches for it.
_REPORT = """d="$HOME/.ansible_async/kogniterm-%(id)s"
mode=%(mode)s
limit=%(wait)d
job() {
    f=
    for x in "$d"/j*; do
        case $x in *.tmp) ;; *) [ ! -f "$x" ] || f=$x ;; esac
    done
    n=${f##*/}
    n=${n%%.*}
    pattern="[j]${n#j}"
}
groups() {
    if [ -r /proc/self/cmdline ]; then
        for p in $(grep -ls "$pattern" /proc/[0-9]*/cmdline); do
            sed "s/.*) //" "${p%%cmdline}stat" 2>/dev/null | cut -d " " -f 3
        done
    else
        ps -A -o pgid= -o args= | grep "$pattern" | sed "s/^ *//" | cut -d " " -f 1
    fi | sort -u
}
unfinished() {
    case $(head -c 12 "$f") in '{"started": '*) return 0 ;; esac
    return 1
}
tell() {
    printf "\\n%(mark)s%%s\\n" "$1"
    [ -z "$2" ] || cat "$2"
    printf "\\n"
    exit 0
}
pause=0.2
job
if [ $mode != wait ]; then
    mkdir -p "$HOME/.ansible_async"
    tries=0
    while [ -z "$f" ] && [ ! -f "$d" ] && [ $tries -lt 5 ]; do
        [ $tries = 0 ] || sleep 1
        rmdir "$d" 2>/dev/null
        (set -C; : >"$d") 2>/dev/null
        job
        tries=$((tries + 1))
    done
fi
if [ -z "$f" ]; then
    [ $mode = wait ] || [ -f "$d" ] || tell lost
    tell absent
fi
if [ $mode = stop ] && unfinished; then
    : >"$d/stopped"
    for signal in TERM KILL; do
        found=$(groups)
        [ -n "$found" ] || break
        for g in $found; do kill -$signal "-$g" 2>/dev/null; done
        sleep 1
    done
fi
begun=$(date +%%s)
while unfinished; do
    if [ -z "$(groups)" ]; then
        unfinished || break
        [ ! -f "$d/stopped" ] || tell stopped
        tell lost
    fi
    [ $(($(date +%%s) - begun)) -lt $limit ] || tell running
    sleep $pause 2>/dev/null || sleep 1
    [ $(($(date +%%s) - begun)) -lt 3 ] || pause=1
done
tell ended "$f"
"""


class JobReport(NamedTuple):
    """A host's report about its job file: how it stands, and what it holds where it ended."""

    moment: Moment
    content: dict[str, Any]

    @property
    def seconds(self) -> float:
        """Return how long the command took."""
        try:
            hours, minutes, seconds = str(self.content.get("delta", "")).split(":")
            return timedelta(
                hours=int(hours), minutes=int(minutes), seconds=float(seconds)
            ).total_seconds()
        except ValueError:
            return 0.0


def report_in(text: str) -> JobReport | None:
    """Return the report in the output of the script; None where there is none.

    Anything may stand around it: a banner of the host, or what its shell prints at the start.
    """
    _, found, rest = text.replace("\r\n", "\n").rpartition(f"\n{_MARK}")
    moment, _, content = rest.partition("\n")
    if not found or moment not in ("ended", "running", "lost", "absent", "stopped"):
        return None
    if moment != "ended":
        return JobReport(moment, {})  # type: ignore[arg-type]  # it is one of these words
    try:
        value, _ = json.JSONDecoder().raw_decode(content.lstrip())
    except ValueError:
        return None
    return JobReport("ended", value) if isinstance(value, dict) else None


def output_and_changes(request: HostRequest, text: str) -> tuple[str, str]:
    """Return the output of a command and, apart, what became of the request's files."""
    output, found, changes = text.rpartition(f"\n{_CHANGES % request.id}\n")
    return (output, changes) if found else (text, "")


def run_playbook(request: HostRequest) -> str:
    """Return the playbook that starts the command and waits for its end."""
    folder = f"~/.ansible_async/kogniterm-{request.id}"
    values = {
        "id": request.id, "mark": _CHANGES % request.id, "output": OUTPUT_BYTES,
        "file": FILE_BYTES, "changes": CHANGES_BYTES,
    }  # fmt: skip
    # Ansible would otherwise fill in variables, and expand `$HOME` and `~` on the host.
    given = map(_Unsafe, (_BOUNDED % values, "kogniterm", request.command, *request.files))
    argv = ["/bin/sh", "-c", *given]
    start = {"argv": argv, "expand_argument_vars": False, "strip_empty_ends": False}
    # `mkdir` fails where the folder is there: no request is run twice.
    home = '"$HOME/.ansible_async"'
    making = f"umask 077; mkdir -p {home} && mkdir {home}/kogniterm-{request.id}"
    tasks: list[dict[str, Any]] = [
        {"name": PREPARE, "ansible.builtin.raw": making},
        {
            "name": START,
            "ansible.builtin.command": start,
            "async": request.timeout,
            "poll": 0,
            "changed_when": True,
        },
        {
            **_reporting(request, "wait", _PATIENCE),
            "register": "report",
            "until": f"'{_MARK}running' not in report.stdout",
            "retries": request.timeout // _PATIENCE + 2,
            "delay": 0,
        },
    ]
    # A second try after a lost connection would run the command twice.
    variables = {**_NO_TERMINAL, "ansible_async_dir": folder, "ansible_ssh_retries": 0}
    return _play(tasks, become=request.become, vars=variables)


def report_playbook(request: HostRequest, mode: Literal["find", "stop"], wait: int) -> str:
    """Return the playbook that reads the job files, after it has ended the jobs if asked to."""
    task = _reporting(request, mode, wait)
    return _play([task], become=request.become, vars=_NO_TERMINAL)


def discard_playbook(request: HostRequest) -> str:
    """Return the playbook that removes the job files."""
    script = f'rm -rf "$HOME/.ansible_async/kogniterm-{request.id}"'
    task = {"name": "discard", "ansible.builtin.raw": script}
    return _play([task], become=request.become, vars=_NO_TERMINAL)


def hosts_playbook() -> str:
    """Return the playbook that lists the hosts which the inventory and the limit leave."""
    listing = {"msg": "{{ ansible_play_hosts_all | to_json }}"}
    return _play(
        [{"name": HOSTS, "ansible.builtin.debug": listing, "run_once": True}],
        strategy="linear",
        connection="local",
    )


def _reporting(request: HostRequest, mode: str, wait: int) -> dict[str, Any]:
    values = {"id": request.id, "mode": mode, "wait": wait, "mark": _MARK}
    script = "exec /bin/sh -c " + shlex.quote(_REPORT % values)
    return {"name": REPORT, "ansible.builtin.raw": _Unsafe(script)}


def _play(tasks: list[dict[str, Any]], **keywords: Any) -> str:
    import yaml

    play = {
        "name": "KogniTerm",
        "hosts": "all",
        "gather_facts": False,
        "check_mode": False,
        "strategy": "free",
        **keywords,
        "tasks": tasks,
    }

    class Dumper(yaml.SafeDumper):
        """Writes texts that Ansible takes as they are."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(
        _Unsafe,
        lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"'),
    )
    return yaml.dump([play], Dumper=Dumper, allow_unicode=False, width=1 << 20, sort_keys=False)


class _Unsafe(str):
    """A text in which Ansible fills in no variables."""

    __slots__ = ()
