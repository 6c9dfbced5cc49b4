"""Device files: what a section may be, and one clear line where it is not."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.hardware.reader import (
    KINDS,
    Provenance,
    number_field,
    read_device_file,
    text_field,
    write_device_file,
)


@dataclass(frozen=True)
class Machine:
    """A section with every sort of quantity."""

    units: int = number_field(1, 1000)
    delay_ps: int = number_field(0, 10**12, default=7)
    delay_ns: float = number_field(0, 10**9, whole=False, default=0.0)
    rate_Bps: int = number_field(1, 10**16, default=1)  # noqa: N815 - unit in the name
    size_bytes: int = number_field(1, 2**50, default=1)
    part: float = number_field(0, 1, whole=False, default=0.5)
    peaks: Mapping[str, int] | None = number_field(1, 10**18, keys=("bf16", "fp8"), default=None)
    tiles: tuple[tuple[float, ...], ...] = number_field(0, 512, columns=3, default=())
    text: str = text_field("")


@dataclass(frozen=True)
class Model:
    """A section that shares numbers of another one."""

    half: int = number_field(1, 10)
    units: int = number_field(1, 1000, shared="machine.units")
    delay_ns: int = number_field(0, 10**9, shared="machine.delay_ps", default=0)


SECTIONS = {"machine": Machine, "model": Model}
WORDS = {"sm_word": ("SM", "CU")}
SMALL: dict[str, Any] = {
    "format": "astranb-gpu",
    "version": 1,
    "name": "mine",
    "machine": {"units": {"value": 4, "kind": "measured", "source": "a bench"}},
    "model": {"half": 2},
}


def read(document, tmp_path, name="f.json"):
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document, indent=1))
    return read_device_file(path, "gpus", SECTIONS, WORDS)


def changed(document, place, value):
    """The document with something else at one place; ``...`` takes it away."""
    found = copy.deepcopy(document)
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return found


def test_numbers_have_values_kinds_and_sources(tmp_path):
    found = read(SMALL, tmp_path)
    assert found.make("machine", Machine) == Machine(units=4)
    assert found.sections["machine"].origins == {"units": Provenance("measured", "a bench")}
    assert found.sections["model"].origins == {"half": Provenance("assumed", "given in f.json")}
    assert (found.name, found.texts) == ("mine", {"sm_word": "SM"})


def test_units_and_tables_in_yaml(tmp_path):
    text = """
        format: astranb-gpu
        version: 1
        sm_word: CU
        machine:
          units: {value: 1e2, kind: data sheet, source: theirs}
          delay_ps: 1.5 ns
          delay_ns: 250 ps
          rate_Bps: 3.35 TB/s
          size_bytes: {value: 50 MiB, kind: assumed, source: mine}
          peaks: {value: {bf16: 989e12}, kind: data sheet, source: theirs}
          tiles: [[16, 64, 0.25]]
          text: some
    """
    found = read(text, tmp_path, "f.yaml")
    assert found.make("machine", Machine) == Machine(
        100,
        1500,
        0.25,
        3_350 * 10**9,
        50 << 20,
        peaks={"bf16": 989 * 10**12},
        tiles=((16, 64, 0.25),),
        text="some",
    )
    assert (found.name, found.texts["sm_word"]) == ("f", "CU")


def test_shared_numbers_are_those_of_the_other_section(tmp_path):
    document = changed(SMALL, ("machine", "delay_ps"), "2 us")
    assert read(document, tmp_path).make("model", Model) == Model(half=2, units=4, delay_ns=2000)
    with pytest.raises(InputError, match=r"f\.json.*: machine.units is missing, which model needs"):
        read(changed(SMALL, ("machine",), ...), tmp_path).make("model", Model)


@pytest.mark.parametrize(
    "place,value,message",
    [
        (("format",), "astranb-gpu-microbench", "f.json:2, format: 'astranb-gpu' is expected"),
        (("version",), 9, "f.json:3, version: unknown version 9; this release reads version 1"),
        (("name",), "../mine", "f.json:4, name: '../mine' is not a valid name"),
        (("name",), "", "is not a valid name"),
        (("like",), "h100-smx", "like: unknown GPU 'h100-smx'; did you mean 'h100-sxm'"),
        (("like",), "other.yaml", "like: unknown GPU 'other.yaml'"),
        (("sm_word",), "core", "sm_word: unknown 'core'; take SM, CU"),
        (("notes",), 3, "notes: unknown key 'notes'"),
        (("machine",), [], "f.json:5, machine: an object is expected, not a list"),
        (("machine", "unit"), 3, "machine.unit: unknown number 'unit'; did you mean 'units'?"),
        (("machine", "units"), 0, "f.json:6, machine.units: 0 is out of range; take 1 to 1000"),
        (("machine", "units", "value"), 10**30, "machine.units.value: a huge number is out of range"),
        (("machine", "units", "value"), 1.5, "machine.units.value: a whole number is expected, not 1.5"),
        (("machine", "units", "value"), "4 GB", "machine.units.value: a number is expected, not '4 GB'"),
        (("machine", "units", "value"), ..., "machine.units: a whole number is expected, not an object"),
        (("machine", "units", "kind"), "guessed", "units.kind: unknown 'guessed'; take measured, data"),
        (("machine", "units", "kind"), ..., "f.json:6, machine.units: 'kind' is missing"),
        (("machine", "units", "source"), ..., "machine.units: 'source' is missing"),
        (("machine", "units", "source"), " ", "machine.units.source: the source is empty"),
        (("machine", "units", "why"), "x", "machine.units.why: unknown key 'why'"),
        (("machine", "delay_ps"), "3 GB", "machine.delay_ps: unknown time unit 'GB'"),
        (("machine", "rate_Bps"), "1 GiB", "machine.rate_Bps: unknown bandwidth unit 'GiB'"),
        (("machine", "part"), float("nan"), "not JSON: NaN is not a number"),
        (("machine", "part"), True, "machine.part: a number is expected, not True"),
        (("machine", "peaks"), {"fp4": 1}, "machine.peaks.fp4: unknown key 'fp4'; did you mean 'fp8'?"),
        (("machine", "peaks"), 3, "machine.peaks: an object is expected, not 3"),
        (("machine", "tiles"), [[1, 2]], "machine.tiles[0]: 2 numbers instead of 3"),
        (("machine", "tiles"), [[1, 2, 999]], "machine.tiles[0][2]: 999 is out of range; take 0 to 512"),
        (("machine", "text"), 3, "machine.text: a string is expected, not 3"),
        (("model", "units"), 3, "model.units: unknown number 'units'"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line(place, value, message, tmp_path):
    with pytest.raises(InputError) as error:
        read(changed(SMALL, place, value), tmp_path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "f.json"))
    assert "\n" not in str(error.value)


def test_a_number_given_twice_is_named_with_its_line(tmp_path):
    text = "format: astranb-gpu\nversion: 1\nmachine:\n  units: 3\n  units: 4\n"
    with pytest.raises(InputError, match=r"f\.yaml:5: duplicate key 'units'"):
        read(text, tmp_path, "f.yaml")
    text = '{"format": "astranb-gpu", "version": 1,\n"machine": {"units": 3,\n"units": 4}}'
    with pytest.raises(InputError, match=r"f\.json:3: duplicate key 'units'"):
        read(text, tmp_path)


def test_what_is_missing_is_named_where_it_is_used(tmp_path):
    found = read(changed(SMALL, ("machine", "units"), ...), tmp_path)
    with pytest.raises(InputError, match=r"f\.json:5, machine: 'units' is missing; give it, or 'like' with"):
        found.make("machine", Machine)
    found = read(changed(SMALL, ("model",), ...), tmp_path)
    with pytest.raises(InputError, match=r"f\.json:1: section 'model' is missing; add it, or 'like' with"):
        found.make("model", Model)


@pytest.mark.parametrize(
    "text,message",
    [(b"{", "not JSON"), (b"\xff\xfe", "not JSON"), (b"[" * 100_000, "not JSON"), (b"3", "an object")],
)
def test_a_file_that_is_not_json(text, message, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    with pytest.raises(InputError, match=message) as error:
        read_device_file(path, "gpus", SECTIONS, WORDS)
    assert str(error.value).startswith(str(path))


def test_what_is_written_has_a_line_for_each_number(tmp_path):
    path = tmp_path / "out.json"
    write_device_file(SMALL, path)
    assert json.loads(path.read_text()) == SMALL
    assert ' "machine": {\n  "units": {"value": 4, "kind"' in path.read_text()
    with pytest.raises(InputError, match=r"ends in \.json; use .*\.json"):
        write_device_file(SMALL, tmp_path / "out.txt")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
UNITS = ("machine", "units")
PLACES = [
    (), ("format",), ("name",), ("like",), ("machine",), UNITS, ("machine", "peaks"), (*UNITS, "value"),
    (*UNITS, "kind"), ("machine", "tiles"), ("model",),
]  # fmt: skip


@given(anything, st.sampled_from(PLACES))
def test_arbitrary_json_is_read_or_one_line(tmp_path_factory, value, place):
    document = changed(SMALL, place, value) if place else value
    try:
        found = read(document, tmp_path_factory.mktemp("any"))
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most documents are refused
        return
    assert all(one.kind in KINDS for part in found.sections.values() for one in part.origins.values())
