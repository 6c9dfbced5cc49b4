"""The inputs of a run by messages: everything that its tables are built of."""

from __future__ import annotations

from dataclasses import dataclass

from astranb.core.progress import building, stage
from astranb.workload.astrasim2 import Workload

from .engine import MessageEngine
from .run import Run

__all__ = ["MessageInputs"]


@dataclass(frozen=True)
class MessageInputs:
    """Inputs that a run by messages is built of.

    Attributes
    ----------
    workload : Workload
    congestion : bool
        Whether messages queue on links.
    collective : tuple of (str, int, int), optional
        The only collective that runs: its kind, size in bytes, and ranks.
    record : bool
        Whether what views show is recorded.
    """

    workload: Workload
    congestion: bool = False
    collective: tuple[str, int, int] | None = None
    record: bool = True

    @classmethod
    def of(cls, engine: MessageEngine) -> MessageInputs:
        """Return the inputs of an engine."""
        run = engine.run
        assert run.workload is not None  # noqa: S101 - only runs within other runs have none
        return cls(run.workload, run.congestion, engine.only, engine.recording)

    def engine(self) -> MessageEngine:
        """Build the tables.

        Raises
        ------
        InputError
            The inputs do not fit together, or not into memory.
        """
        what = self.workload
        with building(f"{what.title} on {len(what.operations):,} ranks"):
            stage("routes", 1.0)
            run = Run(what, congestion=self.congestion, record=self.record)
        return MessageEngine(run, what.title, self.collective)
