"""The inputs of a layer table's run as JSON, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    Layer,
    LayerAlgorithm,
    LayerSystem,
    LayerTable,
    LayerWorkload,
    Part,
)
from astranb.workload.astrasim1.levels import Levels

from .build import Built
from .run import LayerRun

if TYPE_CHECKING:
    import numpy as np

    from .tables import LayerMachine

__all__ = ["run_of", "said_of"]


def said_of(run: LayerRun) -> dict[str, Any]:
    """Give a run's inputs as what JSON has."""
    return {
        "table": dataclasses.asdict(run.inputs.table),
        "system": dataclasses.asdict(run.inputs.system),
        "network": dataclasses.asdict(run.inputs.network),
        "levels": dataclasses.asdict(run.built.levels),
        "congestion": run.inputs.congestion,
    }


def run_of(said: Mapping[str, Any], sent: np.ndarray, planned: np.ndarray, machine: LayerMachine) -> LayerRun:
    """Make a run of its inputs and its tables."""
    layers = []
    for layer in said["table"]["layers"]:
        fields: dict[str, Any] = {
            name: Part(**value) if isinstance(value, dict) else value for name, value in layer.items()
        }
        layers.append(Layer(**fields))
    table = LayerTable(**{**_tuples(said["table"]), "layers": tuple(layers)})
    algorithms = {
        name: tuple(LayerAlgorithm(*one) for one in each)
        for name, each in said["system"]["algorithms"].items()
    }
    system = LayerSystem(**{**said["system"], "algorithms": algorithms})
    network = HierarchicalNetwork(**_tuples(said["network"]))
    built = Built(machine, sent, planned, Levels(**_tuples(said["levels"])))
    inputs = LayerWorkload(table, system, network, len(machine.pass_ends), said["congestion"])
    return LayerRun(inputs, built)


def _tuples(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
