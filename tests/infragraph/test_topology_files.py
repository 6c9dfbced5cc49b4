"""Topology files of ns-3, htsim, BookSim and OMNeT++: read by readers of their own, and read back."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.infragraph import Infra, load, resolve, write_topology
from astranb.infragraph.flat import FlatLink, FlatNetwork, fabric_of, flattened
from astranb.infragraph.htsim import htsim_hosts, read_htsim, write_htsim
from astranb.infragraph.ns3 import read_ns3, write_ns3

BLUEPRINTS = [
    "ring:gpus=5",
    "fully-connected:gpus=4",
    "switch:gpus=3",
    "torus2d:rows=3,columns=3",
    "dgx-h100",
]
BLUEPRINTS += ["single-tier:servers=2", "clos:servers=4", "dragonfly:groups=3,routers=2,gpus=2,links=1"]


def reaches(edges: list[tuple[int, int]], start: int, closed: set[int]) -> set[int]:
    """Nodes that can be reached from one without passing through closed ones."""
    found, front = {start}, [start]
    while front:
        node = front.pop()
        if node in closed and node != start:
            continue
        for a, b in edges:
            for one, other in ((a, b), (b, a)):
                if one == node and other not in found:
                    found.add(other)
                    front.append(other)
    return found


def ns3_links(text: str) -> tuple[int, set[int], list[tuple[int, int, str, str]]]:
    """Read as ns-3's third.cc does: words, whatever the lines."""
    words = iter(text.split())
    nodes, switches, links = (int(next(words)) for _ in range(3))
    ids = {int(next(words)) for _ in range(switches)}
    rows = [(int(next(words)), int(next(words)), next(words), next(words), next(words)) for _ in range(links)]
    assert next(words, None) is None
    assert all(row[4] == "0" for row in rows)
    return nodes, ids, [row[:4] for row in rows]


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_ns3_connects_all_gpus(name: str, tmp_path: Path) -> None:
    infra = resolve(name)
    write_topology(infra, tmp_path / "t.txt")
    nodes, switches, links = ns3_links((tmp_path / "t.txt").read_text())
    gpus = len(infra.expand().gpus)
    assert switches == set(range(gpus, nodes))
    edges = [(a, b) for a, b, _, _ in links]
    assert len({frozenset(edge) for edge in edges}) == len(edges)  # the simulator keeps one link of a pair
    assert set(range(gpus)) <= reaches(edges, 0, set(range(gpus)))
    assert all(
        re.fullmatch(r"\d+[GM]?bps", rate) and re.fullmatch(r"[\d.]+ms", ps) for _, _, rate, ps in links
    )
    back = load(tmp_path / "t.txt").expand()
    assert len(back.gpus) == gpus
    assert Counter(back.edges["bandwidth_Bps"][0].tolist()) == Counter(_bps(rate) for _, _, rate, _ in links)


