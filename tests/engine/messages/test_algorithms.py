"""Collectives with a root: along a ring, directly, over trees and a switch; against closed forms."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import TraceBuilder, write
from astranb.core.errors import InputError
from astranb.engine.messages import Run
from astranb.engine.messages.tables import ALL_REDUCE, BROADCAST, GATHER, REDUCE, SCATTER
from astranb.infragraph import blueprint
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
    Workload,
    load,
)

E, SIZE = 10, 1 << 20
ONE = 500 + SIZE / 50  # one link: 500 ns and 50 GB/s


KEYS = {BROADCAST: "broadcast", REDUCE: "reduce", SCATTER: "scatter", GATHER: "gather"}


def system(algorithms, *, kind=BROADCAST, splits=1, queues=1, **more):
    document = {"endpoint-delay": E, "preferred-dataset-splits": splits} | more
    if algorithms:
        document[f"{KEYS[kind]}-implementation"] = algorithms
    return System.from_document(document, queues=queues)


def run(
    topology, counts, algorithms, *,
    kind=BROADCAST, root=0, group=None, size=SIZE, congestion=False, splits=1, queues=1, **more,
):  # fmt: skip
    network = DimensionNetwork(topology, counts, [50.0] * len(counts), [500.0] * len(counts))
    row = {"kind": COLLECTIVE, "collective": kind, "bytes": size, "peer": root}
    idle = Operations.of([])
    one = Operations.of([row | ({"group": 1} if group else {})])
    operations = [one if not group or rank in group else idle for rank in range(network.npus)]
    done = Run(
        Workload(
            operations,
            network,
            system(algorithms, kind=kind, splits=splits, queues=queues, **more),
            groups={1: group} if group else {},
        ),
        congestion=congestion,
    )
    done.go()
    return done


def ends(*args, **more):
    return run(*args, **more).machine.npus.end_ns.tolist()


def from_root(root, taken):
    """Times by rank from those by number, counted from the root."""
    return [taken[(rank - root) % len(taken)] for rank in range(len(taken))]


@pytest.mark.parametrize("root", [0, 3])
def test_a_ring_passes_it_on_from_one_to_the_next(root):
    # The root ends when it has passed the memory; each further one gets it a link and a memory later.
    each = int(ONE) + E
    assert ends(["Ring"], [5], ["ring"], root=root) == from_root(root, [E + r * each for r in range(5)])
    # Nobody waits for a link in a chain.
    assert ends(["Ring"], [5], ["ring"], root=root, congestion=True) == ends(
        ["Ring"], [5], ["ring"], root=root
    )


def test_a_ring_is_the_default():
    assert ends(["Ring"], [5], None) == ends(["Ring"], [5], ["ring"])


def test_direct_comes_to_all_at_once_and_one_after_another_over_one_link():
    at_once = 2 * E + int(ONE)
    assert ends(["FullyConnected"], [4], ["direct"], root=1) == from_root(1, [E] + [at_once] * 3)
    # The root's link to the switch takes one message after another: 20,971.52 ns each.
    one = [2 * E + int(2 * 500 + k * SIZE / 50) for k in (1, 2, 3)]
    for congestion in (False, True):
        assert ends(["Switch"], [4], ["direct"], root=1, congestion=congestion) == from_root(1, [E, *one])


def test_a_binomial_tree_is_as_deep_as_a_number_has_ones():
    each = int(ONE) + E
    depth = [r.bit_count() for r in range(11)]
    took = ends(["FullyConnected"], [11], ["halvingDoubling"], root=7)
    assert took == from_root(7, [E + d * each for d in depth])
    # Under a switch the root sends to 1, 2, 4 and 8, one after the other.
    took = from_root(-7, ends(["Switch"], [11], ["halvingDoubling"], root=7))
    assert [took[r] for r in (1, 2, 4, 8)] == [2 * E + int(2 * 500 + k * SIZE / 50) for k in (1, 2, 3, 4)]


def test_a_binary_tree_is_as_deep_as_its_numbers_are_long():
    each = int(ONE) + E
    depth = [(r + 1).bit_length() - 1 for r in range(6)]
    took = ends(["FullyConnected"], [6], ["doubleBinaryTree"], root=2)
    assert took == from_root(2, [E + d * each for d in depth])


def test_every_other_chunk_takes_the_mirrored_tree():
    each = int(500 + SIZE // 2 / 50) + E
    deeper = [max((r + 1).bit_length(), ((6 - r) % 6 + 1).bit_length()) - 1 for r in range(6)]
    took = ends(["FullyConnected"], [6], ["doubleBinaryTree"], splits=2, queues=2)
    assert took == [E + d * each for d in deeper]


def test_a_switch_gives_it_to_all_at_once():
    up = E + int(ONE)
    assert ends(["Switch"], [8], ["inNetwork"], root=5) == from_root(5, [up] + [up + int(ONE) + E] * 7)


def test_from_the_last_dimension_to_the_first():
    # Root 5 is the second of the second four. Over the ring to rank 1: E + ONE + E; then either's switch.
    over = E + int(ONE) + E
    in_switch = E + 2 * int(ONE) + E
    took = ends(["Switch", "Ring"], [4, 2], ["inNetwork", "ring"], root=5)
    assert (took[1], took[5]) == (over + E + int(ONE), E + E + int(ONE))
    assert [took[r] for r in (0, 2, 3)] == [over + in_switch] * 3
    assert [took[r] for r in (4, 6, 7)] == [E + in_switch] * 3


def test_a_group_has_its_own_root_and_ring():
    took = ends(["Switch"], [8], ["ring"], root=6, group=[2, 6, 7])
    each = int(2 * 500 + SIZE / 50) + 10  # groups have 10 ns at the endpoint
    assert [took[r] for r in (6, 7, 2)] == [10, 10 + each, 10 + 2 * each]
    assert ends(["Switch"], [8], ["ring"], root=-1, group=[7, 6, 2])[7] == 10


def wire(size, hops=2):
    """One message alone: 500 ns a link and 50 GB/s, and the memory behind it."""
    return int(hops * 500 + size / 50) + E


def test_a_reduce_is_a_broadcast_backwards():
    each = wire(SIZE, 1)
    inwards = [E + (4 - r) * each for r in range(5)]
    assert ends(["Ring"], [5], ["ring"], kind=REDUCE, root=3) == from_root(3, inwards)
    assert ends(["Ring"], [5], None, kind=REDUCE, root=3) == from_root(3, inwards)
    # All send at once; the root takes them as they come, under a switch one after the other.
    took = ends(["FullyConnected"], [4], ["direct"], kind=REDUCE, root=1)
    assert took == from_root(1, [E + each, E, E, E])
    last = E + int(2 * 500 + 3 * SIZE / 50) + E
    assert ends(["Switch"], [4], ["direct"], kind=REDUCE, root=1) == from_root(1, [last, E, E, E])


def test_a_tree_takes_one_after_the_other():
    # Numbers 0 to 5: 3, 4 and 5 are leaves; 1 has 3 and 4, 2 has 5, the root 1 and 2.
    each, leaf = wire(SIZE, 1), E
    one, two = leaf + each + E, leaf + each  # the second child's is there already: its memory only
    root = max(one + each, two + each - E) + E
    taken = [root, one, two, leaf, leaf, leaf]
    took = ends(["FullyConnected"], [6], ["doubleBinaryTree"], kind=REDUCE, root=2)
    assert took == from_root(2, taken)
    # A binomial tree of 4: 3 below 1, 1 and 2 below the root.
    one = E + each
    taken = [max(one + each, E + each) + E, one, E, E]
    took = ends(["FullyConnected"], [4], ["halvingDoubling"], kind=REDUCE, root=1)
    assert took == from_root(1, taken)


def test_what_is_reduced_is_read_twice_and_written():
    plain = ends(["Ring"], [4], ["ring"], kind=REDUCE)
    slow = ends(["Ring"], [4], ["ring"], kind=REDUCE, **{"local-mem-bw": 100})
    cost = 3 * int(SIZE / 100)
    assert [b - a for a, b in zip(plain, slow, strict=True)] == [3 * cost, 2 * cost, cost, 0]
    gathered = {"kind": GATHER, "size": SIZE}
    assert ends(["Ring"], [4], ["ring"], **gathered) == ends(
        ["Ring"], [4], ["ring"], **gathered, **{"local-mem-bw": 100}
    )


def test_a_switch_reduces_for_the_root():
    up = E + int(ONE)
    assert ends(["Switch"], [8], ["inNetwork"], kind=REDUCE, root=5) == from_root(
        5, [up + int(ONE) + E] + [up] * 7
    )


def test_a_scatter_and_a_gather_carry_shares():
    share = SIZE // 4
    shares = [E + int(2 * 500 + k * share / 50) + E for k in (1, 2, 3)]
    assert ends(["Switch"], [4], ["direct"], kind=SCATTER, root=2) == from_root(2, [E, *shares])
    assert ends(["Switch"], [4], None, kind=SCATTER, root=2) == from_root(2, [E, *shares])
    # Of a gather each puts in its share.
    taken = [shares[-1], E, E, E]
    assert ends(["Switch"], [4], None, kind=GATHER, root=2, size=share) == from_root(2, taken)
    # Round a ring what is for those behind goes with it.
    steps = [wire(k * share, 1) for k in (3, 2, 1)]
    outwards = [E, E + steps[0], E + sum(steps[:2]), E + sum(steps)]
    assert ends(["Ring"], [4], ["ring"], kind=SCATTER) == outwards
    inwards = [E + sum(steps), E + sum(steps[1:]), E + steps[2], E]
    assert ends(["Ring"], [4], ["ring"], kind=GATHER, size=share) == inwards


@pytest.mark.parametrize("shape", ["ring", "direct", "halvingDoubling", "doubleBinaryTree"])
@pytest.mark.parametrize("counts", [[7], [3, 4], [2, 3, 2]])
@pytest.mark.parametrize("splits", [1, 3])
def test_what_a_gather_brings_a_scatter_takes(shape, counts, splits):
    ranks = 1
    for count in counts:
        ranks *= count
    where = (["Switch"] * len(counts), counts, [shape] * len(counts))
    out = run(*where, kind=SCATTER, root=1, size=30_000 * ranks, splits=splits)
    back = run(*where, kind=GATHER, root=1, size=30_000, splits=splits)
    carried = [int(done.machine.clock[0].bytes) for done in (out, back)]
    assert carried[0] == carried[1]
    if shape == "direct" and len(counts) == 1:
        assert carried[0] == 30_000 * (ranks - 1)
    over = run(*where, kind=REDUCE, root=1, size=30_000, splits=splits)
    assert over.machine.clock[0].bytes == 30_000 * (ranks - 1)


def test_a_shared_bus_and_several_chunks():
    bus = {"model-shared-bus": 1, "L": 1, "o": 2, "g": 3, "G": 0.001}
    for kind in KEYS:
        done = run(["Ring", "Switch"], [3, 4], ["doubleBinaryTree"] * 2, kind=kind, splits=3, queues=2, **bus)
        assert done.machine.clock[0].finished == 12


def test_a_switch_has_nothing_to_do_for_shares():
    with pytest.raises(InputError, match="a switch cannot do a scatter or a gather"):
        run(["Switch"], [4], ["inNetwork"], kind=GATHER)


def test_over_an_infrastructure():
    clos = InfraNetwork(blueprint("clos:servers=2"))
    for kind in KEYS:
        row = {"kind": COLLECTIVE, "collective": kind, "bytes": SIZE, "peer": 3}
        for algorithms in (["ring", "ring"], ["direct", "direct"], ["doubleBinaryTree", "halvingDoubling"]):
            done = Run(
                Workload([Operations.of([row])] * 16, clos, system(algorithms, kind=kind)), congestion=True
            )
            done.go()
            assert done.machine.clock[0].finished == 16
            if kind in (BROADCAST, REDUCE):
                assert done.machine.clock[0].bytes == 15 * SIZE


ALGORITHMS = ["ring", "direct", "direct2", "halvingDoubling", "doubleBinaryTree"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_rank_has_a_part_once_whatever_else_runs(data):
    counts = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    in_switch = data.draw(st.booleans())
    network = DimensionNetwork(
        ["Switch" if in_switch else "Ring"] * len(counts), counts, [50.0] * len(counts), [500.0] * len(counts)
    )
    kinds = data.draw(st.lists(st.sampled_from([*KEYS, ALL_REDUCE]), min_size=1, max_size=5))
    roots = [data.draw(st.integers(-1, network.npus - 1)) for _ in kinds]
    rows = [
        {"kind": COLLECTIVE, "collective": kind, "bytes": 40_000, "peer": root}
        for kind, root in zip(kinds, roots, strict=True)
    ]

    def chosen(kind):
        names = [*ALGORITHMS, "inNetwork"] if in_switch and kind in (BROADCAST, REDUCE) else ALGORITHMS
        return [data.draw(st.sampled_from(names)) for _ in counts]

    described = {
        "endpoint-delay": E,
        "preferred-dataset-splits": data.draw(st.integers(1, 4)),
        "active-chunks-per-dimension": data.draw(st.integers(1, 3)),
        "all-reduce-implementation": ["ring"] * len(counts),
        "scheduling-policy": data.draw(st.sampled_from(["LIFO", "FIFO"])),
        "inter-dimension-scheduling": data.draw(st.sampled_from(["baseline", "roundRobin", "themis"])),
        **{f"{name}-implementation": chosen(kind) for kind, name in KEYS.items()},
    }
    layer = System.from_document(described, rendezvous=data.draw(st.booleans()))
    done = Run(
        Workload([Operations.of(rows)] * network.npus, network, layer), congestion=data.draw(st.booleans())
    )
    done.go()
    assert done.machine.clock[0].finished == network.npus
    whole = {BROADCAST, REDUCE}
    if set(kinds) <= whole and not in_switch and not layer.rendezvous:
        assert done.machine.clock[0].bytes == 40_000 * (network.npus - 1) * len(kinds)


def test_a_root_without_a_part_in_it_is_refused():
    for more in ({"root": 9}, {"root": 0, "group": [1, 2]}):
        with pytest.raises(InputError, match="which takes no part in it"):
            run(["Ring"], [4], ["ring"], **more)
    with pytest.raises(InputError, match="not a Switch"):
        run(["Ring"], [4], ["inNetwork"])


def test_files_and_what_astrasim_does(tmp_path):
    step = TraceBuilder()
    step.collective("broadcast", SIZE, duration_us=7, root=2)
    for rank in range(4):
        write(step.build(), tmp_path / f"w.{rank}.et")
    document = {"endpoint-delay": E, "preferred-dataset-splits": 1, "all-reduce-implementation": ["ring"]}
    (tmp_path / "s.json").write_text(json.dumps(document))
    (tmp_path / "n.yml").write_text(
        "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    )
    files = (tmp_path / "w", tmp_path / "s.json", tmp_path / "n.yml")
    theirs = Run(load(*files, compat=True))
    theirs.go()
    assert theirs.machine.npus.end_ns.tolist() == [7000] * 4
    ours = Run(load(*files))
    ours.go()
    assert ours.machine.npus.end_ns.tolist() == ends(["Ring"], [4], ["ring"], root=2)
    order = [ours.machine.npus.end_ns[rank] for rank in (2, 3, 0, 1)]
    assert all(b > a for a, b in pairwise(order))
    (tmp_path / "s.json").write_text(json.dumps(document | {"broadcast-implementation": ["ring"]}))
    with pytest.raises(InputError, match="has no broadcast-implementation"):
        Run(load(*files, compat=True))


def test_all_of_chakra(tmp_path):
    document = {"endpoint-delay": E, "preferred-dataset-splits": 1, "all-reduce-implementation": ["ring"]}
    (tmp_path / "s.json").write_text(json.dumps(document))
    (tmp_path / "n.yml").write_text(
        "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    )
    for kind, name in KEYS.items():
        step = TraceBuilder()
        step.collective(name, SIZE, root=2)
        for rank in range(4):
            write(step.build(), tmp_path / f"{name}.{rank}.et")
        files = (tmp_path / name, tmp_path / "s.json", tmp_path / "n.yml")
        done = Run(load(*files))
        done.go()
        assert done.machine.npus.end_ns.tolist() == ends(["Ring"], [4], None, kind=kind, root=2)
        if kind != BROADCAST:
            with pytest.raises(InputError, match=f"{name.upper()} is not simulated by ASTRA-sim 2.0"):
                load(*files, compat=True)
