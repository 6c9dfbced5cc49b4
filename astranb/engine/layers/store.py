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

__all__ = ["inputs_of", "run_of"]


def inputs_of(run: LayerRun) -> dict[str, Any]:
    """Return a run's inputs as JSON."""
    return {
        "table": dataclasses.asdict(run.inputs.table),
        "system": dataclasses.asdict(run.inputs.system),
        "network": dataclasses.asdict(run.inputs.network),
        "levels": dataclasses.asdict(run.built.levels),
        "congestion": run.inputs.congestion,
    }


def run_of(
    inputs: Mapping[str, Any], sent: np.ndarray, planned: np.ndarray, machine: LayerMachine
) -> LayerRun:
    """Make a run of its inputs and its tables."""
    layers = []
    for layer in inputs["table"]["layers"]:
        fields: dict[str, Any] = {
            name: Part(**value) if isinstance(value, dict) else value for name, value in layer.items()
        }
        layers.append(Layer(**fields))
    table = LayerTable(**{**_tuples(inputs["table"]), "layers": tuple(layers)})
    algorithms = {
        name: tuple(LayerAlgorithm(*one) for one in each)
        for name, each in inputs["system"]["algorithms"].items()
    }
    system = LayerSystem(**{**inputs["system"], "algorithms": algorithms})
    network = HierarchicalNetwork(**_tuples(inputs["network"]))
    built = Built(machine, sent, planned, Levels(**_tuples(inputs["levels"])))
    passes = len(machine.pass_ends)
    return LayerRun(LayerWorkload(table, system, network, passes, inputs["congestion"]), built)


def _tuples(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in inputs.items()}
