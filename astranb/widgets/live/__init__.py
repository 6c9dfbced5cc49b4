"""Pages that simulate without Python: what they are given (``static/live/`` is what they run)."""

from .description import live

__all__ = ["live"]
