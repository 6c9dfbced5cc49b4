"""A systolic array as compute model: layers given as shapes become times, and a layer table."""

from __future__ import annotations

from ._array import DATAFLOWS, GOOGLE_TPU, Array, Gemm, convolution, roofline_ns
from ._table import POLICIES, Shape, layer_table, read_shapes

__all__ = [
    "DATAFLOWS",
    "GOOGLE_TPU",
    "POLICIES",
    "Array",
    "Gemm",
    "Shape",
    "convolution",
    "layer_table",
    "read_shapes",
    "roofline_ns",
]
