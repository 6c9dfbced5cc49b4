"""The traces of all ranks of a job in one file, and back.

There is no public layout of such a file, so this is ours; it is a valid trace for every tool that reads
Chakra. The nodes of rank 0 come first, then those of rank 1, and so on. In each rank, ids and dependencies
are shifted by a number of its own, so that they are different in different ranks, and each node has its rank
as last attribute, ``merged_rank``. Metadata says the rest: ``merged_shifts`` (the numbers), ``merged_heads``
(the metadata of each rank, encoded) and ``merged_groups`` (a file of groups, as text).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from astranb.core.arrays import ranges
from astranb.core.errors import InputError

from .message import encode_attribute, encode_metadata, encode_node, framed
from .message_batch import Assembly, varint_sizes
from .rank_trace import Trace
from .schema import VERSION, Attribute, Node
from .wire import FIXED32, FIXED64, LENGTH, VARINT, Ints, fields

__all__ = ["is_merged", "merge", "merged_groups", "split"]

_WORD: Final = (1 << 64) - 1
_RANK: Final = "merged_rank"
_DEPS: Final = {4: b"\x22", 5: b"\x2a"}


def merge(traces: Sequence[Trace], groups: str | None = None, *, source: str = "merged") -> Trace:
    """Put the traces of all ranks into one.

    Parameters
    ----------
    traces : sequence of Trace
        In the order of the ranks.
    groups : str, optional
        The contents of a file of groups, to be kept with them.
    source : str
        What errors call it.

    Raises
    ------
    InputError
        There is no trace, one of them is merged already, or ids are too large.

    Examples
    --------
    >>> first, second = (Trace.of([Node(1, "a", 4), Node(5, "b", 4, data_deps=(1,))]) for _ in range(2))
    >>> both = merge([first, second])
    >>> both.id, both.integers("merged_rank"), both.data_deps.of(3)
    (array([ 1,  5,  7, 11], dtype=uint64), array([0, 0, 1, 1]), array([7], dtype=uint64))
    >>> split(both) == [first, second]
    True
    """
    if not traces:
        raise InputError("no traces to merge", where=source)
    shifts, shift = [], 0
    for trace in traces:
        if is_merged(trace) or trace.has(_RANK).any():
            raise InputError("this holds several ranks already", where=trace.source, hint="split it first")
        shifts.append(shift)
        named = (trace.id, trace.data_deps.flat, trace.ctrl_deps.flat)
        shift += 1 + max(int(some.max(initial=0)) for some in named)
        if shift > 1 << 64:
            raise InputError(
                "ids are too large to be merged", where=trace.source, hint="number the nodes anew"
            )
    metadata: dict[str, Attribute] = {
        "merged_shifts": Attribute(tuple(shifts), "uint64_list"),
        "merged_heads": Attribute(tuple(trace.head for trace in traces), "bytes_list"),
    }
    if groups is not None:
        metadata["merged_groups"] = Attribute(groups, "string_val")
    head = framed(encode_metadata(traces[0].version or VERSION, metadata))
    parts = (
        _moved(trace, np.arange(len(trace)), shift, rank)
        for rank, (trace, shift) in enumerate(zip(traces, shifts, strict=True))
    )
    return Trace.encoded(b"".join([head, *parts]), source)


def split(trace: Trace) -> list[Trace]:
    """Return the traces of all ranks of a merged one, as they were.

    Bytes are as they were where nodes were encoded as protocol buffers of version 3 are: fields in the order
    of their numbers, dependencies packed. Otherwise nodes are equal.

    Raises
    ------
    InputError
        It is not a merged trace, or its nodes are not of its ranks.
    """
    if not is_merged(trace):
        hint = "give what 'astranb chakra merge' wrote"
        raise InputError("this is not a merged trace", where=trace.source, hint=hint)
    heads, shifts = (trace.metadata[name].value for name in ("merged_heads", "merged_shifts"))
    heads = heads if isinstance(heads, tuple) else ()
    shifts = shifts if isinstance(shifts, tuple) else ()
    ranks = trace.integers(_RANK, -1)
    wrong = np.flatnonzero((ranks < 0) | (ranks >= len(heads)))
    if len(heads) != len(shifts) or len(wrong):
        where = trace.place(int(wrong[0])) if len(wrong) else trace.source
        raise InputError(f"not of one of {len(heads)} ranks", where=where, hint="merge it again")
    order = np.argsort(ranks, kind="stable")
    ends = np.cumsum(np.bincount(ranks, minlength=len(heads)))
    found = []
    for rank, (head, shift, rows) in enumerate(zip(heads, shifts, np.split(order, ends[:-1]), strict=True)):
        if not isinstance(head, bytes) or not isinstance(shift, int):
            raise InputError("merged_heads or merged_shifts has the wrong kind", where=trace.source)
        data = head + _moved(trace, rows, -shift & _WORD, None)
        found.append(Trace(data, f"{trace.source}, rank {rank}"))
    return found


def is_merged(trace: Trace) -> bool:
    """Return whether a trace holds the nodes of several ranks."""
    return {"merged_heads", "merged_shifts"} <= trace.metadata.keys()


def merged_groups(trace: Trace) -> str | None:
    """Return the file of groups that was merged with the traces; None if there was none."""
    found = trace.metadata.get("merged_groups")
    return found.value if found is not None and isinstance(found.value, str) else None


def _moved(trace: Trace, rows: Ints, shift: int, rank: int | None) -> bytes:
    """Shift ids and dependencies of nodes, and add or (None) take away the attribute ``merged_rank``."""
    if not len(rows):
        return b""
    made = _at_once(trace, rows, shift, rank)
    if made is None:
        made = b"".join(framed(encode_node(one)) for one in _one_by_one(trace, rows, shift, rank))
    return made


def _one_by_one(trace: Trace, rows: Ints, shift: int, rank: int | None) -> Iterable[Node]:
    for row in rows.tolist():
        node = trace.node(row)
        data, control = (
            tuple(one + shift & _WORD for one in some) for some in (node.data_deps, node.ctrl_deps)
        )
        attributes: dict[str, Any] = {name: one for name, one in node.attributes.items() if name != _RANK}
        if rank is not None:
            attributes[_RANK] = Attribute(rank, "int32_val")
        yield replace(
            node, id=node.id + shift & _WORD, data_deps=data, ctrl_deps=control, attributes=attributes
        )


def _at_once(trace: Trace, rows: Ints, shift: int, rank: int | None) -> bytes | None:
    """Do it for all nodes at a time; None if they are not encoded in the usual way."""
    stream = np.frombuffer(trace.data, np.uint8)
    start, end = trace.spans
    start, end = start[rows], end[rows]
    found = fields(stream, start, end, trace.source, "a node")
    sizes = varint_sizes((found.number << 3 | found.wire).view(np.uint64))
    length = found.end - found.value
    sizes += np.select(
        [found.wire == VARINT, found.wire == LENGTH, found.wire == FIXED64, found.wire == FIXED32],
        [
            varint_sizes(found.value.view(np.uint64)),
            varint_sizes(np.maximum(length, 0).view(np.uint64)) + length,
            8,
            4,
        ],
    )
    count = len(rows)
    if (np.bincount(found.owner, sizes, count) != end - start).any():
        return None  # numbers are longer than need be
    before = np.cumsum(sizes) - sizes
    first = np.minimum(np.searchsorted(found.owner, np.arange(count)), len(before) - 1)
    begun = before + (start - before[first])[found.owner]
    same = found.owner[1:] == found.owner[:-1]
    again = found.number[1:] == found.number[:-1]
    if (same & ((found.number[1:] < found.number[:-1]) | (again & (found.number[1:] < 10)))).any():
        return None  # fields are not in their order
    if (found.wire[(found.number == 4) | (found.number == 5)] != LENGTH).any():
        return None
    if rank is None:
        last = np.flatnonzero(np.concatenate([~same, [True]]))
        if (found.number[last] != 10).any() or not _all_named_rank(trace, found.value[last], found.end[last]):
            return None
        end = begun[last]
    return _assembled(trace, rows, shift, rank, end, (found.owner, found.number, begun))


def _all_named_rank(trace: Trace, start: Ints, end: Ints) -> bool:
    """Return whether attributes are ``merged_rank``, written as :func:`merge` writes it."""
    usual = encode_attribute(10, _RANK, Attribute(0, "int32_val"))[2:-1]
    stream = np.frombuffer(trace.data, np.uint8)
    return bool((end - start > len(usual)).all()) and all(
        (stream[start + place] == byte).all() for place, byte in enumerate(usual)
    )


def _assembled(
    trace: Trace, rows: Ints, shift: int, rank: int | None, end: Ints, parts: tuple[Ints, Ints, Ints]
) -> bytes:
    stream = np.frombuffer(trace.data, np.uint8)
    owner, number, begun = parts
    more = np.uint64(shift)

    def first(least: int) -> Ints:
        """Return the position in each node of the first field with at least this number."""
        at = end.copy()
        some = np.flatnonzero(number >= least)[::-1]
        at[owner[some]] = begun[some]
        return np.minimum(at, end)

    made = Assembly(len(rows))
    ids = trace.id[rows] + more
    made.numbers(ids, present=ids > 0, prefix=b"\x08")
    made.copies(stream, first(2), first(4))
    for field, lists in ((4, trace.ctrl_deps), (5, trace.data_deps)):
        lengths = np.diff(lists.offset)[rows]
        flat = lists.flat[ranges(lists.offset[rows], lengths)] + more
        of = np.repeat(np.arange(len(rows)), lengths)
        size = np.bincount(of, varint_sizes(flat), len(rows)).astype(np.int64)
        made.numbers(size, present=lengths > 0, prefix=_DEPS[field])
        made.numbers(flat, of)
    made.copies(stream, first(6), end)
    if rank is not None:
        made.chosen(
            [encode_attribute(10, _RANK, Attribute(rank, "int32_val"))], np.zeros(len(rows), np.int64)
        )
    return made.framed()
