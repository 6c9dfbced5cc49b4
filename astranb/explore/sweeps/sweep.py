"""A sweep: its points are run, kept, and compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb.core.interrupt import stop_code

from .executor import executor
from .points import SweepPoint
from .result import SweepResult
from .running import RunningSweep
from .sampling import sampled
from .spec import SweepSpec, read_spec
from .store import SweepStore

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Sweep"]


class Sweep:
    """Many runs of something, along axes.

    Parameters
    ----------
    spec : SweepSpec
        As :meth:`of` reads it.

    Examples
    --------
    >>> import astranb as anb
    >>> sweep = anb.explore.Sweep.of({
    ...     "run": {"infra": "switch:gpus=4", "collective": "all_reduce", "fidelity": "analytical"},
    ...     "axes": {"size": "1 MiB..4 MiB by x2", "algorithm": ["ring", "halvingDoubling"]},
    ... })
    >>> found = sweep.run(workers=0)
    >>> found.to_dataframe()[["size", "algorithm", "status"]].shape
    (6, 3)
    >>> found.simulation(found.best()[0]).title
    'all_reduce/ring, 1 MiB'
    """

    def __init__(self, spec: SweepSpec) -> None:
        self.spec = spec

    @classmethod
    def of(cls, what: str | Path | Mapping[str, Any]) -> Sweep:
        """Read a sweep from a file of YAML or JSON, or from what it would contain.

        Raises
        ------
        InputError
            Something in it is unknown, missing or contradictory.
        """
        return cls(read_spec(what))

    def points(self) -> list[SweepPoint]:
        """Return the points that the constraints on what is given allow."""
        return sampled(self.spec)

    def run(
        self,
        client: Client | None = None,
        folder: str | Path | None = None,
        *,
        workers: int = 2,
        scheduler: str | None = None,
        retry: bool = False,
        on_result: Callable[[SweepResult], bool] | None = None,
    ) -> SweepResult:
        """Run the points that are not known yet.

        Parameters
        ----------
        client : distributed.Client, optional
            A Dask cluster to run them on.
        folder : str or Path, optional
            Where results are kept: a later run of this or another sweep there runs only what is missing.
        workers : int
            Processes on this machine, without a client; 0: this one alone.
        scheduler : str, optional
            The address of a Dask scheduler, instead.
        retry : bool
            Whether points of the folder that failed are run again.
        on_result : callable, optional
            Called now and then with what has been found so far; it returns whether to go on. Points that are
            not run have the status ``not run``.

        Returns
        -------
        SweepResult
            Points that failed are rows of it. Stopped in :func:`astranb.core.interrupt.stoppable`, it has
            what had ended.

        Raises
        ------
        InputError
            No point satisfies the constraints, or the results cannot be written.
        """
        store = SweepStore(folder)
        if retry:
            store.forget_failed()
        try:
            with executor(workers, client, scheduler) as run:
                running = RunningSweep(self.spec, store, run, on_result)
                try:
                    running.search(self.spec.stages[0])
                    for before, stage in itertools.pairwise(self.spec.stages):
                        if not running.stopped:
                            running.confirm(before, stage)
                except KeyboardInterrupt:
                    if stop_code() is None:
                        raise
                    running.stopped = True
        finally:
            store.compact()
        return running.result()
