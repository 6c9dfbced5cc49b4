"""The workload layer issues operations whose dependencies are met, one at a time of each kind."""

from __future__ import annotations

from astranb.core.jit import kernel

from .chunks import admit, free_stream, new_stream, next_phase, place_in_group, unlink
from .recording import record, record_phase, record_sender
from .scheduling import order_dimensions, plan_phases, reset_loads
from .tables import (
    ALL_GATHER,
    BEGINS,
    COLLECTIVE,
    COMPUTE,
    CUSTOM,
    CUSTOM_DONE,
    DONE,
    ENDS,
    KIND_BITS,
    MEMORY,
    MEMORY_FREE,
    NATIVE_TAGS,
    ON_BACKGROUND,
    ON_CPU,
    ON_NOTHING,
    OPERATION,
    PHASE_ENDS,
    PLACES,
    RECV,
    SEND,
    MessageMachine,
)
from .ties import uses_collectives
from .timers import set_timer
from .transport import post_receive, post_send

__all__ = ["custom_done", "memory_free", "operation_done", "phase_over", "start_npu"]


@kernel(inline=False)
def _make_ready(m: MessageMachine, operation: int) -> None:
    """Put an operation into the heap of those that wait only for what they occupy."""
    o = m.operations[operation]
    place = m.places[o.npu * PLACES + o.place]
    m.npus[o.npu].ready += 1
    hole = place.ready
    place.ready += 1
    first = place.first
    while hole > 0:
        parent = (hole - 1) >> 1
        if m.ready[first + parent].value < operation:
            break
        m.ready[first + hole].value = m.ready[first + parent].value
        hole = parent
    m.ready[first + hole].value = operation


@kernel(inline=False)
def _take_ready(m: MessageMachine, npu: int, which: int) -> int:
    """Take the first operation out of a heap."""
    place = m.places[npu * PLACES + which]
    first = place.first
    result = m.ready[first].value
    place.ready -= 1
    m.npus[npu].ready -= 1
    count = place.ready
    moved = m.ready[first + count].value
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= count:
            break
        if child + 1 < count and m.ready[first + child + 1].value < m.ready[first + child].value:
            child += 1
        if m.ready[first + child].value >= moved:
            break
        m.ready[first + hole].value = m.ready[first + child].value
        hole = child
    m.ready[first + hole].value = moved
    return int(result)


@kernel(inline=False)
def _begin_custom(m: MessageMachine, stream: int) -> None:
    """Issue the first operations of a custom collective."""
    o = m.operations[m.streams[stream].operation]
    o.stream = stream
    for child in range(o.custom, o.custom + o.customs):
        if m.operations[child].waits == 0:
            m.operations[child].waits = -1
            _issue_custom(m, child)


@kernel(inline=False)
def _issue_custom(m: MessageMachine, operation: int) -> None:
    """Issue one operation of a custom collective."""
    o = m.operations[operation]
    o.start_ns = m.queue[0].now
    if m.watch[0].noting == 1:
        record_sender(m, operation)
    handler = (operation << KIND_BITS) | OPERATION
    if o.kind == SEND:
        post_send(m, o.npu, o.peer, o.tag, o.bytes, handler, 0)
    elif o.kind == RECV:
        post_receive(m, o.peer, o.npu, o.tag, o.bytes, handler)
    else:
        set_timer(m, o.npu, o.duration_ns, CUSTOM_DONE, operation, 0)


