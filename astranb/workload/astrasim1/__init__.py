"""ASTRA-sim 1.0's inputs: layer tables, training loops, hierarchical networks and system layers.

A *training loop* says in which order the layers of a table compute, communicate and wait. The system
layer cuts collectives into chunks, each of which passes through phases in the dimensions of the network.
"""

from __future__ import annotations

from .inputs import LayerWorkload, load
from .loops import Action, Layers, loop_names, training_loop
from .network import HierarchicalNetwork, read_network
from .simai import SimAIWorkload, read_simai
from .system import LayerAlgorithm, LayerSystem, read_system
from .table import Layer, LayerTable, Part
from .table_file import is_layer_table, read_layer_table, write_layer_table
from .traces import TableTrace, layer_table_trace, simai_trace, write_table_ranks

__all__ = [
    "Action",
    "HierarchicalNetwork",
    "Layer",
    "LayerAlgorithm",
    "LayerSystem",
    "LayerTable",
    "LayerWorkload",
    "Layers",
    "Part",
    "SimAIWorkload",
    "TableTrace",
    "is_layer_table",
    "layer_table_trace",
    "load",
    "loop_names",
    "read_layer_table",
    "read_network",
    "read_simai",
    "read_system",
    "simai_trace",
    "training_loop",
    "write_layer_table",
    "write_table_ranks",
]
