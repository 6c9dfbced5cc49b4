"""Sends and receives of a job's traces, matched: of each source, target and tag the first with the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from astranb.core.arrays import row_order

from .rank_trace import Trace
from .schema import NodeType

__all__ = ["message_pairs"]

_FIELDS: Final = [
    (name, "i8")
    for name in (
        "source", "target", "tag", "sent", "received", "differ", "same_sizes", "sent_bytes", "received_bytes",
    )
]  # fmt: skip


def message_pairs(traces: Mapping[int, Trace]) -> np.ndarray:
    """Describe the messages of each source, target and tag that do not fit together.

    Parameters
    ----------
    traces : mapping of int to Trace
        By rank.

    Returns
    -------
    structured ndarray
        A row for each such key: ``source``, ``target``, ``tag``; ``sent`` and ``received``, the numbers of
        sends and receives. Where these are equal: ``differ``, pairs in the traces' order with two sizes;
        ``same_sizes``, whether another order would match them all; ``sent_bytes`` and ``received_bytes`` of
        the first such pair.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> first, second = TraceBuilder(), TraceBuilder()
    >>> _ = first.send("1 MB", 1), second.recv("2 MB", 0)
    >>> found = message_pairs({0: first.build(), 1: second.build()})
    >>> found["differ"].tolist(), found["sent_bytes"].tolist(), found["received_bytes"].tolist()
    ([1], [1000000], [2000000])
    """
    sent, received = _messages(traces, NodeType.COMM_SEND), _messages(traces, NodeType.COMM_RECV)
    every = np.concatenate([sent, received], 1)
    order = row_order(list(every[:3]))
    keys = every[:3, order]
    begins = np.ones(len(order), bool)
    begins[1:] = (keys[:, 1:] != keys[:, :-1]).any(0)
    key = np.empty(len(order), np.int64)
    key[order] = np.cumsum(begins) - 1
    of_sent, of_received = np.split(key, [sent.shape[1]])
    found = np.zeros(int(begins.sum()), _FIELDS)
    for name, column in zip(("source", "target", "tag"), keys[:, begins], strict=True):
        found[name] = column
    for name, own in (("sent", of_sent), ("received", of_received)):
        found[name] = np.bincount(own, minlength=len(found))
    balanced = found["sent"] == found["received"]
    whole = [
        (own[balanced[own]], table[3, balanced[own]])
        for own, table in ((of_sent, sent), (of_received, received))
    ]
    in_turn, by_size = (
        [sizes[row_order([own, sizes] if sorts else [own])] for own, sizes in whole]
        for sorts in (False, True)
    )
    own = np.sort(whole[0][0])
    differ = np.flatnonzero(in_turn[0] != in_turn[1])
    found["differ"] = np.bincount(own[differ], minlength=len(found))
    found["same_sizes"] = True
    found["same_sizes"][own[by_size[0] != by_size[1]]] = False
    first = differ[np.diff(own[differ], prepend=-1) > 0]
    for name, sizes in zip(("sent_bytes", "received_bytes"), in_turn, strict=True):
        found[name][own[first]] = sizes[first]
    wrong: np.ndarray = found[~balanced | (found["differ"] > 0)]
    return wrong


def _messages(traces: Mapping[int, Trace], kind: NodeType) -> np.ndarray:
    """List source, target, tag and bytes of the sends or receives of all ranks, of each in its order."""
    found = [np.zeros((4, 0), np.int64)]
    known: dict[int, np.ndarray] = {}
    for rank, trace in traces.items():
        peers = trace.comm_dst if kind == NodeType.COMM_SEND else trace.comm_src
        if id(trace) not in known:
            moved = (trace.type == kind) & (peers >= 0) & ~trace.keeps_duration
            known[id(trace)] = np.flatnonzero(moved)
        rows = known[id(trace)]
        if len(rows):
            own = np.full(len(rows), rank)
            ends = (own, peers[rows]) if kind == NodeType.COMM_SEND else (peers[rows], own)
            found.append(np.stack([*ends, trace.comm_tag[rows], trace.comm_size[rows]]))
    return np.concatenate(found, 1)
