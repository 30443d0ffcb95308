"""Keep out of this process what its libraries load and KogniTerm never uses.

langchain-core and langgraph import LangSmith's client in order to report runs, and langgraph
imports the client of its own server for one type. Both together were a quarter of the time that a
start took (measured with `python -X importtime`, langchain-core 1.7.2, langgraph 1.2.22).

KogniTerm reports to nobody, so LangSmith is represented by a stand-in that says so: it answers the
three questions that are asked in every run ("is tracing on?", "what is traced here?", "trace this")
as LangSmith itself does with tracing off. Whoever needs anything else of LangSmith gets the real
package, with tracing off. The package of the server's client is loaded at the first use of one of
its names; its modules can be imported without that. So can those of prompt_toolkit, whose package
has progress bars and dialogs, and of snowballstemmer, whose package has 36 languages. The
same holds for modules that others name only for inputs that KogniTerm does not give them.

langchain-core imports requests for one function, which KogniTerm never calls; it loads requests
when it is called. It and pydantic look for versions of packages only where something is wrong, so
importlib.metadata is loaded then. Plugins of pydantic, which would see all that is validated, are
not looked for (its own switch, PYDANTIC_DISABLE_PLUGINS, would be seen by commands). The types of
langchain-protocol are loaded when one of its messages is made. langchain-core asks of every model
whether it is one of pydantic 1, which nothing is before somebody has imported that.

asyncio imports ssl for connections with TLS, which a provider's client opens at its first request:
both of them are loaded then.

`tests/host/test_unused_libraries.py` compares both with the real libraries.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from _thread import RLock
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc loads tempfile and others, and adds nothing at run time

_TYPES = ("langchain_protocol.protocol", "langgraph_sdk.auth.types")
_DEFERRED = (
    *_TYPES,
    "asyncio.sslproto",
    "filetype",
    "langchain_protocol",
    "langgraph_sdk",
    "langgraph_sdk.auth",
    "prompt_toolkit",
    "snowballstemmer",
    "ssl",
    "urllib.request",
    "xml.dom.minidom",
)
_BEFORE_ALL = {"prompt_toolkit": "prompt_toolkit.application"}
"""The first import of a package's own code, without which its modules import each other in a
circle."""
_TRACING = "langsmith"
CONTEXT = (
    "parent",
    "project_name",
    "address",
    "tags",
    "metadata",
    "enabled",
    "client",
    "replicas",
    "distributed_parent_id",
)
"""The fields of LangSmith's tracing context."""


def keep_out() -> None:
    """Put stand-ins in place of these libraries; what is loaded already stays."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the stand-ins and the deferred package before the real ones are found."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in _STAND_INS:
            return ModuleSpec(name, _StandInLoader(), is_package=name == _TRACING)
        if name.startswith(f"{_TRACING}."):
            return PathFinder.find_spec(name, load_tracing().__path__)
        if name in _DEFERRED or name in _WITHOUT:
            spec = PathFinder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                wrapper = _DeferringLoader if name in _DEFERRED else _WithoutImports
                spec.loader = wrapper(spec.loader)
            return spec
        return None


# --- a package that is loaded at its first use --------------------------------------------------


class _DeferringLoader(Loader):
    """Makes a package whose own code runs when the first of its names is asked for."""

    def __init__(self, real: Loader) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _DeferredTypes(spec.name) if spec.name in _TYPES else _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["_real_loader"] = self.real
        _LOCKS[module.__name__] = RLock()
        if module.__name__ in _BEFORE_ALL:
            importlib.import_module(_BEFORE_ALL[module.__name__])


class _Deferred(ModuleType):
    """A package that has not been loaded yet. Its `__path__` and spec are the real ones."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(name)  # the import system looks for these; no module has to
        _load(self)
        return ModuleType.__getattribute__(self, name)


_LOCKS: dict[str, RLock] = {}


def _load(module: ModuleType) -> None:
    """Run the module's own code, once; another thread waits for its end."""
    with _LOCKS[module.__name__]:
        real = module.__dict__.pop("_real_loader", None)
        if real is not None:
            real.exec_module(module)
            module.__class__ = ModuleType  # a module as any other, from here on


