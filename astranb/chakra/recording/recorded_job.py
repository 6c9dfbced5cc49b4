"""A recorded job: the recordings of all its ranks as traces that can be simulated."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.chakra.traces import Attribute, CollectiveType, Node, NodeType, Trace, check, write_ranks
from astranb.core.document import DocumentNode as Value
from astranb.core.errors import InputError
from astranb.core.limits import MOST_RANKS
from astranb.core.plural import plural

from .groups import Matched, alone, matched
from .kineto import Event, read_kineto
from .link import record_number, synchronisations
from .messages import UNKNOWN, Message, groups_of, is_backend, message_of
from .pieces import IDLE, Piece, explain_pauses, host_pieces, let_threads_wait
from .pytorch import RecordedOp, device_operation, pytorch_document

__all__ = ["LinkedJob", "RankFiles", "link_job", "recorded_files", "write_job"]

_HOST: Final = ("cpu_op", "user_annotation")
_STEP: Final = "ProfilerStep"
_LOOKAHEAD: Final = 64
"""Number of operations of a host trace that may be missing in Kineto's at one place."""


class RankFiles(NamedTuple):
    """Recording of one rank: the host trace of ``ExecutionTraceObserver``, and Kineto's.

    Without the former there are no tensors: sizes are those that Kineto gives with NCCL's kernels.
    """

    host: Path | None
    device: Path


class LinkedJob(NamedTuple):
    """The result of :func:`link_job`.

    Attributes
    ----------
    traces : list of Trace
        One for each rank.
    groups : dict of str to list of int
        The ranks of each process group, by the name that the traces give it.
    steps_us : list of list of float
        How long each recorded step took, for each rank; where no steps are marked, all of the recording.
    begun_us : list of float
        How much later the recording of each rank began than that of the first one.
    collectives, messages : int
        Of all ranks together: a collective of a group counts once.
    notes : list of str
        What was inferred, and what is not known.
    lengths_us : sequence of float
        From the first start to the last end of what each rank recorded.
    """

    traces: list[Trace]
    groups: dict[str, list[int]]
    steps_us: list[list[float]]
    begun_us: list[float]
    collectives: int
    messages: int
    notes: list[str]
    lengths_us: Sequence[float] = ()

    @property
    def steps_ms(self) -> list[list[float]]:
        """:attr:`steps_us` in milliseconds."""
        return [[one / 1000 for one in steps] for steps in self.steps_us]

    @property
    def begun_ms(self) -> list[float]:
        """:attr:`begun_us` in milliseconds."""
        return [one / 1000 for one in self.begun_us]


def recorded_files(prefix: str | Path) -> list[RankFiles]:
    """Find what :func:`record` wrote: ``PREFIX.RANK.et.json`` and ``PREFIX.RANK.kineto.json.gz``.

    Where no rank has a host trace, Kineto's alone are taken.

    Raises
    ------
    InputError
        There is none, or a rank's file is missing.
    """
    found: list[RankFiles] = []
    while True:
        base = f"{prefix}.{len(found)}"
        hosts = [file for end in (".et.json", ".et.json.gz") if (file := Path(base + end)).is_file()]
        devices = [
            file for end in (".kineto.json.gz", ".kineto.json") if (file := Path(base + end)).is_file()
        ]
        if not hosts and not devices:
            break
        alone = devices and not hosts and all(one.host is None for one in found)
        if not alone and (not hosts or not devices or (found and found[0].host is None)):
            missing = (
                f"{base}.kineto.json.gz" if not devices else f"{prefix}.{0 if hosts else len(found)}.et.json"
            )
            raise InputError("the file is missing", where=missing, hint="record both: astranb.chakra.record")
        found.append(RankFiles(hosts[0] if hosts else None, devices[0]))
    if not found:
        hint = "record the job with astranb.chakra.record(PREFIX), or give a host trace and Kineto's"
        raise InputError("no recording found", where=f"{prefix}.0.et.json", hint=hint)
    return found


