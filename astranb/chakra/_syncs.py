"""Who waits for whom on a device: what Kineto says of streams, events and the host that waits.

A stream that waits for an event (``cudaStreamWaitEvent``) waits for what was launched into another
stream before the event was recorded there; Kineto's ``cuda_sync`` events name that stream and the
correlation of the record. A host that waits (``cudaStreamSynchronize`` and the like) goes on when what it
waits for is over. Where a file does not say enough of a wait, that one is left out.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Final

from ._kineto import Event

__all__ = ["synchronisations"]

_Streams = dict[int, list[tuple[float, Event]]]
"""What was launched into each stream, with the start of its launch."""

_STREAM_WAITS: Final = "Stream Wait Event"
_ALL_STREAMS: Final = frozenset(["cudaDeviceSynchronize", "cuCtxSynchronize", "hipDeviceSynchronize"])
_OF_ONE: Final = frozenset(
    [
        *("cudaStreamSynchronize", "cudaEventSynchronize", "cuStreamSynchronize", "cuEventSynchronize"),
        *("hipStreamSynchronize", "hipEventSynchronize"),
    ]
)


def synchronisations(events: Iterable[Event], known: Iterable[Event]) -> list[tuple[Event, Event]]:
    """Find what waits for what of a device.

    Parameters
    ----------
    events : iterable of Event
        All of a trace, in the order of their starts.
    known : iterable of Event
        Those of hosts and devices between which waits are wanted.

    Returns
    -------
    list of (Event, Event)
        The first operation that has to wait, and the last one that it waits for.
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
    told = {one.correlation: one for one in events if one.category == "cuda_sync" and one.correlation >= 0}
    for one in events:
        if one.category == "cuda_sync" and one.name == _STREAM_WAITS:
            found += _between(one, calls, streams)
        elif one.is_call and (one.name in _ALL_STREAMS or one.name in _OF_ONE):
            found += _by_host(one, told.get(one.correlation), calls, streams, threads)
    return list(dict.fromkeys(found))


def _stream(event: Event) -> int:
    """The stream of an event; -1 where none is said."""
    said = event.stream
    return said if isinstance(said, int) and not isinstance(said, bool) else -1


def _before(launched: list[tuple[float, Event]], when: float) -> list[Event]:
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
        for earlier in _before(streams.get(wait.wait_stream, []), record.start)
    ]


def _by_host(
    call: Event,
    told: Event | None,
    calls: dict[int, Event],
    streams: _Streams,
    threads: dict[str, list[Event]],
) -> list[tuple[Event, Event]]:
    """A thread of the host waits for streams, or for an event in one."""
    waited = list(streams) if call.name in _ALL_STREAMS else []
    when = call.start
    if not waited and told is not None:
        record = calls.get(told.wait_record)
        waited = [_stream(told) if record is None else told.wait_stream]
        when = call.start if record is None else record.start
    hosts = threads.get(call.thread, [])
    at = bisect.bisect_left(hosts, call.end, key=lambda one: one.start)
    return [
        (later, earlier)
        for later in hosts[at : at + 1]
        for stream in waited
        for earlier in _before(streams.get(stream, []), when)
    ]
