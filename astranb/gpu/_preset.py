"""What a GPU preset is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from astranb.core.errors import InputError, near

__all__ = ["Preset"]


@dataclass(frozen=True)
class Preset:
    """What one kind of GPU is, as far as lines notice.

    Attributes
    ----------
    name : str
    sms : int
        Streaming multiprocessors (compute units).
    issue_ps : int
        Between two instructions of one SM, each of one line.
    unroll : int
        Lines that one warp keeps under way.
    max_outstanding : int
        Requests that one SM keeps under way: a proxy for its registers.
    warps_per_block, blocks_per_sm, warps_per_sm : int
        Occupancy: an SM takes blocks up to both limits.
    bulk_lines : int
        Lines that one load or store instruction asks for (1; more as with TMA).
    issue_lines : int
        Issue slots that such an instruction takes (see :meth:`coalesced`).
    noc_ps : int
        SM to L2 slice, or L2 slice or SM to I/O port, one way; 0 with a mesh.
    l2_slices, l2_ps, l2_Bps, l2_bytes, l2_ways
        Slices, time from the end of service to the response, bandwidth of all together,
        capacity and associativity; ``l2_bytes`` 0 is a GPU without L2.
    near_bytes, far_ps : int
        Buffers larger than this do not fit in the half (or die) of the L2 that is near to
        an SM, and the other one takes so much longer, each way.
    atomic_ps : int
        A signal occupies its slice for so much longer than a store.
    hbm_channels, hbm_ps, hbm_Bps, hbm_bytes
        Likewise for memory channels; ``hbm_ps`` comes on top of the L2's time.
    row_bytes, row_miss_ps : int
        Bytes of an open row of one channel; what opening another one costs the channel.
    fence_ps : int
        A system-wide fence, once all stores are acknowledged.
    launch_ps, graph_ps : int
        From the launch of a kernel, or its replay in a graph, to its first instruction.
    engines, engine_issue_ps, engine_outstanding, engine_lines : int
        Copy engines: between two requests, requests under way, lines of one request.
    line_bytes, header_bytes, max_payload, signal_bytes : int
    columns, rows, ports : int
        Of the mesh of routers, 0 for a crossbar; I/O ports.
    chip_Bps, chip_ps : int
        Of each link of the mesh.
    """

    name: str
    sms: int
    issue_ps: int
    unroll: int
    max_outstanding: int
    warps_per_block: int
    blocks_per_sm: int
    noc_ps: int
    l2_slices: int
    l2_ps: int
    l2_Bps: int  # noqa: N815 - unit in the name
    l2_bytes: int
    hbm_channels: int
    hbm_ps: int
    hbm_Bps: int  # noqa: N815
    hbm_bytes: int
    warps_per_sm: int = 64
    bulk_lines: int = 1
    issue_lines: int = 1
    l2_ways: int = 16
    near_bytes: int = 0
    far_ps: int = 0
    atomic_ps: int = 0
    row_bytes: int = 1024
    row_miss_ps: int = 0
    fence_ps: int = 0
    launch_ps: int = 0
    graph_ps: int = 0
    engines: int = 4
    engine_issue_ps: int = 1000
    engine_outstanding: int = 256
    engine_lines: int = 8
    line_bytes: int = 128
    header_bytes: int = 16
    max_payload: int = 128
    signal_bytes: int = 16
    columns: int = 0
    rows: int = 0
    ports: int = 0
    chip_Bps: int = 0  # noqa: N815
    chip_ps: int = 0
    sm_word: str = "SM"
    sources: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Refuse what no machine could be built of."""
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}", where=self._where)
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int) and value < 0:
                raise InputError(f"{item.name} must not be negative, got {value}", where=self._where)
        if self.warps_per_block > self.warps_per_sm:
            raise InputError(
                f"a block of {self.warps_per_block} warps does not fit on an {self.sm_word}",
                where=self._where,
                hint=f"at most {self.warps_per_sm}",
            )
        if (self.columns > 0) != (self.rows > 1):
            raise InputError("a mesh needs columns and at least 2 rows", where=self._where)
        if self.columns and (self.ports < 1 or self.chip_Bps < 1):
            raise InputError("a mesh needs ports and chip_Bps", where=self._where)

    @property
    def seats(self) -> int:
        """Thread blocks that find room on one SM."""
        return min(self.blocks_per_sm, self.warps_per_sm // self.warps_per_block)

    @property
    def mesh(self) -> bool:
        """Whether a mesh of routers joins SMs, memory and ports."""
        return self.columns > 0

    def but(self, **changes: int) -> Preset:
        """Make a preset like this one, with some numbers changed.

        Raises
        ------
        InputError
            There is no such number, or it makes no sense.

        Examples
        --------
        >>> from astranb.gpu import preset
        >>> preset("h100-sxm").but(unroll=8).unroll
        8
        """
        known = [f.name for f in dataclasses.fields(self) if isinstance(getattr(self, f.name), int)]
        for name, value in changes.items():
            if name not in known:
                raise InputError(f"a GPU has no number {name!r}", where=self._where, hint=near(name, known))
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name} must be a whole number, got {value!r}", where=self._where)
        sources = {**self.sources, **dict.fromkeys(changes, "changed by the user")}
        return dataclasses.replace(self, **changes, sources=sources)  # type: ignore[arg-type]

    def coalesced(self, lines: int) -> Preset:
        """Make a preset that sends so many consecutive lines as one request: faster, and not exact.

        A request takes the issue slots, the places under way, the bytes on each wire and the
        service of its lines, but all of them go the same way and arrive when the last one does.

        Parameters
        ----------
        lines : int

        Examples
        --------
        >>> from astranb.gpu import preset
        >>> few = preset("h100-sxm").coalesced(4)
        >>> few.bulk_lines, few.issue_lines, few.max_outstanding, few.unroll
        (4, 4, 64, 1)
        """
        if lines == 1:
            return self
        return self.but(
            bulk_lines=self.bulk_lines * lines,
            issue_lines=self.issue_lines * lines,
            max_outstanding=max(1, self.max_outstanding // lines),
            unroll=max(1, self.unroll // lines),
            warps_per_block=max(1, self.warps_per_block // max(1, lines // self.unroll)),
            blocks_per_sm=self.seats,
        )

    @property
    def _where(self) -> str:
        return f"GPU {self.name!r}"


_AT_LEAST_ONE = (
    "sms", "issue_ps", "unroll", "max_outstanding", "warps_per_block", "blocks_per_sm", "warps_per_sm",
    "bulk_lines", "issue_lines", "l2_slices", "l2_ways", "hbm_channels", "hbm_Bps", "row_bytes",
    "engine_issue_ps", "engine_outstanding", "engine_lines", "line_bytes", "max_payload", "signal_bytes",
)  # fmt: skip
