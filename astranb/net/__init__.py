"""Floor 2: the fabric. Links, switches and routes, compiled from an infrastructure."""

from ._fabric import Fabric, compile_fabric
from ._options import Fault, Network
from ._roce import Dcqcn, Ecn, Pfc, Roce

__all__ = ["Dcqcn", "Ecn", "Fabric", "Fault", "Network", "Pfc", "Roce", "compile_fabric"]
