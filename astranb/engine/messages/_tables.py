"""The state of the system and workload layer as tables, and the numbers that stand in them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.jit import Records
from astranb.workload.astrasim2._kinds import *  # noqa: F403 - every number of an operation is one of the machine, too

# What an operation occupies: one of each at a time, receives nothing.
ON_CPU: Final = 0
ON_GPU: Final = 1
ON_WIRE: Final = 2
ON_NOTHING: Final = 3
PLACES: Final = 4

# What the network's queue holds: the low three bits of an event.
CALLS: Final = 0  # an NPU's appointments of this instant
HOP: Final = 1  # a message arrives at the next node
FREE: Final = 2  # a link is free again
LATE: Final = 3  # a receive that was posted after the message had come
KIND_BITS: Final = 3

# Who is told that a message has come: the low three bits of a handler.
NOBODY: Final = 0
STREAM: Final = 1
OPERATION: Final = 2
SENDING: Final = 3  # a send that waited for the receiver's leave (rendezvous)
RECEIVING: Final = 4
REDUCING: Final = 5  # a switch that waits for the chunks of all its NPUs

# What an NPU has an appointment for.
BUNDLE: Final = 0  # a message is in the memory of the endpoint
BUNDLE_REDUCED: Final = 1  # the same, and is to be reduced
DONE: Final = 2  # an operation is over
MEMORY_FREE: Final = 3  # a remote memory may serve the next
CUSTOM_DONE: Final = 4  # an operation of a collective's own graph is over
BUS_SENT: Final = 5  # a side of a shared bus has sent
BUS_RECEIVED: Final = 6  # a request has come to a side of it
SWITCH_DONE: Final = 8  # a switch has reduced a chunk
BUS_PROCESSED: Final = 7  # a request has been processed there

NATIVE_TAGS: Final = 500_000_000
"""Tags of messages of collectives begin here; those of sends and receives lie below."""
LEAVE_TAGS: Final = 1_000_000_000
"""Tags of the messages by which a receiver asks the sender to begin lie above."""
LEAVE_BYTES: Final = 8192

CONFIG = np.dtype(
    [
        ("npus", "i8"),
        ("splits", "i8"),
        ("endpoint_ns", "i8"),
        ("concurrent", "i8"),  # streams under way in one queue
        ("queues", "i8"),  # of one dimension
        ("baseline", "i8"),  # all-reduce in each dimension, instead of scatter and gather
        ("priority_step", "i8"),  # 1: LIFO, -1: FIFO, 0: as the operation says
        ("rendezvous", "i8"),
        ("aware", "i8"),
        ("routed", "i8"),  # 1: messages go over links of an infrastructure
        ("dims", "i8"),  # of collectives; the network may have others
        ("exact_chunks", "i8"),  # 1: as many chunks as asked for, the last one as large as what is left
        ("every_dim", "i8"),  # 1: a message pays for every dimension that it crosses
        ("inter", "i8"),  # in which order a chunk goes through the dimensions
        ("intra", "i8"),  # in which order chunks wait in a queue
        ("in_turn", "i8"),  # 1: all NPUs begin chunks of a dimension in one order
        ("max_phases", "i8"),
        ("local_group_ns", "i8"),
        ("folded", "i8"),  # 1: an NPU stands for all, and gets what it sends
        ("memory_shared_by", "i8"),  # NPUs of one remote memory, 0: each has its own
        ("reduce_Bps", "f8"),
        ("switch_ns", "i8"),  # what a switch takes to reduce a chunk
        ("bus", "i8"),  # 1: messages of collectives pass a shared bus, of these parameters
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
        ("caller", "i8"),  # the NPU whose appointments are under way
        ("head", "i8"),  # the first of them, and the next
        ("cursor", "i8"),
        ("finished", "i8"),  # NPUs
        ("free_call", "i8"),
        ("calls_left", "i8"),
        ("free_message", "i8"),
        ("messages_left", "i8"),
        ("free_stream", "i8"),
        ("streams_left", "i8"),
        ("messages", "i8"),  # that were sent
        ("bytes", "i8"),
        ("ended", "i8"),  # operations
        ("delivered", "i8"),  # messages
        ("phases", "i8"),  # of chunks, that are over
        ("lost", "i8"),  # 1 + source and target of a message that has no way
    ]
)

LIMITS = np.dtype(
    [
        ("steps", "i8"),
        ("margin", "i8"),
        ("streams", "i8"),
        ("closely", "i8"),  # 1: the following are looked at, and breakpoints are
        ("until_ns", "i8"),  # nothing later is handled
        ("turns", "i8"),  # the others: no more than so many of the clock's counts
        ("ended", "i8"),
        ("delivered", "i8"),
        ("phases", "i8"),
    ]
)

NPU = np.dtype(
    [
        ("calls", "i8"),  # appointments: the first row of each instant, a list
        ("next_stream", "i8"),
        ("priority", "i8"),
        ("ongoing", "i8"),
        ("ready", "i8"),
        ("compute_ns", "i8"),
        ("end_ns", "i8"),
        ("turn", "i8"),  # the dimension with which the next chunk begins, where they take turns
    ]
)

SCHEDULE = np.dtype(
    [
        ("order", "i8"),  # the dimension that a chunk goes through at this place
        ("nodes", "i8"),  # of the dimension of this number
        ("rate", "f8"),  # and its bandwidth
        ("dim", "i8"),  # whose load stands here
        ("load", "f8"),
        ("nodes_of_load", "i8"),
        ("links", "i8"),  # the first dimension of its links
    ]
)
"""The dimensions of collectives, and the order in which the chunk at hand goes through them."""

PLACE = np.dtype([("first", "i8"), ("ready", "i8"), ("busy", "i8")])
"""One of what an NPU's operations occupy: the heap of those ready for it."""

