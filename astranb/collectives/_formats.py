"""Algorithms in the files of other systems: which format a file has, and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astranb.core.document import contents
from astranb.core.errors import InputError

from ._msccl_xml import read_msccl_xml
from ._msccl_xml_write import write_msccl_xml
from ._mscclpp import read_mscclpp
from ._mscclpp_write import write_mscclpp
from ._plan import Plan
from ._program import Operation, Program

__all__ = ["listed", "read_algorithm", "write_algorithm"]


def read_algorithm(path: str | Path) -> Plan:
    """Read an algorithm from a file: an MSCCL++ execution plan or an MSCCL algorithm.

    Parameters
    ----------
    path : str or Path
        JSON (MSCCL++) or XML (MSCCL); the contents decide, not the name.

    Returns
    -------
    Plan
        Give it as ``algorithm=`` of a :class:`Collective`.

    Raises
    ------
    InputError
        The file cannot be read or is neither; the text names the element.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> step = '<step s="0" type="{}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{}" cnt="1"/>'
    >>> put, get = step.format("s", 0), step.format("r", "{}")
    >>> block = '<tb id="0" send="{}" recv="{}" chan="0">{}</tb>'
    >>> gpu = '<gpu id="{}" i_chunks="1" o_chunks="2" s_chunks="0">{}</gpu>'
    >>> gpus = "".join(
    ...     gpu.format(r, block.format(1 - r, 1 - r, put + get.format(1 - r).replace('s="0"', 's="1"')))
    ...     for r in range(2)
    ... )
    >>> algo = '<algo name="swap" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" '
    >>> algo += f'coll="allgather" inplace="1">{gpus}</algo>'
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "swap.xml")
    ...     _ = file.write_text(algo)
    ...     read_algorithm(file).collective
    'all_gather'
    """
    data = contents(path)
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start == b"{":
        return read_mscclpp(path, data)
    if start == b"<":
        return read_msccl_xml(path, data)
    raise InputError(
        "neither an MSCCL++ execution plan (JSON) nor an MSCCL algorithm (XML)",
        where=str(path),
        hint="a plan begins with { or <",
    )


def listed(program: Program, rank: int | None = None) -> list[dict[str, Any]]:
    """The operations of each block of a program, of one rank or of all, in words."""
    rows = []
    for number, block in enumerate(program.blocks):
        if rank not in (None, block.rank):
            continue
        reached: dict[int, int] = {}
        operations = [_in_words(op, reached) for op in block.operations]
        rows.append(
            {
                "block": number,
                "rank": block.rank,
                "lane": block.lane,
                "unit": block.unit,
                "operations": operations,
            }
        )
    return rows


def _in_words(op: Operation, reached: dict[int, int]) -> str:
    """One operation as one line."""
    if op.kind == "move":
        sources, targets = " + ".join(map(str, op.sources)), ", ".join(map(str, op.targets))
        through = " through the switch" if op.in_switch else ""
        return f"{sources} -> {targets}{through}"
    if op.semaphore is None:
        return op.kind if op.kind == "fence" else f"{op.kind} {op.value}"
    where = f"semaphore {op.semaphore.number} of rank {op.semaphore.rank}"
    if op.kind == "signal":
        return (
            f"signal {where}"
            + (f" by {op.value}" if op.value > 1 else "")
            + (", relaxed" if op.relaxed else "")
        )
    rise = op.value - reached.get(op.semaphore.number, 0)
    reached[op.semaphore.number] = op.value
    return f"wait for {where}" + (f" to rise by {rise}" if rise > 1 else "")


def write_algorithm(program: Program, path: str | Path) -> list[str]:
    """Write a program to a file: an MSCCL++ execution plan (.json) or an MSCCL algorithm (.xml).

    Parameters
    ----------
    program : Program
    path : str or Path
        Its ending says which format.

    Returns
    -------
    list of str
        What is not quite as in the program, and what the other system would not take.

    Raises
    ------
    InputError
        The program uses something that the format has not, or the file cannot be written.
    """
    ending = Path(path).suffix.lower()
    if ending == ".json":
        return write_mscclpp(program, path)
    if ending == ".xml":
        return write_msccl_xml(program, path)
    raise InputError(f"no format is known by {ending!r}", where=str(path), hint="take FILE.json or FILE.xml")
