"""The layer engine: collectives, schedules and loops against closed forms and a simulation of every NPU."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.core.state import allocate
from astranb.engine.layers import LayerRun
from astranb.engine.layers.loop import run_layers
from astranb.engine.layers.run import _numbers
from astranb.engine.layers.tables import LIMITS
from astranb.engine.stops import ENDED
from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    Layer,
    LayerAlgorithm,
    LayerSystem,
    LayerTable,
    LayerWorkload,
    Part,
    training_loop,
)
from tests.engine.layers.every_npu import EveryNpu

RING = LayerAlgorithm("ring")
SHIPPED = (
    "DATA", "DATA_REORDER", "DISTRIBUTED_INFERENCE", "HYBRID_CUSTOMIZED", "HYBRID_DATA_MODEL",
    "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED", "HYBRID_MODEL_DATA", "HYBRID_TRANSFORMER",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO", "MODEL",
)  # fmt: skip
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def _system(dims=1, algorithm=RING, **more):
    return LayerSystem(dict.fromkeys(KINDS, (algorithm,) * dims), **{"splits": 4, **more})


def _ring(nodes=8, *, compat=True, **more):
    return HierarchicalNetwork(("Ring",), (nodes,), (2,), (500,), (50,), compat=compat, **more)


def _micro(collective, size, update=1):
    return LayerTable("MICRO", (Layer("x", weight_gradient=Part(1, collective, size), update_ns=update),))


def _run(table, system, network, passes=1, *, congestion=False):
    return LayerRun(LayerWorkload(table, system, network, passes, congestion))


def _result(*inputs, **options):
    run = _run(*inputs, **options)
    assert run.go() == ENDED
    return run.result()


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


@pytest.mark.parametrize("algorithm", ["ring", "halvingDoubling", "direct"])
def test_all_nodes_send_what_they_must(algorithm):
    size, nodes = 1 << 20, 8
    share = size * (nodes - 1) // nodes
    for collective, bytes_ in (
        ("ALLREDUCE", 2 * share),
        ("REDUCESCATTER", share),
        ("ALLGATHER", size * (nodes - 1)),
    ):
        result = _result(_micro(collective, size), _system(algorithm=LayerAlgorithm(algorithm)), _ring(nodes))
        assert result.message_bytes == bytes_


def test_a_reduction_costs_what_is_reduced_without_compat():
    """Halving and doubling: the peer charges the next message's size, and one step too few."""
    size = 64 << 20
    switch = (("Switch",), (8,), (1,), (500,), (50,))
    halving = _system(algorithm=LayerAlgorithm("halvingDoubling"), splits=1, endpoint_ns=0)
    plain = _result(_micro("REDUCESCATTER", size, 0), halving, HierarchicalNetwork(*switch))
    wires = sum(1000 + size / 2**k / 50 for k in (1, 2, 3))
    reductions = sum(3 * size / 2**k / 500_000 for k in (1, 2, 3))
    assert plain.time_ps == pytest.approx((wires + reductions) * 1000, abs=10)


def test_smaller_windows_take_longer():
    times = []
    for window in (1, 2, 4, 7, -1):
        system = _system(algorithm=LayerAlgorithm("direct", window))
        times.append(_result(_micro("ALLTOALL", 1 << 20), system, _ring()).time_ps)
    assert times == sorted(times, reverse=True)
    assert times[-2] == times[-1] < times[0]


def test_themis_uses_what_the_plain_order_leaves_idle():
    """The tutorial's figures: a reduction over 8 x 8 x 8 of equal bandwidth, 38 % against 98 % used."""
    network = HierarchicalNetwork(("Switch",) * 3, (8,) * 3, (1,) * 3, (1,) * 3, (50,) * 3, compat=True)
    workload = _micro("ALLREDUCE", 1 << 30)
    halving = LayerAlgorithm("halvingDoubling")
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
    system = _system(algorithm=LayerAlgorithm("direct"))
    times = []
    for congestion in (False, True):
        result = _result(_micro("ALLREDUCE", 1 << 30), system, network, congestion=congestion)
        times.append(result.time_ns)
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
        system = _system(2, LayerAlgorithm(name))
        table = _micro(collective, 4 << 20)
        free, busy = (_result(table, system, network, congestion=c) for c in (False, True))
        assert busy.time_ps >= free.time_ps * 0.999
        assert busy.message_bytes == free.message_bytes


