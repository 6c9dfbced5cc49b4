"""Lanes, bandwidths, latencies: who wins, and that what was assumed is said."""
# ruff: noqa: E501 - one case a line

from __future__ import annotations

import copy
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from astranb.core.errors import InputError
from astranb.infragraph import LINK_TYPES, NodeGraph, blueprint, load
from astranb.infragraph.link_properties import BANDWIDTH, Rate, pcie_Bps
from astranb.infragraph.link_types import recognise
from tests.infragraph.support import MINIMAL


def notes(**parts: Any) -> dict[str, Any]:
    """Annotations; attributes as plain dicts."""

    def listed(attributes: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"attribute": k, "value": v} for k, v in attributes.items()]

    made: dict[str, Any] = {}
    for key, entries in parts.items():
        made[key] = (
            listed(entries)
            if key == "graph"
            else [{**where, "attributes": listed(a)} for where, a in entries]
        )
    return made


def edge(graph: NodeGraph, one: str, other: str) -> int:
    a, b = graph.index(one), graph.index(other)
    (row,) = np.flatnonzero(
        ((graph.edges.a == a) & (graph.edges.b == b)) | ((graph.edges.a == b) & (graph.edges.b == a))
    )
    return int(row)


def values(graph: NodeGraph, one: str, other: str) -> tuple[int, int, int, int]:
    """Lanes, bytes a second from one to other and back, latency."""
    row = edge(graph, one, other)
    ab, ba = int(graph.edges["bandwidth_Bps"][0][row]), int(graph.edges["bandwidth_Bps"][1][row])
    if graph.edges.a[row] != graph.index(one):
        ab, ba = ba, ab
    return int(graph.edges.lanes[row]), ab, ba, int(graph.edges["latency_ps"][0][row])


GB = 10**9


def test_the_document_comes_before_the_table():
    graph = load(MINIMAL).expand()
    assert values(graph, "host.0.nic.1", "host.1.nic.1") == (1, 50 * GB, 50 * GB, 300_000)
    said = [text for text in graph.assumed if "eth400" in text]
    assert len(said) == 1
    assert re.search(r"^message rate of 'eth400', .* 330 million a second .*, 4 edges$", said[0])
    # NVLink 4: 18 lanes over two switches, from the table, and said so.
    assert values(graph, "host.0.gpu.0", "host.0.sw.1") == (9, 25 * GB, 25 * GB, 100_000)
    said = [text for text in graph.assumed if "nvlink4" in text]
    assert len(said) == 3
    assert any(
        re.search(r"bandwidth of 'nvlink4': 25 GB/s .*data sheet of H100.*, 16 edges$", t) for t in said
    )
    assert any(re.search(r"lanes of nvlink4 on 8 GPUs: 18 shared out over 2 edges as 9, 9", t) for t in said)


def test_precedence_edge_then_link_then_document():
    annotations = notes(
        links=[
            (
                {"name": "eth400"},
                {"astranb.bandwidth": "10 GBps", "astranb.lanes": "2", "astranb.latency": "7 ns"},
            )
        ],
        edges=[
            ({"ep1": "host.0.nic.1", "ep2": "host.1.nic.1"}, {"astranb.bandwidth": "3 GB/s"}),
            (
                {"ep1": "host.1.nic.2", "ep2": "host.0.nic.2"},
                {"astranb.bandwidth_fwd": "1 GB/s", "astranb.lanes": 5},
            ),
            ({"ep1": "host.0.nic.3", "ep2": "host.1.nic.3"}, {"astranb.latency": "9 us"}),
        ],
    )
    graph = load(MINIMAL, annotations=annotations).expand()
    assert values(graph, "host.0.nic.0", "host.1.nic.0") == (2, 10 * GB, 10 * GB, 7_000)
    assert values(graph, "host.0.nic.1", "host.1.nic.1") == (2, 3 * GB, 3 * GB, 7_000)
    # The annotation runs from host 1 to host 0: that way is the forward one.
    assert values(graph, "host.1.nic.2", "host.0.nic.2") == (5, 1 * GB, 10 * GB, 7_000)
    assert values(graph, "host.0.nic.2", "host.1.nic.2") == (5, 10 * GB, 1 * GB, 7_000)
    assert values(graph, "host.0.nic.3", "host.1.nic.3") == (2, 10 * GB, 10 * GB, 9_000_000)


