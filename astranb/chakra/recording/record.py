"""Record what a PyTorch job does, for :func:`astranb.chakra.link_job`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra

__all__ = ["StepRecorder", "record"]


class StepRecorder:
    """A recording in progress.

    Attributes
    ----------
    rank : int
        This process's rank in the job.
    files : tuple of Path
        What it writes: the host trace and Kineto's.
    step : callable
        Ends a step. Call it on every rank after each one.
    done : bool
        Whether all steps have been recorded and written.
    """

    def __init__(self, prefix: str | Path, rank: int) -> None:
        self.rank = rank
        self.files = (Path(f"{prefix}.{rank}.et.json"), Path(f"{prefix}.{rank}.kineto.json.gz"))
        self.done = False
        self.step: Callable[[], None] = lambda: None


@contextmanager
def record(prefix: str | Path, *, steps: int = 1, skip: int = 1) -> Iterator[StepRecorder]:
    """Record steps of a PyTorch job: ``PREFIX.RANK.et.json`` and ``PREFIX.RANK.kineto.json.gz``.

    They are what ``ExecutionTraceObserver`` and the profiler (Kineto) write: operators with their tensors,
    and times on CPU threads and, where there is one, the GPU. Each process of a job records its rank,
    that of ``torch.distributed`` or of the launcher (``RANK``); :func:`link_job` joins them.

    Parameters
    ----------
    prefix : str or Path
        The same on all ranks.
    steps : int
        How many steps to record.
    skip : int
        Steps that are not recorded before; after them one more warms the profiler up.

    Raises
    ------
    InputError
        PyTorch is missing, or fewer steps ended than should be recorded.

    Examples
    --------
    >>> import astranb.chakra as chakra
    >>> with chakra.record("job", steps=3) as recording:  # doctest: +SKIP
    ...     for _ in range(5):
    ...         train_step()
    ...         recording.step()
    """
    for name, value, least in (("steps", steps, 1), ("skip", skip, 0)):
        if value < least:
            raise InputError(f"{value} steps", where=f"record({name}=…)", hint=f"give {least} or more")
    with needs_extra("astranb.chakra.record"):
        import torch
        import torch.distributed
        from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    rank = torch.distributed.get_rank() if ready else int(os.environ.get("RANK") or 0)
    recording = StepRecorder(prefix, rank)
    host, device = recording.files
    host.parent.mkdir(parents=True, exist_ok=True)
    if rank == 0:
        world = torch.distributed.get_world_size() if ready else int(os.environ.get("WORLD_SIZE") or 1)
        _remove_others(Path(prefix), world)

    def save(profiler: Any) -> None:
        profiler.export_chrome_trace(str(device))
        recording.done = True

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    observer = ExecutionTraceObserver().register_callback(str(host))
    with profile(
        activities=activities,
        schedule=schedule(wait=skip, warmup=1, active=steps, repeat=1),
        on_trace_ready=save,
        record_shapes=True,
        execution_trace_observer=observer,
    ) as profiler:
        recording.step = profiler.step
        yield recording
    if not recording.done:
        what = f"the job ended before its step {skip + 2}, the first to record"
        hint = f"run {skip + 1 + steps} steps, call step() after each, or give skip="
        raise InputError(what, where=str(prefix), hint=hint)


def _remove_others(prefix: Path, world: int) -> None:
    """Remove what ranks that this job does not have recorded earlier under this prefix."""
    rank = world
    while True:
        old = [Path(f"{prefix}.{rank}{end}") for end in (".et.json", ".kineto.json.gz")]
        if not any(file.exists() for file in old):
            return
        for file in old:
            file.unlink(missing_ok=True)
        rank += 1
