"""A host's execution trace and what a device did, joined.

As ``chakra_trace_link`` of mlcommons/chakra: a kernel belongs to the operation that launched it, found by
the launch's correlation id, then the thread and the external id; host operations meet Kineto's by the
id of their record function. Times of gaps between threads become dependencies, and so do waits of streams
for each other and of the host for the device, as far as the trace tells of them (that tool has them from
Holistic Trace Analysis).
"""

from __future__ import annotations

import bisect
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError

from ._kineto import Event, kineto_events
from ._pytorch import pytorch_document
from ._syncs import synchronisations

__all__ = ["Linked", "link"]

_GAP_US: Final = 1000
"""A thread that pauses for longer goes on because another one did something."""


class Linked(NamedTuple):
    """What :func:`link` found.

    Attributes
    ----------
    document : dict
        The host's trace with times and the device's operations: JSON that :func:`pytorch_trace` reads.
    hosts : int
        Operations of the host that Kineto knows.
    devices : int
        Operations of the device that were joined to one of the host.
    orphans : int
        Those that were not.
    waits : int
        Waits of streams for each other, and of the host for the device.
    """

    document: dict[str, Any]
    hosts: int
    devices: int
    orphans: int
    waits: int = 0


def link(host: str | Path, device: str | Path) -> Linked:
    """Join a host's and a device's trace.

    Parameters
    ----------
    host : str or Path
        What ``ExecutionTraceObserver`` wrote.
    device : str or Path
        What Kineto wrote (``export_chrome_trace``), of the same run.

    Returns
    -------
    Linked

    Raises
    ------
    InputError
        A file is not what it should be, or both have nothing in common.
    """
    document = pytorch_document(host)
    events = kineto_events(device)
    hosts = [event for event in events if event.is_host]
    _pauses(hosts)
    by_record = {event.record: event for event in hosts if event.record >= 0}
    launched, orphans = _launched(events, hosts)
    by_id: dict[int, dict[str, Any]] = {}
    for item in document.get("nodes").items():
        number = item.get("id").number(0, 1 << 62)
        if number in by_id:
            raise item.error(f"a second node {number}", "give each node an id of its own")
        by_id[number] = {**item.value, "id": number}
    ops = [op for _, op in sorted(by_id.items())]
    meets = {int(op["id"]): by_record[record] for op in ops if (record := _record(op)) in by_record}
    if not meets:
        what = "no operation of the host has the record function id of one of the device's trace"
        raise InputError(what, where=str(host), hint="give the two traces of one run and rank")
    known: dict[int, int] = {}  # as in that tool, an operation waits for one of a lower id only
    numbers: dict[int, int] = {}
    count = joined = 0
    added: list[tuple[dict[str, Any], int]] = []
    op_of: dict[Event, dict[str, Any]] = {}
    for op in ops:
        old = int(op["id"])
        numbers[old] = count
        count += 1
        event = meets.get(old)
        if event is None:
            continue
        op |= {"inclusive_dur": event.duration, "exclusive_dur": event.own, "ts": event.start}
        before = event.after
        op["inter_thread_dep"] = None if before is None else known.get(id(before))
        known[id(event)] = count - 1
        op_of[event] = op
        for kernel in sorted(launched.pop(event.external, []), key=lambda one: one.start):
            added.append((_kernel(op, kernel, count), old))
            op_of[kernel] = added[-1][0]
            count += 1
            joined += 1
    for op in ops:
        op["id"] = numbers[int(op["id"])]
        caller = op.get("ctrl_deps")
        op["ctrl_deps"] = numbers.get(caller, count) if isinstance(caller, int) else count
    for kernel_op, old in added:
        kernel_op["ctrl_deps"] = numbers[old]
    waits = synchronisations(events, op_of)
    for later in dict.fromkeys(later for later, _ in waits):
        op_of[later]["sync_dep"] = [op_of[before]["id"] for one, before in waits if one is later]
    orphans += sum(map(len, launched.values()))
    nodes = sorted([*ops, *[one for one, _ in added]], key=lambda op: int(op["id"]))
    return Linked({**document.value, "nodes": nodes}, len(meets), joined, orphans, len(waits))


def _record(op: dict[str, Any]) -> int:
    attrs = op.get("attrs")
    for one in attrs if isinstance(attrs, list) else []:
        if isinstance(one, dict) and one.get("name") == "rf_id" and isinstance(one.get("value"), int):
            return int(one["value"])
    return -1


def _kernel(op: dict[str, Any], kernel: Event, number: int) -> dict[str, Any]:
    """An operation of the device: its host's, with what Kineto says of it."""
    made = op | {
        "id": number,
        "cat": kernel.category,
        "name": kernel.name,
        "ph": "X",
        "inclusive_dur": kernel.duration,
        "exclusive_dur": kernel.duration,
        "ts": kernel.start,
        "stream": kernel.stream if isinstance(kernel.stream, int) else 0,
    }
    if "ncclDevKernel" in kernel.name and isinstance(kernel.group, str):
        made["pg_name"] = kernel.group
    return made


def _launched(events: list[Event], hosts: list[Event]) -> tuple[dict[int, list[Event]], int]:
    """What each operation of the host launched, by external id; and how much nobody did."""
    launches: dict[int, Event] = {}
    for event in events:
        if event.is_launch:
            if event.correlation in launches:
                what = f"two launches have the correlation {event.correlation}"
                raise event.item.error(what, "each launch has its own")
            launches[event.correlation] = event
    threads: dict[str, list[Event]] = {}
    exact: dict[tuple[str, int], list[Event]] = {}
    for event in hosts:
        threads.setdefault(event.thread, []).append(event)
        exact.setdefault((event.thread, event.external), []).append(event)
    found: dict[int, list[Event]] = {}
    orphans = 0
    for event in events:
        if not event.is_device:
            continue
        launch = launches.get(event.correlation)
        caller = None
        if launch is not None:
            coalesced = "nccl" in event.name.lower()
            # The last one before the launch: with the same external id, or else of the same thread.
            caller = _before(exact.get((launch.thread, event.external), []), launch.start, coalesced)
            caller = caller or _before(threads.get(launch.thread, []), launch.start, coalesced)
        if caller is None or caller.external < 0:
            orphans += 1
        else:
            found.setdefault(caller.external, []).append(event)
    return found, orphans


def _before(events: list[Event], when: float, coalesced: bool) -> Event | None:
    at = bisect.bisect_left(events, when, key=lambda one: one.start) - 1
    while at >= 0 and coalesced and events[at].name == "nccl:coalesced":
        at -= 1
    return events[at] if at >= 0 else None


def _pauses(hosts: list[Event]) -> None:
    """Where a thread has paused, what follows waits for what the others did last before it."""
    threads: dict[str, list[Event]] = {}
    for event in hosts:
        threads.setdefault(event.thread, []).append(event)
    for name, events in threads.items():
        others = [(other, [one.start for one in other]) for key, other in threads.items() if key != name]
        before: Event | None = None
        for number, event in enumerate(events):
            last = events[number - 1] if number else None
            if last is None or event.start - last.end > _GAP_US:
                found = [
                    some[at - 1] for some, starts in others if (at := bisect.bisect_left(starts, event.start))
                ]
                before = max(found, key=lambda one: one.start, default=None) or before
            event.after = before
