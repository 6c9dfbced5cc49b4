"""The state of the system and workload layer as tables, and the numbers that stand in them.

Rows of chunks, messages, timers and events come and go: unused rows form a list, and
:func:`enlarge` replaces a full table by a longer one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.core.timesteps import PENDING, TIMESTEP, TIMESTEPS, bucket_of
from astranb.net import DIMENSION, MESSAGE_ROUTE, SERVER, WIRE
from astranb.workload.astrasim2.kinds import *  # noqa: F403 - every number of an operation is one of the machine, too

# What an operation occupies; an NPU has one of each, and a receive occupies nothing.
ON_CPU: Final = 0
ON_GPU: Final = 1
ON_WIRE: Final = 2
ON_BACKGROUND: Final = 3  # collectives that others do not wait for: a second stream
ON_NOTHING: Final = 4
PLACES: Final = 5

# What the network's queue holds: the low three bits of an event.
TIMERS: Final = 0  # an NPU's timers of this time expire
HOP: Final = 1  # a message arrives at the next node
FREE: Final = 2  # a link is free again
LATE: Final = 3  # a receive that was posted after the message had come
KIND_BITS: Final = 3

# What is notified when a message arrives: the low three bits of a handler.
NOBODY: Final = 0
STREAM: Final = 1
OPERATION: Final = 2
SENDING: Final = 3  # a send that waits until the receiver is ready (rendezvous)
RECEIVING: Final = 4
REDUCING: Final = 5  # a switch that waits for the chunks of all its NPUs

# What a timer of an NPU is for.
BUNDLE: Final = 0  # a message has passed the endpoint's memory
BUNDLE_REDUCED: Final = 1  # the same, and has to be reduced
DONE: Final = 2  # an operation ends
MEMORY_FREE: Final = 3  # a remote memory can serve the next operation
CUSTOM_DONE: Final = 4  # an operation of a custom collective ends
BUS_SENT: Final = 5  # a side of a shared bus has sent
BUS_RECEIVED: Final = 6  # a request arrives at a side of it
BUS_PROCESSED: Final = 7  # a request has been processed there
SWITCH_DONE: Final = 8  # a switch has reduced a chunk

AWAY_BITS: Final = 40
"""Lowest bit of the part of a tag that holds a message's distance or peer, if few NPUs represent all."""
NATIVE_TAGS: Final = 500_000_000
"""Tags of messages of collectives begin here; those of sends and receives are lower."""
CLEAR_TO_SEND_TAGS: Final = 1_000_000_000
"""Added to the tag of a message under rendezvous: the receiver's message that it is ready."""
CLEAR_TO_SEND_BYTES: Final = 8192

# What breakpoints and recordings are about.
NOTHING: Final = -1
BEGINS: Final = 0  # an operation
ENDS: Final = 1
SENT: Final = 2  # a message
DELIVERED: Final = 3
PHASE_BEGINS: Final = 4  # of a chunk
PHASE_ENDS: Final = 5

CONFIG = np.dtype(
    [
        ("npus", "i8"),
        ("splits", "i8"),
        ("endpoint_ns", "i8"),
        ("concurrent", "i8"),  # streams under way in one queue
        ("queues", "i8"),  # of one dimension and lane
        ("lanes", "i8"),  # 2: collectives in the background have queues of their own
        ("baseline", "i8"),  # all-reduce in each dimension, instead of scatter and gather
        ("priority_step", "i8"),  # 1: LIFO, -1: FIFO, 0: as the operation says
        ("rendezvous", "i8"),
        ("congestion", "i8"),  # 1: messages queue on links
        ("cut_through", "i8"),  # 1: with congestion, a message goes on before all of it has come
        ("ports", "i8"),  # of an NPU, without congestion; 0: it sends any number of messages at once
        ("routed", "i8"),  # 1: the network is an infrastructure with routes
        ("width", "i8"),  # ranks of each node of an infrastructure, else 1
        ("dims", "i8"),  # of collectives; the network may have others
        ("exact_chunks", "i8"),  # 1: as many chunks as given, the last one holds the rest
        ("every_dim", "i8"),  # 1: a message pays for every dimension that it crosses
        ("inter", "i8"),  # the order in which a chunk goes through the dimensions
        ("intra", "i8"),  # the order of chunks in a queue
        ("same_order", "i8"),  # 1: all NPUs begin the chunks of a dimension in the same order
        ("max_phases", "i8"),
        ("local_group_ns", "i8"),
        ("folded", "i8"),  # 1: few NPUs represent all, and receive what these would be sent
        ("memory_shared_by", "i8"),  # NPUs of one remote memory, 0: each has its own
        ("reduce_Bps", "f8"),
        ("switch_ns", "i8"),  # time for a switch to reduce a chunk
        ("bus", "i8"),  # 1: messages of collectives pass a shared bus with these parameters
        ("bus_L", "i8"),
        ("bus_o", "i8"),
        ("bus_g", "i8"),
        ("bus_G", "f8"),
        ("bus_reduce_ns", "i8"),  # for 100 bytes
    ]
)

