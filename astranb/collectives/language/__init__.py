"""The language of algorithms: programs, their source lines, and the collectives that they implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .collective import COLLECTIVES as COLLECTIVES
    from .collective import collective_kind as collective_kind
    from .collective import promised as promised
    from .contract import Contract as Contract
    from .fifo import BUFFER_BYTES as BUFFER_BYTES
    from .fifo import FIRST_SLOT as FIRST_SLOT
    from .fifo import NCCL_STEPS as NCCL_STEPS
    from .fifo import POSTED_LINES as POSTED_LINES
    from .fifo import Cut as Cut
    from .fifo import first_of_slot as first_of_slot
    from .fifo import index_name as index_name
    from .fifo import nccl_cut as nccl_cut
    from .layout import ChunkLayout as ChunkLayout
    from .listing import block_numbers as block_numbers
    from .listing import in_order as in_order
    from .operation import OPERATION_COLUMNS as OPERATION_COLUMNS
    from .operation import pack_place as pack_place
    from .operation import unpack_flags as unpack_flags
    from .operation import unpack_place as unpack_place
    from .parameters import AlgorithmParameter as AlgorithmParameter
    from .parameters import ParameterValue as ParameterValue
    from .parameters import algorithm_name as algorithm_name
    from .parameters import bind_parameters as bind_parameters
    from .parameters import check_values as check_values
    from .parameters import parameters_given as parameters_given
    from .parameters import parameters_of as parameters_of
    from .parameters import title_of as title_of
    from .parameters import unwrapped as unwrapped
    from .program import BUFFERS as BUFFERS
    from .program import BYTES_PER_OPERATION as BYTES_PER_OPERATION
    from .program import KINDS as KINDS
    from .program import PROTOCOLS as PROTOCOLS
    from .program import SWITCH_READS as SWITCH_READS
    from .program import SWITCH_WRITES as SWITCH_WRITES
    from .program import Block as Block
    from .program import Buffer as Buffer
    from .program import Chunk as Chunk
    from .program import Chunks as Chunks
    from .program import Connection as Connection
    from .program import Operation as Operation
    from .program import Origin as Origin
    from .program import Program as Program
    from .program import Rank as Rank
    from .program import Semaphore as Semaphore
    from .program import TileShape as TileShape
    from .protocol import check_protocol as check_protocol
    from .reduction import Reduction as Reduction
    from .source import ProgramError as ProgramError
    from .source import ProgramSource as ProgramSource
    from .source import SourceLine as SourceLine
    from .source import failure as failure
    from .source import line_of_error as line_of_error
    from .source import nearest_name as nearest_name
    from .source import source_of as source_of
    from .source import text_name as text_name
    from .text import FORBIDDEN as FORBIDDEN
    from .text import compiled as compiled
    from .text import line_of as line_of
    from .text import text_parameters as text_parameters

__getattr__, __dir__ = lazy(__name__)
