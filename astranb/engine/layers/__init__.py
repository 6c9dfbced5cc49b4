"""The layer engine: ASTRA-sim 1.0's training loops, one NPU for all."""

from ._cacheline import lines_of
from ._csv import result_tables, write_tables
from ._engine import LayerEngine
from ._files import load, read_network
from ._plan import retime
from ._result import LAYER_COLUMNS, Result
from ._run import Run

__all__ = [
    "LAYER_COLUMNS",
    "LayerEngine",
    "Result",
    "Run",
    "lines_of",
    "load",
    "read_network",
    "result_tables",
    "retime",
    "write_tables",
]
