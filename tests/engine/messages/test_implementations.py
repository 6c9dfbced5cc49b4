"""Positions of the ranks of groups in the dimensions of a network."""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.engine.messages import group_shapes
from astranb.engine.messages.operation_tables import first_chunk, make_groups, places_of

_COUNTS = [4, 2, 3]


def _shape(ranks: list[int]) -> tuple[int, int]:
    """Return the shape of one group, by its definition."""
    strides = [math.prod(_COUNTS[:dim]) for dim in range(len(_COUNTS))]
    places = [
        [rank // stride % nodes for rank in ranks] for stride, nodes in zip(strides, _COUNTS, strict=True)
    ]
    outer = max((dim for dim, row in enumerate(places) if len(set(row)) > 1), default=0)
    runs = [(place, len(list(each))) for place, each in groupby(rank // strides[outer] for rank in ranks)]
    once = len({place for place, _ in runs}) == len(runs)
    lengths = {length for _, length in runs}
    return outer, lengths.pop() if once and len(lengths) == 1 else 1


_GROUP = st.lists(st.integers(0, math.prod(_COUNTS) - 1), min_size=1, max_size=9, unique=True)


@given(st.lists(_GROUP, max_size=5))
def test_groups_have_the_shape_that_each_has_alone(groups):
    outer, rails = group_shapes(groups, _COUNTS)
    assert list(zip(outer.tolist(), rails.tolist(), strict=True)) == [_shape(group) for group in groups]


@pytest.mark.parametrize("ranks", [[], [0, 0], [-1], [0, 24]])
def test_a_group_of_no_different_ranks_is_named(ranks):
    with pytest.raises(InputError, match="group 7 is not a list of different ranks below 24"):
        make_groups([(1, [0, 1]), (7, ranks), (8, [2])], _COUNTS, 24, 1)


@given(st.lists(_GROUP, min_size=1, max_size=5), st.integers(1, 2))
def test_each_member_of_a_group_counts_its_own_chunks(groups, lanes):
    """As many counters as members and lanes, from the group's own number on; none of ranks outside."""
    rows, members, streams = make_groups(list(enumerate(groups, 3)), _COUNTS, 24, lanes)
    assert len(streams) == lanes * sum(map(len, groups))
    counted = streams.value.reshape(-1, lanes)
    find = places_of(rows, members)
    for row, group in enumerate(groups):
        at = find(np.full(len(group), row), np.array(group))
        assert members.value[at].tolist() == group
        for lane in range(lanes):
            assert set(counted[at, lane].tolist()) == {first_chunk(row + 3, lane)}