def test_a_message_rate_is_of_the_link_then_of_the_edge():
    graph = load(MINIMAL).expand()
    between = edge(graph, "host.0.nic.0", "host.1.nic.0")
    assert graph.edges["gap_ps"][0][between] == 3031  # rounded up from 330 million a second
    assert graph.edges["gap_ps"][0][edge(graph, "host.0.gpu.0", "host.0.sw.1")] == 0
    annotations = notes(
        links=[({"name": "eth400"}, {"astranb.message_rate": "200e6"})],
        edges=[({"ep1": "host.0.nic.1", "ep2": "host.1.nic.1"}, {"astranb.message_rate": 1_000_000})],
    )
    graph = load(MINIMAL, annotations=annotations).expand()
    assert graph.edges["gap_ps"][0][between] == 5000
    assert graph.edges["gap_ps"][0][edge(graph, "host.0.nic.1", "host.1.nic.1")] == 1_000_000
    assert not any("message rate" in text for text in graph.assumed)


@pytest.mark.parametrize("rate", [0, -1, "fast", "nan", True, 1e13])
def test_what_is_no_message_rate(rate):
    annotations = notes(links=[({"name": "eth400"}, {"astranb.message_rate": rate})])
    with pytest.raises(InputError, match=r"messages per second; write 215e6"):
        load(MINIMAL, annotations=annotations).expand()


def test_the_direction_of_a_link_is_that_of_its_declaration():
    annotations = notes(
        links=[({"name": "eth400"}, {"astranb.bandwidth_fwd": "4 GB/s", "astranb.bandwidth_rev": "1 GB/s"})]
    )
    graph = load(MINIMAL, annotations=annotations).expand()
    assert values(graph, "host.0.nic.0", "host.1.nic.0")[1:3] == (4 * GB, 1 * GB)


def test_identifiers():
    def rates(ep1: str, ep2: str) -> list[int]:
        annotations = notes(edges=[({"ep1": ep1, "ep2": ep2}, {"astranb.bandwidth": "1 GB/s"})])
        graph = load(MINIMAL, annotations=annotations).expand()
        return np.flatnonzero(graph.edges["bandwidth_Bps"][0] == GB).tolist()

    graph = load(MINIMAL).expand()
    everything = rates("host", "host")
    assert len(everything) == len(graph.edges.a)
    assert rates("host.0", "host.0") == [
        i for i in range(len(graph.edges.a)) if max(graph.edges.a[i], graph.edges.b[i]) < 10
    ]
    one = [edge(graph, "host.0.gpu.0", "host.0.sw.0"), edge(graph, "host.0.gpu.2", "host.0.sw.0")]
    assert (
        rates("host[0]gpu[::2]", "host[0]sw[0]") == rates("host[0].gpu[0:4:2]", "host.0.sw.0") == sorted(one)
    )
    assert rates("host.1.gpu", "host.1.nic") == [
        edge(graph, f"host.1.gpu.{g}", f"host.1.nic.{g}") for g in range(4)
    ]
    assert graph.select("host[-1]gpu[1:3]").tolist() == [11, 12]


def test_lanes_are_shared_out_evenly():
    h100 = blueprint("dgx-h100").expand()
    for g in range(8):
        lanes = [values(h100, f"dgx_h100.0.xpu.{g}", f"dgx_h100.0.nvsw.{s}")[0] for s in range(4)]
        assert lanes == [5, 5, 4, 4]
        total = sum(
            n * values(h100, f"dgx_h100.0.xpu.{g}", f"dgx_h100.0.nvsw.{s}")[1] for s, n in enumerate(lanes)
        )
        assert total == 450 * GB
    assert any("18 shared out over 4 edges as 5, 5, 4, 4" in text for text in h100.assumed)
    a100 = blueprint("dgx-a100").expand()
    assert {values(a100, "dgx_a100.0.xpu.3", f"dgx_a100.0.nvsw.{s}")[:2] for s in range(6)} == {(2, 25 * GB)}
    mi300x = blueprint("mi300x").expand()
    assert {values(mi300x, "mi300x.0.xpu.0", f"mi300x.0.xpu.{k}")[:2] for k in range(1, 8)} == {
        (1, 56_250_000_000)
    }
    gb200 = blueprint("dgx-gb200").expand()
    assert {values(gb200, "dgx_gb200.0.xpu.0", f"dgx_gb200.0.nvsw.{s}")[:2] for s in range(18)} == {
        (1, 50 * GB)
    }
    assert values(gb200, "dgx_gb200.0.cpu.0", "dgx_gb200.0.xpu.1")[1] == 450 * GB
    dgx1 = blueprint("dgx-1").expand()
    assert {values(dgx1, "dgx1.0.xpu.0", f"dgx1.0.xpu.{k}")[:2] for k in (1, 2, 3, 4)} == {(1, 20 * GB)}


