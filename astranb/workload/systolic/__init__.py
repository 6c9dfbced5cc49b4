"""Compute times of layer shapes on a systolic array, and layer tables made from them."""

from __future__ import annotations

from .array import DATAFLOWS, GOOGLE_TPU, Array, Gemm, convolution, roofline_ns
from .shapes import POLICIES, Shape, layer_table, read_shapes

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
