"""Programs that talk to other machines, to databases and to stores of secrets."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.call import Call
from kogniterm.approval.naming import names
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.places import HOLE, is_secret_variable, is_temporary
from kogniterm.approval.programs.common import mentions, operands_of, words_of
from kogniterm.approval.scope import Argument


def network(call: Call, rules: Rules) -> None:
    """Programs that exist to talk to the network."""
    mentions(call)
    operands = operands_of(call)
    if call.args and all(word in {"--version", "--help", "-V", "-h"} for word in words_of(call)):
        return
    call.network(operands[0].value if operands else "")
    del rules


_CURL_WRITES = names(
    """
    o output D dump-header c cookie-jar trace trace-ascii stderr output-dir hsts alt-svc etag-save
    libcurl
    """
)
_CURL = dict.fromkeys(_CURL_WRITES, "write") | dict.fromkeys(
    names(
        """
        T upload-file K config E cert key netrc-file b cookie d data data-raw data-binary
        data-urlencode F form H header X request u user A user-agent e referer m max-time w
        write-out x proxy json url connect-timeout retry r range resolve cacert U
        """
    ),
    "value",
)


def curl(call: Call, rules: Rules) -> None:
    """curl: uploads, output files and its own config are noted."""
    parsed = parse_options(call.args, Rules("", options=_CURL))
    if (
        not parsed.operands
        and not parsed.has("url", "K", "config")
        and parsed.has("V", "version", "h", "help")
    ):
        return
    for value in parsed.values(*_CURL_WRITES):
        call.writes(value)
    url = (*parsed.operands, *parsed.values("url"))
    if parsed.has("O", "remote-name", "remote-name-all", "J"):
        folder = [f"{value.value}/" for value in parsed.values("output-dir")][-1:]
        for address in url:
            known = not parsed.has("J", "remote-header-name")
            name = _remote_name(address.value) if known else HOLE
            call.writes(Argument("".join([*folder, name or HOLE])))
    call.network(url[0].value if url else "")
    mentions(call)
    sends = parsed.values(
        "d", "data", "data-raw", "data-binary", "data-urlencode", "F", "form", "json"
    )
    for arg in (*sends, *url):
        if any(is_secret_variable(name) for name in arg.names):
            call.findings.effect("secret", "$" + arg.names[0])
    if any(re.match(r"file:", arg.value) for arg in url):
        for arg in url:
            call.reads(Argument(re.sub(r"^file:/*", "/", arg.value)))
    uploads = [value.value.partition("@")[2] for value in sends]
    uploads += [value.value for value in parsed.values("T", "upload-file")]
    _sends(call, uploads)
    if parsed.has("k", "insecure"):
        call.ask("{program} is told not to check who it talks to.")
    del rules


def _remote_name(url: str) -> str:
    """The last part of a URL's path, under which a download is saved."""
    path = re.sub(r"^[a-z]+://[^/]*|[?#].*", "", url)
    return path.rpartition("/")[2]


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
    for value in parsed.values("O", "output-document", "o", "output-file", "a", "append-output"):
        call.writes(value)
    call.network(parsed.operands[0].value if parsed.operands else "")
    if not parsed.has("O", "output-document", "spider"):
        for folder in parsed.values("P", "directory-prefix")[-1:] or (Argument("."),):
            for address in parsed.operands:
                recursive = parsed.has("r", "recursive", "m", "mirror", "p", "page-requisites")
                name = HOLE if recursive else _remote_name(address.value) or "index.html"
                call.writes(Argument(f"{folder.value}/{name}"))
    mentions(call)
    _sends(call, [value.value for value in parsed.values("post-file", "body-file")])
    del rules


def _sends(call: Call, paths: list[str]) -> None:
    """Files that leave the machine; nobody sends one from outside the workspace by chance."""
    for path in paths:
        if path in {"", "-"}:
            continue
        place = call.place(Argument(call.scope.ground.tilde(path.split(";")[0])))
        call.reads(Argument(place.path))
        if place.known and not place.inside and not is_temporary(place.path):
            call.danger("It sends {path} to the network.", path=call.shown(place))


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
        for value in parsed.values("o"):
            call.starts(re.split(r"[= ]", value.value, maxsplit=1)[-1])
    call.network(parsed.operands[0].value if parsed.operands else "")
    text = " ".join(arg.value for arg in parsed.operands[1:])
    if text:
        call.shell(text.replace(HOLE, "$UNKNOWN"), call.scope)
    del rules


def netcat(call: Call, rules: Rules) -> None:
    """nc, socat: -e and EXEC: hand a shell to the network."""
    text = " ".join(words_of(call))
    call.network(text[:80])
    mentions(call)
    if re.search(r"(?:^| )-[a-z]*[ec] ?\S|--(?:sh-)?exec|(?i:exec|system|shell):", text):
        call.danger("{program} gives a program of this machine to the network.")
    if call.name != "telnet" and {"bash", "sh", "zsh"} & set(call.scope.upstream):
        call.danger("{program} gives a shell of this machine to the network.")
    if {"tar", "zip", "cpio", "pax", "dd", "pg_dump", "mysqldump"} & set(call.scope.upstream):
        call.danger("{program} sends whole folders or databases to the network.")
    del rules


def transfer(call: Call, rules: Rules) -> None:
    """scp, sftp…: local operands are read, and leave the machine."""
    mentions(call)
    for operand in operands_of(call):
        if not re.match(r"[^/]+:", operand.value):
            call.reads(operand)
    call.network(" ".join(words_of(call))[:80])
    del rules


def cloud(call: Call, rules: Rules) -> None:
    """Clients of remote services."""
    network(call, rules)
    if re.search(
        r"\b(?:destroy|delete|rm|rb|terminate\S*|purge|drain|uninstall|remove)\b",
        " ".join(words_of(call)),
    ):
        call.danger("{program} removes things on a remote service.")


def database(call: Call, rules: Rules) -> None:
    """Database clients: statements can do anything."""
    words = words_of(call)
    if words in (["--version"], ["-V"], ["--help"]):
        return
    text = " ".join(words)
    call.findings.effect("execute", call.name)
    call.ask("{program} runs statements on a database.")
    mentions(call)
    if (
        re.search(
            r"(?i)\b(?:drop\s+(?:table|database|schema)|truncate\s+(?:table\s+)?\w"
            r"|delete\s+from\s+\w+\s*(?:;|$)|flushall|flushdb|dropdatabase)\b"
            r"|(?i:dropDatabase)",
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


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "network": network,
    "curl": curl,
    "wget": wget,
    "ssh": ssh,
    "netcat": netcat,
    "transfer": transfer,
    "cloud": cloud,
    "database": database,
    "secrets": secrets,
}
