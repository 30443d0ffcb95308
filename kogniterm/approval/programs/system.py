"""Programs that look at or change the running machine, its packages and its connections."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.call import Call
from kogniterm.approval.naming import names
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.places import HOLE
from kogniterm.approval.programs.common import operands_of, words_of
from kogniterm.approval.programs.wrappers import shows_environment


def disk(call: Call, rules: Rules) -> None:
    """Disk tools: listing needs approval too (they open devices), the rest destroys."""
    text = " ".join(words_of(call))
    call.findings.effect("privilege", call.name, outside=True)
    if re.fullmatch(r"(?:-l|--list|list|status|-n .*|show|get .*|-L|help|print)(?: [\w/]+)?", text):
        call.ask("{program} looks at disks.")
    else:
        call.danger("{program} can destroy what is on a disk.")
    del rules


def firewall(call: Call, rules: Rules) -> None:
    """Firewalls: listing asks, flushing and changing is dangerous."""
    text = " ".join(words_of(call))
    call.findings.effect("privilege", call.name, outside=True)
    if re.fullmatch(
        r"(?:-L|-S|--list\S*|list|status|show|-nL|-vnL|-n|-v| |ruleset|numbered|verbose)*", text
    ):
        call.ask("{program} shows the firewall.")
    else:
        call.danger("{program} changes what the firewall lets through.")
    del rules


def kill(call: Call, rules: Rules) -> None:
    """kill: every process, init and the shell itself are special."""
    words = words_of(call)
    if words and words[0] in {"-l", "-L", "--list", "-t", "--table", "-0"}:
        return  # Signal 0 only asks whether the process is there.
    call.findings.effect("process", " ".join(words))
    call.ask("{program} ends processes.")
    pids = (
        words[1:] if words and re.match(r"-(?:s|n|\d+|SIG\w+|[A-Z]+[0-9]?)\Z", words[0]) else words
    )
    if words[:1] in (["-s"], ["-n"]):
        pids = words[2:]
    if any(pid in {"-1", "1", "0", "--"} for pid in pids if pid != "--"):
        call.danger("{program} would end every process, or the first one.")
    del rules


def killall(call: Call, rules: Rules) -> None:
    """killall, pkill by name."""
    words = words_of(call)
    call.findings.effect("process", " ".join(words))
    call.ask("{program} ends processes by name.")
    broad = {
        ".",
        ".*",
        "",
        "systemd",
        "init",
        "sshd",
        "bash",
        "sh",
        "zsh",
        "Xorg",
        "dbus-daemon",
        "kogniterm",
        "login",
    }
    if any(word in broad for word in words) or ("-u" in words and len(words) <= 3):
        call.danger("{program} would end processes the session or the machine needs.")
    del rules


_SYSTEMCTL_READS = frozenset(
    names(
        """
    status show cat list-units list-unit-files list-timers list-sockets list-dependencies
    list-jobs list-machines is-active is-enabled is-failed is-system-running get-default
    show-environment help
    """
    )
)


def systemctl(call: Call, rules: Rules) -> None:
    """systemctl: reading verbs, power verbs, the rest."""
    options = dict.fromkeys(
        ("t", "type", "p", "property", "n", "lines", "o", "output", "state", "root"), "value"
    )
    parsed = parse_options(
        call.args, Rules("", options=options | {"H": "network", "host": "network", "M": "ask="})
    )
    verb = parsed.operands[0].value if parsed.operands else "list-units"
    if parsed.has("H", "host"):
        call.network()
    if parsed.has("M", "root"):
        call.ask("{program} looks at another system.")
    if verb == "show-environment":
        shows_environment(call)
    if verb in _SYSTEMCTL_READS:
        return
    call.findings.effect("privilege", f"systemctl {verb}".replace(HOLE, "…"), outside=True)
    if verb in {
        "poweroff",
        "reboot",
        "halt",
        "kexec",
        "suspend",
        "hibernate",
        "isolate",
        "rescue",
        "emergency",
        "exit",
        "set-default",
        "mask",
        "disable",
        "soft-reboot",
        "edit",
    }:
        call.danger("systemctl {verb} changes how the machine runs.", verb=verb)
    else:
        call.ask("systemctl {verb} changes services.", verb=verb.replace(HOLE, "…"))
    del rules


def service(call: Call, rules: Rules) -> None:
    """service NAME status reads."""
    words = words_of(call)
    if words != ["--status-all"] and words[1:] != ["status"]:
        call.findings.effect("privilege", "service", outside=True)
        call.ask("{program} changes services.")
    del rules


def crontab(call: Call, rules: Rules) -> None:
    """crontab: -l shows; everything else plants or removes commands for later."""
    words = words_of(call)
    if words == ["-l"]:
        return
    if "-e" in words and "-r" not in words:
        call.ask("{program} opens the table of timed commands in an editor.")
    else:
        call.danger("{program} changes commands that run later, unseen.")
    del rules


def sysctl(call: Call, rules: Rules) -> None:
    """sysctl: names read, `=` and -w change."""
    words = words_of(call)
    if any(
        "=" in word or re.match(r"-[a-zA-Z]*[wpf]|--(?:write|load|system)", word) for word in words
    ):
        call.danger("{program} changes the kernel's settings.")
    del rules


_IP_CHANGES = re.compile(
    r"add|a\b$|del|set|change|replace|flush|append|restore|exec|up|down|rename|master"
)


def ip(call: Call, rules: Rules) -> None:
    """ip: show forms read."""
    words = [word for word in words_of(call) if not word.startswith("-")]
    options = [word for word in words_of(call) if word.startswith("-")]
    verbs = words[1:2]
    if verbs == ["s"] and re.match(r"a|r\b|ro|n\b|nei", words[0]):
        verbs = ["show"]  # of a link it sets
    if (words[:1] == ["netns"] and words[1:2] not in ([], ["list"])) or any(
        re.match(r"-b(?:atch)?\b|-n\b|-netns", o) for o in options
    ):
        call.ask("{program} runs something in another network.")
    elif verbs and (
        verbs[0]
        not in {
            "show",
            "sh",
            "list",
            "ls",
            "l",
            "get",
            "help",
            "dev",
            "to",
            "via",
            "table",
            "brief",
            "monitor",
        }
    ):
        call.findings.effect("privilege", "ip", outside=True)
        call.ask("{program} changes the network's settings.")
    del rules


def ifconfig(call: Call, rules: Rules) -> None:
    """ifconfig: one interface is shown, more words change it."""
    if len(operands_of(call)) > 1:
        call.ask("{program} changes the network's settings.")
    del rules


def mount(call: Call, rules: Rules) -> None:
    """mount: alone it lists."""
    words = words_of(call)
    if (
        words
        and words not in (["-l"], ["--version"], ["-V"])
        and not (words[0] == "-t" and len(words) == 2)
    ):
        call.findings.effect("privilege", "mount", outside=True)
        call.ask("{program} changes what is mounted where.")
    del rules


def date(call: Call, rules: Rules) -> None:
    """date: a format reads; -s or digits set the clock."""
    options = Rules(
        "",
        options=dict.fromkeys(("d", "date", "rfc-3339", "v"), "value")
        | {
            "f": "read",
            "file": "read",
            "r": "read",
            "reference": "read",
            "s": "danger=",
            "set": "danger=",
        },
    )
    args = [
        arg
        for arg in call.args
        if not re.fullmatch(r"-u?I(?:date|hours|minutes|seconds|ns)?", arg.value)
    ]
    parsed = parse_options(args, options)
    if parsed.has("s", "set") or any(
        o.name and "set".startswith(o.name) and len(o.name) > 1 for o in parsed.options
    ):
        call.danger("{program} sets the machine's clock.")
    for value in parsed.values("f", "file"):
        call.reads(value)
    for operand in parsed.operands:
        if not operand.value.startswith("+"):
            call.ask("{program} with this argument sets the machine's clock.")
    if any(HOLE in option.name for option in parsed.options) or parsed.unclear:
        call.ask("An argument of {program} is only known when it runs.")
    del rules


def ps(call: Call, rules: Rules) -> None:
    """ps: the BSD letter `e` shows the environment of processes."""
    for arg in call.args:
        if re.search(r"\benviron\b", arg.value) or re.match(r"-\w*E", arg.value):
            call.findings.effect("secret", "environment")
            call.ask("It shows the environment of processes, keys among it.")
        elif (
            re.fullmatch(r"[a-zA-Z]+", arg.value)
            and "e" in arg.value
            and not arg.value.startswith("-")
        ):
            previous = call.args[: call.args.index(arg)]
            if not previous or not re.fullmatch(r"-\w*[opuUCGgtp]|--\w+", previous[-1].value):
                call.findings.effect("secret", "environment")
                call.ask("It shows the environment of processes, keys among it.")
    del rules


def top(call: Call, rules: Rules) -> None:
    """top: without batch mode it waits for a person, but changes nothing."""
    del call, rules


def getent(call: Call, rules: Rules) -> None:
    """getent: shadow is secret, hosts may ask the network."""
    database_name = operands_of(call)[0].value if operands_of(call) else ""
    if database_name in {"shadow", "gshadow"}:
        call.findings.effect("secret", database_name)
        call.ask("It reads {path}, which may hold secrets.", path=database_name)
    elif (
        database_name in {"hosts", "ahosts", "ahostsv4", "ahostsv6", "networks", "netgroup"}
        and len(operands_of(call)) > 1
    ):
        call.network()
    elif not re.fullmatch(r"\w+", database_name):
        call.ask("What {program} shows is only known when it runs.")
    del rules


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "disk": disk,
    "firewall": firewall,
    "kill": kill,
    "killall": killall,
    "systemctl": systemctl,
    "service": service,
    "crontab": crontab,
    "sysctl": sysctl,
    "ip": ip,
    "ifconfig": ifconfig,
    "mount": mount,
    "date": date,
    "ps": ps,
    "top": top,
    "getent": getent,
}
