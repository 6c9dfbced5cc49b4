"""Reading, refusing and writing documents."""
# ruff: noqa: E501 - one case a line

from __future__ import annotations

import copy
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.infragraph import Infra, load, resolve
from tests.infragraph.support import MINIMAL, ours, upstream

TEXT = yaml.safe_dump(MINIMAL, sort_keys=False)
NOTED = {"nodes": [{"name": "host.0", "attributes": [{"attribute": "owner", "value": "me"}]}]}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The minimal document with one thing changed; ``path`` is keys and numbers with dots."""
    document = copy.deepcopy(MINIMAL)
    *steps, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    part: Any = document
    for step in steps:
        part = part[step]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return document


def added(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(MINIMAL)
    part: Any = document
    for step in path.split("."):
        part = part[int(step) if step.isdigit() else step]
    part.append(value)
    return document


def nested(n: int) -> dict[str, Any]:
    devices = [
        {"name": f"d{i}", "components": [{"name": f"d{i + 1}", "count": 2, "choice": "device"}]}
        for i in range(n)
    ]
    devices.append({"name": f"d{n}", "components": [{"name": "c", "count": 1, "choice": "cpu"}]})
    return {"devices": devices, "instances": [{"name": "i", "device": "d0", "count": 1}]}


def loop(*chain: str) -> dict[str, Any]:
    devices = [
        {"name": a, "components": [{"name": b, "count": 1, "choice": "device"}]}
        for a, b in zip(chain, [*chain[1:], chain[0]], strict=True)
    ]
    return {"devices": devices, "instances": [{"name": "i", "device": chain[0], "count": 1}]}


EDGE = "devices.0.edges.0"
RATE = "links.0.physical.bandwidth"
# What is wrong -> the document, and what the line has to say (where it is, and how to fix it).
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown component": (changed(f"{EDGE}.ep2.component", "nicc"), r"edges\[0\]\.ep2\.component: 'nicc': .*no component 'nicc'; did you mean 'nic'"),
    "index out of range": (changed(f"{EDGE}.ep1.component", "gpu[4]"), r"index 4 is outside 0 … 3"),
    "negative index out of range": (changed(f"{EDGE}.ep1.component", "gpu[-5]"), r"index -5 is outside 0 … 3"),
    "slice overrun": (changed(f"{EDGE}.ep1.component", "gpu[0:5]"), r"\[0:5\] runs past the 4 there are"),
    "empty slice": (changed(f"{EDGE}.ep1.component", "gpu[2:2]"), r"selects nothing"),
    "step of zero": (changed(f"{EDGE}.ep1.component", "gpu[::0]"), r"step 0"),
    "not a slice": (changed(f"{EDGE}.ep1.component", "gpu[a:b]"), r"not an index or a slice"),
    "four colons": (changed(f"{EDGE}.ep1.component", "gpu[0:1:1:1]"), r"not an index or a slice"),
    "open bracket": (changed(f"{EDGE}.ep1.component", "gpu[0"), r"no component 'gpu\[0'"),
    "inside a leaf": (changed(f"{EDGE}.ep1.component", "gpu[0].l2"), r"'gpu' of device 'box' is not a device"),
    "unequal one2one": (changed("devices.0.edges.1.ep2.component", "nic[0:3]"), r"edges\[1\]: one2one joins 4 'gpu' with 3 'nic'; make both"),
    "unknown link": (changed(f"{EDGE}.link", "nvlink"), r"unknown link 'nvlink'; did you mean 'nvlink4'"),
    "link of another scope": (changed(f"{EDGE}.link", "eth400"), r"unknown link 'eth400'"),
    "missing link": (changed(f"{EDGE}.link", None), r"a device edge needs 'link'; name one of the links"),
    "unknown key": (changed("devices.0.component", []), r"device: .*unknown key 'component' in a device; did you mean 'components'|devices\[0\]\.component: unknown key 'component' in a device; did you mean 'components'"),
    "unknown top key": (changed("device_list", []), r"unknown key 'device_list' in an infrastructure"),
    "unknown device": (changed("instances.0.device", "bxo"), r"instances\[0\]\.device: unknown device 'bxo'; did you mean 'box'"),
    "unknown instance": (changed("edges.0.ep1.instance", "hots[0]"), r"unknown instance 'hots'; did you mean 'host'"),
    "instance out of range": (changed("edges.0.ep1.instance", "host[2]"), r"index 2 is outside 0 … 1"),
    "bad choice": (changed("devices.0.components.0.choice", "gpu"), r"unknown choice 'gpu'"),
    "missing choice": (changed("devices.0.components.0.choice", None), r"component 'gpu' needs 'choice'; write choice: cpu"),
    "choice and other": (changed("devices.0.components.0.custom", {"type": "x"}), r"choice is 'xpu', but 'custom' is given too"),
    "missing name": (changed("devices.0.components.0.name", None), r"a component needs 'name'"),
    "missing count": (changed("devices.0.components.0.count", None), r"needs 'count'; write count: 1"),
    "name with a dot": (changed("devices.0.components.0.name", "g.u"), r"name 'g.u' holds '\.'; use letters"),
    "empty name": (changed("devices.0.components.0.name", ""), r"name '' is empty"),
    "name is a number": (changed("devices.0.components.0.name", 7), r"'name' is text, got '7'; put it in quotes"),
    "duplicate device": (added("devices", MINIMAL["devices"][0]), r"devices\[1\]: duplicate name 'box'"),
    "duplicate component": (added("devices.0.components", {"name": "gpu", "count": 1, "choice": "cpu"}), r"components\[3\]: duplicate name 'gpu'"),
    "duplicate link": (added("links", {"name": "eth400"}), r"duplicate name 'eth400'"),
    "duplicate instance": (added("instances", MINIMAL["instances"][0]), r"duplicate name 'host'"),
    "missing scheme": (changed(f"{EDGE}.scheme", None), r"needs 'scheme'; write scheme: one2one, many2many or ring"),
    "unknown scheme": (changed(f"{EDGE}.scheme", "all2all"), r"unknown scheme 'all2all'"),
    "ring over two sets": (changed(f"{EDGE}.scheme", "ring"), r"ring runs through one set"),
    "count zero": (changed("instances.0.count", 0), r"count 0 is not in 1"),
    "count negative": (changed("devices.0.components.0.count", -3), r"count -3 is not in 1"),
    "count too large": (changed("instances.0.count", 10**12), r"not in 1 … 2\*\*31 - 1"),
    "count is text": (changed("instances.0.count", "2"), r"whole number, got '2'"),
    "count is a truth value": (changed("instances.0.count", value=True), r"whole number, got 'True'"),
    "too many nodes": (changed("instances.0.count", 2**31 - 1), r"expands to 21,474,836,470 nodes .* GiB of memory; lower a count"),
    "too many edges": (changed("devices.0.components.0.count", 10**9), r"GiB of memory|one2one joins"),
    "itself inside": (loop("a"), r"devices\[0\]: a device contains itself: a in a"),
    "chain inside": (loop("a", "b", "c"), r"a device contains itself: a in c in b in a"),
    "nested too deeply": (nested(40), r"nested deeper than 32"),
    "nested too large": (nested(31), r"GiB of memory"),
    "device not there": (changed("devices.0.components.0.choice", "device"), r"component 'gpu' is a device, but no device has that name"),
    "no instances": (changed("instances", None), r"the document has no instances; add instances"),
    "rate without value": (changed(RATE, {"choice": "gigabits_per_second"}), r"bandwidth of link 'eth400' has no value; write gigabits_per_second: <number>"),
    "rate twice": (changed(RATE, {"gigabits_per_second": 1, "gigabytes_per_second": 1}), r"given as gigabits_per_second and as gigabytes_per_second"),
    "rate of another choice": (changed(RATE, {"choice": "gigabytes_per_second", "gigabits_per_second": 1}), r"choice is 'gigabytes_per_second', but the value is under 'gigabits_per_second'"),
    "rate zero": (changed(RATE, {"gigabits_per_second": 0}), r"bandwidth must be positive"),
    "rate negative": (changed(RATE, {"gigabits_per_second": -4}), r"must not be negative"),
    "rate not a number": (changed(RATE, {"gigabits_per_second": "400"}), r"is a number, got '400'"),
    "rate infinite": (changed(RATE, {"gigabits_per_second": float("inf")}), r"bandwidth .inf Gbps. is out of range"),
    "latency negative": (changed("links.0.physical.latency", {"ns": -1}), r"time must not be negative"),
    "latency in s": (changed("links.0.physical.latency", {"s": 1}), r"unknown key 's' in a latency"),
    "edges not a list": (changed("edges", {"a": 1}), r"'edges' is a list, got a mapping"),
    "edge not a mapping": (changed("edges.0", "host"), r"an infrastructure edge is a mapping, got 'host'"),
    "old: connections": (changed("connections", []), r"syntax before 1\.0 \('connections'.*write edges"),
    "old: type": (changed("devices.0.components.0.type", "xpu"), r"syntax before 1\.0 \('type'.*write choice"),
    "old: bandwidth": (changed("links.0.bandwidth", {}), r"syntax before 1\.0 \('bandwidth'.*write physical"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("form", ["dict", "yaml", "json"])
def test_what_is_wrong_is_said_in_one_line_with_its_place(what, form, tmp_path):
    document, said = WRONG[what]
    source: Any = document
    if form == "yaml":
        source = tmp_path / "cluster.yaml"
        source.write_text(yaml.safe_dump(document, sort_keys=False))
    elif form == "json":
        source = tmp_path / "cluster.json"
        source.write_text(json.dumps(document, indent=1).replace("Infinity", "1e999"))
    with pytest.raises(InputError, match=said) as caught:
        load(source)
    line = str(caught.value)
    assert "\n" not in line
    if form != "dict":
        assert re.match(r".*cluster\.(yaml|json):\d+[,:]", line), line


def test_the_line_is_the_right_one(tmp_path):
    lines = TEXT.splitlines()
    number = next(i for i, text in enumerate(lines) if "component: sw" in text)
    lines[number] = lines[number].replace("sw", "sv")
    file = tmp_path / "c.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(
        InputError, match=rf"c\.yaml:{number + 1}, devices\[0\]\.edges\[0\]\.ep2\.component: "
    ):
        load(file)


@pytest.mark.parametrize(
    "text, said",
    [
        ("a: [1\nb: 2", r"<infrastructure>:2: not YAML"),
        ("name: x\nname: y", r"<infrastructure>:2: duplicate key 'name'; keep one"),
        ('{"name": "x",\n "name": "y"}', r"duplicate key 'name'"),
        ("- a\n- b", r"an infrastructure is a mapping, got a list"),
        ("\n", r"an infrastructure is a mapping, got nothing"),
        ("a: &x [*x]\n", r"alias \*x has no anchor before it"),
        ("a: *nowhere\n", r"alias \*nowhere has no anchor"),
        ("name: !!python/object:os.system x\n", r"not plain data"),
        ("a: 1\n---\nb: 1\n", r"more than one document"),
        ("yes: 1\n", r"unknown key 'yes' in an infrastructure"),
        ("[a]: 1\n", r"a list or mapping as a key; take a string"),
        ("name: !!int x\n", r"'x' is not of type int"),
        ("name: " + "[" * 200_000 + "\n", r"nested deeper than 100"),
        ("name: " + "{a: " * 5_000 + "\n", r"nested deeper than 100"),
        ('{"a": ' * 100_000 + "\n", r"nested deeper than 100"),
        ("a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 10)}]\n" for i in range(9)), r"more than 5,000,000 values"),
        ('{"name": 0x}', r"no instances"),
        ("\x00\n", r"not YAML"),
    ],
)  # fmt: skip
def test_text_that_is_no_document(text, said):
    with pytest.raises(InputError, match=said) as caught:
        load(text)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "cluster.yaml").write_text(TEXT)
    with pytest.raises(
        InputError, match=r"clustr\.yaml: No such file or directory; did you mean 'cluster\.yaml'"
    ):
        load(tmp_path / "clustr.yaml")
    with pytest.raises(InputError, match="this is a folder"):
        load(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(InputError, match=r"latin\.yaml: not YAML: byte 9 is not UTF-8"):
        load(tmp_path / "latin.yaml")
    (tmp_path / "broken.json").write_text('{"name": "x",\n "devices": [}\n')
    with pytest.raises(InputError, match=r"broken\.json:2: not JSON"):
        load(tmp_path / "broken.json")
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="not a regular file"):
        load(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="cannot read infrastructure from a int"):
        load(3)
    with pytest.raises(InputError, match=r"No such file or directory|cannot be read"):
        load("a\0b.yaml")


def test_every_way_in_gives_the_same(tmp_path):
    infra = load(MINIMAL)
    as_json = json.dumps(MINIMAL)
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (tmp_path / "a.json").write_text(as_json)
    sources: list[Any] = [
        TEXT,
        as_json,
        tmp_path / "a.yaml",
        str(tmp_path / "a.json"),
        infra,
        infra.to_infragraph(),
    ]
    for source in sources:
        assert ours(load(source).expand()) == ours(infra.expand())
    assert load(tmp_path / "a.yaml").to_dict() == MINIMAL
    assert resolve(str(tmp_path / "a.yaml")).name == "tiny"
    assert ours(infra.expand()) == upstream(infra.to_infragraph())


def test_anchors_and_merge_keys():
    text = TEXT.replace("- name: host\n", "- &one\n  name: host\n") + "x: 1\n"
    text = text.replace("x: 1\n", "")
    merged = text.replace("edges:\n- ep1:\n    instance", "EDGES").replace(
        "  count: 2\nEDGES", "  count: 2\n- <<: *one\n  name: guest\n  count: 1\nedges:\n- ep1:\n    instance"
    )
    infra = load(merged)
    assert [i["name"] for i in infra.to_dict()["instances"]] == ["host", "guest"]
    assert infra.to_dict()["instances"][1]["device"] == "box"


@pytest.mark.parametrize("suffix", ["yaml", "yml", "json"])
@pytest.mark.parametrize("annotations", [None, NOTED])
def test_round_trip_is_exact(suffix, annotations, tmp_path):
    infra = load(MINIMAL, annotations=annotations)
    path = tmp_path / f"out.{suffix}"
    infra.save(path)
    again = load(path)
    assert again.to_dict() == infra.to_dict() == load(infra.to_dict()).to_dict()
    assert (again.to_dict() == MINIMAL) == (annotations is None)
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208 - no temporary file is left
    assert stat.S_IMODE(path.stat().st_mode) & 0o444


def test_saving_fails_whole(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        load(MINIMAL).save(tmp_path / "no" / "such.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "folder.yaml" / "x").touch()
    with pytest.raises(InputError, match="cannot be written"):
        load(MINIMAL).save(tmp_path / "folder.yaml")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.yaml"]


def test_the_document_is_the_callers_own():
    document = copy.deepcopy(MINIMAL)
    infra = load(document)
    document["devices"].clear()
    infra.to_dict()["instances"].clear()
    assert infra.to_dict() == MINIMAL


def test_nothing_of_a_name_becomes_markup():
    document = changed("name", "<script>alert(1)</script>"[1:7])
    document["name"] = "<img src>"
    with pytest.raises(InputError, match="holds"):
        load({**document, "name": "<img src=x>"})
    page = load({**document, "devices": [{**MINIMAL["devices"][0], "description": "<b>"}]})._repr_html_()
    assert "<img src>" not in page
    assert "&lt;img src&gt;" in page


def test_summary_and_check():
    infra = load(added("devices.0.components", {"name": "idle", "count": 3, "choice": "custom"}))
    said = infra.summary()
    assert json.loads(json.dumps(said)) == said
    assert (said["name"], said["nodes"], said["edges"], said["gpus"]) == ("tiny", 26, 28, 8)
    assert said["connected_components"] == 7
    assert said["node_types"] == {"None": 6, "nic": 8, "switch": 4, "xpu": 8}
    warned = " | ".join(infra.check())
    assert "custom component 'idle' of device 'box' has no type" in warned
    assert "6 nodes have no edge: host.0.idle.0" in warned
    assert "fall into 7 parts" in warned
    assert load(MINIMAL).check() == []
    assert repr(infra) == "<Infra 'tiny': 26 nodes, 8 GPUs>"


def test_ports_may_stay_free():
    document = changed("devices.0.components.2", {"name": "nic", "count": 4, "choice": "port"})
    document["devices"][0]["edges"][1]["ep1"]["component"] = "gpu[0:2]"
    infra = load(document)
    assert ours(infra.expand()) == upstream(document)
    assert "uses the first 2 of 4 'nic'" in infra.check()[0]


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        assert isinstance(load(text + "\n"), Infra)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either way is right


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**10), st.floats(), st.text(max_size=5), st.just([]), st.just({}),
    st.sampled_from(["gpu", "gpu[0]", "host", "box", "many2many", "ring", "device", "nvlink4", "gpu[::-1]"]),
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_mutated_documents_are_read_or_refused(data):
    document: dict[str, Any] = {"infrastructure": copy.deepcopy(MINIMAL), "annotations": copy.deepcopy(NOTED)}
    for _ in range(data.draw(st.integers(1, 3))):
        part: Any = document
        while True:
            keys = list(part) if isinstance(part, dict) else list(range(len(part)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(part[key], dict | list) and part[key] and data.draw(st.integers(0, 4)):
                part = part[key]
                continue
            how = data.draw(st.sampled_from(["value", "remove", "add", "swap"]))
            if how == "value":
                part[key] = data.draw(VALUES)
            elif how == "remove":
                del part[key]
            elif isinstance(part, dict):
                part[data.draw(st.sampled_from(["name", "count", "physical", "x", "ep1", "device"]))] = (
                    data.draw(VALUES)
                )
            else:
                part.append(data.draw(VALUES))
            break
    for source in (document, yaml.safe_dump(document)):
        try:
            load(source).summary()
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 - either way is right


def test_reference_files_of_the_old_syntax():
    folder = Path(__file__).resolve().parents[3] / "shared" / "reference" / "infragraph" / "obsolete_examples"
    if not folder.is_dir():
        pytest.skip("the shared folder with old examples is not here")
    files = sorted(folder.glob("*.yaml"))
    assert len(files) == 9
    for file in files:
        with pytest.raises(InputError, match=r"\.yaml:\d+, .*InfraGraph syntax before 1\.0 .*; write "):
            load(file)
