"""Measurements of a GPU, and the presets that an infrastructure suggests."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline.assumptions import presets_of
from astranb.gpu import read_measured
from astranb.net import compile_fabric

MEASURED: dict[str, Any] = {
    "format": "astranb-gpu-microbench",
    "version": 1,
    "device": {"name": "NVIDIA H100", "sms": 132, "clock_MHz": 1980.0, "memory_GBps": None},
    "measured": [
        {"what": "memory", "value": 421, "unit": "ns", "spread": 2.0},
        {"what": "kernel launch", "value": 2.4, "unit": "us"},
        {"what": "copy to a peer, 8 blocks", "value": 0.1, "unit": "TB/s"},
    ],
}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def test_what_is_measured_comes_in_one_unit():
    found = read_measured(MEASURED)
    assert found.rows == {"memory": 421, "kernel launch": 2400, "copy to a peer, 8 blocks": 100}
    assert (found.facts, found.clock_MHz, found.memory_GBps) == ({"sms": 132}, 1980, None)
    assert found.copies() == {8: 100}


def _changed(document, path, value):
    """The document with something else at one place; ``...`` takes it away."""
    changed = copy.deepcopy(document)
    *parents, last = path
    inner = changed
    for key in parents:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return changed


@pytest.mark.parametrize(
    "path,value,message",
    [
        (("format",), "astranb-gpu-preset", "format: 'astranb-gpu-microbench' is expected"),
        (("format",), ..., "'format' is missing"),
        (("version",), 2, "version: unknown version 2"),
        (("version",), "1", "version: a whole number is expected"),
        (("device",), ..., "'device' is missing"),
        (("device",), [], "device: an object is expected, not a list"),
        (("device", "name"), 3, "device.name: a string is expected"),
        (("device", "sms"), 0, "device.sms: 0 is out of range; take 1 to 2048"),
        (("device", "sms"), 1.5, "device.sms: a whole number is expected"),
        (("device", "clock_MHz"), float("nan"), "device.clock_MHz: nan is out of range"),
        (("measured",), ..., "'measured' is missing"),
        (("measured",), {}, "measured: a list is expected"),
        (("measured",), [], "measured: no measurements; give at least one of"),
        (("measured", 0), 7, "measured[0]: an object is expected"),
        (("measured", 0, "what"), "memroy", "measured[0].what: unknown measurement 'memroy'"),
        (("measured", 0, "what"), "copy to a peer, 0 blocks", "did you mean 'copy to a peer, 1 blocks'"),
        (("measured", 0, "value"), -4, "measured[0].value: -4 is out of range"),
        (("measured", 0, "value"), float("inf"), "measured[0].value: inf is out of range"),
        (("measured", 0, "value"), "421", "measured[0].value: a number is expected"),
        (("measured", 0, "value"), True, "measured[0].value: a number is expected"),
        (("measured", 0, "value"), 10**400, "measured[0].value: a huge number is out of range"),
        (("measured", 0, "unit"), "GB/s", "measured[0].unit: unknown 'GB/s'; take ns, us, ms"),
        (("measured", 1), MEASURED["measured"][0], "duplicate row 'memory'"),
    ],
)
def test_a_bad_measurement_is_one_line(path, value, message):
    with pytest.raises(InputError) as error:
        read_measured(_changed(MEASURED, path, value))
    assert message in str(error.value)
    assert str(error.value).startswith(("measurement: ", "measurement, "))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text,message",
    [(b"{", ":1: not JSON"), (b"\xff\xfe", "not JSON"), (b"[" * 100_000, "not JSON"), (b"3", "an object")],
)
def test_a_measurement_that_is_not_json(text, message, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    with pytest.raises(InputError, match=message) as error:
        read_measured(str(path))
    assert str(error.value).startswith(str(path))


@given(anything, st.sampled_from(["", "format", "version", "device", "measured"]))
def test_arbitrary_json_is_a_measurement_or_one_line(value, key):
    message = ""
    try:
        read_measured(MEASURED | {key: value} if key else value)
    except InputError as error:
        message = str(error)
    assert "\n" not in message


@given(st.dictionaries(st.sampled_from(["what", "value", "unit", "spread"]), anything))
def test_arbitrary_rows(row):
    try:
        found = read_measured(MEASURED | {"measured": [row]})
    except InputError:
        return
    assert all(value > 0 for value in found.rows.values())


def test_the_documents_are_json():
    assert read_measured(json.loads(json.dumps(MEASURED))) == read_measured(MEASURED)


@pytest.mark.parametrize("infra, gpu", [("dgx-gb200", "gb200"), ("dgx-h100", "h100-sxm")])
def test_an_infrastructure_suggests_its_gpu(infra, gpu):
    machine = anb.infragraph.blueprint(infra)
    found, notes = presets_of(machine, compile_fabric(machine.expand()), None)
    assert {one.name for one in found} == {gpu}
    assert gpu in notes[0]


@pytest.mark.parametrize(
    "name, gpu",
    [
        ("8xH100", "h100-sxm"), ("dgx_h20", "h20-sxm"), ("my-h20-8", "h20-sxm"), ("gh200", "h200-sxm"),
        ("mesh20", "h100-sxm"), ("h200-box", "h200-sxm"), ("gb200x", "gb200"), ("b200", "b200-sxm"),
    ],
)  # fmt: skip
def test_a_name_is_a_gpus_only_as_a_word(name, gpu):
    document = anb.infragraph.blueprint("switch:gpus=2").to_dict() | {"name": name}
    machine = anb.infragraph.load(document)
    found, _ = presets_of(machine, compile_fabric(machine.expand()), None)
    assert found[0].name == gpu
