"""Compute times of layer shapes on a systolic array, and layer tables made from them."""

from __future__ import annotations

from .array import DATAFLOWS, GOOGLE_TPU, Array, Gemm, convolution, roofline_ns
from .shapes import POLICIES, MatrixProduct, layer_table, read_shapes

__all__ = [
    "DATAFLOWS",
    "GOOGLE_TPU",
    "POLICIES",
    "Array",
    "Gemm",
    "MatrixProduct",
    "convolution",
    "layer_table",
    "read_shapes",
    "roofline_ns",
]
