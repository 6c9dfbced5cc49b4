"""The records of the GPU machine: who owns which fields, and what each field means.

Everything simulated about GPUs is in arrays of these dtypes. All fields of the owners
that a breakpoint may read (GPU, SM, BLOCK, SEMAPHORE) are int64, so that a condition
compiles to an index into the same memory.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.jit import Records
from astranb.core.queue import EventQueue

# Event kinds: what the argument of the event is.
LAUNCH: Final = 0  # block: a thread block begins on its SM
ISSUE: Final = 1  # sm: an SM issues one instruction of one ready warp
HOP: Final = 2  # request: a line reaches the entrance of a link
L2: Final = 3  # request: a line reaches its L2 slice
HBM: Final = 4  # request: a line that missed reaches its HBM channel
RETURN: Final = 5  # request: a response or acknowledgement is back at its SM
WIRE: Final = 6  # link: its wire is free, or a buffer behind it: who is next?
SWITCH: Final = 7  # request: a line reaches the switch that multiplies or adds up
FENCE: Final = 8  # block: a system-wide fence has taken its time
FAULT: Final = 9  # fault: a link changes, fails or comes back
PAUSE: Final = 10  # twice a class of a link, plus 1 to pause: a pause frame is at its sender
RATE_RELEASE: Final = 11  # flow: its rate limiter releases its next message
CNP: Final = 12  # flow: a congestion notification packet (CNP) is at its sender
POST: Final = 13  # block: a signal behind stores leaves, which are acknowledged
EVENT_KINDS: Final = (
    "launch",
    "issue",
    "hop",
    "l2",
    "hbm",
    "return",
    "wire",
    "switch",
    "fence",
    "fault",
    "pause",
    "rate_release",
    "cnp",
    "post",
)

# Request kinds: what travels.
LOAD: Final = 0
STORE: Final = 1
SIGNAL: Final = 2
POLL: Final = 3
REQUEST_KINDS: Final = ("load", "store", "signal", "poll")

# Operation kinds of a thread block.
MOVE: Final = 0  # load one or more sources line by line, reduce, store to one or more targets
NOTIFY: Final = 1  # add to a semaphore, here or on another GPU
WAIT: Final = 2  # until a semaphore has reached a value
FLUSH: Final = 3  # until every store is acknowledged
COMPUTE: Final = 4  # instructions that touch no memory
SPEND: Final = 5  # time: a kernel that is known by its duration only
RELEASE: Final = 6  # a thread block of this GPU that waits for others to end
TILE: Final = 7  # load parts of operands stage by stage, and compute with each
OP_KINDS: Final = ("move", "signal", "wait", "fence", "compute", "spend", "release", "tile")

ROOM: Final = 1 << 16
"""Parts that the registers, threads and shared memory of an SM are counted in."""
SHARE: Final = -1  # what a block of a collective holds of an SM: one of as many as the preset says

# What executes a list of operations, other than an SM.
COPY_ENGINE: Final = 1
NIC: Final = 2

IN_SHARED: Final = -1
"""The line of a semaphore that is in the shared memory of a thread block: its roles wait without polls."""
WAKE_SLOTS: Final = 11
"""Issue slots, of two clocks each, until a role goes on that waits for one (see ``gpu/block.py``)."""

POSTED: Final = 16
"""Signals behind stores of a block that are under way at once, at most."""

# Bits of an operation's ``in_switch``.
SWITCH_READS: Final = 1
SWITCH_WRITES: Final = 2

# Bits of an operation's ``fence``.
ACKNOWLEDGED: Final = 1  # only when every earlier store is acknowledged
SYSTEM_WIDE: Final = 2  # and after the time that a system-wide fence takes
# Only when some earlier moves are complete: `before` of them, which end `value` operations before.
COUNTED: Final = 4

# States of a thread block.
PENDING: Final = 0  # not on an SM yet
MOVING: Final = 1  # lines of a move are being issued, or instructions of a computation
SIGNALLING: Final = 2  # a signal is about to be issued
WAITING: Final = 3  # polling a semaphore
DRAINING: Final = 4  # a fence: until every store is acknowledged
DONE: Final = 5
BLOCK_STATES: Final = ("pending", "moving", "signalling", "waiting", "draining", "done")

# Where a request is.
ON_FABRIC: Final = 0  # on links between devices
ON_CHIP: Final = 1  # on the mesh of a GPU

IN_VAIN: Final = 2
"""Answer to a read that found a semaphore too low, or a packet not there."""

# How a message's route is chosen among equal ones.
INTERLEAVED: Final = 0  # by address, as NVLink does
STATIC: Final = 1  # always the same for a pair
FLOW_HASH: Final = 2  # by thread block and target, as ECMP does by flow
SPRAYED: Final = 3  # each message the next route

# Who wrote a slice last; 0 and above is an operation.
INITIAL: Final = -1  # what the rank brought
UNWRITTEN: Final = -2  # nothing yet
TORN: Final = -3  # parts of several writes, or read while it was being written
NEVER_SEEN: Final = -9  # what a source shows before it is read: below every writer
LINE_BY_LINE: Final = -2  # flag of a source that is written only where its line has been read

CLOCK = np.dtype(
    [
        ("now_ps", "i8"),
        ("events", "i8"),  # handled so far
        ("timesteps", "i8"),  # distinct times of events
        ("instructions", "i8"),  # GPU instructions issued
        ("phases", "i8"),  # phases completed
        ("hops", "i8"),  # links crossed by lines
        ("lines", "i8"),  # requests with data that have arrived at another GPU
        ("messages", "i8"),  # moves of data between GPUs that have taken effect
        ("seq", "i8"),  # events ever pushed to a heap
        ("queued", "i8"),  # events to come
        ("near", "i8"),  # of these in the open slot
        ("far", "i8"),  # and beyond one rotation of the wheel
        ("slot", "i8"),  # that is open
        ("free_entry", "i8"),  # head of the list of free entries of the event queue
        ("free_request", "i8"),  # head of the list of free requests
        ("busy", "i8"),  # blocks that can go on by themselves + stores not acknowledged
        ("done", "i8"),  # blocks that have ended
        ("last_kind", "i8"),  # the event handled last
        ("last_arg", "i8"),
        ("resumes", "i8"),  # block that goes on when the event has been handled, or -1
        ("spinners", "i8"),  # blocks in moves that read packets
        ("searched_ps", "i8"),  # when the last search for a deadlock among them was
        ("sprayed", "i8"),  # messages whose route was chosen by spraying
        ("deadlock_search_ps", "i8"),  # the next search for a buffer deadlock is not before
        # What does not change while time passes: options of the fabric.
        ("multipath", "i8"),
        ("cut_through", "i8"),
        ("managed", "i8"),  # 1: links have queues, an arbiter and buffers of a size
        ("finite", "i8"),  # 1: a message leaves only when there is a buffer for it
        ("arbitration", "i8"),
        ("detailed", "i8"),  # 1: a mesh, queues, switches that add up, packets or bulk requests
    ]
)
"""One row: the scalars of the whole machine."""

GPU = np.dtype(
    [
        ("first_sm", "i8"),
        ("sms", "i8"),
        ("usable", "i8"),  # of these, the first so many take blocks
        ("blocks_on_sm", "i8"),  # occupancy: thread blocks resident on one SM
        ("engines", "i8"),  # copy engines: behind the SMs in their table
        ("first_l2_slice", "i8"),
        ("l2_slices", "i8"),
        ("first_hbm_channel", "i8"),
        ("hbm_channels", "i8"),
        ("issue_ps", "i8"),  # between two instructions of one SM
        ("issue_lines", "i8"),  # issue slots of a load or store of a move
        ("noc_ps", "i8"),  # SM to L2 slice or to I/O port, one way
        ("l2_ps", "i8"),  # L2 slice: from the end of service to the response
        ("far_ps", "i8"),  # more, each way, to a slice of the other partition
        ("poll_ps", "i8"),  # more, there and back, to read a semaphore or packet in the other partition
        ("hbm_ps", "i8"),  # HBM channel: from the end of service to the response
        ("slice_ps", "i8"),  # one line occupies its slice
        ("atomic_ps", "i8"),  # a signal occupies its slice for so much longer
        ("channel_ps", "i8"),  # one line occupies its channel
        ("row_miss_ps", "i8"),  # and longer where it lies in another row than the line before
        ("row_lines", "i8"),  # lines of all channels' rows together
        ("fence_ps", "i8"),  # a system-wide fence, once all stores are acknowledged
        ("access_lines", "i8"),  # of a warp's access of packets
        ("packet_ps", "i8"),  # instructions of a warp from one access of packets of LL to the next
        ("max_outstanding", "i8"),  # requests of one SM under way
        ("engine_issue_ps", "i8"),  # between two requests of one copy engine
        ("engine_outstanding", "i8"),
        ("nics", "i8"),  # behind the copy engines in the table of SMs
        ("nic_issue_ps", "i8"),  # between two requests of one NIC
        ("nic_outstanding", "i8"),  # besides a poll of each queue pair
        ("nic_header_bytes", "i8"),  # of each of them
        ("line_bytes", "i8"),
        ("header_bytes", "i8"),  # of every message
        ("max_payload", "i8"),  # bytes behind one header
        ("signal_bytes", "i8"),  # payload of a signal
        ("multimem_percent", "i8"),  # of a link's bandwidth, for lines that a switch adds up or forwards
        ("first_tag", "i8"),  # of this GPU's L2
        ("sets", "i8"),  # 0: no L2
        ("l2_ways", "i8"),
        ("direct", "i8"),  # 1: no line is ever evicted, each has its own place
        ("first_plane", "i8"),  # switch planes that can add up and multiply
        ("planes", "i8"),
        ("mesh", "i8"),  # 1: a mesh of routers; 0: noc_ps to everywhere
        ("columns", "i8"),
        ("rows", "i8"),
        ("ports", "i8"),
        ("first_chip_link", "i8"),
        ("pending_head", "i8"),  # FIFO of blocks that may begin and have no SM yet
        ("pending_tail", "i8"),
        ("urgent_tail", "i8"),  # the last of them from a stream of high priority, -1: none
        ("list_head", "i8"),  # the same for lists of descriptors and copy engines
        ("list_tail", "i8"),
        ("ended_ps", "i8"),  # when its last block ended
        ("blocks_left", "i8"),
        ("taken", "i8"),  # SMs with a thread block on them
        ("taken_ps", "i8"),  # time that these take from a computation on all SMs, up to taken_at_ps
        ("taken_at_ps", "i8"),
    ]
)

SM = np.dtype(
    [
        ("gpu", "i8"),
        ("engine", "i8"),  # COPY_ENGINE or NIC
        ("next_issue_ps", "i8"),
        ("scheduled", "i8"),  # 1: an ISSUE event is queued
        ("stalled", "i8"),  # 1: a ready warp waits for an outstanding slot
        ("outstanding", "i8"),  # requests under way
        ("waiting", "i8"),  # resident blocks that poll a semaphore
        ("resident", "i8"),  # blocks on this SM
        ("free", "i8"),  # parts of ROOM that no block holds
        ("ready_head", "i8"),  # FIFO of warps that have an instruction to issue
        ("ready_tail", "i8"),
        ("issued", "i8"),  # instructions
        ("stalled_ps", "i8"),  # time without a free slot, summed
        ("stalled_since_ps", "i8"),
        ("matrix_free_ps", "i8"),  # its matrix units: free from then on
        ("matrix_ps", "i8"),  # and how long they have been, or will be, busy
    ]
)

SERVER = np.dtype(
    [("free_at_ps", "i8"), ("busy_ps", "i8"), ("queued_ps", "i8"), ("lines", "i8"), ("row", "i8")]
)
"""An L2 slice or an HBM channel: a FIFO server; ``row`` is the row that a channel has open."""

BLOCK = np.dtype(
    [
        ("gpu", "i8"),
        ("first_op", "i8"),
        ("last_op", "i8"),  # one past
        ("first_warp", "i8"),
        ("warps", "i8"),
        ("sm", "i8"),  # -1: none yet
        ("op", "i8"),  # the operation it is at
        ("state", "i8"),
        ("unacked", "i8"),  # stores and signals under way
        ("since_ps", "i8"),  # when it entered its state
        ("started_ps", "i8"),
        ("ended_ps", "i8"),
        ("moving_ps", "i8"),
        ("signalling_ps", "i8"),
        ("waiting_ps", "i8"),
        ("draining_ps", "i8"),
        ("polls", "i8"),  # reads that found the semaphore too low, or a packet not there
        ("spinning", "i8"),  # operations begun that read packets
        ("fenced", "i8"),  # 1: the time of a system-wide fence runs, 2: has run
        ("kernel", "i8"),
        ("launch_ps", "i8"),  # its kernel begins then
        ("after", "i8"),  # blocks that have to end before it is launched
        ("engine", "i8"),  # COPY_ENGINE, NIC: it is for one
        ("held", "i8"),  # parts of ROOM that it holds of its SM, 0: none (it only waits for others)
        ("urgent", "i8"),  # 1: of a stream of high priority
        ("post", "i8"),  # its next signal behind stores that has not left, -1: none
        ("posting", "i8"),  # 1: and its stores are acknowledged
        ("posted", "i8"),  # such signals that have left, under way
        (
            "role",
            "i8",
        ),  # a role of a thread block: rows back to its first one, which holds the place on the SM
        ("roles", "i8"),  # of a first one (each block is one): roles that have not ended
        ("next_pending", "i8"),  # in the GPU's FIFO
    ]
)

WARP = np.dtype(
    [
        ("block", "i4"),
        ("next_ready", "i4"),  # in the SM's FIFO
        ("queued", "i4"),  # 1: in the SM's FIFO
        ("loading", "i4"),  # job whose loads are being issued, or -1
        ("ready_head", "i4"),  # FIFO of jobs whose data is there
        ("ready_tail", "i4"),
        ("free_job", "i4"),  # head of the list of free jobs
        ("retry_head", "i4"),  # FIFO of loads that found no packet yet
        ("retry_tail", "i4"),
        ("op", "i4"),  # whose lines it loads: the block's, or a move after it
        ("next_line", "i4"),  # of the move, strided by the number of warps
        ("under_way", "i4"),  # jobs
    ]
)

JOB = np.dtype(
    [("line", "i4"), ("op", "i4"), ("next", "i4"), ("step", "i4"), ("pending", "i4"), ("warp", "i4")]
)
"""One line of one move in a warp: loads, reductions, stores."""

OP = np.dtype(
    [
        ("kind", "i4"),
        ("block", "i4"),
        ("first_source", "i4"),
        ("sources", "i4"),
        ("first_target", "i4"),
        ("targets", "i4"),
        ("semaphore", "i4"),
        (
            "value",
            "i4",
        ),  # to add (signal), reach (wait); block to release; row of a tile; 1: spent on SMs; of COUNTED
        ("phase", "i4"),
        ("fence", "i4"),  # ACKNOWLEDGED, SYSTEM_WIDE, COUNTED
        ("in_switch", "i4"),  # SWITCH_READS, SWITCH_WRITES
        ("spins", "i4"),  # 1: it reads packets, 2: and loads each again when its flag is there (LL128)
        ("payload", "i4"),  # bytes of data that one request moves
        ("last_bytes", "i4"),  # of the last request
        ("number", "i4"),  # place in its block, as the program counts
        ("ahead", "i4"),  # 1: a warp may begin it while others are at the move before
        # Of a move: lines of the moves with which it makes one loop; of COUNTED: see there. Of a signal
        # behind stores: operations back to the first move that it is behind, 0: it is no such signal.
        ("before", "i4"),
        ("lines", "i8"),  # requests an operand takes
        ("left", "i8"),  # of these not issued yet, instructions of a computation, or time to spend
        ("acked", "i8"),  # stores; of a computation on all SMs the GPU's taken_ps that it has made up for
        ("started_ps", "i8"),  # -1: not yet
        ("issued_ps", "i8"),  # last instruction issued
        ("ended_ps", "i8"),  # last acknowledgement back
    ]
)

TILE_WORK = np.dtype(
    [
        ("steps", "i4"),  # parts that are loaded and computed one after another
        ("step_lines", "i4"),  # requests of a step
        ("first_lines", "i4"),  # of these of the first operand; the others are of the second
        ("issue_lines", "i4"),  # issue slots of a request
        ("step_ps", "i8"),  # the matrix units compute for so long with what a step has loaded
        ("fetched", "i4"),  # steps whose requests are all issued
        ("computed", "i4"),
        ("computing", "i4"),  # 1: a step is being computed
        ("stages", "i4"),  # the first warps of the block: each is room for what one step loads
    ]
)
"""Work of a ``TILE`` operation."""

OPERAND = np.dtype(
    [
        ("gpu", "i4"),
        ("slice", "i4"),  # -1: a semaphore's line
        ("out_route", "i4"),  # first of the equal routes there
        ("out_routes", "i4"),  # 0: on this GPU
        ("back_route", "i4"),
        ("back_routes", "i4"),
        ("stride", "i4"),  # bytes of memory from one request to the next
        ("flag", "i4"),  # first of its packets' flags, -1: plain memory
        ("line", "i8"),  # first line in the GPU's memory
        ("seen", "i8"),  # as a source: who had written the slice when it was read
    ]
)

SLICE = np.dtype(
    [
        ("gpu", "i4"),
        ("buffer", "i4"),
        ("chunk", "i4"),
        ("channel", "i4"),
        ("line", "i8"),
        ("lines", "i8"),
        ("bytes", "i8"),
        ("writer", "i8"),  # operation whose write is complete, or INITIAL, UNWRITTEN, TORN
        ("writing", "i8"),  # operation whose write is under way, or -1
        ("arrived", "i8"),  # its requests so far
        ("flag", "i8"),  # first of its packets' flags, -1: plain memory
    ]
)
"""The part of a chunk that one thread block moves: the unit in which contents are tracked."""

SEMAPHORE = np.dtype(
    [
        ("gpu", "i8"),
        ("line", "i8"),  # IN_SHARED: it is in the shared memory of a thread block
        ("value", "i8"),
    ]
)

PHASE = np.dtype([("left", "i8"), ("started_ps", "i8"), ("ended_ps", "i8")])

ROUTE = np.dtype([("first", "i8"), ("last", "i8"), ("flow", "i8")])
"""One route from a GPU to another: its links are ``route_links[first:last]``; the flow on it, or -1."""

PLANE = np.dtype([("up", "i8"), ("down", "i8")])
"""The two routes, of one link each, between a GPU and a switch that adds up."""

FAULT_ROW = np.dtype(
    [
        ("link", "i8"),
        ("bandwidth_Bps", "i8"),
        ("latency_ps", "i8"),
        ("down_until_ps", "i8"),  # 0: it is up
    ]
)
"""New values of a link, applied by an event that is queued at the start."""

REQUEST = np.dtype(
    [
        ("issued_ps", "i8"),
        ("arrives_ps", "i8"),  # last bit at the far end of the link it crosses
        ("line", "i4"),  # in the target GPU's memory
        ("warp", "i4"),
        ("job", "i4"),
        ("op", "i4"),
        ("operand", "i4"),
        ("bytes", "i4"),  # on a wire where it carries data, header included
        ("route", "i4"),  # that it takes, -1: none
        ("hop", "i4"),  # next place in the route
        ("link", "i4"),  # between devices: it crosses or crossed last, -1: none yet
        ("next_free", "i4"),  # also next in a queue
        ("gpu", "u2"),  # that issued it
        ("target", "u2"),  # GPU whose memory it is for
        ("kind", "i1"),
        ("live", "i1"),
        ("returning", "i1"),  # 1: response or acknowledgement, IN_VAIN: a read has to be done again
        ("leg", "i1"),  # ON_FABRIC or ON_CHIP
    ]
)
"""A line request under way (the wavefront request of ASTRA-sim 3.0): 64 bytes, one line of a cache.

