"""One collective or workload by cache lines, as something that has a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from astranb.collectives import Collective, Joined, Lowered, check, verify
from astranb.core.deadline import OutOfTime, within
from astranb.core.errors import AstranbError, Deadlock, InputError, WrongResult
from astranb.core.progress import building
from astranb.core.units import format_bytes
from astranb.engine.edits import Edit
from astranb.engine.stops import DEADLOCK, EXHAUSTED, REACHED, STEPS, STRANDED, TIME
from astranb.gpu import Preset
from astranb.infragraph import Infra
from astranb.net import Fabric, Network

from .build import MachinePlan, build, lower_for, presets_for
from .deadlock import explain_deadlock
from .faults import LAST_PS, any_down, explain_stranded, stranded
from .machine import CacheLineMachine, state_hash
from .recorder import Recorder
from .workload import Graph

__all__ = ["UNITS", "CacheLineState"]

UNITS = {
    "event": "events",
    "cycle": "timesteps",
    "instruction": "instructions",
    "hop": "hops",
    "line": "lines",
    "message": "messages",
    "phase": "phases",
}
"""The units of steps, and the field of the clock that counts each."""

_COUNTED = ("instructions", "hops", "lines", "messages", "phases")
"""Those that one event may leave as they are."""

_SEARCH = 2**14
"""While links are down, it is checked at every so many events, counted from the start of the run, whether
anything can still happen: it must not depend on how the run is divided into steps."""

_FOREVER = 2**62

_PROOF_S = 10.0
"""Time limit of the search for the fault of a program whose result is wrong, in seconds."""
_UNCHECKED = "--unchecked (in Python unchecked=True) times it as it is"


class CacheLineState:
    """State and loop of a run by cache lines, without the questions about it.

    Parameters
    ----------
    infra : Infra
    work : Collective or Graph
        What runs.
    fabric : Fabric
    chosen, presets : sequence of Preset
        One a rank: as chosen, and as lines are coalesced.
    program : Lowered
    network : Network
    launch : str
    machine : CacheLineMachine
    assumed : sequence of str
        What was assumed about the infrastructure, in words.
    edits : sequence of Edit
    late_ps : sequence of int
        How late each rank starts; empty: none does.
    notes : sequence of str
        Those of ``assumed`` that are about the GPUs.
    given : Lowered, optional
        The program, where it was given and not lowered from ``work``.
    """

    fidelity = "cacheline"
    as_of_ps = -1

    def __init__(
        self,
        infra: Infra,
        work: Collective | Graph,
        fabric: Fabric,
        chosen: Sequence[Preset],
        presets: Sequence[Preset],
        program: Lowered,
        network: Network,
        launch: str,
        machine: CacheLineMachine,
        assumed: Sequence[str] = (),
        edits: Sequence[Edit] = (),
        late_ps: Sequence[int] | np.ndarray = (),
        notes: Sequence[str] = (),
        given: Lowered | None = None,
    ) -> None:
        self.notes, self.given = tuple(notes), given
        self.infra, self.work, self.fabric, self.program = infra, work, fabric, program
        self.chosen, self.presets, self.network, self.launch = list(chosen), list(presets), network, launch
        self.machine, self.assumed, self.edits = machine, list(assumed), list(edits)
        self.late_ps = np.array(late_ps if len(late_ps) else [0] * len(machine.gpus), np.int64)
        self.recorder = Recorder(machine, fabric, program)

    @classmethod
    def built(
        cls,
        infra: Infra,
        work: Collective | Graph,
        fabric: Fabric,
        chosen: Sequence[Preset],
        network: Network,
        launch: str,
        *,
        late_ps: Sequence[int] = (),
        notes: Sequence[str] = (),
        record: bool = True,
        memory_bytes: int | None = None,
        given: Lowered | None = None,
    ) -> Self:
        """Lay out a machine at its start.

        With ``given``, the program is not lowered from ``work`` but is this one.

        Raises
        ------
        InputError
            Something does not fit together, or not into memory.
        Interrupted
            The user has interrupted it.
        """
        with building(f"{work.title} on {len(chosen):,} GPUs"):
            if isinstance(work, Collective):
                work = work.on_ranks(len(chosen))
            if given is None:
                presets, program = lower_for(work, chosen, fabric, network, launch)
            else:
                presets, program = presets_for(given, chosen, network), given
            plan = MachinePlan(fabric, presets, program, network, launch, late_ps)
            machine, more = build(plan, record=record, memory_bytes=memory_bytes)
        assumed = [*fabric.assumed, *notes, *more]
        return cls(
            infra,
            work,
            fabric,
            chosen,
            presets,
            program,
            network,
            launch,
            machine,
            assumed,
            late_ps=late_ps,
            notes=notes,
            given=given,
        )

    # What is now -------------------------------------------------------------

    @property
    def title(self) -> str:
        """Work and machine, in one line."""
        return f"{self.work.title}, {format_bytes(self.work.size)}, on {self.infra.name}"

    @property
    def now_ps(self) -> int:
        """Time of the last event, or the later time that questions are about."""
        return max(0, int(self.machine.clock[0].now_ps), self.as_of_ps)

    @property
    def next_ps(self) -> int:
        """Time of the next event; -1 where none is left."""
        return int(self.machine.event_queue.near[0].time_ps) if self.machine.clock[0].queued else -1

    @property
    def events(self) -> int:
        """Events handled so far."""
        return int(self.machine.clock[0].events)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen."""
        return int(self.machine.clock[0].queued) == 0

    @property
    def time_ps(self) -> int:
        """From the start to the end of the last thread block; up to now while it runs."""
        # A link may still fail or come back when all is done.
        over = self.finished or self.machine.clock[0].done == len(self.machine.blocks)
        return int(self.machine.gpus["ended_ps"].max()) if over else self.now_ps

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.machine.gpus)

    @property
    def recording(self) -> bool:
        """Whether line flights and activity are recorded."""
        return bool(self.machine.recording.recorder[0].on)

    # Moving ------------------------------------------------------------------

    def count(self, name: str) -> int:
        """One of the counts that name a point of the run; ``now_ps`` is -1 before the first event."""
        return int(self.machine.clock[0][name])

    def kept(self, sizes: Mapping[str, int] | None = None, *, whole: bool = False) -> dict[str, memoryview]:
        """Return the contents of a checkpoint as writable bytes.

        ``sizes``: those of the tables at the checkpoint to go back to; they change only where routes do.
        ``whole``: with everything recorded.
        """
        if sizes is not None:
            self.recorder.mark()
            self.machine = self.machine.resized(sizes)
        most = {"most": memoryview(self.recorder.most.view(np.uint8))} if whole else {}  # type: ignore[arg-type]
        return self.machine.kept(whole=whole) | most

    @property
    def layout(self) -> dict[str, np.dtype[Any]]:
        """Names and types of the fields of each table that a snapshot may hold."""
        tables = {**self.machine.tables, **self.machine.recording._asdict(), "most": self.recorder.most}
        return {name: np.asarray(table).dtype for name, table in tables.items()}

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        return self.machine.state_bytes

    def digest(self) -> str:
        """Hash everything simulated (32 hex digits); the recording is no part of it."""
        return state_hash(self.machine)

    def finish(self) -> bool:
        """Do nothing: every event is handled."""
        return False

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events up to the limits, which count from the start of the run."""
        del closely  # limits are always looked at
        control = self.machine.control
        control["until_ps"] = LAST_PS if until_ps is None else min(until_ps, LAST_PS)
        control["max_timesteps"] = most.get("timesteps", _FOREVER)
        control["counted"] = 0
        for name in _COUNTED:
            control[f"max_{name}"] = most.get(name, _FOREVER)
            if name in most:
                control["counted"] = 1
                if self.count(name) >= most[name]:
                    return REACHED
        if not any_down(self.machine):
            return self._run(steps)
        while True:
            why = self._run(min(steps, self.events + _SEARCH - self.events % _SEARCH))
            if self.finished:
                return why
            at_search = self.events % _SEARCH == 0 or self.next_ps > LAST_PS
            if why in (STEPS, TIME, REACHED) and at_search and stranded(self.machine):
                return STRANDED
            if why != STEPS or self.events >= steps:
                return why

    def _run(self, steps: int) -> int:
        self.machine.control["max_events"] = steps
        return self.machine.run()

    def stopped(self, why: int) -> None:
        """Raise a Deadlock or WrongResult where the run cannot go on or has ended wrongly."""
        clock = self.machine.clock[0]
        if why == EXHAUSTED:
            raise AstranbError(f"a run of {self.events:,} events: no more can be counted, make it smaller")
        if why == DEADLOCK or (self.finished and clock.done < len(self.machine.blocks)):
            raise Deadlock(explain_deadlock(self.machine, self.program, self.fabric))
        if why == STRANDED:
            raise Deadlock(explain_stranded(self.machine, self.program.name, self.fabric, self._down_since()))
        if self.finished:
            tables = (self.machine.ops, self.machine.operands, self.machine.slices)
            if isinstance(self.program, Joined):
                self.program.check(*tables)
            elif isinstance(self.work, Collective) and not self.work.unchecked:
                try:
                    check(self.program, self.work.name, self.work.root, *tables)
                except WrongResult as error:
                    raise WrongResult(f"{error}{self._fault()}; {_UNCHECKED}") from None

    def _fault(self) -> str:
        """Name the first fault of the program, and the reading under which it is right, if there is one."""
        try:
            work = self.work.on_gpu(self.chosen[0].sms)  # type: ignore[union-attr]
            program = work.program(len(self.chosen), self.fabric.shape)
            flaws = within(
                _PROOF_S,
                lambda: verify(program, self.work.name, root=self.work.root, most=1),
            )
        except (InputError, OutOfTime):  # a recipe holds no functions
            return ""
        # The first fault, and how it may be read; that the result is wrong is said already.
        faults = [flaw for flaw in flaws if flaw.kind not in ("result", "more")]
        faults = [flaw for flaw in faults if flaw.kind == faults[0].kind]
        return "".join(
            f"; {flaw.message.removeprefix(f'{program.name}: ')}"
            + "".join(f" | {line}" for line in flaw.lines)
            for flaw in faults
        )

    def _down_since(self) -> dict[int, int]:
        """Since when each link is down, in ps."""
        edits = (edit for edit in self.edits if edit.field == "up" and not edit.number)
        return {row: edit.at_ps for edit in edits for row in np.asarray(edit.rows).tolist()}
