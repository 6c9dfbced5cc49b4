"""``Workbench``: the cockpit of a simulation in a notebook cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from astranb.core.errors import AstranbError, InputError
from astranb.core.units import time_ps
from astranb.sim import Simulation

from ._feed import Feed, Message
from ._session import COMMANDS, session_of
from ._svg import draw

__all__ = ["Workbench"]

_STATIC = Path(__file__).parent / "static"
_MODULES = ("flights", "store", "theme", "transport", "topology", "timeline", "memory", "inspector")
_MOST_UNREAD, _MOST_UNREAD_AT_REST = 3, 6
"""Messages that a browser may lag behind, while it plays and else: that it has paused must not wait.
What follows is told in one message when the browser has caught up."""


class Workbench(anywidget.AnyWidget):
    """Watch a simulation, and move it: topology, timelines, inspector and transport controls.

    Several workbenches, and cells, may show and move one simulation; all show the same.
    Without a browser every method works, too.

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

    _esm = _STATIC / "workbench.js"
    _css = _STATIC / "workbench.css"
    # The views' modules travel as text, because a notebook has no address to load them from.
    _modules = traitlets.Dict().tag(sync=True)
    _selection = traitlets.Unicode("").tag(sync=True)
    _cursor_ps = traitlets.Float(-1.0).tag(sync=True)  # negative: at the simulation

    def __init__(self, sim: Simulation) -> None:
        if not isinstance(sim, Simulation):
            raise InputError(
                f"not a simulation: {sim!r}", where="Workbench", mend="Workbench(Simulation(...))"
            )
        super().__init__(_modules={name: (_STATIC / f"{name}.js").read_text("utf-8") for name in _MODULES})
        self.sim = sim
        self._session = session_of(sim)
        self._feed = Feed(self._session)
        self._ready = False
        self._unread = 0
        self._behind = False
        self._detach = self._session.attach(self._changed)
        self.on_msg(self._received)

    # What a person calls ------------------------------------------------------

    def reset(self) -> None:
        """Go back to the start."""
        self._ask("reset")

    def back(self, n: int = 1, unit: str = "event") -> None:
        """Go back by n events, cycles, instructions or phases."""
        self._ask("back", n=n, unit=unit)

    def play(self) -> None:
        """Go on at the present speed, in the background: other cells can run."""
        self._ask("play")

    def pause(self) -> None:
        """Stop playing, between two events."""
        self._ask("pause")

    def event(self, n: int = 1) -> None:
        """Go on by n events."""
        self._ask("event", n=n)

    def cycle(self, n: int = 1) -> None:
        """Go on by n instants at which something happens."""
        self._ask("cycle", n=n)

    def phase(self, n: int = 1) -> None:
        """Go on to the end of a phase of the collective."""
        self._ask("phase", n=n)

    def to_breakpoint(self) -> None:
        """Go on, as fast as possible and in the background, to a breakpoint or the end."""
        self._ask("to_breakpoint")

    def to_end(self) -> None:
        """Go on, as fast as possible and in the background, to the end or a breakpoint."""
        self._ask("to_end")

    def set_speed(self, speed: float | str) -> None:
        """Set how much simulated time a second of watching shows, as ``"1 us"`` or in ps."""
        ps = time_ps(speed, where="speed") if isinstance(speed, str) else float(speed)
        if not ps > 0:
            raise InputError(f"the speed must be positive, got {speed!r}", where="speed")
        self._ask("set_speed", speed=ps)

    def scrub(self, when: int | str) -> None:
        """Move only the view's cursor, within what has been simulated; the simulation stays."""
        at = time_ps(when, where="scrub")
        self._cursor_ps = float(at) if at < self.sim.now_ps else -1.0

    def follow(self) -> None:
        """Have the cursor stay with the simulation."""
        self._cursor_ps = -1.0

    def select(self, path: str) -> None:
        """Select an object, as ``gpu[3].sm.0``; an empty path selects nothing."""
        self._selection = self.sim.inspect(path)["path"] if path else ""

    @property
    def selected(self) -> dict[str, Any] | None:
        """What :meth:`Simulation.inspect` says of the selected object, at the cursor."""
        return self._session.inspect(self._selection, self._at()) if self._selection else None

    @property
    def cursor_ps(self) -> int:
        """The moment that the view shows."""
        at = self._at()
        return self.sim.now_ps if at is None else int(at)

    def close(self) -> None:
        """Stop showing; the simulation and its other views go on."""
        if "_detach" in self.__dict__:  # else it was refused before it showed anything
            self._detach()
        super().close()

    def _ask(self, command: str, **options: Any) -> None:
        """Pass a command on; what moves time brings the cursor to the simulation first."""
        if command not in {"pause", "set_speed"}:
            self.follow()
        self._session.ask(command, **options)

    def _at(self) -> float | None:
        return self._cursor_ps if self._cursor_ps >= 0 else None

    # The wire -----------------------------------------------------------------

    def _changed(self) -> None:
        """Something has changed: tell the browser, or, when it lags behind, remember to."""
        self._feed.mark()
        if not self._ready:
            return
        most = _MOST_UNREAD if self._session.playing else _MOST_UNREAD_AT_REST
        if self._unread >= most and not self._session.blocked:
            self._behind = True
            return
        self._behind = False
        self._unread += 1
        self._tell(self._feed.state())

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """A message of the browser's, in whatever thread."""
        self._session.hand(lambda: self._reply(content))

    def _reply(self, content: Any) -> None:
        """Whatever a message holds, the answer is a message."""
        try:
            self._answer(content)
        except (AstranbError, KeyError, TypeError, ValueError) as error:
            self._tell(({"type": "error", "text": str(error)}, []))

    def _answer(self, content: dict[str, Any]) -> None:
        kind = content["type"]
        if kind == "ready":
            self._ready, self._unread = True, 0
            self._tell(self._feed.scene())
            self._changed()
        elif kind == "away":  # one page has closed its views; another one may still have some
            self._ready = False
            self._tell(({"type": "roll"}, []))
        elif kind == "read":
            self._unread = max(0, self._unread - 1)
            if self._behind:
                self._changed()
        elif kind == "fine":
            self._unread += 1
            self._tell(self._feed.state(fine=True))
        elif kind == "timeline":
            self._tell(self._feed.timeline())
        elif kind == "inspect":
            self._tell(({"type": "inspection", "for": content["path"], **self._look(content)}, []))
        elif kind in COMMANDS:
            self._ask(kind, **{k: content[k] for k in ("n", "unit", "speed") if k in content})
        else:
            raise InputError(f"unknown message {kind!r}", where="workbench")

    def _look(self, content: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"found": self._session.inspect(str(content["path"]), content.get("at_ps"))}
        except AstranbError as error:
            return {"error": str(error)}

    def _tell(self, message: Message) -> None:
        self.send(message[0], buffers=message[1])

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and a still picture for places that run no widgets."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {
            **data,
            "text/plain": repr(self),
            "image/svg+xml": draw(self.sim, self._feed.layout),
        }, metadata

    def __repr__(self) -> str:
        """One line: what it shows."""
        return f"<Workbench of {self.sim!r}>"