def link_job(recordings: Sequence[RankFiles], *, one_rank: bool = False) -> LinkedJob:
    """Make traces of what all ranks of a job recorded.

    All that a host or a device did is there. Order and durations on each thread and stream are as recorded;
    waits are dependencies, not durations: for other threads, for the device, for messages, and in a
    collective for the last rank. Communication whose peers or bytes are not recorded keeps its duration, and
    so does that outside the recorded steps, which other ranks need not have recorded.

    Parameters
    ----------
    recordings : sequence of RankFiles
        In the order of the ranks.
    one_rank : bool
        Whether to take one recording of a job of more ranks: groups are as recorded, messages keep their
        durations.

    Raises
    ------
    InputError
        A file is damaged, or they are not of one job and one time.
    """
    ranks = [_Recording(files) for files in recordings]
    if one_rank:
        del ranks[1:]
    else:
        _one_job(ranks)
    for one in ranks:
        one.find_pieces()
    messages = [one.communicated() for one in ranks]
    if one_rank:
        found = alone(messages[0], ranks[0].groups, max(ranks[0].world, 1))
    else:
        found = matched(messages, [one.groups for one in ranks], [str(one.files.device) for one in ranks])
    for together in found.together:
        took = min(message.took_us for message in together)
        size = max(message.size for message in together)
        found.uneven += len({message.size for message in together} - {-1}) > 1
        for message in together:
            message.size = size
            if not message.keeps_duration:
                message.took_us = took
    first = min(one.begun for one in ranks)
    traces = [one.trace(rank, found, first) for rank, one in enumerate(ranks)]
    notes = [*dict.fromkeys(note for one in ranks for note in one.notes), *found.notes]
    if found.uneven:
        notes.append(f"{plural(found.uneven, 'uneven collective')}: as the largest input of a rank")
    notes += _unknown([one for some in messages for one in some])
    if not any(messages):
        notes.append("NO COMMUNICATION: no rank recorded a collective or a message")
    collectives = sum(together[0].is_collective for together in found.together)
    return LinkedJob(
        traces,
        {name: list(ranks) for ranks, name in found.groups.items()},
        [[step.duration for step in one.steps] or [one.end - one.start] for one in ranks],
        [one.begun - first for one in ranks],
        collectives,
        len(found.together) - collectives,
        notes,
        [one.end - one.start for one in ranks],
    )


def write_job(
    job: LinkedJob, prefix: str | Path, *, more: Mapping[str, bytes | None] | None = None
) -> list[Path]:
    """Write ``PREFIX.RANK.et`` for each rank, ``PREFIX.groups.json`` and ``PREFIX.`` more: all or none.

    What is None of more is removed, if an older job has left it.
    """
    files: dict[str, bytes | None] = {"groups.json": json.dumps(job.groups).encode(), **(more or {})}
    others = {Path(f"{prefix}.{ending}"): data for ending, data in files.items()}
    return write_ranks(lambda rank: job.traces[rank].data, prefix, ranks=len(job.traces), others=others)


def _unknown(messages: Sequence[Message]) -> list[str]:
    """List which facts about communication are not recorded."""
    collectives = [one for one in messages if one.is_collective]
    counts = {
        ("collective is", "collectives are", "of unknown size"): sum(not one.is_sized for one in collectives),
        ("operation", "operations", "of unknown kind"): sum(one.kind == UNKNOWN for one in messages),
        ("collective has", "collectives have", "no counterpart on other ranks"): sum(
            one.is_sized and one.alone for one in collectives
        ),
    }
    return [
        f"{plural(count, one, several)} {rest}: durations as recorded"
        for (one, several, rest), count in counts.items()
        if count
    ]