def test_lanes_between_gpus_have_to_be_spared_by_both():
    """Seven peers over 18 lanes: 3, 3, 3, 3, 2, 2, 2 at each end, in the order of its edges."""
    box = {
        "name": "h100",
        "components": [{"name": "gpu", "count": 8, "choice": "xpu"}],
        "links": [{"name": "nvlink"}],
        "edges": [
            {
                "ep1": {"component": "gpu"},
                "ep2": {"component": "gpu"},
                "scheme": "many2many",
                "link": "nvlink",
            }
        ],
    }
    graph = load({"devices": [box], "instances": [{"name": "h", "device": "h100", "count": 1}]}).expand()
    per_gpu = np.bincount(graph.edges.a, graph.edges.lanes, 8) + np.bincount(
        graph.edges.b, graph.edges.lanes, 8
    )
    assert set(graph.edges.lanes.tolist()) == {2, 3}
    assert per_gpu.max() <= 18
    assert any("fewer where the GPU at the other end" in text for text in graph.assumed)


def test_declaring_an_edge_again_is_another_lane():
    document = copy.deepcopy(MINIMAL)
    box = document["devices"][0]
    box["edges"] += [{**box["edges"][0], "ep1": {"component": "gpu[0]"}}] * 2
    graph = load(document).expand()
    assert values(graph, "host.0.gpu.0", "host.0.sw.0")[0] == 3
    assert values(graph, "host.0.gpu.1", "host.0.sw.0")[0] == 1  # the document counts lanes itself
    assert not any("shared out" in text for text in graph.assumed)


def test_a_clique_is_one_cable_a_pair():
    graph = blueprint("fully-connected:gpus=5").expand()
    assert graph.edges.lanes.tolist() == [1] * 10


def test_gigatransfers():
    document = copy.deepcopy(MINIMAL)
    document["devices"][0]["links"][1] = {
        "name": "pcie5",
        "physical": {"bandwidth": {"choice": "gigatransfers_per_second", "gigatransfers_per_second": 32}},
    }
    graph = load(document).expand()
    assert values(graph, "host.0.gpu.0", "host.0.nic.0")[:2] == (1, 63_015_384_615)
    assert any("width of 'pcie5': 16 lanes, as nothing else is specified" in text for text in graph.assumed)
    annotations = notes(
        links=[({"name": "pcie5"}, {"astranb.lanes": "8"})],
        edges=[({"ep1": "host.0.gpu.1", "ep2": "host.0.nic.1"}, {"astranb.lanes": "4"})],
    )
    graph = load(document, annotations=annotations).expand()
    # Every byte is striped over the lanes of a PCIe link: half the lanes, half the rate.
    assert values(graph, "host.0.gpu.0", "host.0.nic.0")[:3] == (1, 31_507_692_307, 31_507_692_307)
    assert values(graph, "host.0.gpu.1", "host.0.nic.1")[:3] == (1, 15_753_846_153, 15_753_846_153)


@pytest.mark.parametrize(
    "rate, width, expected",
    [("2.5", 1, 250_000_000), ("5", 1, 500_000_000), ("8", 16, 15_753_846_153), ("64", 16, 121_000_000_000)],
)
def test_pcie_encodings(rate, width, expected):
    assert pcie_Bps(Decimal(rate), width) == expected


