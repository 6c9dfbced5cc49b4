"""GPU presets: the numbers of each GPU, with a source for every one, shipped or from a file."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from astranb.core.document import DocumentNode, read_document
from astranb.core.errors import InputError, near
from astranb.core.files import whole_file
from astranb.core.plugins import Registry
from astranb.core.units import bandwidth_Bps, time_ps

__all__ = [
    "NUMBERS",
    "PRESETS",
    "SHORT_NAMES",
    "Preset",
    "check_header",
    "checked_name",
    "preset",
    "preset_of",
    "read_preset",
    "write_preset",
]


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
    atomic_ps : int
        How much longer a signal occupies its slice than a store.
    hbm_channels, hbm_ps, hbm_Bps, hbm_bytes
        Likewise for memory channels; ``hbm_ps`` comes on top of the L2's time.
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
    access_lines: int = 4
    l2_ways: int = 16
    near_bytes: int = 0
    far_ps: int = 0
    atomic_ps: int = 0
    row_bytes: int = 1024
    row_miss_ps: int = 0
    shared_bytes: int = 65_536
    register_bytes: int = 262_144
    fence_ps: int = 0
    packet_ps: int = 0
    launch_ps: int = 0
    graph_ps: int = 0
    engines: int = 4
    engine_issue_ps: int = 1000
    engine_outstanding: int = 256
    engine_lines: int = 8
    nics: int = 1
    nic_issue_ps: int = 1000
    nic_outstanding: int = 256
    nic_lines: int = 32
    nic_header_bytes: int = 42
    nic_post_ps: int = 1_000_000
    line_bytes: int = 128
    header_bytes: int = 16
    max_payload: int = 128
    signal_bytes: int = 16
    multimem_percent: int = 100
    columns: int = 0
    rows: int = 0
    ports: int = 0
    chip_Bps: int = 0  # noqa: N815
    chip_ps: int = 0
    sm_word: str = "SM"
    sources: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Reject numbers that no machine can have."""
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
    def blocks_on_sm(self) -> int:
        """Occupancy: thread blocks that are resident on one SM at once."""
        return min(self.blocks_per_sm, self.warps_per_sm // self.warps_per_block)

    @property
    def slots(self) -> tuple[int, int]:
        """How many thread blocks are resident on the GPU at once, and how many copy engines it has."""
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
        known = [f.name for f in dataclasses.fields(self) if isinstance(getattr(self, f.name), int)]
        for name, value in changes.items():
            if name not in known:
                raise InputError(f"unknown number {name!r}", where=self._where, hint=near(name, known))
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name} must be a whole number, got {value!r}", where=self._where)
        sources = {**self.sources, **dict.fromkeys(changes, "changed by the user")}
        return dataclasses.replace(self, **changes, sources=sources)  # type: ignore[arg-type]

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


_AT_LEAST_ONE = (
    "sms", "issue_ps", "unroll", "max_outstanding", "warps_per_block", "blocks_per_sm", "warps_per_sm",
    "bulk_lines", "issue_lines", "l2_slices", "l2_ways", "hbm_channels", "hbm_Bps", "row_bytes",
    "engine_issue_ps", "engine_outstanding", "engine_lines", "nics", "nic_issue_ps", "nic_outstanding",
    "nic_lines", "line_bytes", "max_payload", "signal_bytes", "shared_bytes", "register_bytes",
    "multimem_percent",
)  # fmt: skip


_FORMAT, _VERSION = "astranb-gpu-preset", 1

NUMBERS = {f.name: f.default is dataclasses.MISSING for f in dataclasses.fields(Preset) if f.type == "int"}
"""The numbers of a preset, and whether each is required in a file."""

_MOST = (("_ps", 10**12), ("_Bps", 10**16), ("_bytes", 2**50), ("max_payload", 2**30), ("_percent", 100))
_MOST_COUNT = 10**6
_KEYS = ("format", "version", "name", "sm_word", "numbers", "sources")


