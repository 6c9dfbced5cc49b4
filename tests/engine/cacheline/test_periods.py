"""Steady states of runs by cache lines do not repeat, because the slices of the L2 are chosen by a hash:
``benchmarks/periods.py`` finds a period where there is one, and the hash has none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import astranb as anb
from astranb.gpu import PRESETS, preset
from astranb.gpu.travel import spread
from benchmarks.periods import MODELS, PARTS, Found, least_shift_bytes, period, sample

words = st.lists(st.integers(0, 3), min_size=1, max_size=12)


def repeats(samples, found):
    return samples[found.start + found.length :] == samples[found.start : -found.length]


@given(head=words, cycle=words, times=st.integers(18, 24))
def test_a_period_is_found_and_none_is_shorter(head, cycle, times):
    samples = head + cycle * times
    found = period(samples)
    assert found is not None
    assert found.length <= len(cycle)
    assert found.start <= len(head)
    assert len(cycle) % found.length == 0
    assert repeats(samples, found)
    for shorter in range(1, found.length):
        assert not repeats(samples, Found(max(0, len(samples) - shorter - 16 * len(cycle)), shorter))


@given(cycle=words, times=st.integers(18, 24))
def test_one_sample_that_is_another_ends_it(cycle, times):
    assert period([*cycle * times, 9]) is None


def test_what_never_repeats_has_none():
    assert period(range(500)) is None


def states(model, algorithm, size, count, *, operations=False):
    """Samples of an all-reduce of two GPUs whose SMs are slower than their links."""
    gpu = preset("h100-sxm").but(issue_ps=4000, **MODELS["h100-sxm"][model])
    work = anb.collectives.all_reduce(size, algorithm, channels=1)
    sim = anb.Simulation("switch:gpus=2", work, gpu=gpu, record=False, checkpoint_bytes=0)
    return list(sample(sim, count, warm=0 if operations else 3000, operations=operations))


@pytest.mark.parametrize(
    "algorithm, size, count, operations",
    [("allpairs", "4 MiB", 200, False), ("ring", "32 MiB", 120, True)],
)
def test_without_the_hash_all_that_is_looked_at_repeats(algorithm, size, count, operations):
    """The second half is as the first half predicts: lines of a move, and rounds of a ring."""
    rows = states("neither", algorithm, size, count, operations=operations)
    for part in zip(*rows, strict=True):
        found = period(part[: count // 2])
        assert found is not None
        assert len(set(part)) > 3
        assert repeats(part, found)


def test_with_it_nothing_repeats():
    rows = states("as it is", "allpairs", "4 MiB", 200)
    assert [period(part) for part in zip(*rows, strict=True)] == [None] * len(PARTS)


def slices(hashes, count):
    """Return the slices to which ``spread`` maps hashed numbers."""
    return hashes * np.int64(count) >> 32


@pytest.mark.parametrize("gpu", PRESETS.values(), ids=PRESETS)
@given(data=st.data())
def test_lines_of_a_slice_stay_together_only_after_the_least_shift(gpu, data):
    """Checked at the first and last hash of every slice."""
    count, least = gpu.l2_slices, least_shift_bytes(gpu) // gpu.line_bytes
    shift = data.draw(st.integers(1, 2**32 - 1) | st.integers(1, 2**32 // least - 1).map(lambda n: n * least))
    by = shift * 2654435769 % 2**32
    first = -(-(np.arange(count, dtype=np.int64) << 32) // count)
    last = np.append(first[1:], 2**32) - 1
    assert (slices(first, count) == np.arange(count)).all()
    assert (slices(last, count) == np.arange(count)).all()
    moved = [slices((ends + by) % 2**32, count) for ends in (first, last)]
    assert (moved[0] == moved[1]).all() == (shift % least == 0)
    # The hash is that of the machine.
    line = int(first[-1]) * pow(2654435769, -1, 2**32) % 2**32
    with np.errstate(over="ignore"):  # the machine's numbers wrap around, too
        assert spread(line, count) == count - 1
        assert spread(line + shift, count) == slices((int(first[-1]) + by) % 2**32, count)
