"""GPUs leave their boxes by their own NICs: who has which, by hand, and how long messages take then."""

import contextlib
import io
import json
from itertools import pairwise

import numpy as np
import pytest

import astranb as anb
from astranb.chakra import TraceBuilder, write
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.infragraph import NodeKind, blueprint, load
from astranb.net import compile_fabric
from astranb.net.message_routing import message_routes

# Gbps that the NICs of a GPU have together, by hand: (Gbps of a NIC) * NICs / GPUs; where GPUs share a NIC
# each may use it whole while the other does not.
GIGABITS = {
    "dgx-h100": 400, "dgx-b200": 400, "ndv5": 400, "mi300x": 400, "dgx-gb200": 400,
    "server": 8 * 31.5,  # PCIe 4 x16 is slower than its NIC
    "dgx-a100": 200, "a3-mega": 200, "a3-high": 200, "p5": 4 * 100, "p5en": 2 * 200,
    "p4d": 100, "ndv4": 200, "h100-nvl": 400, "dgx-1": 100, "dgx-2": 100,
}  # fmt: skip
FABRICS = ("single-tier:servers=2", "rails:servers=2", "clos:servers=2", "fat-tree:servers=2")
PCIE_NS, NIC_NS, CABLE_NS, SWITCH_NS = 250, 300, 150, 500
"""Each of 2 PCIe links a box and of the NIC; each cable; each switch (see ``infragraph/link_types.py``)."""


def fabric(name):
    return compile_fabric(blueprint(name).expand())


def kinds(graph, nodes):
    return [NodeKind(int(graph.nodes.kind[node])) for node in nodes]


