"""What describes a run for a live page: the compiled loop, the tables at the start, and names."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from astranb.core.ahead import modules
from astranb.engine.cacheline import CacheLineEngine
from astranb.engine.layers import LayerEngine
from astranb.engine.messages import MessageEngine
from astranb.widgets.feed import AnyFeed, Columns, answers, feed_of
from astranb.widgets.session import session_of
from astranb.widgets.views import always, answers_of, offline_questions

from . import cacheline, layers, messages
from .saved_file import saved_file
from .tables import sent

__all__ = ["live"]

_ENGINES: dict[type, tuple[str, ModuleType]] = {
    CacheLineEngine: ("cacheline", cacheline),
    MessageEngine: ("messages", messages),
    LayerEngine: ("layers", layers),
}


def live(feed: AnyFeed, columns: Columns) -> dict[str, Any]:
    """Describe a simulation at its start, for ``static/live/kernel.js``."""
    start = feed.sim.fork()
    start.driver.restart()
    engine = start.driver.engine
    kind, found = _ENGINES[type(engine)]
    tables = sent(found.tables(engine), columns)
    sizes = {table["name"]: table["size"] for table in tables}
    arguments = [
        (name.removeprefix("="), 8 if name.startswith("=") else sizes[name]) for name in found.ARGUMENTS
    ]
    return {
        "engine": kind,
        "fidelity": engine.fidelity,
        "symbol": found.ENTRY.symbol,
        "wasm": columns.add(modules()[found.ENTRY.name])[0],
        "tables": tables,
        "arguments": arguments,
        "units": dict(engine.units),
        "slice_events": engine.slice_events,
        "replay_bytes": engine.replay_bytes,
        "title": feed.title,
        "speed": feed.session.speed,
        "questions": sorted(answers_of(feed)),
        "answers": _fixed_answers(feed, columns),
        "about": found.about(feed_of(session_of(start)), columns),
        "inputs": engine.digest(),
        "saved": saved_file(start.driver, found.tables(engine), columns),
    }


def _fixed_answers(feed: AnyFeed, columns: Columns) -> list[dict[str, Any]]:
    """Answers that do not change with time."""
    fixed = always(feed)
    asked = {question: options for question, options in offline_questions(feed).items() if question in fixed}
    return answers(feed, columns, answers_of(feed), asked, fixed)
