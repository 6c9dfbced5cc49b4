"""An infrastructure as the network of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from astranb.core.errors import InputError

if TYPE_CHECKING:
    from astranb.infragraph import Infra
    from astranb.net import Fabric

__all__ = ["InfraNetwork"]


@dataclass(frozen=True)
class InfraNetwork:
    """The GPUs of an infrastructure, in the order of their ranks, and the links between them.

    Parameters
    ----------
    infra : Infra
        A document, or a blueprint such as ``clos:servers=16``.
    npus_count : sequence of int, optional
        GPUs of each dimension of hierarchical collectives, the first of neighbouring ranks; if not
        given, the GPUs of one instance (a server) and the number of instances.

    Raises
    ------
    InputError
        There is no GPU, or dimensions and GPUs differ in number.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> InfraNetwork(blueprint("clos:servers=4")).npus_count
    (8, 4)
    """

    infra: Infra
    npus_count: Sequence[int] = ()
    where: str = field(default="infrastructure", compare=False)

    def __post_init__(self) -> None:
        """Find the dimensions."""
        gpus = len(self.fabric.gpus)
        if not self.npus_count:
            each = self.fabric.per_node
            counts = (each, gpus // each) if each < gpus else (gpus,)
            object.__setattr__(self, "npus_count", tuple(count for count in counts if count > 1) or (1,))
        if min(self.npus_count) < 1 or prod(self.npus_count) != gpus:
            named = " x ".join(map(str, self.npus_count))
            raise InputError(
                f"dimensions of {named} for {gpus} GPUs",
                where=self.where,
                hint="give dimensions whose product is the number of GPUs (--dimensions 8x4)",
            )

    @cached_property
    def fabric(self) -> Fabric:
        """Links and routes."""
        from astranb.net import compile_fabric

        return compile_fabric(self.infra.expand())

    @property
    def topology(self) -> tuple[str, ...]:
        """What its dimensions are called."""
        return ("Infra",) * len(self.npus_count)

    @property
    def link_topology(self) -> tuple[str, ...]:
        """The same: its links have no dimensions."""
        return self.topology

    def cost_dollars(self) -> float:
        """Give the cost of its links, switches and NICs by the rates of ASTRA-sim 1.0."""
        from astranb.net._cost import fabric_cost_dollars

        return fabric_cost_dollars(self.fabric)

    @property
    def npus(self) -> int:
        """How many NPUs there are."""
        return prod(self.npus_count)
