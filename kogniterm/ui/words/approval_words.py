"""The words for what approval knows: labels, decisions, effects, outcomes. Needs no drawing."""

from __future__ import annotations

from collections.abc import Mapping

from kogniterm.runtime.questions.approval_facts import effect_line, label_phrase, mode_name
from kogniterm.types import ApprovalMode, Effect, Phrase, Verdict
from kogniterm.ui.locale import _, translate

MODE_NOTES: Mapping[ApprovalMode, Phrase] = {
    "manual": Phrase("asks before every action"),
    "accept-edits": Phrase("edits workspace files unasked"),
    "auto": Phrase("runs commands unasked"),
    "plan": Phrase("reads and plans, changes nothing"),
}
"""The same in a few words, for a line of 60 cells that also has the mode's name."""


def mode_text(mode: ApprovalMode, *, sandboxed: bool = True) -> str:
    """Return an approval mode in words; auto mode differs where commands are not `sandboxed`."""
    return translate(mode_name(mode, sandboxed=sandboxed))


def label_text(label: str) -> str:
    return translate(label_phrase(label))


def decision_text(decision: str) -> str:
    """Return a rule's or an approver's decision in words."""
    return {
        "allow": _("allow"),
        "ask": _("ask"),
        "deny": _("deny"),
        "approve": _("approved"),
        "edit": _("changed"),
        "reject": _("rejected"),
    }.get(decision, decision)


def origin_text(origin: str) -> str:
    """Return where a rule comes from; a file with its line stays as it is."""
    kind, space, rest = origin.partition(" ")
    words = {
        "floor": _("hard limits"),
        "mode manual": _("ask mode"),
        "mode accept-edits": _("accept-edits mode"),
        "mode auto": _("auto mode"),
        "mode plan": _("plan mode"),
        "unknown outcome": _("earlier run"),
        "sandbox": _("sandbox"),
    }
    if kind == "lease" and space:
        return _("permission {id}").format(id=rest)
    return words.get(origin, origin)


def refused_text(verdict: Verdict) -> str:
    """Return what refused an action, as the beginning of the line that names the action."""
    origin = next(
        (one.origin for one in verdict.trace if one.matched and one.decision == "deny"), ""
    )
    if origin.startswith("hook "):
        return _("Refused by a hook:")
    return {
        "": _("Refused:"),
        "floor": _("Refused by a hard limit:"),
        "mode auto": _("Refused in auto mode:"),
        "mode plan": _("Refused in plan mode:"),
    }.get(origin, _("Refused by your rules:"))


def decider_text(who: str) -> str:
    """Return who decided; a lease is named by its id."""
    from kogniterm.types.events import BY_HOOK, BY_KOGNITERM

    return {
        "person": _("you"),
        "policy": _("your rules"),
        BY_KOGNITERM: "KogniTerm",
        BY_HOOK: _("a hook"),
        "unattended": _("KogniTerm (no user available)"),
        "start check": _("the check before execution"),
    }.get(who, who)


def outcome_text(status: str) -> str:
    return {
        "finished": _("ran"),
        "failed": _("failed"),
        "refused": _("not run: refused"),
        "cancelled": _("stopped"),
        "unknown": _("outcome unknown"),
    }.get(status, status)


def effect_text(effect: Effect) -> str:
    return effect_line(effect, translate)
