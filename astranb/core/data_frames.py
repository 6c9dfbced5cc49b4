"""Tables as pandas frames, with their times in the unit that is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import units
from .errors import InputError, near

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame"]

_TIMES = {"ps": 1, "ns": units.ns, "us": units.us, "ms": units.ms, "s": units.s}
_AS_COLUMN = {"µs": "us", "μs": "us"}
_TIME_COLUMN = re.compile(r"_(ps|ns|us)(?=_|$)")


def frame(
    table: Sequence[Mapping[str, Any]] | Mapping[str, Any] | pd.DataFrame, time: str | None = None
) -> pd.DataFrame:
    """Return a table as a frame.

    Parameters
    ----------
    table : sequence or mapping or DataFrame
        A dict for each row, or columns by name.
    time : str, optional
        Unit of all times: ``ps``, ``ns``, ``us``, ``ms`` or ``s``. Columns are renamed, as ``end_ps`` to
        ``end_us``. By default they stay as they are.

    Raises
    ------
    InputError
        It is another unit.

    Examples
    --------
    >>> frame([{"rank": 0, "end_ps": 2_500_000}], time="us").to_dict("records")
    [{'rank': 0, 'end_us': 2.5}]
    """
    import pandas as pd

    found = pd.DataFrame(table)
    if time is None:
        return found
    time = _AS_COLUMN.get(time, time)
    if time not in _TIMES:
        raise InputError(f"unknown unit of time {time!r}", where="to_dataframe", hint=near(str(time), _TIMES))
    named: dict[str, str] = {}
    for column in map(str, found.columns):
        unit = _TIME_COLUMN.search(column)
        if unit and unit[1] != time and pd.api.types.is_numeric_dtype(found[column]):
            found[column] = found[column] / (_TIMES[time] / _TIMES[unit[1]])
            named[column] = _TIME_COLUMN.sub(f"_{time}", column)
    return found.rename(columns=named)
