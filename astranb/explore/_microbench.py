"""Small programs that measure a simulated GPU as one measures a real one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from astranb.collectives import Collective, Program
from astranb.core.errors import WrongResult
from astranb.gpu import Preset
from astranb.gpu import preset as find_preset
from astranb.gpu._measured import ROWS, blocks_of
from astranb.sim import Simulation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TWO", "measure", "microbenchmarks"]

TWO = "switch:gpus=2"
"""Two GPUs on a switch: what crosses no link is the same on any infrastructure."""

_BLOCKS = (1, 4, 16, 64)


def microbenchmarks(gpu: str | Path | Preset, infra: str = TWO) -> pd.DataFrame:
    """Measure latencies, bandwidths and a flag's way on a simulated GPU.

    ``benchmarks/gpu_microbench.py`` measures the same on a real one.

    Parameters
    ----------
    gpu : str or Path or Preset
        A preset, its name or its file.
    infra : str
        Two or more GPUs, for what crosses a link.

    Returns
    -------
    pandas.DataFrame
        ``what``, ``value`` and ``unit``: latency of a load that hits the L2 and of one that
        goes to memory (pointer chase), the same with buffers beyond the near half of the L2,
        bandwidth of streaming reads from memory and from the L2, a system-wide fence behind
        a store, the period of empty kernels (launched, and in a graph), one way of a flag
        between two GPUs without and with data and a fence before it, and the bandwidth of a
        copy by 1 to 64 thread blocks. What the GPU does not have is left out.

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
    """Measure one row of :func:`microbenchmarks`; None where the GPU has no such thing."""
    if blocks_of(what):
        return _copy(gpu, infra, blocks_of(what))
    if gpu.l2_bytes == 0 and "L2" in what:
        return None
    if what == "L2 hit, near":
        return _chase(gpu, infra)[1]
    if what == "L2 hit, far":
        # Half of the lines lie in the far half.
        return 2 * _chase(gpu.but(near_bytes=0), infra, lines=256)[1] - _chase(gpu, infra)[1]
    if what == "memory":
        return _chase(gpu, infra)[0]
    if what == "streaming reads":
        return _stream(gpu, infra)
    if what == "streaming reads, L2":
        return _stream_l2(gpu, infra)
    if what == "fence after a store":
        return _fence(gpu, infra)
    if what == "kernel launch":
        return _kernels(gpu, infra, "stream") if gpu.launch_ps else None
    if what == "kernel in a graph":
        return _kernels(gpu, infra, "graph") if gpu.graph_ps else None
    return _flag(gpu, infra, fenced=what != "flag, one way")


def _run(
    gpu: Preset, infra: str, size: int, write: object, channels: int = 1, launch: str = "none"
) -> Simulation:
    """Run a program that is no collective: its result does not count."""
    wanted = Collective.of("broadcast", size, write, channels=channels)  # type: ignore[arg-type]
    sim = Simulation(infra, wanted, gpu=gpu, record=False, checkpoint_bytes=0, launch=launch)
    with suppress(WrongResult):
        sim.run()
    return sim


def _chase(gpu: Preset, infra: str, lines: int = 1) -> tuple[float, float]:
    """Load a line that nobody has touched, and then again: mean ns of each, one at a time."""

    def write(p: Program) -> None:
        block = p.block(0)
        for chunk in range(p.input_chunks):
            block.copy(p.input(0)[chunk], p.scratch(0)[chunk])
        for chunk in range(p.input_chunks):
            block.copy(p.input(0)[chunk], p.scratch(0)[100 + chunk])

    slow = gpu.but(warps_per_block=1, unroll=1)
    sim = _run(slow, infra, gpu.line_bytes * lines * 8, write)
    ops = sim.engine.machine.ops
    # The last of a move's stores is issued when its last load is back.
    taken = (ops["issued_ps"] - ops["started_ps"]) / ops["lines"] / 1000
    if lines > 1:
        taken = taken - gpu.issue_ps / 1000
    half = len(ops) // 2
    return float(taken[:half].mean()), float(taken[half:].mean())


