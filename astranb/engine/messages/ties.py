"""Ties in a folded run: what happens at one time in an order that may not be the same for all ranks.

Events at one time are handled in the order in which they were put into the queue. In a run of all ranks each
event of the folded run happens once for each rank of a class. Events that are put into the queue by one event
for all ranks, at one time and for one time, form a **block**, and so do those that a block puts there. Blocks
follow one another as in the folded run; within a block, events of the ranks are mixed: in a ring one rank
gets its message from a rank that is handled before it, and another from one that is handled after it. So two
events of an NPU happen in the same order on all ranks of its class if they are of different blocks, or of one
**strand**:

- messages that one NPU sent, in events that were of one strand; or of one chunk, as the chunk goes on alike,
  whichever of them comes first;
- its timers, set by different blocks or by one strand (timers of one time are handled one after another, in
  the block of the first that was set);
- receives that it posts late, after their messages have arrived, in events of different blocks or of one
  strand (they are handled at that time, in the order in which they are posted).

Where events of one block and of different strands use the same thing, which of them is first could make a
difference. Then all ranks are simulated instead. Things are a port, a queue of chunks, an NPU's collectives,
a chunk (if one event is a message and the other a timer), and a message, which arrives and is expected.
Among classes it is a grant: which chunk is begun next (:mod:`.scheduling`).

What is put into the queue for the time at hand comes behind everything else, and is taken for one block.
Without ports chunks of one operation are alike; there messages of two operations that enter an NPU's memory
at one time, and leave it at one time, are a tie.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from .tables import AWAY_BITS, CLEAR_TO_SEND_TAGS, KIND_BITS, NATIVE_TAGS, STREAM, MessageMachine

__all__ = [
    "arrives",
    "at_sender",
    "at_target",
    "begins",
    "comes_in",
    "enters",
    "enters_queue",
    "expects",
    "grants",
    "has_begun",
    "leaves",
    "leaves_queue",
    "posts_late",
    "puts",
    "scheduled",
    "scheduled_late",
    "scheduled_message",
    "scheduled_timer",
    "takes_grant",
    "uses_collectives",
    "uses_stream",
]

_MASK: Final = (1 << KIND_BITS) - 1
_TAGS: Final = (1 << AWAY_BITS) - 1
_CHUNKS_OF_GROUP: Final = 1_000_000
_PEERS: Final = 4095
_NOW: Final = -2  # the block of all that was put into the queue for the time at hand
_NONE: Final = -3
_SELF: Final = 1 << 62  # who sent a message that has waited for a port
_MESSAGES: Final = -1  # the strand of all messages of a chunk
_MIXED: Final = -2  # several strands
_LATEST: Final = 255


# The event at hand. A strand is a number: an event, or the first timer of a list; in the lower bits which of
# the blocks that set timers of this list set this one, and at which of their strands.


@kernel
def _ordered(one: int, other: int) -> bool:
    """Say whether events of one block are in the same order on all ranks, by their strands."""
    return bool(one == other or (one >> 16 == other >> 16 and one >> 8 != other >> 8))


@kernel
def _fresh(m: MessageMachine) -> None:
    """Return what follows a strand of its own."""
    m.fold[0].fresh -= 1 << 16
    m.fold[0].strand = m.fold[0].fresh


@kernel(inline=False)
def _place(m: MessageMachine, put_block: int) -> None:
    """Find the block of the event at hand, which another block has put into the queue."""
    f = m.fold[0]
    step = m.clock[0].steps
    if f.at_ns != m.queue[0].now:
        f.at_ns = m.queue[0].now
        f.since = step
        f.put_block = _NONE
    put = put_block if put_block < f.since else _NOW
    if put != f.put_block:
        f.put_block = put
        f.block = step
    f.strand = step << 16
    f.sender = -1
    f.sender_strand = -1


@kernel
def scheduled(m: MessageMachine, put_block: int) -> None:
    """Place the event at hand: the start of an NPU."""
    if m.config[0].folded == 1:
        _place(m, put_block)


@kernel(inline=False)
def posts_late(m: MessageMachine, npu: int) -> None:
    """An NPU posts a receive whose message is there: it is handled behind those posted before."""
    f = m.fold[npu]
    g = m.fold[0]
    if f.late_ns != m.queue[0].now:
        f.late_ns = m.queue[0].now
        g.fresh -= 1 << 16
        f.late_strand = g.fresh
    elif f.late_block == g.block and not _ordered(f.late_from, g.strand):
        f.late_strand = _MIXED
    f.late_block = g.block
    f.late_from = g.strand


@kernel(inline=False)
def _place_late(m: MessageMachine, handler: int) -> None:
    """Place a receive that was posted late, at this time."""
    _place(m, m.clock[0].steps)
    if handler & _MASK == STREAM:
        f = m.fold[m.streams[handler >> KIND_BITS].npu]
        if f.late_ns == m.queue[0].now and f.late_strand != _MIXED:
            m.fold[0].strand = f.late_strand


@kernel
def scheduled_late(m: MessageMachine, handler: int) -> None:
    """Place the receive at hand, which was posted late."""
    if m.config[0].folded == 1:
        _place_late(m, handler)


@kernel(inline=False)
def _place_timer(m: MessageMachine, npu: int, head: int, row: int) -> None:
    """Place a timer, one of a list that was put into the queue with its first one."""
    _place(m, m.timers[head].block)
    timer = m.timers[row]
    f = m.fold[npu]
    if row == head:
        f.list_strand = m.clock[0].steps << 16
        f.subs = 0
    elif timer.block != f.set_block:
        f.subs = 0
        if (f.list_strand >> 8) & _LATEST < _LATEST:
            f.list_strand += 1 << 8
    elif _ordered(f.set_strand, timer.strand):
        f.set_strand = timer.strand
    elif f.subs > 0 and _ordered(f.sub_strand, timer.strand):
        f.sub_strand = timer.strand
        m.fold[0].strand = f.list_strand + f.subs
        return
    elif f.subs < _LATEST:
        f.subs += 1
        f.sub_strand = timer.strand
        m.fold[0].strand = f.list_strand + f.subs
        return
    else:
        return
    if f.subs == 0:
        f.set_strand = timer.strand
    f.set_block = timer.block
    m.fold[0].strand = f.list_strand


@kernel
def scheduled_timer(m: MessageMachine, npu: int, head: int, row: int) -> None:
    """Place the timer at hand."""
    if m.config[0].folded == 1:
        _place_timer(m, npu, head, row)


@kernel
def _sender(m: MessageMachine, row: int) -> int:
    """Number the NPU that sent a message as its target counts, -1: unknown.

    Where two messages of one NPU have the same number, every rank of the target's class gets both from one
    rank.
    """
    message = m.messages[row]
    tag = message.tag & _TAGS
    group = tag // _CHUNKS_OF_GROUP
    if m.config[0].ports == 0:
        return -1
    if message.heading == 1:
        return _SELF
    if tag >= CLEAR_TO_SEND_TAGS:
        return -1
    if tag < NATIVE_TAGS:
        group = _PEERS
    return int((((message.at << 12) + group) << 20) + (message.tag >> AWAY_BITS))


@kernel(inline=False)
def _place_message(m: MessageMachine, row: int) -> None:
    """Place the arrival of a message."""
    _place(m, m.meeting[row].put_block)
    message = m.messages[row]
    f = m.fold[message.dst]
    g = m.fold[0]
    stream = -1
    if message.posted == 1 and message.receiver & _MASK == STREAM:
        stream = message.receiver >> KIND_BITS
    key = _sender(m, row)
    g.sender = key
    g.sender_strand = m.meeting[row].put_strand
    same = key >= 0 and f.came_key == key and _ordered(f.came_from, g.sender_strand)
    if f.came_block == g.block and same:
        g.strand = f.came_strand
        f.came_from = g.sender_strand
        if f.came_stream != stream:
            f.came_stream = -1
    elif f.came_block == g.block and stream >= 0 and f.came_stream == stream:
        g.strand = f.came_strand
        f.came_key = -1
    else:
        f.came_block = g.block
        f.came_strand = g.strand
        f.came_stream = stream
        f.came_key = key
        f.came_from = g.sender_strand


@kernel
def scheduled_message(m: MessageMachine, row: int) -> None:
    """Place the arrival of the message at hand."""
    if m.config[0].folded == 1 and m.config[0].congestion == 0:
        _place_message(m, row)


@kernel
def puts(m: MessageMachine, row: int) -> None:
    """The event at hand puts the arrival of a message into the event queue."""
    m.meeting[row].put_block = m.fold[0].block
    m.meeting[row].put_strand = m.fold[0].strand


@kernel
def at_sender(m: MessageMachine) -> None:
    """A message that has arrived goes on at its sender: there its order among events is another one."""
    if m.config[0].folded == 1:
        m.fold[0].arrival = m.fold[0].strand
        _fresh(m)


@kernel
def at_target(m: MessageMachine) -> None:
    """And now it goes on at its target."""
    if m.config[0].folded == 1:
        m.fold[0].strand = m.fold[0].arrival


# What it uses.


@kernel(inline=False)
def _uses(m: MessageMachine, row: int) -> None:
    """The event at hand uses something: mark the run if another one has, and which is first is chance."""
    u = m.last_use[row]
    g = m.fold[0]
    if u.block == g.block and not _ordered(u.strand, g.strand):
        g.tied = 1
    u.block = g.block
    u.strand = g.strand


@kernel
def leaves(m: MessageMachine, port: int) -> None:
    """A message leaves by a port."""
    _uses(m, port)


@kernel(inline=False)
def comes_in(m: MessageMachine, port: int) -> None:
    """A message comes in by a port, of a strand if one NPU sends it; those of a chunk may be as far away."""
    u = m.last_use[port]
    g = m.fold[0]
    same = u.key == g.sender and g.sender >= 0 and _ordered(u.strand, g.sender_strand)
    if u.block == g.block and not same:
        g.tied = 1
    u.block = g.block
    u.key = g.sender
    u.strand = g.sender_strand


@kernel(inline=False)
def _queue(m: MessageMachine, queue: int) -> int:
    """Return the row of a queue's uses, those of the block at hand."""
    row = len(m.ports) + queue
    u = m.last_use[row]
    if u.block != m.fold[0].block:
        u.block = m.fold[0].block
        u.strand = u.key = _NONE
        u.ahead = u.begun = 0
    return row


