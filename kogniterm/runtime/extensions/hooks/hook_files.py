"""Hooks as files: the user's hooks.json, and what a trusted project has in the same format.

    {"hooks": {"PreToolUse": [{"matcher": "Bash|Edit",
                               "hooks": [{"type": "command", "command": "…", "timeout": 60}]}]}}

A file is read whole or not at all: a mistake in it is an error that names the place, because a
guard that is left out silently would let through what it was written to stop. What only other
agents know (events, kinds of hooks) is left out with a notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from kogniterm.errors import SettingsError
from kogniterm.runtime.trust.plugin_folders import PluginFolder
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.settings.user_files import json_values, read_if_there
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase

HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "Notification",
]
EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
GUARDS: frozenset[HookEvent] = frozenset({"PreToolUse", "UserPromptSubmit"})
"""The events whose hooks can refuse something: one that fails refuses it."""
TIMEOUT = 60.0
MAX_TIMEOUT = 600.0
MOST_HOOKS = 100
MAX_COMMAND = 10_000
_AT_EXIT = 5.0
"""Seconds a hook has at the end of a session where its file names no limit."""
_NAME = 60
_WITH_ARGUMENTS = re.compile(r"(\w+)\(.*\)")


@dataclass(frozen=True, slots=True)
class Hook:
    """A command to run at an event; `source` is the file it stands in, `own` if it is the user's.

    With `sandboxed` False the user lets it run outside the sandbox. One of a `plugin` runs while
    that is as it was trusted.
    """

    event: HookEvent
    command: str
    source: str
    own: bool
    matcher: str = ""
    timeout: float = TIMEOUT
    sandboxed: bool = True
    pattern: re.Pattern[str] | None = None
    plugin: PluginFolder | None = None

    @property
    def root(self) -> str:
        """Return the folder of its plugin; "" without one."""
        return self.plugin.root if self.plugin is not None else ""

    @property
    def name(self) -> str:
        """Return what the user knows it by: the beginning of its command, and its file."""
        return f"{one_line(self.command, _NAME)} ({self.source})"

    def matches(self, subject: str) -> bool:
        """Return whether it runs for this tool, or for what else the event is about."""
        return self.pattern is None or self.pattern.fullmatch(subject) is not None


@dataclass(frozen=True, slots=True)
class HookSet:
    """Hooks in the order of their files, and notices about what is left out of them."""

    hooks: tuple[Hook, ...] = ()
    notices: tuple[Phrase, ...] = ()

    def __add__(self, other: HookSet) -> HookSet:
        return HookSet(self.hooks + other.hooks, self.notices + other.notices)

    def matching(self, event: HookEvent, subject: str = "") -> tuple[Hook, ...]:
        """Return the hooks that run; of those with one command, the first of the user's."""
        found: dict[tuple[str, str], Hook] = {}
        for hook in self.hooks:
            if hook.event == event and hook.matches(subject):
                found.setdefault((hook.command, hook.root), hook)
        return tuple(found.values())


def user_hooks(file: Path) -> HookSet:
    """Return the user's own hooks; none where the file does not exist.

    Raises `SettingsError` for a file that cannot be read, and for a mistake in it.
    """
    text = read_if_there(file)
    return HookSet() if text is None else read_hooks(text, file.name, own=True)


def project_hooks(files: Iterable[ProjectFile]) -> HookSet:
    """Return the hooks among the trusted `files`.

    Raises `SettingsError` for a mistake; one in a plugin is a notice, and the others run.
    """
    found = HookSet()
    for file in files:
        if file.kind != "hooks":
            continue
        try:
            here = read_hooks(file.text, file.name, own=False)
        except SettingsError as error:
            if file.plugin is None:
                raise
            here = HookSet(notices=(error.text,))
        hooks = (replace(one, plugin=file.plugin) for one in here.hooks)
        found += HookSet(tuple(hooks), here.notices)
    return found


def read_hooks(text: str, source: str, *, own: bool) -> HookSet:
    """Return the hooks in a file's text. Raises `SettingsError` for the first mistake."""
    try:
        data = json_values(source, text).data
    except SettingsError as error:
        raise SettingsError("{fault} Correct it, or start with --no-hooks.", fault=error) from error
    return _HookReader(source, own=own).read(data)


