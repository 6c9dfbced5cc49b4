"""Infrastructures by name."""
# ruff: noqa: E501 - one case a line

from __future__ import annotations

from collections import Counter

import pytest

from astranb.core.errors import InputError
from astranb.engine.cacheline.assumptions import presets_of
from astranb.infragraph import Infra, NodeKind, blueprint, blueprints, load, resolve
from astranb.net import compile_fabric
from tests.infragraph.support import ours, upstream


@pytest.mark.parametrize("name", [name for name, _ in blueprints()])
def test_each_is_whole(name):
    infra = blueprint(name)
    graph = infra.expand()
    assert isinstance(infra, Infra)
    assert graph.connected_components() == 1
    assert infra.check() == []
    assert len(graph.gpus) >= (2 if name == "h100-nvl" else 4)
    assert ours(graph) == upstream(infra.to_infragraph())
    assert load(infra.to_dict()).to_dict() == infra.to_dict()


def test_what_upstream_has_wrong_is_put_right_and_said():
    dgx2 = blueprint("dgx-2")
    assert (len(dgx2.expand()), len(dgx2.expand().gpus)) == (60, 16)
    assert dgx2.expand().edges_by_link()["xpu_fabric"] == 16 * 6 + 36
    assert any("nvlsw" in note for note in dgx2.notes)
    h100 = blueprint("dgx-h100").expand()
    slots = [h100.index(f"dgx_h100.0.pciesl.{s}") for s in range(8)]
    assert set(h100.degree()[slots].tolist()) == {3}  # CPU, GPU and NIC each
    assert any("pciesl[0:3]" in note for note in blueprint("clos:servers=2").notes)
    assert (len(h100), len(h100.simple_edges()[0])) == (33, 64)


@pytest.mark.parametrize(
    "name, gpus, switches",
    [
        ("clos:servers=16", 128, 16 * 7),
        ("clos:servers=4,per_leaf=2,spines=2", 32, 4 * 7),
        ("clos:servers=4,server=mi300x", 32, 4 * 4),
        ("single-tier:servers=3,server=server,factor=2", 12, 3 * 3),
        ("fat-tree:ports=8,levels=3,server=server,factor=2", 128, 32 * 3),
        ("fat-tree", 128, 16 * 7),
        ("fat-tree:servers=32", 256, 32 * 7),
        ("fat-tree:servers=3,ports=32", 24, 3 * 7),
        ("fat-tree:servers=5,levels=3,server=server,factor=1", 10, 5 * 2),
    ],
)
def test_fabrics_have_the_size_asked_for(name, gpus, switches):
    graph = blueprint(name).expand()
    assert len(graph.gpus) == gpus
    assert len(graph.kinds(NodeKind.SWITCH)) == switches
    assert graph.connected_components() == 1


GB = 10**9


def nvlink_rate(graph, rank=0):
    """Return the bandwidth of a GPU's NVLinks in one direction: those to switches other than PCIe's."""
    gpu = int(graph.gpus[rank])
    switches = {n for n in graph.kinds(NodeKind.SWITCH).tolist() if "nvsw" in graph.name(n)}
    mine = [k for k in range(len(graph.edges.a)) if {int(graph.edges.a[k]), int(graph.edges.b[k])} & {gpu}]
    mine = [k for k in mine if {int(graph.edges.a[k]), int(graph.edges.b[k])} & switches]
    return sum(int(graph.edges.lanes[k]) * int(graph.edges["bandwidth_Bps"][0][k]) for k in mine)