@kernel(inline=False)
def _enters_queue(m: MessageMachine, queue: int, ahead: int) -> None:
    u = m.last_use[_queue(m, queue)]
    strand = m.fold[0].strand
    if u.strand != _NONE and not _ordered(u.strand, strand):
        m.fold[0].tied = 1
    if ahead == 1 and u.key != _NONE and not _ordered(u.key, strand):
        m.fold[0].tied = 1
    u.strand = strand
    u.ahead = max(u.ahead, ahead)


@kernel(inline=False)
def _leaves_queue(m: MessageMachine, queue: int) -> None:
    u = m.last_use[_queue(m, queue)]
    strand = m.fold[0].strand
    if u.ahead == 1 and not _ordered(u.strand, strand):
        m.fold[0].tied = 1
    if u.key == _NONE or (u.key != _MIXED and _ordered(u.key, strand)):
        u.key = strand
        return
    if u.begun == 1:
        m.fold[0].tied = 1
    u.key = _MIXED


@kernel
def enters_queue(m: MessageMachine, queue: int, ahead: int) -> None:
    """A chunk comes into a queue: 1 if ahead of others that wait, or have waited before this block.

    Behind them it may come before or after others leave: the same chunks begin.
    """
    if m.config[0].folded == 1 and m.config[0].ports > 0:
        _enters_queue(m, queue, ahead)


