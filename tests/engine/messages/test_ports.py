"""Without congestion, no NPU sends or receives faster than its ports; with it, nodes cut through."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages import Run, simulate
from astranb.net.astrasim2 import MESH, RING, SWITCH
from astranb.sim import Simulation
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
    Workload,
)

SHAPES = ("Ring", "FullyConnected", "Switch", "Mesh")
ALGORITHMS = ("ring", "direct", "direct2", "halvingDoubling", "doubleBinaryTree")
WHOLE = ("oneRing", "oneDirect")
_PORTS = {RING: 2, MESH: 2, SWITCH: 1}


def _system(algorithms, *, splits=1, active=4):
    names = [name.replace("_", "-") for name in COLLECTIVE_NAMES]
    return System.from_document(
        {
            **{f"{name}-implementation": list(algorithms) for name in names},
            "preferred-dataset-splits": splits,
            "active-chunks-per-dimension": active,
            "endpoint-delay": 1,
        }
    )


@st.composite
def anything(draw):
    """Some collectives of all ranks or of groups, in a network of up to three dimensions."""
    count = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.sampled_from([2, 3, 4, 8]), min_size=count, max_size=count))
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=count, max_size=count))
    rates = draw(st.lists(st.sampled_from([25.0, 50.0, 450.0]), min_size=count, max_size=count))
    network = DimensionNetwork(shapes, sizes, rates, [draw(st.sampled_from([0.0, 500.0]))] * count)
    npus = network.npus
    whole = draw(st.sampled_from([False, False, True]))  # one logical dimension of all NPUs
    algorithms = [draw(st.sampled_from(WHOLE if whole else ALGORITHMS)) for _ in range(1 if whole else count)]
    system = _system(algorithms, splits=draw(st.integers(1, 4)), active=draw(st.integers(1, 4)))
    group = draw(st.sets(st.integers(0, npus - 1), min_size=1))
    rows = [
        {
            "kind": COLLECTIVE,
            "collective": COLLECTIVE_NAMES[draw(st.sampled_from(sorted(COLLECTIVE_NAMES)))],
            "bytes": draw(st.sampled_from([1, 1000, 1 << 20, 67 << 20])),
            "group": draw(st.sampled_from([-1, 1])),
            "stream": draw(st.integers(0, 1)),
        }
        for _ in range(draw(st.integers(1, 3)))
    ]
    ranks = sorted(group)
    inside, outside = Operations.of(rows), Operations.of([row for row in rows if row["group"] < 0])
    operations = [inside if rank in group else outside for rank in range(npus)]
    return Workload(operations, network, system, groups={1: ranks})


def _least_ns(run):
    """The longest time that an NPU's bytes take by its ports of a dimension, or those of a link."""
    m = run.machine
    if m.config[0].congestion:
        return (m.used.bytes / m.wires.rate_Bpns).max(initial=0.0)
    sent = np.asarray(m.traffic.bytes).reshape(len(m.npus), len(m.dims))
    ports = [_PORTS.get(int(dim.kind), max(1, int(dim.nodes) - 1)) for dim in m.dims]
    # The ring of a group leaves by the ports of all of its ranks in a node.
    outer, rails = (int(m.groups[0][name]) for name in ("outer", "rails"))
    ports = [each * (max(1, rails) if dim >= outer else 1) for dim, each in enumerate(ports)]
    return (sent / (m.dims.rate_Bpns * np.array(ports))).max(initial=0.0)


@settings(max_examples=150, deadline=None)
@given(anything(), st.booleans())
def test_no_collective_is_faster_than_the_bytes_that_leave_by_a_port(work, congestion):
    try:
        run = Run(work, congestion=congestion, record=True)
        run.go()
        took_ns = run.result().end_ns.max()
    except (InputError, Deadlock):
        reject()  # an algorithm that cannot do this collective, or not with so many ranks of a group
    assert took_ns >= _least_ns(run) - 1


def _all_to_all(network, size, ranks=None, algorithm="direct", **options):
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["all_to_all"], "bytes": size}
    dims = len(network.topology)
    if ranks is not None:
        row["group"] = 1
    inside = Operations.of([row])
    outside = Operations.of([])
    operations = [inside if ranks is None or r in ranks else outside for r in range(network.npus)]
    groups = {} if ranks is None else {1: list(ranks)}
    work = Workload(operations, network, _system([algorithm] * dims), groups=groups)
    return simulate(work, **options).end_ns.max()


