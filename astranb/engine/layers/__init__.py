"""The layer engine: ASTRA-sim 1.0's training loops, with one NPU that represents all."""

from .cacheline_inputs import cacheline_inputs
from .engine import LayerEngine
from .result import LAYER_COLUMNS, LayerResult
from .result_files import result_tables, write_tables
from .run import LayerRun

__all__ = [
    "LAYER_COLUMNS",
    "LayerEngine",
    "LayerResult",
    "LayerRun",
    "cacheline_inputs",
    "result_tables",
    "write_tables",
]
