"""A GPU as simulations by cache lines see it (:class:`Preset`), and as models see it (:class:`Gpu`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from astranb.core.errors import InputError, near

from .gpu_parts import PARTS, GpuCosts, GpuLibrary, Host, Interconnect
from .reader import (
    MOST_BPS,
    MOST_BYTES,
    MOST_NS,
    Provenance,
    check_ranges,
    number_field,
    quantities,
    text_field,
)

__all__ = ["PRECISIONS", "Gpu", "Preset"]

PRECISIONS: Final = ("bf16", "fp16", "fp8", "fp4")
"""Numbers that matrices may have; fp8 and fp4 have as many bits as their names say, fp4 and the scales of its
blocks (NVFP4)."""

_MOST_PS: Final = 10**12
_MOST_COUNT: Final = 10**6
_CHANGED: Final = Provenance("assumed", "changed by the user")
_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Gpu:
    """A GPU as models see it: peaks, and the parts of them that kernels achieve.

    Parameters
    ----------
    name : str
    sms : int
        Multiprocessors (AMD: compute units) that each compute one tile of a product at a time.
    memory_Bps, memory_bytes : int
        Peak bandwidth of the memory, and its usable size (:class:`GpuMemory`).
    peaks : mapping of str to int
        Dense operations on matrices per second, by precision.
    matrices : mapping of str to float
        Part of the peak that full tiles of large products achieve, by precision.
    attention, attention_back : float
        Part of the bfloat16 peak that long causal attention achieves, forward and backward.
    attention_2 : float
        Part that FlashAttention-2 achieves where its kernels, made for A100, miss what the GPU can do; 0: as
        the other kernels.
    attention_8 : float
        Speed-up of attention in fp8 over that in bfloat16; 1: none is known.
    half_keys : int
        Keys at which attention achieves half of that.
    stream, feed : float
        Parts of the memory's bandwidth that a long pass over memory, and the matrices of a product, achieve.
    kernel_ns : int
        What a kernel takes besides, however little it does.
    decode_ns : int
        What attention of single tokens takes besides.
    graph_ns : int
        From the launch of a kernel to that of the next, in a CUDA graph.
    stream_ns : int
        From the launch of a kernel to that of the next, one after another from a framework on the host.
    fp8_tiles : tuple of (int, int, float)
        Rows, columns and the part of the largest tile's rate of the tiles of products in fp8 of two rows or
        more, where these never split ``k``; empty: they are like other products.
    cluster : int
        Thread blocks that share what one of them loads, by multicast.
    fitted : str
        The timings that the parts are fitted to, and how well; empty: docs/explanation/kernels.md holds them
        against published timings.
    own_host, own_interconnect, own_costs : optional
        As :attr:`host`, :attr:`interconnect` and :attr:`costs`, where they are known.
    own_machine : Preset, optional
        Its preset where that is not the shipped one of the same name.
    shipped : bool
        Whether its file is one of this package.

    Examples
    --------
    >>> from astranb.hardware import gpu_named
    >>> gpu = gpu_named("h100-sxm")
    >>> gpu.peaks["bf16"], gpu.sms
    (989000000000000, 132)
    """

    name: str
    sms: int = number_field(1, 10**6, shared="machine.sms")
    memory_Bps: int = number_field(1, MOST_BPS, shared="machine.hbm_Bps")  # noqa: N815 - unit in the name
    memory_bytes: int = number_field(2**20, MOST_BYTES, shared="memory.usable_bytes")
    peaks: Mapping[str, int] = number_field(10**9, 10**18, keys=PRECISIONS)
    matrices: Mapping[str, float] = number_field(0.01, 1, whole=False, keys=PRECISIONS)
    attention: float = number_field(0.01, 1, whole=False)
    attention_back: float = number_field(0.01, 1, whole=False)
    half_keys: int = number_field(0, 10**6)
    stream: float = number_field(0.01, 1, whole=False)
    feed: float = number_field(0.01, 1, whole=False)
    kernel_ns: int = number_field(0, MOST_NS)
    decode_ns: int = number_field(0, MOST_NS)
    graph_ns: int = number_field(0, MOST_NS, shared="machine.graph_ps")
    stream_ns: int = number_field(0, MOST_NS)
    attention_2: float = number_field(0, 1, whole=False, default=0.0)
    attention_8: float = number_field(1, 2, whole=False, default=1.0)
    fp8_tiles: tuple[tuple[int, int, float], ...] = number_field(0, 2**20, columns=3, default=())
    cluster: int = number_field(1, 16, default=1)
    fitted: str = text_field("")
    own_host: Host | None = None
    own_interconnect: Interconnect | None = None
    own_costs: GpuCosts | None = None
    own_machine: Preset | None = None
    shipped: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        """Make the parts of a document's plain data, and check the numbers."""
        for name, made in PARTS.items():
            part: Any = getattr(self, f"own_{name}")
            if isinstance(part, Mapping):
                object.__setattr__(self, f"own_{name}", made(**part))
        if isinstance(self.own_machine, Mapping):
            object.__setattr__(self, "own_machine", Preset(**self.own_machine))
        tiles = tuple((int(rows), int(columns), part) for rows, columns, part in self.fp8_tiles)
        object.__setattr__(self, "fp8_tiles", tiles)
        where = f"GPU {self.name!r}"
        check_ranges(self, where)
        if missing := {"bf16", *self.peaks} - self.peaks.keys() | self.peaks.keys() - self.matrices.keys():
            hint = "give each precision in peaks and in matrices, bf16 always"
            raise InputError(f"no number for {', '.join(sorted(missing))}", where=where, hint=hint)

    @property
    def peak_flops(self) -> int:
        """Dense bfloat16 operations on matrices per second."""
        return self.peaks["bf16"]

    @property
    def host(self) -> Host:
        """Its share of its host; raise InputError if that is not known."""
        return self._part(self.own_host, "host")

    @property
    def interconnect(self) -> Interconnect:
        """The links of its clusters; raise InputError if they are not known."""
        return self._part(self.own_interconnect, "interconnect")

    @property
    def costs(self) -> GpuCosts:
        """Its power and price; raise InputError if they are not known."""
        return self._part(self.own_costs, "costs")

    def _part(self, part: _Part | None, section: str) -> _Part:
        if part is None:
            hint = f"add {section!r} to the GPU's file, or 'like' with the name of a similar GPU"
            raise InputError(f"section {section!r} is missing", where=f"GPU {self.name!r}", hint=hint)
        return part