def test_inputs_that_congestion_does_not_support():
    pair = HierarchicalNetwork(("Ring",) * 2, (4, 4), (2, 2), (500, 500), (50, 50))
    slow = HierarchicalNetwork(("Ring",), (4,), (2,), (500,), (50,), nic_ns=(5,))
    whole = LayerSystem({"all-reduce": (LayerAlgorithm("ring", whole=True),)})
    for system, network, message in (
        (_system(2, active_chunks=2), pair, "one chunk at a time"),
        (_system(2, queues=2), pair, "one chunk at a time"),
        (_system(), slow, "does not simulate nic-ns"),
        (whole, pair, "16 NPUs are not a dimension"),
    ):
        with pytest.raises(InputError, match=message):
            _run(_micro("ALLREDUCE", 4096), system, network, congestion=True)


# Training loops.


@pytest.mark.parametrize("loop", SHIPPED)
def test_every_loop_of_astrasim_runs_to_its_end(loop):
    parts = (Part(10, "ALLGATHER", 4096), Part(10, "REDUCESCATTER", 4096), Part(10, "ALLREDUCE", 4096))
    policy = "DATA" if loop == "HYBRID_CUSTOMIZED" else None
    layers = tuple(Layer(f"l{number}", *parts, 3, policy) for number in range(4))
    network = HierarchicalNetwork(("Ring",) * 2, (4, 4), (2, 2), (500, 500), (50, 50))
    table = LayerTable(loop, layers, group=4, checkpoints=(0,), initiates=(3,), last_bottom=1)
    result = _result(table, _system(2), network, 2)
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


def test_a_custom_loop_hides_more_communication():
    """Sent before the input gradients are computed, the weights' all-reduces have more time."""
    layers = tuple(
        Layer(f"l{n}", Part(10_000), Part(100_000), Part(10_000, "ALLREDUCE", 4 << 20)) for n in range(4)
    )
    theirs, own = (
        _result(LayerTable(loop, layers), _system(), _ring(), 2) for loop in ("DATA", "WEIGHTS_FIRST")
    )
    assert own.compute_ps == theirs.compute_ps
    assert own.exposed_comm_ps < theirs.exposed_comm_ps


def test_a_loop_must_yield_actions():
    @training_loop("_ODD")
    def _odd(layers):
        yield layers[0].forward.compute(), "compute"

    with pytest.raises(InputError, match="not an action"):
        _result(LayerTable("_ODD", (Layer("a"),)), _system(), _ring())


# How it is run.


@given(cuts=st.lists(st.integers(0, 50), max_size=20))
@settings(max_examples=25, deadline=None)
def test_steps_change_nothing(cuts):
    layers = tuple(Layer(f"l{n}", Part(50), Part(50), Part(50, "ALLREDUCE", 4096), 5) for n in range(3))
    network = HierarchicalNetwork(("Ring",) * 2, (4, 4), (2, 2), (500, 500), (50, 50))
    whole = _run(LayerTable("DATA", layers), _system(2), network, 2)
    cut = _run(LayerTable("DATA", layers), _system(2), network, 2)
    assert whole.go() == ENDED
    for events in cuts:
        before = cut.events
        why = cut.go(steps=before + events)
        assert cut.events - before == events or why == ENDED
    assert cut.go() == ENDED
    assert cut.digest() == whole.digest()
    assert cut.result().time_ps == whole.result().time_ps


def test_compiled_and_plain_python_are_the_same():
    layers = tuple(Layer(f"l{n}", Part(50), Part(50), Part(50, "ALLREDUCE", 4096), 5) for n in range(3))
    network = HierarchicalNetwork(("Ring",) * 2, (4, 4), (2, 2), (500, 500), (50, 50), compat=True)
    compiled, plain = (_run(LayerTable("DATA", layers), _system(2, queues=2), network, 2) for _ in range(2))
    assert compiled.go() == ENDED
    limits = allocate(1, LIMITS)
    limits.events = 1 << 40
    assert run_layers(limits, plain.machine, _numbers(plain.machine)) == ENDED
    assert compiled.digest() == plain.digest()


