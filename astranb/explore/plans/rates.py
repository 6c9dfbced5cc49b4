"""Power and prices of GPUs, links and memory: parameters of a step's energy and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from astranb.core.document import DocumentNode, read_document
from astranb.core.errors import InputError, near
from astranb.hardware import Gpu, GpuCosts
from astranb.net import LIBRA, PLACES, CostRates

__all__ = ["ClusterRates", "read_rates"]

_NETWORKS: Final = {"astrasim1": PLACES, "libra": LIBRA}
_PARTS: Final = ("link", "switch", "nic")
_MOST: Final = 1e12


@dataclass(frozen=True)
class ClusterRates:
    """Power and prices of the parts of a cluster.

    Parameters
    ----------
    gpu_peak_W, gpu_idle_W : float, optional
        Power of a GPU with its memory while it computes, and otherwise. Default: those of the GPU's file,
        which are read unless both are given: the idle one is a part of the other, and only this part is in
        the file.
    node_link_pJ_per_bit : float
        Energy of a link within a node, for each bit: that of SerDes, 5.5 (besthub.dev, "Why Nvidia's NVLink
        C2C Is Redefining GPU-CPU Interconnects").
    pod_link_pJ_per_bit : float
        Of a link between nodes: a pluggable optical transceiver at both ends, each 30 W for 1.6 Tbit/s
        (NVIDIA at GTC 2025, in LightCounting's report on co-packaged optics).
    memory_pJ_per_bit : float
        Of memory outside the GPU, for each bit read or written; assumed.
    gpu_dollars : float, optional
        Price of a GPU with its share of a server. Default: that of the GPU's file.
    memory_dollars_per_GB : float
        Price of memory outside the GPU, per 10^9 bytes; assumed.
    network : mapping of str to tuple of float
        Dollars per GB/s of a link, a switch port and a NIC, by the kind of a dimension. Default: LIBRA's.
    lifetime_years : float
        Over which the cluster is paid, always in use; assumed.
    electricity_dollars_per_kWh : float
        Assumed.

    Examples
    --------
    >>> ClusterRates().pod_link_pJ_per_bit
    37.5
    """

    gpu_peak_W: float | None = None  # noqa: N815 - units in the names
    gpu_idle_W: float | None = None  # noqa: N815
    node_link_pJ_per_bit: float = 5.5  # noqa: N815
    pod_link_pJ_per_bit: float = 37.5  # noqa: N815
    memory_pJ_per_bit: float = 20.0  # noqa: N815
    gpu_dollars: float | None = None
    memory_dollars_per_GB: float = 5.0  # noqa: N815
    network: CostRates = field(default_factory=lambda: LIBRA)
    lifetime_years: float = 4.0
    electricity_dollars_per_kWh: float = 0.1  # noqa: N815

    def __post_init__(self) -> None:
        """Check the numbers."""
        for one in fields(self):
            value = getattr(self, one.name)
            low = 0.01 if one.name == "lifetime_years" else 0.0
            if isinstance(value, float | int) and not low <= value <= _MOST:
                raise InputError(f"{value:g} is out of range", where=one.name, hint=f"take {low:g} or more")

    def powers_W(self, gpu: Gpu) -> tuple[float, float]:  # noqa: N802 - unit in the name
        """Return the power of a GPU while it computes, and otherwise.

        Raises
        ------
        InputError
            One of the two is neither given nor in the GPU's file.
        """
        peak, idle = self.gpu_peak_W, self.gpu_idle_W
        if peak is None:
            peak = self._costs(gpu, "gpu_peak_W").peak_W
        return peak, self._costs(gpu, "gpu_idle_W").idle_part * peak if idle is None else idle

    def dollars_of(self, gpu: Gpu) -> float:
        """Return the price of a GPU with its share of a server.

        Raises
        ------
        InputError
            It is neither given nor in the GPU's file.
        """
        given = self.gpu_dollars
        return self._costs(gpu, "gpu_dollars").gpu_dollars if given is None else given

    @staticmethod
    def _costs(gpu: Gpu, rate: str) -> GpuCosts:
        """Return the costs of a GPU's file, where a rate is not given."""
        if gpu.own_costs is None:
            hint = f"give {rate} in the rates, or add 'costs' to the GPU's file"
            raise InputError("section 'costs' is missing", where=f"GPU {gpu.name!r}", hint=hint)
        return gpu.own_costs


def read_rates(path: str | Path) -> ClusterRates:
    """Read rates from YAML or JSON: the fields of :class:`ClusterRates` that differ.

    ``network`` is ``libra``, ``astrasim1``, or for each kind of dimension ``link``, ``switch`` and ``nic``.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        It cannot be read, or has unknown keys or values out of range.
    """
    document = read_document(path)
    known = [one.name for one in fields(ClusterRates)]
    if not isinstance(document.value, Mapping):
        raise document.error("an object is expected", f"give some of {', '.join(known)}")
    values: dict[str, Any] = {}
    for key in document.value:
        one = document.get(key)
        if key not in known:
            raise one.error(f"unknown key {str(key)[:40]!r}", near(str(key), known))
        low = 0.01 if key == "lifetime_years" else 0.0
        values[key] = _network(one) if key == "network" else one.real(low, _MOST)
    return ClusterRates(**values)


def _network(given: DocumentNode) -> CostRates:
    """Read what a network costs."""
    if isinstance(given.value, str):
        return _NETWORKS[given.choice(tuple(_NETWORKS))]
    if not isinstance(given.value, Mapping):
        raise given.error("a name or an object is expected", f"take {', '.join(_NETWORKS)}")
    found: dict[str, tuple[float, float | None, float | None]] = dict(LIBRA)
    for place in given.value:
        one = given.get(place)
        if place not in LIBRA:
            raise one.error(f"unknown dimension type {str(place)[:40]!r}", near(str(place), LIBRA))
        link, port, nic = (one.get(part, 0.0).real(0, _MOST) for part in _PARTS)
        found[place] = link, port, nic
    return found
