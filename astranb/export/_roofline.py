"""What bounds a GPU's bandwidth: how much its SMs keep under way, or how wide its ways are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astranb.core.ticks import transfer_ps
from astranb.gpu import Preset
from astranb.sim import Simulation

from ._traffic import traffic

__all__ = ["Roof", "reached", "roofs_of_preset", "roofs_of_run"]


@dataclass(frozen=True)
class Roof:
    """One limit: a slope by Little's law up to a flat part.

    Attributes
    ----------
    name : str
    latency_ps : int
        Of one line on an idle machine, there and back.
    flat_Bps : float
    """

    name: str
    latency_ps: int
    flat_Bps: float  # noqa: N815 - unit in the name

    def at(self, under_way_bytes: np.ndarray) -> np.ndarray:
        """Bytes a second with so many bytes under way: bytes / latency, at most the flat part."""
        return np.minimum(under_way_bytes * 1e12 / max(1, self.latency_ps), self.flat_Bps)


def roofs_of_preset(gpu: Preset) -> list[Roof]:
    """The limits inside one GPU: its memory, its L2, the issue slots of its SMs."""
    l2_ps = 2 * gpu.noc_ps + gpu.l2_ps
    found = [Roof("memory", l2_ps + gpu.hbm_ps, gpu.hbm_Bps)]
    if gpu.l2_bytes:
        found.append(Roof("L2", l2_ps, gpu.l2_Bps))
    issued_Bps = gpu.sms * gpu.line_bytes * gpu.bulk_lines * 1e12 / max(1, gpu.issue_ps)  # noqa: N806
    return [*found, Roof("issue slots", l2_ps, issued_Bps)]


def roofs_of_run(sim: Simulation) -> list[Roof]:
    """Those of the run's first GPU, and its links: a line's way to the farthest peer and back."""
    gpu, links = sim.engine.presets[0], sim.engine.machine.links
    found = roofs_of_preset(gpu)
    used = np.unique(np.asarray(sim.engine.machine.route_links))
    out = used[links["src"][used] == sim.engine.fabric.gpus[0]]
    if not len(out):
        return found
    peers = [(0, rank) for rank in range(1, len(sim.engine.fabric.gpus))]
    ways, _ = sim.engine.fabric.routes([*peers, *((b, a) for a, b in peers)])

    def one_way(pair: tuple[int, int]) -> int:
        way = ways[pair][0]
        passed = sum(int(sim.engine.fabric.graph.forward_ps[int(links["dst"][link])]) for link in way[:-1])
        size = gpu.line_bytes + gpu.header_bytes
        return passed + sum(
            int(links["latency_ps"][k]) + transfer_ps(size, int(links["bandwidth_Bps"][k])) for k in way
        )

    farthest = max(one_way((a, b)) + one_way((b, a)) for a, b in peers)
    payload = gpu.line_bytes / (gpu.line_bytes + gpu.header_bytes)
    wide = float(links["bandwidth_Bps"][out].sum()) * payload
    return [*found, Roof("links out of the GPU", 2 * gpu.noc_ps + gpu.l2_ps + farthest, wide)]


def reached(sim: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """For each rank: bytes that its SMs in use can keep under way, and bytes a second that left it.

    The second is payload: what its moves stored elsewhere or loaded from elsewhere.
    """
    machine = sim.engine.machine
    used = np.zeros(len(machine.gpus))
    taken = np.unique(machine.blocks["sm"][machine.blocks["sm"] >= 0])
    np.add.at(used, machine.sms["gpu"][taken], 1)
    lines = machine.gpus["max_outstanding"] * machine.gpus["line_bytes"]
    return used * lines, traffic(sim).sum(axis=1) * 1e12 / max(1, sim.result.time_ps)
