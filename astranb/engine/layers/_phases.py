"""How long a chunk takes in one dimension: steps of a collective among NPUs that begin together.

In ASTRA-sim 1.0 no link is ever busy, and a chunk goes on to its next phase when all NPUs have
ended the last one. So a phase's time depends on nothing but its own figures, and is worked out
once: by recurrences over the NPUs of the dimension, in picoseconds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.workload.astrasim1._network import HierarchicalNetwork
from astranb.workload.astrasim1._system import Algorithm, System

from ._congested import check_congested, congested_ps
from ._tables import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER
from ._window import windowed_ps

__all__ = ["Phases", "Timing"]

_NAMES: Final = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
_MOST_NODES_AT_ONCE: Final = 2048
_MOST_STEPS: Final = 2_000_000_000
_MOST: Final = 1 << 61


class Timing(NamedTuple):
    """A phase.

    Parameters
    ----------
    duration_ps : int
    last_ps : int
        What the endpoint's last act takes: of two phases that end at one instant, the one whose
        last act began first is over first.
    message_ps : int
        What the last message takes; tells apart what the endpoint's act does not.
    final_bytes : int
        What the next phase begins with.
    sent : tuple of int
        Bytes that NPU 0 sends into each dimension of the network.
    """

    duration_ps: int
    last_ps: int
    message_ps: int
    final_bytes: int
    sent: tuple[int, ...]


class Phases:
    """Works phases out, each once.

    Parameters
    ----------
    network : HierarchicalNetwork
    system : System
    congested : bool
        Whether messages wait for one another on links.
    """

    def __init__(self, network: HierarchicalNetwork, system: System, *, congested: bool = False) -> None:
        if congested:
            check_congested(network, system)
        self._network, self._system, self._congested = network, system, congested
        self._known: dict[tuple[Algorithm, int, int, int, int, int], Timing] = {}
        self._endpoint_ps = system.endpoint_ns * 1000

    def timing(
        self, algorithm: Algorithm, collective: int, nodes: int, stride: int, size: int, tree: int = 0
    ) -> Timing:
        """Give a phase's figures.

        Parameters
        ----------
        algorithm : Algorithm
        collective : int
            What the phase does.
        nodes, stride : int
            NPUs of the dimension, and from one to the next, in ranks.
        size : int
            Bytes that each NPU begins with.
        tree : int
            Which of two binary trees.

        Raises
        ------
        InputError
            The algorithm cannot do it.
        """
        key = (algorithm, collective, nodes, stride, size, tree)
        if key not in self._known:
            self._check(algorithm, collective, nodes)
            if 4 * size * nodes > _MOST:
                what = f"{size} bytes of each of {nodes} NPUs"
                raise InputError(what, where=self._system.where, hint="take a smaller size or --comm-scale")
            ids = np.arange(nodes, dtype=np.int64) * stride
            steps = {
                "ring": self._ring,
                "direct": self._direct,
                "halvingDoubling": self._halving,
                "doubleBinaryTree": self._tree,
            }[algorithm.name]
            window = algorithm.window if algorithm.name == "direct" else tree
            timing = steps(ids, collective, size, window)
            if self._congested:
                shape = (nodes, stride)
                took = congested_ps(self._network, self._system, algorithm, collective, shape, size)
                timing = timing._replace(duration_ps=took)
            if timing.duration_ps > _MOST:
                what = f"{_NAMES[collective]} of {size} bytes takes weeks"
                raise InputError(what, where=self._system.where, hint="correct the network's bandwidth")
            self._known[key] = timing
        return self._known[key]

    def _check(self, algorithm: Algorithm, collective: int, nodes: int) -> None:
        name, where = algorithm.name, self._system.where
        if name in ("halvingDoubling", "doubleBinaryTree") and nodes & (nodes - 1):
            raise InputError(
                f"{name} needs a power of two of NPUs, not {nodes}", where=where, hint="take ring or direct"
            )
        if name == "halvingDoubling" and collective == ALL_TO_ALL:
            raise InputError(f"{name} does no all-to-all", where=where, hint="take ring or direct")
        if name == "direct" and nodes > _MOST_NODES_AT_ONCE:
            what = f"direct among {nodes} NPUs, more than {_MOST_NODES_AT_ONCE}"
            raise InputError(what, where=where, hint="take ring or halvingDoubling")

    def _reduce_ps(self, size: int) -> int:
        """Two reads and a write of a memory of 500,000 bytes a nanosecond."""
        if self._network.compat:
            return 3 * (size // 500_000) * 1000
        return (3 * size + 250) // 500

    def _sent(self, peers: np.ndarray, sizes: np.ndarray) -> tuple[int, ...]:
        """What NPU 0 sends, by dimension of the network."""
        dims = self._network.last_dim(np.zeros_like(peers), peers)
        return tuple(int(sizes[dims == dim].sum()) for dim in range(len(self._network.units)))

    def _final(self, collective: int, nodes: int, size: int) -> int:
        if collective == ALL_GATHER:
            return size * nodes
        return size // nodes if collective == REDUCE_SCATTER else size

    def _exchange(
        self, ids: np.ndarray, partners: list[np.ndarray], sizes: list[int], reduced: list[int]
    ) -> tuple[int, int, int]:
        """Work out a chain of steps: each NPU sends when it has what the step before gave it.

        Parameters
        ----------
        ids : ndarray
            Ranks.
        partners : list of ndarray
            For each step, the index that each NPU receives from.
        sizes : list of int
            Bytes of each step's messages.
        reduced : list of int
            Picoseconds of the reduction after each step.
        """
        if len(sizes) * len(ids) > _MOST_STEPS:
            what = f"{len(sizes)} steps among {len(ids)} NPUs that are not equally far apart"
            raise InputError(what, where=self._system.where, hint="take a ring in each dimension")
        at = np.full(len(ids), self._endpoint_ps, np.int64)
        delay = np.zeros(1, np.int64)
        known: dict[tuple[int, int], np.ndarray] = {}
        for source, size, extra in zip(partners, sizes, reduced, strict=True):
            key = (id(source), size)
            if key not in known:
                known[key] = self._network.delay_ps(ids[source], ids, size)
            delay = known[key]
            if (int(delay.max()) + self._endpoint_ps + extra) * len(sizes) > _MOST:
                raise InputError(
                    "a collective takes weeks", where=self._system.where, hint="correct the network"
                )
            at = np.maximum(at[source] + delay, at) + self._endpoint_ps + extra
        last = reduced[-1] or self._endpoint_ps
        return int(at.max()), last, int(delay.max())

    def _ring(self, ids: np.ndarray, collective: int, size: int, _window: int) -> Timing:
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
        return Timing(*chain, self._final(collective, nodes, size), sent)

    def _halving(self, ids: np.ndarray, collective: int, size: int, _window: int) -> Timing:
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
                # The peer charges the size that goes out next, and the last step nothing.
                costs[step] = self._reduce_ps(sizes_after[step] if self._network.compat else sizes[step])
        index = np.arange(nodes)
        chain = self._exchange(ids, [index ^ offset for offset in offsets], sizes, costs)
        sent = self._sent(ids[np.array(offsets)], np.array(sizes))
        return Timing(*chain, self._final(collective, nodes, size), sent)

    def _direct(self, ids: np.ndarray, collective: int, size: int, window: int) -> Timing:
        nodes, endpoint = len(ids), self._endpoint_ps
        message = size if collective == ALL_GATHER else size // nodes
        rounds = 2 if collective == ALL_REDUCE else 1
        extra = self._reduce_ps(message) if collective in (ALL_REDUCE, REDUCE_SCATTER) else 0
        ahead = np.arange(1, nodes)
        index = np.arange(nodes)[:, None]
        # Column k: from and to the NPU k + 1 places behind and before.
        delay = self._network.delay_ps(ids[(index - ahead) % nodes], ids[index], message)
        sent = self._sent(ids[1:], np.full(nodes - 1, rounds * message))
        final = self._final(collective, nodes, size)
        if 0 < window < nodes - 1:
            reduces = collective in (ALL_REDUCE, REDUCE_SCATTER)
            duration = windowed_ps(delay, window, endpoint, extra, rounds=rounds, reduces=reduces)
            return Timing(duration, endpoint, int(delay.max()), final, sent)
        arrived = endpoint + delay
        passed = np.sort(arrived + endpoint + extra, axis=1)
        if rounds == 1:
            return Timing(int(passed.max()), extra or endpoint, int(delay.max()), final, sent)
        # The second round begins when all messages of the first have come, as each has passed.
        all_in = arrived.max(axis=1, keepdims=True)
        first = np.where(passed >= all_in, passed, passed.max()).min(axis=1, keepdims=True)
        begun = np.maximum(passed, first)
        source = (index - ahead) % nodes
        came = np.maximum(begun[source, np.arange(nodes - 1)] + delay, begun)
        return Timing(int(came.max()) + endpoint, endpoint, int(delay.max()), final, sent)

    def _tree(self, ids: np.ndarray, _collective: int, size: int, tree: int) -> Timing:
        """One of two binary trees: the whole chunk goes up, reduced on the way, and down again."""
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
                came = ready + delay(node, child) + endpoint
                down(child, came + (extra if children[child] else 0))

        down(root, up(root))
        own = children[0]
        peers = [*own, *([next(n for n, c in children.items() if 0 in c)] if root != 0 else [])]
        sent = self._sent(ids[np.array(peers)], np.full(len(peers), size))
        return Timing(max(ends), endpoint, delay(root, children[root][0]), size, sent)
