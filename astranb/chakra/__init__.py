"""Chakra execution traces: read, check, build and write them.

The format is that of mlcommons/chakra (``schema/protobuf/et_def.proto``, 0.0.4 and 1.0.0): one file
for each rank, with a length-delimited protocol buffer for the metadata and for each node. Compiled
kernels read it into columns: 100,000 nodes in a few tenths of a second.
"""

from __future__ import annotations

from ._builder import TraceBuilder
from ._check import check, topological_order
from ._columns import Distinct, Lists
from ._compare import compare
from ._draw import draw
from ._file import rank_file, read, read_present, read_ranks, write, write_ranks
from ._layer_table import layer_table_trace
from ._link import LinkedTrace, link
from ._pytorch import pytorch_document, pytorch_trace
from ._schema import Attribute, CollectiveType, Node, NodeType
from ._summary import NO_DURATIONS, as_document, summary
from ._task_graph import FlexFlowTask, TaskGraph, read_task_graph
from ._task_graph_traces import task_graph_traces, write_task_graph
from ._template import Hole, Template
from ._timeline import Times, recorded_times, write_timeline
from ._trace import Trace

__all__ = [
    "NO_DURATIONS",
    "Attribute",
    "CollectiveType",
    "Distinct",
    "FlexFlowTask",
    "Hole",
    "LinkedTrace",
    "Lists",
    "Node",
    "NodeType",
    "TaskGraph",
    "Template",
    "Times",
    "Trace",
    "TraceBuilder",
    "as_document",
    "check",
    "compare",
    "draw",
    "layer_table_trace",
    "link",
    "pytorch_document",
    "pytorch_trace",
    "rank_file",
    "read",
    "read_present",
    "read_ranks",
    "read_task_graph",
    "recorded_times",
    "summary",
    "task_graph_traces",
    "topological_order",
    "write",
    "write_ranks",
    "write_task_graph",
    "write_timeline",
]
