"""Floor 2: the fabric. Links, switches and routes, compiled from an infrastructure."""

from ._fabric import Fabric, compile_fabric

__all__ = ["Fabric", "compile_fabric"]
