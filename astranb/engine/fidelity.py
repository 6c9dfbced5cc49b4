"""The three fidelities, and which one is used where none is given."""

from __future__ import annotations

from typing import Final

from astranb.core.errors import InputError, near

__all__ = ["FIDELITIES", "fidelity_of"]

FIDELITIES: Final = ("analytical", "congestion", "cacheline")


def fidelity_of(text: str | None, *, collective: bool, where: str = "fidelity") -> str:
    """Return the fidelity that is given, or the default: cache lines for a collective, else analytical.

    Raises
    ------
    InputError
        There is no such fidelity.
    """
    if text is None:
        return "cacheline" if collective else "analytical"
    if text not in FIDELITIES:
        raise InputError(
            f"unknown fidelity {str(text)[:40]!r}", where=where, hint=near(str(text), FIDELITIES)
        )
    return text
