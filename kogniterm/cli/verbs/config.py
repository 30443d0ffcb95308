"""`kogniterm config`: settings with the place each came from, files, and texts for the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import UsageError, why
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.settings.layers import SettingOrigin
from kogniterm.text.spelling import closest_word
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from kogniterm.prompts import PromptFile


def add_parser(subparsers: Subparsers) -> None:
    """Add `config show`, `config path` and `config prompts`."""
    add_actions(subparsers, "config", ACTIONS, JSON)


def _show(call: CallOptions, changed: bool) -> Report:
    settings = call.load_settings()
    rows = [
        (name, value, settings.origin(name))
        for name, value in settings.mask().items()
        if not changed or settings.origin(name).kind != "default"
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
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _origin_text(origin: SettingOrigin) -> str:
    shown = origin.shown
    return translate(shown) if isinstance(shown, Phrase) else shown


def _path(call: CallOptions) -> Report:
    paths = paths_in_use()
    rows = (
        ("settings", _("settings"), paths.config_file),
        ("keys", _("keys"), paths.env_file),
        ("approval_rules", _("approval rules"), paths.policy_file),
        ("permissions", _("permissions"), paths.permissions_file),
        ("prompts", _("your prompts"), paths.prompts),
        ("database", _("database"), paths.database),
        ("command_outputs", _("command outputs"), paths.of_sessions.outputs),
        ("log", _("log"), paths.log_file),
        ("prompt_history", _("prompt history"), paths.history_file),
        ("model_weights", _("model weights"), paths.weights),
    )
    width = max(len(name) for _key, name, _file in rows)
    return Report(
        {key: str(path) for key, _name, path in rows},
        [f"{name:<{width}}  {path}" for _key, name, path in rows],
    )


def _prompts(call: CallOptions, what: str | None, name: str | None) -> Report:
    from kogniterm import prompts

    folder = paths_in_use().prompts
    if what is None:
        prompts.use(prompts.own_files(folder))
        return _list_values(list(prompts.in_force()))
    if name is None:
        raise UsageError("Name a prompt; kogniterm config prompts lists them.")
    name = name.removesuffix(".md")
    if name not in prompts.shipped_files():
        near = closest_word(name, list(prompts.shipped_files()))
        if near:
            raise UsageError(
                "There is no prompt {name}. Did you mean {near}?", name=name, near=near
            )
        raise UsageError(
            "There is no prompt {name}; kogniterm config prompts lists them.", name=name
        )
    file = folder / f"{name}.md"
    if what == "copy":
        return _copy_example(name, file)
    if what == "diff":
        return _difference(name, file)
    own = prompts.own_files(folder).get(name)
    shown, shipped = own or prompts.shipped_files()[name], prompts.shipped_files()[name]
    left = [part for part in shipped.texts if part not in shown.texts]
    notes = [_("Not in your file, so as shipped: {names}.").format(names=", ".join(left))]
    return Report(
        {"name": name, "path": str(shown.path), "text": shown.source},
        shown.source.rstrip("\n").split("\n"),
        notes=notes if left else (),
    )


def _list_values(files: Sequence[tuple[PromptFile, PromptFile | None]]) -> Report:
    from kogniterm import prompts

    data: dict[str, object] = {}
    rows, notes = [], []
    for shipped, own in files:
        texts = {**shipped.texts, **(own.texts if own is not None else {})}
        size = sum(len(one.text) for one in texts.values())
        changed = own is not None and own.copied_from not in ("", shipped.digest)
        missing = prompts.without_safety(own) if own is not None else []
        data[shipped.name] = {
            "from": "shipped" if own is None else "user",
            "path": str((own or shipped).path),
            "texts": [part for part in shipped.texts if part],
            "variables": list(shipped.variables),
            "characters": size,
            "shipped_changed": changed,
            "leaves_out": missing,
        }
        source = _("shipped") if own is None else _("yours")
        names = " ".join(f"{{{name}}}" for name in shipped.variables)
        rows.append((shipped.name, source, str(size), names))
        if own is None:
            continue
        place = {"name": shipped.name, "file": own.path}
        notes.append(_("{name} is yours: {file}").format(**place))
        if changed:
            told = _("  The shipped text has changed since: kogniterm config prompts diff {name}")
            notes.append(told.format(name=shipped.name))
        for words in missing:
            notes.append(_("  It leaves out: {words}").format(words=words))
    head = (_("PROMPT"), _("FROM"), _("SIZE"), _("VARIABLES"))
    return Report(data, rows=(head, *rows), notes=notes)


def _copy_example(name: str, file: Path) -> Report:
    from kogniterm import prompts
    from kogniterm.storage.folders import private_folder

    try:
        private_folder(file.parent)
        with file.open("x", encoding="utf-8") as copy:
            copy.write(prompts.to_edit(name))
    except FileExistsError as error:
        raise UsageError(
            "{file} exists already; edit it, or delete it first.", file=file
        ) from error
    except OSError as error:
        raise UsageError(
            "{file} cannot be written ({detail}).", file=file, detail=why(error)
        ) from error
    said = _("Copied to {file}. Your text applies to new sessions; delete the file to undo that.")
    return Report({"path": str(file)}, [said.format(file=file)])


def _difference(name: str, file: Path) -> Report:
    """Return what differs between the shipped text and the user's."""
    from kogniterm import prompts
    from kogniterm.text.file_text import unified_diff

    shipped = prompts.shipped_files()[name]
    own = prompts.own_files(file.parent).get(name)
    if own is None:
        raise UsageError("{name} is the shipped text: {file} does not exist.", name=name, file=file)
    difference = unified_diff(str(file), shipped.source, own.source, old_name="shipped")
    changed = difference.split("\n") if difference else []
    return Report({"name": name, "diff": changed}, changed)


ACTIONS = (
    Action("show", "Show every setting, its value and its source", _show, (
        Argument("--changed", "Show only settings that are not the default"),),
        ("kogniterm config show", "kogniterm config show --changed")),
    Action("path", "Show the files and folders in use", _path, (),
           ("kogniterm config path",)),
    Action("prompts", "Show the texts that the model reads as instructions, or copy one to edit",
           _prompts, (
        Argument("what", "show, copy or diff; by default, all are listed", "WHAT", nargs="?",
                 choices=("show", "copy", "diff")),
        Argument("name", "Name of a prompt", "NAME", nargs="?")),
        ("kogniterm config prompts", "kogniterm config prompts show system",
         "kogniterm config prompts copy system", "kogniterm config prompts diff system")),
)  # fmt: skip
