"""ASTRA-sim 1.0's layer tables: training loops, hierarchical collectives, exposed communication.

A *training loop* says in which order the layers of a table compute, communicate and wait. The
collectives are cut into chunks, each of which goes through phases, one in each dimension of the
network. The state is tables, and the loop can stop after any event.
"""

from __future__ import annotations

from ._csv import result_tables, write_tables
from ._files import load, read_network
from ._layers import Layer, Part, Workload
from ._lines import lines_of
from ._loops import Action, Layers, training_loop
from ._network import HierarchicalNetwork
from ._plan import retime
from ._result import LAYER_COLUMNS, Result
from ._run import Run
from ._shipped import loop_names
from ._system import Algorithm, System
from ._text import is_layer_table, read_system, read_workload, write_workload

__all__ = [
    "LAYER_COLUMNS",
    "Action",
    "Algorithm",
    "HierarchicalNetwork",
    "Layer",
    "Layers",
    "Part",
    "Result",
    "Run",
    "System",
    "Workload",
    "is_layer_table",
    "lines_of",
    "load",
    "loop_names",
    "read_network",
    "read_system",
    "read_workload",
    "result_tables",
    "retime",
    "training_loop",
    "write_tables",
    "write_workload",
]
