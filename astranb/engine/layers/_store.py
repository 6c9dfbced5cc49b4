"""The inputs of a layer table's run as JSON, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astranb.workload.astrasim1 import Algorithm, HierarchicalNetwork, Layer, Part, System, Workload
from astranb.workload.astrasim1._policies import Levels

from ._build import Built
from ._run import Run

if TYPE_CHECKING:
    import numpy as np

    from ._tables import Machine

__all__ = ["run_of", "said_of"]


def said_of(run: Run) -> dict[str, Any]:
    """Give a run's inputs as what JSON has."""
    return {
        "workload": dataclasses.asdict(run.workload),
        "system": dataclasses.asdict(run.system),
        "network": dataclasses.asdict(run.network),
        "levels": dataclasses.asdict(run.levels),
        "congested": run.congested,
    }


def run_of(said: Mapping[str, Any], sent: np.ndarray, planned: np.ndarray, machine: Machine) -> Run:
    """Make a run of its inputs and its tables."""
    layers = []
    for layer in said["workload"]["layers"]:
        fields: dict[str, Any] = {
            name: Part(**value) if isinstance(value, dict) else value for name, value in layer.items()
        }
        layers.append(Layer(**fields))
    workload = Workload(**{**_tuples(said["workload"]), "layers": tuple(layers)})
    algorithms = {
        name: tuple(Algorithm(*one) for one in each) for name, each in said["system"]["algorithms"].items()
    }
    system = System(**{**said["system"], "algorithms": algorithms})
    network = HierarchicalNetwork(**_tuples(said["network"]))
    built = Built(machine, sent, planned, Levels(**_tuples(said["levels"])))
    return Run.of_built(workload, system, network, built, congested=said["congested"])


def _tuples(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
