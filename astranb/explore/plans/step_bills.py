"""Energy and cost of a step."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError
from astranb.workload.astrasim2 import InfraNetwork

from .rates import ClusterRates

if TYPE_CHECKING:
    from astranb.sim import Simulation
    from astranb.workload.models import ModelStep

__all__ = ["StepBill", "bill"]

_YEAR_S: Final = 365.25 * 86_400
_LINKS_OF_A_MESSAGE: Final = 2
"""Links that a message of an infrastructure counts for: into a switch and out of it."""


@dataclass(frozen=True)
class StepBill:
    """The energy and the cost of one step.

    Hosts, fans and what switches draw without traffic are not counted.

    Attributes
    ----------
    gpu_energy_J, link_energy_J, memory_energy_J : float
        Of the GPUs with their own memory; of messages on links; of memory outside the GPUs.
    energy_J, energy_per_token_J : float
        Of all; and for each token, picture or sample.
    power_W : float
        The mean over the step.
    gpu_dollars, memory_dollars, network_dollars, cluster_dollars : float
        Prices of the GPUs, of the memory outside, of links, switches and NICs, and of all.
    dollars_per_step, dollars_per_million_tokens : float
        The step's part of the cluster's lifetime, and its electricity.
    """

    gpu_energy_J: float  # noqa: N815 - units in the names
    link_energy_J: float  # noqa: N815
    memory_energy_J: float  # noqa: N815
    energy_J: float  # noqa: N815
    energy_per_token_J: float  # noqa: N815
    power_W: float  # noqa: N815
    gpu_dollars: float
    memory_dollars: float
    network_dollars: float
    cluster_dollars: float
    dollars_per_step: float
    dollars_per_million_tokens: float

    def document(self) -> dict[str, Any]:
        """Return all figures by name."""
        return asdict(self)


def bill(sim: Simulation, step: ModelStep, rates: ClusterRates | None = None) -> StepBill:
    """Return the energy and the cost of a step that has been simulated.

    A GPU draws its peak power (or its limit) while it computes, and its idle power otherwise; each link that
    a message crosses, and each bit that the memory outside the GPUs reads or writes, adds to that. The peak
    is an upper bound: kernels that wait for memory draw less.

    Parameters
    ----------
    sim : Simulation
        Of the step, at its end; by messages.
    step : ModelStep
        With a GPU.
    rates : ClusterRates, optional
        Default: the assumed ones.

    Raises
    ------
    InputError
        The simulation has not ended, or the GPU's power is not known.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb import models
    >>> step = models.workload("gpt3-125m", models.Parallelism(data=4), gpu="h100-sxm")
    >>> sim = anb.Simulation(step)
    >>> _ = sim.run()
    >>> found = anb.explore.bill(sim, step)
    >>> 4 * 0.12 * 700 < found.power_W < 4 * 750
    True
    """
    if not sim.finished:
        raise InputError("the step has not ended", where="bill", hint="call run() first")
    if step.times is None:
        raise InputError("the step has no GPU", where="bill", hint="give gpu= to workload()")
    rates = rates or ClusterRates()
    seconds = int(sim.result.time_ps) / 1e12
    peak, idle = rates.powers_W(step.times.gpu)
    peak *= step.times.power
    computed = sum(int(row["compute_ps"]) for row in sim.result.per_rank()) / 1e12
    gpus = computed * peak + (step.ranks * seconds - computed) * idle
    inputs: Any = sim.engine
    network = inputs.run.workload.network
    rows = sim.result.table("dimensions")
    if inputs.run.result().message_bytes and not sum(row["bytes"] for row in rows):
        raise InputError("the messages were not recorded", where="bill", hint="simulate with record=True")
    links = sum(
        _crossed(row, network) * _energy(place, rates)
        for place, row in zip(network.places, rows, strict=True)
    )
    outside = (step.moved_bytes + step.expanded_bytes) * 8 * rates.memory_pJ_per_bit / 1e12
    energy = gpus + links + outside
    memory = step.times.expanded
    bytes_each = 0 if memory is None else memory.expanded.capacity_bytes / memory.shared_by
    prices = (
        step.ranks * rates.dollars_of(step.times.gpu),
        step.ranks * bytes_each / 1e9 * rates.memory_dollars_per_GB,
        float(network.cost_dollars(rates.network)),
    )
    dollars = sum(prices) * seconds / (rates.lifetime_years * _YEAR_S)
    dollars += energy / 3.6e6 * rates.electricity_dollars_per_kWh
    return StepBill(
        gpus, links, outside, energy, energy / step.tokens, energy / seconds, *prices, sum(prices),
        dollars, dollars / step.tokens * 1e6,
    )  # fmt: skip


def _crossed(row: dict[str, Any], network: Any) -> float:
    """Return the bytes of a dimension times the links that each has crossed."""
    if isinstance(network, InfraNetwork):
        return float(row["bytes"] * _LINKS_OF_A_MESSAGE)
    return float(row["link_bytes"])


def _energy(place: str, rates: ClusterRates) -> float:
    """Return the energy of a byte on a link, in joules."""
    each = rates.pod_link_pJ_per_bit if place == "Pod" else rates.node_link_pJ_per_bit
    return each * 8 / 1e12
