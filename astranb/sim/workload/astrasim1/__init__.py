"""ASTRA-sim 1.0's layer tables under the verbs of a workload: one rank stands for all."""

from ._state import LayerState

__all__ = ["LayerState"]
