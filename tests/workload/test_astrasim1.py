"""ASTRA-sim 1.0's workloads: loops, collectives, schedules, against laws and against the long way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.core.state import allocate
from astranb.engine.layers import Run
from astranb.engine.layers._loop import run_astrasim1
from astranb.engine.layers._run import words
from astranb.engine.layers._tables import LIMITS
from astranb.engine.stops import ENDED
from astranb.workload.astrasim1 import (
    Action,
    Algorithm,
    HierarchicalNetwork,
    Layer,
    Layers,
    Part,
    System,
    Workload,
    training_loop,
)
from astranb.workload.astrasim1._policies import involved, levels_of
from astranb.workload.astrasim1._shipped import loop_named
from tests.workload.astrasim1_whole import Whole

RING = Algorithm("ring")
SHIPPED = (
    "DATA", "DATA_REORDER", "DISTRIBUTED_INFERENCE", "HYBRID_CUSTOMIZED", "HYBRID_DATA_MODEL",
    "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED", "HYBRID_MODEL_DATA", "HYBRID_TRANSFORMER",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO", "MODEL",
)  # fmt: skip
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def _system(dims=1, algorithm=RING, **more):
    return System(dict.fromkeys(KINDS, (algorithm,) * dims), **{"splits": 4, **more})


def _ring(nodes=8, *, compat=True, **more):
    return HierarchicalNetwork(("Ring",), (nodes,), (2,), (500,), (50,), compat=compat, **more)


def _micro(collective, size, update=1):
    return Workload("MICRO", (Layer("x", weight_gradient=Part(1, collective, size), update_ns=update),))


def _result(workload, system, network, passes=1):
    run = Run(workload, system, network, passes)
    assert run.step()
    return run.result()


def _order(loop, count=4, **more):
    layers = tuple(
        Layer(f"l{number}", Part(1), Part(1), Part(1, "ALLREDUCE", 4096)) for number in range(count)
    )
    workload = Workload(loop, layers, **more)
    short = "fiw"
    steps = loop_named(loop).function(Layers.of(workload))
    actions = [a for step in steps for a in ((step,) if isinstance(step, Action) else step)]
    return " ".join(f"{short[a.part]}{a.layer}" for a in actions if a.verb == "compute")


# Collectives.


@pytest.mark.parametrize("size", [1 << 20, 100_000, 7, 1 << 30])
def test_a_ring_is_its_closed_form(size):
    result = _result(_micro("ALLREDUCE", size), _system(), _ring())
    chunk = max(size // 4, 1)
    total = 0
    while size:
        part = min(chunk, size)
        message = part // 8
        wire = int(500 + message / (100 * (1 << 30) / 1e9))
        total += 10 + 14 * (wire + 10) + 7 * 3 * (message // 500_000)
        size -= part
    assert result.time_ns == total + 1


def test_gigabytes_are_gigabytes_unless_compat_is_asked_for():
    size = 1 << 30
    plain = _result(_micro("ALLREDUCE", size), _system(), _ring(compat=False))
    peer = _result(_micro("ALLREDUCE", size), _system(), _ring())
    assert plain.time_ps / peer.time_ps == pytest.approx((1 << 30) / 1e9, rel=0.01)
    # Two links of 50 GB/s carry seven eighths of the buffer twice.
    assert plain.time_ps == pytest.approx(2 * 7 / 8 * size / 100e9 * 1e12, rel=0.01)


def test_without_compat_a_message_pays_for_every_dimension_that_it_crosses():
    shape = (("Ring", "Switch"), (2, 2), (2, 1), (500, 700), (50, 10))
    plain, peer = HierarchicalNetwork(*shape), HierarchicalNetwork(*shape, compat=True)
    src, dst = np.array([0]), np.array([3])
    assert plain.delay_ps(src, dst, 10_000).tolist() == [(500 + 1400 + 1000) * 1000]
    assert peer.delay_ps(src, dst, 10_000).tolist() == [int(1400 + 10_000 / (10 * (1 << 30) / 1e9)) * 1000]


def test_memory_is_the_least_that_a_message_takes():
    network = HierarchicalNetwork(
        ("Switch",), (4,), (1,), (500,), (25,), nic_ns=(3,), router_ns=(10,), hbm_ns=(500,),
        hbm_bandwidth=(370,), hbm_scale=(1,), compat=True,
    )  # fmt: skip
    one, other = np.array([0]), np.array([1])
    assert network.delay_ps(one, other, 25).tolist() == [1016000]
    slow = HierarchicalNetwork(
        ("Switch",), (4,), (1,), (1,), (25,), hbm_ns=(500,), hbm_bandwidth=(370,), hbm_scale=(2,), compat=True
    )
    assert slow.delay_ps(one, other, 370).tolist() == [1002000]


@pytest.mark.parametrize("algorithm", ["ring", "halvingDoubling", "direct"])
def test_all_nodes_send_what_they_must(algorithm):
    size, nodes = 1 << 20, 8
    share = size * (nodes - 1) // nodes
    for collective, bytes_ in (
        ("ALLREDUCE", 2 * share),
        ("REDUCESCATTER", share),
        ("ALLGATHER", size * (nodes - 1)),
    ):
        result = _result(_micro(collective, size), _system(algorithm=Algorithm(algorithm)), _ring(nodes))
        assert result.message_bytes == bytes_


def test_a_reduction_costs_what_is_reduced_without_compat():
    """Halving and doubling: the peer charges the next message's size, and one step too few."""
    size = 64 << 20
    switch = (("Switch",), (8,), (1,), (500,), (50,))
    halving = _system(algorithm=Algorithm("halvingDoubling"), splits=1, endpoint_ns=0)
    plain = _result(_micro("REDUCESCATTER", size, 0), halving, HierarchicalNetwork(*switch))
    wires = sum(1000 + size / 2**k / 50 for k in (1, 2, 3))
    reductions = sum(3 * size / 2**k / 500_000 for k in (1, 2, 3))
    assert plain.time_ps == pytest.approx((wires + reductions) * 1000, abs=10)


