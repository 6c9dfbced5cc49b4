"""Measurements of a real GPU, as ``benchmarks/gpu_microbench.py`` writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astranb.core.document import DocumentNode, DocumentSource, read_document
from astranb.core.errors import near
from astranb.hardware import check_header

__all__ = ["LINKED", "MEASURED_FORMAT", "MEASURED_VERSION", "ROWS", "Measured", "blocks_of", "read_measured"]

MEASURED_FORMAT, MEASURED_VERSION = "astranb-gpu-microbench", 1

ROWS = {
    "L2 hit, near": "ns",
    "L2 hit, far": "ns",
    "memory": "ns",
    "streaming reads": "GB/s",
    "streaming reads, L2": "GB/s",
    "fence after a store": "ns",
    "kernel launch": "ns",
    "kernel in a graph": "ns",
    "flag, one way": "ns",
    "flag behind a fence, one way": "ns",
}
"""The measurements and their units, in addition to ``copy to a peer, N blocks`` in GB/s."""

LINKED = ("flag, one way", "flag behind a fence, one way")
"""Rows that, like copies, cross a link between GPUs and depend on that link, too."""

_UNITS = {"ns": {"ns": 1.0, "us": 1e3, "ms": 1e6}, "GB/s": {"GB/s": 1.0, "MB/s": 1e-3, "TB/s": 1e3}}
_RANGE = {"ns": (0.1, 1e8), "GB/s": (1e-3, 1e6)}
_MOST_BLOCKS = 4096
_FACTS = {
    "sms": (1, 2048),
    "l2_bytes": (2**16, 2**34),
    "near_bytes": (2**14, 2**34),
    "memory_bytes": (2**20, 2**45),
}
_MOST_ROWS = 1000


@dataclass(frozen=True)
class Measured:
    """The measurements of one GPU.

    Attributes
    ----------
    where : str
        File or name, for errors and sources.
    device : str
        The name that the GPU reports.
    facts : dict of str to int
        What the device reports: ``sms``, ``l2_bytes``, ``near_bytes`` and ``memory_bytes``
        where known.
    clock_MHz, memory_GBps : float or None
        Clock of the SMs; memory bandwidth computed from its clock and width.
    rows : dict of str to float
        The measured values, in the units of :data:`ROWS`.
    """

    where: str
    device: str
    facts: dict[str, int]
    clock_MHz: float | None  # noqa: N815 - unit in the name
    memory_GBps: float | None  # noqa: N815
    rows: dict[str, float]

    def copies(self) -> dict[int, float]:
        """Return the bandwidth of copies to a peer by number of thread blocks, in ascending order."""
        found = {blocks_of(what): value for what, value in self.rows.items()}
        return {blocks: found[blocks] for blocks in sorted(b for b in found if b)}


def blocks_of(what: str) -> int:
    """Return the thread blocks of a row that measures a copy to a peer, or 0 for another row."""
    found = re.fullmatch(r"copy to a peer, ([1-9]\d{0,4}) blocks", what, re.ASCII)
    return int(found[1]) if found else 0


def read_measured(source: str | Path | dict[str, Any]) -> Measured:
    """Read a measurement.

    Parameters
    ----------
    source : str or Path or dict
        A file that ``gpu_microbench.py`` has written, or its content.

    Raises
    ------
    InputError
        The document is not a measurement.
    """
    if isinstance(source, str | Path):
        root = read_document(source, form="json")
    else:
        root = DocumentNode(source, DocumentSource("measurement"))
    check_header(root, MEASURED_FORMAT, MEASURED_VERSION, "benchmarks/gpu_microbench.py writes one")
    device = root.get("device")
    name = device.get("name").text()[:80]
    facts = {key: device.get(key).number(*bounds) for key, bounds in _FACTS.items() if _reported(device, key)}
    clock = device.get("clock_MHz").real(10, 1e5) if _reported(device, "clock_MHz") else None
    memory = device.get("memory_GBps").real(1, 1e6) if _reported(device, "memory_GBps") else None
    values: dict[str, float] = {}
    rows = root.get("measured")
    if len(rows.items()) > _MOST_ROWS:
        raise rows.error(f"more than {_MOST_ROWS} rows")
    for row in rows.items():
        what, value = _row(row)
        if what in values:
            raise row.error(f"duplicate row {what!r}", "remove one")
        values[what] = value
    if not values:
        raise rows.error("no measurements", f"give at least one of {', '.join(ROWS)}")
    return Measured(root.file, " ".join(name.split()), facts, clock, memory, values)


def _reported(device: DocumentNode, key: str) -> bool:
    """Return whether the device reports a value; null counts as none."""
    return device.has(key) and device.get(key).value is not None


def _row(row: DocumentNode) -> tuple[str, float]:
    """Read one row and convert its value to the unit of :data:`ROWS`."""
    what = row.get("what").text()
    blocks = blocks_of(what)
    if what not in ROWS and not 0 < blocks <= _MOST_BLOCKS:
        known = [*ROWS, "copy to a peer, 1 blocks"]
        raise row.get("what").error(f"unknown measurement {what[:60]!r}", near(what[:60], known))
    unit = ROWS.get(what, "GB/s")
    factor = _UNITS[unit][row.get("unit").choice(tuple(_UNITS[unit]))]
    low, high = _RANGE[unit]
    return what, row.get("value").real(low / factor, high / factor) * factor
