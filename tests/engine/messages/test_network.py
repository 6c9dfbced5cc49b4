"""Networks: several dimensions with congestion, lines and tori, infrastructures."""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages import Run, simulate
from astranb.infragraph import blueprint
from astranb.infragraph import load as load_infra
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
    Workload,
)

NAMES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
SHAPES = ("Ring", "FullyConnected", "Switch", "Mesh")


def _system(*algorithms, splits=1, **more):
    lists: dict[str, Any] = {f"{name}-implementation": list(algorithms) for name in NAMES}
    lists |= {"preferred-dataset-splits": splits, "collective-optimization": "localBWAware"}
    return System.from_document({**lists, "local-mem-bw": 1600, **more})


def _collective(size, collective=0):
    return Operations.of([{"kind": COLLECTIVE, "collective": collective, "bytes": size}])


def _one_message(npus, src, dst, size):
    ranks = [Operations.of([{"kind": COMPUTE, "duration_ns": 0}])] * npus
    ranks[src] = Operations.of([{"kind": SEND, "peer": dst, "bytes": size}])
    ranks[dst] = Operations.of([{"kind": RECV, "peer": src, "bytes": size}])
    return ranks


@st.composite
def _networks(draw):
    count = draw(st.integers(1, 3))
    pick = [draw(st.sampled_from(SHAPES)) for _ in range(count)]
    npus = [draw(st.integers(2, 4)) for _ in range(count)]
    rates = [draw(st.sampled_from([12.5, 25, 50, 100])) for _ in range(count)]
    return DimensionNetwork(pick, npus, rates, [draw(st.integers(0, 2000)) for _ in range(count)])


def _hops(shape, nodes, here, there):
    if here == there:
        return 0
    if shape == "Ring":
        return min((there - here) % nodes, (here - there) % nodes)
    return {"FullyConnected": 1, "Switch": 2, "Mesh": abs(there - here)}[shape]


@settings(max_examples=60, deadline=None)
@given(network=_networks(), data=st.data(), size=st.integers(1, 1 << 24))
def test_a_message_alone_takes_each_of_its_links_once(network, data, size):
    npus = network.npus
    src, dst = data.draw(st.integers(0, npus - 1)), data.draw(st.integers(0, npus - 1))
    if src == dst:
        return
    ranks = _one_message(npus, src, dst, size)
    run = Run(Workload(ranks, network, System.from_document({})), congestion=True, record=True)
    run.finish()
    links, stride = 0, 1
    latency_ns, narrowest = 0.0, float("inf")
    for shape, nodes, rate, latency in zip(
        network.topology, network.npus_count, network.bandwidth, network.latency, strict=True
    ):
        hops = _hops(shape, nodes, src // stride % nodes, dst // stride % nodes)
        links += hops
        if hops:
            latency_ns, narrowest = latency_ns + hops * latency, min(narrowest, rate)
        stride *= nodes
    # Its first bytes go on while the last ones come; each link rounds to a nanosecond.
    assert 0 <= int(latency_ns + size / narrowest) - run.result().end_ns[dst] <= links
    # Bytes are conserved: each link that it crosses has carried it, and no other.
    carried = run.machine.used.bytes
    assert sorted(carried[carried > 0].tolist()) == [size] * links
    free = simulate(Workload(ranks, network, System.from_document({})))
    assert free.end_ns[dst] == int(latency_ns + size / narrowest)


@settings(max_examples=60, deadline=None)
@given(
    network=_networks(),
    size=st.integers(64, 1 << 20),
    collective=st.integers(0, 3),
    splits=st.integers(1, 4),
    algorithm=st.sampled_from(["ring", "direct"]),
)
def test_congestion_never_makes_anything_faster(network, size, collective, splits, algorithm):
    system = _system(*[algorithm] * len(network.topology), splits=splits)
    ranks = [_collective(size, collective)] * network.npus
    free, full = (
        simulate(Workload(ranks, network, system), congestion=congestion) for congestion in (False, True)
    )
    assert (full.end_ns >= free.end_ns).all()
    assert (full.messages, full.message_bytes) == (free.messages, free.message_bytes)


def test_chunks_that_come_in_other_orders_do_not_wait_for_ever():
    # The ends of a line are busy longer than its middle, and the next dimension sees two orders.
    network = DimensionNetwork(["Ring", "Mesh", "Ring"], [2, 3, 2], [12.5, 12.5, 25], [0, 0, 0])
    ranks = [_collective(7452)] * 12
    system = _system("direct", "direct", "direct", splits=2)
    free, full = (
        simulate(Workload(ranks, network, system), congestion=congestion) for congestion in (False, True)
    )
    assert (full.end_ns >= free.end_ns).all()


@settings(max_examples=30, deadline=None)
@given(network=_networks(), size=st.integers(1 << 10, 1 << 20), factor=st.integers(2, 8))
def test_more_bandwidth_and_less_latency_never_take_longer(network, size, factor):
    system = _system(*["ring"] * len(network.topology))
    ranks = [_collective(size)] * network.npus
    better = DimensionNetwork(
        network.topology,
        network.npus_count,
        [rate * factor for rate in network.bandwidth],
        [latency / factor for latency in network.latency],
    )
    for congestion in (False, True):
        slow, fast = (
            simulate(Workload(ranks, one, system), congestion=congestion) for one in (network, better)
        )
        assert fast.end_ns.max() <= slow.end_ns.max()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SHAPES[:3]), st.integers(2, 4)), min_size=2, max_size=3))
