"""Floor 2: the GPU. SMs, thread blocks, warps, L2 slices, HBM channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy
from astranb.hardware import PRESETS as PRESETS
from astranb.hardware import SHORT_NAMES as SHORT_NAMES
from astranb.hardware import Preset as Preset
from astranb.hardware import preset as preset
from astranb.hardware import write_preset as write_preset

if TYPE_CHECKING:
    from .block import begin as begin
    from .block import count_taken as count_taken
    from .block import launch as launch
    from .block import pass_fence as pass_fence
    from .cache import EMPTY as EMPTY
    from .chosen import GpuChoice as GpuChoice
    from .chosen import chosen_preset as chosen_preset
    from .chosen import with_numbers as with_numbers
    from .entrance import class_of as class_of
    from .entrance import come as come
    from .entrance import end_route as end_route
    from .entrance import offer as offer
    from .entrance import pick as pick
    from .flow import release_message as release_message
    from .flow import take_cnp as take_cnp
    from .instruction_issue import issue as issue
    from .instruction_issue import leave as leave
    from .measured import LINKED as LINKED
    from .measured import ROWS as ROWS
    from .measured import Measured as Measured
    from .measured import blocks_of as blocks_of
    from .measured import read_measured as read_measured
    from .memory import reach_hbm as reach_hbm
    from .memory import reach_l2 as reach_l2
    from .named import named_gpus as named_gpus
    from .pause import FRAMES as FRAMES
    from .pause import go_on as go_on
    from .pause import has_buffer_deadlock as has_buffer_deadlock
    from .pause import mark_stuck as mark_stuck
    from .pause import take_frame as take_frame
    from .response import come_back as come_back
    from .switch import at_switch as at_switch
    from .travel import channel_of as channel_of
    from .travel import next_link as next_link
    from .travel import onward as onward
    from .travel import slice_of as slice_of
    from .wire import free_buffer as free_buffer
    from .wire import least_wire_ps as least_wire_ps
    from .wire import look_again as look_again
    from .wire import wire_size as wire_size

__getattr__, __dir__ = lazy(__name__)
