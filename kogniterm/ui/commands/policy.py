"""/permissions, /tools, /secret and /trust: what may run unasked, and with what."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.runtime.operations import tool_actions
from kogniterm.runtime.operations.action import Report, completions
from kogniterm.runtime.operations.permission_actions import ACTIONS, Permissions
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import read_action, write_report
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.sessions.history import PastJudgement


MOST_CHANGED_LINES = 40
"""Lines shown of what changed in a file that was trusted."""


def permissions(repl: Repl, argument: str) -> None:
    """Run /permissions [list|revoke ID]."""
    policy = repl.session.policy
    action, arguments = read_action("permissions", ACTIONS, argument or "list")
    write_report(repl, action.run(Permissions(policy.leases, policy.revoke, {}), **arguments))
    if action.name == "list" and policy.leases:
        _why_asked(repl)


def tools(repl: Repl, argument: str) -> None:
    """Run /tools [list|show NAME]; a bare name is plain enough."""
    actions = tool_actions.ACTIONS
    words = argument or "list"
    known = words.split()[0] in [one.name for one in actions]
    action, arguments = read_action("tools", actions, words if known else f"show {words}")
    write_report(repl, action.run(tool_actions.tools_of_session(repl.session), **arguments))
    if action.name == "list":
        repl.display.say(Phrase("To see one with its arguments and rules: /tools show NAME"))


def tool_choices(repl: Repl) -> Iterable[str]:
    """Return the actions, with the tools that can be shown."""
    tools = tool_actions.tools_of_session(repl.session).entries
    return [*completions(tool_actions.ACTIONS), *(f"show {entry.name}" for entry in tools)]


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
    value = await ask_secret(front.hand_over, front.terminal_files, name)
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
    """Run /trust [PLUGIN] or /trust revoke [PLUGIN]."""
    from kogniterm.runtime.operations import trust_actions
    from kogniterm.ui.screen.diffs import diff

    session = repl.session
    folder, revokes = trust_actions.read_argument(session, argument)
    if revokes:
        report = await trust_actions.revoke(session, folder)
        repl.read_custom_commands()
        write_report(repl, report)
        return
    found = trust_actions.compare(session.archive.paths, folder)
    write_report(repl, Report(rows=found.rows, notes=found.texts))
    for change in found.changes.values():
        repl.display.write(diff(change, limit=MOST_CHANGED_LINES))
    if found.finding.trusted:
        repl.display.say(trust_actions.trusted_already(argument))
        return
    answer = await repl.choose(
        translate(trust_actions.QUESTION),
        [*map(translate, trust_actions.ABOUT)],
        [Option("yes", _("trust these files"), "yes"), Option("no", _("no"), "no")],
    )
    if answer != "yes":
        repl.display.say(Phrase("Nothing changed."))
        return
    write_report(repl, await trust_actions.trust(session, folder, found.files))
    if new := ", ".join(f"/{name}" for name in repl.read_custom_commands()):
        repl.display.say(Phrase("New commands: {names}", {"names": new}))


def permission_choices(repl: Repl) -> Iterable[str]:
    """Return the actions, with the permissions that can be revoked unless their file is wrong."""
    with suppress(UsageError):
        leases = [f"revoke {one.id}" for one in repl.session.policy.leases]
        return [*completions(ACTIONS), *leases]
    return completions(ACTIONS)
