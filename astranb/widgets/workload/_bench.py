"""``WorkloadWorkbench``: the cockpit of a workload in a notebook cell."""

from __future__ import annotations

from typing import Any, cast

import anywidget
import traitlets

from astranb.core.errors import InputError
from astranb.sim import Simulation
from astranb.widgets._breaking import Breaking
from astranb.widgets._changing import Changing
from astranb.widgets._explaining import Explaining
from astranb.widgets._keeping import Keeping
from astranb.widgets._static import ENTRY, MODULES, STYLES
from astranb.widgets._transport import Transport
from astranb.widgets._wire import Wire

from ._answers import ANSWERS
from ._feed import WorkloadFeed
from ._leaving import WorkloadLeaving
from ._session import session_of

__all__ = ["WorkloadWorkbench"]


class WorkloadWorkbench(
    Explaining, Keeping, WorkloadLeaving, Transport, Changing, Breaking, Wire, anywidget.AnyWidget
):
    """Watch a workload, and move it: graph of operations, timeline of ranks, inspector, breakpoints.

    ``astranb.Workbench(sim)`` gives one for a :class:`~astranb.sim.workload.Simulation`.
    Without a browser every method works, too.

    Parameters
    ----------
    sim : Simulation

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.workload.astrasim2 import COLLECTIVE, Network, Operations, System
    >>> ring = System.from_document({"all-reduce-implementation": ["ring"], "local-mem-bw": 1600})
    >>> one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 65536}])
    >>> sim = anb.Simulation([one] * 4, Network(["Ring"], [4], [50], [500]), ring)
    >>> workbench = anb.Workbench(sim)
    >>> workbench.message(3)
    >>> sim.counts["message"]
    3
    >>> workbench.select("rank[2].op[0]")
    >>> workbench.selected["title"]
    'rank[2].op[0]: all_reduce'
    """

    _esm = ENTRY
    _css = STYLES
    _modules = traitlets.Dict().tag(sync=True)
    _kind = traitlets.Unicode("workload").tag(sync=True)
    _selection = traitlets.Unicode("").tag(sync=True)
    _cursor_ps = traitlets.Float(-1.0).tag(sync=True)  # negative: at the simulation
    _window_ps = traitlets.List().tag(sync=True)  # from and to, of the timeline; empty: all time
    _other = traitlets.Unicode("").tag(sync=True)
    _redraw_hz = traitlets.Float(60.0).tag(sync=True)
    _panels = traitlets.Dict().tag(sync=True)  # which views are open (static/panels.js)

    _questions = ANSWERS

    def __init__(self, sim: Simulation) -> None:
        if not isinstance(sim, Simulation):
            hint = "WorkloadWorkbench(Simulation(...))"
            raise InputError(f"not a simulation of a workload: {sim!r}", where="Workbench", hint=hint)
        super().__init__(_modules=MODULES)
        self.sim = cast("Any", sim)
        session = session_of(sim)
        self._attach(session, WorkloadFeed(session))

    def close(self) -> None:
        """Stop showing; the simulation and its other views go on."""
        if "_detach" in self.__dict__:  # else it was refused before it showed anything
            self._detach()
            self.part()
        super().close()

    def operation(self, n: int = 1) -> None:
        """Go on to the end of an operation of any rank."""
        self._ask("operation", n=n)

    def loop_pass(self, n: int = 1) -> None:
        """Go on to the end of a pass of the training loop (ASTRA-sim 1.0's files)."""
        self._ask("pass", n=n)

    def message(self, n: int = 1) -> None:
        """Go on to the arrival of a message."""
        self._ask("message", n=n)

    def show_panel(self, name: str) -> None:
        """Show a view: ``graph`` or ``exposed`` on the stage, ``inspect``, ``change``, … at its side."""
        known = {"graph": "stage", "exposed": "stage"}
        known |= dict.fromkeys(("inspect", "change", "breaks", "explain"), "side")
        if name not in known:
            raise InputError(f"there is no view {name!r}", where="show_panel", hint=", ".join(known))
        self._panels = {**self._panels, known[name]: name}

    @property
    def selected(self) -> Any:
        """What is known of the selected object at the cursor; None where nothing is selected."""
        return self._session.at(self._at()).inspect(self._selection) if self._selection else None

    def _noticed(self) -> None:
        self._select_hit()
        self._keep_soon()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and a still picture and text for places that run no widgets."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {
            **data,
            "text/plain": f"{self!r}\n{self.sim.result.summary()}",
            "image/svg+xml": self.to_svg(),
        }, metadata

    def __repr__(self) -> str:
        """One line: what it shows."""
        return f"<Workbench of {self.sim!r}>"
