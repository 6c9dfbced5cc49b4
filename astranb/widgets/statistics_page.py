"""One file that shows the statistics of a job's traces in any browser, without a network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from astranb.chakra import ACTIVITIES, Trace, TraceStatistics, nothing_takes_time
from astranb.core.files import whole_file
from astranb.core.plural import plural
from astranb.core.units import format_time
from astranb.core.version import __version__

from .assets import COUNTED_MODULES, COUNTED_PLAYER
from .offline_page import wrapped

__all__ = ["write_statistics"]

_MOST_POINTS = 4000
_MOST_ROWS = 2000
_MOST_NAME = 300


def write_statistics(
    traces: Sequence[Trace], found: TraceStatistics, path: str | Path, *, title: str = "traces"
) -> Path:
    """Write a page with pictures of statistics, whole or not at all.

    Parameters
    ----------
    traces : sequence of Trace
        Those that were counted.
    found : TraceStatistics
    path : str or Path
    title : str

    Raises
    ------
    InputError
        Nothing takes time.
    """
    if not found.makespan_ns:
        raise nothing_takes_time(title)
    document = found.as_document()
    for row in document["operators"]:
        row["name"] = row["name"][:_MOST_NAME].encode("utf-8", "replace").decode()
    shown = {name: rows[:_MOST_ROWS] if isinstance(rows, list) else rows for name, rows in document.items()}
    header: dict[str, Any] = {
        "title": title,
        "counted": shown | {"activities": list(ACTIVITIES), "points": _points(traces, found)},
        "modules": COUNTED_MODULES,
        "buffers": [],
    }
    about = f"{plural(found.ranks, 'rank')}, {format_time(found.makespan_ns * 1000)}"
    still = "\n".join(
        f"rank {row['rank']}: "
        + ", ".join(f"{name} {row[f'{name}_ns'] / 1e6:.3f} ms" for name in (*ACTIVITIES, "idle"))
        for row in shown["by_rank"]
    )
    text = wrapped(
        header,
        title=title,
        still=f"<pre>{escape(still)}</pre>",
        caption=f"{about}: {found.how}. Counted with astranb {__version__}.",
        player=COUNTED_PLAYER,
    )
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return Path(path)


def _points(traces: Sequence[Trace], found: TraceStatistics) -> dict[str, Any]:
    """The computations of the roofline, of many the longest."""
    points = found.roofline
    kept = np.sort(np.argsort(-points["duration_ns"], kind="stable")[:_MOST_POINTS])
    columns = {name: points[name][kept].tolist() for name in ("flops", "bytes", "duration_ns", "rank")}
    names: dict[str, int] = {}
    place = []
    for rank, row in zip(columns["rank"], points["row"][kept].tolist(), strict=True):
        name = (traces[rank].names[row] or "")[:_MOST_NAME].encode("utf-8", "replace").decode()
        place.append(names.setdefault(name, len(names)))
    return {**columns, "name": place, "names": list(names), "all": len(points["flops"])}