@pytest.mark.parametrize(
    "name, gpus, nvlink, gpu",
    [
        ("dgx-h20", 8, 450 * GB, "h20-sxm"),
        ("h20", 8, 450 * GB, "h20-sxm"),
        ("dgx-h800", 8, 200 * GB, "h800-sxm"),
        ("h800", 8, 200 * GB, "h800-sxm"),
        ("p5", 8, 450 * GB, "h100-sxm"),
        ("ndv5", 8, 450 * GB, "h100-sxm"),
        ("ndv4", 8, 300 * GB, "a100-sxm-40"),
        ("ndmv4", 8, 300 * GB, "a100-sxm"),
        ("p4d", 8, 300 * GB, "a100-sxm-40"),
        ("p4de", 8, 300 * GB, "a100-sxm"),
        ("p5en", 8, 450 * GB, "h200-sxm"),
        ("p6-b200", 8, 900 * GB, "b200-sxm"),
        ("a4", 8, 900 * GB, "b200-sxm"),
        ("a3-mega", 8, 450 * GB, "h100-sxm"),
        ("a3-high", 8, 450 * GB, "h100-sxm"),
        ("dgx-b300", 8, 900 * GB, "b300"),
        ("dgx-gb300", 4, 900 * GB, "gb300"),
        ("gb300-nvl72:trays=2", 8, 900 * GB, "gb300"),
        ("gb200-nvl72", 72, 900 * GB, "gb200"),
        ("gb200-nvl72:trays=9", 36, 900 * GB, "gb200"),
        ("rails:server=h800", 16, 200 * GB, "h800-sxm"),
    ],
)
def test_each_gpu_has_its_nvlinks_and_its_preset(name, gpus, nvlink, gpu):
    machine = blueprint(name if "=h800" not in name else name.replace("h800", "dgx-h800"))
    graph = machine.expand()
    assert len(graph.gpus) == gpus
    assert {nvlink_rate(graph, rank) for rank in (0, gpus // 2, gpus - 1)} == {nvlink}
    assert {one.name for one in presets_of(machine, compile_fabric(graph), None)[0]} == {gpu}


@pytest.mark.parametrize(
    "name, rate, links",
    [("mi300x", 56_250_000_000, 7), ("mi325x", 56_250_000_000, 7), ("mi350x", 67_500_000_000, 7),
     ("mi355x", 67_500_000_000, 7), ("l40s", 31_500_000_000, 1), ("h100-nvl", 25_000_000_000, 1), ("rtxpro6000", 63_000_000_000, 1)],
)  # fmt: skip
def test_each_gpu_without_nvlink_has_its_links_and_its_preset(name, rate, links):
    machine = blueprint(name)
    graph = machine.expand()
    gpus = set(graph.gpus.tolist())
    for gpu in gpus:
        ends = zip(graph.edges.a.tolist(), graph.edges.b.tolist(), strict=True)
        mine = [k for k, pair in enumerate(ends) if gpu in pair]
        # Between GPUs, or where there are none to the PCIe switch.
        direct = [k for k in mine if {int(graph.edges.a[k]), int(graph.edges.b[k])} <= gpus] or mine
        assert [int(graph.edges["bandwidth_Bps"][0][k]) for k in direct] == [rate] * links
    assert {one.name for one in presets_of(machine, compile_fabric(graph), None)[0]} == {name}


def test_all_gpus_of_a_rack_are_one_switch_apart():
    fabric = compile_fabric(blueprint("gb200-nvl72").expand())
    assert fabric.per_node == 72
    routes, _ = fabric.routes([(0, 71), (3, 4)])
    for pair in ((0, 71), (3, 4)):
        assert len(routes[pair]) == 18  # every NVSwitch of the rack
        assert {len(route) for route in routes[pair]} == {2}


@pytest.mark.parametrize(
    "name, gigabits, kind",
    [
        ("rails", 400, "cable"),
        ("rails:network=infiniband", 400, "ib-ndr"),
        ("rails:server=ndv5", 400, "ib-ndr"),
        ("rails:server=ndv5,network=ethernet", 400, "cable"),
        ("rails:server=p5", 100, "cable"),
        ("rails:server=p6-b200", 400, "cable"),
        ("rails:server=ndv4", 200, "ib-hdr"),
        ("rails:server=a4", 400, "cable"),
        ("rails:server=a3-mega", 200, "cable"),
        ("rails:server=dgx-a100,network=infiniband", 200, "ib-hdr"),
        ("clos:server=dgx-a100", 200, "cable"),
        ("clos:server=dgx-a100,bandwidth=400", 400, "cable"),
        ("single-tier:network=infiniband,bandwidth=800", 800, "ib-xdr"),
    ],
)
def test_a_fabric_has_the_nics_and_the_network_of_its_servers(name, gigabits, kind):
    graph = blueprint(name).expand()
    (link,) = [k for k, link in enumerate(graph.links) if link.name in ("leaf-link", "switch-link")]
    assert graph.links[link].type == kind
    assert set(graph.edges["bandwidth_Bps"][0][graph.edges.link == link].tolist()) == {gigabits * GB // 8}
    asics = [n for n in range(len(graph)) if graph.name(n).endswith(".asic.0")]
    assert set(graph.nodes.forward_ps[asics].tolist()) == {500_000 if kind == "cable" else 130_000}


def test_a_rail_is_one_leaf_switch():
    graph = blueprint("rails:servers=4,server=mi300x").expand()
    a, b, _ = graph.simple_edges()
    names = [(graph.name(int(x)), graph.name(int(y))) for x, y in zip(a, b, strict=True)]
    ends = [ends for pair in names for ends in (pair, pair[::-1]) if ".nic." in ends[0]]
    leaf_of = {nic: port.split(".port")[0] for nic, port in ends if port.startswith("leafsw")}
    assert len(leaf_of) == 32
    assert all(leaf == f"leafsw.{nic.rsplit('.', 1)[1]}" for nic, leaf in leaf_of.items())
    fabric = compile_fabric(graph)
    same, other = fabric.routes([(3, 11), (3, 12)])[0].values()
    assert min(map(len, same)) < min(map(len, other))  # another rail is beyond a spine switch


def test_a_fat_tree_of_three_levels_uses_its_own_link_for_every_tier():
    links = blueprint("fat-tree:ports=8,levels=3,server=server,factor=2").expand().edges_by_link()
    assert links["tier_0_link"] == links["tier_1_link"] == links["tier_2_link"] == 128
    assert blueprint("fat-tree:levels=3,server=server").summary()["nodes"] == 8768
    assert blueprint("fat-tree:levels=3,server=server").summary()["edges"] == 12672


@pytest.mark.parametrize("servers", [1, 2, 5, 16, 33])
@pytest.mark.parametrize("levels", [2, 3])
def test_a_fat_tree_of_any_size_has_as_many_links_up_as_down(servers, levels):
    graph = blueprint(f"fat-tree:servers={servers},levels={levels},server=server,factor=1").expand()
    assert len(graph.gpus) == 2 * servers
    assert graph.connected_components() == 1 + int((graph.degree() == 0).sum())
    a, b, link = graph.simple_edges()
    names = [graph.links[number].name for number in link]
    up: dict[tuple[int, str], list[int]] = {}
    for x, y, name in zip(a.tolist(), b.tolist(), names, strict=True):
        for node in (x, y) if name.startswith("tier_") else ():
            up.setdefault((int(graph.nodes.instance[node]), name), []).append(node)
    for (instance, name), ports in up.items():
        assert len(set(ports)) == len(ports)  # each port has one cable
        if name == "tier_0_link" and (instance, "tier_1_link") in up:
            assert len(up[instance, "tier_1_link"]) >= len(ports)


def test_small_ones():
    assert len(blueprint("ring:gpus=2").expand().edges.a) == 1
    assert len(blueprint("torus2d:rows=1,columns=5").expand().edges.a) == 5
    assert len(blueprint("torus2d:rows=2,columns=2").expand().edges.a) == 4
    assert set(blueprint("torus2d:rows=3,columns=5").expand().degree().tolist()) == {4}
    assert set(blueprint("fully-connected:gpus=6").expand().degree().tolist()) == {5}


@pytest.mark.parametrize(
    "name, said",
    [
        ("dgx-h10", r"unknown blueprint 'dgx-h10'; did you mean 'dgx-h100'"),
        ("", r"unknown blueprint ''"),
        ("dgx-h100:servers=2", r"takes no parameters; write single-tier:server=dgx-h100"),
        ("gb200-nvl72:trays=19", r"trays: '19' is not a whole number from 1 to 18"),
        ("rails:network=token-ring", r"network: unknown value 'token-ring'"),
        ("clos:server_count=3", r"blueprint 'clos:server_count=3': clos has no parameter 'server_count'; did you mean 'server"),
        ("clos:server=4", r"server is a name, not a number; did you mean servers=4\?"),
        ("clos:servers=0", r"servers: '0' is not a whole number from 1 to 16384"),
        ("clos:servers=-4", r"'-4' is not a whole number"),
        ("clos:servers=99999999999", r"is not a whole number"),
        ("clos:servers=2,servers=3", r"duplicate parameter servers"),
        ("clos:servers", r"servers has no value; write key=value"),
        ("clos:servers=3,per_leaf=2", r"3 servers do not divide by 2"),
        ("clos:server=dgx-h10", r"unknown value 'dgx-h10'; did you mean 'dgx-h100'"),
        ("fat-tree:ports=12", r"half of 12 ports cannot be shared by servers of 8 NICs; choose ports as a multiple of 16"),
        ("fat-tree:servers=17,ports=16", r"17 servers, of which 2 levels of 16-port switches join 16; leave ports out"),
        ("fat-tree:servers=2000", r"2000 servers, of which 2 levels of 128-port switches join 1024; use levels=3"),
        ("fat-tree:ports=2", r"half of 2 ports cannot be shared by servers of 8 NICs"),
        ("ring:gpus=1", r"'1' is not a whole number from 2"),
    ],
)  # fmt: skip
def test_names_that_do_not_fit(name, said):
    with pytest.raises(InputError, match=said):
        blueprint(name)


def test_resolve(tmp_path, monkeypatch):
    assert resolve("clos:servers=2").name == "closfabric"
    monkeypatch.chdir(tmp_path)
    blueprint("ring:gpus=3").save("mine.yaml")
    assert len(resolve("mine.yaml").expand().gpus) == 3
    blueprint("ring:gpus=3").save("ring")  # a file goes before a blueprint of its name
    assert len(resolve("ring").expand().gpus) == 3
    with pytest.raises(
        InputError, match=r"'dgxh100' is neither a file nor a blueprint; did you mean 'dgx-h100'"
    ):
        resolve("dgxh100")
    with pytest.raises(InputError, match=r"min\.yaml: No such file or directory; did you mean 'mine\.yaml'"):
        resolve("min.yaml")
    with pytest.raises(InputError, match="neither a file nor a blueprint"):
        resolve("a\0b")


def test_meshes_and_tori_have_the_links_of_their_shape():
    assert len(blueprint("mesh2d:rows=3,columns=4").expand().edges.a) == 3 * 3 + 2 * 4
    assert set(blueprint("torus3d:planes=3,rows=3,columns=4").expand().degree().tolist()) == {6}
    # Two places along a dimension have one link, not two.
    assert set(blueprint("torus3d:planes=2,rows=3,columns=4").expand().degree().tolist()) == {5}


@pytest.mark.parametrize(
    "groups, routers, gpus, links", [(9, 4, 2, 2), (5, 2, 1, 2), (4, 3, 2, 1), (3, 1, 2, 2)]
)
def test_any_two_groups_of_a_dragonfly_have_one_link(groups, routers, gpus, links):
    name = f"dragonfly:groups={groups},routers={routers},gpus={gpus},links={links}"
    graph = blueprint(name).expand()
    number = {graph.index(f"box.0.router.{r}"): r for r in range(groups * routers)}
    assert len(graph.gpus) == groups * routers * gpus
    between = [
        tuple(sorted((number[a] // routers, number[b] // routers)))
        for a, b in zip(graph.edges.a.tolist(), graph.edges.b.tolist(), strict=True)
        if a in number and b in number and number[a] // routers != number[b] // routers
    ]
    assert sorted(between) == [(a, b) for a in range(groups) for b in range(a + 1, groups)]
    ports = Counter(
        r
        for a, b in zip(graph.edges.a.tolist(), graph.edges.b.tolist(), strict=True)
        for r in (a, b)
        if r in number
    )
    assert max(ports.values()) <= gpus + routers - 1 + links


def test_a_dragonfly_has_no_more_groups_than_links():
    with pytest.raises(InputError, match="10 groups need 9 links in each, which has 8"):
        blueprint("dragonfly:groups=10,routers=4,links=2")
