"""The exchange of experts (MoE): who gets which token, and the kernels that bring it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .dispatch_combine import EXCHANGE_KERNELS as EXCHANGE_KERNELS
    from .dispatch_combine import EXCHANGE_LAUNCH as EXCHANGE_LAUNCH
    from .dispatch_combine import Exchange as Exchange
    from .dispatch_combine import combine as combine
    from .dispatch_combine import dispatch as dispatch
    from .routing import NO_EXPERT as NO_EXPERT
    from .routing import Routing as Routing
    from .routing import draw_routing as draw_routing
    from .routing import read_routing as read_routing
    from .tokens import Tokens as Tokens

__getattr__, __dir__ = lazy(__name__)
