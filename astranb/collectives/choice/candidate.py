"""Candidates of a library, and its choice."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from astranb.collectives.library import Collective
from astranb.core.plural import plural
from astranb.core.units import format_bytes

__all__ = ["LibraryCandidate", "LibraryChoice", "LibraryCost"]

_COUNTS_LAUNCHES = ("nccl", "rccl")  # whose tables of base latencies do, from the host
_IN_GRAPHS = ("mscclpp", "vllm", "sglang", "trtllm")  # whose tests, or who themselves, replay graphs


@dataclass(frozen=True, slots=True)
class LibraryCost:
    """Cost of a library's collective by messages: its software; links add their own time.

    Attributes
    ----------
    algorithm : str
        Pattern of the messages, as ASTRA-sim names it: ``ring``, ``doubleBinaryTree`` (the library's: chains
        in nodes, binary trees between them) or ``direct``.
    begin_us : float
        Before the first message: the launch, and the library's base latency.
    near_us, far_us : float
        Latency of a hop within a node and between nodes, link included.
    bandwidth_GBps : float
        Bytes of the collective over their time, all channels together; 0 where only links bound it.
    link_share, far_share : float
        Data in what a link within a node and between nodes carries, where only links bound it: half of the
        bytes of packets are flags.
    source : str
    saved_us : float
        What a replay in a graph saves, where the base latency counts a launch.
    fill_bytes : int
        Bytes that a pipeline carries while its first chunks come in and its last ones leave.
    blocks : int
        Thread blocks that copy, where the library's tables have no bandwidth of theirs; 0 if they have.
    posts : int
        Messages that each NIC is handed, one after another, where the library's tables count none.
    """

    algorithm: str
    begin_us: float
    near_us: float
    far_us: float
    bandwidth_GBps: float  # noqa: N815 - unit in the name
    link_share: float
    source: str
    saved_us: float = 0.0
    far_share: float = 1.0
    fill_bytes: int = 0
    blocks: int = 0
    posts: int = 0


@dataclass(frozen=True, slots=True)
class LibraryCandidate:
    """An algorithm and protocol of a library with the time that its cost model predicts.

    Attributes
    ----------
    algorithm, protocol : str
        As the library names them.
    latency_us, bandwidth_GBps : float
        Of the cost model: the time is the latency and the bytes over the bandwidth.
    time_us : float
    """

    algorithm: str
    protocol: str
    latency_us: float
    bandwidth_GBps: float  # noqa: N815 - unit in the name
    time_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryChoice:
    """Choice of a library for one collective of one size on one machine.

    Attributes
    ----------
    library : str
        One of :data:`astranb.collectives.LIBRARIES`.
    collective : str
    size_bytes : int
    algorithm, protocol : str
        As the library names them.
    blocks : int
        Thread blocks of a rank; channels in NCCL's words.
    threads : int
        Of a thread block.
    chunk_bytes : int
        Data of one step of one channel at most; 0 where the library does not cut.
    simulated, simulated_protocol : str
        The algorithm and protocol of astranb that do the same.
    channels : int
        Of the simulated algorithm, so that it has as many thread blocks.
    why : tuple of str
        The rules that led to it, in order.
    source : str
        The repository and commit whose rules these are.
    candidates : tuple of LibraryCandidate
        All that the cost model compared, the fastest first; empty where sizes decide.
    base_us : float
        The library's own time before the first step, as its cost model has it; 0 where it has none.
    saved_us : float
        What a replay in a graph saves of it, where the library's table counts launches from the host.
    proxy_us : float
        What the threads that post to NICs and poll them, and the network's software, add to a hop between
        nodes.
    difference : str
        How the simulated algorithm differs from the library's; empty if it does not.
    elsewhere : str
        Where the library runs other kernels, and how to ask for them; empty if nowhere.
    nearest : str
        What was taken because nothing is known of this machine or release; empty if its rules are known.
    version : str
        Release of the library that was asked for; empty for the one that is modelled.
    params : dict of str to int
        Parameters of the simulated algorithm.
    """

    library: str
    collective: str
    size_bytes: int
    algorithm: str
    protocol: str
    blocks: int
    threads: int
    chunk_bytes: int
    simulated: str
    simulated_protocol: str
    channels: int
    why: tuple[str, ...]
    source: str
    candidates: tuple[LibraryCandidate, ...] = ()
    base_us: float = 0.0
    saved_us: float = 0.0
    proxy_us: float = 0.0
    difference: str = ""
    elsewhere: str = ""
    nearest: str = ""
    version: str = ""
    params: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def launch(self) -> str:
        """Launch cost of its kernels, as ``launch=`` of a simulation takes it.

        The base latency of NCCL and RCCL, which counts a launch from the host; otherwise the GPU's launch,
        of MSCCL++ and servers in a graph, as their tests and themselves replay it.
        """
        return self.launched()

    def launched(self, how: str | None = None) -> str:
        """Return ``launch=`` for kernels that are launched in a ``"stream"`` or a ``"graph"``.

        By default as the library's tests do it; anything else is returned as it is.
        """
        how = how or ("graph" if self.library in _IN_GRAPHS else "stream")
        if how not in ("stream", "graph") or not self.base_us:
            return how
        if self.library in _COUNTS_LAUNCHES:
            return f"{self.base_us - (self.saved_us if how == 'graph' else 0):g} us"
        return f"{how} + {self.base_us:g} us"

    @property
    def proxy_ps(self) -> int:
        """The proxy threads' share of a hop, as a network takes it."""
        return round(1e6 * self.proxy_us)

    def to_run(self, *, channels: int | None = None, root: int = 0) -> Collective:
        """Return the collective that simulates the choice.

        Parameters
        ----------
        channels : int, optional
            Instead of the library's.
        root : int
            Of a broadcast, reduction, gather or scatter.
        """
        return Collective.of(
            self.collective,
            self.size_bytes,
            self.simulated,
            channels=self.channels if channels is None else channels,
            root=root,
            protocol=self.simulated_protocol,
            chunk_bytes=self.chunk_bytes or None,
            params=self.params,
        )

    def document(self) -> dict[str, Any]:
        """Return the choice as plain data, the candidates as rows."""
        return dataclasses.asdict(self)

    def lines(self) -> list[str]:
        """Return the choice and its reasons as text."""
        chunk = f", chunks of {format_bytes(self.chunk_bytes)}" if self.chunk_bytes else ""
        launch = f"{plural(self.blocks, 'thread block')} of {plural(self.threads, 'thread')}{chunk}"
        named = f"{self.library} {self.version}".strip()
        lines = [
            f"{named} runs {self.algorithm}/{self.protocol}: {launch}",
            *(f"  {reason}" for reason in self.why),
        ]
        lines += [
            f"  {one.algorithm + '/' + one.protocol:<16} {one.time_us:10.1f} us = {one.latency_us:.1f} us "
            f"+ {format_bytes(self.size_bytes)} / {one.bandwidth_GBps:.1f} GB/s"
            for one in self.candidates
        ]
        lines.append(
            f"  simulated as {self.collective}/{self.simulated}/{self.simulated_protocol}, "
            f"{plural(self.channels, 'channel')}"
        )
        what = f": {self.base_us:g} us is the base latency of its cost model" if self.base_us else ""
        lines.append(f"  launch: {self.launch}{what}")
        if self.proxy_us:
            lines.append(
                f"  proxy threads and the network's software add {self.proxy_us:g} us to a hop between nodes"
            )
        if self.difference:
            lines.append(f"  differs: {self.difference}")
        lines += [f"  {more}" for more in (self.elsewhere, self.nearest) if more]
        return [*lines, f"  source: {self.source}"]
