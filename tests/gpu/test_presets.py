"""Presets, shipped and in files, and measurements: what is read, and one clear line where it cannot be."""

import copy
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import astranb as anb
from astranb.core.document import DocumentNode, DocumentSource
from astranb.core.errors import InputError
from astranb.engine.cacheline.assumptions import presets_of
from astranb.gpu import PRESETS, preset, read_measured, write_preset
from astranb.gpu.presets import NUMBERS, preset_of
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
SMALL: dict[str, Any] = {
    "format": "astranb-gpu-preset",
    "version": 1,
    "name": "mine",
    "numbers": {name: getattr(PRESETS["h100-sxm"], name) for name, must in NUMBERS.items() if must},
}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_number_has_a_source(name):
    found = preset(name)
    assert found.name == name
    numbers = {f.name for f in dataclasses.fields(found) if f.type in ("int", int)}
    assert set(found.sources) == numbers
    assert all(len(text) > 5 for text in found.sources.values())
    assert all(getattr(found, n) >= 0 for n in numbers)


def test_an_unknown_preset():
    with pytest.raises(InputError, match="did you mean 'h100-sxm'"):
        preset("h100-smx")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_file_is_the_preset_again(name, tmp_path):
    write_preset(preset(name), tmp_path / "mine.json")
    again = preset(str(tmp_path / "mine.json"))
    assert again == preset(name)
    assert again.sources == preset(name).sources


def test_a_file_is_accepted_wherever_a_name_is(tmp_path):
    path = tmp_path / "few.preset.json"
    write_preset(preset("h100-sxm").but(fence_ps=0), path)
    times = []
    for gpu in (path, str(path), preset("h100-sxm").but(fence_ps=0)):
        sim = anb.Simulation("switch:gpus=2", anb.collectives.all_reduce("4 KiB"), gpu=gpu)
        sim.run()
        times.append(sim.result.time_ps)
    assert len(set(times)) == 1


def test_a_short_file_takes_what_is_usual():
    short = preset_of(DocumentNode(SMALL, DocumentSource("short.json")))
    assert (short.line_bytes, short.fence_ps, short.sources["sms"]) == (128, 0, "given in short.json")


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
    "path,value,message",
    [
        (("format",), "astranb-gpu-microbench", "`astranb gpu from` makes a preset from a measurement"),
        (("version",), 9, "unknown version 9; this release reads version 1"),
        (("name",), "../mine", "name: '../mine' is not a valid GPU name"),
        (("name",), "", "is not a valid GPU name"),
        (("numbers",), [], "numbers: an object is expected"),
        (("numbers", "sms"), ..., "numbers: 'sms' is missing"),
        (("numbers", "smss"), 3, "unknown number 'smss'; did you mean 'sms'?"),
        (("numbers", "sms"), 0, "f.json: numbers: sms must be at least 1"),
        (("numbers", "sms"), -1, "numbers.sms: -1 is out of range"),
        (("numbers", "l2_ps"), 48.5, "numbers.l2_ps: a whole number is expected"),
        (("numbers", "hbm_Bps"), 10**30, "numbers.hbm_Bps: a huge number is out of range"),
        (("numbers", "warps_per_block"), 65, "a block of 65 warps does not fit"),
        (("numbers", "columns"), 4, "a mesh needs columns and at least 2 rows"),
        (("sm_word",), "core", "sm_word: unknown 'core'; take SM, CU"),
        (("sources",), 3, "sources: an object is expected"),
        (("sources",), {"sms": 3}, "sources.sms: a string is expected"),
        (("notes",), 3, "unknown 'notes'"),
    ],
)
def test_a_bad_preset_file_is_one_line(path, value, message):
    with pytest.raises(InputError) as error:
        preset_of(DocumentNode(_changed(SMALL, path, value), DocumentSource("f.json")))
    assert message in str(error.value)
    assert str(error.value).startswith(("f.json: ", "f.json, "))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text,message",
    [(b"{", ":1: not JSON"), (b"\xff\xfe", "not JSON"), (b"[" * 100_000, "not JSON"), (b"3", "an object")],
)
def test_a_file_that_is_not_json(text, message, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    for reads in (preset, read_measured):
        with pytest.raises(InputError, match=message) as error:
            reads(str(path))
        assert str(error.value).startswith(str(path))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        preset(str(tmp_path / "none.json"))
    with pytest.raises(InputError, match=r"ends in \.json"):
        write_preset(preset("h100-sxm"), tmp_path / "mine.txt")
    with pytest.raises(InputError, match="or give a file"):
        preset("h100.jsn")


KEYS = ["", "format", "version", "device", "measured", "name", "numbers", "sources"]


@given(anything, st.sampled_from(KEYS))
def test_arbitrary_json_is_read_or_one_line(value, key):
    small = DocumentSource("f.json")
    for document, reads in ((MEASURED, read_measured), (SMALL, lambda d: preset_of(DocumentNode(d, small)))):
        message = ""
        try:
            reads(document | {key: value} if key else value)
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
