"""The time that tracks spend in states, against counting every picosecond."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.density import NOTHING, flatten, join

TRACKS, STATES, LENGTH = 3, 4, 60

spans = st.lists(
    st.tuples(
        st.integers(0, TRACKS - 1), st.integers(0, STATES - 1), st.integers(0, LENGTH), st.integers(0, LENGTH)
    ),
    max_size=120,
)


def columns(found: list[tuple[int, int, int, int]]) -> list[np.ndarray]:
    rows = [(track, state, min(a, b), max(a, b)) for track, state, a, b in found]
    return list(np.array(rows, np.int64).reshape(-1, 4).T)


def painted(found: list[tuple[int, int, int, int]]) -> np.ndarray:
    """The state of each track at each picosecond: the lowest number wins."""
    picture = np.full((TRACKS, LENGTH), NOTHING)
    for track, state, a, b in zip(*columns(found), strict=True):
        picture[track, a:b] = np.minimum(picture[track, a:b], state)
    return picture


@settings(max_examples=150, deadline=None)
@given(spans, st.lists(st.integers(-5, LENGTH + 5), min_size=2, max_size=8), st.integers(0, LENGTH))
def test_time_in_states_is_what_counting_picoseconds_gives(
    found: list[tuple[int, int, int, int]], edges: list[int], cut: int
) -> None:
    picture = painted(found)
    whole = flatten(0, LENGTH, TRACKS, STATES, *columns(found))
    halves = [flatten(a, b, TRACKS, STATES, *columns(found)) for a, b in ((0, cut), (cut, LENGTH))]
    both = join(*halves)
    assert both.key.tolist() == whole.key.tolist()
    assert both.new.tolist() == whole.new.tolist()
    before = whole.until(cut)
    assert before.key.tolist() == halves[0].key.tolist()
    assert before.new.tolist() == halves[0].new.tolist()
    edges = sorted(edges)
    for track in range(TRACKS):
        until = whole.spent(np.full(len(edges), track), np.array(edges))
        for (a, b), spent in zip(pairwise(edges), np.diff(until, axis=0), strict=True):
            window = picture[track, max(a, 0) : max(b, 0)]
            assert spent.tolist() == [int((window == state).sum()) for state in range(STATES)]
            states, start, end = whole.spans(track, a, b)
            drawn = np.full(LENGTH, NOTHING)
            for state, first, last in zip(states, start, end, strict=True):
                drawn[first:last] = state
            assert drawn[max(a, 0) : max(b, 0)].tolist() == window.tolist()
    folded = whole.folded(np.array([0, 1, 0]), 2)
    tracks = np.diff(whole.spent(np.repeat(np.arange(3), 2), np.tile([7, 41], 3)).reshape(3, 2, -1), axis=1)
    groups = np.diff(folded.spent(np.repeat([0, 1], 2), np.tile([7, 41], 2)).reshape(2, 2, -1), axis=1)
    assert groups.tolist() == [(tracks[0] + tracks[2]).tolist(), tracks[1].tolist()]
