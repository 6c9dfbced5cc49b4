"""Blocks and rows arranged by tier: hosts, and above or between them what joins them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .blocks import COLUMN, ROW, WIDTH, PlacedBlock, rows_of

__all__ = ["Arranged", "arrange", "distances", "shelves"]

_STAGE = (1000.0, 480.0)  # about what a screen has room for, in pixels
_GAP = 26.0  # between blocks


@dataclass
class Arranged:
    """Places of everything: centre and width of each item; title, corner and size of each frame."""

    places: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    frames: list[tuple[str, float, float, float, float]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0

    def put(self, block: PlacedBlock, x: float, y: float) -> None:
        """Put a block with its corner at a place."""
        for item, (bx, by, wide) in block.places.items():
            self.places[item] = (x + bx, y + by, wide)
        if block.title:
            self.frames.append((block.title, x, y, block.width, block.height))


def distances(near: dict[int, set[int]], starts: Iterable[int]) -> dict[int, int]:
    """Hops from the nearest of some items to every one that can be reached."""
    found = dict.fromkeys(starts, 0)
    front = list(found)
    while front:
        following = []
        for item in front:
            for other in sorted(near.get(item, ())):
                if other not in found:
                    found[other] = found[item] + 1
                    following.append(other)
        front = following
    return found


def shelves(rows: Sequence[Sequence[PlacedBlock]]) -> Arranged:
    """Blocks in rows, each centred."""
    made = Arranged(width=max((_width(row) for row in rows), default=0.0))
    for row in rows:
        x = (made.width - _width(row)) / 2
        tall = max(block.height for block in row)
        for block in row:
            made.put(block, x, made.height + (tall - block.height) / 2)
            x += block.width + _GAP
        made.height += tall + _GAP
    made.height = max(0.0, made.height - _GAP)
    return made


def _width(row: Sequence[PlacedBlock]) -> float:
    return sum(block.width for block in row) + _GAP * (len(row) - 1)


def arrange(
    hosts: Sequence[PlacedBlock], upper: Sequence[Sequence[int]], near: dict[int, set[int]]
) -> Arranged:
    """Hosts and the tiers of what joins them, as large as a screen has room for.

    The hosts are below all tiers, or half of them above and half below, with as many in a row as makes
    boxes largest. ``upper`` holds the items of each tier, the one next to the hosts first; ``near`` the
    neighbours of each item.
    """
    best = (0.0, Arranged())
    for both in (False, True):
        for per_row in sorted({-(-len(hosts) // k) for k in range(1, len(hosts) + 1)}, reverse=True):
            if both and len(hosts) < 2:
                continue
            made = _with_tiers(hosts, upper, near, both, per_row)
            scale = min(_STAGE[0] / made.width, _STAGE[1] / made.height)
            if scale > best[0] * 1.02:
                best = scale, made
    return best[1]


def _with_tiers(
    hosts: Sequence[PlacedBlock],
    upper: Sequence[Sequence[int]],
    near: dict[int, set[int]],
    both: bool,
    per_row: int,
) -> Arranged:
    half = -(-len(hosts) // 2) if both else 0
    above = [block.flipped() for block in hosts[:half]]
    below = list(hosts[half:])
    side = {item: -1 for block in above for item in block.places}
    side |= {item: 1 for block in below for item in block.places}
    top: list[list[int]] = []
    bottom: list[list[int]] = []
    for level, tier in enumerate(upper):
        rows: dict[int, list[int]] = defaultdict(list)
        for item in tier:
            # A switch is placed with its neighbours; the last tier in the middle.
            lean = sum(side.get(other, 0) for other in near.get(item, ()))
            side[item] = -1 if both and lean < 0 else 1
            rows[side[item] if level < len(upper) - 1 else 1].append(item)
        top = [*top, *rows_of(rows[-1])]
        bottom = [*rows_of(rows[1]), *bottom]
    high = shelves(_chunks(above, per_row))
    low = shelves(_chunks(below, per_row))
    longest = max((len(row) for row in (*top, *bottom)), default=0)
    made = Arranged(width=max(high.width, low.width, longest * COLUMN / 2))
    for part, rows_after in ((high, [*top, *bottom]), (low, [])):
        shift = (made.width - part.width) / 2
        for item, (x, y, wide) in part.places.items():
            made.places[item] = (x + shift, y + made.height, wide)
        for title, x, y, w, h in part.frames:
            made.frames.append((title, x + shift, y + made.height, w, h))
        made.height += part.height
        for row in rows_after:
            _spread(made, row)
    return made


def _spread(made: Arranged, row: Sequence[int]) -> None:
    """A row over the whole width, below what there is."""
    step = made.width / len(row)
    for place, item in enumerate(row):
        made.places[item] = (step * (place + 0.5), made.height + ROW / 2, min(WIDTH, step - 14))
    made.height += ROW


def _chunks(blocks: Sequence[PlacedBlock], size: int) -> list[list[PlacedBlock]]:
    return [list(blocks[k : k + size]) for k in range(0, len(blocks), size)]
