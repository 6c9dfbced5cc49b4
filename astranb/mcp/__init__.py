"""Tools for assistants: a simulation that a program drives over the Model Context Protocol (MCP)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .server import ServedSimulation as ServedSimulation
    from .server import serve as serve
    from .server import serve_port as serve_port
    from .server import serve_stdio as serve_stdio
    from .tools import Limits as Limits
    from .tools import Tools as Tools

__getattr__, __dir__ = lazy(__name__)
