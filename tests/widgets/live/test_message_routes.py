"""Routes of whole messages that change in a page: tables, hashes, names and errors are those of Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from tests.widgets.live.both import Both, both, travelled
from tests.widgets.live.kernels import page_kernel
from tests.widgets.live.selection import mostly_slow


def _sim(
    infra: str, what: str = "all_reduce/ring", fidelity: str = "congestion", **more: Any
) -> anb.Simulation:
    kind, _, algorithm = what.partition("/")
    work = anb.collectives.Collective.of(kind, "256 KiB", algorithm)
    return anb.Simulation(infra, work, fidelity=fidelity, **more)


RUNS: dict[str, Callable[[], anb.Simulation]] = {
    "ring": lambda: _sim("ring:gpus=4"),
    "ring, analytical": lambda: _sim("ring:gpus=4", fidelity="analytical"),
    "dgx": lambda: _sim("dgx-h100", "all_to_all/pairwise"),
    "clos": lambda: _sim("clos:servers=2", "all_to_all/pairwise"),
    "clos, analytical": lambda: _sim("clos:servers=2", fidelity="analytical"),
    "clos, not recorded": lambda: _sim("clos:servers=3", record=False),
    "torus": lambda: _sim("torus2d:rows=3,columns=3", "all_to_all/pairwise"),
    "dragonfly": lambda: _sim("dragonfly:groups=3", "all_to_all/pairwise"),
    "rails": lambda: _sim("rails:servers=2", "all_gather/ring"),
    "full mesh": lambda: _sim("fully-connected:gpus=6", "all_to_all/pairwise"),
}


def _change(run: Both, verb: str, **options: Any) -> None:
    """Change both, or have both refuse."""
    run.same("apply", verb=verb, options=options)
    run.agree()


@pytest.mark.parametrize("name", mostly_slow(RUNS, "ring, analytical", "torus"))
@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3))])
def test_routes_change_as_in_python(name: str, seed: int) -> None:
    sim, rng = RUNS[name](), random.Random(f"{name} {seed}")
    fabric, whole = sim.engine.routed.fabric, sim.fork(record=False)
    used = {name.partition(" (of ")[0] for name in sim.engine.about.links}
    lanes = [fabric.name(lane) for lane in rng.sample(range(len(fabric.links)), 6)]
    links = [*sorted(used), *lanes]
    whole.run()
    with both(sim) as run:
        for _ in range(6):
            run.send({"type": "event", "n": rng.randint(0, 1 + whole.events // 6)})
            for _ in range(rng.randint(0, 2)):
                link = rng.choice(links) if rng.random() < 0.8 else f"link[{rng.randrange(40)}]"
                _change(run, "take_down", link=link, both=rng.random() < 0.5)
            run.send({"type": "event", "n": rng.randint(0, 9)})
            if rng.random() < 0.5:
                _change(run, "reroute")
            else:
                _change(run, "set", path="reroute", value=f"{sim.now_ps + rng.randint(0, 30_000_000)} ps")
            run.send({"type": "event", "n": rng.randint(0, 20)})
            for path in (rng.choice(links), f"link[{rng.randrange(60)}]"):
                run.same("inspect", path=path, at_ps=None)
                run.same("parameters", path=path)
            run.same("search", text="link 2", at_ps=None)
        run.send({"type": "back", "n": rng.randint(1, max(1, sim.events)), "unit": "event"})
        run.agree()
        run.same("search", text="link 2", at_ps=None)
        run.send({"type": "event", "n": 30})
        if sim.edits:
            _change(run, "undo", number=rng.randrange(len(sim.edits)))
        run.send({"type": "to_end"})
        run.agree()
        run.same("hash", at_ps=sim.now_ps // 2)
        run.send({"type": "reset"})
        run.send({"type": "to_end"})
        run.agree()


def test_what_names_no_link_is_refused_in_the_same_words() -> None:
    sim = _sim("clos:servers=2", what="all_gather/ring")
    a, _, b = sim.engine.about.links[0].partition(" (of ")[0].partition("->")
    with both(sim) as run:
        run.send({"type": "event", "n": 40})
        for link in (
            f"{a}->{b}",
            f"{a}->{b}#0",
            f"{a}->{b}#99",
            f"{b}->nobody",
            "->",
            "a->b->c",
            "gpu[99]->gpu[0]",
            3,
            None,
        ):
            _change(run, "take_down", link=link)
            _change(run, "set", path=f"{link}.latency", value="1 us")
            _change(run, "set", path=f"{link}.colour", value="1 us")
            run.same("inspect", path=link, at_ps=None)
            run.same("parameters", path=link)
        unused = "host.0.cx7.0->host.0.pciesl.0"
        _change(run, "take_down", link=unused)
        _change(run, "reroute")


def test_files_of_runs_whose_routes_have_changed(tmp_path: Path) -> None:
    sim = RUNS["clos"]()
    link = sim.engine.about.links[-1].partition(" (of ")[0]
    sim.step(60)
    sim.take_down(link, both=True)
    sim.step(10)
    sim.reroute()
    sim.step(200)
    with page_kernel(sim.fork()) as page:
        travelled(sim, page, tmp_path, 50)
        page.send({"type": "to_end"})
        sim.run()
        assert page.ask("hash")["hash"] == sim.state_hash()