CLOCK = np.dtype(
    [
        ("steps", "i8"),  # events handled
        ("fired", "i8"),  # NPUs whose first operations have been issued
        ("timer_npu", "i8"),  # the NPU whose timers expire now
        ("head", "i8"),  # the first of them, and the next (-1: none)
        ("cursor", "i8"),
        ("finished", "i8"),  # NPUs
        ("free_timer", "i8"),
        ("timers_left", "i8"),
        ("free_message", "i8"),
        ("messages_left", "i8"),
        ("free_stream", "i8"),
        ("streams_left", "i8"),
        ("messages", "i8"),  # messages sent
        ("bytes", "i8"),
        ("ended", "i8"),  # operations
        ("delivered", "i8"),  # messages
        ("phases", "i8"),  # of chunks, that have ended
        ("no_route", "i8"),  # 1 + source and target of a message without a route
    ]
)

LIMITS = np.dtype(
    [
        ("steps", "i8"),
        ("margin", "i8"),
        ("streams", "i8"),
        ("closely", "i8"),  # 1: the following limits and breakpoints are checked at each event
        ("until_ns", "i8"),  # the last time that is handled
        ("turns", "i8"),  # limits of the clock's counts: timesteps, and so on
        ("ended", "i8"),
        ("delivered", "i8"),
        ("phases", "i8"),
    ]
)

NPU = np.dtype(
    [
        ("timers", "i8"),  # a list: the first timer of each time
        ("next_stream", "i8"),  # number of the next chunk of all NPUs, and of the next in the background
        ("next_background", "i8"),
        ("priority", "i8"),
        ("ongoing", "i8"),
        ("ready", "i8"),
        ("compute_ns", "i8"),
        ("end_ns", "i8"),
        ("first_dim", "i8"),  # of the next chunk, where the dimensions go round robin
        ("node", "i8"),  # of an infrastructure
    ]
)

SCHEDULE = np.dtype(
    [
        ("order", "i8"),  # the dimension that a chunk goes through at this position
        ("nodes", "i8"),  # of the dimension with this row's number
        ("rate", "f8"),  # and its bandwidth
        ("dim", "i8"),  # whose load this row holds
        ("load", "f8"),
        ("nodes_of_load", "i8"),
        ("links", "i8"),  # the first dimension of its links
    ]
)
"""The dimensions of collectives, and the order in which the chunk at hand goes through them."""

PLACE = np.dtype([("first", "i8"), ("ready", "i8"), ("busy", "i8")])
"""One of what an NPU's operations occupy, and the heap of operations ready for it."""

QUEUE = np.dtype([("head", "i8"), ("running", "i8"), ("granted", "i8")])
TAIL = np.dtype([("value", "i8"), ("newest", "i8")])
"""The last stream of a queue, and the one that was queued last by its priority; -1 for none."""

GRANTS = np.dtype([("head", "i8"), ("tail", "i8"), ("first", "i8"), ("last", "i8")])
"""The order in which all NPUs begin the chunks of a queue: a list of grants, and their numbers."""

