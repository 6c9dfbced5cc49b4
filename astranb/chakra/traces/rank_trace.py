"""A trace of one rank, with a row per node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.arrays import distinct, offsets
from astranb.core.errors import InputError
from astranb.core.plural import plural

from .columns import Distinct, Lists
from .message import decode_node, encode_metadata, encode_node, framed
from .parse import TraceReader
from .schema import VERSION, Attribute, Node, NodeType, Value
from .wire import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Trace"]


def _integers(name: str, default: int, doc: str) -> cached_property[Ints]:
    """Make a property of :class:`Trace` that holds an integer attribute of all nodes."""

    def read(trace: Trace) -> Ints:
        return trace.integers(name, default)

    read.__doc__ = doc
    return cached_property(read)


_READ: Final = frozenset(
    (
        *("version", "metadata", "id", "type", "start_us", "duration_us", "names", "data_deps", "ctrl_deps"),
        *("has_inputs", "head", "_start", "_end", "_attributes"),
    )
)
"""Attributes that are read from the bytes."""


class Trace:
    """The trace of one rank: nodes and their dependencies.

    It holds the bytes of a file and columns that are read from them: one row for each node, in the
    file's order. It never changes: make another with :meth:`of` or a :class:`TraceBuilder`.

    Parameters
    ----------
    data : bytes
        The contents of a ``.et`` file, uncompressed.
    source : str
        What errors call it.

    Attributes
    ----------
    data : bytes
        As it was read; of an older schema, as today's (:mod:`astranb.chakra`).
    head : bytes
        Those before the first node: the metadata.
    source : str
    version : str
        Of the schema; empty if the trace does not give it.
    metadata : dict of str to Attribute
        Metadata of the trace.
    id : array of uint64
    type : array of int32
        As :class:`NodeType`.
    start_us, duration_us : array of int64
    names : Distinct of str
    data_deps, ctrl_deps : Lists
        The ids that each node waits for.
    has_inputs : array of bool
        Whether each node has values, shapes and types of its inputs (:meth:`node` reads them).

    Raises
    ------
    InputError
        It is not a Chakra trace, or truncated; the text names the byte.

    Examples
    --------
    >>> trace = Trace.of([Node(0, "add", 4, duration_us=5), Node(1, "mul", 4, data_deps=(0,))])
    >>> len(trace), trace.duration_us, trace.names[1], trace.parents.of(1)
    (2, array([5, 0]), 'mul', array([0]))
    """

    def __init__(self, data: bytes, source: str = "trace") -> None:
        self.source = source
        self._read(data)

    def _read(self, data: bytes) -> None:
        found = TraceReader(data, self.source)
        self.data = found.data
        self.version, self.metadata = found.version, found.metadata
        self.id, self.type = found.numbers(1).view(np.uint64), found.numbers(3).astype(np.int32)
        self.start_us, self.duration_us = found.times(6), found.times(7)
        self.names = found.texts(2)
        self.data_deps, self.ctrl_deps = found.lists(5), found.lists(4)
        self.has_inputs = found.has(8)
        self.head = found.head
        self._start, self._end, self._attributes = found.start, found.end, found.attributes()

    @classmethod
    def encoded(cls, data: bytes, source: str = "trace") -> Trace:
        """Make a trace of what was encoded here: its columns are read when they are asked for."""
        trace = object.__new__(cls)
        trace.source, trace.data = source, data
        return trace

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if (
                name.startswith("__")
                or name not in _READ
                or "head" in self.__dict__
                or "data" not in self.__dict__
            ):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._read(self.data)
            return self.__dict__[name]

    def called(self, source: str) -> Trace:
        """Return the same trace under another name for errors; the two share their data."""
        other = copy(self)
        other.source = source
        return other

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        *,
        version: str = VERSION,
        metadata: Mapping[str, Value | Attribute] | None = None,
        source: str = "trace",
    ) -> Trace:
        """Make a trace of nodes.

        Parameters
        ----------
        nodes : iterable of Node
        version : str
            Schema version to write.
        metadata : mapping, optional
            Metadata of the trace.
        source : str
            Its name in errors.

        Raises
        ------
        InputError
            A value does not fit the schema.
        """
        messages = [framed(encode_metadata(version, metadata or {}))]
        messages += [framed(encode_node(node)) for node in nodes]
        return cls(b"".join(messages), source)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._start)

    def __eq__(self, other: object) -> bool:
        """Return whether two traces hold the same."""
        return isinstance(other, Trace) and self.data == other.data

    def __hash__(self) -> int:
        """Equal traces have equal hashes."""
        return hash(self.data)

    def __repr__(self) -> str:
        """Short, for a notebook."""
        return f"<Trace {self.source}: {plural(len(self), 'node')}>"

    @property
    def spans(self) -> tuple[Ints, Ints]:
        """Beginning of each node in :attr:`data`, behind its length, and its end."""
        return self._start, self._end

    def message(self, row: int) -> bytes:
        """The bytes of one node, without their length."""
        return self.data[self._start[row] : self._end[row]]

    def node(self, row: int) -> Node:
        """Return one node with all its fields, by its row: its position in the file, not its id."""
        try:
            return decode_node(self.message(row))
        except InputError as error:
            raise InputError(error.what, where=self.place(row)) from None

    def nodes(self) -> Iterator[Node]:
        """All nodes, in the file's order."""
        return map(self.node, range(len(self)))

    def place(self, row: int) -> str:
        """Name a node for errors: file, id and name."""
        return f"{self.source}: node {self.id[row]} {self.names[row] or ''!r}"

    # Attributes

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The names of all attributes that any node has."""
        return tuple(self._attributes.words)

    def has(self, name: str) -> NDArray[np.bool_]:
        """Return whether each node has an attribute."""
        return self._attributes.has(name)

    def integers(self, name: str, default: int = 0) -> Ints:
        """Read an attribute of any integer kind as an array of int64.

        Parameters
        ----------
        name : str
            The attribute.
        default : int
            For nodes without it. One without a value is 0, as in Chakra's feeder.

        Raises
        ------
        InputError
            The attribute of a node has another kind, or is larger than 2⁶³ - 1.
        """
        column, wrong = self._attributes.integers(name, default)
        if wrong >= 0:
            declared = self.node(wrong).attributes[name]
            what = (
                f"{name} is {declared.value!r:.60} ({declared.kind}), which is not a whole number below 2^63"
            )
            raise InputError(what, where=self.place(wrong), hint="write it as int64_val")
        return column

    def values(self, name: str) -> Distinct[Attribute]:
        """Read an attribute of any kind."""
        return self._attributes.values(name)

    comm_type = _integers("comm_type", -1, "Which collective, as :class:`CollectiveType`; -1 if not given.")
    comm_size = _integers("comm_size", -1, "Bytes that are communicated; -1 if not given.")
    comm_src = _integers("comm_src", -1, "Sending rank of a message; -1 if not given.")
    comm_dst = _integers("comm_dst", -1, "Receiving rank of a message; -1 if not given.")
    comm_tag = _integers("comm_tag", 0, "Tag that distinguishes messages between two ranks (0).")
    comm_priority = _integers("comm_priority", 0, "Priority of a collective: the highest goes first (0).")
    num_ops = _integers("num_ops", -1, "Floating-point operations of a computation; -1 if not given.")
    tensor_size = _integers("tensor_size", -1, "Bytes of memory that a node accesses; -1 if not given.")

    @cached_property
    def is_cpu_op(self) -> NDArray[np.bool_]:
        """Whether the host executes it (no)."""
        return self.integers("is_cpu_op").astype(bool)

    @cached_property
    def is_idle(self) -> NDArray[np.bool_]:
        """Whether a node only lets time pass, and occupies nothing: a pause that was recorded (no)."""
        return np.asarray((self.integers("is_idle") != 0) & (self.type == NodeType.COMP))

    @cached_property
    def keeps_duration(self) -> NDArray[np.bool_]:
        """Whether a communication takes what was recorded, as its peers or its bytes are not known (no)."""
        communicates = (self.type >= NodeType.COMM_SEND) & (self.type <= NodeType.COMM_COLL)
        return np.asarray((self.integers("keeps_duration") != 0) & communicates)

    @cached_property
    def pg_name(self) -> Distinct[str]:
        """Process group of a collective."""
        return self.values("pg_name").map(lambda one: "" if one.value is None else str(one.value))

    @cached_property
    def involved_dim(self) -> Distinct[tuple[bool, ...]]:
        """The dimensions of the network that a collective uses."""

        def recorded(declared: Attribute) -> tuple[bool, ...]:
            some = declared.value if isinstance(declared.value, tuple) else (declared.value,)
            if declared.value is not None and not all(isinstance(one, int) for one in some):
                what = f"involved_dim is {declared.value!r:.60}, not truth values"
                raise InputError(what, where=self.source, hint="write it as bool_list")
            return () if declared.value is None else tuple(bool(one) for one in some)

        return self.values("involved_dim").map(recorded)

    @cached_property
    def parents(self) -> Lists:
        """The rows that each node waits for, for data or control, each once, ascending.

        Raises
        ------
        InputError
            Two nodes have one id, or a node waits for one that is not there.
        """
        again = self.duplicates
        if len(again):
            first, second = again[0]
            names = f"{self.names[first] or ''!r} and {self.names[second] or ''!r}"
            raise InputError(
                f"rows {first} and {second} ({names}) have the same id",
                where=f"{self.source}: node {self.id[first]}",
                hint="give each node an id of its own",
            )
        owner, wanted = self.dangling
        if len(owner):
            what = f"it depends on node {wanted[0]}, which does not exist"
            hint = "add that node, or drop the dependency"
            raise InputError(what, where=self.place(int(owner[0])), hint=hint)
        return self.present_parents

    @cached_property
    def present_parents(self) -> Lists:
        """As :attr:`parents`, of a faulty trace too: of several nodes with one id the first counts.

        Dependencies on nodes that do not exist are left out.
        """
        owner, _, parent = self.linked
        owner, parent = owner[parent >= 0], parent[parent >= 0]
        pairs = distinct(owner * max(len(self), 1) + parent)
        owner, parent = np.divmod(pairs, max(len(self), 1))
        return Lists(offsets(owner, len(self)), parent)

    @property
    def dangling(self) -> tuple[Ints, NDArray[np.uint64]]:
        """The rows that depend on nodes that do not exist, and the ids of these."""
        owner, wanted, parent = self.linked
        return owner[parent < 0], wanted[parent < 0]

    @property
    def duplicates(self) -> NDArray[np.int64]:
        """Pairs of rows with the same id: the one before, and the one again."""
        order = np.argsort(self.id, kind="stable")
        ids = self.id[order]
        at = np.flatnonzero(ids[1:] == ids[:-1])
        return np.column_stack([order[at], order[at + 1]])

    @cached_property
    def linked(self) -> tuple[Ints, NDArray[np.uint64], Ints]:
        """The row of each dependency, the id that it awaits, and that one's row, -1 if there is none.

        Those of ``data_deps`` come first.
        """
        order = np.argsort(self.id, kind="stable")
        ids = self.id[order]
        owner = np.concatenate([self.data_deps.owner, self.ctrl_deps.owner])
        wanted = np.concatenate([self.data_deps.flat, self.ctrl_deps.flat])
        if not len(ids):
            return owner, wanted, np.full(len(owner), -1)
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        return owner, wanted, np.where(ids[at] == wanted, order[at], -1)
