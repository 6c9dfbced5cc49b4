"""Files of algorithms, recognized by their contents: MSCCL++ execution plans, MSCCL, schedules of TACOS."""

from __future__ import annotations

from pathlib import Path

from astranb.collectives.language import Program
from astranb.core.document import contents
from astranb.core.errors import InputError
from astranb.core.file_formats import names_format, read_by_plugin

from .msccl_xml import read_msccl_xml, write_msccl_xml
from .mscclpp import read_mscclpp, write_mscclpp
from .plan import Plan
from .tacos_csv import read_tacos

__all__ = ["algorithm_of", "read_algorithm", "write_algorithm"]


@names_format("plan", "MSCCL", "TACOS", "algorithm")
def read_algorithm(path: str | Path) -> Plan:
    """Read an algorithm from a file: an MSCCL++ execution plan, an MSCCL algorithm or a schedule of TACOS.

    Parameters
    ----------
    path : str or Path
        JSON (MSCCL++), XML (MSCCL) or CSV (TACOS), recognized by the contents; a plug-in may read others.

    Returns
    -------
    Plan
        A value for ``algorithm=`` of a :class:`Collective`.

    Raises
    ------
    InputError
        The file cannot be read or is none of them; the message names the element or line.

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
    plan = read_by_plugin(path, "algorithm", Plan)
    return algorithm_of(contents(path), path) if plan is None else plan


def algorithm_of(data: bytes, path: str | Path) -> Plan:
    """Read an algorithm as :func:`read_algorithm`, from the contents of a file; ``path`` names it."""
    begins = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    start = begins[:1]
    if begins.startswith(b"NPUs Count"):
        plan = read_tacos(path, data)
    elif start == b"{":
        plan = read_mscclpp(path, data)
    elif start == b"<":
        plan = read_msccl_xml(path, data)
    else:
        raise InputError(
            "neither an MSCCL++ execution plan (JSON) nor an MSCCL algorithm (XML) nor TACOS (CSV)",
            where=str(path),
            hint="such a file begins with {, < or NPUs Count",
        )
    plan.file = (Path(path).name, data)
    return plan


def write_algorithm(program: Program, path: str | Path) -> list[str]:
    """Write a program to a file: an MSCCL++ execution plan (.json) or an MSCCL algorithm (.xml).

    Parameters
    ----------
    program : Program
    path : str or Path
        The file; its extension selects the format.

    Returns
    -------
    list of str
        What differs from the program, and what the other system would not accept.

    Raises
    ------
    InputError
        The program uses something that the format cannot express, or the file cannot be written.
    """
    if not isinstance(program, Program):
        hint = "write write_algorithm(collective.program('dgx-h100'), 'mine.json')"
        raise InputError(f"not a program: {program!r:.60}", where="write_algorithm", hint=hint)
    ending = Path(path).suffix.lower()
    if ending == ".json":
        return write_mscclpp(program, path)
    if ending == ".xml":
        return write_msccl_xml(program, path)
    raise InputError(f"unknown file extension {ending!r}", where=str(path), hint="use FILE.json or FILE.xml")
