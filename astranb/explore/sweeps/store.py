"""Store of a sweep's results: Parquet files by content hash, each written whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import locked, made_folder, whole_file
from astranb.core.number_files import parquet_table

from .points import FAILED

__all__ = ["SweepStore"]

_ALL: Final = "points.parquet"
_BATCHES: Final = "batch-*.parquet"
_LOCK: Final = ".lock"


class SweepStore:
    """Rows by their hash: in memory, and in a folder where one is given.

    A folder has ``points.parquet`` and a small file for each batch of later rows, until :meth:`compact` joins
    them. A process that ends at any moment leaves whole files only.

    Parameters
    ----------
    folder : str or Path, optional
        It is made where it is missing.

    Raises
    ------
    InputError
        It cannot be made, or has a file of another kind.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._folder = None if folder is None else made_folder(folder)
        if self._folder is not None:
            with locked(self._folder / _LOCK):  # another sweep may be joining the files
                self._read(self._files())

    def _files(self) -> list[Path]:
        assert self._folder is not None  # noqa: S101 - only such a store has files
        whole = self._folder / _ALL
        return [*([whole] if whole.exists() else []), *sorted(self._folder.glob(_BATCHES))]

    def _read(self, files: Iterable[Path]) -> None:
        for file in files:
            self.rows |= {row["hash"]: row for row in _rows_of(file)}

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows, on disk where there is a folder.

        Raises
        ------
        InputError
            They cannot be written; those that were kept before stay.
        """
        if not rows:
            return
        if self._folder is not None:
            name = hashlib.sha256("".join(row["hash"] for row in rows).encode()).hexdigest()[:16]
            _write(self._folder / _BATCHES.replace("*", name), rows)
        self.rows |= {row["hash"]: dict(row) for row in rows}

    def forget_failed(self) -> None:
        """Forget the points that failed, so that they are run again."""
        self.rows = {digest: row for digest, row in self.rows.items() if row["status"] != FAILED}

    def compact(self) -> None:
        """Join all files to one."""
        if self._folder is None:
            return
        with locked(self._folder / _LOCK):
            files = self._files()
            if len(files) < 2 and all(file.name == _ALL for file in files):
                return
            mine = self.rows
            self._read(files)
            self.rows |= mine
            _write(self._folder / _ALL, list(self.rows.values()))
            for file in files:
                if file.name != _ALL:
                    file.unlink(missing_ok=True)


def _write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with needs_extra("the results of a sweep"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    table = pa.table({name: pa.array(_alike(column)) for name, column in columns.items()})
    with whole_file(file) as out:
        pq.write_table(table, out)


def _alike(column: list[Any]) -> list[Any]:
    """Convert numbers of two kinds to one: Parquet's columns have one type."""
    kinds = {type(value) for value in column if value is not None}
    return [None if value is None else float(value) for value in column] if kinds == {int, float} else column


def _rows_of(file: Path) -> list[dict[str, Any]]:
    """Read the rows of a file; values that are not there are left out."""
    hint = "remove it: its points are run again"
    rows = parquet_table(file, "the results of a sweep", hint=hint).to_pylist()
    if rows and "hash" not in rows[0]:
        raise InputError("not the results of a sweep", where=str(file), hint="name another folder")
    return [{name: value for name, value in row.items() if value is not None} for row in rows]
