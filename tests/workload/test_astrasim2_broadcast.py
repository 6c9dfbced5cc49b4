"""Broadcasts: along a ring, to all at once, down trees and from a switch; against closed forms."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import TraceBuilder, write
from astranb.core.errors import InputError
from astranb.infragraph import blueprint
from astranb.workload.astrasim2 import COLLECTIVE, InfraNetwork, Network, Operations, Run, System, load
from astranb.workload.astrasim2._tables import ALL_REDUCE, BROADCAST

E, SIZE = 10, 1 << 20
ONE = 500 + SIZE / 50  # one link: 500 ns and 50 GB/s


def system(algorithms, *, splits=1, queues=1):
    said = {"endpoint-delay": E, "preferred-dataset-splits": splits}
    if algorithms:
        said["broadcast-implementation"] = algorithms
    return System.from_document(said, queues=queues)


def run(topology, counts, algorithms, *, root=0, group=None, size=SIZE, aware=False, splits=1, queues=1):
    network = Network(topology, counts, [50.0] * len(counts), [500.0] * len(counts))
    row = {"kind": COLLECTIVE, "collective": BROADCAST, "bytes": size, "peer": root}
    idle = Operations.of([])
    one = Operations.of([row | ({"group": 1} if group else {})])
    operations = [one if not group or rank in group else idle for rank in range(network.npus)]
    done = Run(
        operations,
        network,
        system(algorithms, splits=splits, queues=queues),
        groups={1: group} if group else {},
        aware=aware,
    )
    done.step(1 << 40)
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
    assert ends(["Ring"], [5], ["ring"], root=root, aware=True) == ends(["Ring"], [5], ["ring"], root=root)


def test_it_is_a_ring_where_nothing_is_said():
    assert ends(["Ring"], [5], None) == ends(["Ring"], [5], ["ring"])


def test_direct_comes_to_all_at_once_and_one_after_another_over_one_link():
    up_and_down = int(2 * 500 + SIZE / 50)
    assert ends(["Switch"], [4], ["direct"], root=1) == from_root(1, [E] + [2 * E + up_and_down] * 3)
    # With congestion the root's link to the switch takes one message after another: 20,971 ns each.
    one = [2 * E + 2 * int(ONE) + k * int(SIZE / 50) for k in range(3)]
    assert ends(["Switch"], [4], ["direct"], root=1, aware=True) == from_root(1, [E, *one])


def test_a_binomial_tree_is_as_deep_as_a_number_has_ones():
    each = int(2 * 500 + SIZE / 50) + E
    depth = [r.bit_count() for r in range(11)]
    assert ends(["Switch"], [11], ["halvingDoubling"], root=7) == from_root(7, [E + d * each for d in depth])


def test_a_binary_tree_is_as_deep_as_its_numbers_are_long():
    each = int(2 * 500 + SIZE / 50) + E
    depth = [(r + 1).bit_length() - 1 for r in range(6)]
    assert ends(["Switch"], [6], ["doubleBinaryTree"], root=2) == from_root(2, [E + d * each for d in depth])


def test_every_other_chunk_takes_the_mirrored_tree():
    each = int(2 * 500 + SIZE // 2 / 50) + E
    deeper = [max((r + 1).bit_length(), ((6 - r) % 6 + 1).bit_length()) - 1 for r in range(6)]
    took = ends(["Switch"], [6], ["doubleBinaryTree"], splits=2, queues=2)
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


def test_over_an_infrastructure():
    clos = InfraNetwork(blueprint("clos:servers=2"))
    row = {"kind": COLLECTIVE, "collective": BROADCAST, "bytes": SIZE, "peer": 3}
    for algorithms in (["ring", "ring"], ["direct", "direct"], ["doubleBinaryTree", "halvingDoubling"]):
        done = Run([Operations.of([row])] * 16, clos, system(algorithms), aware=True)
        done.step(1 << 40)
        assert done.machine.clock[0].finished == 16
        assert done.machine.clock[0].bytes == 15 * SIZE


ALGORITHMS = ["ring", "direct", "direct2", "halvingDoubling", "doubleBinaryTree", "inNetwork"]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_everybody_gets_it_once_whatever_else_goes_on(data):
    counts = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    chosen = [data.draw(st.sampled_from(ALGORITHMS)) for _ in counts]
    topology = ["Switch" if name == "inNetwork" else "Ring" for name in chosen]
    network = Network(topology, counts, [50.0] * len(counts), [500.0] * len(counts))
    kinds = data.draw(st.lists(st.sampled_from([BROADCAST, ALL_REDUCE]), min_size=1, max_size=5))
    roots = [data.draw(st.integers(-1, network.npus - 1)) for _ in kinds]
    rows = [
        {"kind": COLLECTIVE, "collective": kind, "bytes": 40_000, "peer": root}
        for kind, root in zip(kinds, roots, strict=True)
    ]
    described = {
        "endpoint-delay": E,
        "preferred-dataset-splits": data.draw(st.integers(1, 4)),
        "active-chunks-per-dimension": data.draw(st.integers(1, 3)),
        "broadcast-implementation": chosen,
        "all-reduce-implementation": ["ring"] * len(counts),
        "scheduling-policy": data.draw(st.sampled_from(["LIFO", "FIFO"])),
        "inter-dimension-scheduling": data.draw(st.sampled_from(["baseline", "roundRobin", "themis"])),
    }
    chosen_system = System.from_document(described, rendezvous=data.draw(st.booleans()))
    done = Run([Operations.of(rows)] * network.npus, network, chosen_system, aware=data.draw(st.booleans()))
    done.step(1 << 40)
    assert done.machine.clock[0].finished == network.npus
    if set(kinds) == {BROADCAST} and "inNetwork" not in chosen and not chosen_system.rendezvous:
        assert done.machine.clock[0].bytes == 40_000 * (network.npus - 1) * len(kinds)


def test_a_root_without_a_part_in_it_is_refused():
    for more in ({"root": 9}, {"root": 0, "group": [1, 2]}):
        with pytest.raises(InputError, match="which has no part in it"):
            run(["Ring"], [4], ["ring"], **more)
    with pytest.raises(InputError, match="no Switch"):
        run(["Ring"], [4], ["inNetwork"])


def test_files_and_what_astrasim_does(tmp_path):
    step = TraceBuilder()
    step.collective("broadcast", SIZE, duration_us=7, root=2)
    for rank in range(4):
        write(tmp_path / f"w.{rank}.et", step.build())
    said = {"endpoint-delay": E, "preferred-dataset-splits": 1, "all-reduce-implementation": ["ring"]}
    (tmp_path / "s.json").write_text(json.dumps(said))
    (tmp_path / "n.yml").write_text(
        "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    )
    files = (tmp_path / "w", tmp_path / "s.json", tmp_path / "n.yml")
    theirs = load(*files, compat=True)
    theirs.step(1 << 40)
    assert theirs.machine.npus.end_ns.tolist() == [7000] * 4
    ours = load(*files)
    ours.step(1 << 40)
    assert ours.machine.npus.end_ns.tolist() == ends(["Ring"], [4], ["ring"], root=2)
    order = [ours.machine.npus.end_ns[rank] for rank in (2, 3, 0, 1)]
    assert all(b > a for a, b in pairwise(order))
    (tmp_path / "s.json").write_text(json.dumps(said | {"broadcast-implementation": ["ring"]}))
    with pytest.raises(InputError, match="has no broadcast-implementation"):
        load(*files, compat=True)
