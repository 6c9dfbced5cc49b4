"""The pages and pictures of a simulation without a widget, as the command line writes them."""

from __future__ import annotations

from typing import Any

from astranb.engine.cacheline import CacheLineEngine
from astranb.sim import Simulation

from ._feed import Feed
from ._leaving import Leaving
from ._session import session_of
from .workload._feed import WorkloadFeed
from .workload._leaving import WorkloadLeaving
from .workload._session import session_of as workload_session_of

__all__ = ["files_of"]


class _Files(Leaving):
    def __init__(self, sim: Simulation) -> None:
        self.sim, self._feed = sim, Feed(session_of(sim))
        self._selection, self._panels = "", {}


class _WorkloadFiles(WorkloadLeaving):
    def __init__(self, sim: Simulation) -> None:
        self.sim, self._feed = sim, WorkloadFeed(workload_session_of(sim))
        self._selection, self._panels = "", {}


def files_of(sim: Simulation) -> Any:
    """Give an object with a workbench's ``to_html``, ``to_svg``, ``to_png`` and ``animate``."""
    return _Files(sim) if isinstance(sim.engine, CacheLineEngine) else _WorkloadFiles(sim)
