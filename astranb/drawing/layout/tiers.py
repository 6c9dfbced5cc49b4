"""Blocks and rows arranged by tier: hosts, and above or between them what joins them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .blocks import COLUMN, LOW_ROW, RAIL_ROW, WIDTH, PlacedBlock, rows_of

__all__ = ["Arranged", "arrange", "distances", "shelves"]

_STAGE = (1000.0, 480.0)  # about what a screen has room for, in pixels
_GAP = 26.0  # between blocks
_MOST_RAILS, _MOST_FRAMES = 8, 8


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


def shelves(rows: Sequence[Sequence[PlacedBlock]], shift: float = 0.0) -> Arranged:
    """Blocks in rows, each centred; every other row is shifted, so that links pass between its blocks."""
    shift = shift if len(rows) > 1 else 0.0
    made = Arranged(width=max((_width(row) for row in rows), default=0.0) + shift)
    for number, row in enumerate(rows):
        x = (made.width - shift - _width(row)) / 2 + shift * (number % 2)
        tall = max(block.height for block in row)
        for block in row:
            made.put(block, x, made.height + (tall - block.height) / 2)
            x += block.width + _GAP
        made.height += tall + _GAP
    made.height = max(0.0, made.height - _GAP)
    return made


def _width(row: Sequence[PlacedBlock]) -> float:
    width = 0.0
    for block in row:  # in this order: the sum is the same in every version of Python, and in a page
        width += block.width
    return width + _GAP * (len(row) - 1)


def arrange(
    hosts: Sequence[PlacedBlock], upper: Sequence[Sequence[int]], near: dict[int, set[int]]
) -> Arranged:
    """Hosts and the tiers of what joins them, as large as a screen has room for.

    The hosts are below all tiers, or half of them above and half below, with as many in a row as makes
    boxes largest; single boxes beside frames are above them. ``upper`` holds the items of each tier, the one
    next to the hosts first; ``near`` the neighbours of each item.
    """
    best = (0.0, Arranged())
    # Links to rails are vertical: they would cross the frames of a row in between.
    framed = [block for block in hosts if block.title] if len(upper[0]) <= _MOST_RAILS else []
    single = [block for block in hosts if not block.title]
    one_row = bool(framed) and len(hosts) <= _MOST_FRAMES
    halves = {0, -(-len(hosts) // 2)} - ({len(hosts)} if len(hosts) < 2 else set())  # above the tiers
    if framed and single:
        hosts, halves, one_row = [*single, *framed], {len(single)}, False
    for half in sorted(halves):
        for per_row in sorted({-(-len(hosts) // k) for k in range(1, len(hosts) + 1)}, reverse=True):
            if one_row and per_row < len(hosts) / (1 + bool(half)):
                continue
            made = _with_tiers(hosts, upper, near, half, per_row)
            scale = min(_STAGE[0] / made.width, _STAGE[1] / made.height)
            if scale > best[0] * 1.02:
                best = scale, made
    return best[1]


def _with_tiers(
    hosts: Sequence[PlacedBlock],
    upper: Sequence[Sequence[int]],
    near: dict[int, set[int]],
    half: int,
    per_row: int,
) -> Arranged:
    above = [block.flipped() for block in hosts[:half]]
    below = list(hosts[half:])
    side = {item: -1 for block in above for item in block.places}
    side |= {item: 1 for block in below for item in block.places}
    top: list[list[int]] = []
    bottom: list[list[int]] = []
    # What hosts are joined with: switches as rails, with vertical links, while they are few.
    rails = set(upper[0]) if len(upper[0]) <= _MOST_RAILS else set()
    for level, tier in enumerate(upper):
        rows: dict[int, list[int]] = defaultdict(list)
        for item in tier:
            # A switch is placed with its neighbours; the last tier in the middle.
            lean = sum(side.get(other, 0) for other in near.get(item, ()))
            side[item] = -1 if half and lean < 0 else 1
            rows[side[item] if level < len(upper) - 1 else 1].append(item)
        top = [*top, *_rows(rows[-1], rails)]
        bottom = [*_rows(rows[1], rails), *bottom]
    high, low = (
        shelves(
            _chunks(part, per_row),
            (COLUMN + _GAP) / 2 if rails and all(len(block.places) == 1 for block in part) else 0.0,
        )
        for part in (above, below)
    )
    longest = max((len(row) for row in (*top, *bottom)), default=0)
    made = Arranged(width=max(high.width, low.width, longest * COLUMN / 2))
    for part, rows_after in ((high, [*top, *bottom]), (low, [])):
        aside = (made.width - part.width) / 2
        for item, (x, y, wide) in part.places.items():
            made.places[item] = (x + aside, y + made.height, wide)
        for title, x, y, w, h in part.frames:
            made.frames.append((title, x + aside, y + made.height, w, h))
        made.height += part.height
        for number, row in enumerate(rows_after):
            if rails.issuperset(row):
                made.places[row[0]] = (made.width / 2, made.height + RAIL_ROW / 2, made.width)
                made.height += RAIL_ROW
            else:
                _spread(made, row, bool(rails) and len(rows_after) > len(rails) + 1, number % 2)
    return made


def _rows(tier: Sequence[int], rails: set[int]) -> list[list[int]]:
    """The rows of a part of a tier; each rail is one."""
    return [[item] for item in tier] if rails.issuperset(tier) else rows_of(tier)


def _spread(made: Arranged, row: Sequence[int], several: bool, shifted: int) -> None:
    """A row over the whole width, below what there is; links of ``several`` rows pass between their boxes."""
    step = made.width / (len(row) + several / 2)
    wide = min(WIDTH, 0.6 * step if several else step - 14)
    for place, item in enumerate(row):
        x = step * (place + 0.5 + (0.5 * shifted if several else 0))
        made.places[item] = (x, made.height + LOW_ROW / 2, wide)
    made.height += LOW_ROW


def _chunks(blocks: Sequence[PlacedBlock], size: int) -> list[list[PlacedBlock]]:
    return [list(blocks[k : k + size]) for k in range(0, len(blocks), size)]