def test_rings_over_dimensions_contend_for_nothing_and_add_up(dims):
    # All to the next of their ring at once: each message has its links to itself.
    shapes, counts = zip(*dims, strict=True)
    size = 1 << 16
    network = DimensionNetwork(shapes, counts, [50] * len(dims), [500] * len(dims))
    ranks = [_collective(size)] * network.npus
    free, full = (
        simulate(Workload(ranks, network, _system(*["ring"] * len(dims))), congestion=congestion).end_ns
        for congestion in (False, True)
    )
    expected, part = 0, size
    for at, (shape, nodes) in enumerate(dims):
        last = at == len(dims) - 1
        message = part // nodes
        hops = 2 if shape == "Switch" else 1
        reduce_ns = (nodes - 1) * 3 * int(message / 1600)
        steps = 2 * (nodes - 1)
        # Scattered, and gathered with the same messages; the last dimension does both at once.
        begun = 10 * (1 if last else 2)
        expected += begun + steps * (int(hops * 500 + message / 50) + 10) + reduce_ns
        part = message
    assert set(free.tolist()) == set(full.tolist()) == {expected}


@pytest.mark.parametrize("shape, sides", [("Torus2D", 2), ("Torus3D", 3), ("Mesh2D", 2), ("Mesh3D", 3)])
def test_a_torus_is_as_rings_and_a_mesh_as_lines(shape, sides):
    one = DimensionNetwork([shape], [3**sides], [50], [500])
    many = DimensionNetwork(
        ["Ring" if shape[0] == "T" else "Mesh"] * sides, [3] * sides, [50] * sides, [500] * sides
    )
    for congestion in (False, True):
        for src, dst in ((0, 3**sides - 1), (1, 5), (4, 3)):
            ranks = _one_message(one.npus, src, dst, 100_000)
            left, right = (
                simulate(Workload(ranks, net, System.from_document({})), congestion=congestion).end_ns
                for net in (one, many)
            )
            assert left.tolist() == right.tolist()


def test_links_of_large_networks_are_few():
    network = DimensionNetwork(["Ring", "FullyConnected", "Switch"], [16, 16, 16], [100, 50, 25], [500] * 3)
    run = Run(
        Workload([_collective(1 << 20)] * 4096, network, _system("ring", "direct", "ring")), congestion=True
    )
    assert len(run.machine.links) == 4096 * (2 + 16 + 2)


@pytest.mark.parametrize(
    "network, message",
    [
        (("Torus2D", 15), "Torus2D cannot have 15 NPUs; take a square"),
        (("Torus3D", 9), "Torus3D cannot have 9 NPUs; take a cube"),
    ],
)
def test_a_torus_has_equal_sides(network, message):
    shape, count = network
    with pytest.raises(InputError, match=message):
        DimensionNetwork([shape], [count], [50], [500])


