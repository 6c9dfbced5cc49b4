"""What the workbench of a workload leaves behind: a page that plays, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from astranb.core.errors import InputError
from astranb.core.svg import Picture
from astranb.sim import Simulation
from astranb.widgets._leaving import Pictures, write

from ._feed import WorkloadFeed
from ._still import still

__all__ = ["WorkloadLeaving"]


class WorkloadLeaving(Pictures):
    """Files for people without a kernel; a part of :class:`WorkloadWorkbench`."""

    _feed: WorkloadFeed
    _selection: Any  # traits of the widget
    _panels: Any

    def to_html(self, path: str | Path, *, most_operations: int = 100_000) -> Path:
        """Write one file that plays the run up to now in any browser, without a network.

        Views and controls are those of the widget; what would need the kernel says so. Names
        from files cannot act in it, and a policy in the page lets it load nothing.

        Parameters
        ----------
        path : str or Path
            Written whole or not at all.
        most_operations : int
            Most operations to take along (some 20 bytes of the file each): those of the first
            ranks, and the page says of how many.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            The file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> import astranb as anb
        >>> from astranb.workload.astrasim2 import COMPUTE, Network, Operations, System
        >>> one = Operations.of([{"kind": COMPUTE, "duration_us": 3}])
        >>> network = Network(["Ring"], [2], [50], [500])
        >>> sim = anb.Simulation([one] * 2, network, System.from_document({}))
        >>> _ = sim.run()
        >>> anb.Workbench(sim).to_html(tempfile.mkdtemp() + "/run.html").stat().st_size < 1_000_000
        True
        """
        from ._html import page

        if most_operations < 1:
            raise InputError(f"most_operations must be at least 1, got {most_operations}", where="to_html")
        sim = cast("Simulation", self.sim)
        text = page(
            sim, self.to_svg(),
            most_operations=most_operations, panels=dict(self._panels), selection=self._selection,
        )  # fmt: skip
        return write(path, text.encode())

    def _drawn(self, at_ps: int | None, *, dark: bool, **what: Any) -> Picture:
        return still(self._feed, at_ps, dark=dark, **what)
