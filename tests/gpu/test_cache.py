from collections import OrderedDict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astranb.gpu import tables as t
from astranb.gpu.cache import EMPTY, fill, find, set_of


def cache(sets, ways):
    gpus = np.zeros(1, t.GPU).view(np.recarray)
    gpus[0].sets, gpus[0].l2_ways = sets, ways
    tags = np.full(sets * ways, EMPTY, np.int32).view(np.recarray)
    return gpus, tags


@given(
    sets=st.sampled_from([1, 3, 4]),
    ways=st.sampled_from([1, 2, 4]),
    accesses=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), max_size=200),
)
def test_it_holds_what_was_used_last_in_each_set_and_writes_back_what_is_dirty(sets, ways, accesses):
    gpus, tags = cache(sets, ways)
    model: dict[int, OrderedDict[int, int]] = {}
    for line, dirty in accesses:
        lines = model.setdefault(set_of(gpus, 0, line), OrderedDict())
        hit = find(gpus, tags, tags, 0, line, dirty)
        assert hit == (line in lines)
        back = -1
        if not hit:
            back = fill(gpus, tags, tags, 0, line, dirty)
        expected = -1
        lines[line] = lines.pop(line, 0) | dirty
        if len(lines) > ways:
            old, was_dirty = lines.popitem(last=False)
            expected = old if was_dirty else -1
        assert back == expected
    held = {int(tag) >> 1 for tag in tags if tag != EMPTY}
    assert held == {line for lines in model.values() for line in lines}


@given(st.lists(st.integers(0, 7), max_size=30))
def test_where_all_lines_fit_each_has_its_own_place(lines):
    gpus, tags = cache(8, 1)
    gpus[0].direct = 1
    present = np.zeros(8, np.uint8).view(np.recarray)
    seen: set[int] = set()
    for line in lines:
        assert find(gpus, tags, present, 0, line, 1) == (line in seen)
        assert fill(gpus, tags, present, 0, line, 1) == -1
        seen.add(line)


def test_sets_are_used_evenly():
    gpus, _ = cache(64, 1)
    counts = np.bincount([set_of(gpus, 0, line) for line in range(64 * 100)], minlength=64)
    assert counts.min() > 80
    assert counts.max() < 120
