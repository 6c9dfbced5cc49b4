"""Every algorithm, on several machines and awkward sizes, ends with the right contents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import ALGORITHMS, COLLECTIVES, Collective
from astranb.collectives.library.trees import double_tree
from astranb.core.errors import InputError
from astranb.gpu.tables import NIC

_ALL = sorted(ALGORITHMS)
_ANY_NUMBER = sorted(key for key, found in ALGORITHMS.items() if not found.power_of_two)


def _run(infra, kind, algorithm, size, **options):
    sim = anb.Simulation(infra, Collective.of(kind, size, algorithm, **options), record=False)
    sim.run()  # raises where a chunk holds anything but what it must
    return sim


@pytest.mark.parametrize("kind,algorithm", _ALL)
@pytest.mark.parametrize("size", [1, 100, 1024, 4097, 70_000])
def test_it_is_right_at_any_size(kind, algorithm, size):
    sim = _run("switch:gpus=4", kind, algorithm, size)
    assert sim.finished
    assert (sim.engine.machine.requests["live"] == 0).all()


@pytest.mark.parametrize("kind,algorithm", _ANY_NUMBER)
@pytest.mark.parametrize("gpus", [2, 3, 5])
def test_it_is_right_on_any_number_of_ranks(kind, algorithm, gpus):
    # Only a switch adds up; everything else runs on a ring without one too.
    adds = algorithm in ("switch", "nvls", "nvls_tree", "switch_ring") or "_mc" in algorithm
    _run(f"{'switch' if adds else 'ring'}:gpus={gpus}", kind, algorithm, 9000)


@settings(max_examples=15)
@given(
    which=st.sampled_from(_ANY_NUMBER),
    gpus=st.integers(2, 9),
    size=st.integers(1, 20_000),
    channels=st.integers(1, 5),
    root=st.integers(0, 1),
)
def test_it_is_right_for_any_channels_and_root(which, gpus, size, channels, root):
    _run(f"switch:gpus={gpus}", which[0], which[1], size, channels=channels, root=root)


@pytest.mark.parametrize("kind,algorithm", _ALL)
def test_every_line_is_stored_as_often_as_the_algorithm_says(kind, algorithm):
    """Conservation: lines that arrive at memories = lines of all moves times their targets."""
    sim = _run("switch:gpus=4", kind, algorithm, 33_000)
    ops = sim.engine.machine.ops
    moves = ops[ops["kind"] == 0]
    once = (moves["in_switch"] & 2) > 0  # the switch multiplies, and answers once
    assert (moves["acked"] == moves["lines"] * np.where(once, 1, moves["targets"])).all()
    # Every message on a wire is answered: requests and responses cross equally many links.
    assert sim.engine.machine.links["messages"].sum() == sim.engine.machine.clock[0].hops


def test_the_lower_bound_of_a_ring_in_bytes_is_met_exactly():
    """A ring all-reduce sends 2(n-1)/n of the data out of every GPU (Patarasuk and Yuan 2009)."""
    n, size = 4, 4 * 128 * 16
    sim = _run(f"switch:gpus={n}", "all_reduce", "ring", size, channels=1)
    links, header = sim.engine.machine.links, 16
    for gpu in sim.engine.fabric.gpus:
        out = links[links["src"] == gpu]
        lines = 2 * (n - 1) * size // n // 128
        signals = 2 * (n - 1)
        signals += signals - 4  # the buffer has 4 slots: what frees one of the first ones
        # data with header, signals of one flit with header, and an acknowledgement for each that came in
        assert (
            out["bytes"].sum()
            == lines * (128 + header) + signals * (16 + header) + (lines + signals) * header
        )


def test_busbw_factors_are_those_of_nccl_tests():
    factors = {name: kind.busbw(8) for name, kind in COLLECTIVES.items()}
    assert factors["all_reduce"] == pytest.approx(1.75)
    assert factors["all_gather"] == factors["reduce_scatter"] == factors["all_to_all"] == pytest.approx(0.875)
    assert factors["broadcast"] == factors["reduce"] == 1.0
    assert factors["gather"] == factors["scatter"] == pytest.approx(0.875)


@pytest.mark.parametrize(
    "arguments,says",
    [
        (("all_reduce", "1 KiB", "rign"), "did you mean 'ring'"),
        (("all_redcue", "1 KiB"), "did you mean 'all_reduce'"),
        (("all_reduce", 0), "at least 1 B"),
        (("all_reduce", "-4 B"), "negative"),
        (("all_reduce", "1 KiB", 7), "a name or a function"),
    ],
)
def test_bad_parameters(arguments, says):
    with pytest.raises(InputError, match=says):
        Collective.of(*arguments)


@pytest.mark.parametrize("kind,algorithm", [key for key in _ALL if key not in _ANY_NUMBER])
def test_it_is_right_on_powers_of_two_and_refuses_others(kind, algorithm):
    for gpus in (2, 8, 16):
        _run(f"switch:gpus={gpus}", kind, algorithm, 20_001)
    for gpus in (3, 6):
        with pytest.raises(InputError, match=f"power of two of ranks, the infrastructure has {gpus}"):
            _run(f"switch:gpus={gpus}", kind, algorithm, 20_001)


@pytest.mark.parametrize("ranks", range(1, 40))
def test_two_trees_reach_everybody_and_share_no_inner_rank(ranks):
    trees = double_tree(ranks)
    for tree in trees:
        assert sum(parent < 0 for parent, _ in tree) == 1
        for rank, (parent, children) in enumerate(tree):
            assert all(tree[child][0] == rank for child in children)
            assert len(children) <= 2
            steps, at = 0, rank
            while tree[at][0] >= 0:
                at, steps = tree[at][0], steps + 1
            assert steps <= ranks.bit_length()
            assert parent != rank
    if ranks % 2 == 0:
        inner = [{r for r, (_, children) in enumerate(tree) if len(children) == 2} for tree in trees]
        assert not inner[0] & inner[1]


def test_logarithmic_steps_beat_the_ring_when_small():
    def time_ps(algorithm, size):
        return _run("switch:gpus=16", "all_reduce", algorithm, size).now_ps

    assert time_ps("halving_doubling", 2048) < time_ps("ring", 2048)
    assert time_ps("tree", 2048) < time_ps("ring", 2048)


def test_an_algorithm_with_a_yield_is_refused():
    def lazy(p):
        for me in p.everyone:
            yield me.block()

    with pytest.raises(InputError, match=r"algorithm all_reduce/lazy: a generator.*leave out its yield"):
        Collective.of("all_reduce", "1 KiB", lazy).program(2)


def test_an_algorithm_says_how_many_ranks_it_needs():
    with pytest.raises(InputError, match="needs at least 2 ranks"):
        anb.Simulation("switch:gpus=1", anb.collectives.all_reduce("1 KiB"))
    with pytest.raises(InputError, match="root 9 is not a rank"):
        anb.Simulation("switch:gpus=4", anb.collectives.broadcast("1 KiB", root=9))


def test_uneven_chunks_cover_the_data_once():
    program = Collective.of("all_reduce", 100_001, "ring", channels=3).program(7)
    low = anb.collectives.lower(program, kind="all_reduce", size=100_001)
    for rank in range(7):
        outputs = low.slices[(low.slices["gpu"] == rank) & (low.slices["buffer"] == 1)]
        assert outputs["bytes"].sum() == 100_001
        assert outputs["lines"].sum() == -(-100_001 // 128)
        filled = outputs[outputs["lines"] > 0]
        assert (np.diff(filled["line"]) == filled["lines"][:-1]).all()


@pytest.mark.parametrize("kind,algorithm", _ALL)
@pytest.mark.parametrize("protocol", ["LL", "LL128"])
@pytest.mark.parametrize("gpus,size", [(2, 1), (4, 9_001), (8, 1000)])
def test_it_is_right_in_packets(kind, algorithm, protocol, gpus, size):
    if protocol not in ALGORITHMS[kind, algorithm].protocols:
        with pytest.raises(InputError, match="does not support protocol"):
            _run(f"switch:gpus={gpus}", kind, algorithm, size, protocol=protocol)
        return
    _run(f"switch:gpus={gpus}", kind, algorithm, size, protocol=protocol)


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all"])
def test_hierarchical_algorithms_use_nics_between_nodes_only(kind):
    sim = _run("clos:servers=2,spines=2", kind, "hierarchical", 40_000)
    assert sim.engine.fabric.per_node < sim.engine.program.ranks
    assert (sim.engine.machine.sms["issued"][sim.engine.machine.sms["engine"] == NIC] > 0).all()
    one = _run("dgx-h100", kind, "hierarchical", 40_000)
    assert (one.engine.machine.sms["issued"][one.engine.machine.sms["engine"] > 0] == 0).all()