ALLOCATOR = np.dtype([("around", "i8"), ("first", "i8"), ("last", "i8")])
COUNTER = np.dtype([("value", "i8")])
GROUP = np.dtype(
    [
        ("first", "i8"),  # of its ranks in the list of members
        ("count", "i8"),
        ("outer", "i8"),  # the last dimension in which its ranks differ
        ("rails", "i8"),  # how many in a row share a place in it, whose ports a ring uses alike
        ("chain", "i8"),  # how many in a row a tree joins in a chain
        ("width", "i8"),  # how many in a row share a node of an infrastructure; 1: not equally many
    ]
)
"""Ranks of a collective."""

PORT = np.dtype([("free_ns", "f8")])
"""Port through which an NPU's messages leave or arrive one after another: the time at which it is free."""

IMPLEMENTATION = np.dtype(
    [
        ("algorithm", "i8"),
        ("window", "i8"),  # messages in flight, -1: all
        ("nodes", "i8"),  # NPUs of the logical dimension
        ("stride", "i8"),
    ]
)

COST = np.dtype(
    [
        ("algorithm", "i8"),
        ("window", "i8"),
        ("pieces", "i8"),  # chunks of each ring or tree
        ("begin_ns", "i8"),  # before the first message
        ("gap_ns", "i8"),  # between chunks
        ("near_ns", "i8"),  # of a message within a node
        ("far_ns", "i8"),  # to another node
    ]
)
"""Time of a library's software in a collective (library_costs.py)."""

OPERATION_ROW = np.dtype(
    [
        ("npu", "i8"),
        ("kind", "i8"),
        ("place", "i8"),
        ("duration_ns", "i8"),
        ("bytes", "i8"),
        ("peer", "i8"),  # of a collective: its root
        ("tag", "i8"),
        ("collective", "i8"),
        ("group", "i8"),  # -1: all NPUs
        ("ring", "i8"),  # the group of the first of its rings, whose chunks take them in turn (channels.py)
        ("rings", "i8"),
        ("cost", "i8"),  # what a library's software adds (library_costs.py), -1: nothing
        ("involved", "i8"),  # a bit for each dimension
        ("priority", "i8"),
        ("waits", "i8"),  # operations that it waits for
        ("first_child", "i8"),
        ("children", "i8"),
        ("streams", "i8"),
        ("streams_done", "i8"),
        ("start_ns", "i8"),
        ("end_ns", "i8"),
        ("next", "i8"),  # in a remote memory's queue
        ("custom", "i8"),  # the first operation of a custom collective, -1: none
        ("customs", "i8"),  # the number of its operations
        ("owner", "i8"),  # of such an operation: the collective, else -1
        ("stream", "i8"),  # of a custom collective
    ]
)

STREAM_ROW = np.dtype(
    [
        ("npu", "i8"),
        ("tag", "i8"),
        ("operation", "i8"),
        ("priority", "i8"),
        ("phase", "i8"),
        ("phases", "i8"),
        ("queue", "i8"),  # -1: none yet
        ("running", "i8"),
        ("largest", "i8"),  # bytes of the phase by which it is queued
        ("before", "i8"),
        ("next", "i8"),
        # The phase under way.
        ("algorithm", "i8"),
        ("collective", "i8"),
        ("nodes", "i8"),
        ("index", "i8"),
        ("origin", "i8"),
        ("stride", "i8"),
        ("group", "i8"),
        ("direction", "i8"),
        ("message_bytes", "i8"),
        ("to_send", "i8"),
        ("inserted", "i8"),
        ("sent", "i8"),
        ("free", "i8"),
        ("received", "i8"),
        ("window", "i8"),
        ("plain", "i8"),  # following messages that are not reduced
        ("reduced", "i8"),  # messages after them that are, depending on the toggle
        ("toggle", "i8"),
        ("delay_ns", "i8"),  # of a message in the endpoint's memory
        ("begin_ns", "i8"),  # of the first one of a collective with a cost
        ("cost", "i8"),  # -1: none
        ("packet_bytes", "i8"),
        ("packet_peer", "i8"),
        ("distance", "i8"),
        ("doubling", "i8"),
        ("state", "i8"),
        ("parent", "i8"),
        ("left", "i8"),
        ("right", "i8"),
        ("node", "i8"),
        ("queued_ns", "i8"),  # when it entered its queue, and when it began to run
        ("begun_ns", "i8"),
        ("block", "i8"),  # of a folded run (ties.py): of the event by which it went on last, or goes on late
        ("strand", "i8"),
    ]
)

