"""The editor of a page: a notebook's, which sends the page what its widget would send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astranb.collectives import Collective
from astranb.core.errors import InputError
from astranb.core.units import format_bytes, size_bytes
from astranb.engine.cacheline import CacheLineEngine
from astranb.infragraph import Infra
from astranb.sim import Simulation

from .desk import EXAMPLE, Desk, traits_of
from .draft import Draft
from .observed import Observed
from .page_workbench import Post
from .shared_link import Brought

__all__ = ["PageEditor"]


class _EditorTraits(Observed):
    """Traits that the page draws."""

    _first = {  # noqa: RUF012 - of the class
        "text": "", "chosen": {}, "choices": {}, "parameters": [], "synthesis": {"state": "none"},
        "schedule": {},
    }  # fmt: skip

    def __init__(self, report: Callable[[dict[str, Any]], None]) -> None:
        self._observe_from(report)


class PageEditor(Desk):
    """Edits an algorithm, verifies it, and simulates it on the machine of a page or on another one.

    Parameters
    ----------
    sim : Simulation
        Of the page: its machine, collective and size are those at first.
    post : callable
        Sends to the page.
    show : callable
        Shows a simulation.
    """

    _elsewhere = ("synthesize", "stop", "previous")

    def __init__(self, sim: Simulation, post: Post, show: Callable[[Simulation], None]) -> None:
        self._own, self._show = sim, show
        infra: Infra | str = sim.engine.infra if isinstance(sim.engine, CacheLineEngine) else "dgx-h100"
        self._draft = Draft(EXAMPLE, infra=infra)
        work = getattr(sim.engine, "work", None)
        if isinstance(work, Collective) and work.contract is None and work.size:
            text = format_bytes(work.size)
            self._draft.size = text if size_bytes(text) == work.size else work.size
            self._draft.collective = work.name
        if self._draft.check() and self._draft.collective != "all_reduce":  # the example is one
            self._draft.collective = "all_reduce"
        self._machine = infra.name if isinstance(infra, Infra) else ""
        self.problems, self.good = [], ""
        self._page = _EditorTraits(lambda values: post({"editor_traits": values}, []))
        self._page.take(traits_of(self._draft))
        self._page.observe(lambda _: self.check(), "text")
        self.check()

    @property
    def attributes(self) -> dict[str, Any]:
        """First traits of the page."""
        found: dict[str, Any] = self._page.attributes
        return found

    def reply(self, content: Any) -> dict[str, Any]:
        """Answer a message of ``static/editor.js``."""
        return self._answered(content)

    def choose(self, **what: str) -> None:
        """Change ``infra``, ``size``, ``collective`` or ``protocol``; the page's own machine by its name."""
        infra = self._own.engine.infra if what.get("infra") == self._machine != "" else None
        super().choose(**{**what, "infra": infra} if infra is not None else what)
        if infra is not None:
            self._page.chosen = {**self._page.chosen, "infra": self._machine}

    def brought(self) -> Brought:
        """Return the part of a link about the text and its run."""
        draft = self._draft
        about = {
            "name": draft.name,
            "infra": draft.infra if isinstance(draft.infra, str) else None,
            "size": str(draft.size),
            "collective": draft.collective,
            "protocol": draft.protocol,
            "params": dict(draft.params),
        }
        return Brought("text", about, draft.text)

    def run(self, brought: Brought) -> Simulation:
        """Make the simulation of a text that somebody has shared, and edit it.

        Raises
        ------
        InputError
            There are errors in the text, or it cannot run there.
        """
        about = brought.about
        infra = self._own.engine.infra if about["infra"] is None and self._machine else about["infra"]
        self._draft = Draft(
            brought.text, about["name"], infra or "dgx-h100", about["size"], about["collective"], None,
            about["protocol"], 0, about["params"],
        )  # fmt: skip
        sim = self._simulated(self._draft)
        for name, value in traits_of(self._draft).items():
            setattr(self._page, name, value)
        return sim

    def _simulated(self, draft: Draft) -> Simulation:
        """Run it on the page's machine as that is, with its GPUs and its network, or on another one."""
        own = isinstance(draft.infra, Infra)
        sim = self._own.rebuilt(keep=False, collective=draft.work()) if own else draft.simulation()
        self.brought().note(sim)
        return sim

    def _watch(self, sim: Simulation) -> None:
        self.sim = sim
        self._show(sim)

    def _other(self, kind: str) -> None:
        if kind == "synthesize":
            raise InputError("a page has no processes", where="synthesis", hint="run it in JupyterLab")