def _one_job(ranks: Sequence[_Recording]) -> None:
    """Check that recordings are of one job, and of all of its ranks."""
    for number, one in enumerate(ranks):
        where = str(one.files.device)
        if one.world > 0 and one.world != len(ranks):
            what = f"the recording is of {one.world} ranks, but {len(ranks)} are given"
            raise InputError(what, where=where, hint="give those of all ranks of one job")
        if one.rank >= 0 and one.rank != number:
            what = f"the recording of rank {one.rank} is in the place of rank {number}'s"
            raise InputError(what, where=where, hint="give the ranks of one job in their order")
        for key, value in one.about.items():
            if value != ranks[0].about.get(key, value):
                what = f"its {key} is {value!r:.40}, and {ranks[0].about[key]!r:.40} on rank 0"
                raise InputError(what, where=where, hint="link the recordings of one job")
    for one in ranks:
        if one.ended < max(other.begun for other in ranks):
            last = max(ranks, key=lambda other: other.begun)
            what = f"it ends before that of {last.files.device.name} begins"
            hint = "link recordings of one job, of the same steps"
            raise InputError(what, where=str(one.files.device), hint=hint)


class _Recording:
    """The recording of one rank."""

    def __init__(self, files: RankFiles) -> None:
        self.files = files
        kineto = read_kineto(files.device)
        self.events = kineto.events
        info = kineto.members.get("distributedInfo")
        info = info if isinstance(info, dict) else {}
        self.rank, self.world = (
            value if type(value := info.get(key)) is int else -1 for key in ("rank", "world_size")
        )
        if self.world > MOST_RANKS:
            what, hint = f"world_size is {self.world:,}", f"a job has up to {MOST_RANKS:,} ranks"
            raise InputError(what, where=f"{files.device}: distributedInfo", hint=hint)
        self.about = {key: info[key] for key in ("backend", "nccl_version") if isinstance(info.get(key), str)}
        base = kineto.members.get("baseTimeNanoseconds")
        self.base_us = base / 1000 if type(base) is int and 0 <= base < 1 << 62 else 0.0
        self.ops: dict[int, Value] = {}
        self.metadata: dict[str, Any] = {}
        if files.host is not None:
            document = pytorch_document(files.host)
            self.metadata["schema"] = document.get("schema").text()
            for item in document.get("nodes").items():
                self.ops[item.get("id").number(0, 1 << 62)] = item
        self.groups = groups_of(kineto.members, [one.value for one in self.ops.values()], max(self.world, 1))
        self.op_of = self._matched_operations()
        if not self.op_of and files.host is not None:
            what = "no operation of the host is in the device's trace"
            raise InputError(what, where=str(files.host), hint="give the two traces of one run and rank")
        self.steps = [one for one in self.events if one.category in _HOST and one.name.startswith(_STEP)]
        if all(one.category == "cuda_sync" for one in self.events):
            what, hint = (
                "no work of a host or a device is recorded",
                "record activities of the CPU and the GPU",
            )
            raise InputError(what, where=str(files.device), hint=hint)
        self.start, self.end = kineto.span
        self.notes: list[str] = []
        self.threads: list[list[Piece]] = []
        self.devices: list[Piece] = []
        self.pauses: list[Piece] = []
        self.messages: list[Piece] = []

    @property
    def begun(self) -> float:
        """Start of the recording, by the clock of the host."""
        return self.base_us + self.start

    @property
    def ended(self) -> float:
        """End of the recording."""
        return self.base_us + self.end

    def _is_in_steps(self, one: Event) -> bool:
        """Return whether something began in the recorded steps; other ranks may not have recorded more."""
        steps = self.steps
        return not steps or min(s.start for s in steps) <= one.start < max(s.end for s in steps)

    def _matched_operations(self) -> dict[Event, Value]:
        """Find the operation of the host trace that each event is: by its record, or by name and order."""
        by_record = {number: op for op in self.ops.values() if (number := record_number(op.value)) >= 0}
        hosts = [one for one in self.events if one.is_host]
        if any(one.record >= 0 for one in hosts):
            found = {one: by_record[one.record] for one in hosts if one.record in by_record}
            other = [(one, op) for one, op in found.items() if one.name != op.get("name").text()]
            if 2 * len(other) > len(found):
                one, op = other[0]
                named = f"{op.get('name').text()!r:.60} of the host is {one.name!r:.60} in the device's trace"
                what = f"{len(other):,} of {len(found):,} operations have other names: {named}"
                hint = "give the two traces of one run and rank"
                raise InputError(what, where=str(self.files.host), hint=hint)
            return found
        recorded: dict[Any, list[Value]] = {}
        for _, op in sorted(self.ops.items()):
            recorded.setdefault(RecordedOp(op).declared.get("tid"), []).append(op)
        threads: dict[str, list[Event]] = {}
        for one in sorted(hosts, key=lambda one: (one.start, -one.duration)):
            threads.setdefault(one.thread, []).append(one)
        aligned: dict[Event, Value] = {}
        for events in threads.values():
            best: dict[Event, Value] = {}
            for ops in recorded.values():
                pairs = _aligned(events, ops)
                best = pairs if len(pairs) > len(best) else best
            aligned |= best
        return aligned

    def find_pieces(self) -> None:
        """Divide what happened into pieces, and find what waits for what."""
        calls = {one.correlation: one for one in self.events if one.is_call and one.correlation >= 0}
        devices = [one for one in self.events if one.is_device or one.category == "gpu_memset"]
        waits = _blocking(self.events, devices, calls)
        backend = [one for one in self.events if is_backend(one)]
        spans: dict[str, list[Event]] = {}
        for one in backend:
            spans.setdefault(one.thread, []).append(one)
        cuts: dict[str, list[float]] = {}
        for one in devices:
            if (launch := calls.get(one.correlation)) is not None:
                cuts.setdefault(launch.thread, []).append(launch.start)
        asked = _asked(backend, self.events)
        for one, call in asked.items():
            cuts.setdefault(call.thread, []).append(max(one.start, call.start))
        threads: dict[str, list[Event]] = {}
        for one in self.events:
            is_op = (
                (one.is_host or one.name.startswith(_STEP)) and one.category in _HOST and not is_backend(one)
            )
            if (is_op and not _inside(one, spans)) or one in waits:
                threads.setdefault(one.thread, []).append(one)
        threads = threads or {one.thread: [] for one in self.events if one.is_call}
        longest = max(threads, key=lambda name: len(threads[name]), default="")
        main = self.steps[0].thread if self.steps else longest
        pieces = {
            name: host_pieces(threads[name], cuts.get(name, ()), self.start)
            for name in sorted(threads, key=lambda name: name != main)
        }
        reached = max((some[-1].end for some in pieces.values() if some), default=self.start)
        ended = max((one.end for one in self.events if one.category in _HOST or one.is_call), default=reached)
        if main in threads and ended > reached:  # by calls of threads without operations
            pieces[main] = host_pieces(threads[main], [*cuts.get(main, ()), ended], self.start)
        self.threads = [some for some in pieces.values() if some]
        for number, some in enumerate(self.threads, 1):
            for piece in some:
                piece.thread = number
        callers: dict[str, int] = {}
        by_event = {piece.event: piece for some in self.threads for piece in some if piece.event is not None}
        self._device_pieces(devices, calls, pieces, by_event)
        for event, waited in waits.items():
            for other in waited:
                if event in by_event and other in by_event:
                    by_event[event].wait_for(by_event[other])
        for event in backend:
            by = asked.get(event)
            op = self.op_of.get(event)
            message = message_of(event, op, None if by is None else self.op_of.get(by))
            if message is not None:
                message.alone = not self._is_in_steps(event)
                piece = Piece(event.name, event.start, event.end, event)
                piece.message = message
                piece.thread = callers.setdefault(event.thread, len(self.threads) + len(callers) + 1)
                before = (
                    None if by is None else _before(pieces.get(by.thread, []), max(event.start, by.start))
                )
                piece.after += [] if before is None else [before]
                piece.caller = None if by is None else by_event.get(by)
                self.messages.append(piece)
        on_host = [one for one in self.messages if one.event is not None and not one.event.is_device]
        lost = let_threads_wait(self.threads, on_host)
        if lost:
            self.notes.append(
                f"{plural(lost, 'message is', 'messages are')} awaited by no thread in the recorded steps"
            )

    def communicated(self) -> list[Message]:
        """The messages in the order of their starts, by the clock of the host."""
        messages = [piece.message for piece in self.messages if piece.message is not None]
        for one in messages:
            one.start, one.end = one.start + self.base_us, one.end + self.base_us
        return sorted(messages, key=lambda one: one.start)

    def _device_pieces(
        self,
        devices: list[Event],
        calls: dict[int, Event],
        pieces: dict[str, list[Piece]],
        by_event: dict[Event, Piece],
    ) -> None:
        """Add the work of the device: after its launch, what is before it in its stream, other streams."""
        last: dict[Any, Piece] = {}
        unlaunched: list[Piece] = []
        callers: dict[str, list[Event]] = {}
        for one in self.events:
            if one.is_host:
                callers.setdefault(one.thread, []).append(one)
        for event in devices:
            piece = Piece(event.name, event.start, event.end, event)
            piece.took = event.duration  # exactly: times since 1970 are not
            launch = calls.get(event.correlation)
            before = None if launch is None else _before(pieces.get(launch.thread, []), launch.start)
            piece.after += [one for one in (before, last.get(event.stream)) if one is not None]
            if launch is None:
                unlaunched.append(piece)
            last[event.stream] = piece
            by_event[event] = piece
            self.devices.append(piece)
            chain = [] if launch is None else _callers(callers.get(launch.thread, []), launch)
            piece.caller = next((by_event[one] for one in chain if one in by_event), None)
            ops = [self.op_of[one] for one in chain if one in self.op_of]
            if ops:
                self.op_of[event] = ops[0]
            sized = next((op for op in ops if _has_tensors(op)), None)
            asked = next((op for op in ops if op.get("name").text().startswith("c10d::")), None)
            piece.message = message_of(event, sized, asked)
            if piece.message is not None:
                piece.message.alone = not self._is_in_steps(event if launch is None else launch)
                piece.message.thread = str(event.stream)
                self.messages.append(piece)
        for later, earlier in _between_streams(self.events, devices, calls):
            by_event[later].after.append(by_event[earlier])
        self.pauses = explain_pauses(self.devices, unlaunched, self.start)

    def trace(self, rank: int, found: Matched, first: float) -> Trace:
        """Write the nodes of this rank, whose recording began so much later than that of the first rank."""
        start = Piece(f"rank {rank} begins", self.start - (self.begun - first), self.start)
        start.thread = 1
        every = [start, *(one for some in self.threads for one in some), *self.devices, *self.pauses]
        every += [one for one in self.messages if one.event is not None and not one.event.is_device]
        every[1:] = sorted(every[1:], key=_in_time)
        for number, piece in enumerate(every):
            piece.number = number
        nodes = [self._node(piece, rank, found, start) for piece in every]
        trace = Trace.of(nodes, metadata=self.metadata, source=str(self.files.device))
        check(trace)
        return trace

    def _node(self, piece: Piece, rank: int, found: Matched, start: Piece) -> Node:
        event, message = piece.event, piece.message
        on_device = event is not None and (event.is_device or event.category == "gpu_memset")
        op = None if event is None else self.op_of.get(event)
        made = None
        if event is not None and op is not None and not (message and not on_device):
            document = device_operation(op.value, event) if on_device else op.value
            made = RecordedOp(Value(document, op.source, op.place)).node({}, [], 0.0)
        declared: dict[str, Any] = {} if made is None else dict(made.attributes)
        for name in ("comm_type", "comm_size", "pg_name", "keeps_duration"):
            declared.pop(name, None)
        kind, took = NodeType.COMP, piece.took
        if message is not None:
            kind, took = _KIND.get(str(message.kind), NodeType.COMM_COLL), message.took_us
            declared |= _described(message, rank, found)
        declared["is_cpu_op"] = Attribute(not on_device and kind == NodeType.COMP, "bool_val")
        waited_ns = round(max(piece.end - piece.start - took, 0.0) * 1000)
        if waited_ns or kind != NodeType.COMP:
            declared["wait_ns"] = Attribute(waited_ns, "int64_val")
        declared["start_ns"] = Attribute(max(round((piece.start - start.start) * 1000), 0), "int64_val")
        if piece.thread:
            declared["tid"] = Attribute(piece.thread, "int64_val")
        elif type(piece.stream) is int and -(1 << 62) < piece.stream < 1 << 62:
            declared["stream"] = Attribute(piece.stream, "int64_val")
        if piece is start or (piece.event is None and piece.name == IDLE):
            declared["is_idle"] = Attribute(value=True, kind="bool_val")
        least = 1 if piece.thread and kind == NodeType.COMP else 0  # an operation that only calls others
        declared["duration_ns"] = Attribute(max(round(took * 1000), least), "int64_val")
        # What ended later was not awaited, whatever clocks that disagree make of launches and streams.
        after = sorted({one.number for one in piece.after if one.number < piece.number})
        after = after or ([] if piece is start else [start.number])
        texts = ((), ()) if made is None else (made.inputs, made.outputs)
        begun = max(round(piece.start - start.start), 0)
        caller = piece.caller  # done before: it adds no wait
        called = (caller.number,) if caller is not None and caller.number < piece.number else ()
        return Node(
            piece.number, piece.name, kind, tuple(after), called, begun, round(took), declared, *texts
        )


