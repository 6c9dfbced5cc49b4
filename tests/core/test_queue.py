import heapq

from hypothesis import given
from hypothesis import strategies as st

from astranb.core.queue import new_queue, pop, push


@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=200))
def test_order_is_that_of_time_then_sequence(script):
    """Against the standard library's heap, for any mixture of pushes (a time) and pops (None)."""
    heap, size, seq = new_queue(len(script) + 1), 0, 0
    reference: list[tuple[int, int, int]] = []
    for step in script:
        if step is None:
            if reference:
                assert (int(heap[0].time_ps), int(heap[0].seq), int(heap[0].arg)) == heapq.heappop(reference)
                size = pop(heap, size)
        else:
            size = push(heap, size, step, seq, 0, 7 * seq)
            heapq.heappush(reference, (step, seq, 7 * seq))
            seq += 1
    assert size == len(reference)
