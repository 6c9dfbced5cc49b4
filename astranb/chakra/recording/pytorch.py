"""PyTorch's execution traces, with what ran on the device, as Chakra traces.

The JSON is what ``torch.profiler.ExecutionTraceObserver`` writes (schemas 1.0.1 to 1.1.1-chakra.0.0.4, and
newer ones with a warning), joined with a Kineto trace by :func:`astranb.chakra.link`. Nodes and dependencies
follow ``src/converter/pytorch_converter.py`` of mlcommons/chakra: callers and callees become an order.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from astranb.chakra.traces import Attribute, Node, NodeType, Trace, check
from astranb.core.document import DocumentNode, contents, parse_document
from astranb.core.document import DocumentNode as Value
from astranb.core.errors import InputError, InputWarning, near
from astranb.core.file_formats import names_format
from astranb.core.limits import MOST_SIZE_BYTES
from astranb.core.packed import unpacked

from .kineto import LAUNCH, Event, is_communication
from .messages import collective_named, tensor_bytes
from .pytorch_older import OLDER, renewed_document

__all__ = [
    "ROOTS",
    "SCHEMAS",
    "RecordedOp",
    "device_operation",
    "pytorch_document",
    "pytorch_summary",
    "pytorch_trace",
]

MOST_BYTES: Final = 1 << 30
SCHEMAS: Final = ("1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4")
ROOTS: Final = ("[pytorch|profiler|execution_graph|thread]", "[pytorch|profiler|execution_trace|thread]")
_INTEGERS: Final = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
_BIG: Final = 1 << 62


@names_format("execution trace")
def pytorch_document(path: str | Path) -> Value:
    """Read the JSON of a PyTorch execution trace.

    Raises
    ------
    InputError
        It has another format, or an unknown schema. A newer one is read, with an :class:`InputWarning`.
    """
    data = unpacked(contents(path, MOST_BYTES), str(path), MOST_BYTES)
    document = parse_document(data, str(path), "json", strict=False)
    schema = document.get("schema").text()
    if schema in OLDER:
        document = DocumentNode(renewed_document(document.value), document.source)
    elif schema not in SCHEMAS:
        if not _is_newer(schema):
            raise InputError(
                f"unknown schema {schema[:60]!r}", where=str(path), hint=near(schema, (*OLDER, *SCHEMAS))
            )
        newer = f"{path}: schema {schema} is newer than {SCHEMAS[-1]}; read as that: compare the counts"
        warnings.warn(newer, InputWarning, stacklevel=2)
    document.get("nodes").items()
    return document


def _is_newer(schema: str) -> bool:
    """Return whether a schema is of a later version than the last known one."""
    form = r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})-chakra\.(\d{1,9})\.(\d{1,9})\.(\d{1,9})"
    found, last = re.fullmatch(form, schema, re.ASCII), re.fullmatch(form, SCHEMAS[-1])
    return bool(found and last and tuple(map(int, found.groups())) > tuple(map(int, last.groups())))


def pytorch_trace(document: Value) -> Trace:
    """Make a Chakra trace of a PyTorch execution trace.

    Parameters
    ----------
    document : Value
        As :func:`pytorch_document` reads it.

    Raises
    ------
    InputError
        A node lacks a field, or its caller does not exist.
    """
    ops = {}
    for item in document.get("nodes").items():
        op = RecordedOp(item)
        if op.id in ops:
            raise item.error(f"duplicate node id {op.id}", "give each node an id of its own")
        ops[op.id] = op
    for op in ops.values():
        if op.parent in ops and op.parent != op.id:
            ops[op.parent].children.append(op.id)
    begun = min((op.start for op in ops.values() if op.start), default=0.0)
    deps = _order(ops)
    waited = {one for some in deps.values() for one in some}
    made = [
        op.node(ops, sorted(deps.get(number, ())), begun)
        for number, op in sorted(ops.items())
        if deps.get(number) or number in waited
    ]
    ids = {node.id for node in made}
    kept = [replace(node, ctrl_deps=tuple(n for n in node.ctrl_deps if n in ids)) for node in made]
    metadata = {}
    for name in ("schema", "pid", "time", "start_ts", "finish_ts"):
        if document.has(name):
            value = document.get(name).value
            if isinstance(value, str) or (isinstance(value, int) and 0 <= value < _BIG):
                metadata[name] = value
    trace = Trace.of(kept, metadata=metadata, source=document.file)
    check(trace)
    return trace


def device_operation(op: dict[str, Any], kernel: Event) -> dict[str, Any]:
    """Make an operation of the device: that of the host, with what Kineto recorded."""
    made = op | {
        "cat": kernel.category,
        "name": kernel.name,
        "ph": "X",
        "inclusive_dur": kernel.duration,
        "exclusive_dur": kernel.duration,
        "ts": kernel.start,
        "stream": kernel.stream if isinstance(kernel.stream, int) else 0,
        **kernel.launch,
    }
    if "ncclDevKernel" in kernel.name and isinstance(kernel.group, str):
        made["pg_name"] = kernel.group
    return made


def pytorch_summary(document: Value) -> dict[str, Any]:
    """Count what a PyTorch execution trace holds, before or after it was linked.

    Returns
    -------
    dict
        ``schema``; ``nodes``; ``threads``; ``operators`` of the host and ``device operations``;
        ``collectives`` and ``messages`` of c10d; process ``groups``; nodes with a ``duration``.
    """
    names = [item.get("name", "").text() for item in document.get("nodes").items()]
    items = [item.value for item in document.get("nodes").items()]
    device = sum("cat" in item for item in items)
    known = sum("exclusive_dur" in item for item in items)
    calls = [name.removeprefix("c10d::").removeprefix("nccl:").removeprefix("gloo:") for name in names]
    backend = [call for call, name in zip(calls, names, strict=True) if call != name]
    messages = sum(call.startswith(("send", "recv")) for call in backend)
    groups = next((_groups(item) for item in items if "process_group:init" in str(item.get("name"))), 0)
    return {
        "schema": document.get("schema").text(),
        "nodes": len(items),
        "threads": sum(name in ROOTS for name in names),
        "operators": sum("::" in name for name in names) - sum(name.startswith("c10d::") for name in names),
        "device operations": device,
        "communication calls": len(backend) - messages,
        "message calls": messages,
        "process groups": groups,
        "nodes with a duration": known,
    }


def _groups(item: dict[str, Any]) -> int:
    """Count the process groups that the node of their initialisation lists."""
    return str(item.get("inputs")).count("pg_name")


class RecordedOp:
    """One node of the JSON."""

    def __init__(self, item: Value) -> None:
        self.item = item
        self.id = item.get("id").number(0, _BIG)
        self.name = item.get("name").text()
        self.parent = item.get("ctrl_deps").number(0, _BIG)
        self.children: list[int] = []
        self.is_gpu = item.has("cat")
        self.start = item.get("ts").real(0, 1e18) if item.has("ts") else 0.0
        self.declared = {}
        if item.has("attrs"):
            for one in item.get("attrs").items():
                self.declared[one.get("name").text()] = one.get("value").value

    def waits(self, key: str) -> list[int]:
        """The operations of another thread (``inter_thread_dep``) or device (``sync_dep``) that it awaits."""
        found = self.item.get(key, None)
        if found.value is None:
            return []
        return [one.number(0, _BIG) for one in (found.items() if key == "sync_dep" else [found])]

    def kind(self, ops: dict[int, RecordedOp]) -> NodeType:
        """Return the type of node that it becomes."""
        if "process_group:init" in self.name:
            return NodeType.METADATA
        if self.is_gpu and "ncclDevKernel_SendRecv" in self.name:
            caller = ops.get(self.parent, self)
            if caller.name == "record_param_comms":
                caller = ops.get(caller.parent, caller)
            for word, kind in (("send", NodeType.COMM_SEND), ("recv", NodeType.COMM_RECV)):
                if word in caller.name:
                    return kind
        if self.is_gpu and is_communication(self.name):
            return NodeType.COMM_COLL
        return NodeType.COMP

    def node(self, ops: dict[int, RecordedOp], deps: list[int], begun: float) -> Node:
        """Make the node of a trace."""
        kind = self.kind(ops)
        declared: dict[str, Any] = {"is_cpu_op": Attribute(not self.is_gpu, "bool_val")}
        duration = 0.0
        if self.item.has("exclusive_dur") and "Optimizer.step" not in self.name:
            duration = self.item.get("exclusive_dur").real(0, 1e15)
            declared["duration_ns"] = Attribute(round(duration * 1000), "int64_val")
        start = max(self.start - begun, 0.0) if self.start else 0.0
        if self.start:
            declared["start_ns"] = Attribute(round(start * 1000), "int64_val")
        for name in _INTEGERS:
            value = self.declared.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and -_BIG < value < _BIG:
                declared[name] = Attribute(value, "int64_val")
        if isinstance(self.declared.get("op_schema"), str):
            declared["op_schema"] = Attribute(self.declared["op_schema"], "string_val")
        if self.item.get("stream", 0).value is not None:
            declared["stream"] = Attribute(self.item.get("stream", 0).number(-_BIG, _BIG), "int64_val")
        for name in LAUNCH:
            if self.is_gpu and self.item.has(name):
                declared[name] = Attribute(self.item.get(name).number(0, 1 << 40), "int64_val")
        if kind in (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV):
            size = tensor_bytes(self.item)
            if size > MOST_SIZE_BYTES:
                size = 0
            if size > 0:
                declared["comm_size"] = Attribute(size, "int64_val")
            if size <= 0 or kind != NodeType.COMM_COLL:  # or its peer is not known
                declared["keeps_duration"] = Attribute(value=True, kind="bool_val")
            caller = ops.get(self.parent, self)
            group = self.item.get("pg_name", "").value or caller.declared.get("pg_name", "")
            if isinstance(group, str) and group:
                declared["pg_name"] = Attribute(group, "string_val")
        if kind == NodeType.COMM_COLL:
            which = collective_named(self.name)
            if which is not None:
                declared["comm_type"] = Attribute(int(which), "int64_val")
            else:
                declared["keeps_duration"] = Attribute(value=True, kind="bool_val")
        return Node(
            self.id, self.name, kind, tuple(deps), (self.parent,), int(start), int(duration), declared,
            self._texts("inputs"), self._texts("outputs"),
        )  # fmt: skip

    def _texts(self, side: str) -> tuple[str, str, str]:
        value = self.item.get(side)
        return tuple(str(value.get(name, []).value) for name in ("values", "shapes", "types"))  # type: ignore[return-value]


def _order(ops: dict[int, RecordedOp]) -> dict[int, set[int]]:
    """Find what each node waits for: calls in the order of their ids, a kernel also for its caller."""
    deps: dict[int, set[int]] = {number: set() for number in ops}
    for root in sorted(ops):
        if ops[root].name not in ROOTS:
            continue
        host = last = -1
        seen: set[int] = set()
        stack = [root]
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            op = ops[number]
            if op.is_gpu:
                if last >= 0:
                    deps[number].add(last)
                last = host
            else:
                waited = op.waits("inter_thread_dep")
                deps[number].update(one for one in waited if one in ops and one != number)
                if host >= 0:
                    deps[number].add(host)
                host = last = number
            synced = op.waits("sync_dep")
            deps[number].update(one for one in synced if one in ops and ops[one].start < op.start)
            stack += [one for one in sorted(op.children, reverse=True) if one not in seen]
    return deps
