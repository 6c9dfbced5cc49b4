"""`directN`: each NPU keeps N messages under way, and sends the next when one has come."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final

from astranb.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["windowed_ps"]

_MOST_MESSAGES: Final = 2_000_000


class _Node:
    """What one NPU has done."""

    __slots__ = ("free", "inserted", "plain", "received", "reduced", "sent", "toggle")

    def __init__(self) -> None:
        self.inserted = self.sent = self.free = self.received = 0
        self.plain = self.reduced = self.toggle = 0


def windowed_ps(
    delay: np.ndarray, window: int, endpoint_ps: int, reduce_ps: int, *, rounds: int, reduces: bool
) -> int:
    """Work out when the last NPU is done.

    Parameters
    ----------
    delay : ndarray
        Picoseconds of a message to each NPU (row) from the one k + 1 places behind (column k).
    window : int
        Messages under way, fewer than there are peers.
    endpoint_ps, reduce_ps : int
        What an endpoint takes for a message, and for one that is reduced in addition.
    rounds : int
        2 for an all-reduce: the second begins when all messages of the first have come.
    reduces : bool
        Whether anything is reduced.

    Raises
    ------
    InputError
        There are too many messages.

    Examples
    --------
    >>> import numpy as np
    >>> windowed_ps(np.full((3, 2), 100), 1, 10, 0, rounds=1, reduces=False)
    230
    """
    peers = delay.shape[1]
    if (delay == delay[0]).all():
        delay = delay[:1]  # all are alike: what one sends it may as well receive
    nodes = len(delay)
    total = rounds * peers
    if nodes * total > _MOST_MESSAGES:
        what = f"{nodes * total} messages of a direct collective with a window"
        raise InputError(what, hint="take direct without a window, or ring")
    each = [_Node() for _ in range(nodes)]
    # For each NPU and source: when messages came before they were expected, and how many are expected.
    early: dict[tuple[int, int], deque[int]] = {}
    expected: dict[tuple[int, int], int] = {}
    events: list[tuple[int, int, int, int, int]] = []
    count = 0
    end = 0

    def put(time: int, kind: int, node: int, peer: int) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (time, count, kind, node, peer))

    def insert(now: int, node: int) -> None:
        one = each[node]
        if one.plain == 0 and one.reduced == 0:
            one.plain = one.reduced = window
            one.toggle = 1 - one.toggle
        cost = 0
        if one.plain > 0:
            one.plain -= 1
        else:
            one.reduced -= 1
            if reduces and (rounds == 1 or one.toggle == 1):
                cost = reduce_ps
        one.inserted += 1
        put(now + endpoint_ps + cost, 0, node, 0)

    def ready(now: int, node: int) -> None:
        one = each[node]
        if one.inserted == one.sent or one.sent == total or one.free == 0:
            return
        step = one.sent % peers
        one.sent += 1
        one.free -= 1
        target = (node + step + 1) % nodes
        put(now + int(delay[target, step]), 1, target, step)
        if early.get((node, step)):
            early[node, step].popleft()
            put(now, 2, node, step)
        else:
            expected[node, step] = expected.get((node, step), 0) + 1

    for node in range(nodes):
        for _ in range(window):
            insert(0, node)
    while events:
        now, _, kind, node, peer = heapq.heappop(events)
        one = each[node]
        if kind == 1 and not expected.get((node, peer)):
            early.setdefault((node, peer), deque()).append(now)
        elif kind:
            if kind == 1:
                expected[node, peer] -= 1
            one.received += 1
            insert(now, node)
        else:
            one.free += 1
            turns = 1
            if rounds == 2 and total - one.sent <= peers:
                turns = 0 if one.received < peers else window
            for _ in range(turns):
                ready(now, node)
            if one.sent == total and one.free == window:
                end = now
    return end
