"""ASTRA-sim 1.0's inputs: layer tables, training loops, hierarchical networks and system layers.

A *training loop* says in which order the layers of a table compute, communicate and wait. The system
layer cuts collectives into chunks, each of which passes through phases in the dimensions of the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .levels import Levels as Levels
    from .levels import involved as involved
    from .levels import levels_of as levels_of
    from .loops import Action as Action
    from .loops import Layers as Layers
    from .loops import Loop as Loop
    from .loops import Step as Step
    from .loops import WrittenLoop as WrittenLoop
    from .loops import loop_named as loop_named
    from .loops import loop_names as loop_names
    from .loops import training_loop as training_loop
    from .network import HierarchicalNetwork as HierarchicalNetwork
    from .network import read_network as read_network
    from .roofline import CountedWork as CountedWork
    from .roofline import ProductWork as ProductWork
    from .roofline import Roofline as Roofline
    from .roofline import Rooflines as Rooflines
    from .simai import SimAIWorkload as SimAIWorkload
    from .simai import read_simai as read_simai
    from .system import ALGORITHMS as ALGORITHMS
    from .system import WITHIN as WITHIN
    from .system import LayerAlgorithm as LayerAlgorithm
    from .system import LayerSystem as LayerSystem
    from .system import read_system as read_system
    from .table import Layer as Layer
    from .table import LayerTable as LayerTable
    from .table import Part as Part
    from .table_file import is_layer_table as is_layer_table
    from .table_file import read_layer_table as read_layer_table
    from .table_file import write_layer_table as write_layer_table
    from .traces import TableTrace as TableTrace
    from .traces import layer_table_trace as layer_table_trace
    from .traces import simai_trace as simai_trace
    from .traces import write_table_ranks as write_table_ranks
    from .workload import LayerWorkload as LayerWorkload
    from .workload import load as load

__getattr__, __dir__ = lazy(__name__)
