"""Chakra execution traces: read, check, build and write them.

The format is that of mlcommons/chakra (``schema/protobuf/et_def.proto``, 0.0.4 and 1.0.0): one file
for each rank, with a length-delimited protocol buffer for the metadata and for each node. Compiled
kernels read it into columns: 100,000 nodes in a few tenths of a second.
"""

from __future__ import annotations

from .analysis.activity import ACTIVITIES, RankTime, rank_time
from .analysis.compare_traces import compare
from .analysis.draw import draw
from .analysis.job_statistics import TraceStatistics, statistics
from .analysis.longest import RecordedPath
from .analysis.meetings import Meetings, meetings
from .analysis.module_layers import ModuleDrawing, draw_module, draw_modules
from .analysis.perfetto import write_timeline
from .analysis.recorded_tracks import RecordedTracks
from .analysis.slower import why_slower
from .analysis.timeline import Times, durations_ns, job_times, nothing_takes_time, recorded_times
from .analysis.trace_modules import NODE_KINDS, FoldedEdges, GraphNodes, ModuleTree
from .formats.chakra_json import json_trace
from .formats.networkx_graph import from_networkx, graph_trace, to_networkx, write_graphml
from .formats.task_graph import FlexFlowTask, TaskGraph, read_task_graph
from .formats.task_graph_traces import task_graph_traces, write_task_graph
from .recording.kineto import KinetoTrace, kineto_summary, read_kineto
from .recording.link import LinkedTrace, link
from .recording.pytorch import pytorch_document, pytorch_summary, pytorch_trace
from .recording.record import StepRecorder, record
from .recording.recorded_job import LinkedJob, RankFiles, link_job, recorded_files, write_job
from .scaling.scale import ScaledJob, scale
from .scaling.scaled_rank import ScaledRank
from .traces.cases import CASES, TraceCase, case
from .traces.check import check, topological_order
from .traces.columns import Distinct, Lists
from .traces.faults import NOT_SENT, OTHER_SIZE, TraceFault, faults, message_faults, rank_faults
from .traces.feeder import Feeder, IssuePlace, IssueQueue, issue_order, issue_places
from .traces.group_file import read_groups
from .traces.merged_trace import is_merged, merge, merged_groups, split
from .traces.rank_trace import Trace
from .traces.repair import read_part, repaired
from .traces.schema import Attribute, CollectiveType, Node, NodeType
from .traces.summary import as_document, durations_note, summary, untimed
from .traces.template import Hole, Template
from .traces.trace_builder import TraceBuilder
from .traces.trace_file import (
    beside,
    present_ranks,
    rank_file,
    read,
    read_present,
    read_ranks,
    write,
    write_ranks,
)

__all__ = [
    "ACTIVITIES",
    "CASES",
    "NODE_KINDS",
    "NOT_SENT",
    "OTHER_SIZE",
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
    "message_faults",
    "nothing_takes_time",
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