There are tens of thousands of them, and each event takes up another one.
"""

DETAIL = np.dtype(
    [
        ("index", "i4"),  # number within its operation's operand
        ("span", "i4"),  # lines of memory
        ("parent", "i4"),  # the request that a switch multiplied, -1: none
        ("children", "i4"),  # of a request that a switch multiplied: under way
        ("held", "i4"),  # queue whose buffer it occupies, -1: none
        ("next_link", "i4"),  # of the mesh: that it is about to enter
        ("router", "i4"),  # of the mesh: it is at or comes to
        ("to_router", "i4"),
        ("exit_link", "i4"),  # out of the mesh
        ("came", "i4"),  # class of a link with pause frames that it is on, -1: none
        ("stored", "i4"),  # the same whose buffer it occupies, -1: none
        ("stored_bytes", "i4"),
        ("marked", "i4"),  # 1: a switch has marked it
        ("found", "i4"),  # 1: a packet that is loaded again, because its flag was there
        ("offered_ps", "i8"),  # when it came to the queue of its next link
    ]
)
"""More about a request, in the same row: kept where ``clock.detailed`` is set."""


class Machine(NamedTuple):
    """Every table of the simulated machine: what a handler takes."""

    clock: Records
    event_queue: EventQueue
    gpus: Records
    sms: Records
    l2_slices: Records
    hbm_channels: Records
    blocks: Records
    warps: Records
    jobs: Records
    ops: Records
    tiles: Records
    operands: Records
    slices: Records
    semaphores: Records
    phases: Records
    routes: Records
    planes: Records
    route_links: Records
    requests: Records
    details: Records
    tags: Records
    present: Records
    flags: Records
    faults: Records
    queues: Records
    roce: Records
    flows: Records
    links: Records
