"""The layer engine: ASTRA-sim 1.0's training loops, with one NPU that represents all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .by_cache_lines import cacheline_inputs as cacheline_inputs
    from .engine import LayerEngine as LayerEngine
    from .inputs import LayerInputs as LayerInputs
    from .result import LAYER_COLUMNS as LAYER_COLUMNS
    from .result import LayerResult as LayerResult
    from .result_files import result_tables as result_tables
    from .result_files import write_tables as write_tables
    from .run import LayerRun as LayerRun

__getattr__, __dir__ = lazy(__name__)