@pytest.mark.parametrize("server", GIGABITS)
@pytest.mark.parametrize("name", FABRICS)
def test_every_message_between_boxes_has_its_own_nics(name, server):
    f = fabric(f"{name},server={server}")
    each = len(f.gpus) // 2
    pairs = [(a, each + b) for a in range(each) for b in range(0, each, 3)] + [(each, 1)]
    found = message_routes(f, pairs, len(f.gpus))
    assert np.unique(found.routes.rate_Bpns).tolist() == pytest.approx([GIGABITS[server] / 8])
    lines, _ = f.routes(pairs)
    src, dst = f.ends
    mine: dict[int, set[int]] = {}
    for (source, _), ways in lines.items():
        for way in ways:
            nodes = [int(src[way[0]]), *dst[way].tolist()]
            steps = kinds(f.graph, nodes)
            outside = steps.index(NodeKind.NIC), len(steps) - 1 - steps[::-1].index(NodeKind.NIC)
            host = [*steps[1 : outside[0]], *steps[outside[1] + 1 : -1]]
            assert NodeKind.XPU not in host
            assert not any(a == b == NodeKind.CPU for a, b in pairwise(host))
            mine.setdefault(source, set()).add(nodes[outside[0]])
    nics = [nic for source in range(each) for nic in sorted(mine[source])]
    in_box = len(f.graph.kinds(NodeKind.NIC)) // 2
    assert len(set(nics)) == in_box  # all are in use, and by as few GPUs as can be
    assert max(nics.count(nic) for nic in nics) == max(1, each // in_box)
    assert f.remarks == []


def messages_ms(tmp_path, infra, pairs, size="64 MiB", *more):
    """Milliseconds until messages have arrived that are sent at once."""
    ranks = len(blueprint(infra).expand().gpus)
    sends = dict(pairs)
    receives = {b: a for a, b in pairs}
    for rank in range(ranks):
        builder = TraceBuilder()
        if rank in sends:
            builder.send(size, sends[rank], rank=rank)
        if rank in receives:
            builder.recv(size, receives[rank], rank=rank)
        write(builder.build(), tmp_path / f"x.{rank}.et")
    system = {"scheduling-policy": "LIFO", "endpoint-delay": 0, "active-chunks-per-dimension": 1,
              "preferred-dataset-splits": 1, "collective-optimization": "localBWAware",
              "local-mem-bw": 1_000_000,
              **{f"{name}-implementation": ["ring"] for name in
                 ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")}}  # fmt: skip
    (tmp_path / "system.json").write_text(json.dumps(system))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main(["run", "trace", str(tmp_path / "x"), "--system", str(tmp_path / "system.json"),
                     "--infra", infra, "--fidelity", "congestion", "--json", *more])  # fmt: skip
    assert code == 0
    return json.loads(printed.getvalue())["time_ps"] / 1e9


def by_hand_ms(size, gigabytes, switches):
    """The bytes over the bottleneck, and what the first needs: cables before and behind each switch."""
    ns = 4 * PCIE_NS + 2 * NIC_NS + (switches + 1) * CABLE_NS + switches * SWITCH_NS
    return 1e3 * size / (gigabytes * 1e9) + ns / 1e6


CROSS = [(r, 8 + (r + 4) % 8) for r in range(8)]
SAME = [(r, 8 + r) for r in range(8)]
"""Eight messages from a box to the next one: to GPUs on other rails, and to those on the same."""


@pytest.mark.parametrize(
    "infra, pairs, gigabytes, switches",
    [
        ("rails:servers=2", SAME, 50, 1),
        ("rails:servers=2", CROSS, 50, 3),
        ("clos:servers=2", SAME, 50, 3),
        ("clos:servers=2", CROSS, 50, 3),
        ("fat-tree:servers=32", CROSS, 50, 1),  # two servers a rack
        ("fat-tree:servers=4,ports=16", CROSS, 50, 3),
        ("single-tier:servers=2", CROSS, 50, 1),
        ("rails:servers=4,spines=1", CROSS, 50, 3),  # each leaf has one uplink of a NIC's rate
        ("rails:servers=4,spines=1,spine_bandwidth=100", CROSS, 12.5, 3),
        ("rails:servers=4,spines=1,spine_bandwidth=100", SAME, 50, 1),
        ("clos:servers=4,spines=2", CROSS, 100 / 8, 3),  # 8 GPUs share two uplinks of 50 GB/s
    ],
)
def test_messages_take_what_arithmetic_says(tmp_path, infra, pairs, gigabytes, switches):
    took = messages_ms(tmp_path, infra, pairs)
    assert took == pytest.approx(by_hand_ms(2**26, gigabytes, switches), rel=2e-3)


def test_fabrics_are_ranked_as_by_arithmetic(tmp_path):
    """256 GPUs: the fabrics are non-blocking, so that latencies and then what is shared decide."""
    question = [(r, 8 + (r + 4) % 8) for r in range(8)], "64 KiB"
    fabrics = {
        "fat-tree:servers=32": (50, 1),
        "rails:servers=32": (50, 3),
        "clos:servers=32": (50, 3),
        "rails:servers=32,spines=4": (50, 3),
        "clos:servers=32,spines=4": (200 / 8, 3),
    }
    took = {name: messages_ms(tmp_path, name, *question) for name in fabrics}
    expected = {name: by_hand_ms(2**16, *of) for name, of in fabrics.items()}
    assert took == pytest.approx(expected, rel=0.02)
    assert sorted(took, key=lambda name: (round(took[name], 4), name)) == sorted(
        expected, key=lambda name: (round(expected[name], 4), name)
    )


def test_a_ring_is_as_fast_over_rails_as_over_a_clos():
    """2 * 31 / 32 of 64 MiB leave each box by one NIC of 50 GB/s."""
    for name in ("rails:servers=4", "clos:servers=4"):
        for fidelity in ("analytical", "congestion"):
            sim = anb.Simulation(name, anb.collectives.all_reduce("64 MiB", "ring"), fidelity=fidelity)
            sim.run()
            assert sim.result.time_ps / 1e9 <= 1e3 * 2 * 31 / 32 * 2**26 / 50e9 + 0.1


def test_pxn_goes_over_nvlink_to_the_rail_of_the_target(tmp_path):
    plain, pxn = blueprint("rails:servers=2"), blueprint("rails:servers=2").with_pxn()
    lanes = {}
    for infra in (plain, pxn):
        f = compile_fabric(infra.expand())
        src, dst = f.ends
        routes, _ = f.routes([(0, 12), (0, 8), (0, 4)])
        names = {
            pair: [[f.graph.name(n) for n in (int(src[w[0]]), *dst[w].tolist())] for w in routes[pair]]
            for pair in routes
        }
        lanes[infra] = names
        found = message_routes(f, [(0, 12)], 16)
        assert found.routes.rate_Bpns.tolist() == [50.0]
    for way in lanes[pxn][0, 12]:
        assert way[0] == "dgx_h100.0.xpu.0"
        assert way[1].startswith("dgx_h100.0.nvsw.")
        assert way[2] == "dgx_h100.0.xpu.4"
        assert not any("spine" in node for node in way)
        assert "leafsw.4.asic.0" in way
    assert all(any("spine" in node for node in way) for way in lanes[plain][0, 12])
    for pair in ((0, 8), (0, 4)):
        assert lanes[pxn][pair] == lanes[plain][pair]
    # Not over the spine, which is 4 times as slow here.
    narrow = "rails:servers=4,spines=1,spine_bandwidth=100"
    took = messages_ms(tmp_path, narrow, CROSS, "64 MiB", "--pxn")
    assert took == pytest.approx(1e3 * 2**26 / 50e9, rel=5e-3)


def test_pxn_is_kept_with_the_infrastructure(tmp_path):
    blueprint("rails").with_pxn().save(tmp_path / "rails.yaml")
    assert load(str(tmp_path / "rails.yaml")).expand().pxn
    document = blueprint("rails").with_pxn().to_dict()
    document["annotations"]["graph"][0]["value"] = "perhaps"
    with pytest.raises(InputError, match=r"astranb.pxn: 'perhaps' is neither yes nor no"):
        load(document)


def two_sockets(nics):
    """Boxes of two sockets with two GPUs each, without NVLink; the NICs are those of the first."""

    def join(a, b, kind):
        return {"ep1": {"component": a}, "ep2": {"component": b}, "scheme": "many2many", "link": kind}

    half = [join(f"gpu[{2 * s}:{2 * s + 2}]", f"cpu[{s}]", "pcie5") for s in range(2)]
    return {
        "name": "pair",
        "devices": [
            {
                "name": "box",
                "components": [
                    {"name": "cpu", "choice": "cpu", "count": 2},
                    {"name": "gpu", "choice": "xpu", "count": 4},
                    {"name": "nic", "choice": "nic", "count": nics},
                ],
                "links": [{"name": "pcie5"}, {"name": "upi"}],
                "edges": [
                    *half,
                    join("cpu[0]", "cpu[1]", "upi"),
                    join("nic", "cpu[0]", "pcie5"),
                ],
            },
            {"name": "sw", "components": [{"name": "asic", "choice": "switch", "count": 1}]},
        ],
        "links": [{"name": "cable", "physical": {"bandwidth": {"gigabits_per_second": 400}}}],
        "instances": [
            {"name": "box", "device": "box", "count": 2},
            {"name": "sw", "device": "sw", "count": 1},
        ],
        "edges": [
            {"ep1": {"instance": "box", "component": "nic"}, "ep2": {"instance": "sw", "component": "asic"},
             "scheme": "many2many", "link": "cable"}
        ],
    }  # fmt: skip


def test_sockets_are_the_last_resort_and_said(tmp_path, capsys):
    infra = load(two_sockets(1))
    infra.save(tmp_path / "pair.yaml")
    said = "some GPUs have no other way than over links between CPUs: box.0.cpu.0->box.0.cpu.1"
    assert main(["infra", "check", str(tmp_path / "pair.yaml")]) == 0
    assert said in capsys.readouterr().out
    run = ["run", "collective", "all_gather", "--infra", str(tmp_path / "pair.yaml"), "--size", "64KiB"]
    for fidelity in ("analytical", "congestion", "cacheline"):
        assert main([*run, "--fidelity", fidelity]) == 0
        assert capsys.readouterr().err.count(said.partition(":")[0]) == 1
        assert main([*run, "--fidelity", fidelity, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["remarks"][0].startswith(said.partition(":")[0])
    assert main(["infra", "check", "rails:servers=2"]) == 0
    assert "CPUs" not in capsys.readouterr().out


def test_a_slower_nic_is_not_taken_though_it_is_nearer():
    document = blueprint("rails:servers=2,server=dgx-h100").to_dict()
    device = next(one for one in document["devices"] if one["name"] == "dgx_h100")
    device["components"].append({"name": "lom", "choice": "nic", "count": 1})
    device["edges"].append(
        {"ep1": {"component": "xpu[0]"}, "ep2": {"component": "lom"}, "scheme": "one2one", "link": "pcie"}
    )
    document["links"].append({"name": "slow", "physical": {"bandwidth": {"gigabits_per_second": 1}}})
    document["edges"].append(
        {"ep1": {"instance": "dgx_h100", "component": "lom"},
         "ep2": {"instance": "leafsw[0]", "component": "port[14:16]"}, "scheme": "one2one", "link": "slow"}
    )  # fmt: skip
    f = compile_fabric(load(document).expand())
    assert message_routes(f, [(0, 8), (0, 12)], 16).routes.rate_Bpns.tolist() == [50.0, 50.0]


def test_pxn_needs_an_infrastructure(capsys):
    assert main(["run", "model", "gpt3-125m", "--pxn"]) == 2
    assert "--pxn needs an infrastructure; give --infra" in capsys.readouterr().err
