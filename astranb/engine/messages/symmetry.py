"""Symmetry: of ranks that do the same at the same time, one is simulated and represents all.

Ranks are sorted into classes, as in the refinement of a graph's colours: at first ranks with the same
operations are alike; then those are that, in each group and as each peer, have ranks of the same classes
at the same distance in the network; and so on, until no class divides any more. In a run of all ranks,
those of a class do the same at the same time: what one of them sends to a rank of another class, each of
them sends to one rank of that class, which takes as long, and each rank of that class gets one. The proof
is by induction over the events. So the first rank of each class is simulated, and gets the message that
would be sent to another rank of its class. For a translation of ranks that maps groups to groups the classes
are its orbits, but no such map has to be found or believed.

What a class needs beside:

- no resource that several NPUs share: no shared memory, with congestion only links with one sender, and not
  halving and doubling beside algorithms whose messages meet it on some NPUs' links only;
- no shared bus: with messages of a byte over links of 1e9 GB/s, a folded run ended in another state;
- algorithms whose messages go by distance: ring, direct, halving and doubling (of a power of two); not
  trees, not collectives with a root or in a switch;
- peers with larger and with smaller ranks are different: at one time ranks are handled in their order. Among
  the ranks of a collective that order differs; where it could matter the run is given up (:mod:`.ties`).

Collectives of all ranks, and those that name dimensions, go along the dimensions of the network, which has to
look the same from each rank; all begin the chunks of a dimension in one order. Where ranks differ, as where
160 heads are divided over 128 of them, neighbours are those along each dimension.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records
from astranb.net import FULLY_CONNECTED, MESH, RING, SWITCH
from astranb.workload.astrasim2 import DimensionNetwork, RankOperations, Workload

from . import tables as t
from .fold import Fold
from .implementations import distances, group_algorithm, group_shapes, implementations_of
from .network import dimensions_of
from .operation_tables import Chosen, group_rows

__all__ = ["find_fold"]

_MOST_EDGES: Final = 1 << 22
_TAGS: Final = t.NATIVE_TAGS // 1_000_000
"""Groups whose numbers differ by this have the same tags."""


def find_fold(workload: Workload, *, congestion: bool) -> Fold | None:
    """Find ranks that represent all others; None where there are none, or only few others.

    Parameters
    ----------
    workload : Workload
    congestion : bool
        Whether messages queue on links.

    Raises
    ------
    InputError
        A rank names a group that is not described, or in which it is not.
    """
    network, system = workload.network, workload.system
    if not isinstance(network, DimensionNetwork) or system.speeds or len(workload.operations) != network.npus:
        return None
    if system.bus is not None:
        return None
    ranks = RankOperations.of(workload.operations)
    if len(ranks) < 2 * len(ranks.patterns) or any(one.custom for one in ranks.patterns):
        return None
    kinds = np.concatenate([np.unique(one.rows["kind"]) for one in ranks.patterns])
    if workload.memory.shared_by(network.npus) > 0 and (kinds == t.MEMORY).any():
        return None
    return _Classes(workload, ranks, congestion=congestion).fold()


class _Classes:
    """The ranks of a workload, sorted into classes."""

    def __init__(self, workload: Workload, ranks: RankOperations, *, congestion: bool) -> None:
        self.workload, self.ranks, self.congestion = workload, ranks, congestion
        self.npus = len(ranks)
        counts = list(workload.network.npus_count)
        self.dims = len(counts)
        self.implementations = implementations_of(workload.system, counts, self.npus)
        self.groups = list(workload.groups.items())
        self.outer, _ = group_shapes([members for _, members in self.groups], counts)
        self.rows = group_rows(ranks, workload.groups, self.npus)
        self.everyone = np.arange(self.npus)
        self.wholes: set[int] = set()  # collectives of all ranks
        self.edges: list[tuple[np.ndarray, np.ndarray]] = []  # of some ranks: ranks, and the rank of each
        self.constant: list[np.ndarray] = []  # what distinguishes ranks from the start
        assert isinstance(workload.network, DimensionNetwork)  # noqa: S101 - checked by the caller
        self.table = dimensions_of(workload.network, compat=workload.compat)

    def fold(self) -> Fold | None:
        """Sort the ranks; None where too few represent others."""
        if not (self._group_edges() and self._peer_edges()):
            return None
        local = bool(self.edges)
        if self.congestion and local:
            return None
        if sum(len(ranks) for ranks, _ in self.edges) > _MOST_EDGES:
            return None
        sorted_ones = self._refined()
        if sorted_ones is not None and self.wholes and sorted_ones[0].any():
            if self.congestion or not self._dimension_edges():
                return None
            sorted_ones = self._refined()
        if sorted_ones is None:
            return None
        colour, group_colour = sorted_ones
        first = np.unique(colour, return_index=True)[1]
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first, npu = first[order], place[colour]
        if not self._evenly(first, npu) or (self.wholes and not self._whole_folds()):
            return None
        groups = self._numbered(first, group_colour)
        if groups is None or self._ambiguous():
            return None
        send, receive = (label[first] << t.AWAY_BITS for label in self.labels)
        rows, listed = groups
        return Fold(self.ranks, Chosen(first, rows, send, receive), listed, npu, self.rows)

    # What ranks have to do with each other ------------------------------------

    def _group_edges(self) -> bool:
        """Join the ranks of each group that may send to each other; False: they cannot be folded."""
        members = [np.asarray(members, np.int64) for _, members in self.groups]
        for pattern, one in enumerate(self.ranks.patterns):
            mine = self.everyone[self.ranks.pattern == pattern]
            rows = one.rows[one.rows["kind"] == t.COLLECTIVE]
            if (rows["collective"] >= t.BROADCAST).any():
                return False
            joined = set()
            pairs = np.unique(np.stack([rows["group"], rows["collective"]]), axis=1).T
            for at, collective in pairs.tolist():
                row = self.rows[mine, at] if at >= 0 else np.full(len(mine), -1)
                if (row < 0).any():
                    self.wholes.add(collective)
                some = mine[row >= 0]
                outer = self.outer[row[row >= 0]]
                self._constant(some, outer)
                for dim in np.unique(outer).tolist():
                    algorithm = group_algorithm(
                        self.implementations, self.dims, collective, dim, compat=self.workload.compat
                    )
                    if (at, algorithm, dim) not in joined:
                        joined.add((at, algorithm, dim))
                        those = some[outer == dim]
                        if not self._join(those, self.rows[those, at], members, algorithm):
                            return False
        return True

    def _join(self, some: np.ndarray, rows: np.ndarray, members: list[np.ndarray], algorithm: int) -> bool:
        """Join ranks with those of their groups to which an algorithm sends, and from which it receives."""
        if algorithm not in (t.RING_STEPS, t.DIRECT, t.HALVING):
            return False
        size = np.array([len(members[row]) for row in rows.tolist()])
        for count in np.unique(size).tolist():
            if algorithm == t.HALVING and count & (count - 1):
                return False
            away = distances(algorithm, count)
            of, which = np.unique(rows[size == count], return_inverse=True)
            if 2 * len(away) * len(which) > _MOST_EDGES:
                return False
            table = np.stack([members[row] for row in of.tolist()])
            mine = some[size == count]
            at = np.argmax(table[which] == mine[:, None], axis=1)
            self._constant(mine, np.full(len(mine), count))
            for distance in away:
                if algorithm == t.HALVING:
                    self._edge(mine, table[which, at ^ distance])
                else:
                    self._edge(mine, table[which, (at + distance) % count])
                    self._edge(mine, table[which, (at - distance) % count])
        return True

    def _dimension_edges(self) -> bool:
        """Join ranks with those to which collectives along dimensions let them send; False: too many."""
        stride = 1
        for dim, nodes in enumerate(self.workload.network.npus_count):
            at = self.everyone // stride % nodes
            rows = [self.implementations[collective * self.dims + dim] for collective in self.wholes]
            for algorithm in {int(row.algorithm) for row in rows if nodes > 1 and row.algorithm >= 0}:
                away = distances(algorithm, nodes)
                if 2 * len(away) * self.npus > _MOST_EDGES:
                    return False
                for distance in away:
                    halving = algorithm == t.HALVING  # of a power of two
                    for neighbour in (at ^ distance,) if halving else (at + distance, at - distance):
                        self._edge(self.everyone, self.everyone + (neighbour % nodes - at) * stride)
            stride *= nodes
        return True

    def _peer_edges(self) -> bool:
        """Join ranks with those that they send to or receive from; False: a message has no end."""
        peers = self.ranks.peers
        labels = np.zeros((2, *peers.shape), np.int64)
        used = np.zeros(peers.shape, bool)
        for pattern, (_, positions) in enumerate(self.ranks.used):
            used[np.ix_(self.ranks.pattern == pattern, positions)] = True
        self.labels = labels
        ranks, at = np.nonzero(used)
        partner = peers[ranks, at]
        # A peer may have several positions: the first one distinguishes its messages from the others.
        pairs, first, which = np.unique(ranks * self.npus + partner, return_index=True, return_inverse=True)
        back = partner * self.npus + ranks
        found = np.searchsorted(pairs, back)
        if len(pairs) and (pairs[np.minimum(found, len(pairs) - 1)] != back).any():
            return False
        labels[0][ranks, at], labels[1][ranks, at] = at[first[found]], at[first[which]]
        for position in np.unique(at).tolist():
            some = self.everyone[used[:, position]]
            others = peers[some, position]
            self._constant(some, 2 * labels[0][some, position] + (others > some))
            self._edge(some, others)
        return True

    def _edge(self, ranks: np.ndarray, others: np.ndarray) -> None:
        self.edges.append((ranks, others))
        self._constant(ranks, _distance(self.table, ranks, others, directed=not self.workload.compat))

    def _constant(self, ranks: np.ndarray, values: np.ndarray) -> None:
        column = np.full(self.npus, -1, np.int64)
        column[ranks] = values
        self.constant.append(column)

    # Classes -------------------------------------------------------------------

    def _refined(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Divide classes until ranks of one have alike neighbours; returns classes of ranks and of groups."""
        colour = _sorted_rows([self.ranks.pattern, *(self.rows >= 0).T.astype(np.int64), *self.constant])
        known = (0, 0)
        while True:
            group_colour = self._group_colours(colour)
            found = (int(colour.max()) + 1, int(group_colour.max(initial=-1)) + 1)
            if 2 * found[0] > self.npus:
                return None
            if found == known:
                return colour, group_colour
            known = found
            columns = [colour]
            for ranks, others in self.edges:
                column = np.full(self.npus, -1, np.int64)
                column[ranks] = colour[others]
                columns.append(column)
            named = np.append(group_colour, -1)
            columns += [named[self.rows[:, at]] for at in range(self.rows.shape[1])]
            colour = _sorted_rows(columns)

    def _group_colours(self, colour: np.ndarray) -> np.ndarray:
        """Sort the groups by the classes of their ranks, and by what these call them."""
        count, (ranks, at) = len(self.groups), np.nonzero(self.rows >= 0)
        row = self.rows[ranks, at]
        what = colour[ranks] * self.rows.shape[1] + at
        order = np.lexsort((what, row))
        row, what = row[order], what[order]
        found = np.full(count, -1, np.int64)
        known: dict[bytes, int] = {}
        edges = np.searchsorted(row, np.arange(count + 1))
        for group in np.unique(row).tolist():
            key = what[edges[group] : edges[group + 1]].tobytes()
            found[group] = known.setdefault(key, len(known))
        return found

    def _evenly(self, first: np.ndarray, npu: np.ndarray) -> bool:
        """Return whether each rank that does something represents as many."""
        empty = np.array([len(one.rows) == 0 for one in self.ranks.patterns])[self.ranks.pattern[first]]
        counts = np.bincount(npu)[~empty]
        return bool(len(counts) and counts.min() == counts.max())

    def _whole_folds(self) -> bool:
        """Return whether collectives of all ranks look the same from each."""
        workload, system = self.workload, self.workload.system
        network = workload.network
        assert isinstance(network, DimensionNetwork)  # noqa: S101 - checked by the caller
        shapes = set(network.shapes)
        if not shapes <= {RING, FULLY_CONNECTED, SWITCH}:
            return False
        used = [row for number, row in system.algorithms.items() if number in self.wholes]
        each = [algorithm for row in used for algorithm in row]
        if any(a.number in (t.TREE, t.IN_NETWORK) or (a.whole and self.dims > 1) for a in each):
            return False
        # Of halving and doubling half of the NPUs send ahead by the port by which the others send back.
        ports = not (self.congestion or workload.compat)
        for row in used:
            for algorithm, shape, nodes in zip(row, network.shapes, network.npus_count, strict=False):
                odd = bool(nodes & (nodes - 1)) or (ports and shape != SWITCH)
                if algorithm.number == t.HALVING and odd:
                    return False
        if self.congestion and system.queues > 1:
            # Two messages at once to the same NPU: their order at one time is not the same for all.
            return False
        if self.congestion:
            if system.rendezvous:  # messages in the other direction use links of other NPUs
                return False
            if len({a.number == t.HALVING for a in each}) > 1:
                # A ring shares rank 0's link to rank 1 with halving, which sends from rank 1 to rank 0.
                return False
            neighbours = all(a.number == t.RING_STEPS for a in each)
            return self.dims == 1 and (shapes == {FULLY_CONNECTED} or neighbours)
        return True

    # What tells messages apart --------------------------------------------------

    def _numbered(
        self, first: np.ndarray, colours: np.ndarray
    ) -> tuple[np.ndarray, list[tuple[int, list[int]]]] | None:
        """Number the groups of the ranks that are simulated: alike groups have one number."""
        rows = np.full((len(first), self.rows.shape[1]), -1, np.int64)
        listed: list[tuple[int, list[int]]] = []
        if colours.max(initial=-1) + 1 >= _TAGS:
            return None
        for npu, rank in enumerate(first.tolist()):
            mine = self.rows[rank]
            used = np.unique(mine[mine >= 0])
            if len(np.unique(colours[used])) < len(used):
                return None  # two groups of a rank would have the same messages
            made = {}
            for row in used.tolist():
                made[row] = len(listed)
                listed.append((1 + int(colours[row]), list(self.groups[row][1])))
            for at, row in enumerate(mine.tolist()):
                if row >= 0:
                    rows[npu, at] = made[row]
        return rows, listed

    def _ambiguous(self) -> bool:
        """Return whether two groups of two ranks have equal tags: which message is whose is then chance."""
        number = np.array([number for number, _ in self.groups], np.int64) % _TAGS
        if self.wholes and (number[np.unique(self.rows[self.rows >= 0])] == 0).any():
            return True
        for one in range(self.rows.shape[1]):
            for other in range(one):
                a, b = self.rows[:, one], self.rows[:, other]
                shared = np.flatnonzero((a >= 0) & (b >= 0) & (a != b))
                clash = shared[number[a[shared]] == number[b[shared]]]
                for first, second in set(zip(a[clash].tolist(), b[clash].tolist(), strict=True)):
                    if len(set(self.groups[first][1]) & set(self.groups[second][1])) > 1:
                        return True
        return False


def _sorted_rows(columns: list[np.ndarray]) -> np.ndarray:
    """Number the different rows of some columns."""
    found = columns[0]
    for column in columns[1:]:
        low = column.min()
        wide = found * (int(column.max()) - int(low) + 1) + (column - low)
        found = np.unique(wide, return_inverse=True)[1]
    return np.unique(found, return_inverse=True)[1]


def _distance(dims: Records, ranks: np.ndarray, others: np.ndarray, *, directed: bool) -> np.ndarray:
    """Number the distances of ranks: those of two pairs are the same if they are in each dimension.

    If ``directed``, it counts too by which of its ends an NPU sends: in rings and meshes there are two of
    them, and where all are connected, one to each other.
    """
    found = np.zeros(len(ranks), np.int64)
    for dim in dims:
        here, target = (each // dim.stride % dim.nodes for each in (ranks, others))
        hops, ahead = (here != target).astype(np.int64), (target - here) % dim.nodes
        if dim.kind == MESH:
            hops = target - here if directed else np.abs(target - here)
        elif dim.kind != SWITCH and directed:
            hops = ahead
        elif dim.kind == RING:
            hops = np.minimum(ahead, dim.nodes - ahead)
        found = found * 2 * dim.nodes + hops
    return found