@pytest.mark.parametrize(
    "name, description, context, expected",
    [
        ("nvlink", "", "nvidia h100 sxm5", "nvlink4"),
        ("nvlink", "", "dgx_a100", "nvlink3"),
        ("nvlink", "", "tesla v100-sxm3", "nvlink2"),
        ("nvlink", "", "gb200 tray", "nvlink5"),
        ("nvlink", "", "", "nvlink4"),
        ("NVLink-3", "", "h100", "nvlink3"),
        ("nvlink_4", "", "", "nvlink4"),
        ("xpu_fabric", "nvlink_3", "", "nvlink3"),
        ("pcie", "PCI Express PCIE_GEN4 x16", "h100", "pcie4"),
        ("pcie_gen5", "", "", "pcie5"),
        ("pci", "", "dgx_a100", "pcie4"),
        ("pcie", "", "", "pcie5"),
        ("cpu_fabric", "qpi", "", "qpi"),
        ("cpu_fabric", "infinity_fabric", "", "xgmi"),
        ("cpu_fabric", "", "", "upi"),
        ("fabric", "CPU Fabric", "", "upi"),
        ("fabric", "", "", "on-chip"),
        ("AMD Infinity Fabric", "", "", "xgmi"),
        ("Intel Ultra Path Interconnect(UPI)", "", "", "upi"),
        ("c2c_link", "", "", "nvlink-c2c"),
        ("ici", "", "", "ici"),
        ("eth400", "", "", "eth400"),
        ("eth", "", "", "eth100"),
        ("ib-ndr", "", "", "ib-ndr"),
        ("ib400", "", "", "ib-ndr"),
        ("400G", "", "", "eth400"),
        ("xbar", "", "", "on-chip"),
        ("ic", "", "", "on-chip"),
        ("rope", "", "", "unknown"),
        ("", "", "", "unknown"),
    ],
)
def test_links_are_recognised(name, description, context, expected):
    assert recognise(name, description, context)[0].name == expected


def test_every_number_of_the_table_has_a_source():
    assert {"nvlink3", "nvlink4", "nvlink5", "pcie4", "pcie5", "xgmi", "ici", "upi", "eth400"} <= set(
        LINK_TYPES
    )
    for name, kind in LINK_TYPES.items():
        assert kind.name == name
        assert kind.number(BANDWIDTH) > 0 <= kind.values["latency"].number
        assert all(value.source for value in kind.values.values())
    assert LINK_TYPES["nvlink4"].number(BANDWIDTH) * LINK_TYPES["nvlink4"].links_per_gpu == 450 * GB
    assert LINK_TYPES["nvlink3"].number(BANDWIDTH) * LINK_TYPES["nvlink3"].links_per_gpu == 300 * GB
    assert LINK_TYPES["nvlink5"].number(BANDWIDTH) * LINK_TYPES["nvlink5"].links_per_gpu == 900 * GB


def test_a_link_type_may_be_given():
    annotations = notes(links=[({"name": "pcie5"}, {"astranb.link_type": "nvlink-c2c"})])
    graph = load(MINIMAL, annotations=annotations).expand()
    assert values(graph, "host.0.gpu.0", "host.0.nic.0") == (1, 450 * GB, 450 * GB, 100_000)
    assert {link.type for link in graph.links if link.name == "pcie5"} == {"nvlink-c2c"}


def test_forwarding():
    graph = blueprint("clos:servers=2").expand()

    def forward(name: str) -> int:
        return int(graph.nodes.forward_ps[graph.index(name)])

    assert forward("host.0.nvsw.0") == forward("host.0.pciesw.0") == 100_000
    assert forward("leafsw.0.asic.0") == forward("spinesw.0.asic.0") == 500_000
    assert forward("leafsw.0.port.0") == forward("host.1.xpu.0") == 0
    assert any("NVSwitch 'nvsw': 100 ns" in text and "8 nodes" in text for text in graph.assumed)
    annotated = load(
        MINIMAL, annotations=notes(nodes=[({"name": "host.1.sw"}, {"astranb.latency": "1 us"})])
    ).expand()
    assert [int(annotated.nodes.forward_ps[annotated.index(f"host.{h}.sw.0")]) for h in (0, 1)] == [
        500_000,
        1_000_000,
    ]
    assert any(re.search(r"switch 'sw': 500 ns .* 2 nodes", text) for text in annotated.assumed)


