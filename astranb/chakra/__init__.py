"""Chakra execution traces: read, check, build and write them.

The format is that of mlcommons/chakra (``schema/protobuf/et_def.proto``, 0.0.4 and 1.0.0): one file
for each rank, with a length-delimited protocol buffer for the metadata and for each node. Compiled
kernels read it into columns: 100,000 nodes in a few tenths of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from . import corpus as corpus
    from .analysis.activity import ACTIVITIES as ACTIVITIES
    from .analysis.activity import RankTime as RankTime
    from .analysis.activity import rank_time as rank_time
    from .analysis.compare_traces import compare as compare
    from .analysis.draw import draw as draw
    from .analysis.job_statistics import TraceStatistics as TraceStatistics
    from .analysis.job_statistics import statistics as statistics
    from .analysis.longest import RecordedPath as RecordedPath
    from .analysis.meetings import Meetings as Meetings
    from .analysis.meetings import meetings as meetings
    from .analysis.module_layers import ModuleDrawing as ModuleDrawing
    from .analysis.module_layers import draw_module as draw_module
    from .analysis.module_layers import draw_modules as draw_modules
    from .analysis.perfetto import write_timeline as write_timeline
    from .analysis.recorded_tracks import RecordedTracks as RecordedTracks
    from .analysis.slower import why_slower as why_slower
    from .analysis.timeline import Times as Times
    from .analysis.timeline import durations_ns as durations_ns
    from .analysis.timeline import job_times as job_times
    from .analysis.timeline import nothing_takes_time as nothing_takes_time
    from .analysis.timeline import recorded_times as recorded_times
    from .analysis.trace_modules import NODE_KINDS as NODE_KINDS
    from .analysis.trace_modules import FoldedEdges as FoldedEdges
    from .analysis.trace_modules import GraphNodes as GraphNodes
    from .analysis.trace_modules import ModuleTree as ModuleTree
    from .formats.chakra_json import json_trace as json_trace
    from .formats.networkx_graph import from_networkx as from_networkx
    from .formats.networkx_graph import graph_trace as graph_trace
    from .formats.networkx_graph import to_networkx as to_networkx
    from .formats.networkx_graph import write_graphml as write_graphml
    from .formats.task_graph import FlexFlowTask as FlexFlowTask
    from .formats.task_graph import TaskGraph as TaskGraph
    from .formats.task_graph import read_task_graph as read_task_graph
    from .formats.task_graph_traces import task_graph_traces as task_graph_traces
    from .formats.task_graph_traces import write_task_graph as write_task_graph
    from .recording.kineto import KinetoTrace as KinetoTrace
    from .recording.kineto import kineto_summary as kineto_summary
    from .recording.kineto import read_kineto as read_kineto
    from .recording.link import LinkedTrace as LinkedTrace
    from .recording.link import link as link
    from .recording.pytorch import pytorch_document as pytorch_document
    from .recording.pytorch import pytorch_summary as pytorch_summary
    from .recording.pytorch import pytorch_trace as pytorch_trace
    from .recording.record import StepRecorder as StepRecorder
    from .recording.record import record as record
    from .recording.recorded_job import LinkedJob as LinkedJob
    from .recording.recorded_job import RankFiles as RankFiles
    from .recording.recorded_job import link_job as link_job
    from .recording.recorded_job import recorded_files as recorded_files
    from .recording.recorded_job import write_job as write_job
    from .scaling.scale import ScaledJob as ScaledJob
    from .scaling.scale import scale as scale
    from .scaling.scaled_rank import ScaledRank as ScaledRank
    from .traces.cases import CASES as CASES
    from .traces.cases import TraceCase as TraceCase
    from .traces.cases import case as case
    from .traces.columns import Distinct as Distinct
    from .traces.columns import Lists as Lists
    from .traces.faults import NOT_SENT as NOT_SENT
    from .traces.faults import OTHER_SIZE as OTHER_SIZE
    from .traces.faults import TraceFault as TraceFault
    from .traces.faults import faults as faults
    from .traces.faults import message_faults as message_faults
    from .traces.faults import rank_faults as rank_faults
    from .traces.feeder import Feeder as Feeder
    from .traces.feeder import IssuePlace as IssuePlace
    from .traces.feeder import IssueQueue as IssueQueue
    from .traces.feeder import issue_order as issue_order
    from .traces.feeder import issue_places as issue_places
    from .traces.group_file import read_groups as read_groups
    from .traces.merged_trace import is_merged as is_merged
    from .traces.merged_trace import merge as merge
    from .traces.merged_trace import merged_groups as merged_groups
    from .traces.merged_trace import split as split
    from .traces.rank_trace import Trace as Trace
    from .traces.repair import read_part as read_part
    from .traces.repair import repaired as repaired
    from .traces.schema import Attribute as Attribute
    from .traces.schema import CollectiveType as CollectiveType
    from .traces.schema import Node as Node
    from .traces.schema import NodeType as NodeType
    from .traces.template import Hole as Hole
    from .traces.template import Template as Template
    from .traces.trace_builder import TraceBuilder as TraceBuilder
    from .traces.trace_file import beside as beside
    from .traces.trace_file import present_ranks as present_ranks
    from .traces.trace_file import rank_file as rank_file
    from .traces.trace_file import read as read
    from .traces.trace_file import read_present as read_present
    from .traces.trace_file import read_ranks as read_ranks
    from .traces.trace_file import traced_ranks as traced_ranks
    from .traces.trace_file import write as write
    from .traces.trace_file import write_ranks as write_ranks
    from .traces.trace_summary import as_document as as_document
    from .traces.trace_summary import durations_note as durations_note
    from .traces.trace_summary import summary as summary
    from .traces.trace_summary import untimed as untimed
    from .traces.validity import check as check
    from .traces.validity import topological_order as topological_order

__getattr__, __dir__ = lazy(__name__)