@kernel
def _start_collective(m: MessageMachine, operation: int) -> None:
    """Cut a collective into chunks, each a stream of its own."""
    o = m.operations[operation]
    config = m.config[0]
    npu = o.npu
    uses_collectives(m, npu)
    size = o.bytes
    splits = config.splits * o.rings
    if o.cost >= 0:
        splits = m.costs[o.cost].pieces * o.rings
    # With fewer bytes than chunks, ASTRA-sim 2.0 would make empty chunks without end.
    chunk = max(size // splits, 1)
    if config.exact_chunks == 1:
        chunk = max(-(-size // splits), config.npus)
    elif o.collective != ALL_GATHER and config.npus > chunk:
        chunk = config.npus
        size = splits * chunk
    priority = o.priority
    if config.priority_step != 0:
        priority = m.npus[npu].priority
        m.npus[npu].priority += config.priority_step
    if o.custom >= 0:
        chunk = size
    reset_loads(m)
    usual = chunk
    lane = config.lanes - 1 if o.place == ON_BACKGROUND else 0
    group = -1
    counted = 0
    while size > 0:
        if o.custom < 0:
            chunk = order_dimensions(m, operation, size, usual)
        # ASTRA-sim 2.0's last chunk is a whole one, however little is left.
        part = chunk
        if config.exact_chunks == 1 and size < chunk:
            part = size
        size = max(size - chunk, 0)
        of_chunk = o.group if o.ring < 0 else o.ring + o.streams % o.rings
        if of_chunk != group:
            group = of_chunk
            counted = (m.groups[group].first + place_in_group(m, group, npu)) * config.lanes + lane
        o.streams += 1
        if group >= 0:
            counter = m.group_streams[counted]
            tag = counter.value
            counter.value += 1
        elif o.place == ON_BACKGROUND:
            tag = m.npus[npu].next_background
            m.npus[npu].next_background += 1
        else:
            tag = m.npus[npu].next_stream
            m.npus[npu].next_stream += 1
        stream = new_stream(m, operation, tag % NATIVE_TAGS + NATIVE_TAGS, priority)
        if o.cost >= 0:
            cost = m.costs[o.cost]
            m.streams[stream].begin_ns = cost.begin_ns + (o.streams - 1) // o.rings * cost.gap_ns
        if o.custom >= 0:
            row = stream * config.max_phases
            m.phases[row].algorithm = CUSTOM
            m.phases[row].queue = 0
            m.phases[row].nodes = 1
            m.phases[row].stride = 1
            m.phases[row].group = -1
            m.streams[stream].phases = 1
        else:
            plan_phases(m, stream, operation, group, part)
            if m.streams[stream].phases == 0:
                # There is no other NPU.
                free_stream(m, stream)
                o.streams = 0
                set_timer(m, npu, 0, DONE, operation, 0)
                return
        custom = admit(m, stream)
        if custom >= 0:
            _begin_custom(m, custom)


@kernel
def _ask_memory(m: MessageMachine, operation: int) -> None:
    """Send a request to a remote memory; a shared one serves one request after another."""
    o = m.operations[operation]
    shared_by = m.config[0].memory_shared_by
    if shared_by > 0:
        memory = m.memories[o.npu // shared_by]
        if memory.running > 0:
            row = memory.head
            o.next = -1
            if row < 0:
                memory.head = operation
            else:
                while m.operations[row].next >= 0:
                    row = m.operations[row].next
                m.operations[row].next = operation
            return
        memory.running = 1
    set_timer(m, o.npu, o.duration_ns, DONE, operation, 0)
    if shared_by > 0:
        set_timer(m, o.npu, o.duration_ns, MEMORY_FREE, operation, 0)


@kernel
def memory_free(m: MessageMachine, operation: int) -> None:
    """A remote memory has served an operation, and begins the next."""
    memory = m.memories[m.operations[operation].npu // m.config[0].memory_shared_by]
    row = memory.head
    if row < 0:
        memory.running = 0
        return
    o = m.operations[row]
    memory.head = o.next
    set_timer(m, o.npu, o.duration_ns, DONE, row, 0)
    set_timer(m, o.npu, o.duration_ns, MEMORY_FREE, row, 0)


@kernel
def _issue(m: MessageMachine, operation: int) -> None:
    """Issue an operation."""
    o = m.operations[operation]
    o.start_ns = m.queue[0].now
    if m.watch[0].noting == 1:
        record(m, BEGINS, o.npu, operation, -1, -1)
        record_sender(m, operation)
    m.npus[o.npu].ongoing += 1
    if o.place != ON_NOTHING:
        m.places[o.npu * PLACES + o.place].busy = 1
    handler = (operation << KIND_BITS) | OPERATION
    if o.kind == COLLECTIVE:
        _start_collective(m, operation)
    elif o.kind == SEND:
        post_send(m, o.npu, o.peer, o.tag, o.bytes, handler, 0)
    elif o.kind == RECV:
        post_receive(m, o.peer, o.npu, o.tag, o.bytes, handler)
    elif o.kind == MEMORY:
        _ask_memory(m, operation)
    else:
        if o.kind == COMPUTE and o.place != ON_CPU:
            m.npus[o.npu].compute_ns += o.duration_ns
        set_timer(m, o.npu, o.duration_ns, DONE, operation, 0)


@kernel(inline=False)
def _issue_ready(m: MessageMachine, npu: int) -> None:
    """Issue all operations that can begin, in their order; then check whether the NPU is done."""
    while True:
        best = -1
        which = -1
        for number in range(PLACES):
            place = m.places[npu * PLACES + number]
            if place.ready > 0 and place.busy == 0:
                operation = m.ready[place.first].value
                if best < 0 or operation < best:
                    best = operation
                    which = number
        if best < 0:
            break
        _issue(m, _take_ready(m, npu, which))
    if m.npus[npu].ready == 0 and m.npus[npu].ongoing == 0 and m.npus[npu].end_ns < 0:
        m.npus[npu].end_ns = m.queue[0].now
        m.clock[0].finished += 1


@kernel
def start_npu(m: MessageMachine, npu: int) -> None:
    """Issue the first operations of an NPU, those without dependencies."""
    for number in range(PLACES):
        # The heaps are filled when the tables are built.
        m.npus[npu].ready += m.places[npu * PLACES + number].ready
    _issue_ready(m, npu)


@kernel(inline=False)
def operation_done(m: MessageMachine, operation: int) -> None:
    """An operation ends: release what it occupies, and the operations that waited for it."""
    o = m.operations[operation]
    if o.kind != SEND and o.kind != RECV:
        uses_collectives(m, o.npu)
    o.end_ns = m.queue[0].now
    m.clock[0].ended += 1
    if m.watch[0].noting == 1:
        record(m, ENDS, o.npu, operation, -1, -1)
    m.npus[o.npu].ongoing -= 1
    if o.place != ON_NOTHING:
        m.places[o.npu * PLACES + o.place].busy = 0
    for number in range(o.first_child, o.first_child + o.children):
        child = m.children[number].value
        m.operations[child].waits -= 1
        if m.operations[child].waits == 0:
            _make_ready(m, child)
    _issue_ready(m, o.npu)


@kernel(inline=False)
def phase_over(m: MessageMachine, stream: int) -> None:
    """A stream's phase ends, and with the last phase of its last stream the operation."""
    s = m.streams[stream]
    m.clock[0].phases += 1
    if m.watch[0].noting == 1:
        record_phase(m, stream, PHASE_ENDS)
    if s.phase == s.phases:
        o = m.operations[s.operation]
        o.streams_done += 1
        if o.streams_done == o.streams:
            # The operations that follow are issued while this stream is still in its queue.
            o.end_ns = m.queue[0].now
            operation_done(m, s.operation)
    unlink(m, stream)
    custom = next_phase(m, stream)
    if custom >= 0:
        _begin_custom(m, custom)


@kernel(inline=False)
def custom_done(m: MessageMachine, operation: int) -> None:
    """An operation of a custom collective ends."""
    o = m.operations[operation]
    o.end_ns = m.queue[0].now
    owner = o.owner
    m.operations[owner].customs -= 1
    for number in range(o.first_child, o.first_child + o.children):
        child = m.children[number].value
        m.operations[child].waits -= 1
        if m.operations[child].waits == 0:
            m.operations[child].waits = -1
            _issue_custom(m, child)
    if m.operations[owner].customs == 0:
        phase_over(m, m.operations[owner].stream)
