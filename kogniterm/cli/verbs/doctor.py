"""`kogniterm doctor`: what is configured, what is reachable, what is missing, and what to do."""

from __future__ import annotations

from kogniterm.cli.options import JSON, CallOptions, Example, Subparsers, add_verb, current_folder
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, SettingsError
from kogniterm.installed import parts
from kogniterm.runtime.operations.action import Argument, Report
from kogniterm.types import Phrase
from kogniterm.ui.locale import mark, translate

_MARKS = {"ok": "ok  ", "note": "-   ", "bad": "!!  "}
ONLINE = Argument("--online", "Also connect to each configured provider and database")


def add_parser(subparsers: Subparsers) -> None:
    """Add `doctor`."""
    add_verb(
        subparsers,
        "doctor",
        [ONLINE, JSON],
        examples=(Example("kogniterm doctor"), Example("kogniterm doctor --online")),
        description=mark(
            "Check the installation, the settings, the sandbox and the model, and say what to do "
            "about each problem. Exit status: 0 if KogniTerm can work, 1 if not."
        ),
    )


def run(call: CallOptions, online: bool) -> Report:
    """Return the report; its status is 1 when anything in it is bad."""
    from kogniterm.runtime.operations.health_checks import (
        Finding,
        check_installation,
        python_finding,
    )

    settings, findings = None, [python_finding()]
    try:
        settings = call.load_settings()
    except SettingsError as error:
        findings.append(Finding("bad", Phrase("settings"), error.text))
    findings += check_installation(settings, paths_in_use(), current_folder, online=online)
    findings += [finding for check in parts("CHECKS") for finding in check()]
    shown = [
        (one.state, translate(one.what), translate(one.fix) if one.fix else "") for one in findings
    ]
    return Report(
        {"findings": [{"state": s, "what": what, "fix": fix} for s, what, fix in shown]},
        [
            line
            for state, what, fix in shown
            for line in (f"{_MARKS[state]}{what}", *([f"    {fix}"] if fix else []))
        ],
        status=EXIT_NOT_DONE if any(one.state == "bad" for one in findings) else EXIT_DONE,
    )