_KIND: Final = {"send": NodeType.COMM_SEND, "recv": NodeType.COMM_RECV}


def _described(message: Message, rank: int, found: Matched) -> dict[str, Attribute]:
    """Write what is known of a message as attributes of its node."""
    known: dict[str, Attribute] = {}
    if message.keeps_duration:
        known["keeps_duration"] = Attribute(value=True, kind="bool_val")
    if message.is_sized:
        known["comm_size"] = Attribute(max(message.size, 1), "int64_val")
    if isinstance(message.kind, CollectiveType):
        known["comm_type"] = Attribute(int(message.kind), "int64_val")
        known["pg_name"] = Attribute(found.names.get(message) or found.groups[message.group], "string_val")
        if 0 <= message.root < len(message.group):
            inward = message.kind in (CollectiveType.REDUCE, CollectiveType.GATHER)
            root = Attribute(message.group[message.root], "int32_val")
            known["comm_dst" if inward else "comm_src"] = root
    elif message.partner is not None:
        peer = message.group[message.peer]
        source, to = (rank, peer) if message.kind == "send" else (peer, rank)
        ends = {"comm_src": source, "comm_dst": to, "comm_tag": message.tag}
        known |= {name: Attribute(value, "int32_val") for name, value in ends.items()}
    return known