@dataclass(frozen=True)
class Preset:
    """The numbers of one kind of GPU that the simulation uses.

    Attributes
    ----------
    name : str
    sms : int
        Streaming multiprocessors (compute units).
    issue_ps : int
        Time between two instructions of one SM, each of one line.
    unroll : int
        Lines that one warp keeps in flight.
    access_lines : int
        Lines that one access of 16 B of each of its threads covers: of packets, of which a thread keeps one
        (LL) or four (LL128) in flight, a warp has no more.
    max_outstanding : int
        Requests that one SM keeps in flight: a proxy for its registers.
    warps_per_block, blocks_per_sm, warps_per_sm : int
        Occupancy: an SM takes blocks up to both limits.
    bulk_lines : int
        Lines that one load or store instruction asks for (1; more as with TMA).
    issue_lines : int
        Issue slots that such an instruction takes (see :meth:`coalesced`).
    noc_ps : int
        Latency from SM to L2 slice, or from L2 slice or SM to I/O port; 0 with a mesh.
    l2_slices, l2_ps, l2_Bps, l2_bytes, l2_ways
        Slices, time from the end of service to the response, bandwidth of all together,
        capacity and associativity; ``l2_bytes`` 0 is a GPU without L2.
    near_bytes, far_ps : int
        Buffers larger than ``near_bytes`` do not fit in the half (or die) of the L2 that is
        near to an SM. An access to the other half takes ``far_ps`` longer in each direction.
    poll_ps : int
        How much longer a packet takes to be read, there and back, whose slice is in the other half, and
        twice what a semaphore takes: what another GPU may write is never read out of the nearer half.
    atomic_ps : int
        How much longer a signal occupies its slice than a store.
    hbm_channels, hbm_ps, hbm_Bps
        Likewise for memory channels; ``hbm_ps`` comes on top of the L2's time.
    memory_bytes : int
        What programs can allocate: the usable memory, not the sold one (:class:`GpuMemory`).
    row_bytes, row_miss_ps : int
        Bytes of an open row of one channel; time that a channel needs to open another row.
    shared_bytes, register_bytes : int
        Shared memory that the thread blocks of an SM have together, and its registers.
    fence_ps : int
        Duration of a system-wide fence after all stores are acknowledged.
    packet_ps : int
        What a warp computes from one access of packets of LL to the next one of the same move.
    launch_ps, graph_ps : int
        Time from the launch of a kernel, or its replay in a graph, to its first instruction.
    engines, engine_issue_ps, engine_outstanding, engine_lines : int
        Copy engines: their number, time between two requests, requests in flight, lines per request.
    nics, nic_issue_ps, nic_outstanding, nic_lines, nic_header_bytes, nic_post_ps : int
        Of the NICs that move data to other nodes: their number, time between two requests, requests in
        flight, lines per request (its MTU), header of a request, and time from a doorbell until the
        NIC begins.
    line_bytes, header_bytes, max_payload, signal_bytes : int
    multimem_percent : int
        Share of a link's bandwidth that lines use which a switch adds up or forwards.
    columns, rows, ports : int
        Of the mesh of routers, 0 for a crossbar; I/O ports.
    chip_Bps, chip_ps : int
        Of each link of the mesh.
    sm_word : str
        ``SM`` or ``CU``, as the vendor says.
    like : str
        Shipped GPU that has what a file of this preset leaves out.
    shipped : bool
        Whether its numbers are those of a file of this package.
    sold_bytes : int, optional
        The memory as sold (:class:`GpuMemory`).
    kernels : Gpu, optional
        What its kernels achieve, for programs and models that compute.
    library : GpuLibrary, optional
        Properties by which collective libraries choose.
    sources : mapping of str to Provenance
        Where each number is from.
    other_sources : mapping of str to Provenance
        Where the numbers of the file's other sections are from, by ``section.number``.
    """

    name: str
    sms: int = number_field(1, _MOST_COUNT)
    issue_ps: int = number_field(1, _MOST_PS)
    unroll: int = number_field(1, _MOST_COUNT)
    max_outstanding: int = number_field(1, _MOST_COUNT)
    warps_per_block: int = number_field(1, _MOST_COUNT)
    blocks_per_sm: int = number_field(1, _MOST_COUNT)
    noc_ps: int = number_field(0, _MOST_PS)
    l2_slices: int = number_field(1, _MOST_COUNT)
    l2_ps: int = number_field(0, _MOST_PS)
    l2_Bps: int = number_field(0, MOST_BPS)  # noqa: N815 - unit in the name
    l2_bytes: int = number_field(0, MOST_BYTES)
    hbm_channels: int = number_field(1, _MOST_COUNT)
    hbm_ps: int = number_field(0, _MOST_PS)
    hbm_Bps: int = number_field(1, MOST_BPS)  # noqa: N815
    memory_bytes: int = number_field(1, MOST_BYTES, shared="memory.usable_bytes")
    warps_per_sm: int = number_field(1, _MOST_COUNT, default=64)
    bulk_lines: int = number_field(1, _MOST_COUNT, default=1)
    issue_lines: int = number_field(1, _MOST_COUNT, default=1)
    access_lines: int = number_field(0, _MOST_COUNT, default=4)
    l2_ways: int = number_field(1, _MOST_COUNT, default=16)
    near_bytes: int = number_field(0, MOST_BYTES, default=0)
    far_ps: int = number_field(0, _MOST_PS, default=0)
    poll_ps: int = number_field(0, _MOST_PS, default=0)
    atomic_ps: int = number_field(0, _MOST_PS, default=0)
    row_bytes: int = number_field(1, MOST_BYTES, default=1024)
    row_miss_ps: int = number_field(0, _MOST_PS, default=0)
    shared_bytes: int = number_field(1, MOST_BYTES, default=65_536)
    register_bytes: int = number_field(1, MOST_BYTES, default=262_144)
    fence_ps: int = number_field(0, _MOST_PS, default=0)
    packet_ps: int = number_field(0, _MOST_PS, default=0)
    launch_ps: int = number_field(0, _MOST_PS, default=0)
    graph_ps: int = number_field(0, _MOST_PS, default=0)
    engines: int = number_field(0, _MOST_COUNT, default=4)
    engine_issue_ps: int = number_field(1, _MOST_PS, default=1000)
    engine_outstanding: int = number_field(1, _MOST_COUNT, default=256)
    engine_lines: int = number_field(1, _MOST_COUNT, default=8)
    nics: int = number_field(1, _MOST_COUNT, default=1)
    nic_issue_ps: int = number_field(1, _MOST_PS, default=1000)
    nic_outstanding: int = number_field(1, _MOST_COUNT, default=256)
    nic_lines: int = number_field(1, _MOST_COUNT, default=32)
    nic_header_bytes: int = number_field(0, MOST_BYTES, default=42)
    nic_post_ps: int = number_field(0, _MOST_PS, default=1_000_000)
    line_bytes: int = number_field(1, MOST_BYTES, default=128)
    header_bytes: int = number_field(0, MOST_BYTES, default=16)
    max_payload: int = number_field(1, 2**30, default=128)
    signal_bytes: int = number_field(1, MOST_BYTES, default=16)
    multimem_percent: int = number_field(1, 100, default=100)
    columns: int = number_field(0, _MOST_COUNT, default=0)
    rows: int = number_field(0, _MOST_COUNT, default=0)
    ports: int = number_field(0, _MOST_COUNT, default=0)
    chip_Bps: int = number_field(0, MOST_BPS, default=0)  # noqa: N815
    chip_ps: int = number_field(0, _MOST_PS, default=0)
    sm_word: str = "SM"
    like: str = field(default="", compare=False)
    shipped: bool = field(default=False, compare=False)
    sold_bytes: int | None = field(default=None, compare=False)
    kernels: Gpu | None = field(default=None, compare=False)
    library: GpuLibrary | None = field(default=None, compare=False)
    sources: Mapping[str, Provenance] = field(default_factory=dict, compare=False)
    other_sources: Mapping[str, Provenance] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Check the numbers; those of a saved run come as plain data."""
        check_ranges(self, self._where)
        if isinstance(self.kernels, Mapping):
            object.__setattr__(self, "kernels", Gpu(**self.kernels))
        if isinstance(self.library, Mapping):
            object.__setattr__(self, "library", GpuLibrary(**self.library))
        for field_name in ("sources", "other_sources"):
            known = {name: Provenance(*one) for name, one in getattr(self, field_name).items()}
            object.__setattr__(self, field_name, known)
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
    def blocks_on_sm(self) -> int:
        """Occupancy: thread blocks that are resident on one SM at once."""
        return min(self.blocks_per_sm, self.warps_per_sm // self.warps_per_block)

    @property
    def slots(self) -> tuple[int, int]:
        """Thread blocks that are resident on the GPU at once, and its copy engines."""
        return self.sms * self.blocks_on_sm, self.engines

    @property
    def mesh(self) -> bool:
        """Whether a mesh of routers joins SMs, memory and ports."""
        return self.columns > 0

    def but(self, **changes: int) -> Preset:
        """Return a copy of this preset with some numbers changed.

        Raises
        ------
        InputError
            The number is unknown or out of range.

        Examples
        --------
        >>> from astranb.gpu import preset
        >>> preset("h100-sxm").but(unroll=8).unroll
        8
        """
        known = list(quantities(Preset))
        for name, value in changes.items():
            if name not in known:
                raise InputError(f"unknown number {name!r}", where=self._where, hint=near(name, known))
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name} must be a whole number, got {value!r}", where=self._where)
        sources = {**self.sources, **dict.fromkeys(changes, _CHANGED)}
        return dataclasses.replace(self, shipped=False, **changes, sources=sources)  # type: ignore[arg-type]

    def coalesced(self, lines: int) -> Preset:
        """Return a preset that sends several consecutive lines as one request: faster, but not exact.

        A request uses the issue slots, in-flight slots, bytes on each wire and service time of all
        its lines, but they take one route and arrive together with the last one.

        Parameters
        ----------
        lines : int
            Lines per request.

        Examples
        --------
        >>> from astranb.gpu import preset
        >>> few = preset("h100-sxm").coalesced(4)
        >>> few.bulk_lines, few.issue_lines, few.max_outstanding, few.unroll
        (4, 4, 64, 8)
        """
        if lines == 1:
            return self
        return self.but(
            bulk_lines=self.bulk_lines * lines,
            issue_lines=self.issue_lines * lines,
            max_outstanding=max(1, self.max_outstanding // lines),
            unroll=max(1, self.unroll // lines),
            warps_per_block=max(1, self.warps_per_block // max(1, lines // self.unroll)),
            blocks_per_sm=self.blocks_on_sm,
        )

    @property
    def _where(self) -> str:
        return f"GPU {self.name!r}"
