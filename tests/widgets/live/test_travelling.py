"""Any program on any machine: what a page simulates is what Python simulates, wherever both are taken."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import astranb as anb
from tests.collectives.judge.programs import random_program
from tests.collectives.judge.timings import NETWORKS
from tests.sim.test_time_travel import CASES
from tests.widgets.live.kernels import NodeKernel, PythonKernel, differing, page_kernel, same
from tests.widgets.live.selection import mostly_slow

_STEPS = 25
_RUNS = {name: case for name, case in CASES.items() if "folded" not in name}


class Travellers:
    """The same run in Python and in a page, given the same commands."""

    def __init__(self, sim: anb.Simulation, page: NodeKernel, edits: Sequence[Any], seed: int) -> None:
        whole = sim.fork(record=False)
        with suppress(anb.core.errors.AstranbError):  # it hangs, or ends wrongly
            whole.run()
        self.last_ps, self.events = max(1, whole.now_ps), max(1, whole.events)
        self.python, self.page, self.edits, self.random = PythonKernel(sim), page, edits, Random(seed)
        self.known: dict[Any, str] = {}
        for kernel in (self.python, page):
            kernel.send({"type": "ready"})

    def command(self) -> dict[str, Any]:
        """Anything that moves time or changes the run."""
        chance, sim = self.random, self.python.sim
        unit = chance.choice(list(sim.engine.units))
        few = chance.choice([0, 1, 2, 7])
        n = few if unit == "phase" or chance.random() < 0.6 else chance.randrange(self.events)
        commands = [
            {"type": unit, "n": n},
            {"type": unit, "n": n},
            {"type": "back", "n": n, "unit": unit},
            {"type": "goto", "when": chance.randrange(self.last_ps)},
            {"type": chance.choice(["to_end", "reset"])},
        ]
        if self.edits:
            path, values = chance.choice(self.edits)
            commands.append({"type": "set", "path": path, "value": chance.choice(values)})
            commands.append({"type": "record", "on": chance.random() < 0.5})
        if sim.edits:
            commands.append({"type": "undo", "number": chance.randrange(len(sim.edits))})
        return chance.choice(commands)

    def go(self, command: dict[str, Any]) -> None:
        """Carry a command out on both sides, and compare what comes of it."""
        for kernel in (self.python, self.page):
            kernel.send({"type": "ready"})
        mine, theirs = (kernel.send(command)[-1][0] for kernel in (self.python, self.page))
        for name in ("status", "failed", "now_ps", "events", "counts", "finished"):
            assert theirs[name] == mine[name], (command, name)
        self._check(command)

    def _check(self, command: dict[str, Any]) -> None:
        """Compare the state now, and at a moment of the past; one moment has one state."""
        sim = self.python.sim
        now = self.page.ask("hash")["hash"]
        assert now == sim.state_hash(), command
        assert self.known.setdefault((tuple(sim.edits), sim.events), now) == now, command
        at_ps = self.random.randrange(sim.now_ps + 1)
        question = {"type": "ask", "id": 1, "question": "hash", "options": {"at_ps": at_ps}}
        same(self.python, self.page, question)


def _travel(sim: anb.Simulation, edits: Sequence[Any] = (), seed: int = 0, steps: int = _STEPS) -> None:
    lines = sim.fidelity == "cacheline"  # else tables may have room for more than is simulated
    with page_kernel(sim) as page:
        both = Travellers(sim, page, edits, seed)
        for number in range(steps):
            both.go(both.command())
            assert not lines or number % 6 or differing(sim, page) == []
        assert not lines or differing(sim, page) == []


@pytest.mark.parametrize(
    "name",
    mostly_slow(_RUNS, "lines, packets", "lines, RoCE", "lines, a workload", "messages, its links", "layers"),
)
def test_a_run_is_the_same_however_it_is_reached(name: str) -> None:
    case = _RUNS[name]
    needs_python = "dim[" if name.startswith("layers") else "none"  # they change whole tables
    edits = [edit for edit in case.edits if needs_python not in edit[0]]
    _travel(case.make(), edits, seed=len(name))


_SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 50))]


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_random_program_is_the_same(seed: int) -> None:
    sketch = random_program(seed)
    infra = Random(seed).choice(["switch", "ring"])
    network = NETWORKS[seed % len(NETWORKS)]
    sim = anb.Simulation(f"{infra}:gpus={sketch.ranks}", sketch.collective(), network=network)
    _travel(sim, seed=seed, steps=10)