def _in_time(piece: Piece) -> tuple[int, bool, int]:
    """Order pieces by their ends, to the ns: a host resumes after the work and the message that it awaits."""
    on_host = piece.thread > 0 and piece.message is None
    return round(piece.end * 1000), on_host, round(piece.start * 1000)


def _aligned(events: Sequence[Event], ops: Sequence[Value]) -> dict[Event, Value]:
    """Pair events with operations of the same names in the same order."""
    names = [op.get("name").text() for op in ops]
    found: dict[Event, Value] = {}
    at = 0
    for one in events:
        try:
            at = names.index(one.name, at, at + _LOOKAHEAD)
        except ValueError:
            continue
        found[one] = ops[at]
        at += 1
    return found


def _has_tensors(op: Value) -> bool:
    return any("Tensor" in kind.text() for kind in op.get("inputs").get("types").items())


def _inside(one: Event, spans: dict[str, list[Event]]) -> bool:
    """Return whether a backend's operation on the same thread has called it."""
    return any(span.start <= one.start and one.end <= span.end for span in spans.get(one.thread, ()))


def _before(pieces: list[Piece], when: float) -> Piece | None:
    """The last piece of a thread that began before a time."""
    at = bisect.bisect_left(pieces, when, key=lambda one: one.start) - 1
    return pieces[at] if at >= 0 else None


