"""The cache-line engine: every load and store of every thread block, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .aggregate import Aggregate as Aggregate
    from .aggregate import phase_times as phase_times
    from .assumptions import presets_of as presets_of
    from .build import LAUNCHES as LAUNCHES
    from .build import lowers_alike as lowers_alike
    from .contributions import Contributions as Contributions
    from .contributions import sums as sums
    from .critical_path import CAUSES as CAUSES
    from .critical_path import LinePath as LinePath
    from .engine import CacheLineEngine as CacheLineEngine
    from .faults import any_down as any_down
    from .faults import is_down as is_down
    from .faults import waiting_at as waiting_at
    from .inputs import CacheLineInputs as CacheLineInputs
    from .kernels_beside import beside as beside
    from .lost_time import LOSSES as LOSSES
    from .lost_time import lost_times as lost_times
    from .memory import BufferContent as BufferContent
    from .memory import buffer_of as buffer_of
    from .paths import resolve as resolve
    from .program_times import line_rows as line_rows
    from .recent_events import events_around as events_around
    from .recorder import FLIGHT_KINDS as FLIGHT_KINDS
    from .recorder import Recorder as Recorder
    from .source_lines import SPOT as SPOT
    from .source_lines import next_operation as next_operation
    from .source_lines import spot_text as spot_text
    from .spans import SPAN as SPAN
    from .spans import SPAN_STATES as SPAN_STATES
    from .time_classes import BLOCK_COLUMNS as BLOCK_COLUMNS
    from .tracks import TRACK_STATES as TRACK_STATES
    from .workload import Graph as Graph

__getattr__, __dir__ = lazy(__name__)
