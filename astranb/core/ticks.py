"""Transmission times, as whole picoseconds."""

from __future__ import annotations

from .jit import kernel

__all__ = ["MAX_RATE_BPS", "transfer_ps"]

MAX_RATE_BPS = 9 * 10**12
"""The highest bandwidth of one server (bytes a second) for which the arithmetic is exact."""

_SAFE_BYTES = 9 * 10**6  # times 10**12 this still fits an int64


@kernel
def transfer_ps(size: int, rate_Bps: int) -> int:  # noqa: N803 - unit in the name
    """Return ceil(size x 10**12 / rate) picoseconds, without overflow.

    Parameters
    ----------
    size : int
        Bytes, at least 0.
    rate_Bps : int
        Bytes a second, 1 .. ``MAX_RATE_BPS``.

    Returns
    -------
    int
        Picoseconds, rounded up. 10**9 bytes x 10**12 overflows an int64 silently, so that
        larger sizes are divided in two steps.

    Examples
    --------
    >>> transfer_ps(128, 25_000_000_000), transfer_ps(1, 3), transfer_ps(2**40, 10**9)
    (5120, 333333333334, 1099511627776000)
    """
    size = int(size)  # plain Python would keep a narrow integer narrow
    if size <= _SAFE_BYTES:
        return (size * 1000000000000 + rate_Bps - 1) // rate_Bps
    seconds = size // rate_Bps
    micro = (size % rate_Bps) * 1000000
    rest = (micro % rate_Bps) * 1000000
    return seconds * 1000000000000 + (micro // rate_Bps) * 1000000 + (rest + rate_Bps - 1) // rate_Bps
