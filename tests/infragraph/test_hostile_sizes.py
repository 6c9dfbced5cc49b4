"""Large and hostile documents, each of which takes minutes where a search is quadratic."""

import json
import random
import re

import pytest

from astranb.core.errors import InputError, near
from astranb.infragraph import load
from astranb.infragraph.link_types import forwarding, recognise


def _box(**more):
    components = [{"name": "gpu", "count": 8, "choice": "xpu"}, {"name": "nic", "count": 8, "choice": "nic"}]
    return {"name": "box", "components": components, "links": [{"name": "nvlink"}], "edges": []} | more


def _document(**more):
    instances = [{"name": "host", "device": "box", "count": 4}]
    return {"name": "x", "devices": [_box()], "links": [{"name": "eth"}], "instances": instances} | more


def _one_edge(ep1, ep2, link):
    return {"ep1": ep1, "ep2": ep2, "scheme": "one2one", "link": link}


def _read(document):
    infra = load(json.dumps(document))
    infra.expand()
    return infra


def test_many_annotations_of_one_link():
    notes = [{"name": "eth", "attributes": [{"attribute": f"a{n}", "value": n}]} for n in range(100_000)]
    notes.append({"name": "eth", "attributes": [{"attribute": "a7", "value": "last"}]})
    infra = _read({"infrastructure": _document(), "annotations": {"links": notes}})
    found = infra._annotations.links["eth"].attributes
    assert (len(found), found["a7"], found["a8"]) == (100_000, "last", 8)


@pytest.mark.parametrize("text", ["asic" * 2_000_000, "asic " * 2_000_000, "gen" + " " * 8_000_000])
def test_a_long_description(text):
    cpu = {"name": "cpu", "count": 1, "choice": "cpu"}
    _read(
        _document(
            devices=[_box(description=text, components=[cpu])], links=[{"name": "pcie", "description": text}]
        )
    )


def test_a_long_description_of_a_device_with_many_parts():
    parts = [{"name": f"cpu{n}", "count": 1, "choice": "cpu"} for n in range(20_000)]
    links = [{"name": f"nvlink x{n}"} for n in range(10_000)]
    device = _box(description="asic" * 500_000, components=parts, links=links)
    _read(_document(devices=[device]))


def test_many_devices_with_links():
    devices = [_box(name=f"box{n}") for n in range(20_000)]
    instances = [{"name": f"host{n}", "device": f"box{n}", "count": 1} for n in range(20_000)]
    assert len(_read(_document(devices=devices, instances=instances)).expand()) == 320_000


@pytest.mark.parametrize("last", ["d0", "box"])
def test_a_long_chain_of_devices_is_one_line(last):
    n = 50_000
    inner = [*(f"d{k + 1}" for k in range(n - 1)), last]
    devices = [
        {"name": f"d{k}", "components": [{"name": inner[k], "count": 1, "choice": "device"}]}
        for k in range(n)
    ]
    with pytest.raises(InputError, match=r"contains itself: .* …|nested deeper than 32") as caught:
        load(_document(devices=[*devices, _box()]))
    assert len(str(caught.value)) < 1000


def test_annotations_that_select_everything_again_and_again_are_refused():
    value = [{"attribute": "astranb.latency", "value": "5 ns"}]
    instances = [{"name": "host", "device": "box", "count": 10_000}]
    for kind, names in (("nodes", ("name",)), ("edges", ("ep1", "ep2"))):
        notes = [{**dict.fromkeys(names, "host"), "attributes": value}] * 2_000
        with pytest.raises(InputError, match=r"the annotations select .* nodes, with repetitions"):
            load({"infrastructure": _document(instances=instances), "annotations": {kind: notes}})


def test_lines_are_looked_up_for_errors_only():
    link = {"name": "eth", "physical": {"bandwidth": {"gigabytes_per_second": 25}, "latency": {"ns": 5}}}
    infra = load(json.dumps(_document(links=[link])))
    assert "_lines" not in vars(infra._source)
    link["physical"] = {"latency": {"ns": -5}}
    with pytest.raises(InputError, match=r":1, links\[0\].physical.latency.ns: time must not be negative"):
        load(json.dumps(_document(links=[link])))


def test_an_error_about_a_long_name_is_short():
    name = "[" * 1_000_000
    edge = _one_edge(
        {"instance": "host[0]", "component": name}, {"instance": "host[1]", "component": "nic"}, "eth"
    )
    with pytest.raises(InputError) as caught:
        load(_document(edges=[edge]))
    assert len(str(caught.value)) < 5000
    assert near("x" * 10_000, ["x" * 9_000 + str(n) for n in range(1000)]).startswith("known")
    assert near("gpu1x", [f"gpu{n}" for n in range(100_000)]).startswith("did you mean")


_FORWARDED = {
    "SWITCH": [
        (r"nv[ _-]?l?(?:ink)?[ _-]?sw", "NVSwitch"),
        (r"pci|plx", "PCIe switch"),
        (r"infiniband|quantum", "InfiniBand switch"),
    ],
    "CPU": [(r"asic.*switch", "Ethernet switch")],
}


def test_what_forwards_is_recognised_as_by_one_search_of_all_texts():
    draw = random.Random(17)
    words = [
        "asic",
        "switch",
        "nv",
        "nvl",
        "ink",
        "sw",
        " ",
        "-",
        "\n",
        "pci",
        "x",
        "a long word",
        "quantum",
        "plx",
    ]
    for _ in range(5000):
        name, said, device = ("".join(draw.choices(words, k=draw.randrange(4))) for _ in range(3))
        inside = f"{name} {said}"
        for kind, patterns in _FORWARDED.items():
            expected = next(
                (
                    label
                    for text in (name, inside, f"{inside} {device}")
                    for pattern, label in patterns
                    if re.search(pattern, text)
                ),
                {"SWITCH": "Ethernet switch", "CPU": "CPU"}[kind],
            )
            assert forwarding(kind, name, inside, device)[1] == expected, (kind, name, said, device)


def test_the_generation_is_that_of_the_first_pattern_in_any_text():
    assert recognise("nvlink", "", "a box of a100", "h100 p100")[0].name == "nvlink4"
    assert recognise("nvlink", "", "nothing", "")[1] == "the generation is not specified"
