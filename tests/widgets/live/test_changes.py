"""What is changed in a page in the middle of a run has the effects, the words and the errors that it has in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import astranb as anb
from astranb.net import Pfc, Roce
from tests.widgets.live.kernels import NodeKernel, PythonKernel, differing, page_kernel


def ring(**options: Any) -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"), **options)


def packets() -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "tree", protocol="LL128"))


def ethernet() -> anb.Simulation:
    network = anb.Network(roce=Roce(pfc=Pfc("8 KiB", "4 KiB")))
    return anb.Simulation("clos:servers=2", anb.collectives.all_reduce("64 KiB", "ring"), network=network)


def buffered() -> anb.Simulation:
    network = anb.Network(buffers=4)
    return anb.Simulation("ring:gpus=4", anb.collectives.all_to_all("64 KiB"), network=network)


RUNS = {"ring": ring, "packets": packets, "ethernet": ethernet, "buffered": buffered}


class Both:
    """Python's kernel and a page's, which must say the same."""

    def __init__(self, sim: anb.Simulation, page: NodeKernel) -> None:
        self.sim, self.python, self.page = sim, PythonKernel(sim), page

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        """Ask both a question; returns the answer."""
        message = {"type": "ask", "id": 1, "question": question, "options": options}
        mine, theirs = (self._send(kernel, message, "answer") for kernel in (self.python, self.page))
        assert theirs == mine, options
        return mine

    def apply(self, verb: str, **options: Any) -> dict[str, Any]:
        """Apply a change in both."""
        found = self.ask("apply", verb=verb, options=options)
        self.agree()
        return found

    def go(self, **message: Any) -> dict[str, Any]:
        """Have both move; returns the last state."""
        mine, theirs = (self._send(kernel, message, "state") for kernel in (self.python, self.page))
        for name in ("status", "failed", "counts"):
            assert theirs[name] == mine[name]
        self.agree()
        return mine

    def _send(self, kernel: NodeKernel | PythonKernel, message: dict[str, Any], kind: str) -> dict[str, Any]:
        """Send a message; returns the last reply of a kind, and has all of them read."""
        replies = kernel.send(message)
        for meta, _ in replies:
            if meta["type"] == "state":
                kernel.send({"type": "read"})
        return next(meta for meta, _ in reversed(replies) if meta["type"] == kind)

    def agree(self) -> None:
        """Check that every table holds the same."""
        assert differing(self.sim, self.page) == []


@contextmanager
def both(sim: anb.Simulation) -> Iterator[Both]:
    with page_kernel(sim) as page:
        found = Both(sim, page)
        found.python.send({"type": "ready"})
        page.send({"type": "ready"})
        yield found


def links_of(sim: anb.Simulation) -> list[str]:
    """A link that is used, with all its lanes, and a lane of it."""
    first = sim.engine.fabric.name(int(sim.engine.machine.route_links[0]))
    return [first.partition("#")[0], first]


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
def test_edits_change_a_run_as_in_python(make: Any):
    sim = make()
    link, lane = links_of(sim)
    with both(sim) as run:
        for events, path, value in [
            (0, f"{link}.bandwidth", "3 GB/s"),
            (700, f"{link}.latency", "2 us"),
            (10, f"{lane}.latency", "1 ns"),
            (500, "gpu[1].sms", "2"),
            (300, "gpu[1].sms", 100),
            (5, "gpu[2].hbm", "1 us"),
            (900, "gpu[0].issue", 2500),
            (1, "gpu[*].noc", "1 ns"),
            (1, f"{link}.up", "perhaps"),
        ]:
            run.go(type="event", n=events)
            run.apply("set", path=path, value=value)
            run.ask("parameters", path=link)
            run.ask("parameters", path="gpu[1]")
        run.go(type="event", n=4000)
        assert run.apply("undo")["status"]
        run.go(type="event", n=400)
        run.apply("undo", number=2)
        run.go(type="to_end")
        run.go(type="reset")
        run.go(type="to_end")


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
def test_links_that_are_down(make: Any):
    sim = make()
    link, lane = links_of(sim)
    with both(sim) as run:
        run.go(type="event", n=1500)
        assert "messages wait" in run.apply("take_down", link=link, both=True)["status"]
        run.ask("parameters", path=link)
        run.go(type="event", n=800)
        run.ask("parameters", path=link)
        run.apply("repair", link=lane)
        run.go(type="event", n=300)
        run.apply("take_down", link=lane)
        state = run.go(type="to_end")
        assert state["failed"]
        assert "the run cannot continue" in state["status"]
        run.apply("repair", link=link, both=True)
        run.apply("repair", link=link)
        state = run.go(type="to_end")
        assert not state["failed"]
        run.go(type="back", n=3000)
        run.go(type="to_end")
