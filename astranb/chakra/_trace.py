"""A trace of one rank, with a row per node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from astranb.core.arrays import distinct
from astranb.core.errors import InputError

from ._columns import Distinct, Lists, offsets
from ._message import decode_node, encode_metadata, encode_node, framed
from ._parse import parse
from ._schema import VERSION, Attribute, Node, Value
from ._wire import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Trace"]


class Trace:
    """What one rank does: nodes that wait for each other.

    It is the bytes of a file and columns that are read from them, a row a node, in the
    file's order. It is not changed: make another with :meth:`of` or a :class:`TraceBuilder`.

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
        parsed = parse(data, source)
        self.source, self.data = source, parsed.data
        self.version, self.metadata = parsed.version, parsed.metadata
        self.id, self.type, self.names = parsed.id, parsed.type, parsed.names
        self.start_us, self.duration_us = parsed.start_us, parsed.duration_us
        self.data_deps, self.ctrl_deps = parsed.data_deps, parsed.ctrl_deps
        self._start, self._end, self._attributes = parsed.start, parsed.end, parsed.attributes

    def called(self, source: str) -> Trace:
        """The same trace by another name: what it is made of is shared.

        Parameters
        ----------
        source : str
            What errors call it.
        """
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
            Of the schema, to be written.
        metadata : mapping, optional
            Metadata of the trace.
        source : str
            What errors call it.

        Returns
        -------
        Trace

        Raises
        ------
        InputError
            Something does not fit the schema.
        """
        messages = [framed(encode_metadata(version, metadata or {}))]
        messages += [framed(encode_node(node)) for node in nodes]
        return cls(b"".join(messages), source)

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._start)

    def __eq__(self, other: object) -> bool:
        """Whether two traces hold the same."""
        return isinstance(other, Trace) and self.data == other.data

    def __hash__(self) -> int:
        """Equal traces have equal hashes."""
        return hash(self.data)

    def __repr__(self) -> str:
        """Short, for a notebook."""
        return f"<Trace {self.source}: {len(self)} nodes>"

    def node(self, row: int) -> Node:
        """Return one node with all its fields.

        Parameters
        ----------
        row : int
            Its place in the file, not its id.

        Returns
        -------
        Node
        """
        try:
            return decode_node(self.data[self._start[row] : self._end[row]])
        except InputError as error:
            raise InputError(error.what, where=self.place(row)) from None

    def nodes(self) -> Iterator[Node]:
        """All nodes, in the file's order."""
        return map(self.node, range(len(self)))

    def place(self, row: int) -> str:
        """What an error calls a node: file, id and name."""
        return f"{self.source}: node {self.id[row]} {self.names[row] or ''!r}"

    # Attributes

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The names of all attributes that any node has."""
        return tuple(self._attributes.words)

    def has(self, name: str) -> NDArray[np.bool_]:
        """Tell which nodes have an attribute."""
        return self._attributes.has(name)

    def integers(self, name: str, default: int = 0) -> Ints:
        """Read an attribute that is a whole number, of whichever integer kind.

        Parameters
        ----------
        name : str
            The attribute.
        default : int
            For nodes that do not have it. One without a value is 0, as in Chakra's feeder.

        Returns
        -------
        array of int64

        Raises
        ------
        InputError
            A node has it as something else, or larger than 2⁶³ - 1.
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
        """Read an attribute of any kind.

        Parameters
        ----------
        name : str
            The attribute.

        Returns
        -------
        Distinct of Attribute
        """
        return self._attributes.values(name)

    @cached_property
    def comm_type(self) -> Ints:
        """Which collective, as :class:`CollectiveType`; -1 if not specified."""
        return self.integers("comm_type", -1)

    @cached_property
    def comm_size(self) -> Ints:
        """Bytes that are communicated; -1 if not specified."""
        return self.integers("comm_size", -1)

    @cached_property
    def comm_src(self) -> Ints:
        """The rank that a message comes from; -1 if not specified."""
        return self.integers("comm_src", -1)

    @cached_property
    def comm_dst(self) -> Ints:
        """The rank that a message goes to; -1 if not specified."""
        return self.integers("comm_dst", -1)

    @cached_property
    def comm_tag(self) -> Ints:
        """Tag that distinguishes messages between two ranks (0)."""
        return self.integers("comm_tag")

    @cached_property
    def comm_priority(self) -> Ints:
        """Priority of a collective: the highest goes first (0)."""
        return self.integers("comm_priority")

    @cached_property
    def is_cpu_op(self) -> NDArray[np.bool_]:
        """Whether the host does it (no)."""
        return self.integers("is_cpu_op").astype(bool)

    @cached_property
    def num_ops(self) -> Ints:
        """Floating-point operations of a computation; -1 if not specified."""
        return self.integers("num_ops", -1)

    @cached_property
    def tensor_size(self) -> Ints:
        """Bytes that a computation or a load or store of memory touches; -1 if not specified."""
        return self.integers("tensor_size", -1)

    @cached_property
    def pg_name(self) -> Distinct[str]:
        """The group of ranks that a collective is among."""
        return self.values("pg_name").map(
            lambda declared: "" if declared.value is None else str(declared.value)
        )

    @cached_property
    def involved_dim(self) -> Distinct[tuple[bool, ...]]:
        """The dimensions of the network that a collective goes over."""

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
        order = np.argsort(self.id, kind="stable")
        ids = self.id[order]
        again = np.flatnonzero(ids[1:] == ids[:-1])
        if len(again):
            first, second = order[again[0]], order[again[0] + 1]
            names = f"{self.names[first] or ''!r} and {self.names[second] or ''!r}"
            raise InputError(
                f"rows {first} and {second} ({names}) have this id both",
                where=f"{self.source}: node {self.id[first]}",
                hint="give each node an id of its own",
            )
        owner = np.concatenate([self.data_deps.owner, self.ctrl_deps.owner])
        wanted = np.concatenate([self.data_deps.flat, self.ctrl_deps.flat])
        at = np.searchsorted(ids, wanted)
        missing = at == len(ids)
        missing[~missing] = ids[at[~missing]] != wanted[~missing]
        if missing.any():
            row = int(np.flatnonzero(missing)[0])
            what = f"it depends on node {wanted[row]}, which is not there"
            raise InputError(
                what, where=self.place(int(owner[row])), hint="add that node, or drop the dependency"
            )
        pairs = distinct(owner * max(len(self), 1) + order[at])
        owner, parent = np.divmod(pairs, max(len(self), 1))
        return Lists(offsets(owner, len(self)), parent)
