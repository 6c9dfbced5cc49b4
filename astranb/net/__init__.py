"""Floor 2: the fabric. Links, switches and routes, compiled from an infrastructure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .fabric import Fabric as Fabric
    from .fabric import compile_fabric as compile_fabric
    from .options import Fault as Fault
    from .options import Network as Network
    from .roce import Dcqcn as Dcqcn
    from .roce import Ecn as Ecn
    from .roce import Pfc as Pfc
    from .roce import Roce as Roce

# A network of dimensions needs neither links nor InfraGraph.
__getattr__, __dir__ = lazy(__name__)
