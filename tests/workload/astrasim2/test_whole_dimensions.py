"""Groups that are whole dimensions of the network: which they are, and that others keep their ring."""

import dataclasses

import pytest

from astranb.core.errors import InputError
from astranb.engine.messages import simulate
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    DimensionNetwork,
    Operations,
    System,
    Workload,
    along_dimensions,
)

NETWORK = DimensionNetwork(["Ring", "Switch", "Switch"], [2, 3, 4], [50.0] * 3, [500.0] * 3)
SYSTEM = System.from_document({"all-reduce-implementation": ["ring"] * 3})


def of_groups(groups, **more):
    """An all-reduce of each rank in its group."""
    own = {rank: number for number, ranks in groups.items() for rank in ranks}
    operations = [
        Operations.of([{"kind": COLLECTIVE, "bytes": 4096, "group": own[rank], **more}]) for rank in range(24)
    ]
    return Workload(operations, NETWORK, SYSTEM, groups=groups)


def moved(work):
    return {one.rows[["group", "involved"]][0].item() for one in along_dimensions(work).operations}


def test_neighbours_are_the_first_dimensions():
    assert moved(of_groups({1 + at: range(2 * at, 2 * at + 2) for at in range(12)})) == {(-1, 0b001)}
    assert moved(of_groups({1 + at: range(6 * at, 6 * at + 6) for at in range(4)})) == {(-1, 0b011)}


def test_ranks_at_one_place_of_the_first_dimensions_are_the_last():
    assert moved(of_groups({1 + at: range(at, 24, 6) for at in range(6)})) == {(-1, 0b100)}
    assert moved(of_groups({1 + at: range(at, 24, 2) for at in range(2)})) == {(-1, 0b110)}


def test_the_order_of_the_ranks_does_not_matter():
    assert moved(of_groups({1 + at: [2 * at + 1, 2 * at] for at in range(12)})) == {(-1, 0b001)}


def test_a_part_of_a_dimension_keeps_its_ring():
    work = of_groups({1 + at: range(12 * at, 12 * at + 12) for at in range(2)})
    assert moved(work) == {(1, (1 << 62) - 1), (2, (1 << 62) - 1)}
    one = {1: [0, 1, 2, 3, 5], 2: [4, *range(6, 24)]}
    assert moved(of_groups(one)) == {(1, (1 << 62) - 1), (2, (1 << 62) - 1)}


def test_sizes_may_differ_and_the_run_ends():
    """As of uneven tensor parallelism: the ranks of a group have one size, and other groups another."""
    groups = {1 + at: range(at, 24, 6) for at in range(6)}
    work, other = of_groups(groups), of_groups(groups, bytes=8192)
    mixed = [(other if rank % 6 == 5 else work).operations[rank] for rank in range(24)]
    system = dataclasses.replace(SYSTEM, splits=4, group_dimensions=True, inter="themis")
    ends = simulate(dataclasses.replace(work, operations=mixed, system=system)).end_ns
    assert ends.tolist() == [ends[5] if rank % 6 == 5 else ends[0] for rank in range(24)]
    assert ends[5] > ends[0]


def test_a_pipeline_is_refused():
    """Two halves with other collectives: they would number their chunks alike."""
    groups = {1 + at: range(2 * at, 2 * at + 2) for at in range(12)}
    work, other = of_groups(groups), of_groups(groups, collective=1)
    mixed = dataclasses.replace(work, operations=[*work.operations[:12], *other.operations[12:]])
    with pytest.raises(InputError, match="do not have the same collectives"):
        along_dimensions(mixed)


def test_astra_sim_itself_has_rings():
    with pytest.raises(InputError, match="does collectives of groups as rings"):
        along_dimensions(dataclasses.replace(of_groups({1: range(24)}), compat=True))


def test_the_words_of_the_system_file():
    assert System.from_document({"group-implementation": "dimensions"}).group_dimensions
    assert not System.from_document({"group-implementation": "ring"}).group_dimensions
    with pytest.raises(InputError, match="unknown group-implementation 'tree'"):
        System.from_document({"group-implementation": "tree"})
