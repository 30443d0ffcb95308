"""`kogniterm config`: the settings with the place each came from, and where files are kept."""

from __future__ import annotations

import argparse

from kogniterm.cli.options import JSON, Action, Argument, Subparsers, add_actions, settings_of
from kogniterm.cli.verb_helpers import Report, paths_in_use, write_report
from kogniterm.settings.layers import SettingOrigin
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate


def add_parser(subparsers: Subparsers) -> None:
    """Add `config show` and `config path`."""
    add_actions(subparsers, "config", ACTIONS, JSON)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return write_report(args, args.perform(args))


def _show(args: argparse.Namespace) -> Report:
    settings = settings_of(args)
    rows = [
        (name, value, settings.origin(name))
        for name, value in settings.masked().items()
        if not args.changed or settings.origin(name).kind != "default"
    ]
    names = max((len(name) for name, _value, _origin in rows), default=0)
    shown = [(name, _shown(value), _origin_text(origin)) for name, value, origin in rows]
    values = max((len(value) for _name, value, _origin in shown if len(value) <= 40), default=0)
    return Report(
        {name: {"value": value, "from": str(origin)} for name, value, origin in rows},
        [f"{name:<{names}}  {value:<{values}}  {origin}" for name, value, origin in shown],
    )


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _origin_text(origin: SettingOrigin) -> str:
    shown = origin.shown
    return translate(shown) if isinstance(shown, Phrase) else shown


def _path(_args: argparse.Namespace) -> Report:
    paths = paths_in_use()
    rows = (
        ("settings", _("settings"), paths.config_file),
        ("keys", _("keys"), paths.env_file),
        ("approval_rules", _("approval rules"), paths.policy_file),
        ("permissions", _("permissions"), paths.permissions_file),
        ("database", _("database"), paths.database),
        ("command_outputs", _("command outputs"), paths.outputs),
        ("log", _("log"), paths.log_file),
        ("prompt_history", _("prompt history"), paths.history_file),
        ("model_weights", _("model weights"), paths.weights),
    )
    width = max(len(name) for _key, name, _file in rows)
    return Report(
        {key: str(path) for key, _name, path in rows},
        [f"{name:<{width}}  {path}" for _key, name, path in rows],
    )


ACTIONS = (
    Action("show", "Show every setting, its value and its source", _show, (
        Argument("--changed", "Show only settings that are not the default"),),
        ("kogniterm config show", "kogniterm config show --changed")),
    Action("path", "Show the files and folders in use", _path, (),
           ("kogniterm config path",)),
)  # fmt: skip
