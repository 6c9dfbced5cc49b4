"""The protocols by which data moves, named as NCCL names them."""

from __future__ import annotations

from astranb.core.errors import InputError, near

__all__ = ["PROTOCOLS", "check_protocol"]

PROTOCOLS = ("Simple", "LL", "LL128")
"""Methods by which a receiver learns that data has arrived: ``Simple`` by a semaphore that the sender raises
after a fence; ``LL`` and ``LL128`` by a flag in every 8 or every 128 bytes."""


def check_protocol(protocol: str) -> None:
    """Check that a protocol is known."""
    if protocol not in PROTOCOLS:
        raise InputError(f"unknown protocol {protocol!r}", where="protocol", hint=near(protocol, PROTOCOLS))
