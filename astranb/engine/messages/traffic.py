"""Traffic of ASTRA-sim 2.0's workloads: by collective, dimension and link."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.net import FULLY_CONNECTED

from .flights import flights
from .instances import instances
from .link_ends import dimension_of, ends_of
from .state import MessageState

__all__ = ["collectives", "dimension", "job_links", "links"]


def dimension(engine: MessageState, dim: int) -> dict[str, Any]:
    """Return the traffic of a dimension; ``utilisation`` is the share of all its links' bandwidth."""
    m = engine.machine
    row, npus = m.dims[dim], len(m.npus)
    mine: Any = m.traffic[dim :: len(m.dims)] if engine.recording else m.traffic[:0]
    links = npus * (int(row.nodes) - 1) if row.kind == FULLY_CONNECTED else 2 * npus
    could = links * float(row.rate_Bpns) * max(1, engine.time_ps // 1000)
    return {
        "dimension": dim,
        "shape": f"{engine.about.topology[dim]} of {int(row.nodes)}",
        "links": links,
        "bandwidth_Bps": float(row.rate_Bpns) * 1e9,
        "latency_ns": float(row.latency_ns),
        "messages": int(mine.messages.sum()),
        "bytes": int(mine.bytes.sum()),
        "link_bytes": int(mine.crossed.sum()),
        "utilisation": int(mine.crossed.sum()) / could if could else 0.0,
    }


def collectives(engine: MessageState) -> list[dict[str, Any]]:
    """A row for each collective, over its ranks."""
    m, about = engine.machine, engine.about
    number, (starts, ends) = instances(engine), engine.times_ps()
    some = np.flatnonzero(number >= 0)
    some = some[np.argsort(number[some], kind="stable")]
    parts = np.split(some, np.flatnonzero(np.diff(number[some])) + 1) if len(some) else []
    rows = []
    for part in parts:
        of: Any = m.operations[part]
        first, last, end = int(starts[part].min()), int(starts[part].max()), int(ends[part].max())
        done = bool((ends[part] >= 0).all())
        row = int(part[0])
        rows.append(
            {
                "name": about.label(row), "collective": about.what(row), "bytes": int(about.size[row]),
                "group": int(of.group[0]), "ranks": len(part), "chunks": int(of.streams.max()),
                "start_ps": first, "last_start_ps": last, "end_ps": end if done else -1,
                "skew_ps": last - first, "done": done,
                "algbw_Bps": int(about.size[row]) * 1e12 / (end - last) if done and end > last else 0.0,
            }
        )  # fmt: skip
    return sorted(rows, key=lambda r: (r["start_ps"], r["group"]))


def links(engine: MessageState) -> list[dict[str, Any]]:
    """A row for each directed link that carried something."""
    m = engine.machine
    now = max(1, engine.time_ps // 1000)
    return [
        {
            "link": engine.link_path(link), **_ends(engine, link),
            "dimension": dimension_of(m, link),
            "messages": int(m.used[link].messages), "bytes": int(m.used[link].bytes),
            "busy_ps": int(m.used[link].busy_ns) * 1000,
            "utilisation": min(1.0, int(m.used[link].busy_ns) / now),
        }
        for link in np.flatnonzero(m.used.messages).tolist()
    ]  # fmt: skip


def _ends(engine: MessageState, link: int) -> dict[str, str]:
    return dict(zip(("source", "target"), ends_of(engine.about, engine.machine, link), strict=True))


def job_links(engine: MessageState) -> list[dict[str, Any]]:
    """A row for each job and link that it sends over, with congestion and a recording.

    ``jobs`` is how many jobs send over the link; ``complete``, whether the recording still has all messages.
    """
    if not (engine.machine.config[0].congestion and engine.recording):
        return []
    found = flights(engine, 0)
    job_of = np.full(engine.ranks, -1)
    for number, job in enumerate(engine.jobs):
        job_of[list(job.ranks)] = number
    sent = found.flights
    keys = np.stack([sent.link, job_of[sent.source]])
    unique, which = np.unique(keys, axis=1, return_inverse=True)
    count, size = np.bincount(which.reshape(-1)), np.zeros(unique.shape[1], np.int64)
    np.add.at(size, which.reshape(-1), sent.bytes)
    sharing = np.bincount(unique[0], minlength=1)
    return [
        {
            "link": engine.link_path(link), **_ends(engine, link),
            "job": engine.jobs[job].name, "messages": messages, "bytes": carried,
            "jobs": int(sharing[link]), "complete": found.first == 0,
        }
        for (link, job), messages, carried in zip(
            unique.T.tolist(), count.tolist(), size.tolist(), strict=True
        )
    ]  # fmt: skip