@pytest.mark.parametrize("congestion", [False, True])
def test_an_all_to_all_under_a_switch_takes_what_its_port_needs(congestion):
    one = DimensionNetwork(["Switch"], [8], [450.0], [500.0])
    took = _all_to_all(one, 67 << 20, congestion=congestion)
    needs = 7 / 8 * (67 << 20) / 450.0
    assert needs + 1000 <= took <= needs + 1010


@pytest.mark.parametrize("congestion", [False, True])
@pytest.mark.parametrize("ranks", [range(64), range(0, 64, 2), [0, 1, 8, 9], range(8)], ids=str)
def test_an_all_to_all_over_two_tiers_takes_what_its_narrowest_port_needs(ranks, congestion):
    """Most of the bytes go to other nodes, by the slower port."""
    tiers = DimensionNetwork(["Switch", "Switch"], [8, 8], [335.0, 46.0], [650.0, 2700.0])
    size, ranks = 67 << 20, list(ranks)
    each = size / len(ranks)
    away = each * sum(rank // 8 != ranks[0] // 8 for rank in ranks) / 46.0
    near = each * sum(rank % 8 != ranks[0] % 8 for rank in ranks) / 335.0
    took = _all_to_all(tiers, size, ranks if len(ranks) < 64 else None, congestion=congestion)
    # Ranks of all 64 first exchange within the node, then between nodes.
    needs = near + away if len(ranks) == 64 else max(near, away)
    assert 0.999 * needs <= took <= 1.1 * needs + 10_000


def test_a_ring_of_messages_is_an_all_to_all_too():
    tiers = DimensionNetwork(["Switch", "Switch"], [8, 8], [335.0, 46.0], [650.0, 2700.0])
    direct = _all_to_all(tiers, 1 << 26, range(0, 64, 4))
    ring = _all_to_all(tiers, 1 << 26, range(0, 64, 4), algorithm="ring")
    assert ring > 3 * direct


def _ring_of_a_group(inside, nodes, size=1 << 24):
    """An all-gather of so many ranks in each of some nodes of eight."""
    tiers = DimensionNetwork(["Switch", "Switch"], [8, nodes + 1], [335.0, 46.0], [650.0, 2700.0])
    ranks = [node * 8 + rank * (8 // inside) for node in range(nodes) for rank in range(inside)]
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["all_gather"], "bytes": size, "group": 1}
    operations = [Operations.of([row] if rank in ranks else []) for rank in range(tiers.npus)]
    return Workload(operations, tiers, _system(["ring"] * 2), groups={1: ranks}), ranks


@pytest.mark.parametrize("congestion", [False, True])
@pytest.mark.parametrize("inside, nodes", [(4, 2), (2, 8), (8, 4)])
def test_the_ring_of_a_group_leaves_a_node_by_the_ports_of_all_its_ranks(inside, nodes, congestion):
    work, ranks = _ring_of_a_group(inside, nodes)
    took = simulate(work, congestion=congestion).end_ns.max()
    needs = (len(ranks) - 1) * (1 << 24) / min(335.0, inside * 46.0)
    assert needs <= took <= 1.25 * needs + len(ranks) * 6000


def test_the_bytes_of_a_ring_between_nodes_are_divided_over_the_links_of_its_ranks():
    size, inside, nodes = (1 << 20) + 5, 4, 3
    work, ranks = _ring_of_a_group(inside, nodes, size)
    run = Run(work, congestion=True, record=True)
    run.go()
    m = run.machine
    carried = np.asarray(m.used.bytes)[int(m.dims[1].first_link) :].reshape(2, -1)
    assert (carried.sum(axis=1) == nodes * (len(ranks) - 1) * size).all()  # up to the switch, and down
    share = carried[:, ranks]
    assert (share > 0).all()
    assert share.max() - share.min() <= len(ranks)
    assert not np.delete(carried, ranks, axis=1).any()


def test_a_ring_that_divides_its_bytes_waits_for_a_link_that_is_down():
    work, ranks = _ring_of_a_group(4, 2)
    sim = Simulation(work, fidelity="congestion")
    sim.run()
    whole_ps = sim.now_ps
    sim.reset()
    first = int(sim.engine.machine.dims[1].first_link)
    sim.set(f"link[{first + ranks[1]}].up", "no")
    with pytest.raises(Deadlock, match=r"waits? for it"):
        sim.run()
    sim.set(f"link[{first + ranks[2]}].up", "no")
    sim.set(f"link[{first + ranks[1]}].up", "yes")
    with pytest.raises(Deadlock, match=r"waits? for it"):
        sim.run()
    sim.set(f"link[{first + ranks[2]}].up", "yes")
    sim.run()
    assert sim.now_ps >= whole_ps


def test_the_root_of_a_gather_receives_one_message_after_another():
    one = DimensionNetwork(["Switch"], [8], [50.0], [500.0])
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["gather"], "bytes": 1 << 20}
    work = Workload([Operations.of([row])] * 8, one, _system(["direct"]))
    needs = 7 * (1 << 20) / 50.0
    assert needs <= simulate(work).end_ns.max() <= needs + 1200


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter"])
def test_a_ring_under_a_switch_does_not_pay_for_both_links(name):
    """Its messages never meet: with congestion it takes as long as without."""
    one = DimensionNetwork(["Switch"], [8], [450.0], [500.0])
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[name], "bytes": 64 << 20}
    work = Workload([Operations.of([row])] * 8, one, _system(["ring"]))
    assert simulate(work, congestion=True).end_ns.tolist() == simulate(work).end_ns.tolist()


