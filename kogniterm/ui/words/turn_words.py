"""Words for the way of a turn and its end: retries, limits, costs, programs left running.

Needs no drawing.
"""

from __future__ import annotations

from collections.abc import Sequence

from kogniterm.runtime.budgets import option_that_raises
from kogniterm.text.shorten import one_line
from kogniterm.types import Answer, LeftRunning, Phrase, Usage
from kogniterm.ui.locale import _, duration, tokens, translate

EXIT_STATUS = Phrase(
    "Exit status: 0 done, 1 not done, 2 wrong usage or settings, 3 blocked by a refusal or a "
    "missing approval, 4 a limit was reached, 5 the model failed, 130 interrupted."
)
WORTH_TELLING = 30.0
"""Seconds of waiting for the user from which that is told."""


def again(seconds: float, attempt: int, of: int) -> str:
    """Return when a failed call is made again, and which of how many tries failed.

    A call that waits for a limit, of the attempt 0, has not failed.
    """
    if not attempt:
        return _("Continues in {left}.").format(left=f"{max(seconds, 0):.0f} s")
    numbers = {"attempt": attempt, "of": of}
    if seconds < 0.5:
        return _("Retrying ({attempt} of {of}).").format(**numbers)
    left = f"{seconds:.0f} s"
    return _("Retrying in {left} ({attempt} of {of}).").format(left=left, **numbers)


def usage_text(usage: Usage, seconds: float, waited: float = 0.0) -> str:
    parts = [duration(seconds)]
    if waited >= WORTH_TELLING:
        wait = duration(waited)
        parts = [_("{time} (and {wait} waiting for you)").format(time=duration(seconds), wait=wait)]
    if usage.input or usage.output:
        spent = _("{input} tokens in, {output} out").format(
            input=tokens(usage.input), output=tokens(usage.output)
        )
        if usage.cached:
            spent += " " + _("({cached} from the cache)").format(cached=tokens(usage.cached))
        parts.append(spent)
    return " · ".join(parts)


def limit_hint(answer: Answer) -> str:
    """Return how to raise the limit that ended the turn; "" when none did."""
    if answer.stop != "budget":
        return ""
    option = option_that_raises(answer.reason) if answer.reason else ""
    if not option:
        return _("Completed work is kept. Raise the limit with /budget, then continue.")
    return _(
        "Completed work is kept. Raise the limit with {option}, or with /budget at the prompt, "
        "then continue."
    ).format(option=option)


def end_reason(answer: Answer) -> str:
    """Return why the turn stopped, without reasons that are already on the screen."""
    told = answer.refused_by or (answer.not_verified and answer.stop == "not_done")
    reason = translate(answer.reason) if answer.reason and not told else stop_text(answer.stop)
    hint = answer.reason.values.get("hint") if answer.reason else None
    return f"{reason} {translate(hint)}" if told and isinstance(hint, Phrase) else reason


def stop_text(stop: str) -> str:
    """Return why a turn ended, where the runtime gave no reason of its own."""
    return {
        "not_done": _("The task was not completed."),
        "refused": _("The task may be incomplete: an action was refused."),
        "budget": _("A limit was reached."),
        "model_failed": _("The model failed."),
        "interrupted": _("You stopped the turn."),
        "plan_only": _("This is the plan; nothing was changed."),
    }.get(stop, _("The turn ended early."))


_LONGEST_COMMAND = 200
_ENDED = {
    "sandbox": Phrase("Stopped: {command} (programs in the sandbox cannot stay running)"),
    "asked": Phrase("Stopped: {command} (--end-jobs)"),
    "background": Phrase("Stopped: {command} (background job; keep one with nohup or /jobs keep)"),
}


def left_texts(programs: Sequence[LeftRunning]) -> list[Phrase]:
    """Return a sentence for each program, those that stay first, and what to do about it."""
    return [_told(one) for one in sorted(programs, key=lambda one: not one.stays)]


def _told(one: LeftRunning) -> Phrase:
    command = one_line(one.command, _LONGEST_COMMAND)
    if not one.stays:
        return Phrase(_ENDED[one.why].template, {"command": command})
    values = {
        "command": command,
        "pids": ", ".join(map(str, one.pids)),
        "kill": one.end_with,
        "path": one.output_path,
    }
    if one.output_path:
        return Phrase(
            "Still running: {command} (process {pids}), output in {path}; stop it with: {kill}",
            values,
        )
    return Phrase("Still running: {command} (process {pids}); stop it with: {kill}", values)
