"""Ties in a folded run: what happens at one time in an order that may not be the same for all ranks.

A folded run promises the times, bytes and tables of all ranks. Where ranks handle events of one time in
another order, and the order matters, they may differ: the folded run is given up, all ranks are simulated.

Events at one time are handled in the order in which they were put into the queue. In a run of all ranks each
event of the folded run happens once for each rank of a class. Events that are put into the queue by one event
for all ranks, at one time and for one time, form a **block**, and so do those that a block puts there. Blocks
follow one another as in the folded run; within a block, events of the ranks are mixed: in a ring one rank
gets its message from a rank that is handled before it, and another from one that is handled after it.

A **strand** names how an event came about: it hashes the strand of the event that put it into the queue, and
the way from there (a timer, a late receive, a message of one NPU over one distance). Two events of an NPU, a
block and a strand come, on each rank of the class, from one other rank, back to the start: they are in the
same order on all ranks. Timers of an NPU and a time are handled one after another, in the order in which they
were set: those that were set in different blocks are one strand, too. So are the messages of a chunk that
several NPUs send: whichever is first does the same.

Where events of one block and of different strands use the same thing, which of them is first could make a
difference. Things are a port, a queue of chunks, an NPU's collectives, a chunk (if one event is a message and
the other a timer), and a message, which arrives and is expected. Among classes it is a grant: which chunk is
begun next (:mod:`.scheduling`). Chunks that come to a full queue make none where their size or priority, not
who comes first, decides which is ahead.

What is put into the queue for the time at hand comes behind everything else, and is taken for one block.
Without ports chunks of one operation are alike; there messages of two operations that enter an NPU's memory
at one time, and leave it at one time, are a tie.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from .tables import (
    AWAY_BITS,
    CLEAR_TO_SEND_TAGS,
    KIND_BITS,
    NATIVE_TAGS,
    STREAM,
    MessageMachine,
)

__all__ = [
    "arrives",
    "at_sender",
    "at_target",
    "begins",
    "enters",
    "enters_queue",
    "expects",
    "grants",
    "has_begun",
    "leaves_queue",
    "posts_late",
    "puts",
    "scheduled",
    "scheduled_late",
    "scheduled_message",
    "scheduled_timer",
    "takes_grant",
    "uses_collectives",
    "uses_port",
    "uses_stream",
]

_MASK: Final = (1 << KIND_BITS) - 1
_TAGS: Final = (1 << AWAY_BITS) - 1
_CHUNKS_OF_GROUP: Final = 1_000_000
_PEERS: Final = 4095
_NOW: Final = -2  # the block of all that was put into the queue for the time at hand
_NONE: Final = -3  # the strand of nothing
_MIXED: Final = -1  # several strands

# Ways from the event that puts another one into the queue; those of messages are greater.
_TIMER: Final = 1
_LATE: Final = 2
_WAITED: Final = 3  # a message that has waited for a port
_SENT: Final = 4  # a message that has arrived, at its sender
_ALONE: Final = 5  # of a strand of its own
_MESSAGE: Final = 1 << 20

# What strands begin with, by what numbers them: numbers of one kind never meet those of another.
_OF_NPU: Final = 0x137CFC5890466101
_OF_STEP: Final = 0x1B76FE37B6790C03
_OF_CHUNK: Final = 0x1100B17309D541C3
_OF_BEGIN: Final = 0x1C365C0B99704147  # of a step in which a chunk begins
_LOW: Final = 0x7FFFFFFF
_WORD: Final = (1 << 62) - 1


@kernel
def _strand(before: int, way: int) -> int:
    """Hash a strand and the way from it (62 bits)."""
    mixed = ((before ^ way) & _LOW) * 0x5BD1E995 + (((before >> 31) ^ (way >> 31)) & _LOW) * 0x2545F491
    return int((mixed ^ (mixed >> 29)) & _WORD)


@kernel(inline=False)
def _place(m: MessageMachine, put_block: int, strand: int, set_block: int) -> None:
    """Set the block and the strand of the event at hand, which another block has put into the queue."""
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
    f.strand = strand
    f.set = set_block


@kernel
def scheduled(m: MessageMachine, npu: int) -> None:
    """Place the event at hand: the start of an NPU."""
    if m.config[0].folded == 1:
        _place(m, -1, _strand(_OF_NPU, npu), _NONE)


@kernel
def posts_late(m: MessageMachine, handler: int) -> None:
    """A receive is posted whose message is there: it is handled behind those posted before."""
    if handler & _MASK == STREAM and m.streams[handler >> KIND_BITS].window == 1:
        m.streams[handler >> KIND_BITS].strand = _strand(m.fold[0].strand, _LATE)


@kernel
def scheduled_late(m: MessageMachine, handler: int) -> None:
    """Place the receive at hand, which was posted late, at this time."""
    if m.config[0].folded == 1:
        strand = _strand(_OF_STEP, m.clock[0].steps)
        if handler & _MASK == STREAM:
            strand = m.streams[handler >> KIND_BITS].strand
        _place(m, m.clock[0].steps, strand, _NONE)


@kernel(inline=False)
def _place_timer(m: MessageMachine, npu: int, head: int, row: int) -> None:
    """Place a timer, one of a list that was put into the queue with its first one."""
    f = m.fold[npu]
    timer = m.timers[row]
    strand = _strand(_strand(timer.strand, timer.block), _TIMER)
    if row == head:
        f.list_strand = strand
    if row == head or timer.block != f.set_block:
        f.set_block = timer.block
        f.set_strand = timer.strand
    if timer.strand == f.set_strand:
        strand = f.list_strand
    _place(m, m.timers[head].block, strand, timer.block)


@kernel
def scheduled_timer(m: MessageMachine, npu: int, head: int, row: int) -> None:
    """Place the timer at hand."""
    if m.config[0].folded == 1:
        _place_timer(m, npu, head, row)


@kernel
def _way(m: MessageMachine, row: int) -> int:
    """Return the way of a message to its target.

    Where two messages of a strand have the same way, each rank of the target's class gets both from one rank.
    """
    message = m.messages[row]
    tag = message.tag & _TAGS
    group = tag // _CHUNKS_OF_GROUP
    if message.heading == 1:
        return _WAITED
    if m.config[0].ports == 0 or tag >= CLEAR_TO_SEND_TAGS:
        return _ALONE
    if tag < NATIVE_TAGS:
        group = _PEERS
    return int(_MESSAGE + (((message.at << 12) + group) << 20) + (message.tag >> AWAY_BITS))


@kernel(inline=False)
def _place_message(m: MessageMachine, row: int) -> None:
    """Place the arrival of a message."""
    way = _way(m, row)
    if way == _ALONE:
        strand = _strand(_OF_STEP, m.clock[0].steps)
    else:
        strand = _strand(_strand(m.meeting[row].put_strand, m.messages[row].src), way)
    _place(m, m.meeting[row].put_block, strand, _NONE)


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
        m.fold[0].strand = _strand(m.fold[0].arrival, _SENT)


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
    in_turn = u.set != _NONE and g.set != _NONE and u.set != g.set  # timers of one list
    if u.block == g.block and u.strand != g.strand and not in_turn:
        g.tied = 1
    u.block = g.block
    u.strand = g.strand
    u.set = g.set


@kernel
def uses_port(m: MessageMachine, port: int) -> None:
    """A message leaves, or comes in, by a port."""
    if m.config[0].folded == 1:
        _uses(m, port)


@kernel
def uses_collectives(m: MessageMachine, npu: int) -> None:
    """An NPU begins a collective, or ends an operation."""
    if m.config[0].folded == 1 and m.config[0].ports > 0:
        _uses(m, len(m.ports) + len(m.queues) + npu)


@kernel(inline=False)
def _queue(m: MessageMachine, queue: int) -> int:
    """Return the row of a queue's uses, those of the block at hand."""
    row = len(m.ports) + queue
    u = m.last_use[row]
    if u.block != m.fold[0].block:
        u.block = m.fold[0].block
        u.strand = u.left = _NONE
        u.ahead = u.begun = 0
    return row


