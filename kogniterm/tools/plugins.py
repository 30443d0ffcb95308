"""Tools of other Python packages: how they are declared, loaded, and kept at arm's length.

A package names its tools as entry points of the group `kogniterm.tools`. Only packages that the
user's configuration names are loaded. Whatever such a tool says of itself, a call of it leaves the
graph as an action request with the effect "external": what it really does is not known.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args, get_type_hints

from pydantic import create_model

from kogniterm.errors import ToolError, UnusableValueError, UsageError
from kogniterm.protocols import Tool
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.types import EffectClass, Observation, Phrase, ToolSpec

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUP = "kogniterm.tools"
DeclaredEffect = Literal["none", "edit", "network", "command"]
"""The effect that a tool of another package may declare, for the approval screen."""
EFFECTS: tuple[DeclaredEffect, ...] = get_args(DeclaredEffect)
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
_DECLARED = "__kogniterm_tool__"
MAX_LINE = 2_000


class _Declaration(NamedTuple):
    effect: DeclaredEffect
    name: str
    hosts: tuple[str, ...]
    programs: tuple[str, ...]


F = TypeVar("F", bound=Callable[..., Any])


def tool(
    *,
    effect: DeclaredEffect,
    name: str = "",
    hosts: Iterable[str] = (),
    programs: Iterable[str] = (),
) -> Callable[[F], F]:
    """Mark a function as a tool, for the entry point group `kogniterm.tools`.

    Its arguments need types, its docstring tells the model what it does, and it returns text (or an
    `Observation`). It may be a coroutine function; another one runs on a thread. `effect` is what
    the approval screen says of it: "edit" needs an argument `path`. `hosts` are those that it
    contacts, `programs` those that it needs. A `ToolError` is shown to the model.
    """
    declaration = _Declaration(effect, name, tuple(hosts), tuple(programs))

    def mark(function: F) -> F:
        setattr(function, _DECLARED, declaration)
        return function

    return mark


class Plugin(NamedTuple):
    """A tool of another package: where it is from, what it declares, and programs it needs."""

    tool: Tool
    package: str
    version: str
    effect: EffectClass
    programs: tuple[str, ...] = ()
    server: str = ""
    """The MCP server that it is a tool of, if any."""

    @property
    def source(self) -> str:
        """The package with its version, or the module of the program that passed the tool in."""
        return f"{self.package} {self.version}".strip()


class LoadedPlugins(NamedTuple):
    """The tools of the configured packages, and a sentence about each that could not be loaded."""

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[Phrase, ...] = ()


def load_plugins(packages: Sequence[str], taken: Iterable[str]) -> LoadedPlugins:
    """Return the tools of `packages`. The first of a name wins; the names `taken` are not free."""
    if not packages:
        return LoadedPlugins()
    from importlib.metadata import PackageNotFoundError, distribution

    from kogniterm.host.installation import install_command

    names, plugins, problems = set(taken), list[Plugin](), list[Phrase]()
    for package in packages:
        try:
            found = distribution(package)
        except (PackageNotFoundError, ValueError):
            problems.append(
                Phrase(
                    "tool_packages names {package}, which is not installed; install it: {command}",
                    {"package": package, "command": install_command(package)},
                )
            )
            continue
        entries = sorted(found.entry_points.select(group=GROUP), key=lambda entry: entry.name)
        if not entries:
            problems.append(
                Phrase(
                    "The package {package} has no entry point {group}, so it provides no tools.",
                    {"package": package, "group": GROUP},
                )
            )
        for entry in entries:
            try:
                plugin = _plugin(entry, found, names)
            except UnusableValueError as error:
                problems.append(
                    Phrase(
                        "The tool {tool} of {package} was not loaded: {why}.",
                        {"tool": entry.name, "package": package, "why": error.text},
                    )
                )
                continue
            names.add(plugin.tool.spec.name)
            plugins.append(plugin)
    return LoadedPlugins(tuple(plugins), tuple(problems))


def program_tools(functions: Iterable[Callable[..., Any]], taken: Iterable[str]) -> list[Plugin]:
    """Return functions of the program that runs the agent as tools; they are marked with `tool`.

    The program vouches for what it passes in: a function with the effect "none" runs without
    approval. Raises `UsageError` for one that cannot be a tool; the names `taken` are not free.
    """
    names, found = set(taken), list[Plugin]()
    for function in functions:
        own_name = getattr(function, "__name__", repr(function))
        try:
            made, effect, programs = _made(function, own_name, names)
            _check_spec(made.spec)
            _check_free(made.spec.name, names)
        except UnusableValueError as error:
            raise UsageError(
                "{name} cannot be a tool: {why}.", name=own_name, why=error.text
            ) from error
        own: Tool = made if effect == "none" else _ExternalTool(made, made.spec)
        names.add(made.spec.name)
        found.append(Plugin(own, str(function.__module__), "", effect, programs))
    return found


def _plugin(entry: EntryPoint, package: Distribution, taken: Collection[str]) -> Plugin:
    """Return the tool behind an entry point. Raises `UnusableValueError`."""
    try:
        found = entry.load()
        made, effect, programs = _made(found, entry.name, taken)
        spec = made.spec
        _check_spec(spec)
        _check_free(spec.name, taken)
    except UnusableValueError:
        raise
    except (Exception, SystemExit) as error:
        why = one_line(clean(str(error)), 300) or "no message"
        raise UnusableValueError("{kind}: {why}", kind=type(error).__name__, why=why) from error
    name = str(package.metadata["Name"])
    return Plugin(_ExternalTool(made, spec), name, package.version, effect, programs)


def _made(
    found: Any, name: str, taken: Collection[str]
) -> tuple[Tool, EffectClass, tuple[str, ...]]:
    declaration: _Declaration | None = getattr(found, _DECLARED, None)
    if declaration is not None and callable(found):
        if declaration.effect not in EFFECTS:
            raise UnusableValueError(
                "its effect must be one of {effects}", effects=", ".join(EFFECTS)
            )
        _check_free(declaration.name or name, taken)
        made = _from_function(found, declaration, declaration.name or name)
        return made, declaration.effect, declaration.programs
    wanted = ("spec", "check", "effect_of", "describe", "detail", "hosts", "run")
    if inspect.isclass(found) or not all(hasattr(found, one) for one in wanted):
        raise UnusableValueError(
            "it is neither a function marked with kogniterm.tools.tool nor a kogniterm.protocols"
            ".Tool"
        )
    if not isinstance(found.spec, ToolSpec):
        raise UnusableValueError("its spec is no kogniterm.types.ToolSpec")
    return found, found.spec.effect, ()


def _check_free(name: str, taken: Collection[str]) -> None:
    if name in taken:
        raise UnusableValueError("the name {name} is already in use", name=name)


def _check_spec(spec: ToolSpec) -> None:
    if not _NAME.fullmatch(spec.name):
        raise UnusableValueError(
            "its name must be a letter and up to 63 letters, digits, _ or -: {name}",
            name=one_line(clean(spec.name), 80),
        )
    if not isinstance(spec.description, str) or not spec.description.strip():
        raise UnusableValueError("it has no description; write one into its docstring")
    if not isinstance(spec.parameters, Mapping) or spec.parameters.get("type") != "object":
        raise UnusableValueError("its parameters are no JSON schema of an object")


def _from_function(
    function: Callable[..., Any], declared: _Declaration, name: str
) -> SchemaTool[Arguments]:
    """Return the tool made of a function's signature and docstring."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for argument, one in inspect.signature(function).parameters.items():
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise UnusableValueError("its argument {argument} has no name", argument=argument)
        if argument not in hints:
            raise UnusableValueError("its argument {argument} has no type", argument=argument)
        fields[argument] = (hints[argument], ... if one.default is one.empty else one.default)
    if declared.effect == "edit" and "path" not in fields:
        raise UnusableValueError("a tool that edits needs an argument path")
    description = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    model: type[Arguments] = create_model(f"{name}_arguments", __base__=Arguments, **fields)

    async def run(arguments: Arguments) -> str | Observation:
        given = {field: getattr(arguments, field) for field in fields}
        if inspect.iscoroutinefunction(function):
            found = await function(**given)
        else:
            found = await asyncio.to_thread(function, **given)
        if not isinstance(found, str | Observation):
            kind = type(found).__name__
            raise ToolError("{name} returned {kind} instead of text.", name=name, kind=kind)
        return found

    return SchemaTool(name, model, run, description=description, hosts=lambda _: declared.hosts)


