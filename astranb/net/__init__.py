"""Floor 2: the fabric. Links, switches and routes, compiled from an infrastructure."""

from ._fabric import Fabric, compile_fabric
from ._options import Fault, Network

__all__ = ["Fabric", "Fault", "Network", "compile_fabric"]
