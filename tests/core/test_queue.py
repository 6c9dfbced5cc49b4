import heapq

from hypothesis import given
from hypothesis import strategies as st

from astranb.core.queue import ARGUMENTS, SEQUENCES, arg_of, kind_of, new_queue, packed, pop, push


@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=200))
def test_order_is_that_of_time_then_sequence(script):
    """Against the standard library's heap, for any mixture of pushes (a time) and pops (None)."""
    heap, size, seq = new_queue(len(script) + 1), 0, 0
    reference: list[tuple[int, int, int]] = []
    for step in script:
        if step is None:
            if reference:
                when, number, arg = heapq.heappop(reference)
                assert (int(heap[0].time_ps), int(heap[0].order)) == (when, int(packed(number, 3, arg)))
                size = pop(heap, size)
        else:
            size = push(heap, size, step, packed(seq, 3, 7 * seq))
            heapq.heappush(reference, (step, seq, 7 * seq))
            seq += 1
    assert size == len(reference)


@given(st.integers(0, SEQUENCES - 1), st.integers(0, 15), st.integers(0, ARGUMENTS - 1))
def test_what_is_packed_comes_out_again(seq, kind, arg):
    order = int(packed(seq, kind, arg))
    assert order >= 0
    assert (order // ARGUMENTS // 16, kind_of(order), arg_of(order)) == (seq, kind, arg)