class _HookReader:
    """Reads one file."""

    def __init__(self, source: str, *, own: bool) -> None:
        self._source = source
        self._own = own
        self._notices: list[Phrase] = []

    def read(self, whole: Mapping[str, Any]) -> HookSet:
        """Return its hooks; the events stand below "hooks", or alone."""
        events = whole
        if "hooks" in whole:
            events = self._mapping(whole["hooks"], "hooks")
        hooks = tuple(hook for name, groups in events.items() for hook in self._event(name, groups))
        if len(hooks) > MOST_HOOKS:
            raise SettingsError(
                "{file} has {count} hooks; at most {most} are allowed. Start with --no-hooks to go "
                "on without.",
                file=self._source,
                count=len(hooks),
                most=MOST_HOOKS,
            )
        return HookSet(hooks, tuple(self._notices))

    def _event(self, name: str, groups: object) -> Iterator[Hook]:
        event = next((known for known in EVENTS if known == name), None)
        if event is None:
            if isinstance(groups, list):
                values: dict[str, object] = {"file": self._source, "event": name}
                self._notice(Phrase("{file}: hooks of the event {event} are not run.", values))
            return
        for number, group in enumerate(self._list(groups, name)):
            place = f"{name}[{number}]"
            given = self._mapping(group, place)
            matcher = given.get("matcher") or ""
            pattern = self._pattern(matcher, f"{place}.matcher")
            for index, entry in enumerate(self._list(given.get("hooks"), f"{place}.hooks")):
                where = f"{place}.hooks[{index}]"
                hook = self._hook(event, self._mapping(entry, where), where)
                if hook is not None:
                    yield replace(hook, matcher=str(matcher), pattern=pattern)

    def _hook(self, event: HookEvent, entry: Mapping[str, Any], place: str) -> Hook | None:
        kind = entry.get("type", "command")
        if kind != "command":
            values: dict[str, object] = {"file": self._source, "kind": kind}
            self._notice(Phrase("{file}: hooks of the type {kind} are not run.", values))
            return None
        command = entry.get("command")
        usable = isinstance(command, str) and command.strip() and "\0" not in command
        if not usable or len(str(command)) > MAX_COMMAND:
            raise self._wrong(f"{place}.command", Phrase("a shell command"))
        usual = _AT_EXIT if event == "SessionEnd" else TIMEOUT
        timeout = entry.get("timeout", usual)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
            raise self._wrong(f"{place}.timeout", Phrase("a number of seconds"))
        sandboxed = entry.get("sandbox", True)
        if not isinstance(sandboxed, bool):
            raise self._wrong(f"{place}.sandbox", Phrase("true or false"))
        if not sandboxed and not self._own:
            file: dict[str, object] = {"file": self._source}
            self._notice(Phrase("{file}: a project's hooks always run in the sandbox.", file))
            sandboxed = True
        limit = min(float(timeout), MAX_TIMEOUT)
        return Hook(event, str(command), self._source, self._own, "", limit, sandboxed)

    def _pattern(self, matcher: object, place: str) -> re.Pattern[str] | None:
        """Return what a tool's name has to match; None for every name."""
        if not isinstance(matcher, str):
            raise self._wrong(place, Phrase("a regular expression"))
        if matcher in ("", "*"):
            return None
        narrowed = _WITH_ARGUMENTS.fullmatch(matcher)
        if narrowed is not None:
            # Only the name is compared: a guard that is meant for some calls runs for all.
            told = Phrase(
                "{file}: a matcher is compared with tool names only: {matcher}.",
                {"file": self._source, "matcher": matcher},
            )
            self._notice(told)
            matcher = narrowed[1]
        try:
            return re.compile(matcher)
        except (re.error, RecursionError, OverflowError) as error:
            raise self._wrong(place, Phrase("a regular expression")) from error

    def _mapping(self, value: object, place: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(place, Phrase("an object"))
        return value

    def _list(self, value: object, place: str) -> Sequence[Any]:
        if not isinstance(value, list):
            raise self._wrong(place, Phrase("a list"))
        return value

    def _wrong(self, place: str, wanted: Phrase) -> SettingsError:
        return SettingsError(
            "{file}: {place} is not {wanted}. Correct it, or start with --no-hooks.",
            file=self._source,
            place=place,
            wanted=wanted,
        )

    def _notice(self, notice: Phrase) -> None:
        if notice not in self._notices:
            self._notices.append(notice)
