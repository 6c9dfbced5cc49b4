"""Python's kernel and a page's side by side: what is asked of both, and what both do, is the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import astranb as anb
from tests.widgets.live.kernels import NodeKernel, PythonKernel, differing, page_kernel, same

__all__ = ["Both", "both", "travelled"]


class Both:
    """Python's kernel and a page's, which must say the same."""

    def __init__(self, sim: anb.Simulation, page: NodeKernel) -> None:
        self.sim, self.python, self.page = sim, PythonKernel(sim), page

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        """Ask both a question; returns the answer."""
        message = {"type": "ask", "id": 1, "question": question, "options": options}
        mine, theirs = (self._send(kernel, message, "answer") for kernel in (self.python, self.page))
        assert theirs == mine, options
        return mine

    def same(self, question: str, **options: Any) -> None:
        """Ask both a question, and compare all that comes, columns too."""
        same(self.python, self.page, {"type": "ask", "id": 3, "question": question, "options": options})

    def send(self, message: dict[str, Any]) -> None:
        """Send both a message, compare all that comes, and have both read it."""
        mine, theirs = (kernel.send(message) for kernel in (self.python, self.page))
        assert [meta for meta, _ in theirs] == [meta for meta, _ in mine], message
        assert [columns for _, columns in theirs] == [columns for _, columns in mine], message
        for kernel in (self.python, self.page):
            kernel.send({"type": "read"})

    def apply(self, verb: str, **options: Any) -> dict[str, Any]:
        """Apply a change in both."""
        found = self.ask("apply", verb=verb, options=options)
        self.agree()
        return found

    def refused_or_done(self, verb: str, **options: Any) -> None:
        """Apply a change that both may refuse."""
        self.ask("apply", verb=verb, options=options)

    def go(self, **message: Any) -> dict[str, Any]:
        """Have both move; returns the last state."""
        mine, theirs = (self._send(kernel, message, "state") for kernel in (self.python, self.page))
        for name in ("status", "failed", "counts"):
            assert theirs[name] == mine[name]
        self.agree()
        return mine

    def same_tables(self) -> None:
        """Check that every table is the same."""
        assert differing(self.sim, self.page) == []

    def _send(self, kernel: NodeKernel | PythonKernel, message: dict[str, Any], kind: str) -> dict[str, Any]:
        """Send a message; returns the last reply of a kind, and has all of them read."""
        replies = kernel.send(message)
        for meta, _ in replies:
            if meta["type"] == "state":
                kernel.send({"type": "read"})
        return next(meta for meta, _ in reversed(replies) if meta["type"] == kind)

    def agree(self) -> None:
        """Check that the state is the same."""
        self.ask("hash")


@contextmanager
def both(sim: anb.Simulation) -> Iterator[Both]:
    with page_kernel(sim) as page:
        found = Both(sim, page)
        found.python.send({"type": "ready"})
        page.send({"type": "ready"})
        yield found
        found.same_tables()  # recordings included: they are large


def travelled(sim: anb.Simulation, page: NodeKernel, folder: Path, events: int) -> anb.Simulation:
    """Save a run, open its file in a page, go on in both, and save it there; returns what Python loads."""
    sim.save(folder / "a.anb")
    page.send({"type": "open", "path": str(folder / "a.anb")})
    assert page.ask("hash")["hash"] == sim.state_hash()
    page.send({"type": "event", "n": events})
    page.send({"type": "save", "path": str(folder / "b.anb")})
    sim.step(events)
    again = anb.Simulation.load(folder / "b.anb")
    assert again.state_hash() == sim.state_hash() == page.ask("hash")["hash"]
    return again
