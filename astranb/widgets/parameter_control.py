"""The control by which the editor's page changes a parameter of an algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from astranb.collectives.language import AlgorithmParameter

__all__ = ["control"]

_MORE: Final = 8  # a slider goes up to so many times the default
_LEAST: Final = 16  # but at least up to this
_STEPS: Final = 20  # of a slider for a number that is not whole


def control(parameter: AlgorithmParameter, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kind of a parameter's control, its value, and the values that it offers.

    A slider offers ``values`` in this order: powers of two where the default is one, else whole numbers
    or even steps.

    Examples
    --------
    >>> control(AlgorithmParameter("slices", 8), {"slices": 16})["values"]
    [1, 2, 4, 8, 16, 32, 64]
    >>> control(AlgorithmParameter("order", "near", ("near", "far")), {})["kind"]
    'choice'
    """
    default = parameter.default
    value = values.get(parameter.name, default)
    kind, offered = "slider", list[Any]()
    if parameter.choices:
        kind, offered = "choice", list(parameter.choices)
    elif isinstance(default, bool):
        kind = "switch"
    elif isinstance(default, str):
        kind = "text"
    elif isinstance(default, int):
        most = max(_LEAST, _MORE * abs(default))
        powers = default > 0 and default & (default - 1) == 0
        low = 1 if default > 0 else -most if default < 0 else 0
        offered = [2**k for k in range(most.bit_length())] if powers else list(range(low, most + 1))
    else:
        first, last = (0.0, 1.0) if 0 <= default <= 1 else sorted((0.0, 2 * default))
        offered = [round(first + (last - first) * step / _STEPS, 6) for step in range(_STEPS + 1)]
    if kind == "slider" and value not in offered:
        offered = sorted([*offered, value])
    return {"name": parameter.name, "kind": kind, "value": value, "values": offered}