QUEUE = np.dtype([("head", "i8"), ("running", "i8"), ("turns", "i8")])
TURNS = np.dtype([("head", "i8"), ("tail", "i8"), ("first", "i8"), ("last", "i8")])
"""Turns of a queue of each NPU that have been decided on: rows, and their numbers."""

ALLOCATOR = np.dtype([("around", "i8"), ("first", "i8"), ("last", "i8")])
COUNTER = np.dtype([("value", "i8")])
GROUP = np.dtype([("first", "i8"), ("count", "i8")])

IMPLEMENTATION = np.dtype(
    [
        ("algorithm", "i8"),
        ("window", "i8"),  # messages at once, -1: all
        ("nodes", "i8"),  # NPUs of the logical dimension
        ("stride", "i8"),
    ]
)

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
        ("custom", "i8"),  # the first operation of the graph that replaces its algorithm, -1: none
        ("customs", "i8"),  # how many those are
        ("owner", "i8"),  # of such an operation: the collective, else -1
        ("stream", "i8"),  # of such a collective
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
        ("plain", "i8"),  # messages to come that are not reduced
        ("reduced", "i8"),  # messages after them that are, where the toggle stands so
        ("toggle", "i8"),
        ("delay_ns", "i8"),
        ("packet_bytes", "i8"),
        ("packet_peer", "i8"),
        ("distance", "i8"),
        ("doubling", "i8"),
        ("state", "i8"),
        ("parent", "i8"),
        ("left", "i8"),
        ("right", "i8"),
        ("node", "i8"),
        ("queued_ns", "i8"),  # when it came into its queue, and was let run
        ("begun_ns", "i8"),
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
        ("direction", "i8"),  # 0: the NPU has no part in it
        ("window", "i8"),  # of a collective with a root: its shape
        ("tree", "i8"),
    ]
)

CALL = np.dtype(
    [
        ("time", "i8"),
        ("kind", "i8"),
        ("arg", "i8"),
        ("bytes", "i8"),
        ("next", "i8"),
        ("later", "i8"),  # the first row of another instant
        ("tail", "i8"),
    ]
)

MESSAGE = np.dtype(
    [
        ("src", "i8"),
        ("dst", "i8"),
        ("tag", "i8"),
        ("bytes", "i8"),
        ("sent", "i8"),  # 1: under way, 2: arrived
        ("posted", "i8"),  # 1: the receive is posted
        ("sender", "i8"),  # handlers
        ("receiver", "i8"),
        ("next", "i8"),  # of its bucket, or of the unused rows
        ("behind", "i8"),  # the message that waits for the same link after it
        ("at", "i8"),  # NPU; on routes, links to come
        ("heading", "i8"),  # dimension and direction; on routes, the place in the list of links
    ]
)

BUCKET = np.dtype([("head", "i8"), ("tail", "i8")])

BUS = np.dtype(
    [
        ("state", "i8"),
        ("previous", "i8"),
        ("last_ns", "i8"),  # when it last ended a transfer
        ("reads", "i8"),  # transfers that it has begun in a row
        ("receiving", "i8"),  # requests on their way to it
        ("busy", "i8"),  # whether it processes one
    ]
)
"""One side of an NPU's shared bus, or of the bus to its memory."""


NOTES: Final = ("watch", "points", "passed", "traffic", "used")
"""The tables that are no part of the simulated state."""

FIXED: Final = ("config", "implementations", "groups", "members", "children")
"""Those that never change."""


class Machine(NamedTuple):
    """Everything simulated, and behind it what is noted of it."""

    config: Records
    clock: Records
    dims: Records
    implementations: Records
    npus: Records
    places: Records
    queues: Records
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
    calls: Records
    messages: Records
    buckets: Records
    links: Records
    ways: Records
    hops: Records
    wires: Records
    schedule: Records
    turns: Records
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
