"""One file that simulates in any browser, without Python and without a network.

It holds what ``static/live/`` is given of a run (:func:`.live.live`), the modules of the page's kernel,
and those of the workbench, which are the same as a notebook's. ``static/live_page.js`` opens it.
"""

from __future__ import annotations

import math
from typing import Any, Final

from astranb import __version__
from astranb.core.errors import InputError
from astranb.core.svg import to_svg

from .assets import ENTRY, LIVE_MODULES, LIVE_PLAYER, MODULES
from .feed import AnyFeed, Columns
from .live import live
from .page import wrapped
from .pictures import picture_of

__all__ = ["live_page"]

_MOST_BYTES: Final = 2 * 10**9
"""Memory of a page: browsers give a tab little more."""
_GOING_BACK_BYTES: Final = 2**28
"""Most memory of the checkpoints of a page (``static/live/simulation.js``)."""


def live_page(feed: AnyFeed, shown: dict[str, Any]) -> str:
    """Write a page that simulates: it opens at the present moment, and goes on, back and elsewhere.

    Parameters
    ----------
    feed : Feed
        One that has sent nothing yet.
    shown
        What the workbench shows beside the run, by name.

    Raises
    ------
    InputError
        The machine takes more memory than a page has.
    """
    columns = Columns()
    described = live(feed, columns)
    needed = sum(table["rows"] * table["size"] for table in described["tables"])
    if needed > _MOST_BYTES:
        what = f"this machine takes {needed / 1e9:,.1f} GB of memory, and a page has 2 GB at most"
        raise InputError(what, where="to_html", hint="open it in JupyterLab, or simulate fewer GPUs")
    header = {
        "live": described,
        "engine": feed.engine,
        "state": _state(feed, shown),
        **columns.placed(),
        "modules": MODULES,
        "kernel": LIVE_MODULES,
        "entry": ENTRY,
    }
    return wrapped(
        header,
        title=feed.title,
        still=to_svg(picture_of(feed)),
        caption=f"This page simulates with astranb {__version__}, as JupyterLab does: nothing is installed, "
        f"and no network is used. It takes about {math.ceil(needed / 1e6):,} MB of memory, and up to "
        f"{_GOING_BACK_BYTES / 1e6:,.0f} MB more for going back.",
        player=LIVE_PLAYER,
        simulates=True,
    )


def _state(feed: AnyFeed, shown: dict[str, Any]) -> dict[str, Any]:
    """Give the present state, for ``static/live/shared_state.js``."""
    sim = feed.sim
    edits = [(edit, ("events", "at_ps", "path", "value")) for edit in sim.driver.edits]
    points = [
        (point, ("text", "at_ps", "rows", "object", "enabled")) for point in sim.breakpoints if not point.call
    ]
    return {
        "events": sim.events,
        "edits": [{name: getattr(edit, name) for name in names} for edit, names in edits],
        "breakpoints": [{name: getattr(point, name) for name in names} for point, names in points],
        "watches": [watch.text for watch in sim.watches if watch.field],
        "hash": sim.state_hash(),
        "shown": {**shown, "cursor_ps": -1, "window_ps": [], "speed": feed.session.speed},
    }