def _bps(rate: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([GM]?)bps", rate).groups()  # type: ignore[union-attr]
    return int(number) * {"G": 10**9, "M": 10**6, "": 1}[unit] // 8


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_anynet_is_what_booksim_reads(name: str, tmp_path: Path) -> None:
    infra = resolve(name)
    write_topology(infra, tmp_path / "t.anynet")
    attached, channels = {}, {}
    for line in (tmp_path / "t.anynet").read_text().splitlines():
        kind, head, other, end, *latency = line.split()
        assert kind == "router"
        if other == "node":
            assert int(end) not in attached
            assert not latency  # BookSim would give it to another channel
            attached[int(end)] = int(head)
        else:
            channels[int(head), int(end)] = int(latency[0])
    gpus = len(infra.expand().gpus)
    assert sorted(attached) == list(range(gpus))
    assert all(channels[b, a] == cycles >= 1 for (a, b), cycles in channels.items())
    assert set(attached.values()) <= reaches(list(channels), attached[0], set())
    back = load(tmp_path / "t.anynet")
    assert len(back.expand().gpus) == gpus
    assert len(back.expand().edges.a) == gpus + len(channels) // 2
    assert "latencies are in cycles: taken as 1 ns each" in back.notes


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_ned_is_a_connected_network(name: str, tmp_path: Path) -> None:
    infra = resolve(name)
    write_topology(infra, tmp_path / "t.ned")
    text = (tmp_path / "t.ned").read_text()
    assert re.search(r"^network [A-Za-z]\w*$", text, re.MULTILINE)
    assert text.count("{") == text.count("}")
    types = dict(re.findall(r"channel (\w+) extends DatarateChannel\s*\{\s*datarate = (\d+)bps;", text))
    end = r"(host|switch)\[(\d+)\]\.pppg\+\+"
    found = re.findall(rf"^ +{end} <--> (\w+) <--> {end};$", text, re.MULTILINE)
    assert len(found) == text.count("<--> Link")
    hosts = int(re.search(r"host\[(\d+)\]: StandardHost;", text)[1])  # type: ignore[index]
    assert hosts == len(infra.expand().gpus)
    place = {"host": 0, "switch": hosts}
    edges = [(place[a] + int(n), place[b] + int(m)) for a, n, kind, b, m in found if kind in types]
    assert len(edges) == len(found)
    assert set(range(hosts)) <= reaches(edges, 0, set(range(hosts)))


def test_latency_and_bandwidth_between_gpus_are_kept(tmp_path: Path) -> None:
    """The latency of the switch between two GPUs is in the links; 400 Gbps stay 400 Gbps."""
    write_topology(resolve("switch:gpus=3"), tmp_path / "t.txt")
    assert (tmp_path / "t.txt").read_text().splitlines()[2:] == [
        f"{n} 3 400Gbps 0.00075ms 0" for n in range(3)
    ]


@pytest.mark.parametrize("name", ["clos:servers=4", "rails:servers=16", "switch:gpus=4", "fat-tree:ports=16"])
def test_htsim_is_read_back_as_the_same_network(name: str) -> None:
    graph = resolve(name).expand()
    network = fabric_of(graph)
    text, remarks = write_htsim(network)
    back = read_htsim(text, "t.topo")
    assert (back.hosts, write_htsim(back)[0]) == (network.hosts, text)
    if name != "switch:gpus=4":  # it has no second tier
        number = htsim_hosts(network)
        assert sorted(number) == list(range(network.hosts))
        assert (number != list(range(network.hosts))) == any("numbers hosts" in one for one in remarks)
        edges = [(a, b) for a, b, *_ in network.links]
        again = [(a, b) for a, b, *_ in back.links]
        # Ranks with a common switch are hosts with a common switch.
        above = dict(
            edge if edge[0] < network.hosts else edge[::-1] for edge in edges if min(edge) < network.hosts
        )
        there = dict(edge for edge in again if edge[0] < network.hosts)
        same = {(a, b) for a in above for b in above if above[a] == above[b]}
        assert {(number[a], number[b]) for a, b in same} == {
            (a, b) for a in there for b in there if there[a] == there[b]
        }
        assert len(edges) == len(again)


THREE_TIERS = """# a comment
Nodes 16
Tiers 3
Podsize 4

Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 250

Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 2000
"""


def test_three_tiers_of_htsim(tmp_path: Path) -> None:
    network = read_htsim(THREE_TIERS, "t.topo")
    assert (network.hosts, network.switches, len(network.links)) == (16, 8 + 8 + 4, 16 + 16 + 16)
    degree = Counter(node for link in network.links for node in (link.a, link.b))
    assert Counter(degree.values()) == {1: 16, 4: 20}
    none = "Switch_Latency_ns 0\n"  # what the file leaves out
    stated = THREE_TIERS.removeprefix("# a comment\n").replace("Tier 2\n", f"{none}Tier 2\n") + none
    assert write_htsim(network)[0].split() == stated.split()
    (tmp_path / "three.topo").write_text(THREE_TIERS)
    graph = load(tmp_path / "three.topo").expand()
    assert sorted(set(graph.nodes.forward_ps.tolist())) == [0, 250_000]
    assert sorted(set(graph.edges["latency_ps"][0].tolist())) == [1_000_000, 2_000_000]


def test_a_collective_runs_on_each_format(tmp_path: Path) -> None:
    (tmp_path / "h.topo").write_text(THREE_TIERS)
    write_topology(resolve("switch:gpus=4"), tmp_path / "n.txt")
    write_topology(resolve("switch:gpus=4"), tmp_path / "b.anynet")
    times = {}
    for name in ("h.topo", "n.txt", "b.anynet"):
        collective = anb.collectives.all_reduce("1 MiB", "ring")
        sim = anb.Simulation(load(tmp_path / name), collective, fidelity="congestion")
        sim.run()
        times[name] = sim.now_ps
    assert all(times.values())
    # Over one switch: 2 (n - 1) steps of a quarter, each two links of 750 ns and 5.24 us at 50 GB/s.
    assert times["n.txt"] == pytest.approx(6 * (5_242_880 + 1_500_000), rel=0.01)


@pytest.mark.parametrize(
    "name, text, error",
    [
        (
            "t.txt",
            "3 1 2\n2\n0 2 200Gbps 1us 0\n1 2 200Gxps 1us 0\n",
            "t.txt:4: unknown unit 'Gxps'",
        ),
        (
            "t.txt",
            "3 1 2\n2\n0 2 200Gbps 1us 0\n1 3 200Gbps 1us 0\n",
            "t.txt:4: '3' is not a node of a link",
        ),
        ("t.txt", "3 1 2\n2\n0 2 200Gbps 1us 0\n", "t.txt:3: the file ends where a node of a link"),
        (
            "t.txt",
            "3 1 2\n2\n0 2 200Gbps 1us 0\n1 1 200Gbps 1us 0\n",
            "t.txt:4: a link leads from node 1",
        ),
        ("t.txt", "3 1 2\n2\n0 2 200Gbps 5 0\n1 2 200Gbps 1us 0\n", "t.txt:3: time '5' has no unit"),
        ("t.txt", "3 2 2\n2 2\n0 2 200Gbps 1us 0\n1 2 200Gbps 1us 0\n", "t.txt:2: duplicate switch 2"),
        ("t.txt", "1 1 1\n0\n0 0 200Gbps 1us 0\n", "t.txt:1: 1 of 1 nodes are switches"),
        ("t.txt", "2 0 1\n\n0 1 200Gbps 1us 7\n", "t.txt:3: '7' is not an error rate"),
        (
            "t.txt",
            "3 1 1\n2\n0 2 200Gbps 1us 0\n1 2 200Gbps 1us 0\n",
            "t.txt:1: 1 link is announced, and 2 follow; write 2 as the third number, or remove lines",
        ),
        (
            "t.txt",
            "3 1 3\n2\n0 2 200Gbps 1us 0\n1 2 200Gbps 1us 0\n",
            "ends where a node of a link is expected",
        ),
        ("t.topo", "Nodes 4\nTiers 2\nPodsize 4\n", "t.topo: Tier 0 is missing"),
        ("t.topo", "Nodes 4\nTiers 4\nPodsize 4\n", "t.topo: 4 tiers; htsim has two or three"),
        ("t.topo", "Nodes 4\nTiers 2\nPodsize x\n", "t.topo:3: Podsize has no whole number"),
        ("t.topo", THREE_TIERS.replace("Radix_Up 2", "Radix_Top 2", 1), "t.topo:9: unknown key 'Radix_Top'"),
        ("t.topo", THREE_TIERS.replace("Radix_Down 4", "Radix_Down 3"), "Radix_Down 3 of tier 2, but 4 pods"),
        (
            "t.topo",
            THREE_TIERS.replace("Podsize 4", "Podsize 5"),
            "16 nodes are not a multiple of the pod size 5",
        ),
        ("t.topo", THREE_TIERS.replace("Radix_Up 2", "Radix_Up 1", 1), "8 links up from tier 0"),
        ("t", "router 0 node 0 router 1\nrouter 1 node 0\n", "t:2: node 0 is connected to routers 0 and 1"),
        ("t", "router 0 node 0\nnode 0 node 1\n", "t:2: node 0 is connected to node 1"),
        ("t", "router 0 node 1\n", "t: node 0 is missing, the largest is 1"),
        ("t", "router 0 node 0 switch 4\n", "t:1: unknown word 'switch'"),
        ("t", "router 0 node 0 router\n", "t:1: a number is missing behind 'router'"),
        ("t", "router 0 router 1\n", "t: the network has no nodes"),
    ],
)
def test_bad_files_are_one_line(
    name: str,
    text: str,
    error: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    assert main(["infra", "check", name]) == 2
    said = capsys.readouterr().err
    assert error in said
    assert said.count("\n") == 1


def test_words_of_ns3_need_no_lines_and_what_is_left_is_said() -> None:
    text = "3 1 2\n2\n0 2 200Gbps 0.0005ms 0.1 1 2 1000MB/s 1us 0\nFirst line: nodes, switches, links"
    network = read_ns3(text, "t.txt")
    assert network.links == (FlatLink(0, 2, 25 * 10**9, 500_000), FlatLink(1, 2, 10**9, 1_000_000))
    assert network.remarks == (
        "1 link has an error rate, which is left out",
        "from line 4 on nothing is read: the file has 2 links",
    )


def test_what_htsim_is_not_is_refused() -> None:
    for name, text in [
        ("dgx-h100", "GPU 0 has links to 4 nodes"),
        ("ring:gpus=4", "GPU 0 has links to 2 nodes"),
        ("dragonfly:groups=3,routers=2,gpus=2,links=1", "switches of one tier have links to each other"),
    ]:
        with pytest.raises(InputError, match=text):
            write_htsim(fabric_of(resolve(name).expand()))


def test_lanes_and_two_bandwidths_are_said(tmp_path: Path) -> None:
    infra = Infra(
        {
            "name": "two",
            "devices": [
                {
                    "name": "box",
                    "components": [
                        {"name": "gpu", "count": 2, "choice": "xpu"},
                        {"name": "sw", "count": 1, "choice": "switch"},
                    ],
                    "links": [{"name": "wire"}],
                    "edges": [
                        {
                            "ep1": {"component": "gpu"},
                            "ep2": {"component": "sw"},
                            "scheme": "many2many",
                            "link": "wire",
                        }
                    ],
                }
            ],
            "instances": [{"name": "host", "device": "box", "count": 1}],
        },
        {
            "links": [
                {
                    "name": "wire",
                    "attributes": [
                        {"attribute": "astranb.bandwidth_fwd", "value": "10 GB/s"},
                        {"attribute": "astranb.bandwidth_rev", "value": "5 GB/s"},
                        {"attribute": "astranb.lanes", "value": 4},
                        {"attribute": "astranb.latency", "value": "1 ns"},
                    ],
                }
            ]
        },
    )
    remarks = write_topology(infra, tmp_path / "t.txt")
    assert "2 links with two bandwidths: the smaller one" in remarks
    assert "2 of 2 links have several lanes: one of their bandwidth" in remarks
    assert "0 2 160Gbps" in (tmp_path / "t.txt").read_text()


@given(
    st.integers(2, 6),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 10**12), st.integers(0, 10**7)), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
)
def test_ns3_round_trip(hosts: int, switches: int, kinds: list[tuple[int, int]], random: object) -> None:
    """Links between hosts and switches come back as they were, but for parts of a nanosecond."""
    choice = random.choice  # type: ignore[attr-defined]
    pairs = {(choice(range(hosts + switches)), choice(range(hosts, hosts + switches))) for _ in kinds}
    links = [
        FlatLink(min(pair), max(pair), rate, ns * 1000)
        for pair, (rate, ns) in zip(sorted(pairs), kinds, strict=False)
        if pair[0] != pair[1]
    ]
    nodes = hosts + switches
    network = FlatNetwork(
        "t", tuple(map(str, range(nodes))), hosts, (0,) * nodes, tuple(dict.fromkeys(links))
    )
    want = tuple(link._replace(lanes=1) for link in network.merged().links)
    assert read_ns3(write_ns3(network)[0], "t").links == want


