"""The hash of everything simulated: runs in the same state have the same one, in a page as in Python."""

from __future__ import annotations

from typing import Any

from astranb.widgets.feed import Feed, Message, View

__all__ = ["VIEW"]


def answer(feed: Feed, options: dict[str, Any]) -> Message:
    """Hash the state at ``at_ps`` (null: now): 32 hex digits."""
    return {"hash": feed.session.at(options.get("at_ps")).state_hash()}, []


VIEW = View(Feed, {"hash": answer})
