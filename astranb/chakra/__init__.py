"""Chakra execution traces: read, check, build and write them.

The format is that of mlcommons/chakra (``schema/protobuf/et_def.proto``, 0.0.4 and 1.0.0): one file
for each rank, with a length-delimited protocol buffer for the metadata and for each node. Compiled
kernels read it into columns: 100,000 nodes in a few tenths of a second.
"""

from __future__ import annotations

from ._activity import ACTIVITIES, RankTime, rank_time
from ._builder import TraceBuilder
from ._cases import CASES, TraceCase, case
from ._check import check, topological_order
from ._columns import Distinct, Lists
from ._compare import compare
from ._draw import draw
from ._faults import TraceFault, faults, rank_faults
from ._feeder import Feeder, IssuePlace, IssueQueue, issue_order, issue_places
from ._file import beside, present_ranks, rank_file, read, read_present, read_ranks, write, write_ranks
from ._graph import from_networkx, graph_trace, to_networkx, write_graphml
from ._group_file import read_groups
from ._job import LinkedJob, RankFiles, link_job, recorded_files, write_job
from ._json import json_trace
from ._kineto import KinetoTrace, kineto_summary, read_kineto
from ._link import LinkedTrace, link
from ._longest import RecordedPath
from ._meetings import Meetings, meetings
from ._merge import is_merged, merge, merged_groups, split
from ._module_layers import ModuleDrawing, draw_module, draw_modules
from ._modules import NODE_KINDS, FoldedEdges, GraphNodes, ModuleTree
from ._perfetto import write_timeline
from ._pytorch import pytorch_document, pytorch_summary, pytorch_trace
from ._record import StepRecorder, record
from ._recorded_tracks import RecordedTracks
from ._repair import read_part, repaired
from ._scale import ScaledJob, scale
from ._scaled_rank import ScaledRank
from ._schema import Attribute, CollectiveType, Node, NodeType
from ._slower import why_slower
from ._statistics import TraceStatistics, statistics
from ._summary import as_document, durations_note, summary, untimed
from ._task_graph import FlexFlowTask, TaskGraph, read_task_graph
from ._task_graph_traces import task_graph_traces, write_task_graph
from ._template import Hole, Template
from ._timeline import Times, durations_ns, job_times, recorded_times
from ._trace import Trace

__all__ = [
    "ACTIVITIES",
    "CASES",
    "NODE_KINDS",
    "Attribute",
    "CollectiveType",
    "Distinct",
    "Feeder",
    "FlexFlowTask",
    "FoldedEdges",
    "GraphNodes",
    "Hole",
    "IssuePlace",
    "IssueQueue",
    "KinetoTrace",
    "LinkedJob",
    "LinkedTrace",
    "Lists",
    "Meetings",
    "ModuleDrawing",
    "ModuleTree",
    "Node",
    "NodeType",
    "RankFiles",
    "RankTime",
    "RecordedPath",
    "RecordedTracks",
    "ScaledJob",
    "ScaledRank",
    "StepRecorder",
    "TaskGraph",
    "Template",
    "Times",
    "Trace",
    "TraceBuilder",
    "TraceCase",
    "TraceFault",
    "TraceStatistics",
    "as_document",
    "beside",
    "case",
    "check",
    "compare",
    "draw",
    "draw_module",
    "draw_modules",
    "durations_note",
    "durations_ns",
    "faults",
    "from_networkx",
    "graph_trace",
    "is_merged",
    "issue_order",
    "issue_places",
    "job_times",
    "json_trace",
    "kineto_summary",
    "link",
    "link_job",
    "meetings",
    "merge",
    "merged_groups",
    "present_ranks",
    "pytorch_document",
    "pytorch_summary",
    "pytorch_trace",
    "rank_faults",
    "rank_file",
    "rank_time",
    "read",
    "read_groups",
    "read_kineto",
    "read_part",
    "read_present",
    "read_ranks",
    "read_task_graph",
    "record",
    "recorded_files",
    "recorded_times",
    "repaired",
    "scale",
    "split",
    "statistics",
    "summary",
    "task_graph_traces",
    "to_networkx",
    "topological_order",
    "untimed",
    "why_slower",
    "write",
    "write_graphml",
    "write_job",
    "write_ranks",
    "write_task_graph",
    "write_timeline",
]
