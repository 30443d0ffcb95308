"""Programs that look at or change the running machine, its packages and its connections."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.call import Call
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.places import HOLE, is_secret
from kogniterm.approval.programs.wrappers import remote, runs_pipe
from kogniterm.approval.scope import Argument


def _words(call: Call) -> list[str]:
    return [arg.value.replace(HOLE, "…") for arg in call.args]


def _operands(call: Call) -> list[Argument]:
    return [arg for arg in call.args if not arg.value.startswith("-")]


def mentions(call: Call) -> None:
    """Secret files named anywhere in the arguments, also as `@file` or `name=file`."""
    for arg in call.args:
        for piece in re.split(r"[=@:,;]", arg.value):
            if not piece or len(piece) > 300 or " " in piece:
                continue
            place = call.place(Argument(call.scope.ground.tilde(piece), arg.glob))
            if is_secret(place.path, glob=arg.glob):
                call.secret(place)


def network(call: Call, rules: Rules) -> None:
    """Programs that exist to talk to the network."""
    mentions(call)
    operands = _operands(call)
    if call.args and all(word in {"--version", "--help", "-V", "-h"} for word in _words(call)):
        return
    call.network(operands[0].value if operands else "")
    del rules


def curl(call: Call, rules: Rules) -> None:
    """curl: uploads, output files and its own config are noted."""
    options = {
        **dict.fromkeys(("o", "output", "D", "dump-header", "c", "cookie-jar", "trace", "trace-ascii", "stderr", "output-dir", "hsts", "alt-svc", "etag-save", "libcurl"), "write"),
        **dict.fromkeys(("T", "upload-file", "K", "config", "E", "cert", "key", "netrc-file", "b", "cookie"), "value"),
        **dict.fromkeys(("d", "data", "data-raw", "data-binary", "data-urlencode", "F", "form", "H", "header", "X", "request", "u", "user", "A", "user-agent", "e", "referer", "m", "max-time", "w", "write-out", "x", "proxy", "json", "url", "connect-timeout", "retry", "r", "range", "resolve", "cacert", "U"), "value"),
    }  # fmt: skip
    parsed = parse_options(call.args, Rules("", options=options))
    if (
        not parsed.operands
        and not parsed.has("url", "K", "config")
        and parsed.has("V", "version", "h", "help")
    ):
        return
    for value in parsed.values(*(name for name, action in options.items() if action == "write")):
        call.writes(value)
    if parsed.has("O", "remote-name", "remote-name-all", "J"):
        call.findings.effect("write", "…")
    url = (*parsed.operands, *parsed.values("url"))
    call.network(url[0].value if url else "")
    mentions(call)
    sends = parsed.values(
        "d", "data", "data-raw", "data-binary", "data-urlencode", "F", "form", "json"
    )
    from kogniterm.approval.places import is_secret_variable

    for arg in (*sends, *url):
        if any(is_secret_variable(name) for name in arg.names):
            call.findings.effect("secret", "$" + arg.names[0])
    if any(re.match(r"file:", arg.value) for arg in url):
        for arg in url:
            call.reads(Argument(re.sub(r"^file:/*", "/", arg.value)))
    if parsed.has("k", "insecure"):
        call.ask("{program} is told not to check who it talks to.")
    del rules


def wget(call: Call, rules: Rules) -> None:
    """wget: always writes what it gets."""
    options = Rules(
        "",
        options=dict.fromkeys(
            (
                "O",
                "output-document",
                "o",
                "output-file",
                "a",
                "append-output",
                "P",
                "directory-prefix",
            ),
            "write",
        )
        | {"use-askpass": "run", "e": "ask=", "execute": "ask="}
        | dict.fromkeys(
            (
                "T",
                "t",
                "U",
                "header",
                "user",
                "password",
                "post-data",
                "post-file",
                "body-file",
                "method",
                "i",
                "A",
                "R",
                "D",
                "l",
            ),
            "value",
        ),
    )
    parsed = parse_options(call.args, options)
    if not parsed.operands and parsed.has("V", "version", "h", "help"):
        return
    for value in parsed.values(
        "O", "output-document", "o", "output-file", "a", "append-output", "P", "directory-prefix"
    ):
        call.writes(value)
    call.network(parsed.operands[0].value if parsed.operands else "")
    mentions(call)
    del rules


def ssh(call: Call, rules: Rules) -> None:
    """ssh: network; options can run local programs; the remote command is judged for danger."""
    options = dict.fromkeys("BbcDEeFIiJLlmOopQRSWw", "value")
    parsed = parse_options(call.args, Rules("", options=options), operands_end=True)
    if parsed.has("V") and not parsed.operands:
        return
    if any(
        re.match(r"(?i)(?:proxycommand|localcommand|permitlocal|knownhostscommand)", v.value)
        for v in parsed.values("o")
    ):
        call.ask("An option of {program} runs a local program.")
    call.network(parsed.operands[0].value if parsed.operands else "")
    text = " ".join(arg.value for arg in parsed.operands[1:])
    if text:
        call.shell(text.replace(HOLE, "$UNKNOWN"), call.scope)
    del rules


def netcat(call: Call, rules: Rules) -> None:
    """nc, socat: -e and EXEC: hand a shell to the network."""
    text = " ".join(_words(call))
    call.network(text[:80])
    mentions(call)
    if re.search(r"(?:^| )-[a-z]*[ec] ?\S|--(?:sh-)?exec|EXEC:|SYSTEM:", text):
        call.danger("{program} gives a program of this machine to the network.")
    if call.name != "telnet" and {"bash", "sh", "zsh"} & set(call.scope.upstream):
        call.danger("{program} gives a shell of this machine to the network.")
    del rules


def transfer(call: Call, rules: Rules) -> None:
    """scp, sftp…: local operands are read, and leave the machine."""
    mentions(call)
    for operand in _operands(call):
        if not re.match(r"[^/]+:", operand.value):
            call.reads(operand)
    call.network(" ".join(_words(call))[:80])
    del rules


def cloud(call: Call, rules: Rules) -> None:
    """Clients of remote services."""
    network(call, rules)
    if re.search(
        r"\b(?:destroy|delete|rm|rb|terminate\S*|purge|drain|uninstall|remove)\b",
        " ".join(_words(call)),
    ):
        call.danger("{program} removes things on a remote service.")


def database(call: Call, rules: Rules) -> None:
    """Database clients: statements can do anything."""
    words = _words(call)
    if words in (["--version"], ["-V"], ["--help"]):
        return
    text = " ".join(words)
    call.findings.effect("execute", call.name)
    call.ask("{program} runs statements on a database.")
    mentions(call)
    if (
        re.search(
            r"(?i)\b(?:drop\s+(?:table|database|schema)|truncate\s+(?:table\s+)?\w|delete\s+from\s+\w+\s*(?:;|$)|flushall|flushdb|dropdatabase)\b|(?i:dropDatabase)",
            text,
        )
        or call.name == "dropdb"
    ):
        call.danger("{program} is told to destroy data.")
    if call.name != "sqlite3":
        call.network(call.name)
    del rules


def secrets(call: Call, rules: Rules) -> None:
    """Password stores."""
    call.findings.effect("secret", call.name)
    call.ask("{program} reads or changes stored secrets.")
    del rules


def packages(call: Call, rules: Rules) -> None:
    """Package managers: queries are reads, the rest installs or removes."""
    words = _words(call)
    queries = {
        "pacman": r"-Q", "dnf": r"list|info|repolist|history$", "yum": r"list|info|repolist", "apk": r"info|list",
        "zypper": r"se|search|info|lr", "apt-get": r"--version", "port": r"installed", "nix-env": r"-q",
    }  # fmt: skip
    pattern = queries.get(call.name)
    if (
        words
        and pattern
        and re.match(pattern, words[0])
        and "--installed" in (*words, "--installed")
    ):
        if call.name in {"dnf", "yum", "zypper"}:
            call.network(call.name)
        return
    if words in (["--version"], ["--help"]):
        return
    call.findings.effect("privilege", call.name, outside=True)
    call.network(call.name)
    call.ask("{program} installs, removes or updates software.")
    if any(re.match(r"remove|purge|autoremove|erase|-R|uninstall|del\b", word) for word in words):
        call.ask("{program} removes software.")
    del rules


def disk(call: Call, rules: Rules) -> None:
    """Disk tools: listing needs approval too (they open devices), the rest destroys."""
    text = " ".join(_words(call))
    call.findings.effect("privilege", call.name, outside=True)
    if re.fullmatch(
        r"(?:-l|--list|list|status|-n .*|show|get .*|-L|-a|help|print)(?: [\w/]+)?", text
    ):
        call.ask("{program} looks at disks.")
    else:
        call.danger("{program} can destroy what is on a disk.")
    del rules


def firewall(call: Call, rules: Rules) -> None:
    """Firewalls: listing asks, flushing and changing is dangerous."""
    text = " ".join(_words(call))
    call.findings.effect("privilege", call.name, outside=True)
    if re.fullmatch(
        r"(?:-L|-S|--list\S*|list|status|show|-nL|-vnL|-n|-v| |ruleset|numbered|verbose)*", text
    ):
        call.ask("{program} shows the firewall.")
    else:
        call.danger("{program} changes what the firewall lets through.")
    del rules


def interpreter(call: Call, rules: Rules) -> None:
    """python, perl…: code in the arguments is not judged, only searched for the worst."""
    words = _words(call)
    version = {"--version", "-V", "-v", "-version", "--help", "-VV"}
    if (
        len(words) == 1
        and words[0] in version
        and call.name not in {"bc", "dc", "m4", "tclsh", "expect"}
    ):
        return
    if (
        call.name == "bc"
        and not _operands(call)
        and {"echo", "printf"} >= set(call.scope.upstream)
        and call.scope.upstream
    ):
        return
    if (
        call.name == "bc"
        and call.stdin is not None
        and "!" not in call.stdin
        and not _operands(call)
    ):
        return
    call.findings.effect("execute", call.name)
    call.ask("{program} runs code that is not judged.")
    remote(call, *call.args)
    code = " ".join((*words, call.stdin or ""))
    reason = worst_of_text(code)
    if reason:
        call.danger("Its code {what}.", what=reason)
    if call.piped and not _operands(call) and not any(re.match(r"-[ceE]", word) for word in words):
        runs_pipe(call)
    mentions(call)
    for piece in re.findall(r"[~/.\w-]*/[\w.~/-]+|\.env\b", code):
        place = call.place(Argument(call.scope.ground.tilde(piece)))
        if is_secret(place.path):
            call.secret(place)
    if re.search(
        r"\burllib|\brequests\.|http\.client|https?://|socket|Net::|LWP|fetch\(|open-uri|TCPSocket|fsockopen|curl",
        code,
    ):
        call.findings.effect("network", call.name)
    if re.search(r"environ|process\.env|\bENV\b|getenv|%ENV", code):
        call.findings.effect("secret", "environment")
    del rules


_WORST = (
    (r"rm\s+(?:-\w+\s+)*-\w*[rRf]\w*\s+(?:--\S+\s+)*[\"']?(?:/|~|\$HOME|\*|\.\.?(?:[\"'\s]|$))", "deletes far more than one file"),
    (r"rmtree\(\s*(?:[\"'](?:/|~|\.\.)|os\.path\.expanduser|Path\.home|[\"']\.[\"'])", "deletes whole folders"),
    (r"rm_rf|rimraf|rmSync\([^)]*recursive|removeSync|File::Path.*(?:rmtree|remove_tree)", "deletes whole folders"),
    (r"mkfs|/dev/(?:sd|nvme|hd|vd|mmcblk|mem)|dd\s+if=", "writes to a disk"),
    (r"socket.*(?:dup2|subprocess|pty\.spawn|/bin/(?:ba)?sh|exec)|pty\.spawn|/dev/tcp/|fsockopen.*exec", "gives a shell to the network"),
    (r"(?:curl|wget)[^|;&]*\|\s*(?:ba|z|da)?sh\b|exec\(\s*(?:urllib|requests)", "runs code that comes from the network"),
    (r":\(\)\s*\{|while\s+(?:True|1)\s*:?\s*os\.fork|fork\s+while\s+fork|os\.fork\(\)\s*while", "starts processes without end"),
    (r"os\.kill\(\s*-1|kill\s+-9\s+-1", "ends every process"),
    (r"authorized_keys|/etc/(?:passwd|shadow|sudoers|cron)|\.bashrc|\.ssh/", "touches files other programs obey"),
    (r"base64.{0,40}(?:b64decode|decode64|-d).{0,60}(?:exec|eval|system)|(?:exec|eval)\(.{0,60}(?:b64decode|decode64|unhexlify|fromhex|atob|marshal)", "runs text that was decoded out of sight"),
)  # fmt: skip


def worst_of_text(code: str) -> str | None:
    """The worst thing a foreign text visibly does, in words; a last net, never a permission."""
    for pattern, what in _WORST:
        if re.search(pattern, code[:20000], re.DOTALL):
            return what
    return None


def kill(call: Call, rules: Rules) -> None:
    """kill: every process, init and the shell itself are special."""
    words = _words(call)
    if words and words[0] in {"-l", "-L", "--list", "-t", "--table"}:
        return
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
    words = _words(call)
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
    ["status", "show", "cat", "list-units", "list-unit-files", "list-timers", "list-sockets", "list-dependencies", "list-jobs", "list-machines", "is-active", "is-enabled", "is-failed", "is-system-running", "get-default", "show-environment", "help"]
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
    words = _words(call)
    if words != ["--status-all"] and words[1:] != ["status"]:
        call.findings.effect("privilege", "service", outside=True)
        call.ask("{program} changes services.")
    del rules


def crontab(call: Call, rules: Rules) -> None:
    """crontab: -l shows; everything else plants or removes commands for later."""
    words = _words(call)
    if words == ["-l"]:
        return
    if "-e" in words and "-r" not in words:
        call.ask("{program} opens the table of timed commands in an editor.")
    else:
        call.danger("{program} changes commands that run later, unseen.")
    del rules


def sysctl(call: Call, rules: Rules) -> None:
    """sysctl: names read, `=` and -w change."""
    words = _words(call)
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
    words = [word for word in _words(call) if not word.startswith("-")]
    options = [word for word in _words(call) if word.startswith("-")]
    verbs = words[1:2]
    if (
        (words[:1] == ["netns"]
        and words[1:2] not in ([], ["list"]))
        or any(re.match(r"-b(?:atch)?\b|-n\b|-netns", o) for o in options)
    ):
        call.ask("{program} runs something in another network.")
    elif verbs and (
        verbs[0]
        not in {
            "show",
            "s",
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
    if len(_operands(call)) > 1:
        call.ask("{program} changes the network's settings.")
    del rules


def mount(call: Call, rules: Rules) -> None:
    """mount: alone it lists."""
    words = _words(call)
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
    parsed = parse_options(call.args, options)
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
        if (
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
    database_name = _operands(call)[0].value if _operands(call) else ""
    if database_name in {"shadow", "gshadow"}:
        call.findings.effect("secret", database_name)
        call.ask("It reads {path}, which may hold secrets.", path=database_name)
    elif (
        database_name in {"hosts", "ahosts", "ahostsv4", "ahostsv6", "networks", "netgroup"}
        and len(_operands(call)) > 1
    ):
        call.network()
    elif not re.fullmatch(r"\w+", database_name):
        call.ask("What {program} shows is only known when it runs.")
    del rules


def pager(call: Call, rules: Rules) -> None:
    """less, more: readers, but LESSOPEN, logs and +commands are not."""
    options = Rules(
        "",
        options={
            "o": "write",
            "O": "write",
            "log-file": "write",
            "LOG-FILE": "write",
            "k": "ask=",
            "t": "value",
            "T": "value",
            "p": "value",
        },
    )
    for arg in call.args:
        if arg.value.startswith("+") and not re.fullmatch(r"\+(?:\d+|G|F|/[^!|]*)", arg.value):
            call.ask("{program} is given commands to run.")
    parsed = parse_options([a for a in call.args if not a.value.startswith("+")], options)
    for option in parsed.options:
        if options.options.get(option.name) == "write":
            call.ask("An option of {program} writes a file.")
    for operand in parsed.operands:
        call.reads(operand)
    del rules


def man(call: Call, rules: Rules) -> None:
    """man: options can name programs (-P, -H) and files (-l, -C)."""
    for arg in call.args:
        if (
            re.match(
                r"-\w*[PHlCMTXZRp]|--(?:pager|html|local|config|preproc|troff|browser|recode|gx|dither)|--output",
                arg.value,
            )
            or arg.maybe_option
        ):
            call.ask("An option of {program} can make it run another program.")
        elif "/" in arg.value:
            call.ask("{program} formats a file with its own programs.")
    del rules


_DOCKER_READS = frozenset(["ps", "images", "version", "info", "history", "port", "top", "diff"])


def docker(call: Call, rules: Rules) -> None:
    """docker: what lists containers reads; pruning and wide mounts are dangerous."""
    words = _words(call)
    operands = [word for word in words if not word.startswith("-")]
    verb = operands[0] if operands else ""
    pair = " ".join(operands[:2])
    if any(re.match(r"-H|--host|-c\b|--context|--config|-l\b", word) for word in words[:2]):
        call.network()
    elif (
        verb in _DOCKER_READS
        or pair
        in {
            "container ls",
            "image ls",
            "volume ls",
            "network ls",
            "container list",
            "image list",
            "system df",
            "context ls",
            "compose ps",
            "container ps",
        }
        or words in (["--version"], ["-v"])
    ):
        return
    call.findings.effect("privilege", f"{call.name} {verb}", outside=True)
    call.ask("{program} {verb} starts, stops, shows or changes containers.", verb=verb)
    if re.search(r"\bprune\b|\brm -\w*f|system reset|volume rm|swarm leave", " ".join(words)):
        call.danger("{program} deletes containers, images or their data.")
    if re.search(
        r"(?:-v|--volume)[ =]?/:|--privileged|--pid[ =]host|source=/,|-v[ =]?/(?:etc|root|var/run/docker\.sock|home):|--cap-add|docker\.sock",
        " ".join(words),
    ):
        call.danger("{program} gives a container power over this machine.")
    if verb in {"pull", "push", "login", "run", "build", "search"}:
        call.findings.effect("network", verb)
    del rules


def dpkg(call: Call, rules: Rules) -> None:
    """dpkg: queries read."""
    words = _words(call)
    if not words or not re.match(
        r"-[lLsSpWIc]\Z|--(?:list|listfiles|status|search|print-|get-selections|show|info|contents|audit|version|help|verify)",
        words[0],
    ):
        call.findings.effect("privilege", "dpkg", outside=True)
        call.ask("{program} installs, removes or updates software.")
    del rules


def rpm(call: Call, rules: Rules) -> None:
    """rpm: -q reads, unless it evaluates macros."""
    words = _words(call)
    text = " ".join(words)
    if (
        not words
        or not re.match(r"-q|--query|-V\w*\Z|--version", words[0])
        or re.search(
            r"--eval|-E\b|--define|-D\b|%\(|--load|--pipe|%\{lua|--macros|--rcfile|https?:", text
        )
    ):
        call.findings.effect("privilege", "rpm", outside=True)
        call.ask("{program} installs, removes or updates software.")
    del rules


def screen(call: Call, rules: Rules) -> None:
    """screen: -ls lists."""
    if _words(call) not in (["-ls"], ["-list"], ["--version"], ["-v"]):
        call.ask("{program} runs programs in another terminal.")
    del rules


def gpg(call: Call, rules: Rules) -> None:
    """gpg: listing public keys reads."""
    words = _words(call)
    if not words or not re.match(
        r"(?:--list-(?:public-)?keys|-k|--list-sigs|--fingerprint|--version|--list-packets)\Z",
        words[0],
    ):
        call.ask("{program} makes or uses keys.")
        mentions(call)
        if any("secret" in word or word in {"-d", "--decrypt"} for word in words):
            call.findings.effect("secret", "gpg")
    if any(re.match(r"--(?:recv|send|search|refresh|keyserver|locate)", word) for word in words):
        call.network()
    del rules


def openssl(call: Call, rules: Rules) -> None:
    """openssl: looking at certificates and hashing reads."""
    words = _words(call)
    verb = words[0] if words else ""
    mentions(call)
    if verb in {"s_client", "s_server", "s_time", "ocsp"}:
        call.network(" ".join(words)[:80])
    elif verb in {"x509", "dgst", "version", "md5", "sha1", "sha256", "sha512", "crl", "asn1parse", "verify", "ciphers", "list", "base64"} and not any(
        re.match(r"-(?:out|writerand|engine|provider|config|sign|passin|key|signkey|CAserial|rand|CAkey|load)", word) for word in words
    ):  # fmt: skip
        for operand in call.args[1:]:
            if not operand.value.startswith("-"):
                call.reads(operand)
    else:
        call.ask("{program} {verb} makes or uses keys, or writes files.", verb=verb)
    del rules


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "network": network, "curl": curl, "wget": wget, "ssh": ssh, "netcat": netcat,
    "transfer": transfer, "cloud": cloud, "database": database, "secrets": secrets,
    "packages": packages, "disk": disk, "firewall": firewall, "interpreter": interpreter,
    "kill": kill, "killall": killall, "systemctl": systemctl, "service": service,
    "crontab": crontab, "sysctl": sysctl, "ip": ip, "ifconfig": ifconfig, "mount": mount,
    "date": date, "ps": ps, "top": top, "getent": getent, "pager": pager, "man": man,
    "docker": docker, "dpkg": dpkg, "rpm": rpm, "screen": screen, "gpg": gpg, "openssl": openssl,
}  # fmt: skip
