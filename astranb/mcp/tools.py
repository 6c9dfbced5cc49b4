"""The tools: verbs and questions of one ``Simulation``, bounded in time, memory and length.

They know nothing of the protocol. All run in the thread of an event loop that owns the simulation: what moves
time goes slice by slice between the loop's other work, and everything else is one call with a time limit.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Final, TypeVar, cast

from astranb.core.confined import check_place, check_python, confined
from astranb.core.deadline import OutOfTime, within
from astranb.core.errors import InputError, near
from astranb.core.units import format_time, time_ps
from astranb.explore.runs import both_given
from astranb.sim import Simulation, Stop
from astranb.widgets.session import Session, session_of

from .signatures import checked, schema_of

__all__ = ["Limits", "Tools"]

_T = TypeVar("_T")
_FOREVER: Final = 2**62
_MOST_STEPS: Final = 10**12
_MOST_ROWS: Final = 1000
_MOST_SECONDS: Final = 1_000_000
_MOST_RANKS: Final = 1024  # of an algorithm that is verified
_MOST_CHARACTERS: Final = 40_000
_CHECKPOINTS: Final = 2**28  # bytes for going back
_SLICE: Final = {"event": 12_288, "cycle": 512}
"""Steps between two rounds of the loop's other work: a few ms."""
_RATE: Final = 1e6  # events a second, before any were simulated
_LONG: Final = 0.2  # seconds of simulating that tell the rate


@dataclass(frozen=True)
class Limits:
    """Limits of a call of a tool: time, memory, files, code.

    Attributes
    ----------
    folder : Path
        Files are read and written in it only.
    seconds : float
        The time of one call. Moving time ends at an event and can go on; a question is given up.
    memory_bytes : int, optional
        For the machine of a simulation; four fifths of what is free where not given.
    python : bool
        Whether algorithms and contracts as Python (FILE.py:FUNCTION, program texts) are executed.
    """

    folder: Path
    seconds: float = 25.0
    memory_bytes: int | None = None
    python: bool = False

    def __post_init__(self) -> None:
        """Check that calls have time."""
        if not 0 < self.seconds <= _MOST_SECONDS:
            hint = f"take more than 0, up to {_MOST_SECONDS:,} s"
            raise InputError(f"{self.seconds:g} s is out of range", where="seconds", hint=hint)


