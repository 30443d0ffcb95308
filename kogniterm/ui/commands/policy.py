"""/permissions and /trust: what may run unasked, and what of a folder takes effect."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import first_word, table
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl
from kogniterm.ui.words.approval_words import source_text, use_text

if TYPE_CHECKING:
    from kogniterm.sessions.history import PastJudgement


MOST_CHANGED_LINES = 40
"""Lines shown of what changed in a file that was trusted."""


def permissions(repl: Repl, argument: str) -> None:
    """Run /permissions [revoke ID|all]."""
    word, rest = first_word(argument)
    policy = repl.session.policy
    if word == "revoke":
        if not rest:
            raise UsageError("Specify which permission to revoke: its ID, or all.")
        ids = [one.id for one in policy.leases] if rest == "all" else [rest]
        if not ids:
            repl.display.say(Phrase("You have no permissions to revoke."))
        for lease_id in ids:
            lease = policy.revoke(lease_id)
            values = {"id": lease.id, "permission": lease.text}
            repl.display.say(Phrase("Permission {id} revoked: {permission}", values))
        return
    if word:
        raise UsageError("/permissions takes: revoke ID or revoke all.")
    leases = policy.leases
    if not leases:
        repl.display.say(Phrase("No permissions. Press [a] or [p] at an approval to grant one."))
        return
    rows = [
        (one.id, source_text(one), translate(one.text), use_text(one.last_used)) for one in leases
    ]
    repl.display.write(table(rows, ("accent", "muted", "", "muted")))
    _why_asked(repl)


async def secret(repl: Repl, argument: str) -> None:
    """Run /secret [NAME|list]."""
    from kogniterm.ui.terminal.user_terminal import ask_secret

    given = repl.session.journal.given
    if argument == "list":
        names = ", ".join(given.names)
        repl.display.say(Phrase("Secrets of this session: {names}", {"names": names or "–"}))
        return
    if len(argument.split()) > 1:
        raise UsageError("/secret takes a name only; it then asks for the value.")
    given.check(argument)
    from kogniterm.runtime.user_secrets import LEAST_HIDDEN

    front, name = repl.front, argument or given.next_name()
    value = await ask_secret(front.lent, front.terminal_files, name)
    if not value:
        repl.display.say(Phrase("No secret was given."))
        return
    name = given.give(value, argument)
    short = Phrase("Output that contains it is not redacted, because it is short.")
    told = Phrase(
        "Commands can use it as ${name}; you are asked about each. It ends with this session.",
        {"name": name},
    )
    for line in (told,) if len(value) >= LEAST_HIDDEN else (told, short):
        repl.display.say(line)


def secret_choices(repl: Repl) -> Iterable[str]:
    """Return what completes /secret."""
    return ("list", *repl.session.journal.given.names)


def _why_asked(repl: Repl) -> None:
    """Report why no permission covered what was asked about last."""
    last = _last_asked(repl)
    if last is None:
        return
    for trace in last.verdict.trace:
        if trace.origin.startswith("lease ") and not trace.matched:
            lease = Phrase("permission {id}", {"id": trace.origin.removeprefix("lease ")})
            values = {"command": last.report.command, "lease": lease, "why": trace.reason}
            repl.display.say(
                Phrase("You were asked about {command}; {lease} did not apply: {why}", values)
            )


def _last_asked(repl: Repl) -> PastJudgement | None:
    from kogniterm.sessions.history import SessionHistory

    turns = SessionHistory(repl.session.journal.records()).all_turns
    actions = (action for turn in turns for action in turn.actions.values())
    judged = (one for action in actions for one in action.judgements)
    return next((one for one in reversed(list(judged)) if one.verdict.kind == "ask"), None)


async def trust(repl: Repl, argument: str) -> None:
    """Run /trust [revoke]."""
    from kogniterm.runtime.operations.project_files import revoke
    from kogniterm.runtime.operations.project_files import trust as give_trust
    from kogniterm.runtime.trust.project_places import walk
    from kogniterm.runtime.trust.trust_store import TrustStore, shown_name
    from kogniterm.ui.screen.diffs import diff

    folder = Path(repl.session.folder)
    store = TrustStore(repl.session.archive.paths.trust_file)
    seen = walk(folder)
    files = seen.files
    if argument not in ("", "revoke"):
        raise UsageError("/trust takes: revoke.")
    if argument == "revoke":
        if not revoke(repl.session):
            raise UsageError("{folder} is not trusted.", folder=folder)
        repl.read_custom_commands()
        repl.display.say(Phrase("Trust revoked. The folder's files no longer apply."))
        return
    finding = store.finding(folder, files)
    kinds = kind_words()
    rows = list(dict.fromkeys((shown_name(one), kinds[one.kind]) for one in files))
    if rows:
        repl.display.write(table(rows, ("accent", "muted")))
    else:
        repl.display.say(Phrase("This folder has no files that KogniTerm would use."))
    for text in (*finding.texts, *seen.passed_over):
        repl.display.say(text)
    for change in store.changes(folder, files).values():
        repl.display.write(diff(change, limit=MOST_CHANGED_LINES))
    if finding.trusted:
        repl.display.say(Phrase("This folder is trusted; to revoke this, use /trust revoke."))
        return
    answer = await repl.choose(
        _("Trust this folder?"),
        [
            _("Instructions are shown to the model; rules can only be stricter than yours."),
            _("Hooks and MCP servers run programs, in the sandbox."),
            _("Its manifests are read, to remember how it is built and tested."),
        ],
        [Option("yes", _("trust these files"), "yes"), Option("no", _("no"), "no")],
    )
    if answer == "yes":
        give_trust(repl.session, files)
        repl.display.say(Phrase("Folder trusted. Its files now apply."))
        if agents := ", ".join(repl.session.context.agents.news(files)):
            repl.display.say(
                Phrase("Sub-agents from the next session on: {names}", {"names": agents})
            )
        new = ", ".join(f"/{name}" for name in repl.read_custom_commands())
        if new:
            repl.display.say(Phrase("New commands: {names}", {"names": new}))
    else:
        repl.display.say(Phrase("Nothing changed."))


def permission_choices(repl: Repl) -> Iterable[str]:
    """Return the permissions that can be revoked; none while their file has mistakes."""
    with suppress(UsageError):
        return [f"revoke {one.id}" for one in repl.session.policy.leases]
    return []


def kind_words() -> dict[str, str]:
    """Return what a project's files are, for users."""
    return {
        "instructions": _("instructions"),
        "nested": _("instructions for its folder"),
        "import": _("imported by instructions"),
        "policy": _("rules"),
        "command": _("custom command"),
        "agent": _("sub-agent"),
        "skill": _("skill"),
        "hooks": _("hooks"),
        "mcp": _("MCP servers"),
    }
