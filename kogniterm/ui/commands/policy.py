"""/leases and /trust: what may run unasked, and what a project folder may bring in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Phrase
from kogniterm.ui.commands.columns import first_word, write_table
from kogniterm.ui.commands.registry import ReplContext
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.questions.choice import Option

if TYPE_CHECKING:
    from kogniterm.approval.policy.leases import Lease
    from kogniterm.sessions.records import Judged

TRUST_ACTIONS = ("show", "revoke")


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
            context.say(Phrase("Taken back: {lease}", {"lease": lease.text}))
        return
    if word:
        raise UsageError("/leases can: revoke ID, revoke all.")
    if not session.policy.leases:
        context.say(Phrase("There is no lease; a question offers them with [l]."))
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
            lease = Phrase("lease {id}", {"id": trace.origin.removeprefix("lease ")})
            values = {"command": last.report.command, "lease": lease, "why": trace.reason}
            context.say(
                Phrase("You were asked about {command}: {lease} did not hold: {why}", values)
            )


def _last_asked(context: ReplContext) -> Judged | None:
    from kogniterm.sessions.records import Judged

    found = None
    for record in context.session.journal.records():
        if isinstance(record.body, Judged) and record.body.verdict.kind == "ask":
            found = record.body
    return found


async def trust(context: ReplContext, argument: str) -> None:
    """/trust [show|revoke]."""
    from kogniterm.runtime.services.trust_store import TrustStore, discover
    from kogniterm.runtime.use_cases.project_files import revoke
    from kogniterm.runtime.use_cases.project_files import trust as give_trust

    folder = Path(context.session.folder)
    store = TrustStore(context.session.archive.paths.trust_file)
    files = discover(folder)
    if argument not in ("", *TRUST_ACTIONS):
        raise UsageError("/trust can: show, revoke.")
    if argument == "revoke":
        if not revoke(context.session):
            raise UsageError("{folder} is not trusted.", folder=folder)
        context.read_own_commands()
        context.say(
            Phrase("Trusted no longer: its rules and commands are gone, and the model is told.")
        )
        return
    if not files:
        context.say(Phrase("This folder brings nothing that would have an effect."))
        return
    finding = store.finding(folder, files)
    kinds = kind_words()
    write_table(context, [(one.name, kinds[one.kind]) for one in files], ("accent", "muted"))
    for text in finding.texts:
        context.say(text)
    if finding.trusted:
        context.say(Phrase("This folder is trusted; /trust revoke takes that back."))
        return
    if argument == "show":
        context.say(Phrase("This folder is not trusted: none of this has an effect."))
        return
    answer = await context.choose(
        _("Trust this folder?"),
        [_("Instructions are shown to the model, rules may only tighten what is asked.")],
        [Option("yes", _("trust what is there now"), "yes"), Option("no", _("do not"), "no")],
    )
    if answer == "yes":
        give_trust(context.session, files)
        context.say(Phrase("Trusted: it has its effect from now on."))
        new = ", ".join(f"/{name}" for name in context.read_own_commands())
        if new:
            context.say(Phrase("New commands: {names}", {"names": new}))
    else:
        context.say(Phrase("Nothing was changed."))


def lease_choices(context: ReplContext) -> Iterable[str]:
    """Return the leases that can be taken back."""
    return [f"revoke {one.id}" for one in context.session.policy.leases]


def kind_words() -> dict[str, str]:
    """Return what a project's files are, for users."""
    return {"instructions": _("instructions"), "policy": _("rules"), "command": _("own command")}
