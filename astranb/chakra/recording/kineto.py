"""Activity of a host and its devices from Kineto's traces (``torch.profiler.profile``), as events.

A trace of a training step has hundreds of megabytes: the file, packed or not, is read event by event, and
of an event only what is used is kept. Categories are those of ``libkineto/src/ActivityType.cpp``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError, TruncatedFile
from astranb.core.file_formats import names_format
from astranb.core.json_stream import JsonStream
from astranb.core.packed import blocks

__all__ = [
    "LAUNCH",
    "Event",
    "KinetoTrace",
    "is_communication",
    "kineto_events",
    "kineto_summary",
    "read_kineto",
    "symbol",
]

MOST_BYTES: Final = 8 << 30
_MOST_EVENTS: Final = 50_000_000
_CALLS: Final = frozenset(
    [
        *("cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernel", "cudaLaunchKernelExC"),
        *("cudaLaunchCooperativeKernel", "cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpyFromSymbol"),
        *("cudaMemcpyToSymbol", "hipLaunchKernel", "hipExtLaunchKernel", "hipExtModuleLaunchKernel"),
        *("hipModuleLaunchKernel", "hipHccModuleLaunchKernel", "hipLaunchCooperativeKernel"),
        *("hipDrvLaunchKernelEx", "hipMemcpy", "hipMemcpyWithStream", "hipMemcpyAsync"),
    ]
)
"""Calls that start something on a device."""
_HOST: Final = ("cpu_op", "user_annotation")
_CALL: Final = ("cuda_runtime", "cuda_driver")  # HIP's calls are cuda_runtime, too
_DEVICE: Final = ("kernel", "gpu_memcpy")
_KEPT: Final = {one: one for one in (*_HOST, *_CALL, *_DEVICE, "gpu_memset", "cuda_sync")}

LAUNCH: Final = {
    "num_blocks": "grid",
    "block_threads": "block",
    "thread_registers": "registers per thread",
    "block_shared_bytes": "shared memory",
}
"""Attributes of an operation of a device that say how it was launched, and Kineto's words for them."""


_KERNEL: Final = re.compile(
    r"nccl|rccl|msccl|nvshmem|deep_ep|cross_device_reduce|quickreduce|symmetric_memory|multimem_(?:all|one_)"
    r"|(?:one|two)_?shot_all_?reduce|all_?reduce_(?:fusion|prototype)",
    re.IGNORECASE,
)
"""Kernels of NCCL, RCCL, MSCCL and MSCCL++, NVSHMEM and DeepEP, and all-reduces of PyTorch and of engines
that serve models (vLLM, SGLang, TensorRT-LLM, FlashInfer, AITER)."""
_SYMBOL: Final = re.compile(r"[(<]")
_BACKEND_CALL: Final = re.compile(r"(?:gloo|mpi|nccl|ucc):\w+")
_KIND_OF_KERNEL: Final = re.compile(r"\w*?Kernel_[A-Za-z]+")
"""The part of the name of a kernel of NCCL or RCCL that says what it does."""
_NOTHING: Final[dict[str, Any]] = {}


def is_communication(kernel: str) -> bool:
    """Return whether a kernel communicates with other ranks, by its name.

    Examples
    --------
    >>> [is_communication(name) for name in ("ncclDevKernel_Generic_4(ncclDevComm*)", "reduce_kernel<512>")]
    [True, False]
    """
    return _KERNEL.search(symbol(kernel)) is not None


def symbol(kernel: str) -> str:
    """The name of a kernel without its parameters."""
    return _SYMBOL.split(kernel.replace("(anonymous namespace)", ""), maxsplit=1)[0]