def test_the_command_line_converts_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["infra", "convert", "clos:servers=4", "--to", "htsim"]) == 0
    assert "links inside servers (NVLink, PCIe); hosts have one link" in capsys.readouterr().err
    assert main(["infra", "convert", "closfabric.topo"]) == 0
    assert "wrote closfabric to closfabric.yaml: 12 switch, 32 xpu" in capsys.readouterr().out
    assert main(["infra", "convert", "closfabric.yaml", "-o", "again.topo"]) == 0
    assert Path("again.topo").read_text() == Path("closfabric.topo").read_text()
    assert main(["infra", "convert", "clos:servers=4", "--to", "htsim"]) == 2
    assert "the file exists" in capsys.readouterr().err
    assert main(["infra", "convert", "clos:servers=4", "--to", "opnet"]) == 2
    assert "unknown topology format 'opnet'; known: anynet, htsim, ned, ns3" in capsys.readouterr().err
    assert main(["infra", "draw", "closfabric.topo", "-o", "a.svg"]) == 0
    assert Path("a.svg").stat().st_size > 1000


def test_ports_nics_and_slots_are_part_of_a_link() -> None:
    """The slowest part is the link's bandwidth, and the latencies add up."""
    network = fabric_of(resolve("single-tier:servers=2").expand())
    assert {(link.bandwidth_Bps, link.latency_ps) for link in network.links} == {(50 * 10**9, 950_000)}
    whole = flattened(resolve("single-tier:servers=2").expand())
    assert whole.switches > network.switches == 1


@pytest.mark.parametrize("server, gpus", [("dgx-a100", 8), ("dgx-gb200", 4), ("mi300x", 8)])
def test_hosts_with_one_link_have_a_nic_each(server, gpus):
    network = fabric_of(resolve(f"single-tier:servers=2,server={server}").expand())
    switch = next(n for n, name in enumerate(network.names) if name.startswith("switch"))
    cables = [link for link in network.links if switch in (link.a, link.b)]
    assert len(cables) == 2 * gpus


def test_hosts_cpus_stay_where_gpus_need_them():
    kept = flattened(resolve("single-tier:servers=2,server=dgx-gb200").expand())
    assert sum(".cpu." in name for name in kept.names) == 4
    assert not any(all(".cpu." in kept.names[end] for end in (link.a, link.b)) for link in kept.links)
    left = flattened(resolve("rails:servers=2").expand())
    assert not any(".cpu." in name for name in left.names)
    assert any("links of hosts' CPUs, which no GPU needs" in remark for remark in left.remarks)