def test_results_of_an_unfinished_run():
    run = _run(_micro("ALLREDUCE", 1 << 20), _system(), _ring())
    assert run.go(steps=3) != ENDED
    part = run.result()
    assert 0 < part.time_ns < 45681
    assert 0 < part.message_bytes < 1835008
    hashes = {run.digest()}
    run.go(steps=4)
    while run.next_ps >= 0:
        hashes.add(run.digest())
        run.go(steps=run.events + 1)
    assert run.result().time_ns == 45681
    assert len(hashes) == run.events - 3
    frame = run.result().to_dataframe()
    assert frame.loc["x", "wg_exposed_comm_ps"] == 45681000


def test_a_collective_of_one_npu_takes_no_time():
    assert _result(_micro("ALLREDUCE", 1 << 20), _system(), _ring(1)).time_ps == 0


@pytest.mark.parametrize(
    "change, message",
    [
        ({"algorithms": {}}, "all-reduce-implementation is missing"),
        ({"algorithms": {"all-reduce": (RING, RING)}}, "names 2 algorithms for 1 dimensions"),
        (
            {"algorithms": {"all-reduce": (LayerAlgorithm("halvingDoubling"),)}},
            "a power of two of NPUs, not 6",
        ),
        (
            {"algorithms": {"all-reduce": (LayerAlgorithm("doubleBinaryTree"),)}},
            "a power of two of NPUs, not 6",
        ),
        ({"splits": 0}, "splits is 0"),
        ({"queues": 0}, "queues is 0"),
    ],
)
def test_systems_that_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        _result(_micro("ALLREDUCE", 4096), LayerSystem(**{**vars(_system()), **change}), _ring(6))


def test_collectives_that_trees_and_halving_refuse():
    for collective, algorithm in (("ALLGATHER", "doubleBinaryTree"), ("ALLTOALL", "halvingDoubling")):
        with pytest.raises(InputError, match=algorithm):
            _result(_micro(collective, 4096), _system(algorithm=LayerAlgorithm(algorithm)), _ring(8))
    for passes in (0, -1):
        with pytest.raises(InputError, match="passes"):
            _run(_micro("ALLREDUCE", 4096), _system(), _ring(), passes)


# Every NPU.

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
    return LayerAlgorithm(name, data.draw(st.sampled_from([-1, 1, 2])) if name == "direct" else -1)


@given(data=st.data(), units=SHAPES, layers=LAYERS, loop=st.sampled_from(LOOPS))
@settings(max_examples=40, deadline=None)
def test_one_npu_represents_all(data, units, layers, loop):
    """One NPU gives the results of a simulation of every NPU and message, layer by layer.

    Where a phase ends in the same timestep as something else, the order, and with it the times, may differ
    (docs/astrasim1.md says how often), and ASTRA-sim may deadlock; bytes and computation never differ.
    """
    draw = data.draw
    kinds = [draw(st.sampled_from(["Ring", "FullyConnected", "Switch"])) for _ in units]
    links = [{"Ring": 2, "Switch": 1}.get(kind, n - 1) for kind, n in zip(kinds, units, strict=True)]
    latency = [draw(st.sampled_from([1, 500])) for _ in units]
    bandwidth = [draw(st.sampled_from([12.5, 50])) for _ in units]
    network = HierarchicalNetwork(
        tuple(kinds), tuple(units), tuple(links), tuple(latency), tuple(bandwidth), compat=True
    )
    system = LayerSystem(
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
    table = LayerTable(
        loop,
        tuple(layers),
        group=units[0] if loop == "HYBRID_TRANSFORMER" else None,
        last_bottom=0 if "DLRM" in loop else None,
    )
    result = _result(table, system, network, 2)
    whole = EveryNpu(LayerWorkload(table, system, network, 2))
    npu = whole.npus[0]
    slots = [(number, part) for number in range(len(layers)) for part in (0, 2, 1)]
    if npu.end is None:  # a deadlock of ASTRA-sim's
        event("deadlock there")
        assert whole.coincidence
        return
    assert result.message_bytes == whole.sent_bytes
    compute, exposed, total = (
        (result.layers[:, column : column + 3].ravel() // 1000).tolist() for column in (0, 3, 6)
    )
    assert compute == [npu.compute[slot] for slot in slots]
    same = (
        result.time_ns == npu.end
        and exposed == [npu.exposed[slot] for slot in slots]
        and total == [npu.total[slot] for slot in slots]
    )
    event("times differ" if not same else "as every NPU")
    assert same or whole.coincidence
