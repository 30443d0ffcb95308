"""Keep LangSmith's client out of this process: nothing of a run is reported to anybody.

langchain-core and langgraph import that client to report runs, which takes a fifth of a start. The
stand-in answers what they ask in every run ("is tracing on?", "what is traced here?", "trace this")
as LangSmith does with tracing off. Whoever needs more gets the real package, with tracing off.
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
    """Put the stand-in in the place of LangSmith; one that is loaded already stays."""
    if _TRACING not in sys.modules:
        for name, values in _STAND_INS.items():
            module = sys.modules[name] = _StandIn(name)
            module.__spec__ = ModuleSpec(name, None, is_package=name == _TRACING)
            module.__dict__.update(values())
        sys.modules[_TRACING].__path__ = _RealPath()


class _StandIn(ModuleType):
    """A module of LangSmith as far as it matters with tracing off; the real one for all else."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if (module := sys.modules.get(f"{self.__name__}.{name}")) is not None:
            return module
        load_tracing()
        return getattr(importlib.import_module(self.__name__), name)


class _RealPath(list[str]):
    """The folder of the real package, which is loaded when a module is looked for in it."""

    def __iter__(self) -> Iterator[str]:
        return iter(load_tracing().__path__)


def load_tracing() -> ModuleType:
    """Load the real LangSmith instead of its stand-in, and switch its tracing off."""
    with _SWAP:  # never held for an import, which may wait for a thread that waits here
        for name in _STAND_INS:
            if isinstance(sys.modules.get(name), _StandIn):
                del sys.modules[name]
    real = importlib.import_module(_TRACING)
    real.configure(enabled=False)
    return real


def _deferred_class(module: str, name: str) -> type:
    """Return a class of LangSmith that is loaded when the first object of it is made."""

    def make(cls: type, *values: Any, **named: Any) -> Any:
        load_tracing()
        return getattr(importlib.import_module(module), name)(*values, **named)

    return type(name, (), {"__new__": make, "__module__": module})


def _nothing_traced() -> dict[str, Any]:
    """Return the tracing context as LangSmith gives it once tracing was switched off."""
    return {**dict.fromkeys(_CONTEXT), "enabled": False}


def _ignore_call(*_values: Any, **_named: Any) -> None:
    """Do nothing: what would be traced, is not."""


_STAND_INS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "langsmith": lambda: {
        "Client": _deferred_class("langsmith.client", "Client"),
        "RunTree": _deferred_class("langsmith.run_trees", "RunTree"),
        "get_tracing_context": _nothing_traced,
        "configure": _ignore_call,
    },
    "langsmith.run_helpers": lambda: {
        "get_tracing_context": _nothing_traced,
        "_set_tracing_context": _ignore_call,
    },
    "langsmith.utils": lambda: {"tracing_is_enabled": lambda ctx=None: False},
    "langsmith.run_trees": dict,
    "langsmith.address": dict,
}