@kernel(inline=False)
def _enters_queue(m: MessageMachine, queue: int, ahead: int, waits: int) -> None:
    u = m.last_use[_queue(m, queue)]
    g = m.fold[0]
    u.ahead = max(u.ahead, ahead)
    if ahead == 1 and u.left != _NONE and u.left != g.strand:
        g.tied = 1
    if u.strand == _NONE or u.strand == g.strand:
        u.strand = g.strand
        return
    if waits == 0 or u.left != _NONE:
        g.tied = 1
    u.strand = _MIXED


@kernel(inline=False)
def _leaves_queue(m: MessageMachine, queue: int) -> None:
    u = m.last_use[_queue(m, queue)]
    g = m.fold[0]
    if u.strand == _MIXED or (u.ahead == 1 and u.strand != g.strand):
        g.tied = 1
    if u.left == _NONE or u.left == g.strand:
        u.left = g.strand
        return
    if u.begun == 1:
        g.tied = 1
    u.left = _MIXED


@kernel
def enters_queue(m: MessageMachine, queue: int, ahead: int, waits: int) -> None:
    """A chunk comes into a queue.

    Parameters
    ----------
    m : MessageMachine
    queue : int
    ahead : int
        1 if it is ahead of others that wait, or have waited before this block. Behind them it may come before
        or after others leave: the same chunks begin.
    waits : int
        1 if it waits, in the same place as if it had come before others of this time.
    """
    if m.config[0].folded == 1 and m.config[0].ports > 0:
        _enters_queue(m, queue, ahead, waits)


