"""Keep three packages that a turn has no use for out of this process.

langchain-core and langgraph import LangSmith's client to report runs, and langgraph_sdk and
requests for a name each: together more than a fifth of a start. The stand-ins
have the names that are imported, and answer for LangSmith as with tracing off. Whoever needs more
of a package gets the real one, LangSmith with tracing off, so that nothing of a run is reported.
"""

from __future__ import annotations

import importlib
import sys
from _thread import RLock
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_TRACING = "langsmith"
_CONTEXT = (  # the fields of LangSmith's tracing context
    *("parent", "project_name", "address", "tags", "metadata", "enabled", "client"),
    *("replicas", "distributed_parent_id"),
)
_SWAP = RLock()


def keep_out() -> None:
    """Put the stand-ins in the place of their packages; one that is loaded already stays."""
    for package, modules in _STAND_INS.items():
        if package not in sys.modules:
            for name, values in modules.items():
                module = sys.modules[name] = _StandIn(name)
                module.__spec__ = ModuleSpec(name, None, is_package=name == package)
                module.__dict__.update(values())
            sys.modules[package].__path__ = _RealPath([package])


class _StandIn(ModuleType):
    """A module as far as a turn needs it; the real one for all else."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if (module := sys.modules.get(f"{self.__name__}.{name}")) is not None:
            return module
        _load_real(self.__name__.partition(".")[0])
        return getattr(importlib.import_module(self.__name__), name)


class _RealPath(list[str]):
    """The folder of a real package, which is loaded when a module is looked for in it."""

    def __iter__(self) -> Iterator[str]:
        return iter(_load_real(self[0]).__path__)


def _load_real(package: str) -> ModuleType:
    """Load a package instead of its stand-in; LangSmith's tracing is switched off."""
    old: ModuleType | None = None
    with _SWAP:  # never held for an import, which may wait for a thread that waits here
        for name in _STAND_INS[package]:
            if isinstance(module := sys.modules.get(name), _StandIn):
                old = module if name == package else old
                del sys.modules[name]
    real = importlib.import_module(package)
    if package == _TRACING:
        real.configure(enabled=False)
    if old is not None:  # which modules that imported it still have
        old.__dict__.update(vars(real))
    return real


def _deferred_class(module: str, name: str) -> type:
    """Return a class of a package that is loaded when the first object of it is made."""

    def make(cls: type, *values: Any, **named: Any) -> Any:
        _load_real(module.partition(".")[0])
        return getattr(importlib.import_module(module), name)(*values, **named)

    return type(name, (), {"__new__": make, "__module__": module})


def _nothing_traced() -> dict[str, Any]:
    return {**dict.fromkeys(_CONTEXT), "enabled": False}


def _ignore_call(*_values: Any, **_named: Any) -> None:
    pass


_STAND_INS: Mapping[str, Mapping[str, Callable[[], dict[str, Any]]]] = {
    _TRACING: {
        "langsmith": lambda: {
            "Client": _deferred_class("langsmith.client", "Client"),
            "RunTree": _deferred_class("langsmith.run_trees", "RunTree"),
            "get_tracing_context": _nothing_traced,
            "configure": _ignore_call,
        },
        "langsmith.run_helpers": lambda: {
            "get_current_run_tree": _ignore_call,
            "get_tracing_context": _nothing_traced,
            "_set_tracing_context": _ignore_call,
        },
        "langsmith.utils": lambda: {"tracing_is_enabled": lambda ctx=None: False},
        "langsmith.run_trees": dict,
        "langsmith.address": dict,
    },
    "langgraph_sdk": {
        "langgraph_sdk": dict,
        "langgraph_sdk.auth": dict,
        "langgraph_sdk.auth.types": lambda: {
            "BaseUser": _deferred_class("langgraph_sdk.auth.types", "BaseUser")
        },
    },
    "requests": {
        "requests": lambda: {
            "HTTPError": type("HTTPError", (OSError,), {}),
            "Response": _deferred_class("requests.models", "Response"),
        }
    },
}