def test_compat_has_the_peers_networks_only():
    with pytest.raises(InputError, match=r"ASTRA-sim 2\.0 has no Mesh"):
        simulate(
            Workload(
                [_collective(1 << 10)] * 4,
                DimensionNetwork(["Mesh"], [4], [50], [500]),
                _system("ring"),
                compat=True,
            )
        )


@pytest.mark.parametrize("name", ["ring", "fully-connected", "switch"])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "halvingDoubling", "doubleBinaryTree"])
@pytest.mark.parametrize("congestion", [False, True])
def test_an_infrastructure_is_as_the_network_that_it_draws(name, algorithm, congestion):
    # On a ring of 8, direct sends go to the opposite NPU, to which there are two equally good routes.
    npus = 7 if algorithm == "direct" else 8
    drawn = InfraNetwork(blueprint(f"{name}:gpus={npus}"))
    shape = {"ring": "Ring", "fully-connected": "FullyConnected", "switch": "Switch"}[name]
    fabric = drawn.fabric
    latency = float(fabric.links[0].latency_ps) / 1000
    plain = DimensionNetwork([shape], [npus], [50], [latency])
    system = _system(algorithm, splits=2)
    left = Run(Workload([_collective(1 << 20)] * npus, drawn, system), congestion=congestion)
    left.finish()
    # A switch takes its own time on top, on the first of the two links.
    over = float(fabric.links.forward_ps.max()) / 1000
    right = simulate(Workload([_collective(1 << 20)] * npus, plain, system), congestion=congestion)
    if name == "ring" and algorithm == "halvingDoubling" and congestion:
        # Here half of the chunks go the other way round to the opposite NPU.
        assert left.result().end_ns.max() == pytest.approx(right.end_ns.max(), rel=0.05)
    elif over == 0:
        assert left.result().end_ns.tolist() == right.end_ns.tolist()
    else:
        steps = left.result().messages
        slower = (left.result().end_ns - right.end_ns).tolist()
        assert all(0 < more <= over * steps for more in slower)
    assert left.result().message_bytes == right.message_bytes


def test_parallel_lanes_and_planes_of_switches_are_one_wide_link():
    network = InfraNetwork(blueprint("dgx-h100"))
    links = network.fabric.links
    out = np.flatnonzero(links.src == network.fabric.gpus[0])
    nvlinks = [link for link in out if "nvsw" in network.fabric.name(int(link))]
    run = Run(Workload(_one_message(8, 0, 5, 10**9), network, System.from_document({})))
    run.finish()
    wide = float(links.bandwidth_Bps[nvlinks].sum()) / 1e9
    latency = float(run.machine.routes[0].latency_ns)
    assert run.result().end_ns[5] == int(latency + 10**9 / wide)


