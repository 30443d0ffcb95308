"""Programs that talk to other machines: the files they send and write."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kogniterm.approval.analysis.arguments import CallWord
from kogniterm.approval.analysis.paths_and_variables import HOLE, is_secret_variable, is_temporary
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.analysis.shared_findings import EXPOSES_PROGRAM, EXPOSES_SHELL


def curl(call: Call) -> None:
    """Judge curl: uploads, output files and config files."""
    parsed = call.parse()
    for value in parsed.values_of("write"):
        call.writes(value)
    url = (*parsed.operands, *parsed.values("url"))
    if parsed.has("O", "remote-name", "remote-name-all", "J"):
        folder = [f"{value.value}/" for value in parsed.values("output-dir")][-1:]
        for address in url:
            known = not parsed.has("J", "remote-header-name")
            name = _remote_name(address.value) if known else HOLE
            call.writes(CallWord("".join([*folder, name or HOLE])))
    call.network(url[0].value if url else "")
    call.mentions()
    sends = parsed.values(
        "d", "data", "data-raw", "data-binary", "data-urlencode", "F", "form", "json"
    )
    for arg in (*sends, *url):
        if any(is_secret_variable(name) for name in arg.names):
            call.findings.effect("secret", "$" + arg.names[0])
    if any(re.match(r"file:", arg.value) for arg in url):
        for arg in url:
            call.reads(CallWord(re.sub(r"^file:/*", "/", arg.value)))
    uploads = [value.value.partition("@")[2] for value in sends]
    uploads += [value.value for value in parsed.values("T", "upload-file")]
    _sends(call, uploads)
    if parsed.has("k", "insecure"):
        call.ask("{program} does not verify the server's identity.")


def _remote_name(url: str) -> str:
    """Return the last part of a URL's path, under which a download is saved."""
    path = re.sub(r"^[a-z]+://[^/]*|[?#].*", "", url)
    return path.rpartition("/")[2]


def wget(call: Call) -> None:
    """Judge wget, which writes what it downloads."""
    parsed = call.parse()
    for value in parsed.values("O", "output-document", "o", "output-file", "a", "append-output"):
        call.writes(value)
    call.network(parsed.operands[0].value if parsed.operands else "")
    if not parsed.has("O", "output-document", "spider"):
        for folder in parsed.values("P", "directory-prefix")[-1:] or (CallWord("."),):
            for address in parsed.operands:
                recursive = parsed.has("r", "recursive", "m", "mirror", "p", "page-requisites")
                name = HOLE if recursive else _remote_name(address.value) or "index.html"
                call.writes(CallWord(f"{folder.value}/{name}"))
    call.mentions()
    _sends(call, [value.value for value in parsed.values("post-file", "body-file")])


def _sends(call: Call, paths: list[str]) -> None:
    """Judge files that leave the machine; one from outside the workspace is dangerous."""
    for path in paths:
        if path in {"", "-"}:
            continue
        resolved = call.resolve(CallWord(call.scope.roots.tilde(path.split(";")[0])))
        call.reads(CallWord(resolved.path))
        if resolved.known and not resolved.inside and not is_temporary(resolved.path):
            call.danger("Sends {path} over the network.", path=call.show_path(resolved))


def ssh(call: Call) -> None:
    """Judge ssh: options can run local programs; the remote command is judged, too."""
    parsed = call.parse(operands_end=True)
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
        call.runs(text)


def netcat(call: Call) -> None:
    """Judge nc and socat: -e and EXEC give a shell to the network."""
    text = " ".join(call.words)
    call.network(text[:80])
    call.mentions()
    if re.search(r"(?:^| )-[a-z]*[ec] ?\S|--(?:sh-)?exec|(?i:exec|system|shell):", text):
        call.danger(EXPOSES_PROGRAM)
    if call.name != "telnet" and {"bash", "sh", "zsh"} & set(call.scope.upstream):
        call.danger(EXPOSES_SHELL)
    if {"tar", "zip", "cpio", "pax", "dd", "pg_dump", "mysqldump"} & set(call.scope.upstream):
        call.danger("{program} sends whole folders or databases over the network.")


def transfer(call: Call) -> None:
    """Judge scp and sftp: local operands are sent."""
    call.mentions()
    for operand in call.bare:
        if not re.match(r"[^/]+:", operand.value):
            call.reads(operand)
    call.network(" ".join(call.words)[:80])


HANDLERS: Mapping[str, Callable[[Call], None]] = {
    "curl": curl, "wget": wget, "ssh": ssh, "netcat": netcat, "transfer": transfer,
}  # fmt: skip
