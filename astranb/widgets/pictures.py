"""The picture of a run at a moment."""

from __future__ import annotations

from astranb.core.colours import Colours
from astranb.core.errors import InputError, near
from astranb.core.svg import Picture
from astranb.core.units import time_ps

from .feed import Feed, LineFeed, OperationFeed
from .operation_picture import graph_picture, rank_picture
from .topology_picture import still

__all__ = ["picture_of"]


def picture_of(
    feed: Feed, at: int | str | None = None, *, dark: bool = False, what: str = "", rank: int = 0
) -> Picture:
    """Draw a run as it is, or as it was at a moment; options as for :meth:`.Files.to_svg`.

    Raises
    ------
    InputError
        The moment has not been simulated, or there is no such picture or rank.
    """
    sim = feed.sim
    at_ps = None if at is None else time_ps(at, where="at")
    if at_ps is not None and not 0 <= at_ps <= sim.now_ps:
        raise InputError(f"{at_ps} ps has not been simulated", where="at", hint=f"0 to {sim.now_ps} ps")
    if isinstance(feed, OperationFeed):
        _require(what or "ranks", ("ranks", "graph"), rank, sim.ranks)
        now_ps, colours = sim.now_ps if at_ps is None else at_ps, Colours.of(dark)
        return (
            graph_picture(feed, now_ps, colours, rank)
            if what == "graph"
            else rank_picture(feed, now_ps, colours)
        )
    assert isinstance(feed, LineFeed)  # noqa: S101 - the only other one
    _require(what or "topology", ("topology",), rank, sim.ranks)
    return still(sim, feed.layout, at_ps, dark=dark)


def _require(what: str, known: tuple[str, ...], rank: int, ranks: int) -> None:
    if what not in known:
        raise InputError(f"there is no picture {what!r}", where="to_svg", hint=near(str(what), known))
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < ranks:
        raise InputError(f"there is no rank {rank!r}", where="to_svg", hint=f"0 to {ranks - 1}")
