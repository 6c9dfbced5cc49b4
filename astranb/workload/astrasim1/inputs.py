"""All inputs of a run of ASTRA-sim 1.0."""

from __future__ import annotations

from dataclasses import dataclass

from ._layers import Workload
from ._network import HierarchicalNetwork
from ._system import System

__all__ = ["LayerWorkload"]


@dataclass(frozen=True)
class LayerWorkload:
    """A layer table, and the system and the network that it runs on."""

    table: Workload
    system: System
    network: HierarchicalNetwork
    passes: int = 1
    congestion: bool = False
    title: str = "workload"
