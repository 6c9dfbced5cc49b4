"""Colours of exported pictures: those of the live views (``widgets/static/theme.js``)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CIVIDIS",
    "DARK",
    "KIND_COLOURS",
    "LIGHT",
    "MEMORY_COLOURS",
    "OKABE_ITO",
    "TIME_COLOURS",
    "Colours",
    "busy_colour",
    "ramp",
]

OKABE_ITO = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
"""Okabe and Ito (2008): distinguishable without full colour vision."""

KIND_COLOURS = ("#56b4e9", "#0072b2", "#e69f00", "#cc79a7", "#d55e00", "#009e73")
"""By the number of a flight's kind (``sim.FLIGHT_KINDS``)."""

TIME_COLOURS = {
    "issue": "#0072b2", "compute": "#009e73", "data": "#56b4e9", "fence": "#8c8c8c", "semaphore": "#e69f00",
    "signal": "#cc79a7", "idle": "#bdbdbd", "issue or data": "#0072b2", "started late": "#f0e442",
}  # fmt: skip
"""By what the time of an SM goes to (``engine/cacheline/time_classes.py``)."""

MEMORY_COLOURS = {
    "weights": "#0072b2", "gradients": "#e69f00", "optimizer": "#009e73", "activations": "#cc79a7",
    "cache": "#56b4e9", "buffers": "#8c8c8c",
}  # fmt: skip
"""By what memory is for (``workload/models/memory.py``)."""

CIVIDIS = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#fee838",
)  # fmt: skip
"""Nine steps of cividis (Nunez, Anderton and Renslow 2018)."""


@dataclass(frozen=True)
class Colours:
    """Ground, ink and lines of a picture; text has a contrast of at least 4.5 to 1 on its ground.

    Attributes
    ----------
    dark : bool
    back, panel, line, faint, ink, dim, brand, gpu, node : str
        As ``#rrggbb``.
    """

    dark: bool
    back: str
    panel: str
    line: str
    faint: str
    ink: str
    dim: str
    brand: str
    gpu: str
    node: str

    @staticmethod
    def of(dark: bool) -> Colours:
        """Those for light or for dark ground."""
        return DARK if dark else LIGHT

    @property
    def lines(self) -> tuple[str, ...]:
        """Colours of lines in a figure: Okabe and Ito's, the one that the ground hides put right."""
        return (*OKABE_ITO[:7], self.ink)


_PAIRS = {
    "back": ("#ffffff", "#111111"),
    "panel": ("#f2f2f2", "#2a2a2a"),
    "line": ("#bdbdbd", "#616161"),
    "faint": ("#e0e0e0", "#424242"),
    "ink": ("#212121", "#ffffff"),
    "dim": ("#616161", "#bdbdbd"),
    "brand": ("#1976d2", "#42a5f5"),
    "gpu": ("#e3f3e6", "#1f3d2c"),
    "node": ("#e2ecf9", "#23364d"),
}
LIGHT, DARK = (
    Colours(dark=dark, **{name: pair[dark] for name, pair in _PAIRS.items()}) for dark in (False, True)
)


def ramp(colours: Colours) -> tuple[str, ...]:
    """Cividis from nothing to much: much is dark on light ground and bright on dark ground."""
    return CIVIDIS if colours.dark else CIVIDIS[::-1]


def busy_colour(fraction: float, colours: Colours) -> str:
    """Return the colour of a busy fraction, between those of the ramp.

    Examples
    --------
    >>> busy_colour(1, LIGHT), busy_colour(0, LIGHT)
    ('#00224e', '#fee838')
    """
    steps = ramp(colours)
    at = min(1.0, max(0.0, fraction)) * (len(steps) - 1)
    k = min(len(steps) - 2, int(at))
    low, high = (bytes.fromhex(steps[j][1:]) for j in (k, k + 1))
    mixed = (round(a + (at - k) * (b - a)) for a, b in zip(low, high, strict=True))
    return "#" + bytes(mixed).hex()
