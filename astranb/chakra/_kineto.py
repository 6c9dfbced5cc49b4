"""Device activity from Kineto's traces (``torch.profiler.profile``), read as events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from astranb.core.document import DocumentNode as Value
from astranb.core.document import read_document
from astranb.core.file_formats import names_format

__all__ = ["LAUNCH", "Event", "kineto_events"]

MOST_BYTES: Final = 1 << 30
_CALLS: Final = frozenset(
    [
        *("cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernel", "cudaLaunchKernelExC"),
        *("cudaLaunchCooperativeKernel", "cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpyFromSymbol"),
        *("cudaMemcpyToSymbol", "hipLaunchKernel", "hipExtLaunchKernel", "hipExtModuleLaunchKernel"),
        *("hipModuleLaunchKernel", "hipMemcpyWithStream", "hipMemcpyAsync"),
    ]
)
"""Calls that start something on a device."""

LAUNCH: Final = {
    "num_blocks": "grid",
    "block_threads": "block",
    "thread_registers": "registers per thread",
    "block_shared_bytes": "shared memory",
}
"""Attributes of an operation of a device that say how it was launched, and Kineto's words for them."""


class Event:
    """One of ``traceEvents``."""

    def __init__(self, item: Value) -> None:
        args = item.get("args", {})
        self.item = item
        self.category = item.get("cat", "").text()
        self.name = item.get("name", "").text()
        self.start = item.get("ts", 0).real(-1e18, 1e18)
        self.duration = item.get("dur", 0).real(0, 1e15)
        self.own = self.duration
        thread = item.get("tid", 0).value
        self.thread = str(thread)
        self.external = _id(args, "External id")
        self.record = _id(args, "Record function id")
        self.correlation = _id(args, "correlation")
        self.stream = args.get("stream", None).value
        self.group = args.get("Process Group Name", None).value
        self.wait_stream = _id(args, "wait_on_stream")
        self.wait_record = _id(args, "wait_on_cuda_event_record_corr_id")
        self.launch = {name: size for name, word in LAUNCH.items() if (size := _size(args, word)) >= 0}
        self.after: Event | None = None

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.duration

    @property
    def is_host(self) -> bool:
        """Whether it is an operation of the host."""
        return self.category in ("cpu_op", "user_annotation") and "ProfilerStep" not in self.name

    @property
    def is_call(self) -> bool:
        """Whether the host calls the driver of a device."""
        return self.category in ("cuda_runtime", "cuda_driver")

    @property
    def is_launch(self) -> bool:
        """Whether it starts something on a device."""
        return self.is_call and self.name in _CALLS

    @property
    def is_device(self) -> bool:
        """Whether a device executed it."""
        return self.category in ("kernel", "gpu_memcpy")


def _id(args: Value, name: str) -> int:
    value = args.get(name, None).value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _size(args: Value, name: str) -> int:
    """A number, or the product of the three of a grid; -1 where there is none."""
    value = args.get(name, None).value
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(type(one) is int and 0 <= one < 1 << 31 for one in listed):
        return -1
    return min(math.prod(listed), (1 << 40) - 1)


@names_format("Kineto trace")
def kineto_events(path: str | Path) -> list[Event]:
    """Read all events with a duration in the order of their starts, and compute their own times."""
    document = read_document(path, MOST_BYTES, form="json", strict=False)
    items = document.get("traceEvents").items()
    events = [Event(item) for item in items if item.get("ph", "X").value == "X"]
    events.sort(key=lambda one: one.start)
    threads: dict[str, list[Event]] = {}
    for event in events:
        if event.is_host:
            threads.setdefault(event.thread, []).append(event)
    for some in threads.values():
        _own_times(some)
    return events


def _own_times(events: Iterable[Event]) -> None:
    """Subtract the time of the operations that an operation calls from its own."""
    open_: list[Event] = []
    for event in sorted(events, key=lambda one: (one.start, -one.duration)):
        while open_ and open_[-1].end < event.end:
            open_.pop()
        if open_ and event.start >= open_[-1].start:
            open_[-1].own = max(open_[-1].own - event.duration, 0.0)
        open_.append(event)
