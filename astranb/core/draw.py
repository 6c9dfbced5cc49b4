"""Counter-based random numbers for kernels: the same for a stream and a number in it, on every machine."""

from __future__ import annotations

from .jit import kernel

__all__ = ["draw"]


@kernel
def draw(stream: int, number: int) -> int:
    """Return 32 pseudo-random bits: a function of a stream and a number in it (after lowbias32)."""
    bits = (int(stream) * 0x9E3779B1 + int(number) * 0x85EBCA6B) & 0xFFFFFFFF
    bits ^= bits >> 16
    bits = (bits * 0x7FEB352D) & 0xFFFFFFFF
    bits ^= bits >> 15
    bits = (bits * 0x846CA68B) & 0xFFFFFFFF
    return bits ^ (bits >> 16)
