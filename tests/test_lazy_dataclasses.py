"""The dataclasses of KogniTerm do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from kogniterm import lazy_dataclasses

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize(
    "dataclass", [lazy_dataclasses.dataclass, dataclasses.dataclass], ids=["lazy", "standard"]
)
KINDS = pytest.mark.parametrize(
    "options",
    [{}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}],
    ids=lambda options: "+".join(options) or "plain",
)


def made(dataclass: Decorator, **options: bool) -> Any:
    @dataclass(**options)
    class Point:
        KIND: ClassVar[str] = "point"
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)
        seen: int = field(default=0, compare=False)
        key: str = field(default="", repr=False)
        sum: int = field(init=False, default=0)
        notes: dict[str, int] = field(init=False, default_factory=dict)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.x + self.y)

    return Point


@BOTH
@KINDS
def test_objects_are_made_compared_shown_and_replaced(
    dataclass: Decorator, options: dict[str, bool]
) -> None:
    point = made(dataclass, **options)
    one = point(1, tags=["a"], seen=5, key="hidden")
    assert (one.x, one.y, one.tags, one.seen, one.sum, one.notes) == (1, 2, ["a"], 5, 3, {})
    assert repr(one).rpartition(".")[2] == "Point(x=1, y=2, tags=['a'], seen=5, sum=3, notes={})"
    assert one == point(1, 2, ["a"], 6, "hidden")
    assert one != point(1, 3, ["a"], 5, "hidden")
    assert one.__eq__("other") is NotImplemented
    assert point(1).tags is not point(1).tags
    assert replace(one, x=4).sum == 6
    assert asdict(one)["tags"] == ["a"]
    assert is_dataclass(point)
    assert [f.name for f in fields(point)] == ["x", "y", "tags", "seen", "key", "sum", "notes"]
    assert point.__match_args__ == ("x", "y", "tags", "seen", "key")
    assert hasattr(one, "__dict__") is not options.get("slots", False)
    for wrong in ({}, {"x": 1, "z": 2}, {"x": 1, "sum": 2}):
        with pytest.raises(TypeError, match="__init__"):
            point(**wrong)
    copied = copy.deepcopy(one)
    assert (copied, copied.seen) == (one, 5)


@BOTH
@KINDS
def test_only_frozen_objects_refuse_changes_and_have_a_hash(
    dataclass: Decorator, options: dict[str, bool]
) -> None:
    @dataclass(**options)
    class Name:
        first: str
        last: str = ""
        note: str = field(default="", compare=False)

    name = Name("Ada")
    if options.get("frozen"):
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'first'"):
            name.first = "Eve"
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'first'"):
            del name.first
        assert hash(name) == hash(Name("Ada", note="other"))
        assert len({name, Name("Ada"), Name("Eve")}) == 2
    else:
        name.first = "Eve"
        assert name == Name("Eve")
        with pytest.raises(TypeError, match="unhashable"):
            hash(name)


@BOTH
def test_methods_of_the_class_stay(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        value: int

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return True

    @dataclass(eq=False, slots=True)
    class Same:
        value: int

    @dataclass(frozen=True)
    class OwnStart:
        value: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "value", int(text))

    assert (repr(Own(1)), hash(Own(1)), Own(1) == Own(2)) == ("own", 7, True)
    assert Same(1) != Same(1)
    assert len({Same(1), Same(1)}) == 2
    assert OwnStart("12").value == 12


@BOTH
def test_inherited_fields_come_first_and_each_class_has_its_own_start(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        a: int
        b: int = 0

    @dataclass(frozen=True, slots=True)
    class More(Base):
        c: tuple[int, ...] = ()

    @dataclass(frozen=True, kw_only=True)
    class Named:
        d: int
        e: int = 1

    class Plain(Base):
        """A subclass that is no dataclass."""

    # The class that is used first must not give its start to the other.
    assert (More(1, 2, (3,)).c, Base(1).b, Plain(4).a) == ((3,), 0, 4)
    assert Base(1) != More(1)
    if dataclass is lazy_dataclasses.dataclass:  # the standard one fails here, for its slots
        plain = Plain(1)
        plain.other = 5  # type: ignore[attr-defined]  # as any object without slots
        with pytest.raises(FrozenInstanceError):
            plain.a = 5
    assert (Named(d=2).e, repr(Named(d=2)).rpartition(".")[2]) == (1, "Named(d=2, e=1)")
    with pytest.raises(TypeError, match="positional"):
        Named(2)


@lazy_dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    value: int
    more: tuple[str, ...] = ()


@lazy_dataclasses.dataclass
class Nested:
    inside: list[Any] = field(default_factory=list)


def test_objects_are_pickled_and_may_contain_themselves() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(Stored(1, ("a",)), protocol)) == Stored(1, ("a",))
    assert copy.copy(Stored(2)) == Stored(2)
    nested = Nested()
    nested.inside.append(nested)
    assert repr(nested) == "Nested(inside=[...])"


def test_nothing_is_compiled_before_the_first_object() -> None:
    @lazy_dataclasses.dataclass(frozen=True, slots=True)
    class Unused:
        value: int

    first = Unused.__init__
    assert Unused(1).value == 1
    assert Unused.__init__ is not first
    assert Unused.__init__.__qualname__.endswith("Unused.__init__")
    assert Unused.__init__.__module__ == Unused.__module__


def test_all_is_compiled_at_once_for_processes_that_are_forked() -> None:
    @lazy_dataclasses.dataclass(slots=True)
    class Early:
        value: int = 3

    first = Early.__init__
    lazy_dataclasses.compile_all()
    written = Early.__init__
    assert written is not first
    first(early := Early(), 5)  # type: ignore[arg-type]  # its one argument
    assert (early.value, Early().value, Early.__init__) == (5, 3, written)
