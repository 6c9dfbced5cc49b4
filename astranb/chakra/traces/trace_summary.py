"""Summary of a trace, and its nodes as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .rank_trace import Trace
from .schema import Attribute, CollectiveType, Node, NodeType
from .validity import ordered

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_document", "durations_note", "summary", "untimed"]


def durations_note(missing: int, computations: int, first: str) -> list[str]:
    """Return what a reader of results should know of computations without a duration.

    Parameters
    ----------
    missing, computations : int
        How many have none, of how many.
    first : str
        One of them.

    Examples
    --------
    >>> durations_note(0, 7, ""), durations_note(2, 7, "3 'add'")
    ([], ["2 of 7 computations have no duration and take 1 ns each, as 3 'add'"])
    """
    if not missing:
        return []
    if missing == computations:
        return [
            "no computation has a duration: each takes 1 ns; 'astranb chakra link' adds those of a profile"
        ]
    return [f"{missing:,} of {computations:,} computations have no duration and take 1 ns each, as {first}"]


def untimed(trace: Trace) -> NDArray[np.bool_]:
    """Return whether each node is a computation without a recorded duration."""
    timed = (trace.duration_us > 0) | trace.has("duration_ns")
    return np.asarray((trace.type == NodeType.COMP) & ~timed)


def summary(trace: Trace) -> dict[str, Any]:
    """Count the nodes, bytes and operations of a trace.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    dict
        ``nodes``, ``dependencies``, counts of ``types``; ``collectives``, each with its count and
        bytes; ``sent_bytes`` and ``received_bytes`` of messages; ``num_ops``; ``duration_us``, the sum of
        the recorded durations; ``depth``, the number of nodes in the longest chain of dependencies
        (None where nodes wait for each other in a cycle); ``groups``; ``attributes``, the names.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.collective("all_reduce", 1024, after=step.compute("forward", num_ops=10**6))
    >>> document = summary(step.build())
    >>> document["types"], document["collectives"], document["depth"]
    ({'COMP': 1, 'COMM_COLL': 1}, {'all_reduce': {'count': 1, 'bytes': 1024}}, 2)
    """
    collective = trace.type == NodeType.COMM_COLL
    size = np.maximum(trace.comm_size, 0)
    collectives = {}
    for kind in CollectiveType:
        of = collective & (trace.comm_type == kind)
        if of.any():
            collectives[kind.name.lower()] = {"count": int(of.sum()), "bytes": _sum(size[of])}
    if (of := collective & (trace.comm_type < 0)).any():
        collectives["of unknown kind"] = {"count": int(of.sum()), "bytes": _sum(size[of])}
    return {
        "source": trace.source,
        "version": trace.version,
        "metadata": {name: _value(document) for name, document in trace.metadata.items()},
        "nodes": len(trace),
        "dependencies": len(trace.present_parents.flat),
        "depth": _depth(trace),
        "types": {kind.name: int(n) for kind in NodeType if (n := (trace.type == kind).sum())},
        "collectives": collectives,
        "groups": sorted({name for name in trace.pg_name.values if name}),
        "sent_bytes": _sum(size[trace.type == NodeType.COMM_SEND]),
        "received_bytes": _sum(size[trace.type == NodeType.COMM_RECV]),
        "num_ops": _sum(np.maximum(trace.num_ops, 0)),
        "duration_us": _sum(trace.duration_us),
        "attributes": sorted(map(_readable, trace.attribute_names)),
    }


def as_document(node: Node) -> dict[str, Any]:
    """Convert a node to plain data for JSON: bytes as hexadecimal digits, without empty fields."""
    document: dict[str, Any] = {"id": node.id, "name": _readable(node.name)}
    document["type"] = node.type.name if isinstance(node.type, NodeType) else node.type
    for name in ("data_deps", "ctrl_deps", "start_us", "duration_us"):
        if getattr(node, name):
            document[name] = getattr(node, name)
    if node.attributes:
        document["attributes"] = {_readable(name): _value(one) for name, one in node.attributes.items()}
    for name in ("inputs", "outputs"):
        if getattr(node, name):
            document[name] = dict(
                zip(("values", "shapes", "types"), map(_readable, getattr(node, name)), strict=True)
            )
    if node.other:
        document["other"] = node.other.hex()
    return document


def _sum(column: Any) -> int:
    """The exact sum: int64 could overflow."""
    return sum(column.tolist())


def _value(attribute: Attribute) -> Any:
    some = attribute.value
    return [_plain(one) for one in some] if isinstance(some, tuple) else _plain(some)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return _readable(value)
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def _readable(text: str) -> str:
    """Replace the characters that stand for bytes that were not UTF-8: they cannot be printed."""
    return text.encode("utf-8", "replace").decode()


def _depth(trace: Trace) -> int | None:
    """The number of nodes in the longest chain of dependencies; None where there is a cycle."""
    order, cycle = ordered(trace.present_parents)
    if cycle:
        return None
    offset, flat = trace.present_parents.offset.tolist(), trace.present_parents.flat.tolist()
    depth = [0] * len(trace)
    for row in order:
        some = flat[offset[row] : offset[row + 1]]
        depth[row] = 1 + max((depth[parent] for parent in some), default=0)
    return max(depth, default=0)
