"""``Workbench``: a simulation in a notebook cell."""

from __future__ import annotations

from time import time
from typing import Any

import anywidget
import traitlets

from astranb.sim import Simulation

from .assets import ENTRY, STYLES
from .bench import Bench
from .feed import feed_of
from .files import Files
from .plugged import module_texts
from .session import session_of

__all__ = ["Workbench"]


class Workbench(anywidget.AnyWidget, Bench, Files):
    """Watch a simulation, and move it: pictures, timelines, inspector and transport controls.

    By cache lines it shows the topology with lines in flight, SMs and memories; of operations their
    graph and the timeline of ranks. Several workbenches, and cells, may show and move one simulation;
    all show the same. Without a browser every method works, too.

    Parameters
    ----------
    sim : Simulation

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
    _engine = traitlets.Unicode("cacheline").tag(sync=True)  # which views there are
    _selection = traitlets.Unicode("").tag(sync=True)
    _cursor_ps = traitlets.Float(-1.0).tag(sync=True)  # negative: at the simulation
    _window_ps = traitlets.List().tag(sync=True)  # from and to, of the timelines; empty: all time
    _other = traitlets.Unicode("").tag(sync=True)  # reference to the view of the run beside this one
    _beside = traitlets.Dict().tag(sync=True)  # of two runs: which this is, what differs
    _redraw_hz = traitlets.Float(60.0).tag(sync=True)
    _panels = traitlets.Dict().tag(sync=True)  # which views are open (static/panels.js)
    _sizes = traitlets.Dict().tag(sync=True)  # of panels that were resized, in pixels
    _displayed_s = traitlets.Float(0.0).tag(sync=True)  # when a cell displayed it; 0: a page has it in sight

    def __init__(self, sim: Simulation) -> None:
        engine = feed_of(session_of(self._checked(sim))).engine
        super().__init__(_modules=module_texts(), _engine=engine)
        self._begin(sim)
        self.on_msg(self.connection.receive)

    def close(self) -> None:
        """Close the view; the simulation and its other views stay."""
        Bench.close(self)
        super().close()

    def __repr__(self) -> str:
        """One line: what it shows."""
        return Bench.__repr__(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and a still picture and text for places that run no widgets."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        self._displayed_s = time()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        text = repr(self)
        if self.sim.engine.traits.quick:
            text += f"\n{self.sim.result.summary()}"
        return {**data, "text/plain": text, "image/svg+xml": self.to_svg()}, metadata

    def _send_message(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        self.send(content, buffers=buffers)

    @property
    def _reference(self) -> str:
        return f"anywidget:{self.model_id}"
