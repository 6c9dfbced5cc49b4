"""Runs of operations of ranks: what the message and the layer engine share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .about import ALGORITHMS as ALGORITHMS
    from .about import KINDS as KINDS
    from .about import STATES as STATES
    from .about import About as About
    from .about import segment as segment
    from .activity import ACTIVITIES as ACTIVITIES
    from .activity import BUBBLE as BUBBLE
    from .activity import LATE as LATE
    from .activity import Activity as Activity
    from .activity import activity_of as activity_of
    from .activity import waits_of as waits_of
    from .changes import CHANGEABLE as CHANGEABLE
    from .changes import SPEED as SPEED
    from .changes import checked_number as checked_number
    from .changes import read_value as read_value
    from .changes import written as written
    from .engine import OperationEngine as OperationEngine
    from .flights import Flights as Flights
    from .flights import LinkGraph as LinkGraph
    from .flights import Recorded as Recorded
    from .flights import graph_of_dimensions as graph_of_dimensions
    from .flights import spread as spread
    from .footprint import footprint_of as footprint_of
    from .footprint import fullest_in as fullest_in
    from .footprint import fullest_rank as fullest_rank
    from .footprint import held_by as held_by
    from .inspection import MOST as MOST
    from .inspection import listed as listed
    from .inspection import neighbours as neighbours
    from .inspection import operation_lines as operation_lines
    from .inspection import rank_lines as rank_lines
    from .inspection import when as when
    from .lost_time import lost_times as lost_times
    from .recorded_rows import part_rows as part_rows
    from .run import EVERY as EVERY
    from .run import OperationRun as OperationRun
    from .run import Spans as Spans
    from .run import recent as recent
    from .spans import COMMUNICATION as COMMUNICATION
    from .spans import TRACKS as TRACKS
    from .spans import divide as divide
    from .spans import ends_around as ends_around
    from .spans import rank_columns as rank_columns
    from .spans import spans_of as spans_of
    from .spans import tracks_of as tracks_of

__getattr__, __dir__ = lazy(__name__)
