"""Join a host's execution trace with the device's trace of the same run.

As in ``chakra_trace_link`` of mlcommons/chakra, a kernel belongs to the operation that launched it: found
by the launch's correlation id, else by thread and external id. Host operations are matched with Kineto's by
the id of their record function. Gaps between threads become dependencies, and so do waits of streams for
each other and of the host for the device (which that tool takes from Holistic Trace Analysis).

A stream that waits for an event (``cudaStreamWaitEvent``) waits for what was launched into another stream
before the event was recorded there: Kineto's ``cuda_sync`` events name that stream and the record's
correlation id. A host that waits (``cudaStreamSynchronize`` and others) resumes when that work is done.
Waits for which a file has too little information are left out.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError

from .kineto import Event, kineto_events
from .pytorch import device_operation, pytorch_document

__all__ = ["LinkedTrace", "link", "record_number", "synchronisations"]

_GAP_US: Final = 1000
"""A longer gap of a thread counts as a wait for another thread."""


class LinkedTrace(NamedTuple):
    """The result of :func:`link`.

    Attributes
    ----------
    document : dict
        The host's trace with times and the device's operations: JSON that :func:`pytorch_trace` reads.
    hosts : int
        Operations of the host that Kineto knows.
    devices : int
        Operations of the device that were joined to one of the host.
    orphans : int
        Operations of the device without one.
    waits : int
        Waits of streams for each other, and of the host for the device.
    """

    document: dict[str, Any]
    hosts: int
    devices: int
    orphans: int
    waits: int = 0


def link(host: str | Path, device: str | Path) -> LinkedTrace:
    """Join a host's and a device's trace.

    Parameters
    ----------
    host : str or Path
        The trace that ``ExecutionTraceObserver`` wrote.
    device : str or Path
        The trace of the same run that Kineto wrote (``export_chrome_trace``).

    Raises
    ------
    InputError
        A file has another format, or the two have nothing in common.
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
            raise item.error(f"duplicate node id {number}", "give each node an id of its own")
        by_id[number] = {**item.value, "id": number}
    ops = [op for _, op in sorted(by_id.items())]
    meets = {int(op["id"]): by_record[record] for op in ops if (record := record_number(op)) in by_record}
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
            added.append((device_operation(op, kernel) | {"id": count}, old))
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
    return LinkedTrace({**document.value, "nodes": nodes}, len(meets), joined, orphans, len(waits))


def record_number(op: dict[str, Any]) -> int:
    """The number of an operation's record function; -1 for none."""
    attrs = op.get("attrs")
    for one in attrs if isinstance(attrs, list) else []:
        if isinstance(one, dict) and one.get("name") == "rf_id" and isinstance(one.get("value"), int):
            return int(one["value"])
    return -1


def _launched(events: list[Event], hosts: list[Event]) -> tuple[dict[int, list[Event]], int]:
    """Find what each operation of the host launched, by external id, and count what none did."""
    launches: dict[int, Event] = {}
    for event in events:
        if event.is_launch:
            if event.correlation in launches:
                what = f"duplicate correlation {event.correlation} of launches"
                raise event.error(what, "each launch has its own")
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
    """After a pause of a thread, let it wait for the last operation of the other threads."""
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


_Streams = dict[int, list[tuple[float, Event]]]
"""Launches into each stream, with their start times."""

_STREAM_WAITS: Final = "Stream Wait Event"
_ALL_STREAMS: Final = frozenset(["cudaDeviceSynchronize", "cuCtxSynchronize", "hipDeviceSynchronize"])
_OF_ONE: Final = frozenset(
    [
        *("cudaStreamSynchronize", "cudaEventSynchronize", "cuStreamSynchronize", "cuEventSynchronize"),
        *("hipStreamSynchronize", "hipEventSynchronize"),
    ]
)


def synchronisations(events: Iterable[Event], known: Iterable[Event]) -> list[tuple[Event, Event]]:
    """Find which of the known operations wait for which, from all events in the order of their starts.

    Each pair is the first operation that has to wait, and the last one that it waits for.
    """
    calls = {one.correlation: one for one in events if one.is_call and one.correlation >= 0}
    streams: _Streams = {}
    threads: dict[str, list[Event]] = {}
    for one in known:
        if one.is_device:
            launch = calls.get(one.correlation)
            if launch is not None and _stream(one) >= 0:
                streams.setdefault(_stream(one), []).append((launch.start, one))
        else:
            threads.setdefault(one.thread, []).append(one)
    for launched in streams.values():
        launched.sort(key=lambda pair: pair[0])
    for hosts in threads.values():
        hosts.sort(key=lambda one: one.start)
    found: list[tuple[Event, Event]] = []
    recorded = {
        one.correlation: one for one in events if one.category == "cuda_sync" and one.correlation >= 0
    }
    for one in events:
        if one.category == "cuda_sync" and one.name == _STREAM_WAITS:
            found += _between(one, calls, streams)
        elif one.is_call and (one.name in _ALL_STREAMS or one.name in _OF_ONE):
            found += _by_host(one, recorded.get(one.correlation), calls, streams, threads)
    return list(dict.fromkeys(found))


def _stream(event: Event) -> int:
    """The stream of an event; -1 for none."""
    declared = event.stream
    return declared if isinstance(declared, int) and not isinstance(declared, bool) else -1


def _launched_before(launched: list[tuple[float, Event]], when: float) -> list[Event]:
    """The last operation launched before a time, if there is one."""
    at = bisect.bisect_left(launched, when, key=lambda pair: pair[0])
    return [launched[at - 1][1]] if at else []


def _between(wait: Event, calls: dict[int, Event], streams: _Streams) -> list[tuple[Event, Event]]:
    """A stream waits for another."""
    call, record = calls.get(wait.correlation), calls.get(wait.wait_record)
    launched = streams.get(_stream(wait), [])
    if call is None or record is None or wait.wait_stream == _stream(wait):
        return []
    at = bisect.bisect_right(launched, call.start, key=lambda pair: pair[0])
    return [
        (later, earlier)
        for _, later in launched[at : at + 1]
        for earlier in _launched_before(streams.get(wait.wait_stream, []), record.start)
    ]


def _by_host(
    call: Event,
    recorded: Event | None,
    calls: dict[int, Event],
    streams: _Streams,
    threads: dict[str, list[Event]],
) -> list[tuple[Event, Event]]:
    """A thread of the host waits for streams, or for an event in one."""
    waited = list(streams) if call.name in _ALL_STREAMS else []
    when = call.start
    if not waited and recorded is not None:
        record = calls.get(recorded.wait_record)
        waited = [_stream(recorded) if record is None else recorded.wait_stream]
        when = call.start if record is None else record.start
    hosts = threads.get(call.thread, [])
    at = bisect.bisect_left(hosts, call.end, key=lambda one: one.start)
    return [
        (later, earlier)
        for later in hosts[at : at + 1]
        for stream in waited
        for earlier in _launched_before(streams.get(stream, []), when)
    ]