PHASE = np.dtype(
    [
        ("algorithm", "i8"),
        ("collective", "i8"),
        ("nodes", "i8"),
        ("stride", "i8"),
        ("group", "i8"),
        ("bytes", "i8"),
        ("queue", "i8"),
        ("direction", "i8"),  # 0: the NPU takes no part in it
        ("window", "i8"),  # of a collective with a root: its shape
        ("tree", "i8"),
    ]
)

TIMER = np.dtype(
    [
        ("time", "i8"),
        ("kind", "i8"),
        ("arg", "i8"),
        ("bytes", "i8"),
        ("next", "i8"),
        ("later", "i8"),  # the first timer of another time
        ("tail", "i8"),
        ("block", "i8"),  # of a folded run (ties.py): of the event that set it
        ("strand", "i8"),
    ]
)
"""A scheduled callback of an NPU; those of one time form a list."""

MESSAGE = np.dtype(
    [
        ("src", "i8"),
        ("dst", "i8"),
        ("tag", "i8"),
        ("bytes", "i8"),
        ("sent", "i8"),  # 1: in flight, 2: arrived
        ("posted", "i8"),  # 1: the receive is posted
        ("sender", "i8"),  # handlers
        ("receiver", "i8"),
        ("next", "i8"),  # of its bucket, or of the unused rows
        ("behind", "i8"),  # the next message that waits for the same link
        ("at", "i8"),  # NPU; on routes, the number of links ahead; without congestion, the rank or route
        # Dimension and direction; on routes, the position in the list of links; without congestion
        # 1 where a message waits for a port of its target.
        ("heading", "i8"),
        ("first_ns", "i8"),  # when its first byte could come to the node, without congestion to the target
        ("last_ns", "i8"),  # with congestion when its last one does
        ("late_ns", "i8"),  # in a library's software after the links; -1: that is over
        # Where links are shared, a message goes in quanta, and has a row at each link for those that pass it:
        ("whole", "i8"),  # the message, -1: it is one itself, NO_MESSAGE: it goes by another route now
        ("came", "i8"),  # bytes that have come to the link; of the message itself: to its target
        ("gone", "i8"),  # that it has taken
        ("crossed", "i8"),  # that have crossed it
        ("onward", "i8"),  # the row at the next link, -1: nothing has come there
        ("ahead_ns", "i8"),  # from when a quantum goes on back to when its first byte would have come there
        ("spread_ns", "i8"),  # and to when its last one comes
        ("turn", "i8"),  # at the link: those with lower numbers come first
    ]
)

NO_MESSAGE: Final = -2

PACKET_BYTES: Final = 1 << 12
"""Least size of a quantum: shorter messages go as a whole."""

BUCKET = np.dtype([("head", "i8"), ("tail", "i8")])

BUS = np.dtype(
    [
        ("state", "i8"),
        ("previous", "i8"),
        ("last_ns", "i8"),  # end of its last transfer
        ("reads", "i8"),  # transfers that it has begun in a row
        ("receiving", "i8"),  # requests in flight to it
        ("busy", "i8"),  # whether it processes one
    ]
)
"""One side of an NPU's shared bus, or of the bus to its memory."""


FOLDED = np.dtype(
    [
        ("rank", "i8"),  # of the NPU with this row's number
        ("npu", "i8"),  # that represents the rank with this row's number
        ("list_strand", "i8"),  # of its timers of this time, and of which block and event the first were set
        ("set_block", "i8"),
        ("set_strand", "i8"),
        ("entered_block", "i8"),  # where a message entered its memory last,
        ("due_ns", "i8"),  # when it is through, of which operation it is, and whether it came from another
        ("operation", "i8"),
        ("came", "i8"),
        # In the first row: 1 where something depends on an order that may not be the same for all; and
        # the block and the strand of the event at hand.
        ("tied", "i8"),
        ("block", "i8"),
        ("strand", "i8"),
        ("set", "i8"),  # of a timer: of which block is the event that set it
        ("arrival", "i8"),  # its strand at the target of a message while it goes on at the sender
        ("put_block", "i8"),  # which block put it into the queue
        ("at_ns", "i8"),  # its time, and the first event of that time
        ("since", "i8"),
    ]
)
"""NPUs that represent others."""

