"""The inputs of a run by cache lines: everything that its machine is built of."""

from __future__ import annotations

from dataclasses import dataclass

from astranb.collectives import Collective, Exchange, Lowered, Plan
from astranb.core.errors import InputError
from astranb.gpu import Preset
from astranb.infragraph import Infra
from astranb.net import Fabric, Network, compile_fabric

from .engine import CacheLineEngine
from .faults import LAST_PS
from .given_program import check_built, check_given
from .workload import Graph

__all__ = ["CacheLineInputs"]


@dataclass(frozen=True)
class CacheLineInputs:
    """Inputs that a machine of cache lines is built of.

    Attributes
    ----------
    infra : Infra
    work : Collective or Graph
    presets : tuple of Preset
        The GPU of each rank.
    network : Network
    launch : str
        What it costs to start a kernel.
    late_ps : tuple of int
        How late each rank starts; empty: none does.
    notes : tuple of str
        What was assumed about the GPUs, in words.
    record : bool
        Whether what views show is recorded.
    program : Lowered, optional
        The program of an algorithm that exists only as a function: it is not lowered again.
    """

    infra: Infra
    work: Collective | Graph
    presets: tuple[Preset, ...]
    network: Network
    launch: str = "none"
    late_ps: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    record: bool = True
    program: Lowered | None = None

    def __post_init__(self) -> None:
        """Check the times at which ranks start."""
        if len(self.late_ps) not in (0, len(self.presets)):
            raise InputError(f"{len(self.late_ps)} times for {len(self.presets)} ranks", where="late_ps")
        if not all(0 <= ps <= LAST_PS for ps in self.late_ps):
            raise InputError(f"a rank must start between 0 and {LAST_PS} ps", where="late_ps")

    @classmethod
    def of(cls, engine: CacheLineEngine) -> CacheLineInputs:
        """Return the inputs of an engine."""
        presets: list[Preset] = []
        for one in engine.chosen:  # equal ones are written once
            presets.append(presets[-1] if presets and presets[-1] == one else one)
        needed = engine.given is not None or _only_a_function(engine.work)
        return cls(
            engine.infra,
            engine.work,
            tuple(presets),
            engine.network,
            engine.launch,
            tuple(engine.late_ps.tolist()) if engine.late_ps.any() else (),
            tuple(engine.notes),
            engine.recording,
            engine.program if needed else None,
        )

    def engine(self, *, memory_bytes: int | None = None, fabric: Fabric | None = None) -> CacheLineEngine:
        """Build the machine.

        Parameters
        ----------
        memory_bytes : int, optional
            Most memory for it.
        fabric : Fabric, optional
            That of the infrastructure, where it is compiled already.

        Raises
        ------
        InputError
            Something does not fit together, or not into memory.
        """
        compiled = compile_fabric(self.infra.expand()) if fabric is None else fabric
        if len(self.presets) != len(compiled.gpus):
            what = f"{len(self.presets)} GPUs for an infrastructure of {len(compiled.gpus)}"
            raise InputError(what, where="presets")
        if self.program is not None:
            check_given(self.program, len(self.presets))
        engine = CacheLineEngine.built(
            self.infra,
            self.work,
            compiled,
            self.presets,
            self.network,
            self.launch,
            late_ps=self.late_ps,
            notes=self.notes,
            record=self.record,
            memory_bytes=memory_bytes,
            given=self.program,
        )
        if self.program is not None:
            check_built(engine.machine.tables)
        return engine


def _only_a_function(work: Collective | Graph) -> bool:
    """Return whether the algorithm has neither a name nor a file by which it can be had again."""
    if not isinstance(work, Collective) or isinstance(work, Exchange) or isinstance(work.algorithm, str):
        return False
    return not (isinstance(work.algorithm, Plan) and work.algorithm.file)
