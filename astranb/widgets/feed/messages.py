"""Columns of messages to the browser, packed by the description in ``static/messages.js``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COLUMNS", "Message", "pack", "unpack"]

Message = tuple[dict[str, Any], list[bytes]]
"""A message to the browser: JSON, and columns as buffers."""


def _described() -> dict[str, dict[str, str]]:
    """Read the JSON between the parentheses of ``COLUMNS`` in ``messages.js``."""
    text = (Path(__file__).parents[1] / "static" / "messages.js").read_text("utf-8")
    found: dict[str, dict[str, str]] = json.loads(
        text.partition("export const COLUMNS = /** @type {const} */ (")[2].partition(");")[0]
    )
    return found


COLUMNS = _described()
"""Names and types of the columns of each message, in their order."""


def pack(message: str, **columns: npt.ArrayLike) -> list[bytes]:
    """Convert the columns of a message to buffers.

    Parameters
    ----------
    message : str
    **columns : array_like
        By name; one that is not given is sent empty.

    Raises
    ------
    TypeError
        The message has no such column.

    Examples
    --------
    >>> buffers = pack("ports", waiting=[3, 0], fill=[255, 0])
    >>> [len(buffer) for buffer in buffers]
    [8, 2, 0]
    >>> unpack("ports", buffers)["waiting"].tolist()
    [3, 0]
    """
    described = COLUMNS[message]
    unknown = columns.keys() - described.keys()
    if unknown:
        raise TypeError(f"a message {message!r} has no column {', '.join(sorted(unknown))}")
    return [
        np.asarray(columns.get(name, ())).astype(f"<{kind}", "C").tobytes()
        for name, kind in described.items()
    ]


def unpack(message: str, buffers: list[bytes]) -> dict[str, np.ndarray[Any, Any]]:
    """Read the columns of a message by name: the inverse of :func:`pack`."""
    described = COLUMNS[message].items()
    return {
        name: np.frombuffer(buffer, f"<{kind}")
        for (name, kind), buffer in zip(described, buffers, strict=True)
    }
