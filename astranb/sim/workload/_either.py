"""What takes a simulation of either kind: a collective's or a workload's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from astranb.sim._compare import Comparison
from astranb.sim._simulation import Simulation

from ._compare import WorkloadComparison
from ._simulation import WorkloadSimulation
from ._standing import Standing
from ._store import KIND

__all__ = ["compare", "load_any"]


def compare(a: Any, b: Any, names: tuple[str, str] | None = None) -> Comparison:
    """Say what differs between two simulations of one kind: ``anb.compare(sim, other)``.

    Parameters
    ----------
    a, b : Simulation or WorkloadSimulation
        As they stand.
    names : tuple of str, optional
        What to call them; where not given after what differs in their inputs.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        They are no simulations of one kind.
    """
    return (WorkloadComparison if isinstance(a, Standing) else Comparison)(a, b, names)


def load_any(path: str | Path) -> Any:
    """Read a saved simulation of either kind.

    Raises
    ------
    InputError
        The file is not a saved simulation, or of another version.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            said = json.loads(data["inputs"].tobytes())["format"]
    except (OSError, ValueError, KeyError, TypeError, BadZipFile):
        said = ""  # the reader of files says what is wrong
    return (WorkloadSimulation if str(said).startswith(KIND) else Simulation).load(path)