def test_ranks_and_profiles():
    order = [3, 1, 0, 2]
    annotations = notes(
        nodes=[({"name": f"host.0.gpu.{g}"}, {"rank": str(order[g])}) for g in range(4)]
        + [({"name": f"host.1.gpu.{g}"}, {"astranb.rank": 4 + g}) for g in range(4)]
        + [
            ({"name": "host"}, {"astranb.profile": "h100-sxm"}),
            ({"name": "host[1]gpu[0]"}, {"astranb.profile": "b200"}),
        ],
    )
    infra = load(MINIMAL, annotations=annotations)
    graph = infra.expand()
    assert [graph.name(int(g)) for g in graph.gpus[:4]] == [f"host.0.gpu.{g}" for g in (2, 1, 3, 0)]
    assert infra.profile_of_gpus() == ["h100-sxm"] * 4 + ["b200"] + ["h100-sxm"] * 3
    assert graph.annotation(graph.index("host.1.gpu.0")) == {"astranb.rank": 4, "astranb.profile": "b200"}
    assert load(MINIMAL).profile_of_gpus() == [None] * 8


def test_keys_of_others_are_kept():
    annotations = notes(nodes=[({"name": "host.0"}, {"device_type": "host"})], graph={"made_by": "me"})
    infra = load(MINIMAL, annotations=annotations)
    assert infra.to_dict()["annotations"] == annotations
    assert infra.expand().annotation(0) == {"device_type": "host"}
    assert load(infra.to_dict()).to_dict() == infra.to_dict()


def one(kind: str, **attributes: Any) -> dict[str, Any]:
    where = {"nodes": {"name": "host.0.gpu.0"}, "links": {"name": "eth400"}}.get(
        kind, {"ep1": "host.0.nic.0", "ep2": "host.1.nic.0"}
    )
    return notes(**{kind: [(where, {f"astranb.{k}": v for k, v in attributes.items()})]})


@pytest.mark.parametrize(
    "annotations, said",
    [
        (one("edges", bandwith="1 GB/s"), r"annotations, edges\[0\]\.attributes\[0\]: unknown edge annotation 'astranb\.bandwith'; did you mean 'astranb\.bandwidth'"),
        (one("nodes", lanes=2), r"unknown node annotation 'astranb\.lanes'"),
        (one("edges", link_type="pcie5"), r"unknown edge annotation 'astranb\.link_type'"),
        (notes(graph={"astranb.routing": "ecmp"}), r"unknown graph annotation 'astranb\.routing'; did you mean 'astranb\.pxn'"),
        (one("links", bandwidth="400 Gb"), r"astranb\.bandwidth: unknown bandwidth unit 'Gb'"),
        (one("links", bandwidth="0 GB/s"), r"astranb\.bandwidth: bandwidth must be positive"),
        (one("links", bandwidth="x GT/s"), r"astranb\.bandwidth: "),
        (one("links", latency="-1 ns"), r"astranb\.latency: time must not be negative"),
        (one("links", latency="3000000 s"), r"astranb\.latency: latency '3000000 s' is out of range; write 0 ps to 2,305,843 s"),
        (one("edges", bandwidth_rev="9001 GB/s"), r"bandwidth '9001 GB/s' is out of range; write 1 B/s to 9000 GB/s"),
        (one("links", lanes=0), r"astranb\.lanes: 0 is not a whole number of at least 1"),
        (one("links", lanes="many"), r"'many' is not a whole number"),
        (one("links", link_type="nvlnk4"), r"unknown link type 'nvlnk4'; did you mean 'nvlink4'"),
        (one("nodes", profile=""), r"'' is not text"),
        (notes(links=[({"name": "eth40"}, {})]), r"unknown link 'eth40'; did you mean 'eth400'"),
        (notes(nodes=[({"name": "host.2"}, {})]), r"'host\.2': index 2 is outside 0 … 1"),
        (notes(nodes=[({"name": "guest.0"}, {})]), r"unknown instance 'guest'"),
        (notes(nodes=[({"name": "host.0.cpu"}, {})]), r"device 'box' has no component 'cpu'"),
        (notes(nodes=[({"name": "host[0:3]gpu"}, {})]), r"\[0:3\] runs past the 2 there are"),
        (notes(nodes=[({"name": "host]"}, {})]), r"write host\.0\.gpu\.3"),
        (notes(nodes=[({"name": ""}, {})]), r"write host\.0\.gpu\.3"),
        (notes(edges=[({"ep1": "host.0.gpu.0", "ep2": "host.1.gpu.0"}, {})]), r"annotations, edges\[0\]: no edge joins these nodes"),
        (notes(nodes=[({"name": "host.0.gpu"}, {"rank": 0})]), r"rank 0 of host\.0\.gpu\.1 is also that of host\.0\.gpu\.0"),
        (notes(nodes=[({"name": "host.0.gpu.0"}, {"rank": 0})]), r"1 of 8 GPUs have a rank annotation, host\.0\.gpu\.1 has none"),
        (notes(nodes=[({"name": "host.0.gpu.0"}, {"rank": 8})]), r"rank 8 of host\.0\.gpu\.0 is not below 8"),
        ({"nodes": [{"nam": "x"}]}, r"unknown key 'nam' in a node annotation"),
        ({"nodes": [{"name": "host", "attributes": [{"attribute": "a"}]}]}, r"an attribute needs 'value'"),
        ([], r"cannot read annotations from a list"),
    ],
)  # fmt: skip
def test_annotations_that_do_not_fit(annotations, said):
    with pytest.raises(InputError, match=said):
        load(MINIMAL, annotations=annotations).expand()


