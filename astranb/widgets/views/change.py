"""Changing a run: what can be changed, changes, and forks."""

from __future__ import annotations

import dataclasses
from typing import Any

from astranb.core.errors import AstranbError, InputError, near
from astranb.widgets.feed import Feed, Message, View
from astranb.widgets.session import CHANGES

__all__ = ["VIEW"]


def parameters(feed: Feed, content: dict[str, Any]) -> Message:
    """Answer with the parameters of the selected object and of the run, and their changes."""
    sim, path = feed.sim, str(content.get("path", ""))
    try:
        found = sim.parameters(path) if path else []
        kind = sim.inspect(path)["kind"] if path else ""
        title = sim.inspect(path)["path"] if path else ""
    except AstranbError as error:
        found, kind, title = [], "", str(error)
    return {
        "title": title,
        "kind": kind,
        "object": [dataclasses.asdict(parameter) for parameter in found],
        "run": [dataclasses.asdict(parameter) for parameter in sim.parameters()],
        "edits": sim.edits,
        "events": sim.events,
    }, []


def fork(feed: Feed, content: dict[str, Any]) -> Message:
    """Fork with changes, and show the two beside each other; what is wrong is the answer's error."""
    changes = content.get("changes")
    if not isinstance(changes, dict):
        raise InputError("a fork needs changes", where="fork")
    if feed.workbench is None:
        raise InputError("no workbench shows this run", where="fork")
    feed.workbench.fork({str(path): value for path, value in changes.items()})
    return {"made": True}, []


def apply(feed: Feed, content: dict[str, Any]) -> Message:
    """Carry out a change now; what is wrong is the answer's error, beside the control that asked."""
    verb = str(content.get("verb"))
    if verb not in CHANGES:
        raise InputError(f"no such change: {verb!r}", where="change", hint=near(verb, CHANGES))
    if feed.workbench is not None:
        feed.workbench.follow()
    feed.session.perform(verb, dict(content.get("options", {})))
    return {"status": feed.session.status}, []


VIEW = View(Feed, {"parameters": parameters, "fork": fork, "apply": apply})