def test_price_of_a_network():
    network = HierarchicalNetwork(("Switch", "Switch"), (16, 16), (6, 1), (500, 500), (25, 6.25))
    assert network.cost_dollars == 680_000
    pods = HierarchicalNetwork(("Switch",), (4,), (1,), (500,), (10,), kinds=("Pod",))
    assert pods.cost_dollars == pytest.approx(4 * 10 * (7.4 + 23.7 + 47.8))
    full = HierarchicalNetwork(("FullyConnected",), (8,), (7,), (500,), (50,))
    assert full.cost_dollars == 5600


def test_smaller_windows_take_longer():
    times = []
    for window in (1, 2, 4, 7, -1):
        system = _system(algorithm=Algorithm("direct", window))
        times.append(_result(_micro("ALLTOALL", 1 << 20), system, _ring()).time_ps)
    assert times == sorted(times, reverse=True)
    assert times[-2] == times[-1] < times[0]


def test_themis_uses_what_the_plain_order_leaves_idle():
    """The tutorial's figures: a reduction over 8 x 8 x 8 of equal bandwidth, 38 % against 98 % used."""
    network = HierarchicalNetwork(("Switch",) * 3, (8,) * 3, (1,) * 3, (1,) * 3, (50,) * 3, compat=True)
    workload = _micro("ALLREDUCE", 1 << 30)
    halving = Algorithm("halvingDoubling")
    plain = _result(workload, _system(3, halving, splits=64, boost=True), network)
    themis = _system(3, halving, splits=64, boost=True, within="SCF", between="themis")
    quick = _result(workload, themis, network)
    assert (plain.time_ns, quick.time_ns) == (35_008_129, 13_635_871)
    ideal = quick.message_bytes / (3 * 50 * (1 << 30) / 1e9)
    assert ideal / quick.time_ns == pytest.approx(0.976, abs=0.001)
    assert max(quick.busy_ps_per_dim) < 1.1 * min(quick.busy_ps_per_dim)


# Congestion.


def test_with_congestion_direct_waits_at_the_switch():
    """The tutorial's figures for 1 GiB among 64 NPUs: without and with congestion."""
    network = HierarchicalNetwork(("Switch",), (64,), (1,), (500,), (50,), compat=True)
    system = _system(algorithm=Algorithm("direct"))
    times = []
    for congested in (False, True):
        run = Run(_micro("ALLREDUCE", 1 << 30), system, network, congested=congested)
        assert run.step()
        times.append(run.result().time_ns)
    assert times == [633_217, 40_008_217]


@given(
    units=st.sampled_from([2, 4, 8]),
    kind=st.sampled_from(["Ring", "FullyConnected", "Switch"]),
    collective=st.sampled_from(["ALLREDUCE", "ALLGATHER", "REDUCESCATTER"]),
)
@settings(max_examples=15, deadline=None)
def test_congestion_never_helps_and_neighbours_never_meet(units, kind, collective):
    links = {"Ring": 2, "Switch": 1}.get(kind, units - 1)
    network = HierarchicalNetwork((kind,) * 2, (units, 4), (links, links if kind == "Ring" else 3),
                                  (500,) * 2, (50,) * 2)  # fmt: skip
    for name in ("ring", "direct"):
        system = _system(2, Algorithm(name))
        free, busy = (Run(_micro(collective, 4 << 20), system, network, congested=c) for c in (False, True))
        assert free.step()
        assert busy.step()
        assert busy.result().time_ps >= free.result().time_ps * 0.999
        assert busy.result().message_bytes == free.result().message_bytes