WATCH = np.dtype(
    [
        ("noting", "i8"),  # 1: handlers report what happens, to the recording or to breakpoints
        ("recording", "i8"),
        ("points", "i8"),  # breakpoints
        ("hit", "i8"),  # the first breakpoint that the event has hit, -1
        ("passed", "i8"),  # phases of chunks recorded so far
        ("what", "i8"),  # what was reported last, of which NPU and operation, with which other NPU
        ("npu", "i8"),
        ("operation", "i8"),
        ("other", "i8"),
        ("step", "i8"),  # at which event
        ("flights", "i8"),  # messages recorded so far, with congestion once for each link
        ("sending", "i8"),  # the operation of the message that is sent next, and of which phase of its
        ("sent_phase", "i8"),  # chunk it is (0: no chunk), and how many of the phase it is (0: not counted)
        ("sent_step", "i8"),
    ]
)
"""Observation of a run: not part of the simulated state."""

POINT = np.dtype(
    [
        ("what", "i8"),  # NOTHING: a condition
        ("npu", "i8"),  # -1: any, and so on
        ("operation", "i8"),
        ("kind", "i8"),  # of the operation
        ("dim", "i8"),
        ("owner", "i8"),  # of a condition: 0 npus, 1 operations, 2 queues
        ("place", "i8"),  # the index of the word in that table
        ("relation", "i8"),  # < <= == != >= >
        ("value", "i8"),
        ("was", "i8"),  # whether the condition was true
    ]
)
"""A breakpoint."""

PASSED = np.dtype(
    [
        ("npu", "i8"),
        ("operation", "i8"),
        ("tag", "i8"),
        ("phase", "i8"),  # from 1
        ("dim", "i8"),
        ("algorithm", "i8"),
        ("collective", "i8"),
        ("queued_ns", "i8"),
        ("begun_ns", "i8"),
        ("end_ns", "i8"),
    ]
)
"""A phase of a chunk that has ended, in a ring buffer."""

TRAFFIC = np.dtype([("messages", "i8"), ("bytes", "i8"), ("crossed", "i8")])
"""Traffic of an NPU in a dimension; ``crossed`` counts bytes once per link."""

USED = np.dtype([("messages", "i8"), ("bytes", "i8"), ("busy_ns", "i8")])
"""Traffic of a link, in a network with congestion."""

MOVING = np.dtype(
    [("operation", "i8"), ("phase", "i8"), ("step", "i8"), ("queued_ns", "i8"), ("flight", "i8")]
)
"""A message under way, in the row of its number: what it belongs to, when it came to its link, and
where its flight is recorded (-1: nowhere)."""

TIE = np.dtype(
    [
        ("put_block", "i8"),  # of the event that put its arrival into the event queue
        ("put_strand", "i8"),
        ("met_block", "i8"),  # of that by which it arrived or was expected, whichever was first
    ]
)
"""A message or a grant of a folded run, in the row of its number."""

LAST_USE = np.dtype(
    [
        ("block", "i8"),  # of the event by which something was used last; of a queue, by which chunks came
        ("strand", "i8"),
        ("set", "i8"),  # of a timer: of which block is the event that set it
        ("left", "i8"),  # of a queue: the strand of events by which chunks left
        ("ahead", "i8"),  # of a queue: 1 if a chunk came before others that wait
        ("begun", "i8"),  # 1 if a chunk began as another one left
    ]
)
"""Latest uses of a port, a queue, a chunk or a message in a folded run (ties.py)."""

FLIGHT = np.dtype(
    [
        ("number", "i8"),  # of this row: another one than its place implies where it has been overwritten
        (
            "link",
            "i8",
        ),  # with congestion; ALL_LINKS: from src to dst; below that: one link, ONE_LINK - heading
        ("route", "i8"),  # over an infrastructure, without congestion; else -1
        ("src", "i8"),
        ("dst", "i8"),
        ("tag", "i8"),
        ("bytes", "i8"),
        ("operation", "i8"),
        ("phase", "i8"),
        ("step", "i8"),
        ("queued_ns", "i8"),
        ("start_ns", "i8"),
        ("end_ns", "i8"),
    ]
)
"""A message that crosses a link, or, without congestion, all its links, in a ring buffer."""

