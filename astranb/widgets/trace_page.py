"""One file that shows the timeline of recorded traces in any browser, without a network."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

from astranb.chakra import RecordedTracks
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.version import __version__
from astranb.widgets.views import names_of, rows

from .assets import RECORDED_MODULES, TRACED_PLAYER
from .feed import Columns, TraceFeed, pack
from .offline_page import wrapped

__all__ = ["write_trace_timeline"]

_MOST: Final = 400_000


def write_trace_timeline(tracks: RecordedTracks, path: str | Path, *, title: str = "traces") -> Path:
    """Write the page of a timeline, whole or not at all.

    Parameters
    ----------
    tracks : RecordedTracks
        Of at most 400,000 spans.
    path : str or Path
    title : str

    Raises
    ------
    InputError
        There are more spans.
    """
    if len(tracks) > _MOST:
        hint = "write OUT.json.gz for Perfetto, or show it with anb.TraceTimeline"
        raise InputError(f"{len(tracks):,} spans, and a page holds {_MOST:,}", where=str(path), hint=hint)
    feed, columns = TraceFeed(tracks, title), Columns()
    known: dict[str, int] = {}
    label = [known.setdefault(name, len(known)) for name in names_of(tracks, np.arange(len(tracks)))]
    own = pack(
        "recorded_tracks", track=tracks.track, state=tracks.state, label=label,
        start=tracks.start_ns * 1000.0, end=tracks.end_of_ns * 1000.0,
    )  # fmt: skip
    rank, state, start, end = tracks.bands()
    bands = pack("recorded_tracks", track=rank, state=state, start=start * 1000.0, end=end * 1000.0)
    header: dict[str, Any] = {
        "scene": feed.scene()[0],
        "state": feed.state()[0],
        "timeline": feed.timeline()[0],
        "rows": rows(feed, {})[0],
        "names": list(known),
        "tracks": columns.add(*own),
        "ranks": columns.add(*bands),
        "modules": RECORDED_MODULES,
    }
    header["buffers"] = columns.buffers
    text = wrapped(
        header,
        title=title,
        still=f"<pre>{escape(feed.counts)}</pre>",
        caption=f"{feed.counts}: {tracks.how}. Written by astranb {__version__}.",
        player=TRACED_PLAYER,
    )
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return Path(path)
