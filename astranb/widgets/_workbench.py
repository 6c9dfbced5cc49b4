"""``Workbench``: the cockpit of a simulation in a notebook cell."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from astranb.core.errors import InputError
from astranb.core.svg import to_svg
from astranb.sim import Simulation

from ._answers import ANSWERS
from ._breaking import Breaking
from ._changing import Changing
from ._explaining import Explaining
from ._feed import Feed
from ._keeping import Keeping
from ._leaving import Leaving
from ._session import session_of
from ._source import Reading
from ._static import ENTRY, MODULES, STYLES
from ._still import still
from ._transport import Transport
from ._wire import Wire

__all__ = ["Workbench"]


class Workbench(
    Explaining, Keeping, Leaving, Reading, Transport, Changing, Breaking, Wire, anywidget.AnyWidget
):
    """Watch a simulation, and move it: topology, timelines, inspector and transport controls.

    Several workbenches, and cells, may show and move one simulation; all show the same.
    Without a browser every method works, too.

    Parameters
    ----------
    sim : Simulation or Simulation
        Of a workload there is another one, with the same controls:
        :class:`~astranb.widgets.workload.WorkloadWorkbench`.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> workbench = anb.Workbench(sim)
    >>> workbench.event(1000)
    >>> workbench.back(400)
    >>> sim.events
    600
    >>> workbench.select("gpu[3]")
    >>> workbench.selected["title"]
    'dgx_h100.0.xpu.3 (GPU3)'
    """

    _esm = ENTRY
    _css = STYLES
    # The views' modules travel as text, because a notebook has no address to load them from.
    _modules = traitlets.Dict().tag(sync=True)
    _selection = traitlets.Unicode("").tag(sync=True)
    _cursor_ps = traitlets.Float(-1.0).tag(sync=True)  # negative: at the simulation
    _window_ps = traitlets.List().tag(sync=True)  # from and to, of the timelines; empty: all time
    _other = traitlets.Unicode("").tag(sync=True)  # reference to the view of the run beside this one
    _redraw_hz = traitlets.Float(60.0).tag(sync=True)
    _panels = traitlets.Dict().tag(sync=True)  # which views are open (static/panels.js)

    _questions = ANSWERS

    def __new__(cls, sim: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Give the workbench for what is simulated."""
        if isinstance(sim, Simulation):
            from .workload import WorkloadWorkbench

            return WorkloadWorkbench(sim)
        return super().__new__(cls, sim, *args, **kwargs)

    def __init__(self, sim: Simulation | Simulation) -> None:
        if not isinstance(sim, Simulation):
            raise InputError(
                f"not a simulation: {sim!r}", where="Workbench", hint="Workbench(Simulation(...))"
            )
        super().__init__(_modules=MODULES)
        self.sim = sim
        session = session_of(sim)
        self._attach(session, Feed(session))

    def close(self) -> None:
        """Stop showing; the simulation and its other views go on."""
        if "_detach" in self.__dict__:  # else it was refused before it showed anything
            self._detach()
            self.part()
        super().close()

    def _noticed(self) -> None:
        self._select_hit()
        self._keep_soon()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and a still picture for places that run no widgets."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {
            **data,
            "text/plain": repr(self),
            "image/svg+xml": to_svg(still(self.sim, self._feed.layout)),
        }, metadata

    def __repr__(self) -> str:
        """One line: what it shows."""
        return f"<Workbench of {self.sim!r}>"
