"""ASTRA-sim 1.0's result files: the same CSV columns, in microseconds and MiB."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

from astranb.core.errors import InputError
from astranb.core.files import made_folder, whole_files
from astranb.core.number_files import text_of, text_rows

from .result import LayerResult

__all__ = ["result_tables", "write_tables"]

_END_TO_END: Final = (
    "", "", "fwd compute", "wg compute", "ig compute", "fwd exposed comm", "wg exposed comm",
    "ig exposed comm", "fwd total comm", "wg total comm", "ig total comm", "workload finished at",
    "total comp", "total exposed comm",
)  # fmt: skip
_DIMENSIONS: Final = 7
_MOST_DIMENSIONS: Final = 10
_BACKEND: Final = (
    "RunName", "CommsTime", "ComputeTime", "ExposedCommsTime", "Cost", "TotalPayloadSize", "DPCommsTime",
    "MPCommsTime", *(f"PayloadSize_Dim{dim}" for dim in range(_DIMENSIONS)),
)  # fmt: skip
_TUTORIAL: Final = (
    "Name",
    "TotalTime(us)",
    "ComputeTime(us)",
    "ExposedCommunicationTime(us)",
    "TotalMessageSize(MB)",
)


def _us(value_ps: float) -> str:
    return f"{value_ps / 1_000_000:.6f}"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.6f}"


_Numbered = list[tuple[int, list[str]]]


def result_tables(result: LayerResult, run_name: str, *, row: int = 0, rows: int = 1) -> dict[str, _Numbered]:
    """Return ASTRA-sim 1.0's result tables by file name, as numbered lines.

    Parameters
    ----------
    result : LayerResult
    run_name : str
    row, rows : int
        Index of this run among the runs that share the files, and their number.

    Examples
    --------
    >>> from astranb.engine.layers.run import LayerRun
    >>> from astranb.workload.astrasim1 import (
    ...     HierarchicalNetwork, Layer, LayerSystem, LayerTable, LayerWorkload, Part
    ... )
    >>> ring = HierarchicalNetwork("Ring", units=8, links=2, latency_ns=500, bandwidth=50)
    >>> table = LayerTable("DATA", [Layer("a", Part(2000))])
    >>> run = LayerRun(LayerWorkload(table, LayerSystem(), ring))
    >>> _ = run.go()
    >>> result_tables(run.result(), "x", row=2, rows=3)["tutorial_result.csv"][1]
    (3, ['x', '2.000000', '2.000000', '0.000000', '0.000000'])
    """
    weights = int(result.layers[0, 4])  # exposed time of the first layer's weight gradient
    sent = [_mib(size) for size in result.bytes_per_dim]
    total = [_us(result.time_ps), _us(result.compute_ps), _us(result.exposed_comm_ps)]
    end_to_end: _Numbered = [(0, list(_END_TO_END))]
    for number, (name, line) in enumerate(zip(result.layer_names, result.layers.tolist(), strict=True)):
        cells = ["" if row else name, run_name, *map(_us, line), total[0]]
        end_to_end.append((number * rows + 1 + row, cells))
    end_to_end[1][1].extend(total[1:])
    backend = [
        run_name, *total, f"{result.cost_dollars:.6f}", _mib(result.message_bytes), _us(weights),
        _us(result.exposed_comm_ps - weights), *sent, *["-1"] * (_DIMENSIONS - len(sent)),
    ]  # fmt: skip
    latencies: _Numbered = [
        (row * _MOST_DIMENSIONS + 1 + dim, [run_name, str(dim), _us(took)])
        for dim, took in enumerate(result.chunk_ps_per_dim)
    ]
    return {
        "EndToEnd.csv": end_to_end,
        "backend_end_to_end.csv": [(0, list(_BACKEND)), (1 + row, backend)],
        "backend_dim_info.csv": [(0, ["RunName", "DimensionIndex", "AverageChunkLatency"]), *latencies],
        "tutorial_result.csv": [
            (0, list(_TUTORIAL)),
            (1 + row, [run_name, *total, _mib(result.message_bytes)]),
        ],
    }


def _lines(file: Path) -> list[list[str]]:
    """Read the lines that other runs have written."""
    try:
        return [row for _, row in text_rows(text_of(file), str(file))]
    except InputError:
        return []


def write_tables(
    result: LayerResult, folder: str | Path, *, run_name: str = "unnamed run", row: int = 0, rows: int = 1
) -> list[Path]:
    """Write ASTRA-sim 1.0's result tables into a folder; returns the files.

    Parameters
    ----------
    result : LayerResult
    folder : str or Path
        Created if it does not exist.
    run_name : str
    row, rows : int
        Index of this run among the runs that share the files, and their number; the first run
        overwrites the files.

    Raises
    ------
    InputError
        The files cannot be written.
    """
    place = made_folder(folder)
    files = []
    with whole_files() as add:
        for name, placed in result_tables(result, run_name, row=row, rows=rows).items():
            lines = _lines(place / name) if row else []
            for number, cells in placed:
                lines += [[] for _ in range(number + 1 - len(lines))]
                lines[number] = cells
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(lines)
            with add(place / name) as file:
                file.write(text.getvalue().encode())
            files.append(place / name)
    return files