def test_bytes_are_conserved_on_the_links_of_a_clos():
    network = InfraNetwork(blueprint("clos:servers=4"))
    assert tuple(network.npus_count) == (8, 4)
    run = Run(
        Workload([_collective(1 << 20)] * 32, network, _system("ring", "ring")), congestion=True, record=True
    )
    run.finish()
    machine = run.machine
    # Rings: every route is used by as many bytes as any other of its dimension.
    carried = int((machine.used.bytes).sum())
    steps = {1: 7, 8: 3}
    expected = 0
    for route in machine.routes:
        src, dst = divmod(int(route.key), 32)
        stride = 8 if (dst - src) % 8 == 0 else 1
        ahead = (src // stride + 1) % (4 if stride == 8 else 8) == dst // stride % (4 if stride == 8 else 8)
        if ahead:
            message = (1 << 20) // 8 if stride == 1 else (1 << 20) // 8 // 4
            expected += int(route.hops) * 2 * steps[stride] * message
    assert carried == expected
    free = simulate(Workload([_collective(1 << 20)] * 32, network, _system("ring", "ring")))
    assert (run.result().end_ns >= free.end_ns).all()


def test_messages_of_a_torus_take_one_of_several_routes_by_their_tag():
    network = InfraNetwork(blueprint("torus2d:rows=3,columns=3"))
    ends = set()
    for tag in range(16):
        said = ({"peer": 4, "bytes": 10**6, "tag": tag}, {"peer": 1, "bytes": 7})
        ranks = [Operations.of([])] * 9
        ranks[0] = Operations.of([{"kind": SEND, **row} for row in said])
        # Another rank uses one of the links alone: the message is not spread over both routes.
        ranks[1] = Operations.of([{"kind": RECV, "peer": 0, "bytes": 7}])
        ranks[4] = Operations.of([{"kind": RECV, "peer": 0, "bytes": 10**6, "tag": tag}])
        run = Run(Workload(ranks, network, System.from_document({})), congestion=True, record=True)
        run.finish()
        ends.add(tuple(np.flatnonzero(run.machine.used.bytes >= 10**6).tolist()))
        assert (
            run.result().end_ns[4]
            == simulate(Workload(ranks, network, System.from_document({})), congestion=True).end_ns[4]
        )
    assert len(ends) == 2
    assert all(len(one) == 2 for one in ends)


def test_halving_of_six_is_refused_and_waits_for_ever_where_the_peer_does():
    halving, ranks = _system("halvingDoubling"), [_collective(1 << 20)] * 6
    for network in (InfraNetwork(blueprint("ring:gpus=6")), DimensionNetwork(["Ring"], [6], [50.0], [500.0])):
        with pytest.raises(
            InputError, match="halvingDoubling does an all-reduce of 2, 4, 8, … NPUs, not of 6"
        ):
            simulate(Workload(ranks, network, halving))
    with pytest.raises(Deadlock, match="every rank is in it"):
        simulate(Workload(ranks, network, halving, compat=True))


def test_dimensions_of_an_infrastructure_have_all_its_gpus():
    with pytest.raises(InputError, match="dimensions 3 x 3 do not fit 8 GPUs"):
        InfraNetwork(blueprint("ring:gpus=8"), (3, 3))
    given_too = InfraNetwork(blueprint("ring:gpus=8"), (4, 2))
    assert prod(given_too.npus_count) == given_too.npus == 8


@pytest.mark.parametrize("congestion", [False, True])
def test_a_nic_sends_so_many_packets_a_second(congestion):
    # A million a second: a packet of 4 KiB each 1000 ns, where its bytes would take some 80 ns.
    said = [{"name": "link", "attributes": [{"attribute": "astranb.message_rate", "value": "1e6"}]}]
    slow = load_infra(blueprint("switch:gpus=2").to_dict(), annotations={"links": said})
    network = InfraNetwork(slow)
    links = network.fabric.links
    up, down = (
        float(links[k].latency_ps + links[k].forward_ps) / 1000
        for k in (int(np.flatnonzero(links.src == network.fabric.gpus[0])[0]),
                  int(np.flatnonzero(links.dst == network.fabric.gpus[1])[0]))
    )  # fmt: skip
    for size, packets in ((1, 1), (4096, 1), (4097, 2), (10_000, 3)):
        run = Run(
            Workload(_one_message(2, 0, 1, size), network, System.from_document({})), congestion=congestion
        )
        run.finish()
        # The switch, which has no such limit, sends on what has come.
        assert run.result().end_ns[1] == int(up + down + packets * 1000)
    # With enough bytes behind each packet the wire is what counts.
    free = InfraNetwork(blueprint("switch:gpus=2"))
    fast = [{"name": "link", "attributes": [{"attribute": "astranb.message_rate", "value": "1e9"}]}]
    quick = InfraNetwork(load_infra(blueprint("switch:gpus=2").to_dict(), annotations={"links": fast}))
    ends = []
    for one in (free, quick):
        run = Run(
            Workload(_one_message(2, 0, 1, 1 << 20), one, System.from_document({})), congestion=congestion
        )
        run.finish()
        ends.append(int(run.result().end_ns[1]))
    assert ends[0] == ends[1]