@kernel
def leaves_queue(m: MessageMachine, queue: int) -> None:
    """A chunk leaves a queue; where it lets another one begin, no other may leave."""
    if m.config[0].folded == 1 and m.config[0].ports > 0:
        _leaves_queue(m, queue)


@kernel(inline=False)
def _begins(m: MessageMachine, queue: int, stream: int) -> None:
    u = m.last_use[_queue(m, queue)]
    if u.strand == _NONE or m.streams[stream].queued_ns != m.queue[0].now:
        u.begun = 1
    elif u.key != _NONE and not _ordered(u.key, u.strand):
        _fresh(m)


@kernel
def begins(m: MessageMachine, queue: int, stream: int) -> int:
    """A chunk of a queue begins: as it has come, or as another one has left; returns the strand at hand."""
    strand = m.fold[0].strand
    if m.config[0].folded == 1 and m.config[0].ports > 0:
        _begins(m, queue, stream)
    return int(strand)


@kernel
def has_begun(m: MessageMachine, strand: int) -> None:
    """It has begun: go on with the strand at hand."""
    if m.config[0].folded == 1:
        m.fold[0].strand = strand


@kernel
def uses_collectives(m: MessageMachine, npu: int) -> None:
    """An NPU begins a collective, or ends an operation."""
    if m.config[0].folded == 1 and m.config[0].ports > 0:
        _uses(m, len(m.ports) + len(m.queues) + npu)


