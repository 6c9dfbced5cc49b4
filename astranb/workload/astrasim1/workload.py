"""All inputs of a run of ASTRA-sim 1.0, and the function that reads them from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from astranb.core.errors import InputError
from astranb.core.keywords import hinted_class
from astranb.net import ForAll

from .network import HierarchicalNetwork, read_network
from .system import LayerSystem, read_system
from .table import LayerTable
from .table_file import read_layer_table

__all__ = ["LayerWorkload", "load"]


@hinted_class(layers="write table")
@dataclass(frozen=True)
class LayerWorkload:
    """A layer table, and the system and the network that it runs on.

    Parameters
    ----------
    table : LayerTable
    system : LayerSystem
    network : HierarchicalNetwork
        Its ``compat`` says whether ASTRA-sim 1.0's peculiarities are reproduced.
    passes : int
        Number of passes of the training loop.
    congestion : bool
        Messages wait for busy links.
    title : str
    """

    subject: ClassVar = "layers"

    table: LayerTable
    system: LayerSystem
    network: HierarchicalNetwork
    passes: int = 1
    congestion: bool = False
    title: str = "workload"

    def __post_init__(self) -> None:
        """Check the number of passes; fit algorithms to the network, and times to the system's roofline."""
        if self.passes < 1:
            raise InputError(
                f"passes must be at least 1, got {self.passes}", where="--num-passes", hint="use 1 or more"
            )
        timed = self.table.timed(self.system.rooflines, compat=self.network.compat)
        object.__setattr__(self, "table", timed)
        dimensions = len(self.network.units)
        algorithms = {
            kind: tuple(listed) * (dimensions if isinstance(listed, ForAll) else 1)
            for kind, listed in self.system.algorithms.items()
        }
        object.__setattr__(self, "system", replace(self.system, algorithms=algorithms, rooflines=None))


def load(
    workload: str | Path,
    system: str | Path,
    network: str | Path,
    *,
    compute_scale: float = 1.0,
    comm_scale: float = 1.0,
    injection_scale: float = 1.0,
    passes: int = 1,
    queues: int = 1,
    changes: Mapping[str, Sequence[float]] | None = None,
    congestion: bool = False,
    compat: bool = False,
) -> LayerWorkload:
    """Read ASTRA-sim 1.0's files, unmodified.

    Parameters
    ----------
    workload, system, network : str or Path
        The layer table, the system's text file, the network's JSON file.
    compute_scale, comm_scale : float
        Factors of compute times and of sizes.
    injection_scale : float
        Factor of the endpoint's delay.
    passes : int
        Number of passes of the training loop.
    queues : int
        Number of queues of one dimension.
    changes : mapping of str to sequence of float, optional
        Values that replace those of the network's file, as ``{"link-bandwidth": [50]}``.
    congestion : bool
        Messages wait for busy links.
    compat : bool
        Reproduce ASTRA-sim 1.0's peculiarities, and with them its results to the nanosecond.

    Raises
    ------
    InputError
        A file cannot be read, or a number is out of range.
    """
    for name, scale in (("compute", compute_scale), ("comm", comm_scale), ("injection", injection_scale)):
        if not 0 < scale <= 1e9:
            raise InputError(f"{scale} is out of range", where=f"--{name}-scale", hint="use a number above 0")
    rows = read_layer_table(workload, compat=compat)
    given = read_system(system, queues=queues, injection_scale=injection_scale)
    table = rows.timed(given.rooflines, compat=compat)
    return LayerWorkload(
        table.scaled(compute_scale, comm_scale, compat=compat),
        given,
        read_network(network, compat=compat, changes=changes),
        passes,
        congestion,
        Path(workload).name,
    )