def test_what_congestion_does_not_have():
    pair = HierarchicalNetwork(("Ring",) * 2, (4, 4), (2, 2), (500, 500), (50, 50))
    slow = HierarchicalNetwork(("Ring",), (4,), (2,), (500,), (50,), nic_ns=(5,))
    whole = System({"all-reduce": (Algorithm("ring", whole=True),)})
    for system, network, message in (
        (_system(2, active_chunks=2), pair, "one chunk at a time"),
        (_system(2, queues=2), pair, "one chunk at a time"),
        (_system(), slow, "knows no nic-ns"),
        (whole, pair, "16 NPUs are no dimension"),
    ):
        with pytest.raises(InputError, match=message):
            Run(_micro("ALLREDUCE", 4096), system, network, congested=True)


# Training loops.


def test_loops_compute_in_the_order_of_the_tutorial():
    assert _order("DATA") == "f0 f1 f2 f3 w3 i3 w2 i2 w1 i1 w0"
    assert _order("DATA_REORDER") == "f0 f1 f2 f3 i3 w3 i2 w2 i1 w1 w0"
    assert _order("MODEL") == "f0 f1 f2 f3 i3 w3 i2 w2 i1 w1 i0 w0"
    assert _order("DISTRIBUTED_INFERENCE") == "f0 f1 f2 f3"
    assert _order("MICRO") == ""
    assert _order("HYBRID_DLRM", last_bottom=1) == "f0 f1 f2 f3 w3 i3 w2 i2 w1 i1 w0"


def test_activations_are_worked_out_again_from_the_checkpoint():
    order = _order("HYBRID_TRANSFORMER_FWD_IN_BCKWD", checkpoints=(0, 2), initiates=(1, 3), group=1)
    assert order == "f0 f1 f2 f3 f2 i3 w3 i2 w2 f0 i1 w1 i0 w0"
    with pytest.raises(InputError, match=r"layer 1 .* no checkpoint"):
        _order("HYBRID_TRANSFORMER_FWD_IN_BCKWD", checkpoints=(1,), initiates=(1,), group=1)


@pytest.mark.parametrize("loop", SHIPPED)
def test_every_loop_that_ships_runs_to_its_end(loop):
    parts = (Part(10, "ALLGATHER", 4096), Part(10, "REDUCESCATTER", 4096), Part(10, "ALLREDUCE", 4096))
    policy = "DATA" if loop == "HYBRID_CUSTOMIZED" else None
    layers = tuple(Layer(f"l{number}", *parts, 3, policy) for number in range(4))
    network = HierarchicalNetwork(("Ring",) * 2, (4, 4), (2, 2), (500, 500), (50, 50))
    workload = Workload(loop, layers, group=4, checkpoints=(0,), initiates=(3,), last_bottom=1)
    result = _result(workload, _system(2), network, 2)
    assert result.time_ps > 0
    assert len(result.pass_end_ps) == 2
    assert result.compute_ps + result.exposed_comm_ps == result.time_ps


@training_loop("WEIGHTS_FIRST", dimensions="DATA")
def _weights_first(layers):
    """All weight gradients, then all input gradients."""
    for layer in layers:
        yield layer.weight_gradient.wait(), layer.forward.compute()
    for layer in reversed(layers):
        yield layer.weight_gradient.compute(), layer.weight_gradient.issue()
    for layer in reversed(layers[1:]):
        yield layer.input_gradient.compute()


def test_a_loop_of_ones_own_hides_more():
    """Sent before the input gradients are computed, the weights' all-reduces have more time."""
    layers = tuple(
        Layer(f"l{n}", Part(10_000), Part(100_000), Part(10_000, "ALLREDUCE", 4 << 20)) for n in range(4)
    )
    theirs, own = (
        _result(Workload(loop, layers), _system(), _ring(), 2) for loop in ("DATA", "WEIGHTS_FIRST")
    )
    assert own.compute_ps == theirs.compute_ps
    assert own.exposed_comm_ps < theirs.exposed_comm_ps


def test_what_a_loop_may_not_yield():
    @training_loop("_ODD")
    def _odd(layers):
        yield layers[0].forward.compute(), "compute"

    with pytest.raises(InputError, match="no action"):
        _result(Workload("_ODD", (Layer("a"),)), _system(), _ring())
    with pytest.raises(InputError, match="did you mean 'DATA'"):
        loop_named("DATTA")