class _ExternalTool:
    """A tool of another package as a session uses it: every call is asked for, no error escapes."""

    def __init__(self, own: Tool, given: ToolSpec) -> None:
        self.own = own
        self.spec = ToolSpec(
            given.name, clean(given.description), dict(given.parameters), effect="external"
        )

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        checked: dict[str, Any] = self._guard_call(lambda: dict(self.own.check(arguments)))
        return checked

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        return "external"

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the call itself, and the tool's own words as the purpose."""
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        line, purpose = self._guard_call(lambda: self.own.describe(arguments))
        call = f"{self.spec.name}({given})"
        own = " ".join(filter(None, ("" if line == call else str(line), str(purpose))))
        return one_line(clean(call), MAX_LINE), one_line(clean(own), MAX_LINE)

    def detail(self, arguments: Mapping[str, Any]) -> str:
        return clean(str(self._guard_call(lambda: self.own.detail(arguments))))

    def hosts(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        hosts = self._guard_call(lambda: tuple(self.own.hosts(arguments)))
        return tuple(one_line(clean(str(host)), 200) for host in hosts)

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        try:
            found = await self.own.run(arguments)
        except ToolError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failure(error) from error
        return found if isinstance(found, Observation) else Observation(str(found))

    def _guard_call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ToolError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> ToolError:
        return ToolError(
            "{name} failed: {kind}: {error}",
            name=self.spec.name,
            kind=type(error).__name__,
            error=one_line(clean(str(error)), 1_000),
        )
