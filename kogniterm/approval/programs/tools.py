"""Package managers, containers, pagers and tools with keys."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.call import Call
from kogniterm.approval.naming import names
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.programs.common import mentions, words_of
from kogniterm.approval.programs.plain import verbs

_QUERIES = {
    "pacman": r"-Q",
    "dnf": r"(?:list|info|repolist)\Z",
    "yum": r"(?:list|info|repolist)\Z",
    "zypper": r"(?:se|search|info|lr)\Z",
    "apk": r"(?:info|list)\Z",
    "port": r"installed\Z",
    "nix-env": r"-q",
}


def packages(call: Call, rules: Rules) -> None:
    """Package managers: queries are reads, the rest installs or removes."""
    words = words_of(call)
    pattern = _QUERIES.get(call.name)
    if words and pattern and re.match(pattern, words[0]):
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
            "lesskey-file": "ask=",
            "lesskey-src": "ask=",
            "lesskey-content": "ask=",
            "t": "value",
            "T": "value",
            "p": "value",
        },
    )
    for arg in call.args:
        if arg.value.startswith("+") and not re.fullmatch(r"\+(?:\d+|G|F|/[^!|]*)", arg.value):
            call.ask("{program} is given commands to run.")
            call.starts(arg.value.lstrip("+!"))
    parsed = parse_options([a for a in call.args if not a.value.startswith("+")], options)
    for option in parsed.options:
        action = options.options.get(option.name)
        if action == "write":
            call.ask("An option of {program} writes a file.")
        elif action == "ask=":
            call.ask("{program} is given commands to run.")
    for operand in parsed.operands:
        call.reads(operand)
    del rules


def man(call: Call, rules: Rules) -> None:
    """man: options can name programs (-P, -H) and files (-l, -C)."""
    for arg in call.args:
        if (
            re.match(
                r"-\w*[PHlCMTXZRpo]|--(?:pager|html|local|config|preproc|troff|browser|recode"
                r"|gx|dither)|--(?:output|restore|dribble)",
                arg.value,
            )
            or arg.maybe_option
        ):
            call.ask("An option of {program} can make it run another program.")
            call.starts(re.sub(r"-[PH]|--\w+=", "", arg.value, count=1))
        elif " " in arg.value:
            call.starts(arg.value)
        elif "/" in arg.value:
            call.ask("{program} formats a file with its own programs.")
    del rules


_DOCKER_READS = frozenset(["ps", "images", "version", "info", "history", "port", "top", "diff"])


def docker(call: Call, rules: Rules) -> None:
    """docker: what lists containers reads; pruning and wide mounts are dangerous."""
    words = words_of(call)
    operands = [word for word in words if not word.startswith("-")]
    verb = operands[0] if operands else ""
    pair = " ".join(operands[:2])
    before = words[: words.index(verb)] if verb else []
    elsewhere = r"-H|--(?:host|context|config)\b"
    if before or any(re.match(elsewhere, word) for word in words):
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
            "container top",
            "compose ls",
            "compose images",
            "compose top",
            "compose version",
        }
        or words in (["--version"], ["-v"])
    ):
        return
    call.findings.effect("privilege", f"{call.name} {verb}", outside=True)
    call.ask("{program} {verb} starts, stops, shows or changes containers.", verb=verb)
    if re.search(r"\bprune\b|\brm -\w*f|system reset|volume rm|swarm leave", " ".join(words)):
        call.danger("{program} deletes containers, images or their data.")
    if re.search(
        r"(?:-v|--volume)[ =]?/:|--privileged|--pid[ =]host|source=/,|-v[ =]?/(?:etc|root"
        r"|var/run/docker\.sock|home):|--cap-add|docker\.sock",
        " ".join(words),
    ):
        call.danger("{program} gives a container power over this machine.")
    if verb in {"pull", "push", "login", "run", "build", "search"}:
        call.findings.effect("network", verb)
    del rules


_DPKG_SHOWS = re.compile(
    r"-[lLsSpWIcCV]|--(?:list|listfiles|status|search|print-[\w-]+|get-selections|show|info"
    r"|contents|audit|version|help|verify|compare-versions|field)"
)
_DPKG_PLAIN = re.compile(r"--no-pager|-f.*|--showformat=.*")


def dpkg(call: Call, rules: Rules) -> None:
    """dpkg: queries read."""
    words = words_of(call)
    shows = [word for word in words if _DPKG_SHOWS.fullmatch(word)]
    others = [word for word in words if word.startswith("-") and word not in shows]
    if not shows or any(not _DPKG_PLAIN.fullmatch(word) for word in others):
        call.findings.effect("privilege", "dpkg", outside=True)
        call.ask("{program} installs, removes or updates software.")
    del rules


def rpm(call: Call, rules: Rules) -> None:
    """rpm: -q reads, unless it evaluates macros."""
    words = words_of(call)
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
    if words_of(call) not in (["-ls"], ["-list"], ["--version"], ["-v"]):
        call.ask("{program} runs programs in another terminal.")
    del rules


def tmux(call: Call, rules: Rules) -> None:
    """tmux: what lists reads; a second word may begin another command, a format may run one."""
    verbs(call, rules)
    if len(parse_options(call.args, rules).operands) > 1:
        call.ask("{program} runs programs in another terminal.")


def gpg(call: Call, rules: Rules) -> None:
    """gpg: even listing keys makes its folder when there is none."""
    words = words_of(call)
    if not words or not re.match(
        r"(?:--version|--help)\Z",
        words[0],
    ):
        call.ask("{program} makes or uses keys.")
        mentions(call)
        if any("secret" in word or word in {"-d", "--decrypt"} for word in words):
            call.findings.effect("secret", "gpg")
    if any(re.match(r"--(?:recv|send|search|refresh|keyserver|locate)", word) for word in words):
        call.network()
    del rules


_PIP_SHAPES = frozenset(
    names(
        """
    format editable e not-required user local l path exclude exclude-editable verbose v quiet q
    files f all version V help h disable-pip-version-check no-color no-input
    """
    )
)


def pip(call: Call, rules: Rules) -> None:
    """pip: what looks at installed packages reads, unless it asks the index what is newer."""
    values = dict.fromkeys(("format", "path", "exclude"), "value") | {"r": "read"}
    parsed = parse_options(call.args, Rules("", options=values))
    verb = parsed.operands[0].value if parsed.operands else ""
    for requirements in parsed.values("r"):
        call.reads(requirements)
    shapes = {option.name for option in parsed.options} - {"r"}
    reads = verb in {"list", "show", "freeze", "check", "help"} or not verb
    if not reads or not shapes <= _PIP_SHAPES:
        call.findings.effect("execute", f"{call.name} {verb}".strip())
        call.ask("{program} {verb} may install, change or run things.", verb=verb)
        if verb in {"install", "download", "wheel", "index", "list"}:
            call.network()
    del rules


def go(call: Call, rules: Rules) -> None:
    """go: `env` shows settings unless -w or -u changes them."""
    words = words_of(call)
    reads = words[:1] == ["env"] and not any(re.match(r"--?[wu]", word) for word in words)
    if words[:1] not in (["version"], ["help"]) and not reads:
        verb = words[0] if words else ""
        call.findings.effect("execute", f"go {verb}".strip())
        call.ask("{program} {verb} may install, change or run things.", verb=verb)
        if verb in {"get", "install", "mod"}:
            call.network()
    del rules


_OPENSSL_READS = names(
    """
    x509 dgst version md5 sha1 sha256 sha512 crl asn1parse verify ciphers list base64
    """
)
_OPENSSL_DOES = re.compile(
    r"-(?:out|writerand|engine|provider|config|sign|passin|key|signkey|CAserial|rand|CAkey|load)"
)


def openssl(call: Call, rules: Rules) -> None:
    """openssl: looking at certificates and hashing reads."""
    words = words_of(call)
    verb = words[0] if words else ""
    mentions(call)
    if verb in {"s_client", "s_server", "s_time", "ocsp"}:
        call.network(" ".join(words)[:80])
    elif verb in _OPENSSL_READS and not any(_OPENSSL_DOES.match(word) for word in words):
        for operand in call.args[1:]:
            if not operand.value.startswith("-"):
                call.reads(operand)
    else:
        call.ask("{program} {verb} makes or uses keys, or writes files.", verb=verb)
    del rules


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "packages": packages,
    "docker": docker,
    "pip": pip,
    "go": go,
    "dpkg": dpkg,
    "rpm": rpm,
    "screen": screen,
    "tmux": tmux,
    "gpg": gpg,
    "openssl": openssl,
    "pager": pager,
    "man": man,
}