class Event:
    """One of ``traceEvents``: times in µs, and the arguments that tell what belongs together.

    Identifiers are -1 where there is none; ``comm`` holds the arguments of a collective (``Collective name``,
    ``In msg nelems``, ``dtype``, ``Group size``, ``Process Group Ranks``, …).
    """

    __slots__ = (
        *("category", "name", "start", "duration", "own", "thread", "external", "record", "correlation"),
        *("stream", "group", "wait_stream", "wait_record", "launch", "comm", "after", "where", "number"),
    )

    def __init__(self, item: dict[str, Any], where: str = "", number: int = 0) -> None:
        self.where, self.number = where, number
        args = item.get("args")
        args = args if isinstance(args, dict) else {}
        category = _text(item.get("cat"))
        self.category = _KEPT.get(category, category)
        self.name = _text(item.get("name"))
        self.start = self._real(item, "ts", -1e18, 1e18)
        self.duration = self._real(item, "dur", 0, 1e15)
        self.own = self.duration
        self.thread = _text(item.get("tid", 0))
        self.external = _id(args, "External id")
        self.record = _id(args, "Record function id")
        self.correlation = _id(args, "correlation")
        self.stream = args.get("stream")
        self.group = args.get("Process Group Name")
        self.wait_stream = _id(args, "wait_on_stream")
        self.wait_record = _id(args, "wait_on_cuda_event_record_corr_id")
        self.launch = (
            _launch(*(_size(args, word) for word in LAUNCH.values())) if "grid" in args else _NOTHING
        )
        self.comm: dict[str, Any] = args if "Collective name" in args else _NOTHING
        self.after: Event | None = None

    def _real(self, item: dict[str, Any], name: str, low: float, high: float) -> float:
        value = item.get(name, 0)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise self.error(
                f"{name!r} is {_text(value)[:40]}", f"a number from {low:g} to {high:g} is expected"
            )
        return float(value)

    def error(self, what: str, hint: str = "") -> InputError:
        """An error about this event."""
        return InputError(what, where=f"{self.where}: event {self.number} {self.name[:80]!r}", hint=hint)

    @property
    def end(self) -> float:
        """Its end."""
        return self.start + self.duration

    @property
    def is_host(self) -> bool:
        """Whether it is an operation of the host."""
        return self.category in _HOST and "ProfilerStep" not in self.name

    @property
    def is_call(self) -> bool:
        """Whether the host calls the driver of a device."""
        return self.category in _CALL

    @property
    def is_launch(self) -> bool:
        """Whether it starts something on a device."""
        return self.is_call and self.name in _CALLS

    @property
    def is_device(self) -> bool:
        """Whether a device executed it."""
        return self.category in _DEVICE


class KinetoTrace(NamedTuple):
    """Content of a Kineto trace.

    Attributes
    ----------
    events : list of Event
        Those with a duration, of a host, its calls and its devices, in the order of their starts.
    members : dict
        What is beside the events: ``distributedInfo``, ``deviceProperties``, …
    counts : Counter of str
        Events with a duration by category, all of them.
    truncated : str
        Where and why the file ends in the middle; empty for a whole one.
    """

    events: list[Event]
    members: dict[str, Any]
    counts: Counter[str]
    truncated: str = ""

    @property
    def span(self) -> tuple[float, float]:
        """From the first start to the last end of what a host or a device did; both 0 without any."""
        some = [one for one in self.events if one.category != "cuda_sync"]  # which only describes a call
        return min((one.start for one in some), default=0.0), max((one.end for one in some), default=0.0)


def kineto_summary(trace: KinetoTrace) -> dict[str, Any]:
    """Count what a Kineto trace holds.

    Returns
    -------
    dict
        ``events`` with a duration; counts of ``categories``; ``threads`` of the host and ``streams`` of the
        device; ``span_us`` from the first start to the last end; ``device_us``, the sum of durations on the
        device; ``steps`` of the profiler; ``collectives``, counts by kernel or call; ``backend``, ``rank``
        and ``ranks`` where the file says so; ``devices``; ``truncated``.
    """
    events = trace.events
    device = [one for one in events if one.is_device]
    names: Counter[str] = Counter()
    for one in events:
        if one.is_host and (call := _BACKEND_CALL.match(one.name)):
            names[call[0]] += 1
        elif one.is_device and is_communication(one.name):
            kernel = symbol(one.name)
            names[found[0] if (found := _KIND_OF_KERNEL.match(kernel)) else kernel] += 1
    said = trace.members.get("distributedInfo")
    said = said if isinstance(said, dict) else {}
    gpus = trace.members.get("deviceProperties")
    gpus = [one for one in gpus if isinstance(one, dict)] if isinstance(gpus, list) else []
    begun, ended = trace.span
    return {
        "events": trace.counts.total(),
        "categories": dict(trace.counts.most_common()),
        "threads": len({one.thread for one in events if one.is_host}),
        "streams": len({str(one.stream) for one in device}),
        "span_us": round(ended - begun),
        "device_us": round(sum(one.duration for one in device)),
        "steps": sum(one.name.startswith("ProfilerStep") for one in events if one.category in _HOST),
        "collectives": dict(names.most_common()),
        "backend": _text(said.get("backend", "not given")),
        "rank": _text(said.get("rank", "not given")),
        "ranks": _text(said.get("world_size", "not given")),
        "devices": ", ".join(sorted({_text(one.get("name")) for one in gpus})) or "none",
        "truncated": trace.truncated,
    }


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)[:200] if value is not None else ""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=1 << 16)
def _launch(*sizes: int) -> dict[str, int]:
    """Name the sizes of a launch that are given; launches that are alike share them."""
    return {name: size for name, size in zip(LAUNCH, sizes, strict=True) if size >= 0}


