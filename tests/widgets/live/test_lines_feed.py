"""What a view of a run by cache lines is sent in a page: scene, pictures, flights, strips of activity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.state import own
from astranb.net import Network
from tests.widgets.live.kernels import NodeKernel, PythonKernel, page_kernel, same

_OF_THE_PICTURE: tuple[dict[str, Any], ...] = (
    {"type": "timeline"},
    *(
        {"type": "ask", "id": 1, "question": question, "options": {"at_ps": None}}
        for question in ("hot", "aggregates", "ports")
    ),
)


def _ask(question: str, **options: Any) -> dict[str, Any]:
    return {"type": "ask", "id": 7, "question": question, "options": options}


def _both(python: PythonKernel, page: NodeKernel, message: dict[str, Any]) -> dict[str, Any]:
    """Send a command to both, compare the state that they report, and read it."""
    (mine, columns), (theirs, their_columns) = (kernel.send(message)[-1] for kernel in (python, page))
    for kernel in (python, page):
        kernel.send({"type": "read"})
    assert theirs == mine
    assert their_columns == columns
    return theirs


@pytest.mark.parametrize("servers", [1, pytest.param(8, marks=pytest.mark.slow), 16])
def test_every_picture_of_a_machine(servers: int) -> None:
    infra = f"single-tier:server=dgx-h100,servers={servers}" if servers > 1 else "dgx-h100"
    sim = anb.Simulation(infra, anb.collectives.all_reduce("1 KiB", "ring"), network=Network(buffers=8))
    with page_kernel(sim) as page:
        python = PythonKernel(sim)
        for kernel in (python, page):
            kernel.send({"type": "event", "n": 5_000})
        mine, theirs = (kernel.send({"type": "ready"}) for kernel in (python, page))
        assert theirs[0] == mine[0]
        names = python.feed.units.names
        for look in (
            {},
            {"focus": names[-1]},
            {"opened": [names[0]]},
            {"opened": [names[-1], "nothing"]},
            {"focus": names[0], "opened": names[:1]},
            {"opened": names[:3]},
        ):
            same(python, page, _ask("picture", **look))
            for message in _OF_THE_PICTURE:
                same(python, page, message)
            _both(python, page, {"type": "event", "n": 30})
        for kernel in (python, page):
            kernel.send({"type": "set", "path": "gpu[0].hbm", "value": "1 us"})
            kernel.send(_ask("picture"))
        mine, theirs = (kernel.send({"type": "ready"}) for kernel in (python, page))
        assert theirs[0] == mine[0]


def test_flights_are_sent_once() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "allpairs"))
    recording = sim.engine.machine.recording
    sim.engine.machine.recording = recording._replace(flights=own(recording.flights[:700]))
    with page_kernel(sim) as page:
        python = PythonKernel(sim)
        for kernel in (python, page):
            kernel.send({"type": "ready"})
        sent = 0
        for n in (900, 3_000, 100, 5_000, 5_000):
            state = _both(python, page, {"type": "event", "n": n})
            assert state["first"] == max(sent, sim.engine.recorder.most - 700)
            sent = state["total"]
            _both(python, page, {"type": "back", "n": 70, "unit": "event"})
            sent = min(sent, sim.counts["hop"])
            _both(python, page, {"type": "fine"})
        assert sim.engine.recorder.oldest_ps > 0
        _both(python, page, {"type": "record", "on": False})
        _both(python, page, {"type": "event", "n": 500})
        state = _both(python, page, {"type": "record", "on": True})
        assert not state["recording"] or state["gaps"]


def test_the_line_on_a_link_is_found() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "ring"))
    with page_kernel(sim) as page:
        python = PythonKernel(sim)
        for kernel in (python, page):
            kernel.send({"type": "event", "n": 4_000})
        requests = sim.engine.machine.requests
        flying = np.flatnonzero((requests["live"] == 1) & (requests["arrives_ps"] > sim.now_ps))
        assert len(flying)
        for row in flying[:20].tolist():
            at = {"link": int(requests["link"][row]), "end_ps": int(requests["arrives_ps"][row])}
            for at_ps in (None, sim.now_ps - 50):
                same(python, page, _ask("line", **at, at_ps=at_ps))
