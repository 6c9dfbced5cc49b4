"""Themis: each chunk goes first through the dimension that has the least to do.

Source: S. Rashidi et al., "Themis" (ISCA 2022), as in ASTRA-sim 1.0 (MIT licence, tag
``tutorial-asplos2023``). The collectives of one instant share the loads.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Themis"]

_MIB = 1 << 20


class Themis:
    """Loads of the dimensions, and the order of dimensions of one chunk after another.

    Parameters
    ----------
    units : sequence of int
        NPUs of each dimension.
    bandwidth : sequence of float
        Of an NPU into each dimension.
    gap_denominator : int
        The usual order is kept where loads differ by less than a chunk over this.
    flexible : bool
        Whether chunks are as large as evens the loads out.

    Examples
    --------
    >>> themis = Themis((4, 4), (50.0, 25.0), 16, flexible=False)
    >>> [themis.schedule(1 << 20, 1 << 20, 3, gather=False)[0] for _ in range(3)]
    [[0, 1], [1, 0], [0, 1]]
    """

    def __init__(
        self, units: Sequence[int], bandwidth: Sequence[float], gap_denominator: int, *, flexible: bool
    ) -> None:
        self._units, self._gap, self._flexible = tuple(units), gap_denominator, flexible
        self._share = tuple(one / bandwidth[0] for one in bandwidth)
        # Dimensions in the order in which they were sorted last, each with its load.
        self._loads: list[tuple[float, int]] = []
        self.forget()

    def forget(self) -> None:
        """Begin an instant: there is no load."""
        self._loads = [(0.0, dim) for dim in range(len(self._units))]

    def _load(self, dim: int, size: int, *, gather: bool) -> float:
        """What a chunk adds to a dimension: MiB sent, by the bandwidth of the first one."""
        units = self._units[dim]
        part = float(units - 1) if gather else float(units - 1) / units
        return size / _MIB * part / self._share[dim]

    def _even(self, gap: float, dim: int, *, gather: bool) -> int:
        """The chunk that would fill a gap between loads."""
        units = self._units[dim]
        part = float(units - 1) if gather else float(units - 1) / units
        return int(gap * self._share[dim] / part * _MIB)

    def schedule(self, left: int, usual: int, involved: int, *, gather: bool) -> tuple[list[int], int]:
        """Give the order of dimensions of the next chunk, and its size.

        Parameters
        ----------
        left : int
            Bytes that no chunk has yet.
        usual : int
            Bytes of a chunk.
        involved : int
            A bit for each dimension that takes part.
        gather : bool
            An all-gather, whose data grows, instead of a scatter.
        """
        loads = sorted(self._loads, key=lambda each: each[0])
        if gather:
            loads.reverse()
        taking = [at for at, (_, dim) in enumerate(loads) if involved >> dim & 1 and self._units[dim] > 1]
        if not taking:
            self._loads = loads
            return list(range(len(loads))), min(left, usual)
        size = usual
        first = taking[0]
        if gather:
            far = taking[-1]
            even = self._even(abs(loads[far][0] - loads[first][0]), loads[far][1], gather=True)
            for at in reversed(taking[:-1]):
                even //= self._units[loads[at][1]]
        else:
            even = self._even(abs(loads[-1][0] - loads[first][0]), loads[first][1], gather=False)
        if self._flexible:
            in_order = even < usual
            size = min(left, usual) if in_order else even
        else:
            in_order = even < usual // self._gap
        result = min(left, size)
        if in_order:
            loads = sorted(loads, key=lambda each: each[1], reverse=gather)
        order = [dim for _, dim in loads]
        for at, (load, dim) in enumerate(loads):
            if involved >> dim & 1 and self._units[dim] > 1:
                loads[at] = (load + self._load(dim, size, gather=gather), dim)
                size = size * self._units[dim] if gather else size // self._units[dim]
        self._loads = loads
        return (list(range(len(loads))) if in_order else order), result