def _callers(hosts: list[Event], launch: Event) -> list[Event]:
    """The operations around a launch, the innermost first."""
    at = bisect.bisect_right(hosts, launch.start, key=lambda one: one.start)
    return [one for one in reversed(hosts[max(at - 200, 0) : at]) if one.end >= launch.start]


def _asked(backend: Sequence[Event], events: Sequence[Event]) -> dict[Event, Event]:
    """Find which call of ``c10d`` each operation of a backend is for: calls of a kind keep their order."""

    def plain(name: str) -> str:
        word = re.sub("[^a-z]", "", name.rsplit(":", maxsplit=1)[-1].lower())
        return word.removesuffix("base").removesuffix("coalesced").removesuffix("base")

    waiting: dict[str, list[Event]] = {}
    found: dict[Event, Event] = {}
    for one in events:
        if one.is_host and one.name.startswith("c10d::"):
            waiting.setdefault(plain(one.name), []).append(one)
    for one in backend:
        calls = waiting.get(plain(one.name), [])
        if calls and calls[0].start <= one.start:
            found[one] = calls.pop(0)
    return found


_WAITS: Final = frozenset(
    f"{maker}{what}Synchronize"
    for maker in ("cuda", "hip", "cu")
    for what in ("Device", "Stream", "Event", "Ctx")
)
_STREAM_WAITS: Final = ("cudaStreamWaitEvent", "hipStreamWaitEvent", "cuStreamWaitEvent")