def test_a_message_over_links_of_several_speeds_takes_that_of_the_slowest():
    tiers = DimensionNetwork(["Switch", "Switch"], [2, 2], [400.0, 50.0], [100.0, 1000.0])
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["broadcast"], "bytes": 1 << 20, "group": 1}
    inside, outside = Operations.of([row]), Operations.of([])
    work = Workload([inside, outside, outside, inside], tiers, _system(["ring"]), groups={1: [0, 3]})
    ends = {simulate(work, congestion=congestion).end_ns.max() for congestion in (False, True)}
    assert max(ends) - min(ends) <= 2
    assert max(ends) == pytest.approx((1 << 20) / 50 + 2200, abs=30)


@pytest.mark.parametrize("blueprint", ["dgx-h100", "mi300x", "clos:servers=2"])
def test_ranks_of_an_infrastructure_have_ports_too(blueprint):
    from astranb.infragraph import blueprint as described

    network = InfraNetwork(described(blueprint))
    dims = len(network.npus_count)
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["all_to_all"], "bytes": 64 << 20}
    work = Workload([Operations.of([row])] * network.npus, network, _system(["direct"] * dims))
    free, queued = (simulate(work, congestion=congestion).end_ns.max() for congestion in (False, True))
    assert 0.99 * queued <= free <= queued * 1.01


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["clos:servers=2", "clos:servers=3", "torus2d:rows=3,columns=3", "dgx-h100"]),
    st.sampled_from(ALGORITHMS[:3]),
    st.sampled_from(sorted(set(COLLECTIVE_NAMES.values()))),
    st.integers(1, 64 << 20),
)
def test_no_link_of_an_infrastructure_is_faster_than_it_is_said_to_be(name, algorithm, collective, size):
    from astranb.infragraph import blueprint as described

    network = InfraNetwork(described(name))
    row = {"kind": COLLECTIVE, "collective": collective, "bytes": size}
    system = _system([algorithm] * len(network.npus_count))
    run = Run(Workload([Operations.of([row])] * network.npus, network, system), congestion=True, record=True)
    run.go()
    assert run.result().end_ns.max() >= _least_ns(run) - 1
    m = run.machine
    crossed = m.flights[: int(m.watch[0].flights)]
    assert len(crossed) == m.used.messages.sum()
    assert (crossed["end_ns"] >= crossed["start_ns"]).all()
    assert (crossed["start_ns"] >= crossed["queued_ns"]).all()
    sent: dict[tuple[int, ...], int] = {}
    of = [tuple(map(int, key)) for key in crossed[["src", "dst", "tag", "phase", "step"]].tolist()]
    for key, queued_ns in zip(of, crossed["queued_ns"].tolist(), strict=True):
        sent.setdefault(key, queued_ns)
    since = np.array([sent[key] for key in of])
    for link in np.unique(crossed["link"]).tolist():
        on = crossed["link"] == link
        took = crossed["end_ns"][on].max() - since[on].min()
        assert took >= crossed["bytes"][on].sum() / m.wires.rate_Bpns[link]
