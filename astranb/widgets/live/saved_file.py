"""What a page needs to write the file that :meth:`Simulation.save` writes, and to read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from astranb.sim.driver import Driver
from astranb.sim.store import Savable, document_of
from astranb.widgets.feed import Columns

__all__ = ["saved_file"]

_CHANGING: Final = ("edits", "breakpoints", "watches", "notes")


def saved_file(driver: Driver, tables: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Describe the file of a run at its start.

    Parameters
    ----------
    driver : Driver
        At the start of the run.
    tables : mapping of str to record array
        What the page is given of the machine.
    columns : Columns
        Takes the arrays that are no tables of the machine.

    Returns
    -------
    dict
        ``document``: what the file holds as JSON and never changes, without braces: text, because a page
        knows no difference between 1 and 1.0. ``arrays``: the others in their order, each with its name,
        the ``descr`` of its type, and where the page has it: ``now``, a table as it is when the file is
        written; ``start``, a table as it was at the start of the run; or ``data``, a column, with its
        ``shape``.
    """
    document, arrays = document_of(Savable(driver, [], [], {}))
    fixed = {name: value for name, value in document.items() if name not in _CHANGING}
    return {
        "document": json.dumps(fixed, allow_nan=False)[1:-1],
        "arrays": [_found(name, np.asarray(array), tables, columns) for name, array in arrays.items()],
    }


def _found(name: str, array: np.ndarray, tables: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Say where the page has an array."""
    folder, _, own = name.partition("/")
    descr = repr(array.dtype.descr)
    if folder == "state" and own in tables:
        return {"name": name, "descr": descr, "now": own}
    for table, rows in tables.items():
        same = repr(np.asarray(rows).dtype.descr) == descr and len(rows) == len(array) > 0
        if same and np.asarray(rows).tobytes() == array.tobytes():
            return {"name": name, "descr": descr, "start": table}
    return {"name": name, "descr": descr, "data": columns.add(array.tobytes())[0], "shape": array.shape}