class Tools:
    """One simulation, and what an assistant may do with it.

    Parameters
    ----------
    limits : Limits
    sim : Simulation, optional
        The one that a person watches: then no other can be opened.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> tools = Tools(Limits(Path()), sim)
    >>> asyncio.run(tools.call("step", {"n": 1000}))["events"]
    1000
    """

    def __init__(self, limits: Limits, sim: Simulation | None = None) -> None:
        self.limits = limits
        self._sim = sim
        self._own = sim is None
        self._lock: asyncio.Lock | None = None
        self._handled, self._took_s = 0, 0.0  # events that were simulated, and in what time
        self._end_s, self._late = 0.0, False  # of the call that moves time

    @property
    def listed(self) -> dict[str, Callable[..., Any]]:
        """The tools by name."""
        return {name: getattr(self, name) for name in _NAMES if self._own or name != "open"}

    def described(self) -> list[dict[str, Any]]:
        """Return name, text, JSON Schema of the arguments, and whether nothing changes, of each tool."""
        return [
            {
                "name": name,
                "description": " ".join((tool.__doc__ or "").split()),
                "schema": schema_of(tool),
                "reads": name not in _CHANGING,
            }
            for name, tool in self.listed.items()
        ]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool; of several calls one after the other is answered.

        Raises
        ------
        AstranbError
            The same as of the method of ``Simulation`` with this name.
        """
        tools = self.listed
        if name not in tools:
            raise InputError(f"unknown tool {name[:40]!r}", where="tools", hint=near(name, tools))
        given = checked(name, tools[name], arguments)
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            with confined(self.limits.folder, python=self.limits.python):
                answer = tools[name](**given)
                if isinstance(answer, Awaitable):
                    answer = await answer
        return cast("dict[str, Any]", _bounded(answer))

    # The simulation --------------------------------------------------------------

    @property
    def sim(self) -> Simulation:
        """The simulation.

        Raises
        ------
        InputError
            None is open.
        """
        if self._sim is None:
            raise InputError("no simulation is open", where="tools", hint="call open first")
        return self._sim

    @property
    def _session(self) -> Session:
        return session_of(self.sim)

    def _within(self, what: str, call: Callable[[], _T]) -> _T:
        """Answer a question, or give it up when its time is over."""
        try:
            return within(self.limits.seconds, call)
        except OutOfTime:
            hint = "ask of a smaller run, or start the server with a larger --time-limit"
            raise InputError(f"not done after {self.limits.seconds:g} s", where=what, hint=hint) from None

    def open(
        self,
        options: Annotated[
            dict | None,  # type: ignore[type-arg] # as JSON has them
            "what to run on what: the fields of a run by name, as "
            '{"infra": "dgx-h100", "collective": "all_reduce", "size": "1 MiB", "algorithm": "ring"}, '
            '{"model": "gpt3-125m", "dp": 8, "fidelity": "congestion"} or '
            '{"workload": "traces/step", "system": "system.json", "network": "network.yml"}',
        ] = None,
        saved: Annotated[str | None, "instead: the file of a saved simulation"] = None,
        record: Annotated[
            bool, "whether timelines and traffic are recorded; without, large runs are faster"
        ] = True,
    ) -> dict[str, Any]:
        """Open a simulation at its start, in place of the one before.

        Fidelities are cacheline (every cache line; default of a collective), congestion and analytical
        (default of models and traces).
        """
        if saved is not None and options is not None:
            raise both_given("options", "saved", "open")
        if saved is None and options is None:
            raise InputError("options are missing", where="open", hint="give them, or the file saved")
        self._sim = self._within("open", lambda: self._opened(options, saved, record=record))
        return self.state()

    def _opened(self, options: Mapping[str, Any] | None, saved: str | None, *, record: bool) -> Simulation:
        if options is None:
            return Simulation.load(cast("str", saved))
        from astranb.explore.runs import spec_of, subject_of

        more: dict[str, Any] = {"checkpoint_bytes": _CHECKPOINTS}
        if self.limits.memory_bytes is not None:
            more["memory_bytes"] = self.limits.memory_bytes
        subject = subject_of(spec_of(options), record=record, inspected=record, **more)
        if subject.failures is not None:
            what = "links that fail while the run goes are set when it is there"
            raise InputError(what, where="open", hint="leave fail and repair out; call set with LINK.up")
        return subject.sim

    def state(self) -> dict[str, Any]:
        """Describe what runs, how far it is, breakpoints, changes, and the hash of everything simulated."""
        sim = self.sim
        return {
            "title": sim.title,
            "fidelity": sim.fidelity,
            "ranks": sim.ranks,
            **_moment(sim),
            "next_ps": sim.next_ps,
            "counts": sim.counts,
            "last_event": sim.narrate() if sim.events else "",
            "breakpoints": [point.text for point in sim.breakpoints],
            "changes": [
                {"events": events, "path": path, "value": value} for events, path, value in sim.edits
            ],
            "tables": sim.result.tables,
            "state_hash": sim.state_hash(),
        }

    # Moving time -----------------------------------------------------------------

    async def run(
        self, until: Annotated[int | str | None, "a time in ps, or text as '5 us'; to the end without"] = None
    ) -> dict[str, Any]:
        """Go on to the end, to a breakpoint, or through everything up to a time.

        A long run stops at an event when the time of a call is over (why: limit); call it again to go on.
        """
        sim = self.sim
        last_ps = _FOREVER if until is None else time_ps(until, where="until")

        def slices() -> Iterator[Stop]:
            if until is None and not sim.breakpoints:
                sim.driver.keep()
                sim.engine.finish()  # of a run whose ranks do the same, from its start
            while True:
                stop = sim.advance(last_ps)
                yield stop
                if stop.why in ("end", "breakpoint", "time") or not self._in_time():
                    return

        return await self._moved(slices())

    async def step(
        self,
        n: Annotated[int, "how many, at least 0"] = 1,
        unit: Annotated[
            str, "event, cycle (all events of the next instant), phase, instruction, operation, message, …"
        ] = "event",
    ) -> dict[str, Any]:
        """Go on by n events, or other units; earlier only at the end or at a breakpoint."""
        sim = self.sim
        sim.step(min(n, 0), unit)  # refuses what does not fit
        if n > _MOST_STEPS:
            raise InputError(f"{n} steps", where="n", hint=f"take at most {_MOST_STEPS:,}, or run")
        count = sim.counts[unit] + n

        def few() -> Iterator[Stop]:
            left = n
            while left > 0 and self._in_time():
                part = min(left, _SLICE[unit])
                left -= part
                stop = sim.step(part, unit)
                yield stop
                if stop.why != "steps":
                    return

        def long() -> Iterator[Stop]:
            while sim.counts[unit] < count and self._in_time():
                stop = sim.advance(unit=unit, count=count)
                yield stop
                if stop.why in ("end", "breakpoint", unit):
                    return

        return await self._moved(few() if unit in _SLICE else long())

    async def back(
        self,
        n: Annotated[int, "how many, at least 0; more than there were: to the start"] = 1,
        unit: Annotated[str, "as of step"] = "event",
    ) -> dict[str, Any]:
        """Go back by n units of step, exactly. Changes made after that moment are undone."""
        sim = self.sim
        sim.step(min(n, 0), unit)
        field = sim.engine.traits.units[unit]
        target = sim.counts[unit] - n
        self._check_work(*(("events", 0) if target < 0 else (field, target)))
        return await self._moved(sim.back(n, unit) for _ in range(1))

    async def goto(self, when: Annotated[int | str, "a time in ps, or text as '5 us'"]) -> dict[str, Any]:
        """Go to the moment at which everything up to a time has happened, forwards or back."""
        when_ps = time_ps(when, where="when")
        if when_ps >= self.sim.now_ps:
            return await self.run(when_ps)
        self._check_work("now_ps", when_ps)
        return await self._moved(self.sim.goto(when_ps) for _ in range(1))

    def _check_work(self, field: str, target: int) -> None:
        """Check that going back takes no longer than a call may: it cannot stop on its way."""
        rate = self._handled / self._took_s if self._took_s > _LONG else _RATE
        seconds = self.sim.driver.work_back_to(field, target) / rate
        if seconds > self.limits.seconds:
            hint = "go back by less, or start the server with a larger --time-limit"
            raise InputError(f"going back would take about {seconds:,.0f} s", where="back", hint=hint)

    def _in_time(self) -> bool:
        """Return whether a call that has more to do may go on."""
        self._late = perf_counter() > self._end_s
        return not self._late

    async def _moved(self, slices: Iterator[Stop]) -> dict[str, Any]:
        """Move time by slices until they end, or a person presses Pause."""
        sim, session, begin_s, begin = self.sim, self._session, perf_counter(), self.sim.events
        self._end_s, self._late = begin_s + self.limits.seconds, False
        ended = False

        def noted() -> Iterator[Stop]:
            nonlocal ended
            yield from slices
            ended = True

        stop = await session.carry_out(noted())
        if sim.events > begin:
            self._handled += sim.events - begin
            self._took_s += perf_counter() - begin_s
        if self._late:
            text = (
                f"stopped after {self.limits.seconds:g} s at {format_time(sim.now_ps)}: call again to go on"
            )
            return {"why": "limit", "text": text, **_moment(sim)}
        if not ended:
            return {"why": "pause", "text": f"a person has stopped it: {session.status}", **_moment(sim)}
        if stop is None:
            return {"why": "steps", "text": "nothing was asked for", **_moment(sim)}
        more = {name: getattr(stop, name) for name in ("where", "because", "phase") if getattr(stop, name)}
        return {"why": stop.why, "text": stop.text, **more, **_moment(sim)}

    # Looking ---------------------------------------------------------------------

    def search(
        self,
        text: Annotated[str, "the beginning of a name, or a part of one; all kinds where empty"] = "",
        most: Annotated[int, "how many names"] = 30,
    ) -> dict[str, Any]:
        """Find names of objects: GPUs, SMs, links, switches, ranks, operations."""
        found = self.sim.paths(text, most=_count(most, "most", _MOST_ROWS))
        return {"paths": found}

    def inspect(self, path: Annotated[str, "as search gives it: gpu[3], A->B, rank[3]"]) -> dict[str, Any]:
        """Look at an object: its state now, what is in flight, its parts.

        Units are in the names of numbers; `parameters` can be set, `fields` be part of a condition.
        """
        sim = self.sim
        view = sim.at(path)
        return {
            "path": view.path,
            "kind": view.kind,
            "title": view.title,
            "now_ps": view.now_ps,
            "state": dict(view.state),
            "in_flight": view.in_flight,
            "recent": view.recent,
            "parts": view.get("children", []),
            "parameters": [_plain(asdict(one)) for one in sim.parameters(path)],
            "fields": sim.fields(path),
        }

    def parameters(self) -> dict[str, Any]:
        """List what of the whole run could be changed by opening it again, with values now and limits."""
        return {"parameters": [_plain(asdict(one)) for one in self.sim.parameters()]}

    def tables(
        self,
        name: Annotated[str, "one of the tables; their names where empty"] = "",
        rows: Annotated[int, "most rows"] = 50,
        first: Annotated[int, "the first row, from 0"] = 0,
    ) -> dict[str, Any]:
        """Return a table of the result up to now; units are in the columns' names (_ps, _Bps, bytes)."""
        result = self.sim.result
        if not name:
            return {"tables": result.tables, "absent": dict(result.absent)}
        most, begin = _count(rows, "rows", _MOST_ROWS), _count(first, "first", _MOST_STEPS)
        found = self._within("tables", lambda: result.table(name))
        if isinstance(found, Mapping):  # columns
            count = len(next(iter(found.values()), ()))
            columns = {key: column[begin : begin + most] for key, column in found.items()}
            part: Any = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        else:
            count, part = len(found), found[begin : begin + most]
        return {"table": name, "all_rows": count, "first": begin, "rows": part}

    # Changing --------------------------------------------------------------------

    def set(
        self,
        path: Annotated[str, "parameter, as 'A->B.bandwidth', 'gpu[3].sms', 'rank[3].speed'"],
        value: Annotated[int | float | str | bool, "with a unit, as '25 GB/s'"],
    ) -> dict[str, Any]:
        """Change something for what has not started yet; going back past now undoes it."""
        sim = self.sim
        sim.set(path, value)
        _, changed, now = sim.edits[-1]
        return {"path": changed, "value": now, **_moment(sim)}

    def break_when(
        self, condition: Annotated[str, "as 'gpu[3].sm.0.waiting > 0' or 'rank[3].waiting > 0'"]
    ) -> dict[str, Any]:
        """Add a breakpoint: stop when a condition becomes true."""
        self.sim.break_when(condition)
        return {"breakpoints": [point.text for point in self.sim.breakpoints]}

    def clear(self) -> dict[str, Any]:
        """Remove all breakpoints."""
        self.sim.clear()
        return {"breakpoints": []}

    def save(self, file: Annotated[str, "a new file in the folder of the server"]) -> dict[str, Any]:
        """Save the simulation; anb.Simulation.load(file) or open goes on with it."""
        check_place(file, write=True)
        if Path(file).exists():
            raise InputError("this name is taken", where=file or "save", hint="give another name")
        self._within("save", lambda: self.sim.save(file))
        return {"file": file, **_moment(self.sim)}

    # Explaining ------------------------------------------------------------------

    def why(
        self, path: Annotated[str, "an object; what has waited longest where empty"] = ""
    ) -> dict[str, Any]:
        """Explain why an object waits now: the chain of waits, up to the resource at its end."""
        found = self._within("why", lambda: self.sim.why(path))
        steps = [{"path": one.path, "text": one.text, "since_ps": one.since_ps} for one in found]
        return {
            "path": found.path, "now_ps": found.now_ps, "waits": steps, "circle": found.circle,
            "text": str(found),
        }  # fmt: skip

    def explain(self) -> dict[str, Any]:
        """Explain where the time went up to now, and what had to wait for what."""
        result = self.sim.result
        text = self._within("explain", result.explain)
        return {"text": text, "breakdown": result.breakdown(), **_moment(self.sim)}

    def what_if(
        self,
        path: Annotated[
            str, "what to change, as 'A->B.bandwidth', '*->*.latency'; the best where empty"
        ] = "",
        value: Annotated[int | float | str, "'x2', 'x0.5', or a value as set takes it"] = "",
    ) -> dict[str, Any]:
        """Ask what a change would do to the time of the whole run, without changing it.

        With a path it is run in a copy: exact_ps; without one the changes that matter most, with estimates.
        """
        sim = self.sim
        found: Any = self._within("what_if", lambda: sim.what_if(path, value))
        changes = [found] if path else list(found)
        rows = [
            {name: entry for name, entry in asdict(one).items() if name != "causes"} | {"text": str(one)}
            for one in changes
        ]
        return {"changes": rows}

    def verify(
        self,
        collective: Annotated[str, "name, as all_reduce"],
        algorithm: Annotated[str | None, "name, file of a plan, or FILE.py:FUNCTION (with --python)"] = None,
        program: Annotated[
            str | None, "instead: the text of an algorithm over a Program p (with --python)"
        ] = None,
        ranks: Annotated[int | None, "number of ranks; 8 where neither this nor infra is given"] = None,
        infra: Annotated[
            str | None, "instead of ranks: the infrastructure whose GPUs, nodes and links it is for"
        ] = None,
        size: Annotated[str | int, "bytes in a rank's larger buffer"] = "64 KiB",
        protocol: Annotated[str, "Simple, LL or LL128"] = "Simple",
        channels: Annotated[int | None, "sets of thread blocks"] = None,
        root: Annotated[int, "root rank of a broadcast, reduce, gather or scatter"] = 0,
    ) -> dict[str, Any]:
        """Prove an algorithm correct at any timing, or list its faults; it needs no open simulation.

        Correct is: no deadlock, no race, the promised result.
        """
        if infra is not None:
            if ranks is not None:
                raise both_given("ranks", "infra", "verify")
            from astranb.infragraph import resolve

            ranks = self._within("verify", lambda: len(resolve(infra).expand().gpus))
        ranks = _count(8 if ranks is None else ranks, "ranks", _MOST_RANKS)
        options: dict[str, Any] = {"channels": channels, "root": root, "protocol": protocol}
        if program is not None:
            from astranb.collectives import check_text

            if algorithm is not None:
                raise both_given("algorithm", "program", "verify")
            check_python("program")
            problems = check_text(
                program, collective=collective, ranks=infra or ranks, size=size,
                seconds=self.limits.seconds, **options,
            )  # fmt: skip
            faults = [asdict(one) for one in problems]
            name = f"{collective}/program"
        else:
            from astranb.collectives import Collective, prove
            from astranb.explore.runs import algorithm_of, collective_of

            def proved() -> tuple[str, list[dict[str, Any]]]:
                what = Collective.of(collective_of(collective), size, algorithm_of(algorithm), **options)
                proof = prove(what, infra) if infra else prove(what.program(ranks), what.name, root=root)
                return what.title, [asdict(one) for one in proof.flaws]

            name, faults = self._within("verify", proved)
        right = not any(fault["severity"] == "error" for fault in faults)
        return {"name": name, "ranks": ranks, "correct": right, "faults": _plain(faults)}


