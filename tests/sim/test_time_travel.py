"""Going through time in any order: a moment is the same however it was reached, over every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import Deadlock, InputError
from astranb.engine.cacheline import CacheLineEngine, Graph
from astranb.engine.layers import LayerEngine
from astranb.engine.messages import MessageEngine
from astranb.sim import Replay, Simulation
from astranb.sim.history import History
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    MEMORY,
    DimensionNetwork,
    InfraNetwork,
    Memory,
    Operations,
    System,
)
from tests.engine.operations.support import SYSTEM, by_messages, mixed, sim_of
from tests.workload.models.support import tiny

Values = Sequence[tuple[str, Sequence[Any]]]

_SPEEDS = ("0.5", "3", "inf", "1")
_RATES = ("1 GB/s", "10 GB/s", "200 GB/s")
_TIMES = ("0 ns", "90 ns", "2 us")


@dataclass(frozen=True)
class Case:
    """A run, and what one may change of it and stop at.

    ``edits`` are paths with values, ``conditions`` what breakpoints may name.
    """

    make: Callable[..., Simulation]
    edits: Values
    conditions: Sequence[str]
    switched: bool = False  # whether its recording can be switched


def _lines(infra: str, algorithm: str, size: str, *, collective: str = "all_reduce", **given: Any) -> Any:
    options = {name: given.pop(name) for name in ("network", "gpu", "launch") if name in given}
    wanted = getattr(anb.collectives, collective)(size, algorithm, **given)
    return partial(Simulation, infra, wanted, **options)


def _graph(**options: Any) -> Simulation:
    """Four ranks by cache lines: computations, collectives, remote memory."""
    rows = [
        {"kind": COMPUTE, "duration_ns": 2_000},
        {"kind": COLLECTIVE, "collective": 0, "bytes": 2048},
        {"kind": MEMORY, "bytes": 4096},
        {"kind": COLLECTIVE, "collective": 2, "bytes": 2048},
    ]
    one = Operations.of(rows, [[], [0], [0], [1, 2]])
    names = ("all-reduce", "all-gather", "reduce-scatter")
    described = {f"{name}-implementation": ["ring"] for name in names}
    system = System.from_document({**described, "preferred-dataset-splits": 1})
    return Simulation("ring:gpus=4", Graph([one] * 4, system, memory=_memory()), gpu="h100-sxm", **options)


def _memory() -> Memory:
    kind = "PER_NPU_MEMORY_EXPANSION"
    return Memory.from_document({"memory-type": kind, "remote-mem-latency": 100, "remote-mem-bw": 50})


def _on_links(*, congestion: bool = True, **options: Any) -> Simulation:
    """Ranks of an infrastructure by whole messages, with remote memory."""
    rows = [
        {"kind": COMPUTE, "duration_ns": 4_000},
        {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 16},
        {"kind": MEMORY, "bytes": 1 << 16},
        {"kind": COLLECTIVE, "collective": 2, "bytes": 1 << 15},
    ]
    one = Operations.of(rows, [[], [0], [0], [1]])
    described = {k: v[:1] if isinstance(v, list) else v for k, v in SYSTEM.items()}
    network = InfraNetwork(anb.infragraph.blueprint("ring:gpus=4"))
    system = System.from_document(described)
    workload = anb.astrasim2.Workload([one] * 4, network, system, memory=_memory())
    return Simulation(workload, fidelity="congestion" if congestion else "analytical", **options)


def _folded(**options: Any) -> Simulation:
    """Ranks that all do the same, simulated as one where nothing is recorded."""
    rows = [{"kind": COMPUTE, "duration_ns": 3_000}, {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 16}]
    one = Operations.of(rows * 3, [[], [0], [1], [2], [3], [4]])
    network = DimensionNetwork(["Ring", "Switch"], [2, 4], [50, 25], [500, 700])
    return by_messages([one] * 8, network, System.from_document(SYSTEM), **options)


@cache
def _link(make: Callable[..., Simulation], rank: int = 0) -> str:
    fabric = make().engine.fabric
    row = int((fabric.links["src"] == fabric.gpus[rank]).argmax())
    return str(fabric.name(row)).partition("#")[0]


def _model(**options: Any) -> Simulation:
    """A training step of a tiny transformer over two stages of a pipeline."""
    step = anb.models.workload(tiny(), anb.models.Parallelism(data=2, pipeline=2), microbatches=2)
    return Simulation("ring:gpus=4", step, **options)


_RING4 = _lines("switch:gpus=4", "ring", "4 KiB")
_LINK = _link(_RING4)
_FAULTS = (
    anb.Fault(_LINK, at="1 us", until="4 us", every="5 us", times=3, down=True),
    anb.Fault(_LINK, at="2 us", until="9 us", latency="3 us"),
)
_LINES: Values = (
    (f"{_LINK}.bandwidth", _RATES),
    (f"{_LINK}.latency", _TIMES),
    (f"{_LINK}.up", ("yes", "no", "yes")),
    ("gpu[1].l2", _TIMES),
    ("gpu[2].sms", ("1", "2", "4")),
    ("gpu[3].fence", _TIMES),
)
_MESSAGES: Values = (
    ("rank[1].speed", _SPEEDS),
    ("rank[3].speed", _SPEEDS),
    ("dim[0].bandwidth", _RATES),
    ("dim[0].latency", _TIMES),
)
_ONE_LINK: Values = (
    ("link[1].bandwidth", _RATES),
    ("link[1].latency", _TIMES),
    ("link[2].up", ("yes", "no", "yes")),
)
_LAYERS: Values = (
    ("rank[0].speed", _SPEEDS),
    ("layer[conv1].speed", _SPEEDS),
    ("dim[0].bandwidth", _RATES),
    ("dim[1].latency", _TIMES),
)
_WAITING = ("rank[0].waiting > 0",)
_SM = ("gpu[3].sm.0.waiting > 0", "gpu[1].sm.0.outstanding > 1")


def _switch(network: anb.Network, algorithm: str = "ring", size: str = "4 KiB", **more: Any) -> Case:
    return Case(_lines("switch:gpus=4", algorithm, size, network=network, **more), _LINES, _SM, switched=True)


CASES = {
    "lines": Case(_RING4, _LINES, _SM, switched=True),
    "lines, packets": Case(
        _lines("switch:gpus=4", "allpairs", "2 KiB", protocol="LL", launch="stream"),
        _LINES,
        _SM,
        switched=True,
    ),
    "lines, in the switch": _switch(anb.Network(), "switch", "8 KiB"),
    "lines, buffers": _switch(anb.Network(arbitration="fair", buffers=3)),
    "lines, faults": _switch(anb.Network(faults=_FAULTS), launch="graph"),
    "lines, RoCE": _switch(anb.Network(roce=anb.net.Roce(), cut_through=True), "allpairs", "16 KiB"),
    "lines, coalesced": _switch(anb.Network(coalesce=4, multipath="spray"), "allpairs", "16 KiB"),
    "lines, a workload": Case(_graph, _LINES[3:], ("gpu[3].sm.0.outstanding > 1",), switched=True),
    "messages": Case(mixed, _MESSAGES, _WAITING),
    "messages, congestion": Case(partial(mixed, congestion=True), (*_MESSAGES, *_ONE_LINK), _WAITING),
    "messages, folded": Case(_folded, _MESSAGES, _WAITING),
    "messages, an infrastructure": Case(
        partial(_on_links, congestion=False), _MESSAGES[:2], _WAITING
    ),
    "messages, its links": Case(_on_links, (*_MESSAGES[:2], *_ONE_LINK), _WAITING),
    "messages, a model": Case(_model, _MESSAGES[:2], _WAITING),
    "layers": Case(sim_of, _LAYERS, _WAITING),
    "layers, micro": Case(partial(sim_of, "MICRO", queues=2, lifo=True), _LAYERS, _WAITING),
}  # fmt: skip


@cache
def _whole(name: str, record: bool) -> tuple[int, int]:
    """Return the number of events of the run, and its time."""
    sim = CASES[name].make(record=record)
    sim.run()
    return sim.events, sim.now_ps


def _step_to(sim: Simulation, events: int) -> None:
    """Step to a number of events, past breakpoints and past polling that has been found to be without end."""
    before = -1
    while before < sim.events < events:
        before = sim.events
        with suppress(Deadlock):
            sim.step(events - before)


class Traveller:
    """A simulation that is taken back and forth, and what must be true of every moment."""

    def __init__(self, name: str, record: bool, folder: Path) -> None:
        self.case, self.folder, self.record = CASES[name], folder, record
        self.most_events, self.most_ps = _whole(name, record)
        self.sim = self.case.make(record=record)
        self.made: list[tuple[int, str, str]] = []  # the edits, as they should be
        self.before: list[str] = []  # and the hash before each
        self.known: dict[Any, Any] = {}
        self.others: list[tuple[Simulation, Any]] = []  # that were left behind, and must stay as they are

    def moment(self, sim: Simulation) -> Any:
        """Return the key of a moment: the edits, and the events since the start."""
        del self
        return (tuple(sim.edits), sim.events)

    def facts(self, sim: Simulation) -> Any:
        """Return the facts about a moment that are equal however it is reached."""
        times = (sim.now_ps, sim.next_ps, tuple(sim.counts.items()))
        return (sim.state_hash(), times, str(sim.result.per_rank()))

    def check(self) -> None:
        """Compare with what is known of this moment and of the edits."""
        assert self.sim.edits == self.made
        facts = self.facts(self.sim)
        assert self.known.setdefault(self.moment(self.sim), facts) == facts

    def amount(self, number: int) -> int:
        """A number of events: few, or a part of the run."""
        return number if number < 20 else (number - 20) * self.most_events // 60

    def rewound(self) -> None:
        """Edits after the moment are undone."""
        self.made = [edit for edit in self.made if edit[0] <= self.sim.events]
        del self.before[len(self.made) :]

    def unit(self, number: int) -> str:
        units: list[str] = list(self.sim.engine.traits.units)
        return units[number % len(units)]

    def step(self, a: int, b: int) -> None:
        with suppress(Deadlock):
            self.sim.step(a % 9, self.unit(b)) if b % 2 else self.sim.step(self.amount(a))

    def back(self, a: int, b: int) -> None:
        n, unit = (a % 9, self.unit(b)) if b % 2 else (self.amount(a), "event")
        had = self.sim.counts[unit]
        self.sim.back(n, unit)
        target = max(0, had - n)
        assert target <= self.sim.counts[unit] <= had  # one event can end several operations
        if self.sim.counts[unit] > target and self.sim.events:
            before = self.sim.fork()
            before.back()
            assert before.counts[unit] < target
        if n:
            self.rewound()

    def there_and_back(self, a: int, b: int) -> None:
        moment, before = self.sim.events, list(self.made)
        self.back(a, b)
        if self.made == before and self.sim.events < moment:
            self.check()
            _step_to(self.sim, moment)
            assert self.sim.events == moment

    def goto(self, a: int, b: int) -> None:
        when = (a * 100 + b) * self.most_ps // 8000
        with suppress(Deadlock):
            self.sim.goto(when)
        self.rewound()

    def run(self, a: int, b: int) -> None:
        with suppress(Deadlock):
            self.sim.run() if b % 2 else self.sim.run(self.sim.now_ps + a * self.most_ps // 200)

    def play(self, a: int, b: int) -> None:
        with suppress(Deadlock):
            for _ in range(1 + b % 4):
                self.sim.advance(max_events=1 + self.amount(a))

    def fork(self, a: int, b: int) -> None:
        other = self.sim.fork(record=bool(a % 2))
        if b % 2:
            self.sim, other = other, self.sim
        self.others.append((other, (self.moment(other), self.facts(other))))

    def set(self, a: int, b: int) -> None:
        path, values = self.case.edits[a % len(self.case.edits)]
        before = self.sim.state_hash()
        self.sim.set(path, values[b % len(values)])
        self.made.append((self.sim.events, *self.sim.edits[-1][1:]))
        self.before.append(before)

    def switch(self, a: int, b: int) -> None:
        """Switch the recording: an edit, and no part of the state."""
        del b
        if not self.case.switched or not self.sim.recording:
            return
        before, count = self.sim.state_hash(), len(self.made)
        self.sim.record(on=bool(a % 2))
        assert self.sim.state_hash() == before
        self.made += self.sim.edits[count:]
        self.before += [before] * (len(self.made) - len(self.before))

    def undo(self, a: int, b: int) -> None:
        del b
        if self.made:
            number = a % len(self.made)
            self.sim.undo(number)
            assert self.sim.events == self.made[number][0]
            assert self.sim.state_hash() == self.before[number]
            del self.made[number:], self.before[number:]

    def reset(self, a: int, b: int) -> None:
        del b
        self.sim.reset(keep=bool(a % 2))
        assert self.sim.events == 0
        if a % 2:
            last: dict[str, str] = {}
            for _, path, value in self.made:
                last.pop(path, None)
                last[path] = value
            self.made, self.before = [], []
            start = self.case.make(record=self.record)
            for path, value in last.items():
                self.made.append((0, path, value))
                self.before.append(start.state_hash())
                if path != "record":
                    start.set(path, value)
            assert start.state_hash() == self.sim.state_hash()
        else:
            self.rewound()

    def save(self, a: int, b: int) -> None:
        """Go on with what was loaded, or with the original."""
        del a
        path = self.folder / "run"
        self.sim.save(path)
        loaded = Simulation.load(path)
        assert self.facts(loaded) == self.facts(self.sim)
        assert loaded.edits == self.made
        assert [str(p) for p in loaded.breakpoints] == [str(p) for p in self.sim.breakpoints]
        if b % 4:
            self.sim = loaded

    def stop(self, a: int, b: int) -> None:
        """Run to a breakpoint, and a fork to the same one from one event before."""
        kinds = sorted(self.sim.event_kinds)
        points = [self.sim.break_on(kinds[a % len(kinds)])] if b % 2 else []
        if not b % 3:
            points.append(self.sim.break_when(self.case.conditions[a % len(self.case.conditions)]))
        if not b % 5:
            points.append(self.sim.break_at(self.sim.now_ps + a * self.most_ps // 200))
        fork = self.sim.fork()
        for point in self.sim.breakpoints:
            fork._add(point)
        ends = []
        for sim in (self.sim, fork):
            try:
                found = sim.run()
                ends.append((found.why, found.where, sim.events))
            except Deadlock as error:
                ends.append(("deadlock", str(error), sim.events))
        assert ends[0] == ends[1]
        assert self.facts(fork) == self.facts(self.sim)
        if a % 4:
            self.sim.clear()

    def look(self, a: int, b: int) -> None:
        """Whatever is asked, nothing changes."""
        del b
        (
            self.sim.result.summary,
            lambda: self.sim.critical_path().by_cause(),
            self.sim.lost_time,
            self.sim.why,
            self.sim.narrate,
            lambda: self.sim.parameters(self.case.edits[0][0].rpartition(".")[0]),
        )[a % 6]()

    def replay(self, a: int, b: int) -> None:
        """A private copy goes through the past; it is at the same moments."""
        replay = Replay(self.sim)
        for share in (a, b % 80, 80):
            replay.goto(self.sim.now_ps * share // 80)
            edits, events = self.moment(replay.sim)
            assert list(edits) == [edit for edit in self.made if edit[0] <= events]
            facts = self.facts(replay.sim)
            assert self.known.setdefault((edits, events), facts) == facts
        assert self.moment(replay.sim) == self.moment(self.sim)

    def end(self) -> None:
        """Whatever happened, it is as if it had been done at once; what was left behind is as it was."""
        for other, (moment, facts) in self.others:
            assert (self.moment(other), self.facts(other)) == (moment, facts)
        again = self.case.make(record=not self.record)
        for events, path, value in [*self.made, (self.sim.events, "", "")]:
            _step_to(again, events)
            if path not in {"record", ""}:
                again.set(path, value)
        assert self.facts(again) == self.facts(self.sim)


_NAMES = ("step", "step", "back", "there_and_back", "goto", "run", "play", "fork", "set", "set", "set",
          "switch", "undo", "undo", "reset", "save", "save", "stop", "look", "replay")  # fmt: skip
_ACTIONS = st.lists(
    st.tuples(st.sampled_from(_NAMES), st.integers(0, 80), st.integers(0, 80)), min_size=3, max_size=14
)


def _travel(name: str, record: bool, often: bool, actions: Sequence[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if often:  # slices of a few events, with a checkpoint after every fourth
            for engine in (CacheLineEngine, LayerEngine, MessageEngine):
                traits = engine.traits._replace(slice_events=29, replay_bytes=2**62)
                patch.setattr(engine, "traits", traits)
        traveller = Traveller(name, record, Path(folder))
        traveller.check()
        for what, a, b in actions:
            getattr(traveller, what)(a, b)
            traveller.check()
        traveller.end()


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=3)
@given(record=st.booleans(), often=st.booleans(), actions=_ACTIONS)
def test_a_moment_is_the_same_however_it_is_reached(
    name: str, record: bool, often: bool, actions: Any
) -> None:
    _travel(name, record, often, actions)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=63, suppress_health_check=[HealthCheck.too_slow])
@given(record=st.booleans(), often=st.booleans(), actions=_ACTIONS)
def test_a_thousand_journeys(name: str, record: bool, often: bool, actions: Any) -> None:
    _travel(name, record, often, actions)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kept", [False, True], ids=["at the start", "kept by a reset"])
def test_an_edit_at_the_start_is_undone_after_a_load(tmp_path: Path, name: str, kept: bool) -> None:
    case = CASES[name]
    sim = case.make()
    start = sim.state_hash()
    for number in (0, 1):
        sim.step(30 if kept else 0)
        path, values = case.edits[number]
        sim.set(path, values[0])
    if kept:
        sim.reset(keep=True)
    sim.run()
    sim.save(tmp_path / "run")
    loaded = Simulation.load(tmp_path / "run")
    loaded.undo(1)
    assert len(loaded.edits) == 1
    loaded.undo(0)
    assert (loaded.edits, loaded.events, loaded.state_hash()) == ([], 0, start)
    sim = case.make()
    sim.run()
    loaded.run()
    assert (loaded.now_ps, loaded.state_hash()) == (sim.now_ps, sim.state_hash())


def test_a_reset_keeps_the_last_value_of_parameters_that_overlap() -> None:
    sim = partial(mixed, congestion=True)()
    for path, value in (("link[1].latency", "1 us"), ("dim[0].latency", "2 us"), ("link[1].latency", "3 us")):
        sim.set(path, value)
        sim.step(10)
    sim.reset(keep=True)
    latencies = [sim.parameters(path)[1].value for path in ("link[0]", "link[1]", "dim[0]")]
    assert latencies == ["2 µs", "3 µs", "2 µs"]


def test_a_new_run_keeps_a_switched_recording() -> None:
    sim = CASES["lines"].make()
    sim.step(100)
    sim.record(on=False)
    other = sim.rebuilt(algorithm="allpairs")
    assert other.edits == [(0, "record", "off")]
    other.run()
    assert other.unrecorded == [(0, other.now_ps)]
    assert sim.fork(record=False).rebuilt(algorithm="allpairs").edits == []


@pytest.mark.parametrize("value, on", [("on", True), (True, True), ("off", False), (False, False)])
def test_a_recording_is_switched_by_its_path(value: bool | str, on: bool) -> None:
    sim = CASES["lines"].make()
    sim.set("record", value)
    assert sim.edits == [(0, "record", "on" if on else "off")]
    sim.run()
    assert sim.unrecorded == ([] if on else [(0, sim.now_ps)])


@pytest.mark.parametrize("value", ["no", "", "On", 0, 1, 2.5])
def test_a_recording_that_is_neither_on_nor_off_is_refused(value: float | str) -> None:
    sim = CASES["lines"].make()
    with pytest.raises(InputError, match=r"^record: .* is neither on nor off; write on, or off$"):
        sim.set("record", value)
    assert sim.edits == []


class _Growing:
    """A machine with one table that becomes longer."""

    traits = SimpleNamespace(units={"event": "events"})

    def __init__(self) -> None:
        self.table, self.events = bytearray(range(250)) * 8, 0

    def count(self, name: str) -> int:
        return self.events if name == "events" else 0

    def kept(self, sizes: dict[str, int] | None = None) -> dict[str, memoryview]:
        if sizes is not None and sizes["table"] != len(self.table):
            self.table = bytearray(sizes["table"])
        return {"table": memoryview(self.table)}


@pytest.mark.parametrize("more", [1, 8, 2088, 2096, 2097, 5000])  # 2096: the table fills a page then
def test_a_table_may_grow_within_its_last_page(more: int) -> None:
    history, machine = History(2**20), cast("Any", _Growing())
    history.take(machine, 0)
    before = bytes(machine.table)
    machine.table, machine.events = machine.table + bytes(more), 1
    after = bytes(machine.table)
    history.take(machine, 0)
    machine.table[-1] = 7
    history.restore(machine, history.checkpoints[1])
    assert bytes(machine.table) == after
    history.restore(machine, history.checkpoints[0])
    assert bytes(machine.table) == before


@given(
    size=st.integers(1, 3 * 256 * 4096),
    changes=st.lists(st.tuples(st.integers(0, 2**30), st.integers(0, 255)), max_size=8),
)
def test_a_checkpoint_is_restored_alike_from_its_pages_and_from_the_copy(
    size: int, changes: list[tuple[int, int]]
) -> None:
    machine = cast("Any", _Growing())
    machine.table = bytearray(range(251)) * (size // 251) + bytes(size % 251)
    before = bytes(machine.table)
    by_copy = History(2**30)
    by_copy.take(machine, 0)
    by_pages = by_copy.copy()  # which has no copy of the last checkpoint
    for history in (by_copy, by_pages, by_pages):
        machine.events += 1
        for place, value in changes:
            machine.table[place % len(machine.table)] = value
        history.restore(machine, history.checkpoints[0])
        assert bytes(machine.table) == before
