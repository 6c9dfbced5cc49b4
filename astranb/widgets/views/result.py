"""Time of a run and where it went, in two lines: shown when it has ended."""

from __future__ import annotations

from typing import Any

from astranb.core.units import format_bandwidth, format_time
from astranb.engine.cacheline import TRACK_STATES
from astranb.engine.operations import ACTIVITIES
from astranb.sim import Simulation
from astranb.widgets.feed import NOW, Feed, Message, OperationFeed, View

from .ranks import sums_of

__all__ = ["VIEW"]

_LEAST_SHARE = 0.0005
_Fact = tuple[str, str, str]  # what, how much, the object to select


def outcome(feed: Feed, options: dict[str, Any]) -> Message:
    """Times and bandwidths, what bounds the run, and the parts of the time, up to ``at_ps``."""
    sim = feed.session.at(options.get("at_ps"))
    names, shares, whose = _parts_of(feed, sim)
    parts = enumerate(zip(names, shares, strict=True))
    return {
        "finished": sim.finished,
        "facts": _facts_of(sim),
        "parts": [[name, number, share] for number, (name, share) in parts if share > _LEAST_SHARE],
        "whose": whose,
    }, []


def _parts_of(feed: Feed, sim: Simulation) -> tuple[list[str], list[float], str]:
    """Shares of the time by what was done, as in the lanes: of SMs in use (as was recorded), or of ranks."""
    if isinstance(feed, OperationFeed):
        sums = sums_of(feed, sim).sum(axis=0)
        return list(ACTIVITIES), (sums / max(1, sums.sum())).tolist(), "ranks"
    spent = feed.sim.aggregate(0, sim.now_ps).shares()
    names = [*TRACK_STATES, "idle"]
    return names, [spent[name] for name in names], "SMs in use"


def _facts_of(sim: Simulation) -> list[_Fact]:
    result = sim.result
    facts: list[_Fact] = [("time", format_time(result.time_ps), "")]
    rates = (("algbw", result.algbw_Bps), ("busbw", result.busbw_Bps))
    facts += [(name, format_bandwidth(rate), "") for name, rate in rates if rate is not None]
    if sim.fidelity != "cacheline":
        rows = result.per_rank()
        slow = max(rows, key=lambda row: (row["end_ps"], -row["rank"]))
        most = max(rows, key=lambda row: (row["exposed_comm_ps"], -row["rank"]))
        slowest, exposed = f"rank[{slow['rank']}]", f"rank[{most['rank']}]"
        facts += [
            ("slowest", f"rank {slow['rank']}, {format_time(slow['end_ps'])}", slowest),
            ("its compute", format_time(slow["compute_ps"]), ""),
            (
                "most exposed communication",
                f"rank {most['rank']}, {format_time(most['exposed_comm_ps'])}",
                exposed,
            ),
        ]
    bound = sim.engine.breakdown().bound
    if bound is not None and result.time_ps:
        share = bound.alone_ps / result.time_ps
        facts.append(("bandwidth bound", f"{share:.0%} of the time, {bound.name}", bound.path))
    return facts


VIEW = View(Feed, {"outcome": outcome}, offline={"outcome": (NOW,)})
