"""``Workbench``: the cockpit of a simulation in a notebook cell."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from astranb.core.errors import AstranbError, InputError, near
from astranb.sim import Simulation

from ._answers import ANSWERS
from ._breaking import Breaking
from ._changing import Changing
from ._explaining import Explaining
from ._feed import Feed, Message
from ._keeping import Keeping
from ._leaving import Leaving
from ._session import COMMANDS, session_of
from ._source import Reading
from ._static import ENTRY, MODULES, STYLES
from ._svg import draw
from ._transport import Transport

__all__ = ["Workbench"]

_MOST_UNREAD, _MOST_UNREAD_AT_REST = 3, 6
"""Messages that a browser may lag behind, while it plays and else: that it has paused must not wait.
What follows is told in one message when the browser has caught up."""


class Workbench(Explaining, Keeping, Leaving, Reading, Transport, Changing, Breaking, anywidget.AnyWidget):
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

    def __init__(self, sim: Simulation) -> None:
        if not isinstance(sim, Simulation):
            raise InputError(
                f"not a simulation: {sim!r}", where="Workbench", mend="Workbench(Simulation(...))"
            )
        super().__init__(_modules=MODULES)
        self.sim = sim
        self._session = session_of(sim)
        self._feed = Feed(self._session)
        self._feed.bench = self
        self._ready = False
        self._unread = 0
        self._behind = False
        self._detach = self._session.attach(self._changed)
        self.on_msg(self._received)

    def close(self) -> None:
        """Stop showing; the simulation and its other views go on."""
        if "_detach" in self.__dict__:  # else it was refused before it showed anything
            self._detach()
            self.part()
        super().close()

    # The wire -----------------------------------------------------------------

    def _changed(self) -> None:
        """Something has changed: tell the browser, or, when it lags behind, remember to."""
        self._feed.mark()
        self._select_hit()
        self._keep_soon()
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
            self._tell(self._feed.timeline(with_spans=False))
        elif kind == "inspect":
            self._tell(({"type": "inspection", "for": content["path"], **self._look(content)}, []))
        elif kind == "ask":
            self._tell(self._reply_to(content))
        elif kind in COMMANDS:
            self._ask(kind, background=True, **{k: v for k, v in content.items() if k != "type"})
        else:
            raise InputError(f"unknown message {kind!r}", where="workbench")

    def _reply_to(self, content: dict[str, Any]) -> Message:
        """Answer a view's question (``_answers.py``); what goes wrong is an answer, too."""
        about = {"type": "answer", "id": content["id"]}
        try:
            question = str(content["question"])
            if question not in ANSWERS:
                raise InputError(
                    f"unknown question {question!r}", where="workbench", mend=near(question, ANSWERS)
                )
            meta, buffers = ANSWERS[question](self._feed, dict(content.get("options", {})))
        except (AstranbError, KeyError, TypeError, ValueError, IndexError) as error:
            return {**about, "error": str(error)}, []
        return {**meta, **about}, buffers

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
