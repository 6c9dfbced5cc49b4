"""A collective's recording for a page without a kernel: ``Workbench.to_html``."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb import __version__
from astranb.core.errors import InputError
from astranb.core.svg import to_svg
from astranb.core.units import format_time
from astranb.engine.cacheline import FLIGHT_KINDS
from astranb.sim import Simulation

from ._answers import ANSWERS
from ._feed import Feed
from ._messages import pack
from ._page import Columns, answers_of, inspections_of, write_page
from ._session import session_of
from ._still import still

__all__ = ["QUESTIONS", "page"]

_NOW = {"at_ps": None}
QUESTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "aggregates": ({},),
    "buffer": tuple({"rank": rank, "buffer": "output", "at": None} for rank in range(8)),
    "chunks": ({"buffer": "output", **_NOW},),
    "critical_path": (_NOW,),
    "device": tuple({"rank": rank, **_NOW} for rank in range(8)),
    "hot": ({},),
    "lost_time": ({"path": "", **_NOW},),
    "ports": (_NOW,),
    "rows": ({},),
    "source": ({},),
    "traffic": ({},),
    "what_if": (_NOW,),
    "where": (_NOW,),
    "why": ({"path": "", **_NOW},),
}
"""Questions of ``_answers.py`` that a page can answer, with the options with which it can: as views ask
when nothing is selected and the cursor is at the end. None of these may change anything."""

_ALWAYS = frozenset({"rows", "source"})
"""Questions whose answer does not change with time; to the others the page knows it at its end."""


def page(sim: Simulation, *, most_flights: int, panels: dict[str, Any], selection: str) -> str:
    """Write the page.

    Parameters
    ----------
    sim : Simulation
        As it stands: the page goes from the oldest flight that is recorded up to now.
    most_flights : int
        Most flights of lines to take along; of more, every n-th.
    panels, selection
        What the workbench shows.

    Raises
    ------
    InputError
        Nothing was recorded.
    """
    if not sim.engine.recorder.on:
        raise InputError(
            "nothing was recorded to play", where="to_html", hint="make it with Simulation(..., record=True)"
        )
    recording, said = _record(sim, most_flights)
    title = f"{sim.engine.work.title} on {sim.engine.infra.name}"
    view = {"panels": panels, "selection": selection}
    return write_page({**recording, **view}, title, to_svg(still(sim, Feed(session_of(sim)).layout)), said)


def _record(sim: Simulation, most_flights: int) -> tuple[dict[str, Any], str]:
    """What the kernel would tell, and a line about it for people."""
    feed, columns = Feed(session_of(sim)), Columns()
    scene = columns.message(feed.scene())
    state, buffers = feed.state(fine=True, most=most_flights)
    one_in = int(state["one_in"])
    _, all_flights = sim.engine.recorder.since(0)
    flights = all_flights[::one_in]
    used = np.unique(flights["link"])
    moments = pack(
        "recorded_flights",
        time=np.maximum.accumulate(flights["queued_ps"]),
        event=flights["event"],
        kind=flights["kind"],
        link=np.searchsorted(used, flights["link"]),
    )
    phases = sim.engine.machine.phases
    recording = {
        "scene": scene,
        "state": columns.message(({**state, "playing": False, "failed": False}, buffers)),
        "timeline": columns.message(feed.timeline()),
        "moments": columns.add(*moments),
        "words": FLIGHT_KINDS,
        "gpus": [sim.engine.fabric.graph.name(int(node)) for node in sim.engine.fabric.gpus],
        "links": [sim.engine.fabric.name(int(link)) for link in used],
        "phases": sorted(phases["ended_ps"][(phases["left"] == 0) & (phases["ended_ps"] >= 0)].tolist()),
        "oldest": sim.engine.recorder.oldest_ps,
        "inspections": inspections_of(sim, _objects(sim, feed)),
        "answers": answers_of(feed, columns, ANSWERS, QUESTIONS, _ALWAYS),
        **columns.placed(),
    }
    kept = "all of them" if one_in == 1 else f"1 in {one_in} of them"
    said = (
        f"Simulated up to {format_time(sim.now_ps)} ({sim.events:,} events) with astranb {__version__}. "
        f"Recorded: {len(all_flights):,} flights of lines over links, of which this page holds {kept}; "
        f"Event and Cycle step through these."
    )
    if sim.engine.recorder.oldest_ps:
        said += f" Flights before {format_time(sim.engine.recorder.oldest_ps)} were given up."
    return recording, said


def _objects(sim: Simulation, feed: Feed) -> list[str]:
    """Nodes and links that are drawn."""
    links = [sim.engine.fabric.name(lanes[0]).partition("#")[0] for *_, lanes in feed.layout.bundles]
    return [*(box.name for box in feed.layout.boxes), *links]
