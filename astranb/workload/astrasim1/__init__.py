"""ASTRA-sim 1.0's layer tables: training loops, hierarchical collectives, exposed communication.

A *training loop* says in which order the layers of a table compute, communicate and wait. The
collectives are cut into chunks, each of which goes through phases, one in each dimension of the
network. The state is tables, and the loop can stop after any event.
"""

from __future__ import annotations

from ._layers import Layer, Part, Workload
from ._loops import Action, Layers, training_loop
from ._network import HierarchicalNetwork
from ._shipped import loop_names
from ._system import Algorithm, System
from ._text import is_layer_table, read_system, read_workload, write_workload
from .inputs import LayerWorkload

__all__ = [
    "Action",
    "Algorithm",
    "HierarchicalNetwork",
    "Layer",
    "LayerWorkload",
    "Layers",
    "Part",
    "System",
    "Workload",
    "is_layer_table",
    "loop_names",
    "read_system",
    "read_workload",
    "training_loop",
    "write_workload",
]