_NAMES: Final = (
    "open", "state", "run", "step", "back", "goto", "search", "inspect", "parameters", "tables", "set",
    "break_when", "clear", "save", "why", "explain", "what_if", "verify",
)  # fmt: skip
_CHANGING: Final = ("open", "run", "step", "back", "goto", "set", "break_when", "clear", "save")


def _moment(sim: Simulation) -> dict[str, Any]:
    """Return where a simulation is."""
    return {
        "now_ps": sim.now_ps, "now": format_time(sim.now_ps), "events": sim.events, "finished": sim.finished
    }  # fmt: skip


def _count(value: int, name: str, most: int) -> int:
    if not 0 <= value <= most:
        raise InputError(f"{name} is {value}", where="tools", hint=f"take 0 to {most:,}")
    return value


def _plain(value: Any) -> Any:
    """Return numbers, texts, lists and dicts of the same content, as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _bounded(answer: Mapping[str, Any]) -> Any:
    """Return an answer of bounded length: of long lists the first items, of long texts the beginning."""
    items, characters = _MOST_ROWS, _MOST_CHARACTERS // 2
    found = _plain(answer)
    while True:
        short = _shortened(found, items, characters)
        if len(json.dumps(short)) <= _MOST_CHARACTERS or items == 1:
            return short
        items, characters = max(1, items // 2), characters // 2


def _shortened(value: Any, items: int, characters: int) -> Any:
    if isinstance(value, str) and len(value) > characters:
        return f"{value[:characters]}… ({len(value) - characters:,} more characters)"
    if isinstance(value, list):
        return [_shortened(one, items, characters) for one in value[:items]]
    if isinstance(value, dict):
        found = {}
        for key, one in value.items():
            found[key] = _shortened(one, items, characters)
            if isinstance(one, list) and len(one) > items:
                found[f"{key}_left_out"] = len(one) - items
        return found
    return value