def _id(args: dict[str, Any], name: str) -> int:
    value = args.get(name)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _size(args: dict[str, Any], name: str) -> int:
    """A number, or the product of the three of a grid; -1 where there is none."""
    value = args.get(name)
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(type(one) is int and 0 <= one < 1 << 31 for one in listed):
        return -1
    return min(math.prod(listed), (1 << 40) - 1)


@names_format("Kineto trace")
def read_kineto(path: str | Path, *, whole: bool = True) -> KinetoTrace:
    """Read a Kineto trace, packed or not.

    Parameters
    ----------
    path : str or Path
    whole : bool
        Whether a truncated file is an error; otherwise its complete events are returned.

    Raises
    ------
    InputError
        The file cannot be read, is not JSON, or is no Kineto trace; the text names the byte or the event.
    """
    where = str(path)
    stream = JsonStream(blocks(path, MOST_BYTES), where, "traceEvents")
    events: list[Event] = []
    counts: Counter[str] = Counter()
    truncated = ""
    try:
        for event in _kept(stream, counts):
            events.append(event)  # noqa: PERF402 - those of a truncated file stay
    except TruncatedFile as error:
        if whole or not stream.found:
            raise
        truncated = f"{error.where.removeprefix(where).lstrip(': ')}: {error.what}"
    if not stream.found:
        raise InputError("no 'traceEvents'", where=where, hint="give a trace of torch.profiler")
    events.sort(key=lambda one: one.start)
    threads: dict[str, list[Event]] = {}
    for event in events:
        if event.is_host:
            threads.setdefault(event.thread, []).append(event)
    for some in threads.values():
        _own_times(some)
    return KinetoTrace(events, stream.members, counts, truncated)


def _kept(stream: JsonStream, counts: Counter[str]) -> Iterator[Event]:
    """Yield the events that are used, and count those with a duration by category."""
    names: dict[str, str] = {}  # each name once: a step calls an operator thousands of times
    kept = 0
    for number, item in enumerate(stream):
        if not isinstance(item, dict):
            what = f"event {number} is {_text(item)[:40]}, not an object"
            raise InputError(what, where=stream.where, hint="give a trace of torch.profiler")
        if item.get("ph", "X") != "X":
            continue
        category = _text(item.get("cat"))
        counts[category] += 1
        if category in _KEPT:
            event = Event(item, stream.where, number)
            event.name = names.setdefault(event.name, event.name)
            event.thread = names.setdefault(event.thread, event.thread)
            kept += 1
            if kept > _MOST_EVENTS:
                what = f"more than {_MOST_EVENTS:,} events"
                raise InputError(what, where=stream.where, hint="record fewer steps")
            yield event


def kineto_events(path: str | Path) -> list[Event]:
    """Read all events with a duration in the order of their starts, and compute their own times."""
    return read_kineto(path).events


def _own_times(events: Iterable[Event]) -> None:
    """Subtract the time of the operations that an operation calls from its own."""
    open_: list[Event] = []
    for event in sorted(events, key=lambda one: (one.start, -one.duration)):
        while open_ and open_[-1].end < event.end:
            open_.pop()
        if open_ and event.start >= open_[-1].start:
            open_[-1].own = max(open_[-1].own - event.duration, 0.0)
        open_.append(event)
