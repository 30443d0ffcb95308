"""Approval mode, model and effort as options that a client shows and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from acp.schema import (
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from kogniterm.errors import UsageError
from kogniterm.runtime.questions.approval_facts import MODE_HELP, Say, mode_name, usable_modes
from kogniterm.types import MODE_NAMES, ApprovalMode, Phrase

if TYPE_CHECKING:
    from kogniterm.models.model_lists import ModelListing
    from kogniterm.runtime.session import LiveSession

MODE, MODEL, EFFORT = "mode", "model", "effort"
DEFAULT_EFFORT = "default"
MODE_IDS: Mapping[ApprovalMode, str] = {mode: name for name, mode in MODE_NAMES.items()}


def mode_state(session: LiveSession, say: Say) -> SessionModeState:
    """Return the approval modes that work in a session, and the one in use."""
    modes = [
        SessionMode(id=value, name=name, description=description)
        for value, name, description in _modes(session, say)
    ]
    return SessionModeState(current_mode_id=MODE_IDS[session.modes.approval], available_modes=modes)


def _modes(session: LiveSession, say: Say) -> list[tuple[str, str, str]]:
    modes = dict.fromkeys((*usable_modes(session.policy, session.model), session.modes.approval))
    return [
        (MODE_IDS[mode], _title(say(mode_name(mode, sandboxed=session.policy.sandboxed))),
         say(MODE_HELP[mode]))
        for mode in modes
    ]  # fmt: skip


def _title(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def config_options(
    session: LiveSession, listings: Sequence[ModelListing], say: Say
) -> list[SessionConfigOptionSelect | SessionConfigOptionBoolean]:
    """Return all options with their values."""
    model = session.model
    modes = [
        SessionConfigSelectOption(value=value, name=name, description=description)
        for value, name, description in _modes(session, say)
    ]
    known = {one.name: one for listing in listings for one in listing.models}
    names = dict.fromkeys((model.name, *known))
    found: list[SessionConfigOptionSelect | SessionConfigOptionBoolean] = [
        SessionConfigOptionSelect(
            id=MODE, name=say(Phrase("Approval mode")), type="select", category="mode",
            current_value=MODE_IDS[session.modes.approval], options=modes,
        ),
        SessionConfigOptionSelect(
            id=MODEL, name=say(Phrase("Model")), type="select", category="model",
            current_value=model.name, options=_choices(names),
        ),
    ]  # fmt: skip
    if model.efforts:
        found.append(
            SessionConfigOptionSelect(
                id=EFFORT, name=say(Phrase("Reasoning effort")), type="select",
                category="thought_level", current_value=model.effort or DEFAULT_EFFORT,
                options=_choices((DEFAULT_EFFORT, *model.efforts)),
            )
        )  # fmt: skip
    return found


def _choices(
    names: Sequence[str] | Mapping[str, None],
) -> list[SessionConfigSelectOption] | list[SessionConfigSelectGroup]:
    return [SessionConfigSelectOption(value=name, name=name) for name in names]


def use_option(session: LiveSession, option: str, value: str) -> None:
    """Change an option. Raises `UsageError` or `ModelError` for one that there is not."""
    if option == MODE:
        use_mode(session, value)
    elif option == MODEL:
        session.use_model(value)
    elif option == EFFORT and session.model.efforts:
        session.use_model(session.model.name, "" if value == DEFAULT_EFFORT else value)
    else:
        raise UsageError("Unknown option: {name}.", name=option)


def use_mode(session: LiveSession, name: str) -> None:
    """Change the approval mode. Raises `UsageError` for one that does not work here."""
    mode = MODE_NAMES.get(name)
    usable = usable_modes(session.policy, session.model)
    if mode is None or mode not in usable:
        names = ", ".join(MODE_IDS[one] for one in usable)
        raise UsageError(
            "Unknown value: {value}. Use one of: {allowed}.", value=name, allowed=names
        )
    session.use_mode(mode)
