"""Running points: in this process, or on a Dask cluster, whose workers may die."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra

from .points import FAILED, run_points

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Executor", "executor"]

Task = tuple[str, Mapping[str, Any]]
Rows = list[dict[str, Any]]

_DEATHS: Final = 3
_LARGEST: Final = 16
"""Most points of a task: what is lost with a worker, or at an interrupt."""


class Executor(Protocol):
    """Runs points."""

    at_once: int

    def run(self, tasks: Sequence[Task]) -> Iterator[Rows]:
        """Run points and yield their rows as they end."""
        ...


class _Here:
    """Runs points in this process."""

    at_once = 1

    def run(self, tasks: Sequence[Task]) -> Iterator[Rows]:
        for task in tasks:
            yield run_points([task])


class _OnDask:
    """Runs points on a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.at_once = max(1, sum(client.nthreads().values()))

    def run(self, tasks: Sequence[Task]) -> Iterator[Rows]:
        from distributed import as_completed

        size = min(_LARGEST, max(1, math.ceil(len(tasks) / (8 * self.at_once))))
        batches = [list(tasks[at : at + size]) for at in range(0, len(tasks), size)]
        under_way = {self._submit(batch): batch for batch in batches}
        waiting = as_completed(list(under_way), loop=self._client.loop)
        for future in waiting:
            batch = under_way.pop(future)
            if future.status == "finished":
                yield future.result()
                continue
            error = future.exception()
            if type(error).__name__ == "KilledWorker" and len(batch) > 1:
                # One of them ends its worker: each is tried by itself.
                for task in batch:
                    alone = self._submit([task])
                    under_way[alone] = [task]
                    waiting.add(alone)
                continue
            yield [_lost(task, error) for task in batch]

    def _submit(self, batch: list[Task]) -> Any:
        return self._client.submit(run_points, batch, pure=False)


def _lost(task: Task, error: BaseException | None) -> dict[str, Any]:
    """Return the row of a point that no worker could run."""
    what = f"{type(error).__name__}: {error}"
    if type(error).__name__ == "KilledWorker":
        what = f"{_DEATHS} workers died while they ran it; is there too little memory?"
    return {"hash": task[0], "status": FAILED, "error": what[:500], "seconds": math.nan}


@contextmanager
def executor(
    workers: int = 2, client: Client | None = None, scheduler: str | None = None
) -> Iterator[Executor]:
    """Give what runs points.

    Parameters
    ----------
    workers : int
        Processes on this machine; 0: none but this one.
    client : distributed.Client, optional
        Of a cluster that is there, instead.
    scheduler : str, optional
        The address of its scheduler, as ``tcp://host:8786``.

    Raises
    ------
    InputError
        The scheduler does not answer.
    """
    if client is not None:
        yield _OnDask(client)
        return
    if workers == 0 and scheduler is None:
        yield _Here()
        return
    with needs_extra("a sweep on several processes"):
        import dask
        from distributed import Client, LocalCluster
    if scheduler is not None:
        try:
            there = Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            what = f"no Dask scheduler answers: {' '.join(str(error).split())[:120]}"
            hint = "start one with dask scheduler, and workers with dask worker"
            raise InputError(what, where=scheduler, hint=hint) from None
        with there:
            if not there.nthreads():
                raise InputError(
                    "the scheduler has no workers", where=scheduler, hint="start some with dask worker"
                )
            yield _OnDask(there)
        return
    options = {
        "distributed.scheduler.allowed-failures": _DEATHS - 1,
        "distributed.comm.timeouts.connect": "60s",
        "distributed.admin.system-monitor.gil.enabled": False,
    }
    with (
        dask.config.set(options),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        Client(cluster, set_as_default=False) as local,
    ):
        yield _OnDask(local)