ALL_LINKS: Final = -1
ONE_LINK: Final = -2

RECORDED: Final = (
    "watch",
    "points",
    "passed",
    "traffic",
    "used",
    "moving",
    "flights",
    "drawn",
    "fold",
    "meeting",
    "last_use",
)
"""The tables that are not part of the simulated state."""

FIXED: Final = ("config", "implementations", "costs", "groups", "members", "children")
"""The tables that never change."""


class MessageMachine(NamedTuple):
    """Everything simulated, and behind it what is recorded of it."""

    config: Records
    clock: Records
    dims: Records
    implementations: Records
    costs: Records
    npus: Records
    places: Records
    queues: Records
    tails: Records  # of each queue; they save searches, and change no result
    allocators: Records
    trees: Records
    groups: Records
    members: Records
    group_streams: Records
    operations: Records
    children: Records
    ready: Records
    memories: Records
    streams: Records
    phases: Records
    timers: Records
    messages: Records
    buckets: Records
    links: Records
    ports: Records  # of each NPU: out, then in
    routes: Records
    hops: Records
    wires: Records
    schedule: Records
    grants: Records
    bus: Records
    bus_lists: Records
    queue: Records
    timesteps: Records
    pending: Records
    watch: Records
    points: Records
    passed: Records
    traffic: Records
    used: Records
    moving: Records
    flights: Records
    drawn: Records  # of each rank: 1 where messages that it sends or gets are recorded
    fold: Records  # of a run in which few NPUs represent all; else one row
    meeting: Records  # of such a run, as many as messages
    last_use: Records  # of such a run: of each port, queue and NPU


DTYPES: Final[dict[str, np.dtype]] = dict(
    zip(MessageMachine._fields, (
        CONFIG, CLOCK, DIMENSION, IMPLEMENTATION, COST, NPU, PLACE, QUEUE, TAIL, ALLOCATOR, COUNTER, GROUP,
        COUNTER, COUNTER, OPERATION_ROW, COUNTER, COUNTER, QUEUE, STREAM_ROW, PHASE, TIMER, MESSAGE, BUCKET,
        SERVER, PORT, MESSAGE_ROUTE, COUNTER, WIRE, SCHEDULE, GRANTS, BUS, BUCKET, TIMESTEPS, TIMESTEP,
        PENDING, WATCH, POINT, PASSED, TRAFFIC, USED, MOVING, FLIGHT, COUNTER, FOLDED, TIE, LAST_USE,
    ), strict=True)
)  # fmt: skip
"""The dtype of each table of the machine."""


def _chain(rows: Records, first: int) -> None:
    """Join the rows from the first one on in a list."""
    rows["next"][first:] = np.arange(first + 1, len(rows) + 1)


def chain_free_rows(m: MessageMachine) -> MessageMachine:
    """Declare all rows of the tables unused whose rows come and go."""
    for rows in (m.timers, m.messages, m.streams, m.pending, m.timesteps):
        _chain(rows, 0)
    m.clock.timers_left, m.clock.messages_left = len(m.timers), len(m.messages)
    m.clock.streams_left, m.queue.events_left = len(m.streams), len(m.pending)
    return m


def _longer(rows: Records, count: int, free: int) -> tuple[Records, int]:
    """Copy a table into a longer one; returns it and its first unused row, the new rows first."""
    old = len(rows)
    new = allocate(count, rows.dtype)
    new[:old] = rows
    _chain(new, old)
    new[count - 1].next = free
    return new, old


def _refill(timesteps: Records, heaped: int, opened: int) -> None:
    """Put the pending timesteps into the buckets again, whose number has changed."""
    timesteps.bucket = -1
    rows = [int(row) for row in timesteps.heap[:heaped]] + ([opened] if opened >= 0 else [])
    for row in rows:
        bucket = bucket_of(int(timesteps[row].time), len(timesteps))
        timesteps[row].next = timesteps[bucket].bucket
        timesteps[bucket].bucket = row


