"""Results of a run: times, bytes, cost, and a table of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from astranb.workload.astrasim1 import LayerWorkload

from .tables import LayerMachine

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LAYER_COLUMNS", "LayerResult"]

# Parts in the order of ASTRA-sim 1.0's result files, with their index among a layer's slots.
_PARTS: Final = (("fwd", 0), ("wg", 2), ("ig", 1))

LAYER_COLUMNS: Final = tuple(
    f"{part}_{what}_ps" for what in ("compute", "exposed_comm", "total_comm") for part, _ in _PARTS
)
"""Columns: computations, exposed communication, and collectives from issue to update."""


@dataclass(frozen=True)
class LayerResult:
    """Results of a run, or of what has been simulated so far.

    Parameters
    ----------
    time_ps : int
        End of the last pass and its collectives.
    compute_ps : int
        Sum of computations.
    message_bytes : int
        Bytes that NPU 0 has sent.
    bytes_per_dim : tuple of int
        The same, into each dimension of the network.
    cost_dollars : float
        Cost of the network.
    pass_end_ps : tuple of int
        End of each pass.
    layer_names : tuple of str
    layers : ndarray of int64
        A row for each layer, a column for each of :data:`LAYER_COLUMNS`.
    chunks_per_dim : tuple of int
        Number of chunks that each queue of the system layer's dimensions has served.
    chunk_ps_per_dim : tuple of float
        Average time of a chunk in each queue.
    busy_ps_per_dim : tuple of int
        Time during which each queue had chunks.
    events : int
        Number of events handled.
    """

    time_ps: int
    compute_ps: int
    message_bytes: int
    bytes_per_dim: tuple[int, ...]
    cost_dollars: float
    pass_end_ps: tuple[int, ...]
    layer_names: tuple[str, ...]
    layers: np.ndarray
    chunks_per_dim: tuple[int, ...]
    chunk_ps_per_dim: tuple[float, ...]
    busy_ps_per_dim: tuple[int, ...]
    events: int

    @property
    def exposed_comm_ps(self) -> int:
        """Time without computation: ASTRA-sim 1.0's exposed communication."""
        return self.time_ps - self.compute_ps

    @property
    def time_ns(self) -> int:
        """The time in whole nanoseconds."""
        return self.time_ps // 1000

    @property
    def compute_ns(self) -> int:
        """Computations in whole nanoseconds."""
        return self.compute_ps // 1000

    @property
    def exposed_ns(self) -> int:
        """Exposed communication: the difference of the two in whole nanoseconds."""
        return self.time_ns - self.compute_ns

    @classmethod
    def of(cls, m: LayerMachine, sent: np.ndarray, inputs: LayerWorkload) -> LayerResult:
        """Read the tables of a run.

        Parameters
        ----------
        m : LayerMachine
        sent : ndarray
            Bytes that NPU 0 sends in each phase into each dimension.
        inputs : LayerWorkload
        """
        clock = m.clock[0]
        layers = np.zeros((len(inputs.table.layers), len(LAYER_COLUMNS)), np.int64)
        for kind, name in enumerate(("compute_ps", "exposed_ps", "total_ps")):
            for column, (_, part) in enumerate(_PARTS):
                layers[:, 3 * kind + column] = m.slots[name][part::3]
        dims = (sent * m.phases.over[:, None]).sum(axis=0)
        through = m.queues.chunks.tolist()
        took = m.queues.chunk_ps.tolist()
        return cls(
            int(clock.end_ps if clock.ending == 2 else clock.now_ps),
            int(m.slots.compute_ps.sum()),
            int(dims.sum()),
            tuple(dims.tolist()),
            inputs.network.cost_dollars,
            tuple(m.pass_ends.time_ps[: int(clock.passes)].tolist()),
            tuple(layer.name for layer in inputs.table.layers),
            layers,
            tuple(through),
            tuple(sum_ps / max(count, 1) for sum_ps, count in zip(took, through, strict=True)),
            tuple(m.queues.busy_ps.tolist()),
            int(clock.events),
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return a frame of layers: compute, exposed and total communication of each part."""
        import pandas as pd

        index = pd.Index(self.layer_names, name="layer")
        return pd.DataFrame(self.layers, columns=list(LAYER_COLUMNS), index=index)
