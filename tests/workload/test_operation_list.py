"""Workloads written down as operations, on networks of ASTRA-sim 2.0."""

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    DimensionNetwork,
    Operations,
    System,
    Workload,
)

RING = DimensionNetwork("Ring", 8, bandwidth=100, latency=500)


def ended(what, network=None):
    sim = anb.Simulation(network, what)
    sim.run()
    return sim.now_ps, sim.counts["message"]


@pytest.mark.parametrize("algorithm, word", [("ring", "ring"), ("allpairs", "direct")])
@pytest.mark.parametrize("compat", [False, True])
def test_a_system_layer_is_that_of_its_file(algorithm, word, compat):
    network = DimensionNetwork(["Ring", "Switch"], [8, 4], bandwidth=[100, 25], latency=500)
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["all_reduce"], "bytes": 1 << 20}
    document = {
        "all-reduce-implementation": [word, word], "preferred-dataset-splits": 4, "endpoint-delay": 20,
        "local-mem-bw": 1000, "collective-optimization": "localBWAware",
    }  # fmt: skip
    filed = Workload([Operations.of([row])] * 32, network, System.from_document(document), compat=compat)
    system = anb.astrasim2.System(splits=4, endpoint_ns=20, memory_Bps=1 * anb.units.TB)
    short = anb.workload([anb.all_reduce("1 MiB", algorithm)], system=system, compat=compat)
    assert ended(short, network) == ended(filed)


def test_algorithms_of_the_system_are_before_those_of_the_list():
    number = COLLECTIVE_NAMES["all_reduce"]
    direct = System.from_document({"all-reduce-implementation": ["direct4"]}).algorithms
    work = anb.workload([anb.all_reduce("1 MiB", "ring")], system=System(direct, splits=2)).on(RING)
    assert work.system.algorithms[number] == direct[number]
    assert work.system.splits == 2


def test_without_a_system_the_collectives_choose():
    work = anb.workload([anb.compute("5 us"), anb.all_reduce("1 MiB", "tree")]).on(RING)
    assert work.system.splits == work.system.active_chunks == 8  # of 128 KiB
    assert not work.compat
    assert np.array_equal(work.operations[0].rows["duration_ns"], [5000, 0])


def test_operations_are_a_list_or_stand_one_by_one():
    compute, reduce = anb.compute("5 us"), anb.all_reduce("1 MiB", "ring")
    listed = anb.workload([compute, [compute, reduce]], ranks=8)
    assert anb.workload(compute, [compute, reduce], ranks=8) == listed
    assert anb.workload(reduce) == anb.workload([reduce])


@pytest.mark.parametrize(
    "steps, message",
    [
        ((), "a workload needs at least one operation; write \\[anb.compute"),
        (([],), "a workload needs at least one operation; write"),
        ((anb.compute("5 us"), 8), "8 is not an operation; write ranks=8"),
        (([anb.compute("5 us")], 8), "8 follows the list of operations; write ranks=8"),
        (
            ([anb.compute("5 us")], anb.compute("7 us")),
            "follows the list of operations; write all in one list",
        ),
        (([3],), "3 is not an operation; write \\[anb.compute"),
        (("llama3-8b",), r"'llama3-8b' is not an operation; of a model: anb\.models\.workload"),
        (("5 us",), "'5 us' is not an operation; write \\[anb.compute"),
        ((anb.compute("5 us"), []), "a list among the operations is empty"),
    ],
)
def test_what_is_no_list_of_operations_says_what_to_write(steps, message):
    with pytest.raises(InputError, match=message):
        anb.workload(*steps)


def test_dimensions_are_given_once_or_one_by_one():
    assert DimensionNetwork(["Ring"], [8], [100], [500]) == RING
    assert hash(RING) == hash(DimensionNetwork(["Ring"], [8], [100], [500]))
    square = DimensionNetwork("Ring", [4, 2], bandwidth=[100, 25], latency=500, dimension_type="Pod")
    assert (square.topology, square.latency, square.places) == (("Ring",) * 2, (500, 500), ("Pod",) * 2)
    with pytest.raises(InputError, match="lists differ in length: 1 in topology, 2 in npus_count"):
        DimensionNetwork(["Ring"], [4, 2], bandwidth=100, latency=500)
    with pytest.raises(InputError, match="no dimensions"):
        DimensionNetwork([], 8, bandwidth=100, latency=500)
