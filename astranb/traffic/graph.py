"""Messages and computations of all ranks with their dependencies: what a network simulator is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from astranb.core.arrays import flat_lists, offsets, reduce_at, row_order
from astranb.core.errors import InputError
from astranb.engine.messages import Run
from astranb.hardware import Gpu
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    InfraNetwork,
    Label,
    Operations,
    RecordedParts,
    System,
    Workload,
)

__all__ = ["KIND_NAMES", "NODE", "Label", "MessageGraph"]

NODE: Final = np.dtype(
    [
        ("rank", "i8"),
        ("kind", "i8"),  # COMPUTE, SEND or RECV
        ("peer", "i8"),  # the rank at the other end of a message; of a computation -1
        ("bytes", "i8"),  # of a message
        ("tag", "i8"),  # of a message: its receive has the same one
        ("duration_ps", "i8"),  # of a computation
        ("start_ps", "i8"),  # when it began in the run that was recorded; -1: not known
        ("match", "i8"),  # of a send the row of its receive, and the reverse; of a computation -1
        ("label", "i8"),  # row of the labels
        ("phase", "i8"),  # of a collective: which of its phases, -1: none
        ("chunk", "i8"),  # and which of its chunks
    ]
)
"""One node of a message graph."""

KIND_NAMES: Final = {COMPUTE: "compute", SEND: "send", RECV: "receive"}


@dataclass(frozen=True, eq=False)
class MessageGraph:
    """Messages and computations of all ranks with their dependencies.

    A node begins when all nodes that it waits for have ended. A computation ends after its duration,
    however many others its rank has under way. A send ends when its message has arrived, as an RDMA write
    that is acknowledged; a receive ends when its message has arrived and the receive itself has begun.
    Messages between two ranks with the same tag are received in the order in which they are sent.

    Parameters
    ----------
    ranks : int
    nodes : ndarray of NODE
        Ordered by rank.
    dep_start : ndarray of int64, shape (nodes + 1,)
        Where the list of each node begins in ``deps``.
    deps : ndarray of int64
        Rows, of the same rank, that a node waits for.
    labels : sequence of Label
    title : str
    assumptions : mapping of str to str
        What the graph rests on: machine, algorithms, sources of durations.

    Raises
    ------
    InputError
        A row, rank or label does not exist, or nodes are not ordered by rank.

    Examples
    --------
    >>> pair = MessageGraph.of(2, [
    ...     {"rank": 0, "kind": COMPUTE, "duration_ps": 5_000},
    ...     {"rank": 0, "kind": SEND, "peer": 1, "bytes": 4096},
    ...     {"rank": 1, "kind": RECV, "peer": 0, "bytes": 4096},
    ... ], [(), (0,), ()])
    >>> pair.nodes["match"].tolist(), pair.messages
    ([-1, 2, 1], 1)
    """

    subject: ClassVar = "model"

    ranks: int
    nodes: np.ndarray
    dep_start: np.ndarray
    deps: np.ndarray
    labels: Sequence[Label] = (Label(),)
    title: str = "traffic"
    assumptions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ranks: int,
        nodes: Iterable[Mapping[str, Any]],
        deps: Sequence[Sequence[int]] = (),
        labels: Sequence[Label] = (Label(),),
        **described: Any,
    ) -> MessageGraph:
        """Make a graph of a description of each node; sends and receives are matched.

        Parameters
        ----------
        ranks : int
        nodes : iterable of mapping
            Fields of :data:`NODE` by name, ordered by rank; the default is 0 (``peer``, ``start_ps``,
            ``phase`` and ``chunk``: -1).
        deps : sequence of sequence of int
            For each node the rows that it waits for.
        labels : sequence of Label
        **described
            ``title`` and ``assumptions``.

        Raises
        ------
        InputError
            A message is sent and not received, or the reverse.
        """
        listed = list(nodes)
        table = np.zeros(len(listed), NODE)
        for name in ("peer", "start_ps", "match", "phase", "chunk"):
            table[name] = -1
        for number, row in enumerate(listed):
            for name, value in row.items():
                table[number][name] = value
        lists = list(deps) or [()] * len(listed)
        start, flat = flat_lists(lists)
        return cls(ranks, matched(table), start, flat, labels, **described)

    def __post_init__(self) -> None:
        """Check that all numbers fit together."""
        nodes, count = self.nodes, len(self.nodes)
        where = self.title
        if len(self.dep_start) != count + 1 or int(self.dep_start[-1]) != len(self.deps):
            raise InputError("lists of dependencies do not fit the nodes", where=where)
        if count == 0:
            return
        ranks = nodes["rank"]
        if ranks[0] < 0 or ranks[-1] >= self.ranks or (np.diff(ranks) < 0).any():
            raise InputError(f"nodes are not ordered by rank, or not of {self.ranks} ranks", where=where)
        if len(self.deps) and (self.deps.min() < 0 or self.deps.max() >= count):
            raise InputError("a node waits for a node that does not exist", where=where)
        if (ranks[self.deps] != np.repeat(ranks, np.diff(self.dep_start))).any():
            raise InputError("a node waits for a node of another rank", where=where, hint="send a message")
        if not 0 <= nodes["label"].min() <= nodes["label"].max() < len(self.labels):
            raise InputError("a node has a label that does not exist", where=where)
        sends = nodes["kind"] != COMPUTE
        peers = nodes["peer"][sends]
        if len(peers) and not 0 <= peers.min() <= peers.max() < self.ranks:
            raise InputError(f"a message goes to a rank outside {self.ranks} ranks", where=where)

    @cached_property
    def first(self) -> np.ndarray:
        """Index of the first node of each rank, and the end of the last: int64, shape (ranks + 1,)."""
        return offsets(self.nodes["rank"], self.ranks)

    @cached_property
    def sends(self) -> np.ndarray:
        """The rows of sends, in order: the number of a message is its position here."""
        return np.flatnonzero(self.nodes["kind"] == SEND)

    @property
    def messages(self) -> int:
        """The number of messages."""
        return len(self.sends)

    @property
    def bytes(self) -> int:
        """The bytes of all messages."""
        return int(self.nodes["bytes"][self.sends].sum())

    def on(
        self,
        network: DimensionNetwork | InfraNetwork | None,
        gpu: str | Path | Gpu | None = None,
        *,
        by_lines: bool = False,
    ) -> Workload:
        """Return the workload that sends the messages over a network: pass the graph to a ``Simulation``.

        Each rank has one operation, a custom collective of its messages and computations: what begins when
        depends on the dependencies alone. Picoseconds are rounded up to nanoseconds.

        Parameters
        ----------
        network : DimensionNetwork or InfraNetwork
            With as many NPUs as there are ranks.
        gpu, by_lines
            Of no effect: computations have their durations.

        Raises
        ------
        InputError
            There is no network, or it has another number of NPUs.

        Examples
        --------
        >>> from astranb.engine.messages import simulate
        >>> pair = MessageGraph.of(2, [
        ...     {"rank": 0, "kind": SEND, "peer": 1, "bytes": 50_000},
        ...     {"rank": 1, "kind": RECV, "peer": 0, "bytes": 50_000},
        ... ])
        >>> simulate(pair.on(DimensionNetwork(["Ring"], [2], [50], [500]))).end_ns.tolist()
        [1500, 1500]
        """
        del gpu, by_lines
        used = require_ranks(self.ranks, network, self.title)
        operations = [self._operations(rank) for rank in range(self.ranks)]
        # A roofline says of computations without operations that they take no time.
        system = System.from_document(
            {"all-reduce-implementation": ["ring"], "roofline-enabled": 1}, "the replay"
        )
        return Workload(operations, used, system, title=self.title)

    def _operations(self, rank: int) -> Operations:
        """Return a rank's operation."""
        first, last = int(self.first[rank]), int(self.first[rank + 1])
        nodes = self.nodes[first:last]
        if not len(nodes):
            return Operations.of([])
        rows = np.zeros(len(nodes), Operations.of([]).rows.dtype)
        for name in ("kind", "bytes", "tag", "peer"):
            rows[name] = nodes[name]
        computes = nodes["kind"] == COMPUTE
        rows["group"], rows["involved"] = -1, (1 << 62) - 1
        rows["duration_ns"] = -(-nodes["duration_ps"] // 1000)
        rows["flops"] = np.where(computes & (nodes["duration_ps"] > 0), -1, 0)
        rows["bytes"][computes] = rows["peer"][computes] = 0
        begin, end = int(self.dep_start[first]), int(self.dep_start[last])
        start, deps = self.dep_start[first : last + 1] - begin, self.deps[begin:end] - first
        every = Operations(rows, start, deps, parts=_parts(nodes, self.labels))
        return Operations.of([{"kind": COLLECTIVE, "bytes": 1}], custom={0: every}, names=[self.title])

    def timed(
        self, network: DimensionNetwork | InfraNetwork | None, *, congestion: bool = False
    ) -> MessageGraph:
        """Return the same graph with the starts of a replay on a network.

        Parameters
        ----------
        network : DimensionNetwork or InfraNetwork
        congestion : bool
            Whether messages wait for one another on links.

        Raises
        ------
        InputError
            There is no network, or it has another number of NPUs.
        Deadlock
            A rank waits for a message that never comes.
        """
        run = Run(self.on(network), congestion=congestion)
        run.finish()
        run.result()
        rows = np.asarray(run.machine.operations)
        nodes = self.nodes.copy()
        nodes["start_ps"] = 1000 * rows["start_ns"][rows["owner"] >= 0]
        return replace(self, nodes=nodes)


def _parts(nodes: np.ndarray, labels: Sequence[Label]) -> RecordedParts:
    """Find the operations of a rank: neighbouring nodes of a collective, and every other node by itself.

    A collective begins and ends with a computation that belongs to no chunk: where two of these follow one
    another, the next collective of the same label begins.
    """
    label, kind = nodes["label"], nodes["kind"]
    whole = np.array([bool(one.collective) for one in labels])[label]
    outside = (kind == COMPUTE) & (nodes["chunk"] < 0)
    fresh = ~whole | (np.diff(label, prepend=-1) != 0)
    fresh[1:] |= outside[1:] & outside[:-1] & ~fresh[:-1]
    first = np.flatnonzero(fresh)
    sent = np.where((kind == SEND) | ((kind == RECV) & ~whole), nodes["bytes"], 0)
    what, size = np.where(whole[first], COLLECTIVE, kind[first]), reduce_at(np.add, sent, first)
    return RecordedParts(first, label[first], what, size, nodes["phase"], nodes["chunk"], labels)


def require_ranks(
    ranks: int, network: DimensionNetwork | InfraNetwork | None, title: str
) -> DimensionNetwork | InfraNetwork:
    """Return the network, if it has as many NPUs as there are ranks.

    Raises
    ------
    InputError
        It has not, or there is none.
    """
    if network is None:
        raise InputError("traffic needs a network", where=title, hint="give an infrastructure")
    if network.npus != ranks:
        what = f"{ranks:,} ranks on a network of {network.npus:,} NPUs"
        raise InputError(what, where=title, hint="give a network of as many")
    return network


def matched(
    nodes: np.ndarray, where: str = "traffic", *, wide_receives: bool = False, by_size: bool = False
) -> np.ndarray:
    """Match sends with receives: of each source, target and tag the first with the first, and so on.

    Parameters
    ----------
    nodes : ndarray of NODE
        Ordered by rank; ``match`` is written.
    where : str
        What errors name.
    wide_receives : bool
        Whether a receive may have room for more than is sent, as in MPI; it gets the bytes that are sent.
    by_size : bool
        Whether the first of one size are matched, as runs of Chakra traces do.

    Raises
    ------
    InputError
        A message is sent and not received, or the reverse, or its receive expects another size.
    """
    sends, receives = (np.flatnonzero(nodes["kind"] == kind) for kind in (SEND, RECV))
    sent = [nodes[name][sends] for name in ("rank", "peer", "tag")]
    received = [nodes[name][receives] for name in ("peer", "rank", "tag")]
    sizes = [nodes["bytes"]] if by_size else []
    first, second = (
        row_order([*keys, *(one[rows] for one in sizes)])
        for keys, rows in ((sent, sends), (received, receives))
    )
    if len(sends) == len(receives) and all(
        (a[first] == b[second]).all() for a, b in zip(sent, received, strict=True)
    ):
        if wide_receives:
            least = np.minimum(nodes["bytes"][sends[first]], nodes["bytes"][receives[second]])
            nodes["bytes"][receives[second]] = least
        _check_sizes(nodes, sends[first], receives[second], where)
        nodes["match"] = -1
        nodes["match"][sends[first]] = receives[second]
        nodes["match"][receives[second]] = sends[first]
        return nodes
    counts: dict[tuple[int, ...], int] = {}
    for keys, sign in ((sent, 1), (received, -1)):
        for source, target, tag in zip(*(column.tolist() for column in keys), strict=True):
            counts[source, target, tag] = counts.get((source, target, tag), 0) + sign
    (source, target, tag), left = next((key, left) for key, left in sorted(counts.items()) if left)
    what = f"rank {source} sends {target} a message" if left > 0 else f"rank {target} expects one of {source}"
    other = "which it does not receive" if left > 0 else "which is not sent"
    raise InputError(f"{what} with tag {tag}, {other}", where=where, hint="match sends and receives")


def _check_sizes(nodes: np.ndarray, sends: np.ndarray, receives: np.ndarray, where: str) -> None:
    """Check that no message has another size than its receive's: libraries would hang or truncate it."""
    wrong = np.flatnonzero(nodes["bytes"][sends] != nodes["bytes"][receives])
    if len(wrong):
        one, other = nodes[sends[wrong[0]]], nodes[receives[wrong[0]]]
        what = f"rank {one['rank']} sends {one['peer']} {one['bytes']:,} bytes with tag {one['tag']}, and"
        raise InputError(
            f"{what} the receive expects {other['bytes']:,}",
            where=where,
            hint="give both one size, or messages tags of their own",
        )
