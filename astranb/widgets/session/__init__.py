"""Control of a simulation by its views: commands, playing, long answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .background import background_of as background_of
    from .commands import CHANGES as CHANGES
    from .commands import COMMANDS as COMMANDS
    from .commands import UNITS as UNITS
    from .session import PLAYING as PLAYING
    from .session import Owner as Owner
    from .session import Session as Session
    from .session import session_of as session_of

__getattr__, __dir__ = lazy(__name__)
