"""The inputs of a run of layer tables: everything that its tables are built of."""

from __future__ import annotations

from dataclasses import dataclass

from astranb.workload.astrasim1 import Layers, LayerWorkload, WrittenLoop, loop_named

from .engine import LayerEngine
from .run import LayerRun

__all__ = ["LayerInputs"]


@dataclass(frozen=True)
class LayerInputs:
    """Inputs that a run of a layer table is built of.

    Attributes
    ----------
    workload : LayerWorkload
    record : bool
        Whether what views show is recorded.
    loop : WrittenLoop, optional
        The training loop, where it is a function that does not come with astranb.
    """

    workload: LayerWorkload
    record: bool = True
    loop: WrittenLoop | None = None

    @classmethod
    def of(cls, engine: LayerEngine) -> LayerInputs:
        """Return the inputs of an engine."""
        table = engine.run.inputs.table
        loop = engine.run.loop or loop_named(table.loop, table.where)
        written = None if loop.shipped else loop.written(Layers.of(table))
        return cls(engine.run.inputs, engine.recording, written)

    def engine(self) -> LayerEngine:
        """Build the tables.

        Raises
        ------
        InputError
            The inputs do not fit together.
        """
        loop = None if self.loop is None else self.loop.loop()
        return LayerEngine(LayerRun(self.workload, record=self.record, loop=loop), self.workload.title)
