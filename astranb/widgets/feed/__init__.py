"""Messages to views, by cache lines or by operations."""

from astranb.engine.cacheline import CacheLineEngine
from astranb.widgets.session import Session

from .columns import QUICK_EVENTS, Columns, answers
from .feed import VERSION, Feed
from .lines import LineFeed
from .messages import COLUMNS, Message, pack, unpack
from .operations import OperationFeed
from .recorded import TraceFeed
from .view import NOW, Answer, Options, View

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
    "TraceFeed",
    "View",
    "answers",
    "feed_of",
    "pack",
    "unpack",
]


AnyFeed = LineFeed | OperationFeed


def feed_of(session: Session) -> AnyFeed:
    """Make the feed of one view."""
    return (LineFeed if isinstance(session.sim.engine, CacheLineEngine) else OperationFeed)(session)
