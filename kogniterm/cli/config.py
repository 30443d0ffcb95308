"""`kogniterm config`: the settings with the place each came from, and where files are kept."""

from __future__ import annotations

import argparse
import sys

from kogniterm.cli.options import settings_of
from kogniterm.ui.locale import _


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `config show` and `config path`."""
    parser = subparsers.add_parser("config", help=_("show the settings and where each came from"))
    actions = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)
    show = actions.add_parser("show", help=_("every setting, its value, and where it came from"))
    show.add_argument("--json", action="store_true", help=_("as one JSON object"))
    show.add_argument("--changed", action="store_true", help=_("only what is not a default"))
    path = actions.add_parser("path", help=_("the files and folders in use"))
    path.add_argument("--json", action="store_true", help=_("as one JSON object"))


def run(args: argparse.Namespace) -> int:
    """Print what was asked for."""
    lines = _paths(args) if args.action == "path" else _settings(args)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _settings(args: argparse.Namespace) -> list[str]:
    settings = settings_of(args)
    rows = [
        (name, value, settings.origin(name))
        for name, value in settings.masked().items()
        if not args.changed or settings.origin(name).kind != "default"
    ]
    if args.json:
        import json

        table = {name: {"value": value, "from": str(origin)} for name, value, origin in rows}
        return [json.dumps(table, indent=2, ensure_ascii=False)]
    names = max((len(name) for name, _value, _origin in rows), default=0)
    shown = [(name, _shown(value), str(origin)) for name, value, origin in rows]
    values = max((len(value) for _name, value, _origin in shown if len(value) <= 40), default=0)
    return [f"{name:<{names}}  {value:<{values}}  {origin}" for name, value, origin in shown]


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _paths(args: argparse.Namespace) -> list[str]:
    from kogniterm.settings import environment, quick

    paths = quick(environment()).paths
    rows = (
        ("settings", _("settings"), paths.config_file),
        ("keys", _("keys"), paths.env_file),
        ("approval_rules", _("approval rules"), paths.policy_file),
        ("database", _("database"), paths.database),
        ("command_outputs", _("command outputs"), paths.outputs),
        ("log", _("log"), paths.log_file),
        ("prompt_history", _("prompt history"), paths.history_file),
        ("model_weights", _("model weights"), paths.weights),
    )
    if args.json:
        import json

        return [json.dumps({key: str(path) for key, _name, path in rows}, indent=2)]
    width = max(len(name) for _key, name, _path in rows)
    return [f"{name:<{width}}  {path}" for _key, name, path in rows]
