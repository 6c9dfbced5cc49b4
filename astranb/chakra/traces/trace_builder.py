"""Build traces in Python, one call per node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import size_bytes

from .message import encode_attribute, encode_metadata, framed, text, varint
from .message_batch import Assembly, varint_sizes
from .rank_trace import Trace
from .schema import ATTRIBUTE_KINDS, KIND_OF, NUMBERS, VERSION, Attribute, CollectiveType, NodeType, Value
from .wire import LENGTH

__all__ = ["TraceBuilder"]

_COLLECTIVES: Final = {kind.name.lower(): kind for kind in CollectiveType}
_Nodes: TypeAlias = int | Iterable[int]
_NUMBERS: Final = ("num_ops", "tensor_size", "comm_size", "comm_tag")
"""The attributes that are kept as columns: they differ from node to node."""

_AT_ONCE: Final = 1 << 13  # nodes: what is written of them stays in the caches
_MOST: Final = 1 << 64
_SMALL: Final = 1 << 31  # below it, a number fits every kind


class TraceBuilder:
    """Make the trace of one rank.

    Every call adds a node and returns its id, to be used in ``after=`` of the nodes that wait for it.
    ``after`` takes one id or several. A size is a number of bytes, or text as ``"1 MiB"``.

    Parameters
    ----------
    version : str
        Schema version to write.
    **metadata : value
        Metadata of the trace.

    Examples
    --------
    >>> step = TraceBuilder()
    >>> forward = step.compute("forward", num_ops=10**12, tensor_size="1 GB")
    >>> backward = step.compute("backward", duration_us=200, after=forward)
    >>> step.collective("all_reduce", "100 MiB", after=[backward])
    2
    >>> trace = step.build()
    >>> trace.names[1], trace.parents.of(2), trace.comm_size
    ('backward', array([1]), array([       -1,        -1, 104857600]))
    """

    def __init__(self, *, version: str = VERSION, **metadata: Value | Attribute) -> None:
        self._head = framed(encode_metadata(version, metadata))
        # Of each node: name and type, control and data dependencies, start, duration, its first attributes,
        # the four of _NUMBERS, the other attributes. Names and attributes are numbers of texts.
        self._rows: list[tuple[Any, ...]] = []
        self._texts: dict[bytes, int] = {}
        self._known: dict[Any, int] = {}
        self._device, self._cpu = (self._attributes({"is_cpu_op": cpu}) for cpu in (False, True))

    def __len__(self) -> int:
        """Return the number of nodes so far."""
        return len(self._rows)

    def add(
        self,
        kind: NodeType,
        name: str,
        attributes: Mapping[str, Value | Attribute] | None = None,
        *,
        after: _Nodes = (),
        control: _Nodes = (),
        start_us: int = 0,
        duration_us: int = 0,
    ) -> int:
        """Add a node of any type.

        Parameters
        ----------
        kind : NodeType
        name : str
        attributes : mapping, optional
            Those that are None are left out.
        after, control : int or iterable of int
            Data dependencies and control dependencies.
        start_us, duration_us : int
            As recorded.

        Raises
        ------
        InputError
            It waits for a node that does not exist yet, or an attribute does not fit the schema.
        """
        given = {key: value for key, value in (attributes or {}).items() if value is not None}
        behind = self._attributes(given) if given else -1
        waits = self._ids(control, name) if control != () else ()
        return self._append(kind, name, after, duration_us, behind=behind, control=waits, start_us=start_us)

    def compute(
        self,
        name: str,
        *,
        num_ops: int | None = None,
        tensor_size: int | str | None = None,
        duration_us: int = 0,
        cpu: bool = False,
        after: _Nodes = (),
    ) -> int:
        """Add a computation: operations and the bytes they touch for a roofline, or its duration.

        Parameters
        ----------
        name : str
        num_ops : int, optional
            Floating-point operations.
        tensor_size : int or str, optional
        duration_us : int
        cpu : bool
            Whether the host executes it.
        after : int or iterable of int
        """
        if num_ops is not None and not 0 <= num_ops < _SMALL:
            encode_attribute(10, "num_ops", num_ops)  # raises an error if it does not fit
        size = None if tensor_size is None else _size(tensor_size, "tensor_size", name)
        before = self._cpu if cpu else self._device
        return self._append(NodeType.COMP, name, after, duration_us, before, num_ops, size)

    def collective(
        self,
        collective: str,
        size: int | str,
        *,
        name: str = "",
        group: str | None = None,
        dims: Sequence[bool] | None = None,
        priority: int | None = None,
        root: int | None = None,
        stream: int | None = None,
        duration_us: int = 0,
        after: _Nodes = (),
    ) -> int:
        """Add a collective.

        Parameters
        ----------
        collective : str
            As ``all_reduce``.
        size : int or str
            The size of each rank's contribution.
        name : str
            Name of the node; by default that of the collective.
        group : str, optional
            Process group; by default all ranks.
        dims : sequence of bool, optional
            For each dimension of the network, whether the collective uses it.
        priority : int, optional
        root : int, optional
            The source of a broadcast or scatter (``comm_src``), or the target of a reduce or gather
            (``comm_dst``); by default the first rank of the group.
        stream : int, optional
            1: in the background, which messages and other collectives do not wait for.
        duration_us : int
            As recorded.
        after : int or iterable of int
        """
        if collective not in _COLLECTIVES:
            hint = near(collective, _COLLECTIVES)
            raise InputError(f"Chakra has no collective {collective!r}", where=name, hint=hint)
        name = name or collective
        size = _size(size, "size", name)
        involved = None if dims is None else tuple(bool(one) for one in dims)
        end = "comm_dst" if collective in ("reduce", "gather") else "comm_src"
        key = (group, end, root, involved, priority, stream)
        names = ("pg_name", end, end, "involved_dim", "comm_priority", "comm_stream")
        others = self._known.get(key)
        if others is None:
            others = self._known[key] = self._attributes(
                dict(zip(names, (group, root, *key[2:]), strict=True))
            )
        before = self._known.get(collective)
        if before is None:
            kind = {"is_cpu_op": False, "comm_type": int(_COLLECTIVES[collective])}
            before = self._known[collective] = self._attributes(kind)
        return self._append(
            NodeType.COMM_COLL, name, after, duration_us, before, comm_size=size, behind=others
        )

    def send(
        self,
        size: int | str,
        to: int,
        *,
        rank: int | None = None,
        tag: int = 0,
        name: str = "",
        after: _Nodes = (),
    ) -> int:
        """Add a message to another rank.

        Parameters
        ----------
        size : int or str
        to : int
            The receiving rank.
        rank : int, optional
            The sending rank: this one.
        tag : int
            Distinguishes messages between the same two ranks.
        name : str
        after : int or iterable of int
        """
        return self._message(NodeType.COMM_SEND, name or f"send to {to}", size, rank, to, tag, after)

    def recv(
        self,
        size: int | str,
        source: int,
        *,
        rank: int | None = None,
        tag: int = 0,
        name: str = "",
        after: _Nodes = (),
    ) -> int:
        """Add the receipt of a message from the rank ``source``; otherwise as :meth:`send`."""
        return self._message(
            NodeType.COMM_RECV, name or f"recv from {source}", size, source, rank, tag, after
        )

    def memory_load(self, size: int | str, *, name: str = "load", after: _Nodes = ()) -> int:
        """Add a load from remote memory."""
        found = _size(size, "size", name)
        return self._append(NodeType.MEM_LOAD, name, after, 0, self._device, tensor_size=found)

    def memory_store(self, size: int | str, *, name: str = "store", after: _Nodes = ()) -> int:
        """Add a store to remote memory."""
        found = _size(size, "size", name)
        return self._append(NodeType.MEM_STORE, name, after, 0, self._device, tensor_size=found)

    def build(self, source: str = "trace") -> Trace:
        """Return the trace of all nodes added so far; errors call it ``source``."""
        texts = list(self._texts)
        parts = (self._encoded(first, texts) for first in range(0, len(self), _AT_ONCE))
        return Trace.encoded(b"".join([self._head, *parts]), source)

    def _message(
        self,
        kind: NodeType,
        name: str,
        size: int | str,
        source: int | None,
        to: int | None,
        tag: int,
        after: _Nodes,
    ) -> int:
        """Add a side of a message."""
        size = _size(size, "size", name)
        if not 0 <= tag < _SMALL:
            encode_attribute(10, "comm_tag", tag)
        key = (source, to)
        before = self._known.get(key)
        if before is None:
            ends = {"is_cpu_op": False, "comm_src": source, "comm_dst": to}
            before = self._known[key] = self._attributes(ends)
        return self._append(kind, name, after, 0, before, comm_size=size, comm_tag=tag)

    def _append(
        self,
        kind: int,
        name: str,
        after: _Nodes,
        duration_us: int,
        before: int = -1,
        num_ops: int | None = None,
        tensor_size: int | None = None,
        *,
        comm_size: int | None = None,
        comm_tag: int | None = None,
        behind: int = -1,
        control: tuple[int, ...] = (),
        start_us: int = 0,
    ) -> int:
        number = len(self._rows)
        data = (after,) if after.__class__ is int and 0 <= after < number else self._ids(after, name)
        if not 0 <= duration_us < _MOST or not 0 <= start_us < _MOST:
            wrong, field = (start_us, 6) if not 0 <= start_us < _MOST else (duration_us, 7)
            raise InputError(f"{wrong} is out of range", where=f"node {number} {name!r}: field {field}")
        named = self._known.get((kind, name))
        if named is None:
            named = self._known[kind, name] = self._text(
                (text(2, name) if name else b"") + (b"\x18" + varint(kind) if kind else b"")
            )
        self._rows.append(
            (
                named,
                control,
                data,
                start_us,
                duration_us,
                before,
                num_ops,
                tensor_size,
                comm_size,
                comm_tag,
                behind,
            )
        )
        return number

    def _text(self, encoded: bytes) -> int:
        """The number of a text."""
        return self._texts.setdefault(encoded, len(self._texts))

    def _attributes(self, given: Mapping[str, Any]) -> int:
        """Encode attributes, but those that are None; return the number of the text."""
        some = (encode_attribute(10, key, value) for key, value in given.items() if value is not None)
        return self._text(b"".join(some))

    def _ids(self, after: _Nodes, name: str) -> tuple[int, ...]:
        ids = (after,) if isinstance(after, int) else tuple(after)
        for one in ids:
            if not 0 <= one < len(self):
                raise InputError(
                    f"node {one} does not exist yet", where=f"after= of {name!r}", hint="add it before"
                )
        return ids

    def _encoded(self, first: int, texts: Sequence[bytes]) -> bytes:
        """Write some nodes, field by field."""
        rows = self._rows[first : first + _AT_ONCE]
        count = len(rows)
        named, control, data, start, duration, before, *numbers, behind = zip(*rows, strict=True)
        made, ids = Assembly(count), np.arange(first, first + count)
        made.numbers(ids, present=ids > 0, prefix=b"\x08")
        made.chosen(texts, np.fromiter(named, np.int64, count))
        for prefix, lists in ((b"\x22", control), (b"\x2a", data)):
            if any(lists):
                lengths = np.fromiter(map(len, lists), np.int64, count)
                owner = np.repeat(np.arange(count), lengths)
                flat = np.fromiter(chain.from_iterable(lists), np.uint64, len(owner))
                size = np.bincount(owner, varint_sizes(flat), count).astype(np.int64)
                made.numbers(size, present=lengths > 0, prefix=prefix)
                made.numbers(flat, owner)
        for prefix, times in ((b"\x30", start), (b"\x38", duration)):
            if any(times):
                column = np.fromiter(times, np.uint64, count)
                made.numbers(column, present=column > 0, prefix=prefix)
        made.chosen(texts, np.fromiter(before, np.int64, count))
        for name, values in zip(_NUMBERS, numbers, strict=True):
            missing = values.count(None)
            if missing == count:
                continue
            present = np.fromiter((one is not None for one in values), bool, count) if missing else None
            filled = (one or 0 for one in values) if missing else values
            column = np.fromiter(filled, np.int64, count)
            made.numbers(column, present=present, prefix=_PREFIXES[name], length_at=1)
        made.chosen(texts, np.fromiter(behind, np.int64, count))
        return made.framed()


def _size(size: int | str, what: str, name: str) -> int:
    if size.__class__ is int and 0 <= size < _SMALL:
        return size
    return size_bytes(size, where=f"{what} of {name!r}")


def _prefix(name: str) -> bytes:
    """Return the bytes before an attribute's number: the length without the number's, the name, the tag."""
    number = NUMBERS[KIND_OF[name]]
    inner = text(1, name) + varint(number << 3 | ATTRIBUTE_KINDS[number].wire)
    return varint(10 << 3 | LENGTH) + varint(len(inner)) + inner


_PREFIXES: Final = {name: _prefix(name) for name in _NUMBERS}