class _DeferredTypes(_Deferred):
    """A module of types that others name in annotations; it is loaded when one is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_real_loader" not in self.__dict__:
            return super().__getattr__(name)
        made = _DeferredType(name, (), {"__module__": self.__name__})
        self.__dict__[name] = made
        return made


class _DeferredType(type):
    """Stands for a type until a value of it is made or looked for."""

    def __call__(cls, *values: Any, **named: Any) -> Any:
        return _real(cls)(*values, **named)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _real(cls))


def _real(stand_in: _DeferredType) -> Any:
    module = sys.modules[stand_in.__module__]
    _load(module)
    return getattr(module, stand_in.__name__)


class _WithoutImports(Loader):
    """Loads a module that names some of another, which is loaded when they are used."""

    def __init__(self, real: Loader) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        stand_ins = {name: make() for name, make in _WITHOUT[module.__name__].items()}

        def found(name: str, *more: Any) -> object:
            return stand_ins[name] if name in stand_ins else builtins.__import__(name, *more)

        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": found}
        self.real.exec_module(module)
        if "requests" in stand_ins:
            _load_requests_in_need(module)


def _requests() -> SimpleNamespace:
    return SimpleNamespace(HTTPError=type("HTTPError", (OSError,), {}), Response=object)


def _load_requests_in_need(module: ModuleType) -> None:
    in_need = module.__dict__["raise_for_status_with_text"]

    def raise_for_status_with_text(response: Any) -> None:
        real = importlib.import_module("requests")
        module.__dict__.update(HTTPError=real.HTTPError, Response=real.Response)
        in_need(response)

    module.__dict__["raise_for_status_with_text"] = raise_for_status_with_text


def _metadata() -> SimpleNamespace:
    def version(package: str) -> str:
        return str(importlib.import_module("importlib.metadata").version(package))

    return SimpleNamespace(version=version, entry_points=lambda **_selected: ())


class _OldModels(type):
    """Metaclass of a stand-in for the models of pydantic 1: none exist before that is imported."""

    def __instancecheck__(cls, instance: object) -> bool:
        real = _old_model()
        return real is not None and isinstance(instance, real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        real = _old_model()
        return real is not None and issubclass(subclass, real)


def _old_model() -> type | None:
    loaded = sys.modules.get("pydantic.v1.main")
    return loaded.BaseModel if loaded is not None else None


def _pydantic_1() -> SimpleNamespace:
    def create_model(*values: Any, **named: Any) -> Any:
        return importlib.import_module("pydantic.v1").create_model(*values, **named)

    return SimpleNamespace(BaseModel=_OldModels("BaseModel", (), {}), create_model=create_model)


_WITHOUT: Mapping[str, Mapping[str, Callable[[], SimpleNamespace]]] = {
    "langchain_core.utils.pydantic": {"pydantic.v1": _pydantic_1},
    "langchain_core.utils.utils": {"requests": _requests, "importlib.metadata": _metadata},
    "pydantic.networks": {"importlib.metadata": _metadata},
    "pydantic.plugin._loader": {"importlib.metadata": _metadata},
}


# --- LangSmith with tracing off -----------------------------------------------------------------


class _StandIn(ModuleType):
    """A module of LangSmith as far as it matters with tracing off; the real one for all else."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if f"{self.__name__}.{name}" in _STAND_INS:
            return importlib.import_module(f"{self.__name__}.{name}")
        load_tracing()
        return getattr(importlib.import_module(self.__name__), name)


class _StandInLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(_STAND_INS[module.__name__]())


def load_tracing() -> ModuleType:
    """Load the real LangSmith instead of its stand-in, and switch its tracing off."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name, module in list(sys.modules.items()):
        if isinstance(module, _StandIn):
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
    return {**dict.fromkeys(CONTEXT), "enabled": False}


def _ignored(*_values: Any, **_named: Any) -> None:
    """Do nothing: what would be traced, is not."""


def _package() -> dict[str, Any]:
    return {
        "Client": _deferred_class("langsmith.client", "Client"),
        "RunTree": _deferred_class("langsmith.run_trees", "RunTree"),
        "get_tracing_context": _nothing_traced,
        "configure": _ignored,
    }


def _run_helpers() -> dict[str, Any]:
    return {"get_tracing_context": _nothing_traced, "_set_tracing_context": _ignored}


def _utils() -> dict[str, Any]:
    return {"tracing_is_enabled": lambda ctx=None: False}


_STAND_INS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "langsmith": _package,
    "langsmith.run_helpers": _run_helpers,
    "langsmith.utils": _utils,
    "langsmith.run_trees": dict,
    "langsmith.address": dict,
}
