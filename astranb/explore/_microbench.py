"""Small programs that measure a simulated GPU as one measures a real one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from astranb.collectives import Collective, Program
from astranb.core.errors import WrongResult
from astranb.gpu import Preset
from astranb.gpu import preset as find_preset
from astranb.sim import Simulation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["microbenchmarks"]


def microbenchmarks(gpu: str | Preset, infra: str = "switch:gpus=2") -> pd.DataFrame:
    """Measure latencies, bandwidths and a flag's way on a simulated GPU.

    Parameters
    ----------
    gpu : str or Preset
    infra : str
        Two or more GPUs, for what crosses a link.

    Returns
    -------
    pandas.DataFrame
        ``what``, ``value`` and ``unit``: latency of a load that hits the L2 and of one that
        goes to memory (pointer chase), the same with buffers beyond the near half of the L2,
        bandwidth of streaming reads, one way of a flag between two GPUs, and the bandwidth of
        a copy by 1 to 64 thread blocks.

    Examples
    --------
    >>> table = microbenchmarks("h100-sxm")
    >>> bool(105 < table.set_index("what").loc["L2 hit, near", "value"] < 117)  # measured: 111 ns
    True
    """
    import pandas as pd

    chosen = gpu if isinstance(gpu, Preset) else find_preset(gpu)
    rows: list[tuple[str, float, str]] = []
    first, second = _chase(chosen, infra)
    cached = chosen.l2_bytes > 0
    if cached:
        rows.append(("L2 hit, near", second, "ns"))
        # Half of the lines lie in the far half.
        both = _chase(chosen.but(near_bytes=0), infra, lines=256)[1]
        rows.append(("L2 hit, far", 2 * both - second, "ns"))
    rows.append(("memory", first, "ns"))
    rows.append(("streaming reads", _stream(chosen, infra), "GB/s"))
    rows.append(("flag, one way", _flag(chosen, infra), "ns"))
    rows += [
        (f"copy to a peer, {blocks} blocks", _copy(chosen, infra, blocks), "GB/s")
        for blocks in (1, 4, 16, 64)
    ]
    return pd.DataFrame(rows, columns=["what", "value", "unit"])


def _run(gpu: Preset, infra: str, size: int, write: object, lanes: int = 1) -> Simulation:
    """Run a program that is no collective: its result does not count."""
    wanted = Collective.of("broadcast", size, write, lanes=lanes)  # type: ignore[arg-type]
    sim = Simulation(infra, wanted, gpu=gpu, record=False, checkpoint_bytes=0)
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
    ops = sim.machine.ops
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

    sim = _run(gpu, infra, size, write, lanes=blocks)
    channels = sim.machine.channels
    first, last = int(sim.machine.gpus[0].first_channel), int(sim.machine.gpus[0].channels)
    mine = channels[first : first + last]
    ended = int(mine["free_at_ps"].max())
    began = gpu.noc_ps
    return float(mine["lines"].sum()) * gpu.line_bytes / (ended - began) * 1000


def _flag(gpu: Preset, infra: str) -> float:
    """One way of a flag between two GPUs that wait for each other in turn, in ns."""
    turns = 16

    def write(p: Program) -> None:
        gates = [p.semaphore(0), p.semaphore(1)]
        blocks = [p.block(0), p.block(1)]
        for _ in range(turns):
            blocks[0].signal(gates[1])
            blocks[1].wait(gates[1])
            blocks[1].signal(gates[0])
            blocks[0].wait(gates[0])

    sim = _run(gpu, infra, gpu.line_bytes, write)
    return float(sim.machine.gpus["ended_ps"].max()) / (2 * turns) / 1000


def _copy(gpu: Preset, infra: str, blocks: int) -> float:
    """GB/s of a copy to another GPU by so many thread blocks."""
    size = 8 * blocks * gpu.line_bytes * 256

    def write(p: Program) -> None:
        block = p.block(0)
        for chunk in range(p.input_chunks):
            block.put(p.input(0)[chunk], p.output(1)[chunk])

    sim = _run(gpu, infra, size, write, lanes=blocks)
    return size / int(sim.machine.gpus["ended_ps"].max()) * 1000
