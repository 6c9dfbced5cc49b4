"""Build traces in Python, one call per node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from astranb.core.errors import InputError, near
from astranb.core.units import size_bytes

from ._message import encode_metadata, encode_node, framed
from ._schema import VERSION, Attribute, CollectiveType, Node, NodeType, Value
from ._trace import Trace

__all__ = ["TraceBuilder"]

_COLLECTIVES: Final = {kind.name.lower(): kind for kind in CollectiveType}
_Nodes: TypeAlias = int | Iterable[int]


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
        number = len(self)
        given: Any = {key: value for key, value in (attributes or {}).items() if value is not None}
        data_deps, ctrl_deps = self._known(after, name), self._known(control, name)
        node = Node(number, name, kind, data_deps, ctrl_deps, start_us, duration_us, given)
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
            raise InputError(f"there is no collective {collective!r} in Chakra", where=name, hint=hint)
        declared: dict[str, Value] = {
            "comm_type": int(_COLLECTIVES[collective]),
            "comm_size": size,
            "pg_name": group,
            "comm_dst" if collective in ("reduce", "gather") else "comm_src": root,
            "involved_dim": None if dims is None else tuple(bool(one) for one in dims),
            "comm_priority": priority,
            "comm_stream": stream,
        }
        return self._on_device(NodeType.COMM_COLL, name or collective, declared, after, duration_us)

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
        ends = {"comm_src": rank, "comm_dst": to, "comm_size": size, "comm_tag": tag}
        return self._on_device(NodeType.COMM_SEND, name or f"send to {to}", ends, after)

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
        ends = {"comm_src": source, "comm_dst": rank, "comm_size": size, "comm_tag": tag}
        return self._on_device(NodeType.COMM_RECV, name or f"recv from {source}", ends, after)

    def memory_load(self, size: int | str, *, name: str = "load", after: _Nodes = ()) -> int:
        """Add a load from remote memory."""
        return self._on_device(NodeType.MEM_LOAD, name, {"tensor_size": size}, after)

    def memory_store(self, size: int | str, *, name: str = "store", after: _Nodes = ()) -> int:
        """Add a store to remote memory."""
        return self._on_device(NodeType.MEM_STORE, name, {"tensor_size": size}, after)

    def build(self, source: str = "trace") -> Trace:
        """Return the trace of all nodes added so far; errors call it ``source``."""
        return Trace(b"".join(self._messages), source)

    def _on_device(
        self, kind: NodeType, name: str, attributes: Mapping[str, Any], after: _Nodes, duration_us: int = 0
    ) -> int:
        """Add a node that the host does not execute; its size may be given as text."""
        declared = {"is_cpu_op": False, **attributes}
        for key in ("comm_size", "tensor_size"):
            if key in declared:
                declared[key] = size_bytes(declared[key], where=f"size of {name!r}")
        return self.add(kind, name, declared, after=after, duration_us=duration_us)

    def _known(self, after: _Nodes, name: str) -> tuple[int, ...]:
        ids = (after,) if isinstance(after, int) else tuple(after)
        for one in ids:
            if not 0 <= one < len(self):
                raise InputError(
                    f"there is no node {one} yet", where=f"after= of {name!r}", hint="add it before"
                )
        return ids
