"""The exchange of experts (MoE): who gets which token, and the kernels that bring it there."""

from .dispatch_combine import EXCHANGES, Exchange, combine, dispatch
from .routing import NO_EXPERT, Routing, draw_routing, read_routing
from .tokens import Tokens

__all__ = [
    "EXCHANGES",
    "NO_EXPERT",
    "Exchange",
    "Routing",
    "Tokens",
    "combine",
    "dispatch",
    "draw_routing",
    "read_routing",
]
