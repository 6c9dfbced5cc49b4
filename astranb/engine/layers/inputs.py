"""The inputs of a run of layer tables: everything that its tables are built of."""

from __future__ import annotations

from dataclasses import dataclass

from astranb.workload.astrasim1 import LayerWorkload

from .engine import LayerEngine
from .run import LayerRun

__all__ = ["LayerInputs"]


@dataclass(frozen=True)
class LayerInputs:
    """What a run of a layer table is built of.

    Attributes
    ----------
    workload : LayerWorkload
    record : bool
        Whether what views show is recorded.
    """

    workload: LayerWorkload
    record: bool = True

    @classmethod
    def of(cls, engine: LayerEngine) -> LayerInputs:
        """Return the inputs of an engine."""
        return cls(engine.run.inputs, engine.recording)

    def engine(self) -> LayerEngine:
        """Build the tables.

        Raises
        ------
        InputError
            The inputs do not fit together.
        """
        return LayerEngine(LayerRun(self.workload, record=self.record), self.workload.title)