def _blocking(
    events: Sequence[Event], devices: Sequence[Event], calls: dict[int, Event]
) -> dict[Event, list[Event]]:
    """Find the calls that return when the device has done something, and what: the last of each stream.

    Work that ended while the call waited, and that was launched before, is what it waited for.
    """
    by_end = sorted(devices, key=lambda one: one.end)
    ends = [one.end for one in by_end]
    found: dict[Event, list[Event]] = {}
    for call in events:
        if not call.is_call:
            continue
        copies = "Memcpy" in call.name or "Memset" in call.name
        if call.name not in _WAITS and not copies:
            continue
        low, high = bisect.bisect_right(ends, call.start), bisect.bisect_right(ends, call.end)
        last: dict[Any, Event] = {}
        for one in by_end[low:high]:
            launch = calls.get(one.correlation)
            launched = launch is None or launch.start <= call.start
            if launched and (not copies or one.correlation == call.correlation):
                last[one.stream] = one
        if last or not copies:
            found[call] = list(last.values())
    return found


def _between_streams(
    events: Sequence[Event], devices: Sequence[Event], calls: dict[int, Event]
) -> Iterator[tuple[Event, Event]]:
    """Find which work of a stream waits for another stream.

    As Kineto's ``cuda_sync`` events say. Recordings without them have the calls only: then what was launched
    next waits for the last work launched into each other stream that had ended by then.
    """
    known = set(devices)
    if any(one.category == "cuda_sync" for one in events):
        yield from (
            pair for pair in synchronisations(events, devices) if pair[0] in known and pair[1] in known
        )
        return
    devices = [one for one in devices if one.correlation in calls]
    launched = sorted(devices, key=lambda one: calls[one.correlation].start)
    starts = [calls[one.correlation].start for one in launched]
    for call in events:
        if call.name not in _STREAM_WAITS:
            continue
        at = bisect.bisect_right(starts, call.start)
        later = next(
            (one for one in launched[at : at + 8] if calls[one.correlation].thread == call.thread), None
        )
        if later is None:
            continue
        last = {one.stream: one for one in launched[:at] if one.stream != later.stream}
        yield from ((later, one) for one in last.values() if one.end <= later.start)
