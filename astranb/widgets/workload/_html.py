"""A workload's page without a kernel: ``Workbench.to_html``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from astranb import __version__
from astranb.core.units import format_time
from astranb.sim import Simulation
from astranb.widgets._page import Columns, answers_of, inspections_of, write_page

from ._answers import ANSWERS
from ._explaining import QUICK_EVENTS, suggest
from ._feed import WorkloadFeed
from ._recording import record
from ._session import session_of

__all__ = ["page"]

_NOW = {"at_ps": None}
_MOST_LOOKED_INTO = 300  # operations


def page(
    sim: Simulation, picture: str, *, most_operations: int, panels: dict[str, Any], selection: str
) -> str:
    """Write the page: from the start up to now.

    Parameters
    ----------
    sim : Simulation
    picture : str
        For browsers without scripts.
    most_operations : int
        Ranks are taken along, the first first, as long as their operations are no more than these.
    panels, selection
        What the workbench shows.
    """
    feed, columns = WorkloadFeed(session_of(sim)), Columns()
    scene, buffers = feed.scene()
    state, nothing = feed.state()
    found = record(feed, columns, most_operations)
    shown = {"ranks": found.ranks, "names": [n for n in scene["names"] if _inside(n, found.ranks)]}
    still = {"playing": False, "failed": False, "fast": False, "pace": {}, "events": found.count}
    recording = {
        "scene": columns.message(({**scene, **shown}, buffers)),
        "state": columns.message(({**state, **still}, nothing)),
        "timeline": columns.message(feed.timeline()),
        "moments": found.moments,
        "workload": found.workload,
        "words": [], "gpus": [], "links": [],
        "phases": found.phases_ps,
        "oldest": 0,
        "inspections": inspections_of(sim, _objects(sim, found.ranks)),
        "answers": answers_of(feed, columns, ANSWERS, _questions(sim)),
        "panels": panels,
        "selection": selection,
        **columns.placed(),
    }  # fmt: skip
    kept = "all ranks" if found.ranks == sim.ranks else f"the first {found.ranks:,} of {sim.ranks:,} ranks"
    said = (
        f"Simulated up to {format_time(sim.now_ps)} ({sim.events:,} events) with astranb {__version__}. "
        f"This page holds the operations of {kept}; Event and Cycle step through their begins and ends."
    )
    return write_page(recording, scene["title"], picture, said)


def _inside(name: str, ranks: int) -> bool:
    return not name.startswith("rank[") or int(name[5:-1]) < ranks


def _objects(sim: Simulation, ranks: int) -> list[str]:
    """What is looked into: dimensions, ranks, and operations as there is room."""
    dims = [f"dim[{dim}]" for dim in range(len(sim.engine.about.topology))]
    own = sim.engine.about.start[:ranks]
    sizes = np.diff(sim.engine.about.start)[:ranks]
    first = range(int(min(sizes.max(initial=0), _MOST_LOOKED_INTO)))
    rows = [int(own[rank]) + number for number in first for rank in range(ranks) if number < sizes[rank]]
    operations = [sim.engine.about.path(row) for row in rows[:_MOST_LOOKED_INTO]]
    return [*dims, *(f"rank[{rank}]" for rank in range(ranks)), *operations]


def _questions(sim: Simulation) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """What views ask when nothing is selected and the cursor is at the end; none of it changes anything."""
    runs = suggest(sim) if sim.events <= QUICK_EVENTS else []
    return {
        "ranks": ({},),
        "critical_path": (_NOW,),
        "lost_time": ({"path": "", **_NOW},),
        "why": ({"path": "", **_NOW},),
        "what_if": (_NOW,),
        "what_if_run": tuple({"path": change.path, "value": change.value} for change in runs),
    }