def _stream(gpu: Preset, infra: str) -> float:
    """GB/s of reads from memory by every SM at once, from the first load to the last."""
    blocks = gpu.sms * gpu.seats
    size = blocks * 8 * gpu.line_bytes * 384

    def write(p: Program) -> None:
        p.block(0).copy(p.input(0)[0], p.scratch(0)[0])

    sim = _run(gpu, infra, size, write, channels=blocks)
    channels = sim.engine.machine.channels
    first, last = int(sim.engine.machine.gpus[0].first_channel), int(sim.engine.machine.gpus[0].channels)
    mine = channels[first : first + last]
    ended = int(mine["free_at_ps"].max())
    began = gpu.noc_ps
    return float(mine["lines"].sum()) * gpu.line_bytes / (ended - began) * 1000


def _stream_l2(gpu: Preset, infra: str) -> float:
    """GB/s that the L2 serves every SM at once; it takes as long for a store as for a load."""
    few, many = (_served(gpu, infra, turns) for turns in (2, 6))
    return (many[0] - few[0]) * gpu.line_bytes / (many[1] - few[1]) * 1000


def _served(gpu: Preset, infra: str, turns: int) -> tuple[int, float]:
    """Lines that the L2's slices serve when all SMs copy the same lines again and again, and until when."""
    blocks = gpu.sms * gpu.seats

    def write(p: Program) -> None:
        block = p.block(0)
        for turn in range(turns):
            block.copy(p.input(0)[0], p.scratch(0)[turn])

    sim = _run(gpu, infra, blocks * 8 * gpu.line_bytes * 48, write, channels=blocks)
    first, count = int(sim.engine.machine.gpus[0].first_slice), gpu.l2_slices
    mine = sim.engine.machine.slices[first : first + count]
    return int(mine["lines"].sum()), float(mine["free_at_ps"].mean())


def _fence(gpu: Preset, infra: str) -> float:
    """Ns from a store until a system-wide fence behind it lets go."""

    def write(p: Program) -> None:
        block = p.block(0)
        block.copy(p.input(0)[0], p.scratch(0)[0])
        block.fence()

    ops = _run(gpu, infra, gpu.line_bytes, write).machine.ops
    return float(ops["started_ps"][1] - ops["issued_ps"][0]) / 1000


def _kernels(gpu: Preset, infra: str, launch: str) -> float:
    """Ns from the start of one empty kernel to that of the next."""

    def write(p: Program) -> None:
        for name in ("one", "two"):
            p.kernel(name)
            p.block(0).compute()

    blocks = _run(gpu, infra, gpu.line_bytes, write, launch=launch).machine.blocks
    return float(blocks["started_ps"].max() - blocks["started_ps"].min()) / 1000


def _flag(gpu: Preset, infra: str, *, fenced: bool) -> float:
    """One way of a flag between two GPUs that wait for each other in turn, in ns."""
    turns = 16

    def write(p: Program) -> None:
        gates = [p.semaphore(0), p.semaphore(1)]
        blocks = [p.block(0), p.block(1)]

        def send(turn: int, me: int) -> None:
            if fenced:
                blocks[me].put(p.input(me)[0], p.scratch(1 - me)[turn])
            blocks[me].signal(gates[1 - me])
            blocks[1 - me].wait(gates[1 - me])

        for turn in range(turns):
            send(turn, 0)
            send(turn, 1)

    sim = _run(gpu, infra, gpu.line_bytes, write)
    return float(sim.engine.machine.gpus["ended_ps"].max()) / (2 * turns) / 1000


def _copy(gpu: Preset, infra: str, blocks: int) -> float:
    """GB/s of a copy to another GPU by so many thread blocks."""
    size = 8 * blocks * gpu.line_bytes * 256

    def write(p: Program) -> None:
        block = p.block(0)
        for chunk in range(p.input_chunks):
            block.put(p.input(0)[chunk], p.output(1)[chunk])

    sim = _run(gpu, infra, size, write, channels=blocks)
    return size / int(sim.engine.machine.gpus["ended_ps"].max()) * 1000
