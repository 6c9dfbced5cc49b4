"""A schedule as the text of a program, which a person can read and change.

:class:`~astranb.explore.synthesis.program.SynthesizedAlgorithm` shares thread blocks between the links of a
port, and signals between sends. The text is simpler: a thread block for each link, a semaphore for each send.
Slices of the schedule become parts of the sends, which channels take by turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from astranb.core.units import format_time

if TYPE_CHECKING:
    from .schedule import Schedule

__all__ = ["MOST_SENDS", "channels_of_text", "program_text"]

MOST_SENDS: Final = 1000
"""Of a schedule that is written as text: nobody reads more, and they take long to verify."""

_WIDE: Final = 92
_BLOCKS: Final = 128
"""Thread blocks of a rank at most, as for the algorithm that is no text."""
_OPERATIONS: Final = 16_000
"""At most, because a text is verified whenever somebody has typed."""

_HAS: Final = {  # the chunks that ranks have: of each its rank, and where it is in the input
    "all_gather": ("rank == chunk", "0"),
    "gather": ("rank == chunk", "0"),
    "send_recv": ("rank == chunk", "0"),
    "all_to_all": ("rank == chunk // p.ranks", "chunk % p.ranks"),
    "broadcast": ("rank == p.root", "chunk"),
    "scatter": ("rank == p.root", "chunk"),
}
_NEEDS: Final = {  # those that they need, where not all need all, and where they must be in the output
    "gather": ("rank == p.root", "chunk"),
    "reduce": ("rank == p.root", "chunk"),
    "send_recv": ("rank == (chunk + 1) % p.ranks", "0"),
    "reduce_scatter": ("rank == chunk", "0"),
    "scatter": ("rank == chunk", "0"),
    "all_to_all": ("rank == chunk % p.ranks", "chunk // p.ranks"),
}
_BEGIN: Final = """

def synthesized(p):
    blocks = {}  # thread blocks: one for each link, and one for each rank itself
    came = defaultdict(list)  # by rank and chunk: semaphores, and where lies what they announce

    def block_of(a, b, step):
        if (a, b) not in blocks:
            blocks[a, b] = p.block(a)
        blocks[a, b].phase(step)
        return blocks[a, b]

    def wait(block, chunk):
        for semaphore, _ in came[block.rank, chunk]:
            if semaphore:
                block.wait(semaphore)
        return [place for _, place in came[block.rank, chunk]]

    def tell(block, rank, chunk, place):
        semaphore = p.semaphore(rank)
        block.signal(semaphore)
        came[rank, chunk].append((semaphore, place))
"""


_SUMS: Final = """
    for step, a, b, chunk in sums{part}:
        block, to = block_of(a, b, f"step {{step}}"), p.scratch(b)[chunk * p.ranks + a]
        block.reduce([p.input(a)[chunk], *wait(block, chunk)], to)
        del came[a, chunk]  # passed on
        tell(block, b, chunk, to)
    for chunk in range(p.input_chunks):  # {whose} makes the sum
        rank = {owner}
        block, to = block_of(rank, rank, "sum"), p.output(rank)[{there}]
        block.reduce([p.input(rank)[chunk], *wait(block, chunk)], to)
"""
_SUMMED: Final = """\
        del came[rank, chunk]
        tell(block, rank, chunk, to)
"""
_HELD: Final = """
    for rank, chunk in ((rank, chunk) for rank in range(p.ranks) for chunk in range({chunks})):
        if {has}:
            came[rank, chunk].append((None, p.input(rank)[{mine}]))
"""
_KEPT: Final = """\
block_of(rank, rank, "copy").copy(p.input(rank)[{mine}], p.output(rank)[{there}])
"""
_TARGET: Final = """
    def target(rank, chunk):
        if {needs}:
            return p.output(rank)[{there}]
        return p.scratch(rank)[chunk]  # on its way

"""
_COPIES: Final = """\
    for step, a, b, chunk in copies{part}:
        block, to = block_of(a, b, f"step {{step}}"), {to}
        block.post(*wait(block, chunk), to)
        tell(block, b, chunk, to)
    for (rank, chunk), places in list(came.items()):  # a rank ends when it has everything
        if any(semaphore and to.buffer == "output" for semaphore, to in places):
            wait(block_of(rank, rank, "end"), chunk)
