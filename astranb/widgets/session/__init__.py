"""Control of a simulation by its views: commands, playing, long answers."""

from .background import background_of
from .commands import CHANGES, COMMANDS, UNITS
from .session import PLAYING, Owner, Session, session_of

__all__ = ["CHANGES", "COMMANDS", "PLAYING", "UNITS", "Owner", "Session", "background_of", "session_of"]
