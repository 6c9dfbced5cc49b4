"""Floor 2: the fabric. Links, switches and routes, compiled from an infrastructure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Dcqcn", "Ecn", "Fabric", "Fault", "Network", "Pfc", "Roce", "compile_fabric"]

if TYPE_CHECKING:
    from ._fabric import Fabric as Fabric
    from ._fabric import compile_fabric as compile_fabric
    from ._options import Fault as Fault
    from ._options import Network as Network
    from ._roce import Dcqcn as Dcqcn
    from ._roce import Ecn as Ecn
    from ._roce import Pfc as Pfc
    from ._roce import Roce as Roce

# Whoever needs a network without links and routes loads neither these nor InfraGraph.
_LAZY = {
    "Dcqcn": "_roce",
    "Ecn": "_roce",
    "Fabric": "_fabric",
    "Fault": "_options",
    "Network": "_options",
    "Pfc": "_roce",
    "Roce": "_roce",
    "compile_fabric": "_fabric",
}


def __getattr__(name: str) -> Any:
    """Load a part when it is first used."""
    if name not in _LAZY:
        message = f"module 'astranb.net' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
