"""Small programs that measure a simulated GPU like a real one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from astranb.collectives import Collective, Program
from astranb.core.errors import WrongResult
from astranb.engine.cacheline import CacheLineEngine
from astranb.gpu import ROWS, Preset, blocks_of
from astranb.gpu import preset as find_preset
from astranb.sim import Simulation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TWO", "measure", "microbenchmarks"]

TWO = "switch:gpus=2"
"""Two GPUs on a switch, for measurements that do not depend on the infrastructure."""

_BLOCKS = (1, 4, 16, 64)


def microbenchmarks(gpu: str | Path | Preset, infra: str = TWO) -> pd.DataFrame:
    """Measure latencies and bandwidths of a simulated GPU.

    ``benchmarks/gpu_microbench.py`` measures the same on a real one.

    Parameters
    ----------
    gpu : str or Path or Preset
        A preset, its name or its file.
    infra : str
        Two or more GPUs, for measurements across a link.

    Returns
    -------
    pandas.DataFrame
        ``what``, ``value`` and ``unit``: latencies of a load from the L2 and from memory
        (pointer chase), also with buffers beyond the near half of the L2; bandwidths of
        streaming reads from memory and from the L2; a system-wide fence after a store; the
        period of empty kernels, launched and in a graph; the one-way latency of a flag between
        two GPUs, alone and after data and a fence; and the bandwidth of a copy by 1 to 64 thread
        blocks. What the GPU does not have is omitted.

    Examples
    --------
    >>> table = microbenchmarks("h100-sxm")
    >>> bool(105 < table.set_index("what").loc["L2 hit, near", "value"] < 117)  # measured: 111 ns
    True
    """
    import pandas as pd

    chosen = gpu if isinstance(gpu, Preset) else find_preset(gpu)
    units = {**ROWS, **{f"copy to a peer, {blocks} blocks": "GB/s" for blocks in _BLOCKS}}
    rows = [(what, measure(chosen, infra, what), unit) for what, unit in units.items()]
    return pd.DataFrame([row for row in rows if row[1] is not None], columns=["what", "value", "unit"])


def measure(gpu: Preset, infra: str, what: str) -> float | None:
    """Measure one row of :func:`microbenchmarks`; None if the GPU does not have it."""
    if blocks_of(what):
        return _copy(gpu, infra, blocks_of(what))
    if gpu.l2_bytes == 0 and "L2" in what:
        return None
    return _MEASURES[what](gpu, infra)


def _run(
    gpu: Preset, infra: str, size: int, write: object, channels: int = 1, launch: str = "none"
) -> CacheLineEngine:
    """Run a program that is not a collective, without checking its result."""
    wanted = Collective.of("broadcast", size, write, channels=channels)  # type: ignore[arg-type]
    sim = Simulation(infra, wanted, gpu=gpu, record=False, checkpoint_bytes=0, launch=launch)
    with suppress(WrongResult):
        sim.run()
    engine: CacheLineEngine = sim.engine
    return engine


def _chase(gpu: Preset, infra: str, lines: int = 1) -> tuple[float, float]:
    """Return the mean ns of the first and the second load of lines, one load at a time."""

    def write(p: Program) -> None:
        block = p.block(0)
        for chunk in range(p.input_chunks):
            block.copy(p.input(0)[chunk], p.scratch(0)[chunk])
        for chunk in range(p.input_chunks):
            block.copy(p.input(0)[chunk], p.scratch(0)[100 + chunk])

    slow = gpu.but(warps_per_block=1, unroll=1)
    machine = _run(slow, infra, gpu.line_bytes * lines * 8, write).machine
    ops = machine.ops
    # A move issues its last store when its last load has returned.
    taken = (ops["issued_ps"] - ops["started_ps"]) / ops["lines"] / 1000
    if lines > 1:
        taken = taken - gpu.issue_ps / 1000
    half = len(ops) // 2
    return float(taken[:half].mean()), float(taken[half:].mean())


def _stream(gpu: Preset, infra: str) -> float:
    """Return GB/s of reads from memory by all SMs at once, from the first load to the last."""
    blocks = gpu.sms * gpu.blocks_on_sm
    size = blocks * 8 * gpu.line_bytes * 384

    def write(p: Program) -> None:
        p.block(0).copy(p.input(0)[0], p.scratch(0)[0])

    machine = _run(gpu, infra, size, write, channels=blocks).machine
    channels = machine.hbm_channels
    first, last = int(machine.gpus[0].first_hbm_channel), int(machine.gpus[0].hbm_channels)
    mine = channels[first : first + last]
    ended = int(mine["free_at_ps"].max())
    began = gpu.noc_ps
    return float(mine["lines"].sum()) * gpu.line_bytes / (ended - began) * 1000


def _stream_l2(gpu: Preset, infra: str) -> float:
    """Return GB/s of the L2 for all SMs at once; a store takes as long as a load."""
    few, many = (_served(gpu, infra, repeats) for repeats in (2, 6))
    return (many[0] - few[0]) * gpu.line_bytes / (many[1] - few[1]) * 1000


def _served(gpu: Preset, infra: str, repeats: int) -> tuple[int, float]:
    """Return the lines that the L2 serves while all SMs copy the same lines, and the time of the last one."""
    blocks = gpu.sms * gpu.blocks_on_sm

    def write(p: Program) -> None:
        block = p.block(0)
        for number in range(repeats):
            block.copy(p.input(0)[0], p.scratch(0)[number])

    machine = _run(gpu, infra, blocks * 8 * gpu.line_bytes * 48, write, channels=blocks).machine
    first, count = int(machine.gpus[0].first_l2_slice), gpu.l2_slices
    mine = machine.l2_slices[first : first + count]
    return int(mine["lines"].sum()), float(mine["free_at_ps"].mean())


def _fence(gpu: Preset, infra: str) -> float:
    """Return the ns from a store until a system-wide fence after it completes."""

    def write(p: Program) -> None:
        block = p.block(0)
        block.copy(p.input(0)[0], p.scratch(0)[0])
        block.fence()

    ops = _run(gpu, infra, gpu.line_bytes, write).machine.ops
    return float(ops["started_ps"][1] - ops["issued_ps"][0]) / 1000


def _kernels(gpu: Preset, infra: str, launch: str) -> float:
    """Return the ns from the start of one empty kernel to the start of the next."""

    def write(p: Program) -> None:
        for name in ("one", "two"):
            p.kernel(name)
            p.block(0).compute()

    blocks = _run(gpu, infra, gpu.line_bytes, write, launch=launch).machine.blocks
    return float(blocks["started_ps"].max() - blocks["started_ps"].min()) / 1000


def _flag(gpu: Preset, infra: str, *, fenced: bool) -> float:
    """Return the one-way latency in ns of a flag that two GPUs send back and forth."""
    round_trips = 16

    def write(p: Program) -> None:
        semaphores = [p.semaphore(0), p.semaphore(1)]
        blocks = [p.block(0), p.block(1)]

        def send(number: int, me: int) -> None:
            if fenced:
                blocks[me].put(p.input(me)[0], p.scratch(1 - me)[number])
            blocks[me].signal(semaphores[1 - me])
            blocks[1 - me].wait(semaphores[1 - me])

        for number in range(round_trips):
            send(number, 0)
            send(number, 1)

    machine = _run(gpu, infra, gpu.line_bytes, write).machine
    return float(machine.gpus["ended_ps"].max()) / (2 * round_trips) / 1000


def _copy(gpu: Preset, infra: str, blocks: int) -> float:
    """Return GB/s of a copy to another GPU by a number of thread blocks."""
    size = 8 * blocks * gpu.line_bytes * 256

    def write(p: Program) -> None:
        block = p.block(0)
        for chunk in range(p.input_chunks):
            block.put(p.input(0)[chunk], p.output(1)[chunk])

    machine = _run(gpu, infra, size, write, channels=blocks).machine
    return size / int(machine.gpus["ended_ps"].max()) * 1000


_MEASURES: dict[str, Callable[[Preset, str], float | None]] = {
    "L2 hit, near": lambda gpu, infra: _chase(gpu, infra)[1],
    # Half of the lines lie in the far half.
    "L2 hit, far": lambda gpu, infra: (
        2 * _chase(gpu.but(near_bytes=0), infra, lines=256)[1] - _chase(gpu, infra)[1]
    ),
    "memory": lambda gpu, infra: _chase(gpu, infra)[0],
    "streaming reads": _stream,
    "streaming reads, L2": _stream_l2,
    "fence after a store": _fence,
    "kernel launch": lambda gpu, infra: _kernels(gpu, infra, "stream") if gpu.launch_ps else None,
    "kernel in a graph": lambda gpu, infra: _kernels(gpu, infra, "graph") if gpu.graph_ps else None,
    "flag, one way": lambda gpu, infra: _flag(gpu, infra, fenced=False),
    "flag behind a fence, one way": lambda gpu, infra: _flag(gpu, infra, fenced=True),
}
"""The function that measures each row; copies have a number of blocks in their name."""
