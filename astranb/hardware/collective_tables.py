"""Published times of collectives: tables of nccl-tests and rccl-tests, and the machines that they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from astranb.core.number_files import text_of, text_rows
from astranb.core.units import size_bytes

from .reader import FOLDER

__all__ = ["MeasuredCollective", "measured_collectives"]

_FILE: Final = FOLDER / "measured" / "collectives.csv"
_HALF_MEMORY: Final = "-40"
"""Of a GPU that is sold with half the memory, too, whose bandwidth matters to no row here."""
_OTHER_KERNELS: Final = ("symmetric", "tuner")
_HOST_LIMIT: Final = 2**24


@dataclass(frozen=True)
class MeasuredCollective:
    """A published table: what ran where, and the times by size.

    Attributes
    ----------
    id : str
    blind : bool
        Whether it was never compared with a simulation.
    gpu : str
    infra : str
        The blueprint of the machine; empty where none describes it.
    boxes : int
    network : str
        Between the boxes, in words.
    library : str
    collective : str
    settings : str
        How it was measured.
    source : str
    times_us : mapping of int to float
        By bytes, as nccl-tests counts them.
    """

    id: str
    blind: bool
    gpu: str
    infra: str
    boxes: int
    network: str
    library: str
    collective: str
    settings: str
    source: str
    times_us: Mapping[int, float]

    @property
    def in_graph(self) -> bool:
        """Whether a graph replayed the collectives."""
        return "in a graph" in self.settings

    @property
    def by_default(self) -> bool:
        """Whether the kernel is the one that the library runs by default."""
        return not any(word in f"{self.library} {self.settings}" for word in _OTHER_KERNELS)

    @property
    def least_bytes(self) -> int:
        """Size below which the host is measured: one process launches for all GPUs, or PyTorch does."""
        hosted = any(word in f"{self.library} {self.settings}" for word in ("one process", "PyTorch"))
        return _HOST_LIMIT if hosted else 0


@cache
def measured_collectives() -> tuple[MeasuredCollective, ...]:
    """Read all published tables.

    Examples
    --------
    >>> first = measured_collectives()[0]
    >>> first.gpu, first.collective, first.times_us[2**19]
    ('mi300x', 'all_reduce', 27.3)
    """
    (_, heads), *lines = text_rows(text_of(_FILE), _FILE.name)
    return tuple(_table(dict(zip(heads, row, strict=True))) for _, row in lines)


def _table(row: Mapping[str, str]) -> MeasuredCollective:
    return MeasuredCollective(
        id=row["id"],
        blind=row["use"] == "blind",
        gpu=row["gpu"].removesuffix(_HALF_MEMORY),
        infra=row["infra"],
        boxes=int(row["boxes"]),
        network=row["network"],
        library=row["library"],
        collective=row["collective"],
        settings=row["settings"],
        source=row["source"],
        times_us={
            size_bytes(name): float(us)
            for name, us in row.items()
            if us and name.endswith(("KiB", "MiB", "GiB"))
        },
    )
