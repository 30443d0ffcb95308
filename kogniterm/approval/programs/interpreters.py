"""Interpreters: their code is not judged, only searched for the worst."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.call import Call
from kogniterm.approval.options import Rules
from kogniterm.approval.places import is_secret
from kogniterm.approval.programs.common import mentions, operands_of, words_of
from kogniterm.approval.programs.shells import comes_from_network, runs_fetched, runs_pipe
from kogniterm.approval.scope import Argument
from kogniterm.approval.worst import worst_of_text


def interpreter(call: Call, rules: Rules) -> None:
    """python, perl…: code in the arguments is not judged, only searched for the worst."""
    words = words_of(call)
    version = {"--version", "-V", "-v", "-version", "--help", "-VV"}
    if (
        len(words) == 1
        and words[0] in version
        and call.name not in {"bc", "dc", "m4", "tclsh", "expect"}
    ):
        return
    if (
        call.name == "bc"
        and not operands_of(call)
        and {"echo", "printf"} >= set(call.scope.upstream)
        and call.scope.upstream
    ):
        return
    if (
        call.name == "bc"
        and call.stdin is not None
        and "!" not in call.stdin
        and not operands_of(call)
    ):
        return
    call.findings.effect("execute", call.name)
    call.ask("{program} runs code that is not judged.")
    comes_from_network(call, *call.args)
    code = " ".join((*words, call.stdin or ""))
    for operand in operands_of(call)[:1]:
        runs_fetched(call, operand)
    reason = worst_of_text(code)
    if reason:
        call.danger("Its code {what}.", what=reason)
    if (
        call.piped
        and not operands_of(call)
        and not any(re.match(r"-[ceE]", word) for word in words)
    ):
        runs_pipe(call)
    mentions(call)
    for piece in re.findall(r"[~/.\w-]*/[\w.~/-]+|\.env\b", code):
        place = call.place(Argument(call.scope.ground.tilde(piece)))
        if is_secret(place.path):
            call.secret(place)
    if re.search(
        r"\burllib|\brequests\.|http\.client|https?://|socket|Net::|LWP|fetch\(|open-uri"
        r"|TCPSocket|fsockopen|curl",
        code,
    ):
        call.findings.effect("network", call.name)
    if re.search(r"environ|process\.env|\bENV\b|getenv|%ENV", code):
        call.findings.effect("secret", "environment")
    del rules


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "interpreter": interpreter,
}
