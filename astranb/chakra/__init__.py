"""Chakra execution traces: read, check, make and write what the ranks do.

The format is mlcommons/chakra's (``schema/protobuf/et_def.proto``, 0.0.4 and 1.0.0): a file
a rank, a length and a protocol buffer for the trace's metadata and for each node. It is read
into columns by our own kernels: 100,000 nodes in a few tenths of a second.
"""

from __future__ import annotations

from ._builder import TraceBuilder
from ._check import check, topological_order
from ._columns import Distinct, Lists
from ._file import rank_file, read, read_ranks, write
from ._schema import Attribute, CollectiveType, Node, NodeType
from ._summary import as_document, summary
from ._template import Hole, Template
from ._trace import Trace

__all__ = [
    "Attribute",
    "CollectiveType",
    "Distinct",
    "Hole",
    "Lists",
    "Node",
    "NodeType",
    "Template",
    "Trace",
    "TraceBuilder",
    "as_document",
    "check",
    "rank_file",
    "read",
    "read_ranks",
    "summary",
    "topological_order",
    "write",
]
