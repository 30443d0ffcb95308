r"""Programs that are judged by patterns over their words.

Each program has a list of cases, read in order. A case whose pattern matches all of the words
applies; one of `reads`, or with `stop`, ends the list. The words are joined by blanks; text that is
only known at run time stands there as …, an empty word as '', a blank inside a word as a no-break
space (which `\s` matches, too).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, cast

from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.analysis.shared_findings import ENDS_ALL_PROCESSES
from kogniterm.types import EffectKind


class Case(NamedTuple):
    """One pattern, and the effects of a call that matches it.

    `effects` are `kind=target`, `mentions` (secret files named anywhere count as read) or
    `operands` (the operands behind the first are read). Reasons and targets are templates over
    `program`, `verb` (the first operand, else the first word), `operand` and `words`. With
    `operands` (below `op`) the pattern is matched against the operands alone.
    """

    label: Literal["", "network", "ask", "danger"]
    pattern: str
    reason: str = ""
    effects: tuple[str, ...] = ()
    stop: bool = False
    operands: bool = False


_ALL = ".*"


def _case(
    label: Literal["", "network", "ask", "danger"],
    pattern: str,
    reason: str = "",
    *effects: str,
    stop: bool = False,
    op: bool = False,
) -> Case:
    return Case(label, pattern, reason, effects, stop, op)


_network, _ask, _danger = partial(_case, "network"), partial(_case, "ask"), partial(_case, "danger")


def _notes(pattern: str, *effects: str, op: bool = False) -> Case:
    return _case("", pattern, "", *effects, op=op)


def _reads(pattern: str, *effects: str, op: bool = False) -> Case:
    return _case("", pattern, "", *effects, stop=True, op=op)


_TALKS = (_notes(_ALL, "mentions"), _network(_ALL, "{operand}"))
_DELETES = _danger(
    r".*\b(?:destroy|delete|rm|rb|terminate\S*|purge|drain|uninstall|remove)\b.*",
    "{program} deletes resources on a remote service.",
)
_STATEMENTS = (
    _ask(_ALL, "{program} runs statements on a database.", "execute={program}", "mentions"),
    _danger(
        r"(?i).*\b(?:drop\s+(?:table|database|schema)|truncate\s+(?:table\s+)?\w"
        r"|delete\s+from\s+\w+\s*(?:;|$)|flushall|flushdb|dropdatabase)\b.*",
        "{program} destroys data.",
    ),
)
_DPKG_SHOWS = (
    r"(?:-[lLsSpWIcCV]|--(?:list|listfiles|status|search|print-[\w-]+|get-selections|show|info"
    r"|contents|audit|version|help|verify|compare-versions|field))"
)

_CASES: Mapping[str, tuple[Case, ...]] = {
    # --- the machine ---
    "disk": (
        _ask(r"(?:-l|--list|list|status|-n .*|show|get .*|-L|help|print)(?: [\w/]+)?",
             "{program} shows disk information.", "privilege={program}", stop=True),
        _danger(_ALL, "{program} can destroy the contents of a disk.", "privilege={program}"),
    ),
    "firewall": (
        _ask(r"(?:-L|-S|--list\S*|list|status|show|-nL|-vnL|-n|-v| |ruleset|numbered|verbose)*",
             "{program} shows firewall rules.", "privilege={program}", stop=True),
        _danger(_ALL, "{program} changes firewall rules.", "privilege={program}"),
    ),
    "kill": (
        # Signal 0 only asks whether the process is there.
        _reads("(?:-l|-L|--list|-t|--table|-0)(?: .*)?"),
        _ask(_ALL, "{program} ends processes.", "process={words}"),
        _danger(r"(?>(?:-[sn](?: \S+ ?|\Z)|-(?:s|n|\d+|SIG\w+|[A-Z]+[0-9]?)(?: |\Z))?)"
                r"(?:.* )?(?:-1|1|0)(?: .*)?",
                ENDS_ALL_PROCESSES),
    ),
    "killall": (
        _ask(_ALL, "{program} ends processes by name.", "process={words}"),
        _danger(r"(?:.* )?(?:\.|\.\*|''|systemd|init|sshd|bash|sh|zsh|Xorg|dbus-daemon|kogniterm"
                r"|login)(?: .*)?|(?:\S+ )?-u(?: \S+)?|\S+ \S+ -u|-u \S+ \S+",
                "{program} would end processes the session or the machine needs."),
    ),
    "systemctl": (
        _ask("show-environment(?: .*)?",
             "Shows all environment variables, which may include secrets.", "secret=environment",
             op=True),
        _reads(r"(?:|status|show|cat|list-units|list-unit-files|list-timers|list-sockets"
               r"|list-dependencies|list-jobs|list-machines|is-active|is-enabled|is-failed"
               r"|is-system-running|get-default|show-environment|help)(?: .*)?", op=True),
        _danger(r"(?:poweroff|reboot|halt|kexec|suspend|hibernate|isolate|rescue|emergency|exit"
                r"|set-default|mask|disable|soft-reboot|edit)(?: .*)?",
                "systemctl {verb} changes how the machine runs.", "privilege=systemctl {verb}",
                stop=True, op=True),
        _ask(_ALL, "systemctl {verb} changes services.", "privilege=systemctl {verb}"),
    ),
    "service": (
        _reads(r"--status-all|\S+ status"),
        _ask(_ALL, "{program} changes services.", "privilege=service"),
    ),
    "crontab": (
        _reads("-l"),
        _ask(r"(?!(?:.* )?-r(?: |\Z))(?:.* )?-e(?: .*)?",
             "{program} opens the table of scheduled commands in an editor.", stop=True),
        _danger(_ALL, "{program} changes scheduled commands, which run without approval."),
    ),
    "sysctl": (
        _danger(r".*=.*|(?:.* )?(?:-[a-zA-Z]*[wpf]|--(?:write|load|system)).*",
                "{program} changes kernel settings."),
    ),
    "ip": (
        _ask(r"netns (?!list(?: |\Z)).*", "{program} runs commands in another network namespace.",
             stop=True, op=True),
        _ask(r"(?:.* )?-b(?:atch)?\b.*", "{program} runs commands from a file.", stop=True),
        _ask(r"(?:.* )?(?:-n\b|-netns).*", "{program} runs in another network namespace.",
             stop=True),
        # `ip link s` sets; of an address, a route or a neighbour it shows.
        _reads(r"\S*(?: (?:show|sh|list|ls|l|get|help|dev|to|via|table|brief|monitor)(?: .*)?)?"
               r"|(?:a|r\b|ro|n\b|nei)\S* s(?: .*)?", op=True),
        _ask(_ALL, "{program} changes network settings.", "privilege=ip"),
    ),
    "ifconfig": (_ask(".+ .+", "{program} changes network settings.", op=True),),
    "mount": (
        _reads(r"|-l|--version|-V|-t \S+"),
        _ask(_ALL, "{program} changes mounted file systems.", "privilege=mount"),
    ),
    "getent": (
        _ask("g?shadow(?: .*)?", "Reads {path}, which may contain secrets.", "secret={verb}",
             stop=True, op=True),
        _network("(?:hosts|ahosts|ahostsv4|ahostsv6|networks|netgroup) .*", stop=True,
                 op=True),
        _reads(r"\w+(?: .*)?", op=True),
        _ask(_ALL, "{program} shows data known only at run time."),
    ),
    "ulimit": (_ask(".+", "{program} changes a shell limit.", op=True),),
    "ps": (
        # The BSD letter `e` shows the environment of processes, unless an option takes it as value.
        _ask(r"(?:.* )?-\w*E.*|.*\benviron\b.*"
             r"|(?:(?:.* )?(?!(?:-\w*[opuUCGgtp]|--\w+) )[^ ]+ )?[a-zA-Z]*e[a-zA-Z]*(?: .*)?",
             "Shows the environment of processes, which may include secrets.",
             "secret=environment"),
    ),
    # --- software ---
    "packages": (
        _network(_ALL),
        _ask(_ALL, "{program} installs, removes or updates software.", "privilege={program}"),
    ),
    "dpkg": (
        _reads(rf"(?=(?:.* )?{_DPKG_SHOWS}(?: |\Z))"
               rf"(?:(?:{_DPKG_SHOWS}|--no-pager|-f[^ ]*|--showformat=[^ ]*|[^- ][^ ]*)(?: |\Z))*"),
        _ask(_ALL, "{program} installs, removes or updates software.", "privilege={program}"),
    ),
    "rpm": (
        _reads(r"(?!.*(?:--eval|-E\b|--define|-D\b|%\(|--load|--pipe|%\{lua|--macros|--rcfile"
               r"|https?:))(?:-q|--query|--version|-V\w*(?: |\Z)).*"),
        _ask(_ALL, "{program} installs, removes or updates software.", "privilege={program}"),
    ),
    "go": (
        # For these, too, it may first load the version that go.mod names.
        _ask(r"env(?= |\Z)(?!.* --?[wu]).*|version",
             "{program} may load and run the version that the folder names.", stop=True),
        _network("(?:get|install|mod)(?: .*)?"),
        _ask(_ALL, "{program} {verb} may install, change or run software.",
             "execute={program} {verb}"),
    ),
    "docker": (
        _reads("--version|-v"),
        _network(r"-.*|.* (?:-H|--(?:host|context|config)\b).*"),
        _reads(r"(?!.* (?:-H|--(?:host|context|config)\b))"
               r"(?:ps|images|version|info|history|port|top|diff"
               r"|container(?: -\S*)* (?:ls|list|ps|top)|image(?: -\S*)* (?:ls|list)"
               r"|(?:volume|network|context)(?: -\S*)* ls|system(?: -\S*)* df"
               r"|compose (?:ls|version))(?: .*)?"),
        _ask(_ALL, "{program} {verb} starts, stops, shows or changes containers.",
             "privilege={program} {verb}"),
        _notes("(?:pull|push|login|run|build|search)(?: .*)?", "network={verb}", op=True),
        _danger(r".*(?:\bprune\b|\brm\s-\w*f|system\sreset|volume\srm|swarm\sleave).*",
                "{program} deletes containers, images or their data."),
        _danger(r".*(?:(?:-v|--volume)[\s=]?/:|--privileged|--pid[\s=]host|source=/,"
                r"|-v[\s=]?/(?:etc|root|var/run/docker\.sock|home):|--cap-add|docker\.sock).*",
                "{program} gives a container access to this machine."),
    ),
    "screen": (
        _reads("-ls|-list|--version|-v"),
        _ask(_ALL, "{program} runs programs in another terminal."),
    ),
    "tmux": (_ask(".* .*", "{program} runs programs in another terminal.", op=True),),
    # --- keys, other machines, databases ---
    "gpg": (
        _network("(?:.* )?--(?:recv|send|search|refresh|keyserver|locate).*"),
        _ask(_ALL, "{program} creates or uses cryptographic keys.", "mentions"),
        _notes(".*secret.*|(?:.* )?(?:-d|--decrypt)(?: .*)?", "secret=gpg"),
    ),
    "openssl": (
        _notes(_ALL, "mentions"),
        _network("(?:s_client|s_server|s_time|ocsp)(?: .*)?", "{words}", stop=True),
        _reads(r"(?:x509|dgst|version|md5|sha1|sha256|sha512|crl|asn1parse|verify|ciphers|list"
               r"|base64)(?: (?:-(?:in|inform|noout|text|subject|issuer|dates|enddate|startdate"
               r"|serial|fingerprint|sha(?:1|224|256|384|512)|md5|pubkey|purpose|email|nameopt|ext"
               r"|checkend|hash|modulus|alias|ocsp_uri|binary|hex|r|c|d|e|A|a|v|V|s|tls1_[0-3]"
               r"|CAfile|CApath|untrusted|show_chain|verbose|strparse|i|dump|crl_check|help"
               r"|commands|digest-commands|cipher-commands|public-key-algorithms)|[^- ]\S*))*",
               "operands"),
        _ask(_ALL, "{program} {verb} creates or uses keys, or writes files."),
    ),
    "secrets": (
        _ask(_ALL, "{program} reads or changes stored secrets.", "secret={program}"),
    ),
    "network": _TALKS,
    "cloud": (*_TALKS, _DELETES),
    # Even --version reads the settings of the folder and makes folders in the home.
    "ansible": (_notes(_ALL, "mentions"), _network(_ALL, "{operand}"), _DELETES),
    "database": (*_STATEMENTS, _network(_ALL)),
    "sqlite3": _STATEMENTS,
    "dropdb": (
        _ask(_ALL, "{program} runs statements on a database.", "execute={program}"),
        _network(_ALL),
        _danger(_ALL, "{program} destroys data."),
    ),
}  # fmt: skip


def apply_cases(call: Call) -> None:
    """Judge the words of `call` by the cases of its program, or of the name behind `patterns`."""
    cases = _CASES.get(call.name)
    if cases is None and call.rules.base == "patterns":
        cases = _CASES.get(call.rules.detail)
    if cases is None:
        return
    operands = replace(call, args=call.parse().operands).words
    verb = (operands or call.words or [""])[0]
    values = {
        "program": call.name, "verb": verb, "path": verb, "words": " ".join(call.words)[:80],
        "operand": "".join(operands[:1]),
    }  # fmt: skip
    subjects = {True: _join_words(operands), False: _join_words(call.words)}
    for case in cases:
        # Compiled at its first use: most programs of the table never run.
        if re.fullmatch(case.pattern, subjects[case.operands], re.DOTALL):
            for effect in case.effects:
                kind, _, target = effect.partition("=")
                if kind == "mentions":
                    call.mentions()
                elif kind == "operands":
                    for operand in call.bare[1:]:
                        call.reads(operand)
                else:
                    shown = target.format_map(values).strip()
                    outside = kind == "privilege"
                    call.findings.effect(cast(EffectKind, kind), shown, outside=outside)
            named = {key: values[key] for key in ("verb", "path") if f"{{{key}}}" in case.reason}
            if case.label == "network":
                call.network(case.reason.format_map(values))
            elif case.label == "ask":
                call.ask(case.reason, **named)
            elif case.label == "danger":
                call.danger(case.reason, **named)
            if case.stop and not case.label and any(arg.maybe_option for arg in call.args):
                call.ask("An option of {program} is known only at run time.")
            if case.stop:
                return


def _join_words(words: list[str]) -> str:
    return " ".join(word.replace(" ", "\xa0") or "''" for word in words)
