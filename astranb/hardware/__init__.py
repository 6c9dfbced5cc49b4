"""Floor 1: devices as data. One readable file for each, with a source and a kind for every number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .collective_tables import MeasuredCollective as MeasuredCollective
    from .collective_tables import measured_collectives as measured_collectives
    from .gpu import PRECISIONS as PRECISIONS
    from .gpu import Gpu as Gpu
    from .gpu import Preset as Preset
    from .gpu_files import DEFAULT_GPU as DEFAULT_GPU
    from .gpu_files import GPU_FILES as GPU_FILES
    from .gpu_files import GPU_FORMAT as GPU_FORMAT
    from .gpu_files import GPUS as GPUS
    from .gpu_files import PRESETS as PRESETS
    from .gpu_files import SHORT_NAMES as SHORT_NAMES
    from .gpu_files import GpuDevice as GpuDevice
    from .gpu_files import gpu_named as gpu_named
    from .gpu_files import preset as preset
    from .gpu_files import read_gpu as read_gpu
    from .gpu_files import suggested_gpu as suggested_gpu
    from .gpu_files import write_preset as write_preset
    from .gpu_parts import GpuCosts as GpuCosts
    from .gpu_parts import GpuLibrary as GpuLibrary
    from .gpu_parts import GpuMemory as GpuMemory
    from .gpu_parts import Host as Host
    from .gpu_parts import Interconnect as Interconnect
    from .reader import FOLDER as FOLDER
    from .reader import KINDS as KINDS
    from .reader import Provenance as Provenance
    from .reader import check_header as check_header
    from .reader import check_ranges as check_ranges
    from .reader import checked_name as checked_name
    from .reader import device_file as device_file
    from .reader import device_names as device_names
    from .reader import is_file_name as is_file_name
    from .reader import number_field as number_field
    from .reader import quantities as quantities
    from .reader import read_device_file as read_device_file
    from .reader import read_section as read_section
    from .reader import text_field as text_field
    from .reader import unit_of as unit_of
    from .reader import write_device_file as write_device_file

__getattr__, __dir__ = lazy(__name__)
