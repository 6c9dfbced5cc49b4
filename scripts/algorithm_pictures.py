"""Draw how algorithms move chunks: docs/algorithms/pictures/*.svg, from simulated runs.

    python scripts/algorithm_pictures.py [FOLDER]

A row is a GPU, time goes to the right. An arrow begins when the first line of a chunk leaves a GPU
and ends when its last line has reached the other one; its colour and number are the chunk's.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as File

import astranb as anb
from astranb.collectives import Chunk, Operation, Program
from astranb.core.colours import DARK, LIGHT, OKABE_ITO
from astranb.core.svg import Circle, Path, Shape, SvgBox, SvgLine, Text, document
from astranb.core.units import format_time

FOLDER = File(__file__).resolve().parents[1] / "docs" / "algorithms" / "pictures"

_BOXES = "single-tier:servers=2,server=server,factor=1"
PICTURES = {
    "ring": ("switch:gpus=4", "all_reduce", "ring"),
    "bidirectional_ring": ("switch:gpus=4", "all_reduce", "bidirectional_ring"),
    "allpairs": ("switch:gpus=4", "all_reduce", "allpairs"),
    "allpairs_oneshot": ("switch:gpus=4", "all_reduce", "allpairs_oneshot"),
    "halving_doubling": ("switch:gpus=4", "all_reduce", "halving_doubling"),
    "halving_doubling_six": ("switch:gpus=6", "all_reduce", "halving_doubling"),
    "recursive_doubling": ("switch:gpus=4", "all_reduce", "recursive_doubling"),
    "swing": ("ring:gpus=8", "all_reduce", "swing"),
    "swing_2d": ("torus2d:rows=2,columns=4", "all_reduce", "swing_2d"),
    "tree": ("switch:gpus=4", "all_reduce", "tree"),
    "double_tree": ("switch:gpus=8", "all_reduce", "double_tree"),
    "chain": ("switch:gpus=4", "broadcast", "chain"),
    "bruck_all_gather": ("switch:gpus=6", "all_gather", "bruck"),
    "bruck_all_to_all": ("switch:gpus=6", "all_to_all", "bruck"),
    "pairwise": ("switch:gpus=6", "all_to_all", "pairwise"),
    "pat": ("switch:gpus=8", "all_gather", "pat"),
    "switch": ("switch:gpus=4", "all_reduce", "switch"),
    "switch_ring": ("switch:gpus=4", "all_reduce", "switch_ring"),
    "hierarchical": (_BOXES, "all_reduce", "hierarchical"),
}
"""By the picture's name: infrastructure, collective and algorithm."""

_SIZE = "4 KiB"
_WIDTH, _LEFT, _TOP, _ROW, _RIGHT = 720, 64, 40, 46, 20
_INK = ("#ffffff", "#000000")
_MOST_NUMBERS = 32
_ON_DARK = (
    ("rect", "fill", LIGHT.back, DARK.back),
    ("text", "fill", LIGHT.ink, DARK.ink),
    ("text", "fill", LIGHT.dim, DARK.dim),
    ("line", "stroke", LIGHT.line, DARK.line),
    ("line", "stroke", LIGHT.dim, DARK.dim),
    *(
        (shape, what, "#000000", "#757575")
        for shape, what in (("line", "stroke"), ("path", "fill"), ("circle", "fill"))
    ),
)
"""On a dark page: element, attribute, its colour, and the colour there (black chunks are grey)."""
_DARK = (0, 2, 5, 7)  # chunks whose colour needs white text


@dataclass(frozen=True)
class Arrow:
    """A chunk on its way from one rank to another."""

    source: int
    target: int
    chunk: int
    start_ps: int
    end_ps: int


def arrows(sim: anb.Simulation) -> list[Arrow]:
    """Return the transfers of chunks between ranks in a finished run."""
    program = sim.engine.work.program(sim.engine.program.ranks, sim.engine.fabric.shape)
    # The order of the simulation's table of operations (collectives/lowering/lower.py).
    blocks = sorted(program.blocks, key=lambda b: (b.rank, ("sm", "engine", "nic").index(b.unit), b.kernel))
    operations = [(block.rank, operation) for block in blocks for operation in block.operations]
    numbers = chunk_numbers(program, [operation for _, operation in operations])
    flights = sim.result.to_dataframe("flights")
    data = flights[flights["kind"].isin(["store data", "load data"])]
    found = []
    for number, start, end in (
        data.groupby("op").agg(start=("start_ps", "min"), end=("end_ps", "max")).itertuples()
    ):
        here, operation = operations[number]
        moves = {(here, chunk.rank) for chunk in operation.targets} | {
            (chunk.rank, here) for chunk in operation.sources
        }
        chunk = numbers.get(operation.sources[0], 0)
        found += [Arrow(a, b, chunk, int(start), int(end)) for a, b in sorted(moves) if a != b]
    return found