@kernel
def leaves_queue(m: MessageMachine, queue: int) -> None:
    """A chunk leaves a queue; where it lets another one begin, no other may leave."""
    if m.config[0].folded == 1 and m.config[0].ports > 0:
        _leaves_queue(m, queue)


@kernel(inline=False)
def _begins(m: MessageMachine, queue: int, stream: int) -> None:
    u = m.last_use[_queue(m, queue)]
    g = m.fold[0]
    if u.strand == _NONE or m.streams[stream].queued_ns != m.queue[0].now:
        u.begun = 1
    elif u.left != _NONE and (u.left != u.strand or u.left == _MIXED):
        g.strand = _strand(_strand(_OF_BEGIN, m.clock[0].steps), stream)
        g.set = _NONE


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
def uses_stream(m: MessageMachine, stream: int, message: int) -> None:
    """A chunk goes on: by a message that it has got (1), or by a timer (0).

    Those of a chunk that sends one message after another take turns.
    """
    if m.config[0].folded == 1 and m.config[0].ports > 0 and m.streams[stream].window > 1:
        s = m.streams[stream]
        g = m.fold[0]
        if message == 1:
            g.strand = _strand(_OF_CHUNK, stream)
        if s.block == g.block and s.strand != g.strand:
            g.tied = 1
        s.block = g.block
        s.strand = g.strand


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


@kernel(inline=False)
def expects(m: MessageMachine, row: int) -> None:
    """A receive is posted, or a message arrives: which of the two is first is chance in one block."""
    meeting = m.meeting[row]
    message = m.messages[row]
    if (message.sent == 2 or message.posted == 1) and meeting.met_block == m.fold[0].block:
        m.fold[0].tied = 1
    meeting.met_block = m.fold[0].block


@kernel(inline=False)
def arrives(m: MessageMachine, row: int) -> None:
    """A message arrives."""
    expects(m, row)
    message = m.messages[row]
    if message.posted == 1 and m.config[0].ports == 0 and message.receiver & _MASK == STREAM:
        stream = message.receiver >> KIND_BITS
        enters(m, m.streams[stream].npu, stream, 1)
