"""The duration of a chunk's phase: a collective among the NPUs of one dimension.

In ASTRA-sim 1.0 links are never busy, and a chunk enters its next phase when all NPUs have ended the
last one. So a phase's duration depends only on its own inputs and is computed once: by recurrences
over the NPUs of the dimension, in picoseconds. With congestion, one chunk at a time is simulated on
ASTRA-sim 2.0's congestion-aware network: a dimension's links are its own, so chunks never meet.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.workload.astrasim1 import HierarchicalNetwork, LayerAlgorithm, LayerSystem

from .tables import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER

__all__ = ["PhaseTime", "PhaseTimes"]

_NAMES: Final = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
_MOST_NODES_AT_ONCE: Final = 2048
_MOST_STEPS: Final = 2_000_000_000
_MOST_MESSAGES: Final = 2_000_000
_MOST: Final = 1 << 61


class PhaseTime(NamedTuple):
    """Duration and sizes of a phase.

    Parameters
    ----------
    duration_ps : int
    last_ps : int
        The last endpoint delay: of two phases that end at the same time, the one whose last
        endpoint delay began first is handled first.
    message_ps : int
        Time of the last message; orders phases whose last endpoint delays are equal.
    final_bytes : int
        Size with which the next phase begins.
    sent : tuple of int
        Bytes that NPU 0 sends into each dimension of the network.
    """

    duration_ps: int
    last_ps: int
    message_ps: int
    final_bytes: int
    sent: tuple[int, ...]


class PhaseTimes:
    """Computes the duration of phases, each once.

    Parameters
    ----------
    network : HierarchicalNetwork
    system : LayerSystem
    congestion : bool
        Messages wait for busy links.
    """

    def __init__(
        self, network: HierarchicalNetwork, system: LayerSystem, *, congestion: bool = False
    ) -> None:
        if congestion:
            _check_congestion(network, system)
        self._network, self._system, self._congestion = network, system, congestion
        self._known: dict[tuple[LayerAlgorithm, int, int, int, int, int], PhaseTime] = {}
        self._endpoint_ps = system.endpoint_ns * 1000

    def time(
        self, algorithm: LayerAlgorithm, collective: int, nodes: int, stride: int, size: int, tree: int = 0
    ) -> PhaseTime:
        """Return a phase's duration and sizes.

        Parameters
        ----------
        algorithm : LayerAlgorithm
        collective : int
            The phase's collective.
        nodes, stride : int
            Number of NPUs of the dimension, and the distance between neighbours in ranks.
        size : int
            Bytes with which each NPU begins.
        tree : int
            0 or 1: which of two binary trees.

        Raises
        ------
        InputError
            The algorithm does not support the collective or the number of NPUs.
        """
        key = (algorithm, collective, nodes, stride, size, tree)
        if key not in self._known:
            self._check(algorithm, collective, nodes)
            if 4 * size * nodes > _MOST:
                what = f"{size} bytes on each of {nodes} NPUs"
                raise InputError(what, where=self._system.where, hint="use a smaller size or --comm-scale")
            ids = np.arange(nodes, dtype=np.int64) * stride
            steps = {
                "ring": self._ring,
                "direct": self._direct,
                "halvingDoubling": self._halving,
                "doubleBinaryTree": self._tree,
            }[algorithm.name]
            window = algorithm.window if algorithm.name == "direct" else tree
            found = steps(ids, collective, size, window)
            if self._congestion:
                shape = (nodes, stride)
                duration = _congested_ps(self._network, self._system, algorithm, collective, shape, size)
                found = found._replace(duration_ps=duration)
            if found.duration_ps > _MOST:
                what = f"{_NAMES[collective]} of {size} bytes takes weeks"
                raise InputError(what, where=self._system.where, hint="correct the network's bandwidth")
            self._known[key] = found
        return self._known[key]

    def _check(self, algorithm: LayerAlgorithm, collective: int, nodes: int) -> None:
        name, where = algorithm.name, self._system.where
        if name in ("halvingDoubling", "doubleBinaryTree") and nodes & (nodes - 1):
            raise InputError(
                f"{name} needs a power of two of NPUs, not {nodes}", where=where, hint="use ring or direct"
            )
        if name == "halvingDoubling" and collective == ALL_TO_ALL:
            raise InputError(f"{name} does not support all-to-all", where=where, hint="use ring or direct")
        if name == "direct" and nodes > _MOST_NODES_AT_ONCE:
            what = f"direct among {nodes} NPUs, more than {_MOST_NODES_AT_ONCE}"
            raise InputError(what, where=where, hint="use ring or halvingDoubling")

    def _reduce_ps(self, size: int) -> int:
        """Return the time of two reads and a write at 500,000 bytes per nanosecond."""
        if self._network.compat:
            return 3 * (size // 500_000) * 1000
        return (3 * size + 250) // 500

    def _sent(self, peers: np.ndarray, sizes: np.ndarray) -> tuple[int, ...]:
        """Return the bytes that NPU 0 sends into each dimension of the network."""
        dims = self._network.last_dim(np.zeros_like(peers), peers)
        return tuple(int(sizes[dims == dim].sum()) for dim in range(len(self._network.units)))

    def _final(self, collective: int, nodes: int, size: int) -> int:
        if collective == ALL_GATHER:
            return size * nodes
        return size // nodes if collective == REDUCE_SCATTER else size

    def _exchange(
        self, ids: np.ndarray, partners: list[np.ndarray], sizes: list[int], reduced: list[int]
    ) -> tuple[int, int, int]:
        """Compute a chain of steps: each NPU sends when it has received the message of the step before.

        Parameters
        ----------
        ids : ndarray
            Ranks.
        partners : list of ndarray
            For each step the indices from which the NPUs receive.
        sizes : list of int
            Bytes of each step's messages.
        reduced : list of int
            Duration of the reduction after each step.
        """
        if len(sizes) * len(ids) > _MOST_STEPS:
            what = f"{len(sizes)} steps among {len(ids)} NPUs at different distances"
            raise InputError(what, where=self._system.where, hint="use a ring in each dimension")
        at = np.full(len(ids), self._endpoint_ps, np.int64)
        delay = np.zeros(1, np.int64)
        known: dict[tuple[int, int], np.ndarray] = {}
        for source, size, extra in zip(partners, sizes, reduced, strict=True):
            key = (id(source), size)
            if key not in known:
                known[key] = self._network.delay_ps(ids[source], ids, size)
            delay = known[key]
            if (int(delay.max()) + self._endpoint_ps + extra) * len(sizes) > _MOST:
                hint = "correct the network's bandwidth"
                raise InputError("a collective takes weeks", where=self._system.where, hint=hint)
            at = np.maximum(at[source] + delay, at) + self._endpoint_ps + extra
        last = reduced[-1] or self._endpoint_ps
        return int(at.max()), last, int(delay.max())

    def _ring(self, ids: np.ndarray, collective: int, size: int, _window: int) -> PhaseTime:
        nodes = len(ids)
        message = size if collective == ALL_GATHER else size // nodes
        steps = {ALL_REDUCE: 2 * (nodes - 1), ALL_TO_ALL: nodes * (nodes - 1) // 2}.get(collective, nodes - 1)
        reductions = nodes - 1 if collective in (ALL_REDUCE, REDUCE_SCATTER) else 0
        before = np.roll(np.arange(nodes), 1)
        extra = self._reduce_ps(message)
        delay = self._network.delay_ps(ids[before], ids, message)
        if (delay == delay[0]).all():
            step = int(delay[0]) + self._endpoint_ps
            duration = self._endpoint_ps + steps * step + reductions * extra
            last = extra if steps == reductions and extra else self._endpoint_ps
            chain = duration, last, int(delay[0])
        else:
            costs = [extra if step < reductions else 0 for step in range(steps)]
            chain = self._exchange(ids, [before] * steps, [message] * steps, costs)
        sent = self._sent(ids[1:2], np.array([steps * message]))
        return PhaseTime(*chain, self._final(collective, nodes, size), sent)

    def _halving(self, ids: np.ndarray, collective: int, size: int, _window: int) -> PhaseTime:
        nodes = len(ids)
        levels = nodes.bit_length() - 1
        offset, message = (nodes // 2, size) if collective == ALL_GATHER else (1, size // 2)
        doubling = collective == ALL_GATHER
        offsets, sizes = [], []
        for _ in range(2 * levels if collective == ALL_REDUCE else levels):
            offsets.append(offset)
            sizes.append(message)
            if doubling:
                offset, message = offset // 2, message * 2
            else:
                offset, message = offset * 2, message // 2
                if offset == nodes and collective == ALL_REDUCE:
                    doubling, offset, message = True, offset // 2, message * 2
        sizes_after = [*sizes[1:], message]
        costs = [0] * len(sizes)
        if collective in (ALL_REDUCE, REDUCE_SCATTER):
            for step in range(levels - 1 if self._network.compat else levels):
                # ASTRA-sim 1.0 charges the size that is sent next, and nothing for the last step.
                costs[step] = self._reduce_ps(sizes_after[step] if self._network.compat else sizes[step])
        index = np.arange(nodes)
        chain = self._exchange(ids, [index ^ offset for offset in offsets], sizes, costs)
        sent = self._sent(ids[np.array(offsets)], np.array(sizes))
        return PhaseTime(*chain, self._final(collective, nodes, size), sent)

    def _direct(self, ids: np.ndarray, collective: int, size: int, window: int) -> PhaseTime:
        nodes, endpoint = len(ids), self._endpoint_ps
        message = size if collective == ALL_GATHER else size // nodes
        rounds = 2 if collective == ALL_REDUCE else 1
        extra = self._reduce_ps(message) if collective in (ALL_REDUCE, REDUCE_SCATTER) else 0
        ahead = np.arange(1, nodes)
        index = np.arange(nodes)[:, None]
        # Column k: to each NPU (row) from the one k + 1 positions behind.
        delay = self._network.delay_ps(ids[(index - ahead) % nodes], ids[index], message)
        sent = self._sent(ids[1:], np.full(nodes - 1, rounds * message))
        final = self._final(collective, nodes, size)
        if 0 < window < nodes - 1:
            reduces = collective in (ALL_REDUCE, REDUCE_SCATTER)
            duration = _windowed_ps(delay, window, endpoint, extra, rounds=rounds, reduces=reduces)
            return PhaseTime(duration, endpoint, int(delay.max()), final, sent)
        arrived = endpoint + delay
        passed = np.sort(arrived + endpoint + extra, axis=1)
        if rounds == 1:
            return PhaseTime(int(passed.max()), extra or endpoint, int(delay.max()), final, sent)
        # The second round begins when all messages of the first have arrived.
        all_in = arrived.max(axis=1, keepdims=True)
        first = np.where(passed >= all_in, passed, passed.max()).min(axis=1, keepdims=True)
        begun = np.maximum(passed, first)
        source = (index - ahead) % nodes
        received = np.maximum(begun[source, np.arange(nodes - 1)] + delay, begun)
        return PhaseTime(int(received.max()) + endpoint, endpoint, int(delay.max()), final, sent)

    def _tree(self, ids: np.ndarray, _collective: int, size: int, tree: int) -> PhaseTime:
        """One of two binary trees: the chunk is reduced towards the root and broadcast from it."""
        nodes, endpoint, extra = len(ids), self._endpoint_ps, self._reduce_ps(size)
        root = 0 if tree else nodes - 1
        shift = 0 if tree else 1  # the other nodes are 1 .. n - 1 of a full tree
        children: dict[int, list[int]] = {root: [nodes // 2 - shift] if nodes > 1 else []}
        for number in range(1, nodes):
            half = (number & -number) // 2
            children[number - shift] = [number - half - shift, number + half - shift] if half else []

        def delay(a: int, b: int) -> int:
            return int(self._network.delay_ps(ids[a], ids[b], size))

        def up(node: int) -> int:
            if not children[node]:
                return endpoint
            return max(up(child) + delay(child, node) for child in children[node]) + endpoint + extra

        ends = []

        def down(node: int, ready: int) -> None:
            ends.append(ready)
            for child in children[node]:
                received = ready + delay(node, child) + endpoint
                down(child, received + (extra if children[child] else 0))

        down(root, up(root))
        own = children[0]
        peers = [*own, *([next(n for n, c in children.items() if 0 in c)] if root != 0 else [])]
        sent = self._sent(ids[np.array(peers)], np.full(len(peers), size))
        return PhaseTime(max(ends), endpoint, delay(root, children[root][0]), size, sent)


class _Progress:
    """Progress of an NPU."""

    __slots__ = ("free", "inserted", "plain", "received", "reduced", "sent", "toggle")

    def __init__(self) -> None:
        self.inserted = self.sent = self.free = self.received = 0
        self.plain = self.reduced = self.toggle = 0


def _windowed_ps(
    delay: np.ndarray, window: int, endpoint_ps: int, reduce_ps: int, *, rounds: int, reduces: bool
) -> int:
    """Return the duration of ``directN``: each NPU keeps N messages in flight.

    Parameters
    ----------
    delay : ndarray
        Picoseconds of a message to each NPU (row) from the one k + 1 places behind (column k).
    window : int
        Messages in flight, fewer than there are peers.
    endpoint_ps, reduce_ps : int
        Time of an endpoint for a message, and additional time if it is reduced.
    rounds : int
        2 for an all-reduce: the second begins when all messages of the first have arrived.
    reduces : bool
        Messages are reduced.

    Raises
    ------
    InputError
        There are too many messages.

    Examples
    --------
    >>> _windowed_ps(np.full((3, 2), 100), 1, 10, 0, rounds=1, reduces=False)
    230
    """
    peers = delay.shape[1]
    if (delay == delay[0]).all():
        delay = delay[:1]  # all NPUs are alike: one may send to itself
    nodes = len(delay)
    total = rounds * peers
    if nodes * total > _MOST_MESSAGES:
        what = f"{nodes * total} messages of a direct collective with a window"
        raise InputError(what, hint="use direct without a window, or ring")
    each = [_Progress() for _ in range(nodes)]
    # For each NPU and source: arrival times of messages not yet expected, and the number of expected ones.
    early: dict[tuple[int, int], deque[int]] = {}
    expected: dict[tuple[int, int], int] = {}
    events: list[tuple[int, int, int, int, int]] = []
    count = 0
    end = 0

    def schedule(time: int, kind: int, node: int, peer: int) -> None:
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
        schedule(now + endpoint_ps + cost, 0, node, 0)

    def send(now: int, node: int) -> None:
        one = each[node]
        if one.inserted == one.sent or one.sent == total or one.free == 0:
            return
        step = one.sent % peers
        one.sent += 1
        one.free -= 1
        target = (node + step + 1) % nodes
        schedule(now + int(delay[target, step]), 1, target, step)
        if early.get((node, step)):
            early[node, step].popleft()
            schedule(now, 2, node, step)
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
            sends = 1
            if rounds == 2 and total - one.sent <= peers:
                sends = 0 if one.received < peers else window
            for _ in range(sends):
                send(now, node)
            if one.sent == total and one.free == window:
                end = now
    return end


def _check_congestion(network: HierarchicalNetwork, system: LayerSystem) -> None:
    """Check that no dimension has several chunks at once, nor delays of NICs, routers or memory."""
    if system.active_chunks > 1 or system.queues > 1:
        what = "with congestion, one chunk at a time is simulated in each dimension"
        hint = "set active-chunks-per-dimension to 1, or use --fidelity analytical"
        raise InputError(what, where=system.where, hint=hint)
    for name in ("nic_ns", "router_ns", "hbm_scale"):
        if any(getattr(network, name)):
            what = f"the congestion-aware network does not simulate {name.replace('_', '-')}"
            raise InputError(what, where=network.where, hint="set it to 0, or use --fidelity analytical")


def _congested_ps(
    network: HierarchicalNetwork,
    system: LayerSystem,
    algorithm: LayerAlgorithm,
    collective: int,
    shape: tuple[int, int],
    size: int,
) -> int:
    """Return the duration of a phase of a whole dimension on ASTRA-sim 2.0's network, in picoseconds.

    The shape is the number of NPUs of the dimension, and the distance between neighbours in ranks.
    """
    from astranb.engine.messages import simulate
    from astranb.workload import astrasim2

    nodes, stride = shape
    if algorithm.whole or shape not in list(zip(network.units, network.strides, strict=True)):
        what = f"{nodes} NPUs are not a dimension of the network"
        hint = "with congestion, algorithms and model-parallel groups must use whole dimensions"
        raise InputError(what, where=system.where, hint=hint)
    dim = list(zip(network.units, network.strides, strict=True)).index((nodes, stride))
    word = algorithm.name + (str(algorithm.window) if algorithm.window > 0 else "")
    own = astrasim2.System.from_document(
        {
            "scheduling-policy": "LIFO",
            "endpoint-delay": system.endpoint_ns,
            "active-chunks-per-dimension": 1,
            "preferred-dataset-splits": 1,
            "local-mem-bw": 500_000,
            f"{_NAMES[collective]}-implementation": [word],
        },
        system.where,
    )
    links = astrasim2.DimensionNetwork(
        [network.topologies[dim]], [nodes], [network.link_bandwidth(dim)], [network.latency_ns[dim]]
    )
    operation = {"kind": astrasim2.COLLECTIVE, "collective": collective, "bytes": max(size, 1)}
    ranks = [astrasim2.Operations.of([operation])] * nodes
    result = simulate(astrasim2.Workload(ranks, links, own, compat=network.compat), congestion=True)
    return int(result.end_ns.max()) * 1000