def test_dimensions_of_each_policy():
    torus = HierarchicalNetwork(("Ring",) * 3, (4, 4, 4), (2,) * 3, (1,) * 3, (50,) * 3)
    levels = levels_of(torus, None, "w")
    assert involved("DATA", levels, "w") == (0, 0, 7)
    assert involved("MODEL", levels, "w") == (7, 7, 0)
    assert involved("HYBRID_DATA_MODEL", levels, "w") == (1, 1, 6)
    assert involved("HYBRID_MODEL_DATA", levels, "w") == (6, 6, 1)
    assert involved("HYBRID_TRANSFORMER", levels_of(torus, 16, "w"), "w") == (3, 3, 4)
    cut = levels_of(torus, 8, "w")
    assert (cut.units, cut.physical) == ((4, 2, 2, 4), (0, 1, 1, 2))
    assert involved("HYBRID_TRANSFORMER", cut, "w") == (3, 3, 12)
    assert involved("HYBRID_TRANSFORMER", levels_of(torus, 1, "w"), "w") == (0, 0, 7)
    for group in (3, 12, 128):
        with pytest.raises(InputError, match="does not fit into 4 x 4 x 4"):
            levels_of(torus, group, "w")


def test_scales_are_those_of_32_bits_under_compat():
    layer = Layer("x", Part(36290323), Part(3429), Part(1, "ALLREDUCE", 1048576))
    table = Workload("DATA", (layer,))
    assert table.scaled(compat=True).layers[0].forward.compute_ns == 36290324
    assert table.scaled().layers[0].forward.compute_ns == 36290323
    scaled = table.scaled(0.41, 2, compat=True).layers[0]
    assert (scaled.input_gradient.compute_ns, scaled.weight_gradient.size) == (1405, 2097152)


# How it is run.


@given(cuts=st.lists(st.integers(0, 50), max_size=20))
@settings(max_examples=25, deadline=None)
def test_steps_change_nothing(cuts):
    layers = tuple(Layer(f"l{n}", Part(50), Part(50), Part(50, "ALLREDUCE", 4096), 5) for n in range(3))
    network = HierarchicalNetwork(("Ring",) * 2, (4, 4), (2, 2), (500, 500), (50, 50))
    whole = Run(Workload("DATA", layers), _system(2), network, 2)
    cut = Run(Workload("DATA", layers), _system(2), network, 2)
    assert whole.step()
    for events in cuts:
        before = cut.events
        ended = cut.step(events)
        assert cut.events - before == events or ended
    assert cut.step()
    assert cut.state_hash() == whole.state_hash()
    assert cut.result().time_ps == whole.result().time_ps


def test_compiled_and_plain_python_are_the_same():
    layers = tuple(Layer(f"l{n}", Part(50), Part(50), Part(50, "ALLREDUCE", 4096), 5) for n in range(3))
    network = HierarchicalNetwork(("Ring",) * 2, (4, 4), (2, 2), (500, 500), (50, 50), compat=True)
    compiled, plain = (Run(Workload("DATA", layers), _system(2, queues=2), network, 2) for _ in range(2))
    assert compiled.step()
    limits = allocate(1, LIMITS)
    limits.events = 1 << 40
    assert run_astrasim1(limits, *plain.machine, *words(plain.machine)) == ENDED
    assert compiled.state_hash() == plain.state_hash()


def test_a_run_is_read_while_it_is_under_way():
    run = Run(_micro("ALLREDUCE", 1 << 20), _system(), _ring())
    assert not run.step(3)
    part = run.result()
    assert 0 < part.time_ns < 45681
    assert 0 < part.message_bytes < 1835008
    hashes = {run.state_hash()}
    while not run.step(1):
        hashes.add(run.state_hash())
    assert run.result().time_ns == 45681
    assert len(hashes) == run.events - 3
    frame = run.result().to_dataframe()
    assert frame.loc["x", "wg_exposed_comm_ps"] == 45681000


def test_a_collective_of_nobody_takes_no_time():
    assert _result(_micro("ALLREDUCE", 1 << 20), _system(), _ring(1)).time_ps == 0


