"""`dataclass` as in the standard library, whose `__init__` is written when it is first called.

`dataclasses.dataclass` compiles the text of up to six methods for every class: 0.8 ms for a frozen
class on a slow machine, and for all of a session's classes a third of its imports, although most of
them make no object (Python 3.11; 3.13 is faster, not free). Here only `__init__` is compiled, once
for each class that is used. The other methods compare, hash and print by the fields' names.

Classes are real dataclasses: `fields`, `replace`, `asdict` and `is_dataclass` take them. Of the
options only those exist that are used. That fields without a default come first is not checked
before the first object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeAlias

Fields: TypeAlias = "tuple[dataclasses.Field[Any], ...]"

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        eq: bool = True,
        kw_only: bool = False,
    ) -> Any:
        """Make a dataclass, as `dataclasses.dataclass` does with the same options."""

        def make(cls: type) -> type:
            return _made(cls, frozen=frozen, slots=slots, eq=eq, kw_only=kw_only)

        return make if cls is None else make(cls)


def _made(cls: type, *, frozen: bool, slots: bool, eq: bool, kw_only: bool) -> type:
    has_own_hash = _has_own_hash(cls)
    bare = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    made: type[Any] = bare(cls)
    every = dataclasses.fields(made)
    methods: dict[str, Callable[..., Any]] = {"__repr__": _repr}
    if "__init__" not in vars(made):
        methods["__init__"] = _first_init(made, frozen)
    if eq:
        methods |= _comparing(every)
    if frozen:
        methods |= _freezing(made, every)
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in vars(made):
            setattr(made, name, method)
    if eq and not has_own_hash:
        made.__hash__ = _hashing(every) if frozen else None  # type: ignore[assignment]  # not hashable
    return made


def _has_own_hash(cls: type) -> bool:
    """Return whether the class body has a `__hash__`, not the None that an `__eq__` leads to."""
    body = vars(cls)
    return "__hash__" in body and not (body["__hash__"] is None and "__eq__" in body)


# --- the methods that need no text of their own -------------------------------------------------


def _values(names: list[str]) -> Callable[[Any], Any]:
    """Return a function that gives the values of these fields as one value to compare or hash."""
    return attrgetter(*names) if names else lambda _value: ()


def _comparing(every: Fields) -> dict[str, Callable[..., Any]]:
    values = _values([one.name for one in every if one.compare])

    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return {"__eq__": equal}


def _hashing(every: Fields) -> Callable[[Any], int]:
    values = _values([f.name for f in every if (f.compare if f.hash is None else f.hash)])
    return lambda self: hash(values(self))


def _freezing(cls: type, every: Fields) -> dict[str, Callable[..., Any]]:
    names = frozenset(one.name for one in every)

    def assign(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # type: ignore[arg-type]  # it is a class

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)  # type: ignore[arg-type]  # as above

    return {"__setattr__": assign, "__delattr__": delete}


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[Any]:
    """Return the values to copy and pickle; the default would assign to the fields."""
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


# --- the method that has a text of its own ------------------------------------------------------


_unwritten: dict[type, bool] = {}
"""Classes whose `__init__` is not compiled yet, and whether their objects are frozen."""


def compile_all() -> None:
    """Compile what is missing, in a process that others are forked from."""
    for cls in list(_unwritten):
        _compile(cls)


def _first_init(cls: type, frozen: bool) -> Callable[..., None]:
    _unwritten[cls] = frozen

    def initialize(self: Any, *values: Any, **named: Any) -> None:
        _compile(cls)(self, *values, **named)

    return initialize


def _compile(cls: type) -> Callable[..., None]:
    """Give the class its own `__init__` for good, and return it."""
    frozen = _unwritten.get(cls)
    if frozen is not None:  # another thread may have been faster
        cls.__init__ = _written_init(cls, frozen)  # type: ignore[misc]  # in the place of the first
        _unwritten.pop(cls, None)
    written: Callable[..., None] = vars(cls)["__init__"]
    return written


def _written_init(cls: type, frozen: bool) -> Callable[..., None]:
    """Return the `__init__` of a dataclass, compiled from its fields."""
    every = dataclasses.fields(cls)
    # Tracebacks and warnings name the module of the class.
    known: dict[str, Any] = {"__name__": cls.__module__}
    known |= {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    lines = []
    for one in every:
        value = _value_in_init(one, known)
        if value:
            lines.append(
                f"_set(self, {one.name!r}, {value})" if frozen else f"self.{one.name} = {value}"
            )
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    asked = [one for one in every if one.init]
    named = [_parameter(one) for one in asked if one.kw_only]
    parameters = ["self", *(_parameter(one) for one in asked if not one.kw_only)]
    parameters += ["*", *named] if named else []
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"])
    exec(text, known)  # as the standard library does; names of fields are identifiers
    written: Callable[..., None] = known["__init__"]
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    return written


def _value_in_init(field: dataclasses.Field[Any], known: dict[str, Any]) -> str:
    """Return the value that `__init__` gives a field, "" for none; add to `known` what it names."""
    name = f"_default_{field.name}"
    if field.default_factory is not dataclasses.MISSING:
        known[name] = field.default_factory
        made = f"{name}()"
        return f"{made} if {field.name} is _missing else {field.name}" if field.init else made
    if field.default is not dataclasses.MISSING:
        known[name] = field.default
        return field.name if field.init else name
    return field.name if field.init else ""


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"{field.name}=_missing"
    has_default = field.default is not dataclasses.MISSING
    return f"{field.name}=_default_{field.name}" if has_default else field.name