def chunk_numbers(program: Program, operations: list[Operation]) -> dict[Chunk, int]:
    """Number chunks by the input that they hold: its index, or its rank where a rank has only one."""
    found = {
        chunk: chunk.rank if program.input_chunks == 1 else chunk.index
        for operation in operations
        for chunk in operation.sources
        if chunk.buffer == "input"
    }
    known = -1
    while known < len(found):  # what is stored to scratch has the number of what is stored
        known = len(found)
        for operation in operations:
            number = next((found[chunk] for chunk in operation.sources if chunk in found), None)
            if number is not None:
                for chunk in operation.targets:
                    found.setdefault(chunk, number)
    return found


def draw(title: str, ranks: int, time_ps: int, found: list[Arrow]) -> str:
    """Draw arrows between the rows of ranks."""
    bottom = _TOP + _ROW * (ranks - 1)
    drawn = document(_WIDTH, bottom + 40, _shapes(title, ranks, time_ps, found), title=title)
    return drawn.replace("</title>", f"</title>{style()}", 1) + "\n"


def style() -> str:
    """The colours of a dark page, where it is one."""
    rules = "".join(f'{shape}[{what}="{light}"]{{{what}:{dark}}}' for shape, what, light, dark in _ON_DARK)
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"


def _shapes(title: str, ranks: int, time_ps: int, found: list[Arrow]) -> Iterator[Shape]:
    bottom = _TOP + _ROW * (ranks - 1)
    right = _WIDTH - _RIGHT

    def x(ps: int) -> float:
        return round(_LEFT + (right - _LEFT) * ps / time_ps, 1)

    yield SvgBox(0, 0, _WIDTH, bottom + 40, 6, LIGHT.back, "none")
    yield Text(_LEFT, 20, title, 12, LIGHT.ink, bold=True)
    for rank in range(ranks):
        y = _TOP + rank * _ROW
        yield SvgLine(_LEFT, y, right, y, LIGHT.line, 1)
        yield Text(_LEFT - 8, y + 4, f"GPU {rank}", 12, LIGHT.ink, "end")
    for part in range(5):
        ps, anchor = time_ps * part // 4, ("start", "middle", "middle", "middle", "end")[part]
        yield Text(x(ps), bottom + 28, format_time(ps), 12, LIGHT.dim, anchor)
    yield SvgLine(_LEFT, bottom + 12, right, bottom + 12, LIGHT.dim, 1)
    nth: Counter[tuple[int, int]] = Counter()  # of those that leave a GPU together
    for arrow in sorted(found, key=lambda a: (a.start_ps, a.source, a.target)):
        start = arrow.source, 24 * arrow.start_ps // time_ps
        yield from _arrow(arrow, x, nth[start] if len(found) <= _MOST_NUMBERS else -1)
        nth[start] += 1


def _arrow(arrow: Arrow, x: Callable[[int], float], number: int) -> Iterator[Shape]:
    colour = OKABE_ITO[arrow.chunk % 8]
    x1, y1 = x(arrow.start_ps), _TOP + arrow.source * _ROW
    x2, y2 = x(arrow.end_ps), _TOP + arrow.target * _ROW
    long = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1
    ux, uy = (x2 - x1) / long, (y2 - y1) / long
    tip = "".join(
        f"L{round(x2 - 7 * ux + side * 3 * uy, 1)} {round(y2 - 7 * uy - side * 3 * ux, 1)}"
        for side in (1, -1)
    )
    yield SvgLine(x1, y1, x2, y2, colour, 1.8)
    yield Path(f"M{x2} {y2}{tip}z", fill=colour)
    if number < 0:
        return
    at = 0.2 + 0.17 * (number % 3)  # near where it starts, and not on one another
    cx, cy = x1 + at * (x2 - x1), y1 + at * (y2 - y1)
    yield Circle(cx, cy, 6, colour)
    ink = _INK[arrow.chunk % 8 not in _DARK]
    yield Text(cx, cy + 3.2, str(arrow.chunk), 9, ink, "middle")


def picture(infra: str, collective: str, algorithm: str) -> str:
    """Run a collective of 4 KiB and draw it."""
    work = anb.collectives.Collective.of(collective, _SIZE, algorithm, channels=1)
    sim = anb.Simulation(infra, work)
    sim.run()
    named = collective.replace("all_reduce", "all-reduce").replace("_", "-")
    title = (
        f"{named}, {algorithm}, {sim.engine.program.ranks} GPUs, {_SIZE}: {format_time(sim.result.time_ps)}"
    )
    return draw(title, sim.engine.program.ranks, sim.result.time_ps, arrows(sim))


if __name__ == "__main__":
    folder = File(sys.argv[1]) if sys.argv[1:] else FOLDER
    for name, of in PICTURES.items():
        (folder / f"{name}.svg").write_text(picture(*of), encoding="utf-8")
