"""Faults of a trace, or between the traces of a job: counts and examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from astranb.core.plural import plural

from .pairs import message_pairs
from .rank_trace import Trace
from .schema import CollectiveType, NodeType
from .trace_summary import untimed
from .validity import cyclic_rows, malformed
from .wire import Ints

__all__ = ["NOT_SENT", "OTHER_SIZE", "TraceFault", "faults", "message_faults", "rank_faults"]

_SHOWN: Final = 3
NOT_SENT: Final = "receives without a send"
OTHER_SIZE: Final = "messages of another size than their receive's"
"""Faults between ranks by which a run would never end."""


@dataclass(frozen=True)
class TraceFault:
    """One kind of fault, and how often it occurs.

    Attributes
    ----------
    what : str
        The fault, in a few words.
    count : int
    examples : tuple of str
        The first ones.
    hint : str
        The remedy.
    runs : bool
        Whether the trace can be run all the same.
    """

    what: str
    count: int
    examples: tuple[str, ...]
    hint: str
    runs: bool = False

    def __str__(self) -> str:
        """One line."""
        more = f"; … {self.count - len(self.examples):,} more" if self.count > len(self.examples) else ""
        shown = f": {'; '.join(self.examples)}{more}" if self.examples else ""
        return f"{self.counted}{shown} ({self.hint})"

    @property
    def counted(self) -> str:
        """Count and kind: ``1 node with the id of another``."""
        several, _, rest = self.what.partition(" ")
        one = "dependency" if several == "dependencies" else several.removesuffix("s")
        return f"{plural(self.count, one, several)} {rest}"


def faults(trace: Trace) -> list[TraceFault]:
    """List what is wrong with a trace, where :func:`astranb.chakra.check` refuses the first fault.

    Examples
    --------
    >>> from astranb.chakra import Node
    >>> for one in faults(Trace.of([Node(1, "a", 4, data_deps=(2,)), Node(3, "b", 7)])):
    ...     print(one)
    1 dependency on nodes that do not exist: 1 'a' waits for 2 (--repaired drops them)
    1 collective without comm_type: 3 'b' (use one of 0 ALL_REDUCE, 1 REDUCE, 2 ALL_GATHER, …)
    1 communication without comm_size: 3 'b' (give the number of bytes)
    1 computation without a duration or operations: 1 'a' (each takes 1 ns; link a profile)
    """
    return list(_faults(trace))


def _faults(trace: Trace) -> Iterator[TraceFault]:
    pairs = trace.duplicates
    if len(pairs):
        said = (f"{_name(trace, a)} and {_name(trace, b)}" for a, b in pairs[:_SHOWN].tolist())
        yield TraceFault(
            "nodes with the id of another", len(pairs), tuple(said), "--repaired renumbers them where clear"
        )
    owner, wanted = trace.dangling
    if len(owner):
        said = (
            f"{_name(trace, row)} waits for {one}"
            for row, one in zip(owner[:_SHOWN].tolist(), wanted[:_SHOWN].tolist(), strict=True)
        )
        yield TraceFault(
            "dependencies on nodes that do not exist", len(owner), tuple(said), "--repaired drops them"
        )
    rows, cycle = cyclic_rows(trace)
    if len(rows):
        hint = (
            "--repaired drops control dependencies there, or data dependencies on nodes that began later, "
            "if that opens them; else it is not safe: drop one that is not needed"
        )
        yield TraceFault("nodes that wait for each other in cycles", len(rows), (cycle,), hint)
    for one in malformed(trace):
        hint = one.hint if len(one.hint) < 60 else f"{one.hint[:50].rpartition(',')[0]}, …"
        yield TraceFault(one.what, len(one.rows), _names(trace, one.rows), hint)
    for kind, peer in ((NodeType.COMM_SEND, "comm_dst"), (NodeType.COMM_RECV, "comm_src")):
        rows = np.flatnonzero((trace.type == kind) & ~trace.has(peer) & ~trace.keeps_duration)
        if len(rows):
            yield TraceFault(
                f"{kind.name} without {peer}", len(rows), _names(trace, rows), "give the peer's rank"
            )
    rows = np.flatnonzero(untimed(trace) & (trace.num_ops <= 0))
    if len(rows):
        hint = "each takes 1 ns; link a profile"
        what = "computations without a duration or operations"
        yield TraceFault(what, len(rows), _names(trace, rows), hint, runs=True)


def rank_faults(traces: Mapping[int, Trace]) -> list[TraceFault]:
    """List what is wrong between the traces of a job: unmatched messages, and groups that disagree.

    Parameters
    ----------
    traces : mapping of int to Trace
        By rank.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> first, second = TraceBuilder(), TraceBuilder()
    >>> _ = first.send("1 MB", 1), second.recv("1 MB", 0, tag=7)
    >>> for one in rank_faults({0: first.build(), 1: second.build()}):
    ...     print(one)
    1 send without a receive: rank 0 to 1, tag 0: 1 sends, 0 receives (a run sends it, NCCL would wait)
    1 receive without a send: rank 0 to 1, tag 7: 0 sends, 1 receives (the ranks would wait forever)
    """
    return [*message_faults(traces), *_disagreeing(traces)]


def message_faults(traces: Mapping[int, Trace]) -> Iterator[TraceFault]:
    """List what is wrong with the messages between the traces of a job.

    Parameters
    ----------
    traces : mapping of int to Trace
        By rank.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> first, second = TraceBuilder(), TraceBuilder()
    >>> _ = first.send("1 MB", 1), second.recv("2 MB", 0)
    >>> [one.what == OTHER_SIZE for one in message_faults({0: first.build(), 1: second.build()})]
    [True]
    """
    pairs = message_pairs(traces)
    forever = "the ranks would wait forever"
    for what, rows, hint in (
        (
            "sends without a receive",
            pairs[pairs["sent"] > pairs["received"]],
            "a run sends it, NCCL would wait",
        ),
        (NOT_SENT, pairs[pairs["sent"] < pairs["received"]], forever),
    ):
        if len(rows):
            said = (f"{_key(row)}: {row['sent']} sends, {row['received']} receives" for row in rows[:_SHOWN])
            yield TraceFault(what, int(abs(rows["sent"] - rows["received"]).sum()), tuple(said), hint)
    for what, agrees, hint in (
        (OTHER_SIZE, False, f"{forever}; give both one comm_size"),
        (
            "messages received in another order of sizes than sent",
            True,
            "a run matches them by size, NCCL and MPI by order; give them tags of their own",
        ),
    ):
        rows = pairs[(pairs["differ"] > 0) & (pairs["same_sizes"] == agrees)]
        if len(rows):
            said = (_sizes(row) for row in rows[:_SHOWN])
            yield TraceFault(what, int(rows["differ"].sum()), tuple(said), hint, runs=agrees)


def _key(row: np.void) -> str:
    return f"rank {row['source']} to {row['target']}, tag {row['tag']}"


def _sizes(row: np.void) -> str:
    return f"{_key(row)}: {row['sent_bytes']:,} bytes sent, {row['received_bytes']:,} expected"


def _disagreeing(traces: Mapping[int, Trace]) -> Iterator[TraceFault]:
    """Compare the collectives of each process group between the ranks that have any in it."""
    first: dict[str, tuple[int, list[int]]] = {}
    wrong: dict[str, str] = {}
    for rank, trace in traces.items():
        for name, kinds in _by_group(trace):
            other, theirs = first.setdefault(name, (rank, kinds))
            if name not in wrong and kinds != theirs:
                wrong[name] = f"group {name or 'of all'!r}: {_difference(other, theirs, rank, kinds)}"
    if wrong:
        hint = "give the traces of one job, and record the same steps on all ranks"
        yield TraceFault(
            "groups that ranks disagree on", len(wrong), tuple(list(wrong.values())[:_SHOWN]), hint
        )


def _by_group(trace: Trace) -> Iterable[tuple[str, list[int]]]:
    rows = np.flatnonzero((trace.type == NodeType.COMM_COLL) & ~trace.keeps_duration)
    index = trace.pg_name.index[rows]
    for number in np.unique(index).tolist():
        name = trace.pg_name.values[number] if number >= 0 else ""
        yield name, trace.comm_type[rows[index == number]].tolist()


def _difference(one: int, theirs: list[int], other: int, kinds: list[int]) -> str:
    at = next((n for n, (a, b) in enumerate(zip(theirs, kinds, strict=False)) if a != b), -1)
    if at < 0:
        return f"{plural(len(theirs), 'collective')} on rank {one}, {len(kinds):,} on rank {other}"
    return f"its collective {at} is {_kind(theirs[at])} on rank {one}, {_kind(kinds[at])} on rank {other}"


def _kind(number: int) -> str:
    return CollectiveType(number).name.lower() if 0 <= number < len(CollectiveType) else "unknown"


def _names(trace: Trace, rows: Ints) -> tuple[str, ...]:
    return tuple(_name(trace, row) for row in rows[:_SHOWN].tolist())


def _name(trace: Trace, row: int) -> str:
    name = (trace.names[row] or "").encode("utf-8", "replace").decode()
    return f"{trace.id[row]} {name[:60]!r}"