def test_annotations_from_a_file_name_their_line(tmp_path):
    file = tmp_path / "notes.yaml"
    file.write_text("nodes:\n- name: host.0\n  attributes:\n  - {attribute: astranb.latncy, value: 1 ns}\n")
    with pytest.raises(InputError, match=r"notes\.yaml:4, nodes\[0\].*did you mean 'astranb\.latency'"):
        load(MINIMAL, annotations=file)


def test_thousands_of_edge_annotations_are_quick():
    document = copy.deepcopy(MINIMAL)
    document["instances"][0]["count"] = 2000
    annotations = notes(
        edges=[
            ({"ep1": f"host.{h}.gpu.0", "ep2": f"host.{h}.sw.0"}, {"astranb.latency": f"{h + 1} ns"})
            for h in range(2000)
        ]
    )
    graph = load(document, annotations=annotations).expand()
    rows = [edge(graph, f"host.{h}.gpu.0", f"host.{h}.sw.0") for h in (0, 999, 1999)]
    assert graph.edges["latency_ps"][0][rows].tolist() == [1_000, 1_000_000, 2_000_000]


@pytest.mark.parametrize(
    "physical, said",
    [
        ("{latency: {ms: 3.0e+9}}", r"latency 3000000000\.0 is out of range; write 0 ps to 2,305,843 s"),
        (
            "{bandwidth: {gigabytes_per_second: 9001}}",
            r"bandwidth 9001 is out of range; write 1 B/s to 9000 GB/s",
        ),
        ("{bandwidth: {gigabits_per_second: .inf}}", r"bandwidth 'inf Gbps' is out of range"),
        ("{latency: {ns: 0.0001}}", r"'0\.0001 ns' is not a whole number of picoseconds"),
    ],
)
def test_numbers_of_a_document_have_a_range_and_a_line(physical: str, said: str, tmp_path: Any) -> None:
    file = tmp_path / "pair.yaml"
    file.write_text(
        "name: pair\n"
        "devices:\n"
        "- name: box\n"
        "  components: [{name: gpu, count: 2, choice: xpu}]\n"
        f"  links: [{{name: wire, physical: {physical}}}]\n"
        "  edges: [{ep1: {component: 'gpu[0]'}, ep2: {component: 'gpu[1]'}, scheme: one2one, link: wire}]\n"
        "instances: [{name: host, device: box, count: 1}]\n"
    )
    with pytest.raises(InputError, match=rf"pair\.yaml:5, devices\[0\]\.links\[0\]\.physical.*: {said}"):
        load(file)


def test_lanes_of_a_rate_in_transfers_carry_no_more_than_a_link():
    assert Rate(0, Decimal(32)).of_width(16) == 63_015_384_615
    with pytest.raises(InputError, match="bandwidth of 16 lanes of 60000 GT/s is out of range"):
        Rate(0, Decimal(60_000)).of_width(16)