def enlarge(m: MessageMachine, margin: int, streams: int) -> MessageMachine:
    """Enlarge the tables that are full.

    Parameters
    ----------
    m : MessageMachine
    margin, streams : int
        The least number of unused rows that each table, and the table of streams, must have.

    Returns
    -------
    MessageMachine
        With longer tables; the others are the same.
    """
    clock, queue = m.clock[0], m.queue[0]
    changed: dict[str, Records] = {}
    along = {name: len(getattr(m, name)) == len(m.messages) for name in ("moving", "meeting")}
    for name, least in (("timers", margin), ("messages", margin), ("streams", streams)):
        rows, left, free = getattr(m, name), f"{name}_left", f"free_{name[:-1]}"
        if clock[left] < least:
            count = 2 * len(rows) + least
            changed[name], clock[free] = _longer(rows, count, clock[free])
            clock[left] += count - len(rows)
    if "streams" in changed:
        changed["phases"] = allocate(len(changed["streams"]) * int(m.config[0].max_phases), PHASE)
        changed["phases"][: len(m.phases)] = m.phases
    for name, grows in along.items():
        if grows and "messages" in changed:
            old = getattr(m, name)
            changed[name] = allocate(len(changed["messages"]), old.dtype)
            changed[name][: len(old)] = old
    if queue.events_left < 2 * margin:
        count = 1 << (2 * len(m.pending) + 2 * margin - 1).bit_length()
        changed["pending"], queue.free_event = _longer(m.pending, count, queue.free_event)
        queue.events_left += count - len(m.pending)
        changed["timesteps"], queue.free_timestep = _longer(m.timesteps, count, queue.free_timestep)
        _refill(changed["timesteps"], int(queue.heaped), int(queue.open))
    return m._replace(**changed)


def in_use(m: MessageMachine, name: str) -> np.ndarray:
    """Return the rows of the timers, messages or streams that are in no list of unused rows."""
    rows, clock = getattr(m, name), m.clock[0]
    used, following, free = np.ones(len(rows), bool), rows.next.tolist(), int(clock[f"free_{name[:-1]}"])
    for _ in range(int(clock[f"{name}_left"])):
        used[free] = False
        free = following[free]
    return np.flatnonzero(used)


def events_of(m: MessageMachine) -> np.ndarray:
    """Return the pending events, each with its time, in the order in which they will be handled."""
    queue, timesteps = m.queue[0], m.timesteps
    rows = timesteps.heap[: int(queue.heaped)].tolist()
    if queue.open >= 0:
        rows.append(int(queue.open))
    found = []
    for row in sorted(rows, key=lambda one: int(timesteps.time[one])):
        event = int(timesteps[row].head)
        while event >= 0:
            found.append((int(timesteps[row].time), int(m.pending[event].what)))
            event = int(m.pending[event].next)
    return np.array(found, np.int64).reshape(-1, 2)


def simulated(m: MessageMachine) -> dict[str, np.ndarray]:
    """Return everything simulated: without what is recorded, unused rows, capacities and scratch values.

    Two runs are in the same state where these arrays are equal.
    """
    state: dict[str, np.ndarray] = m._asdict()
    scratch = ["timer_npu", "head"] if m.clock[0].cursor < 0 else []
    for name in (*RECORDED, "timesteps", "pending", "tails"):
        del state[name]
    for name in ("timers", "messages", "streams"):
        used = in_use(m, name)
        state[name], state[f"{name} in use"] = state[name][used], used
        scratch += [f"free_{name[:-1]}", f"{name}_left"]
    width = int(m.config[0].max_phases)
    state["phases"] = m.phases.reshape(-1, width)[state["streams in use"]].reshape(-1)
    state["clock"] = m.clock.copy()
    for name in scratch:
        state["clock"][name] = 0
    state["queue"], state["events"] = np.array([m.queue[0].now, m.queue[0].turns]), events_of(m)
    # Of a heap of ready operations only its first rows are in use.
    counts = m.places.ready
    starts = np.repeat(m.places["first"] - np.cumsum(counts) + counts, counts)
    state["ready"] = m.ready[starts + np.arange(len(starts))]
    state["grants"] = m.grants.copy()
    for name in ("head", "tail"):
        state["grants"][name][m.grants["first"] == m.grants["last"]] = 0
    state["schedule"] = np.stack([np.asarray(m.schedule[name], float) for name in ("nodes", "rate", "links")])
    return state
