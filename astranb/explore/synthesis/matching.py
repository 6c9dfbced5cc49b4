"""Time-expanded matching of links and chunks: which chunk each link carries when it is free.

The method is that of TACOS (Won et al., MICRO 2024, arXiv 2304.05301): whenever a link is free and its
source holds a chunk that its destination still needs, a match is drawn; links of lower cost choose first.
Time goes from event to event instead of in steps, because links differ in latency and bandwidth. What
TACOS draws at random is chosen here among some candidates drawn at random: a chunk that the destination
could get over few other links goes first, which keeps links busy until the end. A slow link takes no chunk
that faster ones would bring earlier.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astranb.core.draw import draw
from astranb.core.entry import Entry
from astranb.core.jit import kernel

__all__ = ["WORD_BITS", "ChunkSets", "EdgeTables", "MatchWork", "match", "retime"]

Ints = NDArray[np.int64]

WORD_BITS: Final = 62
"""Chunks in one word of a set of chunks: shifts stay positive."""

_SEED: Final = 0
_WORDS: Final = 1  # of a set of chunks
_CHUNKS: Final = 2
_LOOKED: Final = 3  # candidates of a match
_DRAWN: Final = 4  # numbers drawn so far
_QUEUED: Final = 5  # events in the queue
_RELAYS: Final = 6  # whether ranks pass on what they do not need
_PATIENT: Final = 7  # whether slow links leave chunks to faster ones
# Places of the arguments of a matching; the number of ranks follows.
_RANKS: Final = 8
_NO_CHUNK: Final = -1
_FAR: Final = 2**61


class EdgeTables(NamedTuple):
    """The links between ranks as arrays.

    Attributes
    ----------
    source, target, took_ps : ndarray of int64, shape (edges,)
        Ranks, and the time from the start of a chunk to its arrival.
    order : ndarray of int64, shape (edges,)
        Edges of lower numbers choose first.
    weight : ndarray of int64, shape (edges,)
        How much an edge counts as a supply of its target.
    faster_ps : ndarray of int64, shape (edges,)
        Time in which all faster edges bring a chunk to its target; 0 where there are none.
    first_port, port : ndarray of int64
        The ports that each edge occupies, one list behind the other.
    busy_ps : ndarray of int64, shape (ports,)
        For how long a chunk occupies a port.
    first_out, out, first_in, into, first_of, of : ndarray of int64
        The edges that leave and reach each rank, and use each port.
    """

    source: Ints
    target: Ints
    took_ps: Ints
    order: Ints
    weight: Ints
    faster_ps: Ints
    first_port: Ints
    port: Ints
    busy_ps: Ints
    first_out: Ints
    out: Ints
    first_in: Ints
    into: Ints
    first_of: Ints
    of: Ints


class ChunkSets(NamedTuple):
    """Chunks that ranks hold and need, as arrays of words: a bit for each chunk.

    Attributes
    ----------
    held : ndarray of int64, shape (ranks * words,)
        Chunks that a rank has.
    coming : ndarray of int64
        Chunks that are on their way, or were.
    useful : ndarray of int64
        Chunks that may be sent to a rank.
    unmet : ndarray of int64
        Chunks that a rank needs and nobody has sent yet.
    left : ndarray of int64, shape (ranks,)
        How many these are.
    supply : ndarray of int64, shape (ranks * chunks,)
        By weight, the edges into a rank whose sources have or will have a chunk.
    copies : ndarray of int64, shape (chunks,)
        Ranks that have or will have a chunk.
    distance_ps : ndarray of int64, shape (ranks * ranks,)
        Time from rank to rank, where chunks are passed on; else empty.
    nearest_ps : ndarray of int64, shape (chunks * ranks,)
        Of a chunk and a rank that needs it, the time from the nearest rank that has or will have it.
    """

    held: Ints
    coming: Ints
    useful: Ints
    unmet: Ints
    left: Ints
    supply: Ints
    copies: Ints
    distance_ps: Ints
    nearest_ps: Ints


class MatchWork(NamedTuple):
    """Working memory of a matching, and its result.

    Attributes
    ----------
    free_ps : ndarray of int64, shape (ports,)
        When each port is free.
    heap_ps, heap_what : ndarray of int64
        The event queue: times, and twice the number of a port, or of a transfer and one.
    stamp, some, ordered : ndarray of int64, shape (edges,)
        Edges to look at in one moment.
    counts : ndarray of int64
        Edges of each order.
    edge, chunk, start_ps : ndarray of int64, shape (transfers,)
        The result.
    """

    free_ps: Ints
    heap_ps: Ints
    heap_what: Ints
    stamp: Ints
    some: Ints
    ordered: Ints
    counts: Ints
    edge: Ints
    chunk: Ints
    start_ps: Ints


@kernel(inline=False)
def queue(job: Ints, work: MatchWork, time_ps: int, what: int) -> None:
    """Add an event to the binary heap."""
    place = job[_QUEUED]
    job[_QUEUED] += 1
    while place > 0 and work.heap_ps[(place - 1) >> 1] > time_ps:
        work.heap_ps[place] = work.heap_ps[(place - 1) >> 1]
        work.heap_what[place] = work.heap_what[(place - 1) >> 1]
        place = (place - 1) >> 1
    work.heap_ps[place] = time_ps
    work.heap_what[place] = what


@kernel(inline=False)
def earliest(job: Ints, work: MatchWork) -> int:
    """Take the first event from the heap."""
    first = work.heap_what[0]
    job[_QUEUED] -= 1
    size = job[_QUEUED]
    last_ps = work.heap_ps[size]
    last_what = work.heap_what[size]
    place = 0
    child = 1
    while child < size:
        if child + 1 < size and work.heap_ps[child + 1] < work.heap_ps[child]:
            child += 1
        if work.heap_ps[child] >= last_ps:
            break
        work.heap_ps[place] = work.heap_ps[child]
        work.heap_what[place] = work.heap_what[child]
        place = child
        child = 2 * place + 1
    work.heap_ps[place] = last_ps
    work.heap_what[place] = last_what
    return int(first)


@kernel
def random_below(job: Ints, bound: int) -> int:
    """Draw a number below a bound."""
    job[_DRAWN] += 1
    return draw(job[_SEED], job[_DRAWN]) % bound


@kernel(inline=False)
def comes_sooner(edges: EdgeTables, needs: ChunkSets, edge: int, word: int, bit: int, words: int) -> bool:
    """Return whether a faster edge to the same target can bring a chunk, now or later."""
    target = edges.target[edge]
    for row in range(edges.first_in[target], edges.first_in[target + 1]):
        other = edges.into[row]
        if edges.took_ps[other] < edges.took_ps[edge]:
            at = edges.source[other] * words + word
            if (needs.held[at] | needs.coming[at]) >> bit & 1 == 1:
                return True
    return False


@kernel(inline=False)
def way_left(job: Ints, edges: EdgeTables, needs: ChunkSets, edge: int, chunk: int) -> int:
    """Return how far a chunk has to go to those that need it, if an edge is on a shortest path; else -1."""
    ranks = job[_RANKS]
    words = job[_WORDS]
    source = edges.source[edge]
    target = edges.target[edge]
    word = chunk // WORD_BITS
    bit = chunk % WORD_BITS
    farthest = -1
    for rank in range(ranks):
        if needs.unmet[rank * words + word] >> bit & 1 == 1:
            from_here = needs.distance_ps[source * ranks + rank]
            beyond = needs.distance_ps[target * ranks + rank]
            if edges.took_ps[edge] + beyond <= from_here and beyond < needs.nearest_ps[chunk * ranks + rank]:
                farthest = max(farthest, from_here)
    return farthest


@kernel(inline=False)
def choose(job: Ints, edges: EdgeTables, needs: ChunkSets, edge: int) -> int:
    """Return the chunk that a free edge carries next; -1 for none.

    Among some candidates, in an order drawn at random: the one with the least supply and then the fewest
    copies or, where chunks are passed on, with the longest way left.
    """
    words = job[_WORDS]
    target = edges.target[edge]
    ours = edges.source[edge] * words
    theirs = target * words
    soon = (
        job[_PATIENT] == 1
        and job[_RELAYS] == 0
        and edges.faster_ps[edge] > 0
        and needs.left[target] * edges.faster_ps[edge] < edges.took_ps[edge]
    )
    first = random_below(job, words)
    turn = random_below(job, WORD_BITS)
    best = _NO_CHUNK
    least = _FAR
    seen = 0
    for number in range(words):
        word = (first + number) % words
        bits = needs.held[ours + word] & needs.useful[theirs + word]
        if bits == 0:
            continue
        for place in range(WORD_BITS):
            bit = (place + turn) % WORD_BITS
            if bits >> bit & 1 == 0:
                continue
            chunk = word * WORD_BITS + bit
            if soon and comes_sooner(edges, needs, edge, word, bit, words):
                continue
            if job[_RELAYS] == 1:
                left = way_left(job, edges, needs, edge, chunk)
                if left < 0:
                    continue
                price = -left
            else:
                price = needs.supply[target * job[_CHUNKS] + chunk] * job[_RANKS] + needs.copies[chunk]
            if price < least:
                least = price
                best = chunk
            seen += 1
            if seen >= job[_LOOKED]:
                return best
    return best


@kernel(inline=False)
def promise(job: Ints, edges: EdgeTables, needs: ChunkSets, rank: int, chunk: int) -> int:
    """Record that a chunk is on its way to a rank; returns 1 if the rank needs it."""
    words = job[_WORDS]
    ranks = job[_RANKS]
    word = chunk // WORD_BITS
    mask = 1 << chunk % WORD_BITS
    at = rank * words + word
    needs.useful[at] &= ~mask
    needs.coming[at] |= mask
    needs.copies[chunk] += 1
    met = 0
    if needs.unmet[at] & mask != 0:
        needs.unmet[at] &= ~mask
        needs.left[rank] -= 1
        met = 1
    if job[_RELAYS] == 0:
        for row in range(edges.first_out[rank], edges.first_out[rank + 1]):
            edge = edges.out[row]
            needs.supply[edges.target[edge] * job[_CHUNKS] + chunk] += edges.weight[edge]
        return met
    for other in range(ranks):
        if needs.unmet[other * words + word] & mask != 0:
            near = chunk * ranks + other
            needs.nearest_ps[near] = min(needs.nearest_ps[near], needs.distance_ps[rank * ranks + other])
    for other in range(ranks):
        at = other * words + word
        if (needs.held[at] | needs.coming[at]) & mask != 0:
            continue
        useful = False
        for end in range(ranks):
            closer = needs.distance_ps[other * ranks + end] < needs.nearest_ps[chunk * ranks + end]
            if closer and needs.unmet[end * words + word] & mask != 0:
                useful = True
                break
        if useful:
            needs.useful[at] |= mask
        else:
            needs.useful[at] &= ~mask
    return met


@kernel(inline=False)
def is_free(edges: EdgeTables, work: MatchWork, edge: int, now_ps: int) -> bool:
    """Return whether all ports of an edge are free."""
    for row in range(edges.first_port[edge], edges.first_port[edge + 1]):
        if work.free_ps[edges.port[row]] > now_ps:
            return False
    return True


@kernel(inline=False)
def put_in_order(job: Ints, edges: EdgeTables, work: MatchWork, count: int) -> None:
    """Shuffle the edges to look at, then sort them by their order."""
    some = work.some
    for number in range(count - 1, 0, -1):
        other = random_below(job, number + 1)
        kept = some[number]
        some[number] = some[other]
        some[other] = kept
    for number in range(len(work.counts)):
        work.counts[number] = 0
    for number in range(count):
        work.counts[edges.order[some[number]] + 1] += 1
    for number in range(1, len(work.counts)):
        work.counts[number] += work.counts[number - 1]
    for number in range(count):
        order = edges.order[some[number]]
        work.ordered[work.counts[order]] = some[number]
        work.counts[order] += 1


@kernel(inline=False)
def touch(work: MatchWork, edge: int, now: int, count: int) -> int:
    """Add an edge to those to look at, once in a moment; returns how many there are."""
    if work.stamp[edge] == now:
        return count
    work.stamp[edge] = now
    work.some[count] = edge
    return count + 1


@kernel
def match_chunks(job: Ints, edges: EdgeTables, needs: ChunkSets, work: MatchWork) -> int:
    """Match links and chunks from moment to moment until all needs are met.

    Returns the number of transfers; -1 if some needs cannot be met, -2 if there are more transfers than room.
    """
    words = job[_WORDS]
    done = 0
    now_ps = 0
    moment = 1
    missing = 0
    for rank in range(job[_RANKS]):
        missing += needs.left[rank]
    count = 0
    for edge in range(len(edges.source)):
        count = touch(work, edge, moment, count)
    while missing > 0:
        put_in_order(job, edges, work, count)
        for number in range(count):
            edge = work.ordered[number]
            if not is_free(edges, work, edge, now_ps):
                continue
            chunk = choose(job, edges, needs, edge)
            if chunk == _NO_CHUNK:
                continue
            if done == len(work.edge):
                return -2
            missing -= promise(job, edges, needs, edges.target[edge], chunk)
            work.edge[done] = edge
            work.chunk[done] = chunk
            work.start_ps[done] = now_ps
            queue(job, work, now_ps + edges.took_ps[edge], 2 * done + 1)
            done += 1
            for row in range(edges.first_port[edge], edges.first_port[edge + 1]):
                port = edges.port[row]
                work.free_ps[port] = now_ps + edges.busy_ps[port]
                queue(job, work, work.free_ps[port], 2 * port)
        if missing == 0:
            break
        moment += 1
        count = 0
        if job[_QUEUED] == 0:  # nothing is under way: slow links have left chunks to others
            if job[_PATIENT] == 0:
                return -1
            job[_PATIENT] = 0
            for edge in range(len(edges.source)):
                count = touch(work, edge, moment, count)
            continue
        job[_PATIENT] = 1
        now_ps = work.heap_ps[0]
        while job[_QUEUED] > 0 and work.heap_ps[0] == now_ps:
            what = earliest(job, work)
            if what & 1 == 1:
                rank = edges.target[work.edge[what >> 1]]
                chunk = work.chunk[what >> 1]
                needs.held[rank * words + chunk // WORD_BITS] |= 1 << chunk % WORD_BITS
                for row in range(edges.first_out[rank], edges.first_out[rank + 1]):
                    count = touch(work, edges.out[row], moment, count)
            else:
                port = what >> 1
                for row in range(edges.first_of[port], edges.first_of[port + 1]):
                    count = touch(work, edges.of[row], moment, count)
    return done


@kernel
def start_in_order(job: Ints, edges: EdgeTables, work: MatchWork, ready_ps: Ints) -> int:
    """Start transfers one after the other, each as soon as its ports are free and its chunk is there.

    ``ready_ps`` has a time for each rank and chunk: the last arrival there. Returns when all have arrived.
    """
    chunks = job[_CHUNKS]
    last_ps = 0
    for number in range(len(work.edge)):
        edge = work.edge[number]
        start_ps = ready_ps[edges.source[edge] * chunks + work.chunk[number]]
        for row in range(edges.first_port[edge], edges.first_port[edge + 1]):
            start_ps = max(start_ps, work.free_ps[edges.port[row]])
        work.start_ps[number] = start_ps
        for row in range(edges.first_port[edge], edges.first_port[edge + 1]):
            port = edges.port[row]
            work.free_ps[port] = start_ps + edges.busy_ps[port]
        at = edges.target[edge] * chunks + work.chunk[number]
        ready_ps[at] = max(ready_ps[at], start_ps + edges.took_ps[edge])
        last_ps = max(last_ps, start_ps + edges.took_ps[edge])
    return int(last_ps)


_INT: Final = np.dtype(np.int64)
_TABLES: Final = EdgeTables(*[_INT] * 15)  # type: ignore[arg-type]  # types in the places of tables
_SETS: Final = ChunkSets(*[_INT] * 9)  # type: ignore[arg-type]
_WORK: Final = MatchWork(*[_INT] * 10)  # type: ignore[arg-type]
_MATCH: Final = Entry(match_chunks, [_INT, _TABLES, _SETS, _WORK])
_START: Final = Entry(start_in_order, [_INT, _TABLES, _WORK, _INT])


def match(
    edges: EdgeTables, needs: ChunkSets, *, chunks: int, seed: int, looked: int, most: int
) -> tuple[Ints, Ints, Ints]:
    """Match links and chunks until all needs are met; ``needs`` is changed.

    Parameters
    ----------
    edges : EdgeTables
    needs : ChunkSets
    chunks : int
        How many there are.
    seed : int
    looked : int
        Candidates that are compared for each match; 1 draws at random, as TACOS does.
    most : int
        Transfers at most.

    Returns
    -------
    edge, chunk, start_ps : ndarray of int64, shape (transfers,)
        In the order of their starts; nothing if some needs cannot be met.
    """
    ranks = len(needs.left)
    words = len(needs.held) // ranks
    relays = int(len(needs.distance_ps) > 0)
    job = np.array([seed, words, chunks, looked, 0, 0, relays, 1, ranks], np.int64)
    work = _work(edges, most)
    done = _MATCH(job, edges, needs, work)
    if done == -2:
        message = f"more than {most} transfers"
        raise AssertionError(message)  # a chunk goes to a rank once
    done = max(done, 0)
    return work.edge[:done], work.chunk[:done], work.start_ps[:done]


def retime(edges: EdgeTables, edge: Ints, chunk: Ints, ready_ps: Ints, *, chunks: int) -> Ints:
    """Return when transfers start that are made in the given order, each as soon as it can be.

    ``ready_ps`` is when each rank has each chunk; it is changed to the last arrival.
    """
    work = _work(edges, 0)._replace(
        edge=np.ascontiguousarray(edge), chunk=np.ascontiguousarray(chunk), start_ps=np.zeros_like(edge)
    )
    _START(np.array([0, 0, chunks], np.int64), edges, work, ready_ps)
    return work.start_ps


def _work(edges: EdgeTables, most: int) -> MatchWork:
    """Make the working memory for up to ``most`` transfers."""
    count, ports = len(edges.source), len(edges.busy_ps)
    events = most + len(edges.port)  # no port has two events, and each transfer one arrival
    orders = int(edges.order.max(initial=0)) + 2
    sizes = (ports, events, events, count, count, count, orders, most, most, most)
    return MatchWork(*(np.zeros(size, np.int64) for size in sizes))
