"""Messages to views, by cache lines or by operations."""

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy
from astranb.engine.cacheline import CacheLineEngine
from astranb.widgets.session import Session

from .columns import QUICK_EVENTS, Columns, answers
from .feed import VERSION, Feed
from .lines import LineFeed
from .messages import COLUMNS, Message, pack, unpack
from .operations import OperationFeed
from .recorded import TraceFeed
from .view import NOW, Answer, Options, Panel, View

__all__ = [
    "COLUMNS",
    "NOW",
    "QUICK_EVENTS",
    "VERSION",
    "Answer",
    "AnyFeed",
    "Columns",
    "Feed",
    "LineFeed",
    "Message",
    "OperationFeed",
    "Options",
    "Panel",
    "TraceFeed",
    "View",
    "answers",
    "feed_of",
    "pack",
    "unpack",
]

if TYPE_CHECKING:
    from .modules import ModuleAnswers as ModuleAnswers
    from .modules import attributes_message as attributes_message
    from .modules import facts_of as facts_of
    from .modules import shown_text as shown_text
    from .modules import tree_message as tree_message

__getattr__, __dir__ = lazy(__name__)


AnyFeed = LineFeed | OperationFeed


def feed_of(session: Session) -> AnyFeed:
    """Make the feed of one view."""
    return (LineFeed if isinstance(session.sim.engine, CacheLineEngine) else OperationFeed)(session)
