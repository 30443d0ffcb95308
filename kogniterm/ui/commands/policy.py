"""/leases and /trust: what may run unasked, and what a project folder may bring in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Text
from kogniterm.ui.choice import Option
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.commands.shown import first_word, write_table
from kogniterm.ui.context import ReplContext
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from kogniterm.approval.leases import Lease
    from kogniterm.sessions.records import Judged


def leases(context: ReplContext, argument: str) -> None:
    """/leases [revoke ID|all]."""
    word, rest = first_word(argument)
    session = context.session
    if word == "revoke":
        ids = [one.id for one in session.policy.leases] if rest == "all" else [rest]
        if not rest or not ids:
            raise UsageError("Say which lease to take back: its id, or all.")
        for lease_id in ids:
            lease = session.revoke(lease_id)
            context.say(Text("Taken back: {lease}", {"lease": lease.text}))
        return
    if word:
        raise UsageError("/leases can: revoke ID, revoke all.")
    if not session.policy.leases:
        context.say(Text("There is no lease; a question offers them with [l]."))
        return
    now = session.clock.now()
    write_table(
        context,
        [(one.id, translate(one.text), _limits(one, now)) for one in session.policy.leases],
        ("accent", "", "muted"),
    )
    _why_asked(context)


def _limits(lease: Lease, now: float) -> str:
    if lease.expires is not None:
        minutes = max(0, round((lease.expires - now) / 60))
        return plural("{count} minute left", "{count} minutes left", minutes)
    if lease.uses is not None:
        return plural("{count} use left", "{count} uses left", lease.uses - lease.used)
    return _("until the session ends")


def _why_asked(context: ReplContext) -> None:
    """Why no lease covered what was asked about last."""
    last = _last_asked(context)
    if last is None:
        return
    for trace in last.verdict.trace:
        if trace.origin.startswith("lease ") and not trace.matched:
            lease = Text("lease {id}", {"id": trace.origin.removeprefix("lease ")})
            values = {"command": last.report.command, "lease": lease, "why": trace.reason}
            context.say(Text("You were asked about {command}: {lease} did not hold: {why}", values))


def _last_asked(context: ReplContext) -> Judged | None:
    from kogniterm.sessions.records import Judged

    found = None
    for record in context.session.journal.records():
        if isinstance(record.body, Judged) and record.body.verdict.kind == "ask":
            found = record.body
    return found


async def trust(context: ReplContext, argument: str) -> None:
    """/trust [show|revoke]."""
    from kogniterm.runtime.trust import TrustStore, discover
    from kogniterm.runtime.trusting import revoke
    from kogniterm.runtime.trusting import trust as give_trust

    folder = Path(context.session.folder)
    store = TrustStore(context.session.cabinet.paths.trust_file)
    files = discover(folder)
    if argument not in ("", "show", "revoke"):
        raise UsageError("/trust can: show, revoke.")
    if argument == "revoke":
        if not revoke(context.session):
            raise UsageError("{folder} is not trusted.", folder=folder)
        context.read_own_commands()
        context.say(
            Text("Trusted no longer: its rules and commands are gone, and the model is told.")
        )
        return
    if not files:
        context.say(Text("This folder brings nothing that would have an effect."))
        return
    finding = store.finding(folder, files)
    kinds = {"instructions": _("instructions"), "policy": _("rules"), "command": _("own command")}
    write_table(context, [(one.name, kinds[one.kind]) for one in files], ("accent", "muted"))
    for text in finding.texts:
        context.say(text)
    if finding.trusted:
        context.say(Text("This folder is trusted; /trust revoke takes that back."))
        return
    if argument == "show":
        context.say(Text("This folder is not trusted: none of this has an effect."))
        return
    answer = await context.choose(
        _("Trust this folder?"),
        [_("Instructions are shown to the model, rules may only tighten what is asked.")],
        [Option("yes", _("trust what is there now"), "yes"), Option("no", _("do not"), "no")],
    )
    if answer == "yes":
        give_trust(context.session, files)
        context.say(Text("Trusted: it has its effect from now on."))
        new = ", ".join(f"/{name}" for name in context.read_own_commands())
        if new:
            context.say(Text("New commands: {names}", {"names": new}))
    else:
        context.say(Text("Nothing was changed."))


def _revocations(context: ReplContext) -> Iterable[str]:
    return [f"revoke {one.id}" for one in context.session.policy.leases]


POLICY = (
    Command(
        "leases",
        Text("list what may run unasked, or take it back"),
        leases,
        "[revoke ID|all]",
        choices=_revocations,
    ),
    Command(
        "trust",
        Text("show what this folder brings, and trust it or not"),
        trust,
        "[show|revoke]",
        choices=lambda context: ("show", "revoke"),
        while_running=False,
    ),
)
