"""One order of chunks in a dimension for all NPUs, where there are several dimensions.

Two NPUs that begin with different chunks, because those came in another order from the dimension
before, wait for each other for ever (astra-sim's issue 370). So the
first NPU that begins a chunk's phase in a dimension has decided for all: the others begin it when
its turn has come. What an NPU can begin it has ended the phase before of, in a turn that was
decided on earlier; so that turns of all dimensions, in the order of their decisions, can always
be taken, and nothing waits for ever.
"""

from __future__ import annotations

from astranb.core.jit import kernel

from ._tables import CUSTOM, Machine

__all__ = ["next_in_turn"]

# A turn is a row of the table of messages: `tag` and `bytes` name the chunk and its phase, `sent`
# counts the NPUs that have taken it.


@kernel
def _decide(m: Machine, turns: int, stream: int) -> None:
    """Add a turn for all NPUs."""
    row = m.clock[0].free_message
    m.clock[0].free_message = m.messages[row].next
    m.clock[0].messages_left -= 1
    m.messages[row].tag = m.streams[stream].tag
    m.messages[row].bytes = m.streams[stream].phase
    m.messages[row].sent = 0
    m.messages[row].next = -1
    t = m.turns[turns]
    if t.last == t.first:
        t.head = row
    else:
        m.messages[t.tail].next = row
    t.tail = row
    t.last += 1


@kernel
def _take(m: Machine, queue: int, turns: int, row: int) -> None:
    """Take a turn; one that all have taken is forgotten."""
    t = m.turns[turns]
    m.queues[queue].turns += 1
    m.messages[row].sent += 1
    if m.messages[row].sent == len(m.npus):
        t.head = m.messages[row].next
        t.first += 1
        m.messages[row].next = m.clock[0].free_message
        m.clock[0].free_message = row
        m.clock[0].messages_left += 1


@kernel(inline=False)
def next_in_turn(m: Machine, queue: int, stream: int) -> int:
    """Give the stream of a queue that is to begin next.

    Parameters
    ----------
    m : Machine
    queue : int
    stream : int
        The first that waits in it.

    Returns
    -------
    int
        -1 where all that wait have to wait for the one whose turn it is. Groups and graphs have
        no turns.
    """
    turns = queue % (m.config[0].dims * m.config[0].queues)
    t = m.turns[turns]
    missed = m.queues[queue].turns - t.first
    row = -1
    if m.queues[queue].turns < t.last:
        row = t.head
        for _ in range(missed):
            row = m.messages[row].next
    while stream >= 0:
        s = m.streams[stream]
        if s.group >= 0 or s.algorithm == CUSTOM:
            return stream
        if row < 0:
            _decide(m, turns, stream)
            row = t.tail
        if m.messages[row].tag == s.tag and m.messages[row].bytes == s.phase:
            _take(m, queue, turns, row)
            return stream
        stream = s.next
    return -1
