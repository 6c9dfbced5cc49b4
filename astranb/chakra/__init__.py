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
from ._faults import TraceFault, faults, rank_faults
from ._feeder import Feeder, IssuePlace, IssueQueue, issue_order, issue_places
from ._file import groups_file, present_ranks, rank_file, read, read_present, read_ranks, write, write_ranks
from ._graph import from_networkx, graph_trace, to_networkx, write_graphml
from ._job import LinkedJob, RankFiles, link_job, recorded_files, write_job
from ._json import json_trace
from ._kineto import KinetoTrace, kineto_summary, read_kineto
from ._link import LinkedTrace, link
from ._merge import is_merged, merge, merged_groups, split
from ._pytorch import pytorch_document, pytorch_summary, pytorch_trace
from ._record import StepRecorder, record
from ._repair import read_part, repaired
from ._schema import Attribute, CollectiveType, Node, NodeType
from ._summary import as_document, durations_note, summary, untimed
from ._task_graph import FlexFlowTask, TaskGraph, read_task_graph
from ._task_graph_traces import task_graph_traces, write_task_graph
from ._template import Hole, Template
from ._timeline import Times, recorded_times, write_timeline
from ._trace import Trace

__all__ = [
    "Attribute",
    "CollectiveType",
    "Distinct",
    "Feeder",
    "FlexFlowTask",
    "Hole",
    "IssuePlace",
    "IssueQueue",
    "KinetoTrace",
    "LinkedJob",
    "LinkedTrace",
    "Lists",
    "Node",
    "NodeType",
    "RankFiles",
    "StepRecorder",
    "TaskGraph",
    "Template",
    "Times",
    "Trace",
    "TraceBuilder",
    "TraceFault",
    "as_document",
    "check",
    "compare",
    "draw",
    "durations_note",
    "faults",
    "from_networkx",
    "graph_trace",
    "groups_file",
    "is_merged",
    "issue_order",
    "issue_places",
    "json_trace",
    "kineto_summary",
    "link",
    "link_job",
    "merge",
    "merged_groups",
    "present_ranks",
    "pytorch_document",
    "pytorch_summary",
    "pytorch_trace",
    "rank_faults",
    "rank_file",
    "read",
    "read_kineto",
    "read_part",
    "read_present",
    "read_ranks",
    "read_task_graph",
    "record",
    "recorded_files",
    "recorded_times",
    "repaired",
    "split",
    "summary",
    "task_graph_traces",
    "to_networkx",
    "topological_order",
    "untimed",
    "write",
    "write_graphml",
    "write_job",
    "write_ranks",
    "write_task_graph",
    "write_timeline",
]