"""


def channels_of_text(schedule: Schedule, channels: int) -> int:
    """Return the channels with which a text is to be run, from those of the algorithm that is no text."""
    links = len(np.unique(schedule.edge))
    each = 1 + -(-links // schedule.network.ranks)
    sends = len(schedule.edge) // schedule.slices
    # Its blocks take turns at a port; here each link has one.
    most = min(2 * channels, _BLOCKS // each, _OPERATIONS // (4 * sends or 1))
    parts = schedule.slices
    return max(1, most // parts) * parts


def program_text(schedule: Schedule, slower: float) -> str:
    """Write a schedule as a program: rows of sends, and what makes thread blocks of them.

    The text is one for :func:`astranb.collectives.text_algorithm`, for as many ranks and the same root.
    ``slower`` is how many times the bound the schedule takes.

    Examples
    --------
    >>> import astranb as anb
    >>> text = anb.explore.synthesize("ring:gpus=3", "all_gather", "3 KiB", slices=1, trials=1).text
    >>> print(text.splitlines()[5].strip())
    (0, 0, 1, 0), (0, 0, 2, 0), (0, 1, 0, 1), (0, 1, 2, 1), (0, 2, 0, 2), (0, 2, 1, 2),
    """
    name = schedule.condition.name
    sides = ["sums"] * schedule.condition.reduces
    if name not in ("reduce", "reduce_scatter"):
        sides.append("copies")
    text = _head(schedule, slower) + "".join(_rows(schedule, side) for side in sides) + _BEGIN
    part = "[p.channel % len({})]" if schedule.slices > 1 else ""
    needs, there = _NEEDS.get(name, ("", "chunk"))
    if "sums" in sides:
        text += _SUMS.format(
            part=part.format("sums"),
            owner="p.root" if name == "reduce" else "chunk",
            there=there,
            whose="the root" if name == "reduce" else "its owner",
        )
        text += _SUMMED if "copies" in sides else ""
    else:
        has, mine = _HAS[name]
        chunks = {"all_to_all": "p.ranks * p.ranks", "broadcast": "p.input_chunks"}.get(name, "p.ranks")
        text += _HELD.format(chunks=chunks, has=has, mine=mine)
        if name != "send_recv":
            indent = f"{' ' * 12}if {needs}:\n{' ' * 16}" if needs else " " * 12
            text += indent + _KEPT.format(mine=mine, there=there)
    if "copies" in sides:
        text += _TARGET.format(needs=needs, there=there) if needs else ""
        to = "target(b, chunk)" if needs else "p.output(b)[chunk]"
        text += _COPIES.format(part=part.format("copies"), to=to)
    return text


def _head(schedule: Schedule, slower: float) -> str:
    sliced = f" of {schedule.slices} slices" if schedule.slices > 1 else ""
    return (
        f"# {schedule.condition.name} on {schedule.network.title}, {schedule.network.ranks} ranks: "
        f"{format_time(schedule.time_ps)}, {slower:.2f} times the bound.\n"
        f"# Rows are (step, from, to, chunk{sliced}), in order. Change some: they are verified.\n"
        "from collections import defaultdict\n\n"
    )


def _rows(schedule: Schedule, side: str) -> str:
    """Write the sends of sums, or of copies, slice by slice if there are several."""
    step = np.unique(schedule.start_ps, return_inverse=True)[1]
    chunk, part = np.divmod(schedule.chunk, schedule.slices)
    wanted = schedule.adds == (side == "sums")
    columns = np.stack([step, schedule.source, schedule.target, chunk])
    order = np.lexsort((schedule.target, schedule.source, step))  # those of a step are independent
    columns, wanted, part = columns[:, order], wanted[order], part[order]
    if schedule.slices == 1:
        return f"{side} = [\n{_filled(columns[:, wanted], 4)}]\n"
    lists = (
        f"    [  # slice {k} of each chunk\n{_filled(columns[:, wanted & (part == k)], 8)}    ],\n"
        for k in range(schedule.slices)
    )
    return f"{side} = [\n{''.join(lists)}]\n"


def _filled(columns: np.ndarray, indent: int) -> str:
    """Write rows one after another, as many as fit into a line."""
    lines, line = [], ""
    for row in columns.T.tolist():
        one = f"({', '.join(map(str, row))}),"
        if line and indent + len(line) + 1 + len(one) > _WIDE:
            lines.append(line)
            line = ""
        line += f" {one}" if line else one
    return "".join(f"{' ' * indent}{each}\n" for each in (*lines, *([line] if line else [])))