@kernel
def uses_stream(m: MessageMachine, stream: int, message: int) -> None:
    """A chunk goes on: by a message that it has got (1), or by a timer (0)."""
    if m.config[0].folded == 1 and m.config[0].ports > 0:
        s = m.streams[stream]
        g = m.fold[0]
        strand = _MESSAGES if message == 1 else g.strand
        if s.block == g.block and not _ordered(s.strand, strand):
            g.tied = 1
        s.block = g.block
        s.strand = strand


@kernel
def grants(m: MessageMachine, row: int) -> None:
    """An NPU decides for all which chunk begins next."""
    if m.config[0].folded == 1:
        m.meeting[row].put_block = m.fold[0].block


@kernel
def takes_grant(m: MessageMachine, row: int, stream: int) -> None:
    """An NPU whose next chunk is a stream comes to a grant: had it come first, it might be another one."""
    if m.config[0].folded == 1:
        other = (
            m.messages[row].tag != m.streams[stream].tag or m.messages[row].bytes != m.streams[stream].phase
        )
        if other and m.meeting[row].put_block == m.fold[0].block:
            m.fold[0].tied = 1


@kernel(inline=False)
def enters(m: MessageMachine, npu: int, stream: int, came: int) -> None:
    """Without ports, a message of a chunk enters an NPU's memory, from another NPU (1) or its own (0)."""
    f = m.fold[npu]
    g = m.fold[0]
    operation = m.streams[stream].operation
    due_ns = m.queue[0].now + m.streams[stream].delay_ns
    both = f.entered_block == g.block and f.due_ns == due_ns and f.operation != operation
    if both and (came == 1 or f.came == 1):
        g.tied = 1
    f.entered_block = g.block
    f.due_ns = due_ns
    f.operation = operation
    f.came = came


@kernel
def _meets(m: MessageMachine, row: int) -> None:
    """A message has both arrived and been expected."""
    meeting = m.meeting[row]
    g = m.fold[0]
    if meeting.met_block == g.block and not _ordered(meeting.met_strand, g.strand):
        g.tied = 1


@kernel(inline=False)
def expects(m: MessageMachine, row: int) -> None:
    """A receive is posted."""
    if m.messages[row].sent == 2:
        _meets(m, row)
    m.meeting[row].met_block = m.fold[0].block
    m.meeting[row].met_strand = m.fold[0].strand


@kernel(inline=False)
def arrives(m: MessageMachine, row: int) -> None:
    """A message arrives."""
    message = m.messages[row]
    if message.posted == 0:
        expects(m, row)
        return
    _meets(m, row)
    if m.config[0].ports == 0 and message.receiver & _MASK == STREAM:
        stream = message.receiver >> KIND_BITS
        enters(m, m.streams[stream].npu, stream, 1)