def write_preset(preset: Preset, path: str | Path) -> None:
    """Write a preset to a file, whole or not at all.

    Parameters
    ----------
    preset : Preset
    path : str or Path
        The file to write; its name must end in ``.json``.

    Raises
    ------
    InputError
        The file cannot be written, or its name does not end in ``.json``.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.gpu import preset
    >>> file = Path(tempfile.mkdtemp()) / "few.json"
    >>> write_preset(preset("h100-sxm").but(sms=66), file)
    >>> preset(file).sms
    66
    """
    file = Path(path)
    if file.suffix.lower() != ".json":
        raise InputError("the name of a preset file ends in .json", where=str(path), hint=f"use {file}.json")
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "name": preset.name,
        "sm_word": preset.sm_word,
        "numbers": {name: getattr(preset, name) for name in NUMBERS},
        "sources": preset.sources,
    }
    with whole_file(file) as out:
        out.write((json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())


def read_preset(path: str | Path) -> Preset:
    """Read a preset from a file that :func:`write_preset` or a person has written.

    Raises
    ------
    InputError
        The file is missing or not a preset.
    """
    return preset_of(read_document(path, form="json"))


def preset_of(root: DocumentNode) -> Preset:
    """Return the preset in a document."""
    check_header(root, _FORMAT, _VERSION, "`astranb gpu from` makes a preset from a measurement")
    for key in root.value:
        if key not in _KEYS:
            raise root.get(key).error(f"unknown {key[:40]!r}", near(key[:40], _KEYS))
    numbers = root.get("numbers")
    numbers.get("sms")  # reports numbers that are not an object
    for name in numbers.value:
        if name not in NUMBERS:
            raise numbers.get(name).error(f"unknown number {name[:40]!r}", near(name[:40], NUMBERS))
    given = {
        name: numbers.get(name).number(0, _most(name))
        for name, must in NUMBERS.items()
        if must or numbers.has(name)
    }
    given_sources = root.get("sources", {})
    if not isinstance(given_sources.value, dict):
        raise given_sources.error("an object is expected", "give a source for each number")
    known = {name: given_sources.get(name).text() for name in given_sources.value if name in NUMBERS}
    sources = {name: known.get(name) or f"given in {Path(root.file).name}" for name in NUMBERS}
    name = checked_name(root.get("name").text(), f"{root.file}: name")
    word = root.get("sm_word", "SM").choice(("SM", "CU"))
    try:
        return Preset(name=name, sm_word=word, sources=sources, **given)
    except InputError as error:
        raise InputError(error.what, where=f"{root.file}: numbers", hint=error.hint) from None


def check_header(root: DocumentNode, wanted: str, version: int, hint: str) -> None:
    """Reject a document of another format or version."""
    found = root.get("format")
    if found.value != wanted:
        raise found.error(f"{wanted!r} is expected, not {found.brief}", hint)
    there = root.get("version")
    if there.number(0, 2**31) != version:
        raise there.error(f"unknown version {there.value}", f"this release reads version {version}")


def checked_name(word: str, where: str = "name") -> str:
    """Return the name of a preset if it is short and usable as a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,59}", word, re.ASCII):
        hint = "use letters, digits, '-', '_' and '.'"
        raise InputError(f"{word[:40]!r} is not a valid GPU name", where=where, hint=hint)
    return word


def _most(name: str) -> int:
    return next((most for ending, most in _MOST if name.endswith(ending)), _MOST_COUNT)


_MT4G = "measured, caps-tum/mt4g sample_results @4cc5566"
_BENCHES = "measured, RRZE-HPC/gpu-benches @1038c5d"
_TUNING = "NCCL @5067397c, src/graph/tuning.cc"
_NCCL = "derived: NVLink 4 carries 450 GB/s a direction, NCCL reaches 370 (nccl-tests#212): 128/(128+16+16)"
_KERNELS = "period of back-to-back kernels of 64 KiB, " + _BENCHES + " gpu-small-kernels"

_ROW_MISS = "fitted: streaming reads reach the measured 0.82 of the peak (other banks hide most)"
_ONE_CLOCK = "assumed: one more clock of the slice"
_HALF = "half of the L2: two partitions (NVIDIA A100 white paper)"
_CROSSBAR = "a crossbar, not a mesh"

Numbers = dict[str, tuple[int | str, str]]
"""Numbers of a preset, each with its source; a text has a unit."""

_COMMON: Numbers = {
    "unroll": (
        32,
        "8 x 16 B a thread, 32 threads: ncclCollUnroll, NVIDIA/nccl @5067397c src/include/device.h",
    ),
    "access_lines": (4, "32 threads of 16 B: 512 B (packets of LL and LL128, NVIDIA/nccl src/device)"),
    "max_outstanding": (256, "assumed: 32 KiB in flight per SM, a proxy for its registers"),
    "warps_per_block": (16, "512 threads a block, as NCCL's and MSCCL++'s copy kernels launch"),
    "blocks_per_sm": (2, "2048 threads an SM and 512 a block allow 4; half, for registers (assumed)"),
    "warps_per_sm": (64, "2048 threads an SM (NVIDIA and AMD data sheets)"),
    "bulk_lines": (1, "one line per instruction; but(bulk_lines=...) gives TMA-like requests"),
    "issue_lines": (1, "one slot per instruction; more only where lines are coalesced"),
    "l2_ways": (16, "16 ways: NVIDIA publishes none; dissected for V100 by Jia et al., arXiv 1804.06826"),
    "atomic_ps": (505, _ONE_CLOCK),
    "row_bytes": (1024, "1 KiB pages of a pseudo channel (JEDEC JESD235, JESD238)"),
    "row_miss_ps": (667, _ROW_MISS),
    "shared_bytes": (
        227 * 2**10,
        "227 KiB for compute capability 9.0 (CUDA C++ Programming Guide, table of limits)",
    ),
    "register_bytes": (
        256 * 2**10,
        "65,536 registers of 4 B an SM (CUDA C++ Programming Guide, table of limits)",
    ),
    "fence_ps": ("600 ns", "fitted: see docs/fidelity.md"),
    "engines": (4, "assumed: the copy engines that peer copies use"),
    "engine_issue_ps": (1000, "assumed: a request a nanosecond"),
    "engine_outstanding": (256, "assumed: enough for the link's bandwidth times its latency"),
    "engine_lines": (8, "assumed: requests of 1 KiB"),
    "nics": (1, "one for each GPU: the route to it leads over the nearest"),
    "nic_issue_ps": (1000, "assumed: a request a nanosecond; the link of a NIC has its message rate"),
    "nic_outstanding": (
        256,
        "assumed: 1 MiB, enough for 50 GB/s times a round trip of 5 us and reads of memory",
    ),
    "nic_lines": (32, "4 KiB, the MTU of InfiniBand and RoCE"),
    "nic_header_bytes": (42, "LRH 8, BTH 12, RETH 16, ICRC 4, VCRC 2 B (InfiniBand Architecture, volume 1)"),
    "nic_post_ps": ("1 us", "NCCL's overhead of posting to the network, src/graph/tuning.cc @5067397c"),
    "line_bytes": (128, "NVIDIA and AMD L2 lines; one wavefront request of ASTRA-sim 3.0 (arXiv 2606.10440)"),
    "header_bytes": (16, _NCCL),
    "max_payload": (128, "one line behind each header: SM-driven stores are of lines"),
    "signal_bytes": (16, "one 16 B flit (assumed)"),
    "multimem_percent": (100, "no switch adds up for this GPU"),
    "packet_ps": (0, "no ceiling of LL to fit it to"),
    **dict.fromkeys(("columns", "rows", "ports", "chip_Bps", "chip_ps"), (0, _CROSSBAR)),
}

_H100: Numbers = {
    **_COMMON,
    "multimem_percent": (85, f"efficiency of NVLS on Hopper, {_TUNING}"),
    "packet_ps": ("355 ns", f"fitted: rings of LL reach 141 GB/s, their ceiling on Hopper, {_TUNING}"),
    "sms": (132, "NVIDIA H100 data sheet"),
    "issue_ps": (1010, "64 B a clock between SM and L2 at 1.98 GHz (NVIDIA A100 white paper)"),
    "noc_ps": ("30 ns", f"derived: an L2 hit takes 219 clocks = 111 ns ({_MT4G}), shared out with l2_ps"),
    "l2_slices": (80, "assumed as A100: 80 slices (NVIDIA A100 white paper)"),
    "l2_ps": (
        "48.643 ns",
        f"derived: with two noc_ps and the slice's service an L2 hit takes 111 ns; {_MT4G}",
    ),
    "l2_Bps": ("7 TB/s", f"7.0 TB/s, H100 PCIe up to 23 MB, {_BENCHES}: the slower card, so at least this"),
    "l2_bytes": (50 * 2**20, "NVIDIA H100 data sheet"),
    "near_bytes": (25 * 2**20, _HALF),
    "far_ps": ("65 ns", f"derived: GH200 far 231 to 314 ns, near 142 ns; {_BENCHES}"),
    "hbm_channels": (80, "5 HBM3 stacks of 16 channels (JEDEC JESD238)"),
    "hbm_ps": ("306 ns", f"derived: 834 clocks = 421 ns to HBM less the L2 hit and a row miss; {_MT4G}"),
    "hbm_Bps": ("3.35 TB/s", "3.35 TB/s, NVIDIA H100 data sheet"),
    "hbm_bytes": (80 * 10**9, "80 GB, NVIDIA H100 data sheet"),
    "launch_ps": ("2.43 us", f"H200 2.43 us, {_KERNELS}"),
    "graph_ps": ("1.26 us", f"H200 1.26 us, {_KERNELS}"),
}

_A100: Numbers = {
    **_COMMON,
    "sms": (108, "NVIDIA A100 data sheet"),
    "packet_ps": ("675 ns", f"fitted: rings of LL reach 87.7 GB/s, their ceiling on Ampere, {_TUNING}"),
    "issue_ps": (1418, "64 B a clock between SM and L2 at 1.41 GHz (NVIDIA A100 white paper)"),
    "noc_ps": (
        "40 ns",
        f"derived: a near L2 hit takes 205.7 clocks = 146 ns ({_BENCHES}), shared out with l2_ps",
    ),
    "l2_slices": (80, "80 slices of 64 B a clock (NVIDIA A100 white paper)"),
    "l2_ps": (
        "64 ns",
        f"derived: with two noc_ps and the slice's service a near hit takes 146 ns; {_BENCHES}",
    ),
    "l2_Bps": ("5.4 TB/s", f"5.4 TB/s, {_BENCHES}"),
    "l2_bytes": (40 * 2**20, "NVIDIA A100 data sheet"),
    "near_bytes": (20 * 2**20, _HALF),
    "far_ps": ("69 ns", f"derived: about 400 clocks = 285 ns beyond 20 MB, 146 ns below; {_BENCHES}"),
    "atomic_ps": (709, _ONE_CLOCK),
    "hbm_channels": (80, "5 HBM2e stacks of 8 channels, 2 pseudo channels each (JEDEC JESD235)"),
    "hbm_ps": ("224 ns", f"derived: 512 to 552 clocks = 363 to 392 ns to HBM less the L2 hit; {_BENCHES}"),
    "hbm_Bps": ("2.039 TB/s", "2.039 TB/s, NVIDIA A100 80 GB data sheet"),
    "hbm_bytes": (80 * 10**9, "NVIDIA A100 80 GB data sheet"),
    "shared_bytes": (
        163 * 2**10,
        "163 KiB for compute capability 8.0 (CUDA C++ Programming Guide, table of limits)",
    ),
    "header_bytes": (16, f"{_NCCL}, taken for NVLink 3 too"),
    "fence_ps": ("700 ns", "fitted: see docs/fidelity.md"),
    "launch_ps": ("2.6 us", f"A100 2.6 us, {_KERNELS}"),
    "graph_ps": ("1.34 us", f"A100 1.34 us, {_KERNELS}"),
}

_H200: Numbers = {
    **_H100,
    "l2_slices": (96, "as many as memory channels (assumed)"),
    "hbm_channels": (96, "6 HBM3e stacks of 16 channels (JEDEC JESD238)"),
    "hbm_Bps": ("4.8 TB/s", "4.8 TB/s, NVIDIA H200 data sheet"),
    "hbm_bytes": (141 * 10**9, "141 GB, NVIDIA H200 data sheet"),
    "row_miss_ps": (562, _ROW_MISS),
    "launch_ps": ("2.43 us", f"2.43 us, {_KERNELS}"),
    "graph_ps": ("1.26 us", f"1.26 us, {_KERNELS}"),
}

_H800: Numbers = {name: (value, f"as H100: {source}") for name, (value, source) in _H100.items()}

_H20_SHEET = "NVIDIA HGX H20 data sheet, in SemiAnalysis of November 2023"
_H20: Numbers = {
    **_H100,
    "sms": (78, "78, as CUDA reports them (Geekbench 6)"),
    "l2_slices": (96, "as many as memory channels (assumed)"),
    "l2_Bps": (4529 * 2**30 * 96 // 80, "assumed: H100's a slice"),
    "l2_bytes": (60 * 2**20, f"60 MB, {_H20_SHEET}"),
    "near_bytes": (30 * 2**20, _HALF),
    "hbm_channels": (96, "6 HBM3 stacks of 16 channels (JEDEC JESD238)"),
    "hbm_Bps": ("4 TB/s", f"4.0 TB/s, {_H20_SHEET}"),
    "hbm_bytes": (96 * 10**9, f"96 GB, {_H20_SHEET}"),
    "row_miss_ps": (674, "derived from H200's: the same part of the peak of a channel"),
}

_B200: Numbers = {
    **_H100,
    "multimem_percent": (74, f"efficiency of NVLS on Blackwell, {_TUNING}"),
    "packet_ps": ("355 ns", f"taken from H100; NCCL's ceiling of LL is twice Hopper's, {_TUNING}"),
    "max_outstanding": (384, "fitted: 1 MiB from each of eight B200 to the next one (docs/fidelity.md)"),
    "sms": (148, "NVIDIA Blackwell: 148 SMs enabled in B200"),
    "issue_ps": (1018, "64 B a clock at 1.965 GHz boost (NVIDIA B200 data sheet)"),
    "noc_ps": ("45 ns", "derived with l2_ps"),
    "l2_slices": (128, "as many as memory channels (assumed)"),
    "l2_ps": ("58 ns", "derived: 295 clocks to L2 = 150 ns (markdewing/AI_kernels latency/README.md)"),
    "l2_Bps": (7 * 10**12 * 128 // 80, "assumed: H100's a slice"),
    "l2_bytes": (126 * 2**20, "126 MB of L2 (NVIDIA Blackwell architecture brief)"),
    "near_bytes": (63 * 2**20, "half of the L2: two dies"),
    "far_ps": ("65 ns", "assumed as H100's partitions"),
    "hbm_channels": (128, "8 HBM3e stacks of 16 channels (JEDEC JESD238)"),
    "hbm_ps": ("287 ns", "derived: 860 clocks = 438 ns to HBM (markdewing/AI_kernels latency/README.md)"),
    "hbm_Bps": ("8 TB/s", "8 TB/s, NVIDIA B200 data sheet"),
    "hbm_bytes": (180 * 10**9, "180 GB, NVIDIA B200 data sheet"),
    "row_miss_ps": (450, _ROW_MISS),
    "launch_ps": ("2.43 us", "taken from H200"),
    "graph_ps": ("1.26 us", "taken from H200"),
}

_GB200: Numbers = {
    **{name: (value, f"as B200: {source}") for name, (value, source) in _B200.items()},
    "hbm_Bps": ("8 TB/s", "576 TB/s for 72 GPUs, NVIDIA GB200 NVL72 data sheet"),
    "hbm_bytes": (186 * 10**9, "13.4 TB for 72 GPUs, NVIDIA GB200 NVL72 data sheet"),
}
_GB300: Numbers = {
    **_GB200,
    "hbm_Bps": ("8 TB/s", "576 TB/s for 72 GPUs, NVIDIA GB300 NVL72 data sheet"),
    "hbm_bytes": (278 * 10**9, "20 TB for 72 GPUs, NVIDIA GB300 NVL72 data sheet"),
}

_MI300X: Numbers = {
    **_H100,
    "multimem_percent": _COMMON["multimem_percent"],
    "packet_ps": _COMMON["packet_ps"],
    "sms": (304, "304 CUs, AMD Instinct MI300X data sheet"),
    "issue_ps": (956, "64 B a clock between CU and L2 at 2.1 GHz (AMD CDNA 3 white paper)"),
    "unroll": (
        16,
        "2 x 16 B a thread, 64 threads: getUnrollFactor, ROCm/rccl @0cbce2a7 src/enqueue.cc",
    ),
    "access_lines": (8, "64 threads of 16 B: 1 KiB"),
    "warps_per_block": (8, "512 threads a block, 8 wavefronts of 64"),
    "warps_per_sm": (32, "2048 threads a CU, 32 wavefronts of 64 (AMD CDNA 3 ISA guide)"),
    "noc_ps": ("28 ns", f"derived: 213 clocks = 102 ns to the XCD's own L2; {_BENCHES}"),
    "l2_slices": (128, "128 slices of the Infinity Cache (AMD CDNA 3 white paper)"),
    "l2_ps": ("44 ns", f"derived: with two noc_ps 102 ns to the near cache; {_BENCHES}"),
    "l2_Bps": (
        "11.9 TB/s",
        "11.9 TB/s from the Infinity Cache (Chips and Cheese, Testing AMD's Giant MI300X)",
    ),
    "l2_bytes": (256 * 2**20, "256 MB of Infinity Cache, AMD CDNA 3 white paper"),
    "l2_ways": (16, "16 (AMD CDNA 3 white paper)"),
    "near_bytes": (4 * 2**20, "4 MB of L2 in each XCD (AMD CDNA 3 white paper)"),
    "far_ps": ("58 ns", f"derived: 218 ns to the Infinity Cache, 102 ns to the XCD's L2; {_BENCHES}"),
    "hbm_channels": (128, "8 HBM3 stacks of 16 channels (JEDEC JESD238)"),
    "hbm_ps": ("302 ns", f"derived: 835 to 884 clocks = 399 to 422 ns to HBM; {_BENCHES}"),
    "hbm_Bps": ("5.3 TB/s", "5.3 TB/s, AMD Instinct MI300X data sheet"),
    "hbm_bytes": (192 * 10**9, "192 GB, AMD Instinct MI300X data sheet"),
    "shared_bytes": (64 * 2**10, "64 KiB of LDS a CU (AMD CDNA 3 white paper)"),
    "register_bytes": (512 * 2**10, "512 KiB of vector registers a CU (AMD CDNA 3 ISA guide)"),
    "row_miss_ps": (1000, "fitted: 4.0 TB/s of streaming reads (mt4g 3.69, STREAM 4.13)"),
    "header_bytes": (16, "derived: 48 to 50 of 64 GB/s a link (RCCL 316 GB/s all-reduce over 7 links)"),
    "fence_ps": (
        "600 ns",
        "agent-scope release 126 to 134 ns and acquire 120 ns, cross-die flag 601 ns (probe)",
    ),
    "launch_ps": ("2.05 us", f"MI210 2.05 us, {_KERNELS}"),
    "graph_ps": ("2.05 us", f"MI210 2.05 us, {_KERNELS}"),
}

_PAPER = "ASTRA-sim 3.0, section 5 (arXiv 2606.10440)"
_NOT_GIVEN = "assumed: the paper gives none"
_NO_CACHE, _NO_LAUNCH = (0, f"no cache, {_PAPER}"), (0, f"launch is not modelled, {_PAPER}")

_GENERIC: Numbers = {
    **{name: (value, _NOT_GIVEN) for name, (value, _) in _COMMON.items()},
    "access_lines": (1024, "no limit of packets besides unroll: the paper has none"),
    "sms": (128, f"4 CUs at each of 32 routers, {_PAPER}"),
    "issue_ps": (1000, _NOT_GIVEN),
    "unroll": (16, _NOT_GIVEN),
    "max_outstanding": (1024, _NOT_GIVEN),
    "warps_per_block": (4, _NOT_GIVEN),
    "noc_ps": (0, "a mesh, not a crossbar"),
    "l2_slices": (256, f"one behind each memory channel: no cache, {_PAPER}"),
    **dict.fromkeys(("l2_ps", "l2_Bps", "l2_bytes", "near_bytes", "far_ps"), _NO_CACHE),
    "atomic_ps": (0, _NOT_GIVEN),
    "hbm_channels": (256, f"16 at each router of the top and bottom edges, {_PAPER}"),
    "hbm_ps": ("120 ns", "120 ns, a public re-implementation's note on the paper, unconfirmed"),
    "hbm_Bps": (4 * 2**40, f"4 TiB/s, {_PAPER}"),
    "hbm_bytes": (64 * 2**30, _NOT_GIVEN),
    "row_miss_ps": (0, _NOT_GIVEN),
    "fence_ps": ("600 ns", "assumed as MI300X: the paper gives none"),
    **dict.fromkeys(("launch_ps", "graph_ps"), _NO_LAUNCH),
    "line_bytes": (128, f"one wavefront request, {_PAPER}"),
    "columns": (8, f"8 x 4 routers, {_PAPER}"),
    "rows": (4, f"8 x 4 routers, {_PAPER}"),
    "ports": (32, f"4 at each router of the left and right edges, {_PAPER}"),
    "chip_Bps": (512 * 2**30, _NOT_GIVEN),
    "chip_ps": (1000, _NOT_GIVEN),
}


def _preset(name: str, numbers: Numbers, sm_word: str = "SM") -> Preset:
    """Return a shipped preset; a text among its numbers is a time or a bandwidth with a unit."""
    values: dict[str, int] = {}
    for number, (value, _) in numbers.items():
        read = time_ps if number.endswith("_ps") else bandwidth_Bps
        values[number] = read(value) if isinstance(value, str) else value
    sources = {number: source for number, (_, source) in numbers.items()}
    return Preset(name=name, sm_word=sm_word, sources=sources, **values)


_SHIPPED = (
    _preset("h100-sxm", _H100),
    _preset("a100-sxm", _A100),
    _preset("h200-sxm", _H200),
    _preset("h800-sxm", _H800),
    _preset("h20-sxm", _H20),
    _preset("gb200", _GB200),  # in front of b200: a cluster's name is searched for these
    _preset("gb300", _GB300),
    _preset("b200-sxm", _B200),
    _preset("mi300x", _MI300X, "CU"),
    _preset("generic", _GENERIC, "CU"),
)
PRESETS: Registry[str, Preset] = Registry(
    "presets",
    Preset,
    lambda one: one.name,
    {p.name: p for p in _SHIPPED},
    read=lambda found: read_preset(found) if isinstance(found, str | Path) else found,
)
"""The presets by name; a plug-in offers a preset, or its file."""

SHORT_NAMES = {p.name.removesuffix("-sxm"): p.name for p in _SHIPPED if p.name.endswith("-sxm")}
"""Names without their socket, which every command takes too: ``h100`` is ``h100-sxm``."""


def preset(name: str | Path) -> Preset:
    """Return a preset by its name, or read it from a ``.json`` file.

    Parameters
    ----------
    name : str or Path
        The name of a shipped preset, or a file as :func:`write_preset` writes it.

    Raises
    ------
    InputError
        The name is unknown (similar names are listed), or the file is not a preset.

    Examples
    --------
    >>> preset("h100-sxm").sms
    132
    """
    if isinstance(name, Path) or name.lower().endswith(".json"):
        return read_preset(name)
    try:
        return PRESETS[SHORT_NAMES.get(name, name)]
    except KeyError:
        hint = f"{near(name, PRESETS)}; or give a file, for example my-gpu.preset.json"
        raise InputError(f"unknown GPU preset {name!r}", hint=hint) from None
