"""Hosts on the screen: how far a command on them is; answers, equal ones once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.text import Text

from kogniterm.text.visible import clean, render, render_line
from kogniterm.types import Phrase
from kogniterm.types.command_results import AnswerGroup, HostState
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.screen.diffs import diff

_STYLES: Mapping[HostState, tuple[str, str]] = {
    "answered": ("done", "good"),
    "failed": ("failed", "bad"),
    "running": ("warn", "warn"),
    "unknown": ("warn", "bad"),
    "unreachable": ("failed", "warn"),
    "not_started": ("pending", "muted"),
}
_STATES: Mapping[HostState, Phrase] = {
    "answered": Phrase("answered"),
    "failed": Phrase("failed"),
    "running": Phrase("still running"),
    "unknown": Phrase("outcome unknown"),
    "unreachable": Phrase("not reachable"),
    "not_started": Phrase("not started"),
}


class HostProgress:
    """The hosts of a running command, and those that answered."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self.groups = groups
        self.answered: set[str] = set()

    def text(self) -> str:
        """Return how far the command is: in which group, and how many hosts answered."""
        every = [host for group in self.groups for host in group]
        done = sum(host in self.answered for host in every)
        total = plural("{count} host", "{count} hosts", len(every))
        if len(self.groups) == 1:
            return _("Running on {total}: {done} answered").format(total=total, done=done)
        open_groups = (n for n, group in enumerate(self.groups, 1) if set(group) - self.answered)
        number = next(open_groups, len(self.groups))
        told = _("Running on {total}: group {number} of {groups}, {done} answered")
        return told.format(total=total, number=number, groups=len(self.groups), done=done)


def host_answers(
    command: str, groups: Sequence[AnswerGroup], symbol: Callable[[str], str], fold: int
) -> Iterator[Text]:
    """Yield the command, then each group of equal answers, its output cut after `fold` lines."""
    total = sum(len(group.hosts) for group in groups)
    where = plural("on {count} host", "on {count} hosts", total)
    yield Text.assemble(("$ ", "muted"), (render(command), "command"), (f"  {where}", "muted"))
    for group in groups:
        yield state_head(group.state, group.hosts, symbol, group.reason, group.exit_code)
        if group.diff:
            yield diff(f"@@\n{group.diff}" if not group.diff.startswith("@@") else group.diff,
                       limit=fold)  # fmt: skip
        elif group.output.strip():
            lines = clean(group.output).rstrip("\n").split("\n")
            shown = [f"  {render_line(line)}" for line in lines[:fold]]
            if len(lines) > fold:
                left = len(lines) - fold
                shown.append("  " + plural("… {count} more line", "… {count} more lines", left))
            yield Text("\n".join(shown), "muted")
        if group.changes.strip():
            yield diff(group.changes.rstrip(), limit=fold)


def state_head(
    state: HostState,
    hosts: Sequence[str],
    symbol: Callable[[str], str],
    reason: Phrase | None = None,
    exit_code: int | None = None,
) -> Text:
    """Return how hosts that are alike stand, which they are, and why."""
    sign, style = _STYLES[state]
    code = "" if exit_code is None else f", {_('exit')} {exit_code}"
    head = Text.assemble((f"{symbol(sign)} ", style))
    head.append(f"{translate(_STATES[state])}{code}: ", style)
    head.append(render_line(", ".join(hosts)))
    if reason is not None:
        head.append(f"\n  {translate(reason)}", "muted")
    return head
