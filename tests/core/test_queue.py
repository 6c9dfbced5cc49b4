import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.queue import (
    ARGUMENTS,
    SLOTS,
    arg_of,
    fill,
    kind_of,
    live,
    new_queue,
    open_slot,
    pop,
    schedule,
)

CLOCK = [(name, "i8") for name in ("seq", "queued", "near", "far", "slot", "free_entry")]
TURN_PS = 64 * SLOTS


def empty(capacity):
    return new_queue(np.zeros(1, CLOCK).view(np.recarray), capacity)


def take(queue):
    """As the loop does."""
    clock = queue.clock
    order = queue.near[0].order
    event = (int(queue.near[0].time_ps), kind_of(order), arg_of(order))
    clock[0].near = pop(queue.near, clock[0].near)
    clock[0].queued -= 1
    if clock[0].near == 0 and clock[0].queued > 0:
        open_slot(queue, queue.near, queue.near)
    return event


# Ahead of now: at once, in the open slot, in another one, a turn of the wheel later, far away.
AHEAD = st.one_of(
    st.integers(0, 200),
    st.integers(0, 2 * TURN_PS),
    st.sampled_from([TURN_PS - 64, TURN_PS, TURN_PS + 1, 3 * TURN_PS, 10**15]),
)


@given(st.lists(AHEAD, min_size=1, max_size=20), st.lists(st.one_of(st.none(), AHEAD), max_size=200))
def test_order_is_that_of_time_then_of_queueing(first, script):
    """Against the standard library's heap, for any mixture of pushes (time ahead) and pops (None)."""
    queue, now, count = empty(250), 0, len(first)
    fill(queue, [(when, 2, number) for number, when in enumerate(first)])
    reference = [(when, number) for number, when in enumerate(first)]
    heapq.heapify(reference)
    for step in script:
        if not reference:
            break
        if step is None:
            now, number = heapq.heappop(reference)
            assert take(queue) == (now, 2, number)
        else:
            heapq.heappush(reference, (now + step, count))
            schedule(queue, now + step, 2, count)
            count += 1
        expected = [[when, (2 << 22) | number] for when, number in sorted(reference)]
        assert live(queue).tolist() == expected
    while reference:
        when, number = heapq.heappop(reference)
        assert take(queue) == (when, 2, number)
    assert queue.clock[0].queued == 0


def test_entries_are_given_back():
    queue = empty(4)
    fill(queue, [(0, 1, 0)])
    for turn in range(100):
        for ahead in (5_000, TURN_PS * 2, 7):
            schedule(queue, turn * 3 * TURN_PS + ahead, 1, 0)
        for _ in range(3):
            take(queue)
    assert queue.clock[0].queued == 1


def test_nothing_to_begin_with():
    queue = empty(4)
    fill(queue, [])
    assert queue.clock[0].queued == 0


@pytest.mark.parametrize("ahead", [10**12, 10**18])
def test_a_long_wait_takes_no_time(ahead):
    """A fault a second away is billions of slots away: they are not looked at one by one."""
    queue = empty(4)
    fill(queue, [(0, 1, 0), (ahead, 1, 1)])
    assert take(queue)[0] == 0
    assert take(queue)[0] == ahead


@given(st.integers(0, 15), st.integers(0, ARGUMENTS - 1), st.integers(0, 10 * TURN_PS))
def test_what_is_queued_comes_out_again(kind, arg, time_ps):
    queue = empty(4)
    fill(queue, [(0, 0, 0)])
    schedule(queue, time_ps, kind, arg)
    assert take(queue) == (0, 0, 0)
    assert take(queue) == (time_ps, kind, arg)
