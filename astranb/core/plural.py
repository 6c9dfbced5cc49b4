"""Counts in words: ``1 GPU``, ``2,048 GPUs``."""

from __future__ import annotations

__all__ = ["plural"]


def plural(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun.

    Parameters
    ----------
    count : int
    noun : str
        In the singular; with a verb where one follows: ``"line waits"``.
    several : str
        The plural of the noun, if it is not `noun` with an "s".

    Examples
    --------
    >>> plural(1, "GPU"), plural(2048, "GPU"), plural(0, "line waits", "lines wait")
    ('1 GPU', '2,048 GPUs', '0 lines wait')
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"
