"""ASTRA-sim 1.0's result files: the same columns, in microseconds and MiB as it writes them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

from astranb.core.errors import InputError
from astranb.core.files import whole_file

from ._result import Result

__all__ = ["result_tables", "write_tables"]

_END_TO_END: Final = (
    "", "", "fwd compute", "wg compute", "ig compute", "fwd exposed comm", "wg exposed comm",
    "ig exposed comm", "fwd total comm", "wg total comm", "ig total comm", "workload finished at",
    "total comp", "total exposed comm",
)  # fmt: skip
_DIMENSIONS: Final = 7


def _us(value_ps: float) -> str:
    return f"{value_ps / 1_000_000:.6f}"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.6f}"


def result_tables(result: Result, run_name: str) -> dict[str, list[list[str]]]:
    """Give ASTRA-sim 1.0's tables by their files' names, headings first.

    Parameters
    ----------
    result : Result
    run_name : str
    """
    end_to_end = [list(_END_TO_END)]
    for name, row in zip(result.layer_names, result.layers.tolist(), strict=True):
        end_to_end.append([name, run_name, *map(_us, row), _us(result.time_ps)])
    end_to_end[1] += [_us(result.compute_ps), _us(result.exposed_comm_ps)]
    weights = int(result.layers[0, 4])  # what the first layer's weights were waited for
    sent = [_mib(size) for size in result.bytes_per_dim]
    total = [_us(result.time_ps), _us(result.compute_ps), _us(result.exposed_comm_ps)]
    backend = [
        [
            "RunName", "CommsTime", "ComputeTime", "ExposedCommsTime", "Cost", "TotalPayloadSize",
            "DPCommsTime", "MPCommsTime", *(f"PayloadSize_Dim{dim}" for dim in range(_DIMENSIONS)),
        ],
        [
            run_name, *total, f"{result.cost_dollars:.6f}", _mib(result.message_bytes), _us(weights),
            _us(result.exposed_comm_ps - weights), *sent, *["-1"] * (_DIMENSIONS - len(sent)),
        ],
    ]  # fmt: skip
    return {
        "EndToEnd.csv": end_to_end,
        "backend_end_to_end.csv": backend,
        "backend_dim_info.csv": [
            ["RunName", "DimensionIndex", "AverageChunkLatency"],
            *([run_name, str(dim), _us(took)] for dim, took in enumerate(result.chunk_ps_per_dim)),
        ],
        "tutorial_result.csv": [
            [
                "Name",
                "TotalTime(us)",
                "ComputeTime(us)",
                "ExposedCommunicationTime(us)",
                "TotalMessageSize(MB)",
            ],
            [run_name, *total, _mib(result.message_bytes)],
        ],
    }


def write_tables(result: Result, folder: str | Path, run_name: str = "unnamed run") -> list[Path]:
    """Write ASTRA-sim 1.0's tables into a folder; returns the files.

    Parameters
    ----------
    result : Result
    folder : str or Path
        Made where it is not there.
    run_name : str

    Raises
    ------
    InputError
        They cannot be written there.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(folder), mend="name a folder") from None
    files = []
    for name, rows in result_tables(result, run_name).items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        with whole_file(place / name) as file:
            file.write(text.getvalue().encode())
        files.append(place / name)
    return files
