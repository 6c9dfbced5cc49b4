"""Messages and collectives that a process recorded: kind, bytes, group and peer.

Those of NCCL and its like are kernels; those of gloo, MPI and UCC are operations that a thread of the backend
executes (``gloo:all_reduce``), for a call of another thread (``c10d::allreduce_``). What a recording does not
say of one stays unknown: it then keeps its recorded duration.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from astranb.chakra.traces import CollectiveType
from astranb.core.document import DocumentNode as Value
from astranb.core.limits import MOST_SIZE_BYTES

from .kineto import Event, is_communication, symbol

__all__ = [
    "UNKNOWN",
    "Message",
    "collective_named",
    "groups_of",
    "is_backend",
    "message_of",
    "tensor_bytes",
]

UNKNOWN: Final = "communication"
"""The kind of what communicates in a way that its recording does not say."""

_KINDS: Final = {
    "crossdevicereduce": CollectiveType.ALL_REDUCE,  # vLLM, SGLang and AITER
    "allreduce": CollectiveType.ALL_REDUCE,
    "alltoall": CollectiveType.ALL_TO_ALL,
    "allgather": CollectiveType.ALL_GATHER,
    "reducescatter": CollectiveType.REDUCE_SCATTER,
    "broadcast": CollectiveType.BROADCAST,
    "barrier": CollectiveType.BARRIER,
    "reduce": CollectiveType.REDUCE,
    "gather": CollectiveType.GATHER,
    "scatter": CollectiveType.SCATTER,
    "sendrecv": CollectiveType.ALL_TO_ALL,
    "dispatch": CollectiveType.ALL_TO_ALL,  # DeepEP, and the next
    "combine": CollectiveType.ALL_TO_ALL,
}
_BACKEND: Final = re.compile(r"(?:gloo|mpi|ucc):[a-z_]+")
_ELEMENT_BYTES: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "Float"), 4),
    **dict.fromkeys(("Long", "Double"), 8),
}


class Message:
    """A collective, or one side of a message between two ranks.

    Attributes
    ----------
    kind : CollectiveType or str
        A collective, ``"send"``, ``"recv"`` or :data:`UNKNOWN`.
    size : int
        Bytes of this rank's input; -1 if not recorded.
    alone : bool
        Whether it has no counterpart in the recordings of other ranks.
    group : tuple of int
        The ranks, once known.
    named : str
        The process group, where the recording names it.
    peer, tag : int
        Rank in the group, -1 if not recorded.
    root : int
        Rank in the group that a collective starts from or ends at, -1 if not recorded.
    thread : str
        The thread or stream.
    start, end : float
        As recorded, in µs.
    took_us : float
        Its transfer: a recorded duration has the wait for the last rank, which the last rank itself has not.
    partner : Message or None
        The other side of a message.
    """

    __slots__ = (
        *("kind", "size", "group", "named", "peer", "tag", "root", "thread", "start", "end"),
        *("took_us", "partner", "alone"),
    )

    def __init__(self, kind: CollectiveType | str, size: int, event: Event) -> None:
        self.kind, self.size = kind, size
        self.group: tuple[int, ...] = ()
        self.named = event.group if isinstance(event.group, str) else ""
        self.peer = self.tag = self.root = -1
        self.thread = event.thread
        self.start, self.end = event.start, event.end
        self.took_us = event.duration
        self.partner: Message | None = None
        self.alone = False

    @property
    def is_sized(self) -> bool:
        """Whether its bytes are known: a barrier has none."""
        return self.size > 0 or self.kind == CollectiveType.BARRIER

    @property
    def keeps_duration(self) -> bool:
        """Whether it can take nothing but its recorded duration: its peers or its bytes are not known."""
        has_peers = self.is_collective or self.partner is not None
        return self.alone or not has_peers or not self.is_sized

    @property
    def is_collective(self) -> bool:
        """Whether all ranks of a group take part."""
        return isinstance(self.kind, CollectiveType)

    @property
    def word(self) -> str:
        """Its kind in words."""
        return self.kind.name.lower() if isinstance(self.kind, CollectiveType) else self.kind


def is_backend(event: Event) -> bool:
    """Return whether a backend on the host (gloo, MPI, UCC) communicates."""
    return event.is_host and _BACKEND.fullmatch(event.name) is not None


def message_of(event: Event, op: Value | None, call: Value | None) -> Message | None:
    """Describe what an event communicates; None where it does not.

    Parameters
    ----------
    event : Event
        A kernel, or a backend's operation.
    op : Value, optional
        The operation of the host, as ``ExecutionTraceObserver`` wrote it: its inputs are those of this rank.
    call : Value, optional
        The operation of ``c10d`` that asked for it: it has peer, tag and root.
    """
    if not (is_backend(event) or (event.is_device and (event.comm or is_communication(event.name)))):
        return None
    kind = _kind(event, call)
    size = -1 if op is None else tensor_bytes(op)
    said = event.comm
    if said:
        count, width = said.get("In msg nelems"), _ELEMENT_BYTES.get(str(said.get("dtype")), 0)
        if type(count) is int and 0 <= count < 1 << 48 and width:
            size = count * width
    if size > MOST_SIZE_BYTES:  # no run reads more: whatever it says, it is not known
        size = -1
    message = Message(kind, size, event)
    numbers = [] if call is None else _integers(call)
    if not message.is_collective:
        if len(numbers) >= 2:
            message.peer, message.tag = numbers[0], numbers[1]
        for word in ("Dst Rank", "Src Rank"):
            if type(said.get(word)) is int and (word[0] == "D") == (kind == "send"):
                message.peer, message.tag = said[word], 0
    elif kind in (
        CollectiveType.BROADCAST,
        CollectiveType.REDUCE,
        CollectiveType.GATHER,
        CollectiveType.SCATTER,
    ):
        message.root = numbers[0] if numbers and numbers[0] >= 0 else -1
    return message


def collective_named(name: str) -> CollectiveType | None:
    """Find the collective in the name of a call or a kernel; None where it has none.

    Examples
    --------
    >>> collective_named("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*)").name
    'REDUCE_SCATTER'
    """
    plain = _letters(name)
    return next((kind for word, kind in _KINDS.items() if word in plain), None)


def _letters(name: str) -> str:
    return re.sub("[^a-z]", "", symbol(name).lower().rsplit(":", 1)[-1])


def _kind(event: Event, call: Value | None) -> CollectiveType | str:
    texts = [str(event.comm.get("Collective name", "")), event.name]
    if "SendRecv" in event.name and call is not None:
        texts.insert(0, call.get("name").text())
    for text in texts:
        plain = _letters(text)
        if plain in ("send", "recv", "recvanysource"):
            return plain[:4]
        if (kind := collective_named(text)) is not None:
            return kind
    return UNKNOWN


def _integers(op: Value) -> list[int]:
    """The plain numbers among the inputs of an operation."""
    inputs = op.get("inputs")
    values, types = inputs.get("values").value, inputs.get("types").value
    if not isinstance(values, list) or not isinstance(types, list):
        return []
    pairs = zip(values, types, strict=False)
    return [one for one, kind in pairs if kind == "Int" and type(one) is int and abs(one) < 1 << 31]


def tensor_bytes(op: Value) -> int:
    """Bytes of the input tensors of an operation: each is an id, storage, offset, elements, bytes of each."""
    inputs, total = op.get("inputs"), 0
    types = [one.text() for one in inputs.get("types").items()]
    for value, kind in zip(inputs.get("values").items(), types, strict=False):
        if "Tensor" not in kind:
            continue
        for tensor in value.items() if kind.startswith("GenericList[Tensor") else [value]:
            parts = tensor.items()
            if len(parts) < 5:
                raise tensor.error("a tensor has an id, storage, offset, elements and bytes of each")
            total += parts[3].number(0, 1 << 48) * parts[4].number(0, 64)
    if total >= 1 << 62:
        raise inputs.error("2^62 bytes or more")
    return total


def groups_of(members: dict[str, Any], ops: list[dict[str, Any]], world: int) -> dict[str, tuple[int, ...]]:
    """Find the process groups of a rank: those that Kineto lists, and those of ``## process_group:init ##``.

    A group without a list of ranks is all of them.
    """
    info = members.get("distributedInfo")
    configured = info.get("pg_config") if isinstance(info, dict) else None
    listed = list(configured) if isinstance(configured, list) else []
    for op in ops:
        if "process_group:init" not in str(op.get("name")):
            continue
        inputs = op.get("inputs")
        values = inputs.get("values") if isinstance(inputs, dict) else None
        for text in values if isinstance(values, list) else []:
            try:
                found = json.loads(text) if isinstance(text, str) else []
            except ValueError:
                found = []
            listed += found if isinstance(found, list) else []
    groups: dict[str, tuple[int, ...]] = {}
    for one in listed:
        ranks = one.get("ranks") if isinstance(one, dict) else None
        if isinstance(ranks, list) and all(type(rank) is int and 0 <= rank < world for rank in ranks):
            groups.setdefault(str(one.get("pg_name")), tuple(ranks) or tuple(range(world)))
    return groups or {"0": tuple(range(world))}
