"""Build traces in Python, one call per node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from astranb.core.errors import InputError, near
from astranb.core.units import size_bytes

from ._message import encode_metadata, encode_node, framed
from ._schema import VERSION, Attribute, CollectiveType, Node, NodeType, Value
from ._trace import Trace

__all__ = ["TraceBuilder"]

_COLLECTIVES: Final = {kind.name.lower(): kind for kind in CollectiveType}


class TraceBuilder:
    """Makes the trace of one rank.

    Every call adds a node and gives its id, to be named in ``after=`` of nodes that wait for it.

    Parameters
    ----------
    version : str
        Of the schema, to be written.
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
        self._messages = [framed(encode_metadata(version, metadata))]

    def __len__(self) -> int:
        """How many nodes there are so far."""
        return len(self._messages) - 1

    def add(
        self,
        kind: NodeType,
        name: str,
        attributes: Mapping[str, Value | Attribute] | None = None,
        *,
        after: int | Iterable[int] = (),
        control: int | Iterable[int] = (),
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
            The nodes whose data it needs; those that have to be done before it all the same.
        start_us, duration_us : int
            When it began and how long it takes, as recorded.

        Returns
        -------
        int
            Its id.

        Raises
        ------
        InputError
            It waits for a node that is not there yet, or an attribute does not fit.
        """
        number = len(self)
        given: Any = {key: value for key, value in (attributes or {}).items() if value is not None}
        node = Node(
            number,
            name,
            kind,
            self._known(after, name),
            self._known(control, name),
            start_us,
            duration_us,
            given,
        )
        self._messages.append(framed(encode_node(node)))
        return number

    def compute(
        self,
        name: str,
        *,
        num_ops: int | None = None,
        tensor_size: int | str | None = None,
        duration_us: int = 0,
        cpu: bool = False,
        after: int | Iterable[int] = (),
    ) -> int:
        """Add a computation: operations and the bytes they touch for a roofline, or its duration.

        Parameters
        ----------
        name : str
        num_ops : int, optional
            Floating-point operations.
        tensor_size : int or str, optional
            Bytes.
        duration_us : int
        cpu : bool
            Whether the host does it.
        after : int or iterable of int
            The nodes it waits for.

        Returns
        -------
        int
            Its id.
        """
        size = None if tensor_size is None else size_bytes(tensor_size, where=f"tensor_size of {name!r}")
        declared: dict[str, Value] = {"is_cpu_op": cpu, "num_ops": num_ops, "tensor_size": size}
        return self.add(NodeType.COMP, name, declared, after=after, duration_us=duration_us)

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
        duration_us: int = 0,
        after: int | Iterable[int] = (),
    ) -> int:
        """Add a collective.

        Parameters
        ----------
        collective : str
            As ``all_reduce``.
        size : int or str
            Bytes that each rank puts in.
        name : str
            Of the node; the collective's where it is not given.
        group : str, optional
            The group of ranks that it is among; all of them where it is not given.
        dims : sequence of bool, optional
            The dimensions of the network that it goes over.
        priority : int, optional
        root : int, optional
            The rank that a broadcast or scatter comes from (``comm_src``), or a reduce or gather
            goes to (``comm_dst``); the first of its group where it is not given.
        duration_us : int
            As recorded.
        after : int or iterable of int
            The nodes it waits for.

        Returns
        -------
        int
            Its id.
        """
        if collective not in _COLLECTIVES:
            hint = near(collective, _COLLECTIVES)
            raise InputError(f"there is no collective {collective!r} in Chakra", where=name, hint=hint)
        declared: dict[str, Value] = {
            "is_cpu_op": False,
            "comm_type": int(_COLLECTIVES[collective]),
            "comm_size": size_bytes(size, where=f"size of {name or collective!r}"),
            "pg_name": group,
            "comm_dst" if collective in ("reduce", "gather") else "comm_src": root,
            "involved_dim": None if dims is None else tuple(bool(one) for one in dims),
            "comm_priority": priority,
        }
        return self.add(
            NodeType.COMM_COLL, name or collective, declared, after=after, duration_us=duration_us
        )

    def send(
        self,
        size: int | str,
        to: int,
        *,
        rank: int | None = None,
        tag: int = 0,
        name: str = "",
        after: int | Iterable[int] = (),
    ) -> int:
        """Add a message to another rank.

        Parameters
        ----------
        size : int or str
            Bytes.
        to : int
            The rank it goes to.
        rank : int, optional
            The rank it comes from: this one.
        tag : int
            What tells it from other messages between the two.
        name : str
        after : int or iterable of int
            The nodes it waits for.

        Returns
        -------
        int
            Its id.
        """
        return self._message(NodeType.COMM_SEND, size, rank, to, tag, name or f"send to {to}", after)

    def recv(
        self,
        size: int | str,
        source: int,
        *,
        rank: int | None = None,
        tag: int = 0,
        name: str = "",
        after: int | Iterable[int] = (),
    ) -> int:
        """Add the receipt of a message from another rank.

        Parameters
        ----------
        size : int or str
            Bytes.
        source : int
            The rank it comes from.
        rank : int, optional
            The rank it goes to: this one.
        tag : int
            What tells it from other messages between the two.
        name : str
        after : int or iterable of int
            The nodes it waits for.

        Returns
        -------
        int
            Its id.
        """
        return self._message(
            NodeType.COMM_RECV, size, source, rank, tag, name or f"recv from {source}", after
        )

    def memory_load(self, size: int | str, *, name: str = "load", after: int | Iterable[int] = ()) -> int:
        """Add a load of some bytes from remote memory.

        Parameters
        ----------
        size : int or str
            Bytes.
        name : str
        after : int or iterable of int
            The nodes it waits for.

        Returns
        -------
        int
            Its id.
        """
        return self._memory(NodeType.MEM_LOAD, size, name, after)

    def memory_store(self, size: int | str, *, name: str = "store", after: int | Iterable[int] = ()) -> int:
        """Add a store of some bytes to remote memory; as :meth:`memory_load`.

        Parameters
        ----------
        size : int or str
            Bytes.
        name : str
        after : int or iterable of int
            The nodes it waits for.

        Returns
        -------
        int
            Its id.
        """
        return self._memory(NodeType.MEM_STORE, size, name, after)

    def build(self, source: str = "trace") -> Trace:
        """Make the trace of what has been added.

        Parameters
        ----------
        source : str
            What errors call it.

        Returns
        -------
        Trace
        """
        return Trace(b"".join(self._messages), source)

    def _message(
        self,
        kind: NodeType,
        size: int | str,
        source: int | None,
        target: int | None,
        tag: int,
        name: str,
        after: int | Iterable[int],
    ) -> int:
        declared: dict[str, Value] = {
            "is_cpu_op": False,
            "comm_src": source,
            "comm_dst": target,
            "comm_size": size_bytes(size, where=f"size of {name!r}"),
            "comm_tag": tag,
        }
        return self.add(kind, name, declared, after=after)

    def _memory(self, kind: NodeType, size: int | str, name: str, after: int | Iterable[int]) -> int:
        declared: dict[str, Value] = {
            "is_cpu_op": False,
            "tensor_size": size_bytes(size, where=f"size of {name!r}"),
        }
        return self.add(kind, name, declared, after=after)

    def _known(self, after: int | Iterable[int], name: str) -> tuple[int, ...]:
        ids = (after,) if isinstance(after, int) else tuple(after)
        for one in ids:
            if not 0 <= one < len(self):
                raise InputError(
                    f"there is no node {one} yet", where=f"after= of {name!r}", hint="add it before"
                )
        return ids
