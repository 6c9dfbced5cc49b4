"""Compute times of layer shapes on a systolic array, and layer tables made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .array import DATAFLOWS as DATAFLOWS
    from .array import GOOGLE_TPU as GOOGLE_TPU
    from .array import Array as Array
    from .array import Gemm as Gemm
    from .array import convolution as convolution
    from .array import roofline_ns as roofline_ns
    from .shapes import POLICIES as POLICIES
    from .shapes import MatrixProduct as MatrixProduct
    from .shapes import layer_table as layer_table
    from .shapes import read_shapes as read_shapes

__getattr__, __dir__ = lazy(__name__)
