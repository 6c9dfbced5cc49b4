"""Floor 2: the fabric. Links, switches and routes, compiled from an infrastructure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Dcqcn", "Ecn", "Fabric", "Fault", "Network", "Pfc", "Roce", "compile_fabric"]

if TYPE_CHECKING:
    from .fabric import Fabric as Fabric
    from .fabric import compile_fabric as compile_fabric
    from .options import Fault as Fault
    from .options import Network as Network
    from .roce import Dcqcn as Dcqcn
    from .roce import Ecn as Ecn
    from .roce import Pfc as Pfc
    from .roce import Roce as Roce

# Loaded on first use, so that a network of dimensions needs neither links nor InfraGraph.
_LAZY = {
    "Dcqcn": "roce",
    "Ecn": "roce",
    "Fabric": "fabric",
    "Fault": "options",
    "Network": "options",
    "Pfc": "roce",
    "Roce": "roce",
    "compile_fabric": "fabric",
}


def __getattr__(name: str) -> Any:
    """Load a part when it is first used."""
    if name not in _LAZY:
        message = f"module 'astranb.net' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
