"""What a run ended with: times, bytes, dollars, and a table of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.net._astrasim1 import HierarchicalNetwork

from ._layers import Workload
from ._tables import Machine

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LAYER_COLUMNS", "Result"]

# Parts in the order of ASTRA-sim 1.0's tables, each with its place in a layer's slots.
_PARTS: Final = (("fwd", 0), ("wg", 2), ("ig", 1))

LAYER_COLUMNS: Final = tuple(
    f"{part}_{what}_ns" for what in ("compute", "exposed", "total") for part, _ in _PARTS
)
"""Figures of a layer: its computations, what it waited for, and its collectives from issue to update."""


@dataclass(frozen=True)
class Result:
    """Results.

    Parameters
    ----------
    time_ns : int
        When the last pass and its collectives were over.
    compute_ns : int
        Computations, summed.
    exposed_ns : int
        The rest: ASTRA-sim 1.0's exposed communication.
    message_bytes : int
        What NPU 0 sent.
    bytes_per_dim : tuple of int
        The same for each dimension of the network.
    cost_dollars : float
        The network's price.
    passes_ns : tuple of int
        When each pass was over.
    layer_names : tuple of str
    layers : ndarray of int64
        One row a layer, one column for each of :data:`LAYER_COLUMNS`.
    chunks_per_dim : tuple of int
        Chunks that went through each dimension (as the system layer sees them).
    chunk_ns_per_dim : tuple of float
        What they took there on average.
    busy_ns_per_dim : tuple of int
        For how long a dimension had chunks.
    events : int
        Events handled.
    """

    time_ns: int
    compute_ns: int
    exposed_ns: int
    message_bytes: int
    bytes_per_dim: tuple[int, ...]
    cost_dollars: float
    passes_ns: tuple[int, ...]
    layer_names: tuple[str, ...]
    layers: np.ndarray
    chunks_per_dim: tuple[int, ...]
    chunk_ns_per_dim: tuple[float, ...]
    busy_ns_per_dim: tuple[int, ...]
    events: int

    @classmethod
    def of(cls, m: Machine, sent: np.ndarray, workload: Workload, network: HierarchicalNetwork) -> Result:
        """Read the tables of a run.

        Parameters
        ----------
        m : Machine
        sent : ndarray
            What NPU 0 sends in each phase into each dimension.
        workload : Workload
        network : HierarchicalNetwork
        """
        clock = m.clock[0]
        time = int(clock.end_ps if clock.ending == 2 else clock.now_ps) // 1000
        layers = np.zeros((len(workload.layers), len(LAYER_COLUMNS)), np.int64)
        for kind, name in enumerate(("compute_ps", "exposed_ps", "total_ps")):
            for column, (_, part) in enumerate(_PARTS):
                layers[:, 3 * kind + column] = m.slots[name][part::3] // 1000
        compute = int(m.slots.compute_ps.sum()) // 1000
        dims = (sent * m.phases.over[:, None]).sum(axis=0)
        through = m.queues.chunks.tolist()
        return cls(
            time,
            compute,
            time - compute,
            int(dims.sum()),
            tuple(dims.tolist()),
            network.cost_dollars,
            tuple((m.pass_ends.time_ps[: int(clock.passes)] // 1000).tolist()),
            tuple(layer.name for layer in workload.layers),
            layers,
            tuple(through),
            tuple(
                float(took) / 1000 / count if count else 0.0
                for took, count in zip(m.queues.chunk_ps.tolist(), through, strict=True)
            ),
            tuple((m.queues.busy_ps // 1000).tolist()),
            int(clock.events),
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Give the layers: forward, weight-gradient and input-gradient compute, exposed and total communication."""
        import pandas as pd

        return pd.DataFrame(self.layers, columns=list(LAYER_COLUMNS), index=pd.Index(self.layer_names, name="layer"))

    def summary(self) -> dict[str, Any]:
        """Give the figures that are not of one layer."""
        return {
            "time_ns": self.time_ns,
            "compute_ns": self.compute_ns,
            "exposed_ns": self.exposed_ns,
            "message_bytes": self.message_bytes,
            "cost_dollars": self.cost_dollars,
        }
