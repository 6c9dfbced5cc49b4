"""Objects of known classes as documents, and back: equal, or refused with their place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from astranb.core import encoded
from astranb.core.encoded import Decoder, Encoder, Form, Kinds, require
from astranb.core.errors import InputError


class Point(NamedTuple):
    x: int
    y: float = 0.5


@dataclass(frozen=True)
class Shape:
    points: tuple[Point, ...]
    name: str = "shape"
    parts: Mapping[int, Sequence[int]] = field(default_factory=dict)
    speed: Fraction | None = None
    table: np.ndarray | None = None
    inner: Shape | Point | None = None
    pair: tuple[str, int] = ("a", 1)
    open: bool = False
    names: tuple[str, ...] = ()
    where: str = "here"

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise InputError("a bad name", where="name")


class Odd:
    """A class with a form of its own."""

    def __init__(self, text: str) -> None:
        self.text = text


KINDS = Kinds(
    [Point, Shape],
    {Odd: Form(lambda odd, _: {"text": odd.text}, lambda document, _, __: Odd(document["text"]))},
    shared=frozenset({"Shape"}),
)


def there_and_back(value: Any, hint: Any) -> Any:
    encoder = Encoder(KINDS)
    document = json.loads(json.dumps(encoder.encode(value)))
    shared = json.loads(json.dumps(encoder.shared))
    return Decoder(KINDS, encoder.arrays, encoder.files, shared).decode(document, hint, "it")


def test_what_is_written_is_read() -> None:
    one = Shape((Point(1), Point(2, 3)), speed=Fraction(1, 3), parts={4: (1, 2), 5: range(100)})
    again = there_and_back(one, Shape)
    assert again.points == one.points
    assert [type(point.y) for point in again.points] == [float, int]  # a number keeps its type
    assert (again.speed, again.pair, again.parts[4]) == (Fraction(1, 3), ("a", 1), [1, 2])
    assert again.parts[5] == list(range(100))
    assert there_and_back(Odd("text"), Odd).text == "text"
    table = np.zeros(3, [("a", "i4"), ("b", "f8")])
    assert there_and_back(Shape((), table=table), Shape).table.dtype == table.dtype
    assert there_and_back(Shape((), inner=Point(7)), Shape).inner == Point(7)


def test_objects_that_are_shared_stay_shared() -> None:
    inner = Shape((Point(1),))
    both = there_and_back([Shape((), inner=inner), Shape((), inner=inner)], list[Shape])
    assert both[0].inner is both[1].inner
    point = Point(3)
    many = there_and_back([point] * 1000, list[Point])
    assert many == [point] * 1000
    assert many[0] is many[999]
    encoder = Encoder(KINDS)
    assert len(json.dumps(encoder.encode([point] * 1000))) < 200


def test_a_place_is_not_written() -> None:
    assert "here" not in json.dumps(Encoder(KINDS).encode(Shape(())))
    assert there_and_back(Shape((), where="there"), Shape).where == "here"


@pytest.mark.parametrize(
    "value",
    [
        len, object(), Odd, [len], {"a": object()}, float("nan"), float("inf"), {1.5: 2}, {True: 1},
        b"bytes", bytearray(40), memoryview(b"bytes"), 1 << 63, -(1 << 63), np.uint64((1 << 64) - 1),
        [1 << 63] * 40,
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(value: Any) -> None:
    with pytest.raises(InputError):
        Encoder(KINDS).encode(value)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(InputError, match="too large to be written"):
        Encoder(KINDS).encode(1 << 20_000)


def test_sets_are_written_in_one_order() -> None:
    assert Encoder(KINDS).encode({"b", "a", "c"}) == ["a", "b", "c"]
    encoder = Encoder(KINDS)
    assert encoder.encode(frozenset(range(100))) == {"array": "0"}
    assert sorted(encoder.arrays["0"].tolist()) == list(range(100))


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"points": 3}, "it.points: unexpected value 3"),
        ({"points": [{"is": "Point", "x": "3"}]}, "it.points[0].x: unexpected value '3'"),
        (
            {"points": [{"is": "Point", "x": 1 << 70}]},
            "it.points[0].x: 1180591620717411303424 is out of range",
        ),
        ({"points": [{"is": "Point"}]}, "it.points[0]: Point is not valid"),
        ({"points": [{"is": "Shape"}]}, "it.points[0]: unexpected 'Shape'"),
        ({"points": [{"is": "os.system"}]}, "it.points[0]: unexpected 'os.system'"),
        ({"pionts": []}, "it: unknown field 'pionts'; did you mean 'points'?"),
        ({"name": "bad"}, "it, name: a bad name"),
        ({"name": 3}, "it.name: unexpected value 3"),
        ({"parts": {"x": [1]}}, "it.parts: 'x' is not a whole number"),
        ({"parts": {" 1": [1]}}, "it.parts: ' 1' is not a whole number"),
        ({"parts": {"1": [1], "01": [1]}}, "it.parts: '01' is not a whole number"),
        ({"parts": {"1_0": [1]}}, "it.parts: '1_0' is not a whole number"),
        ({"parts": {"1": [1.5]}}, "it.parts.1[0]: unexpected value 1.5"),
        ({"parts": {"1": {"array": "9"}}}, "it.parts.1: unexpected value"),
        ({"parts": {"1": {"array": "reals"}}}, "it.parts.1: unexpected value"),
        ({"parts": {"1": {"array": "large"}}}, "it.parts.1: a number is out of range"),
        ({"points": {"array": "whole"}}, "it.points: unexpected value"),
        ({"names": {"array": "whole"}}, "it.names: unexpected value"),
        ({"speed": "1/0"}, "it.speed: unexpected value '1/0'"),
        ({"speed": "1e999999999"}, "it.speed: unexpected value"),
        ({"table": {"array": "7"}}, "it.table: unexpected value"),
        ({"inner": {"ref": 0}}, "reference 0 does not exist"),
        ({"pair": ["a"]}, "it.pair: unexpected value ['a']"),
        ({"open": 1}, "it.open: unexpected value 1"),
        (
            {"points": {"distinct": [{"is": "Point", "x": 1}], "each": [0, 1]}},
            "it.points.each: a number beyond",
        ),
    ],
)
def test_what_is_something_else_is_refused_with_its_place(changes: dict[str, Any], text: str) -> None:
    document = {"is": "Shape", "points": [], **changes}
    arrays: dict[str, np.ndarray] = {
        "whole": np.arange(3),
        "reals": np.ones(3),
        "large": np.array([1 << 63], np.uint64),
    }
    with pytest.raises(InputError) as found:
        Decoder(KINDS, arrays).decode(document, Shape, "it")
    assert text in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("hint", [list[int], list[float], list[Any], list[str | int], list[float | None]])
def test_arrays_of_whole_numbers_are_lists_where_such_may_be(hint: Any) -> None:
    arrays: dict[str, np.ndarray] = {"0": np.array([7, -8], np.int32), "1": np.zeros(0, np.uint64)}
    assert Decoder(KINDS, arrays).decode({"array": "0"}, hint, "it") == [7, -8]
    assert Decoder(KINDS, arrays).decode({"array": "1"}, hint, "it") == []


def test_lists_that_arrays_stand_for_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "_MOST_LISTED", 1000)
    arrays = {"0": np.zeros(400, np.int8)}
    document = {str(number): {"array": "0"} for number in range(2)}
    assert len(Decoder(KINDS, arrays).decode(document, dict[int, list[int]], "it")) == 2
    with pytest.raises(InputError, match=r"it\.2: its lists have more than 1,000 numbers"):
        Decoder(KINDS, arrays).decode({**document, "2": {"array": "0"}}, dict[int, list[int]], "it")
    monkeypatch.setattr(encoded, "_LONG_LIST", 300)
    monkeypatch.setattr(encoded, "_ELEMENT_BYTES", 1 << 60)
    with pytest.raises(InputError, match="GB of memory"):
        Decoder(KINDS, arrays).decode(document, dict[int, list[int]], "it")


def test_nesting_has_an_end() -> None:
    document: dict[str, Any] = {"is": "Shape", "points": []}
    for _ in range(100):
        document = {"is": "Shape", "points": [], "inner": document}
    with pytest.raises(InputError, match="nested too deeply"):
        Decoder(KINDS, {}).decode(document, Shape, "it")
    circle = [{"is": "Shape", "points": [], "inner": {"ref": 0}}]
    with pytest.raises(InputError, match="nested too deeply"):
        Decoder(KINDS, {}, shared=circle).decode({"ref": 0}, Shape, "it")


def test_a_condition_names_the_first_row_where_it_does_not_hold() -> None:
    require(np.ones((2, 2), bool), "all")
    require(np.True_, "one")
    with pytest.raises(InputError, match="peers: out of range in row 2"):
        require(np.array([True, True, False]), "peers")