@pytest.mark.parametrize(
    "change, message",
    [
        ({"algorithms": {}}, "all-reduce-implementation is missing"),
        ({"algorithms": {"all-reduce": (RING, RING)}}, "names 2 algorithms for 1 dimensions"),
        ({"algorithms": {"all-reduce": (Algorithm("halvingDoubling"),)}}, "a power of two of NPUs, not 6"),
        ({"algorithms": {"all-reduce": (Algorithm("doubleBinaryTree"),)}}, "a power of two of NPUs, not 6"),
        ({"splits": 0}, "splits is 0"),
        ({"queues": 0}, "queues is 0"),
    ],
)
def test_systems_that_do_not_fit(change, message):
    with pytest.raises(InputError, match=message):
        _result(_micro("ALLREDUCE", 4096), System(**{**vars(_system()), **change}), _ring(6))


def test_trees_and_halving_do_not_do_everything():
    for collective, algorithm in (("ALLGATHER", "doubleBinaryTree"), ("ALLTOALL", "halvingDoubling")):
        with pytest.raises(InputError, match=algorithm):
            _result(_micro(collective, 4096), _system(algorithm=Algorithm(algorithm)), _ring(8))
    for passes in (0, -1):
        with pytest.raises(InputError, match="passes"):
            Run(_micro("ALLREDUCE", 4096), _system(), _ring(), passes)


# The long way.

SHAPES = st.lists(st.sampled_from([2, 3, 4, 4]), min_size=1, max_size=3).filter(lambda u: np.prod(u) <= 24)
PARTS = st.builds(
    lambda compute, kind, size: Part(compute, kind, 0 if kind == "NONE" else size),
    st.sampled_from([0, 1, 10, 1000, 1010, 20_000]),
    st.sampled_from(["NONE", "ALLREDUCE", "ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL"]),
    st.sampled_from([1, 1000, 4096, 65536, 100_001, 3 << 20, 16 << 20]),
)
LAYERS = st.lists(
    st.builds(Layer, st.just("l"), PARTS, PARTS, PARTS, st.sampled_from([0, 1, 10])), min_size=1, max_size=3
)
LOOPS = [name for name in SHIPPED if name not in ("HYBRID_CUSTOMIZED", "HYBRID_TRANSFORMER_FWD_IN_BCKWD")]


def _algorithm(data, units, collective):
    names = ["ring", "direct"]
    if units & (units - 1) == 0:
        names += ["halvingDoubling"] if collective != "all-to-all" else []
        names += ["doubleBinaryTree"] if collective == "all-reduce" else []
    name = data.draw(st.sampled_from(names))
    return Algorithm(name, data.draw(st.sampled_from([-1, 1, 2])) if name == "direct" else -1)


@given(data=st.data(), units=SHAPES, layers=LAYERS, loop=st.sampled_from(LOOPS))
@settings(max_examples=40, deadline=None)
def test_one_npu_stands_for_all(data, units, layers, loop):
    """What is folded into one NPU gives what every NPU and message gives, layer by layer."""
    draw = data.draw
    kinds = [draw(st.sampled_from(["Ring", "FullyConnected", "Switch"])) for _ in units]
    links = [{"Ring": 2, "Switch": 1}.get(kind, n - 1) for kind, n in zip(kinds, units, strict=True)]
    latency = [draw(st.sampled_from([1, 500])) for _ in units]
    bandwidth = [draw(st.sampled_from([12.5, 50])) for _ in units]
    network = HierarchicalNetwork(
        tuple(kinds), tuple(units), tuple(links), tuple(latency), tuple(bandwidth), compat=True
    )
    system = System(
        {kind: tuple(_algorithm(data, n, kind) for n in units) for kind in KINDS},
        splits=draw(st.sampled_from([1, 2, 4])),
        lifo=draw(st.booleans()),
        endpoint_ns=draw(st.sampled_from([1, 10])),
        active_chunks=draw(st.sampled_from([1, 2])),
        baseline=draw(st.booleans()),
        within=draw(st.sampled_from(["FIFO", "SCF", "lessRemainingPhaseFirst"])),
        between=draw(st.sampled_from(["ascending", "roundRobin"])),
        queues=draw(st.sampled_from([1, 2])),
    )
    workload = Workload(
        loop,
        tuple(layers),
        group=units[0] if loop == "HYBRID_TRANSFORMER" else None,
        last_bottom=0 if "DLRM" in loop else None,
    )
    result = _result(workload, system, network, 2)
    whole = Whole(workload, system, network, 2)
    npu = whole.npus[0]
    slots = [(number, part) for number in range(len(layers)) for part in (0, 2, 1)]
    assert result.time_ns == npu.end
    assert result.message_bytes == whole.sent_bytes
    columns = (npu.compute, npu.exposed, npu.total)
    for column, expected in enumerate(columns):
        here = result.layers[:, 3 * column : 3 * column + 3].ravel() // 1000
        assert here.tolist() == [expected[slot] for slot in slots]
