"""Factors by which the operations of a scaled job grow, by their purpose."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from astranb.chakra.traces import CollectiveType, NodeType
from astranb.core.errors import InputError

from .parallelism import Parallelism
from .traced_plan import ALONE, REPLICAS, Shift

__all__ = ["ScaleRules"]

_PARAMETERS: Final = (*REPLICAS, "ends")
_STAGES: Final = 2
"""Roles of peers below are stages."""


@dataclass(frozen=True)
class ScaleRules:
    """Factors by which the operations of the wanted job grow, from the traced one's."""

    traced: Parallelism
    target: Parallelism
    micro: int = 1
    update_ns: int = 0

    def __post_init__(self) -> None:
        """Check that everything asked for follows from the traces."""
        if self.micro < 1:
            raise InputError(
                f"the factor of the sequences must be positive, got {self.micro}",
                where="micro",
                hint="take 1 or more",
            )
        fixed = {
            "context": "rings over another number of parts are other operations",
            "interleave": "chunks of a stage are other passes",
        }
        for name, why in fixed.items():
            was, now = getattr(self.traced, name), getattr(self.target, name)
            if was != now and not (name == "interleave" and now == 1 and not self.restages):
                what = f"the traced job has {name} {was}, not {now}: {why}"
                raise InputError(what, where=name, hint="profile the model or its code instead")
        for name, why in (
            ("data", "sums of gradients"), ("tensor", "sums of partial products"),
            ("expert", "exchanges of tokens"), ("pipeline", "messages between stages"),
        ):  # fmt: skip
            was, now = getattr(self.traced, name), getattr(self.target, name)
            if was != now and min(was, now) == 1:
                what = f"from {name} {was} to {now}: traces of {was} tell nothing of {why}"
                if now == 1:
                    what = f"from {name} {was} to 1: {why} are no operations then"
                raise InputError(what, where=name, hint="trace and take 2 or more")

    @property
    def restages(self) -> bool:
        """Whether the wanted job has another number of stages."""
        return self.traced.pipeline != self.target.pipeline

    @property
    def replicas(self) -> Fraction:
        """A replica's share of what ZeRO divides, relative to the traced job."""
        return Fraction(self.traced.data * self.traced.context, self.target.data * self.target.context)

    @property
    def parts(self) -> Fraction:
        """A rank's part of a matrix, relative to the traced job."""
        return Fraction(self.traced.tensor, self.target.tensor)

    @property
    def experts(self) -> Fraction:
        """A rank's share of the experts, relative to the traced job."""
        return Fraction(self.traced.expert, self.target.expert)

    @property
    def assumptions(self) -> dict[str, str]:
        """Assumptions of the rules, by subject; empty where nothing is scaled."""
        found = {}
        if self.replicas != 1:
            found["data parallelism"] = (
                f"{self.traced.data} to {self.target.data}: a replica's batch and operators are the same"
            )
            if self.traced.zero:
                found["data parallelism"] += (
                    "; parts of ZeRO, and the update of such a part, are divided by the number of replicas, "
                    f"but for the {self.update_ns:,} ns that a kernel takes anyway"
                )
        if self.micro != 1:
            found["batch"] = (
                f"{self.micro} times the sequences in a microbatch: operators and messages grow with them, "
                "also bytes of parameters and durations; sums over replicas and their update stay"
            )
        if self.parts != 1:
            found["tensor parallelism"] = (
                f"{self.traced.tensor} to {self.target.tensor}: operations, bytes, durations, parameters and "
                "gathered parts are divided by it, also those of norms, which every rank has whole; sums stay"
            )
        if self.experts != 1:
            found["expert parallelism"] = (
                f"{self.traced.expert} to {self.target.expert}: a rank sends and computes as many tokens; "
                "sums of experts' gradients, and their gathered parts, are divided by it; updates stay"
            )
        return found

    def communication(self, kind: int, role: str, collective: int, peer: int | Shift | None) -> Fraction:
        """Return how many times as many bytes a message or collective has."""
        between = self.micro * (self.parts if self.traced.sequence else Fraction(1))
        if kind != NodeType.COMM_COLL:
            is_stage = peer is not None and not isinstance(peer, tuple) and peer < _STAGES
            return between if is_stage else self.micro * self.parts
        if role in ("all", ALONE):
            return Fraction(1)
        if role in _PARAMETERS and collective != CollectiveType.ALL_TO_ALL:
            held = self.parts * (self.experts if role == "expert data" else 1)
            is_part = collective == CollectiveType.ALL_GATHER and self.traced.zero
            return held * (self.replicas if is_part else 1)
        if role == "tensor":
            return self.micro * (self.parts if collective == CollectiveType.ALL_GATHER else Fraction(1))
        return between

    def computation(self, *, update: bool, is_part: bool) -> Fraction:
        """Return how many times as much a computation is; an update of parameters, perhaps of a part."""
        if update:
            return self.parts * (self.replicas if is_part else 1)
        return self.parts * self.micro
