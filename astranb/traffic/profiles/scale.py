"""Stages of a traced job with other degrees of parallelism, by stated rules; more replicas are exact."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from astranb.chakra import CollectiveType, NodeType
from astranb.core.errors import InputError
from astranb.workload.kernels import Kernel, TimedKernel
from astranb.workload.models import Parallelism, StageProgram
from astranb.workload.models.parallelism import GROUPS

__all__ = ["Scaling", "scaled"]

_GATHER: Final = int(CollectiveType.ALL_GATHER)
_SCATTER: Final = int(CollectiveType.REDUCE_SCATTER)
_REDUCE: Final = int(CollectiveType.ALL_REDUCE)
_EXCHANGE: Final = int(CollectiveType.ALL_TO_ALL)
_REPLICAS: Final = tuple(GROUPS.index(name) for name in ("data", "expert data"))
_PARAMETERS: Final = (*_REPLICAS, GROUPS.index("ends"))
_TENSOR: Final = GROUPS.index("tensor")
_STAGES: Final = 2
"""Roles of peers below are stages."""


@dataclass(frozen=True)
class Scaling:
    """From the degrees of a traced job to those of another.

    Parameters
    ----------
    traced, target : Parallelism
    micro : int
        How many times as many sequences a microbatch has.
    update_ns : int
        What the kernel of an update takes however small it is.

    Raises
    ------
    InputError
        The traces do not tell what the wanted job does.
    """

    traced: Parallelism
    target: Parallelism
    micro: int = 1
    update_ns: int = 0

    def __post_init__(self) -> None:
        """Refuse what does not follow from the traces."""
        if self.micro < 1:
            raise InputError(f"{self.micro} times the sequences", where="micro", hint="take 1 or more")
        fixed = {
            "pipeline": "another number of stages has another schedule, and layers",
            "context": "rings over another number of parts are other operations",
            "expert": "other ranks hold other experts",
            "interleave": "chunks of a stage are other passes",
        }
        for name, why in fixed.items():
            was, now = getattr(self.traced, name), getattr(self.target, name)
            if was != now and not (name == "interleave" and now == 1):
                what = f"the traced job has {name} {was}, not {now}: {why}"
                raise InputError(what, where=name, hint="profile the model or its code instead")
        for name, why in (("data", "sums of gradients"), ("tensor", "sums of partial products")):
            was, now = getattr(self.traced, name), getattr(self.target, name)
            if was != now and min(was, now) == 1:
                what = f"from {name} {was} to {now}: traces of {was} tell nothing of {why}"
                if now == 1:
                    what = f"from {name} {was} to 1: {why} are no operations then"
                raise InputError(what, where=name, hint="trace and take 2 or more")

    @property
    def replicas(self) -> Fraction:
        """A replica's share of what ZeRO divides, relative to the traced job."""
        return Fraction(self.traced.data * self.traced.context, self.target.data * self.target.context)

    @property
    def parts(self) -> Fraction:
        """A rank's part of a matrix, relative to the traced job."""
        return Fraction(self.traced.tensor, self.target.tensor)

    @property
    def assumptions(self) -> dict[str, str]:
        """What the rules assume, by subject; empty where nothing is scaled."""
        found = {}
        if self.replicas != 1:
            found["data parallelism"] = (
                f"{self.traced.data} to {self.target.data}: a replica's batch and operators are the same; "
                "parts of ZeRO, and the update of such a part, are divided by the number of replicas, "
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
        return found


def scaled(program: StageProgram, scaling: Scaling) -> StageProgram:
    """Give a stage of a traced job with other degrees of parallelism.

    - **Replicas**: operators and all-reduces of a replica stay. A part that ZeRO gathers, and the update of
      a part (a computation that waits for a reduce-scatter over replicas), shrinks with their number.
    - **Sequences of a microbatch**: all operators but the update, and all communication but that over
      replicas and ends of the pipeline, grow with them.
    - **Parts of matrices**: operators shrink with their number, as sums over replicas and gathered parts do;
      sums over parts stay.

    Parameters
    ----------
    program : StageProgram
    scaling : Scaling
    """
    made = StageProgram(scaling.target)
    updates = _updates(program)
    for row, kind in enumerate(program.kind):
        if kind != NodeType.COMP:
            factor = _of_communication(program, row, scaling)
        elif row in updates:
            factor = scaling.parts * (scaling.replicas if updates[row] else 1)
        else:
            factor = scaling.parts * scaling.micro
        size = _times(program.size[row], factor)
        number = made.add(NodeType(kind), program.names[row], size, program.deps[row])
        for name in ("collective", "group", "peer", "tag", "background"):
            getattr(made, name)[number] = getattr(program, name)[row]
        if kind == NodeType.COMP:
            for name in ("flops", "useful", "counted"):
                getattr(made, name)[number] = _times(getattr(program, name)[row], factor)
            fixed = scaling.update_ns if row in updates else 0
            made.kernels[number] = tuple(_kernel(one, factor, fixed) for one in program.kernels[row])
            made.computed = number
    return made


def _kernel(one: Kernel, factor: Fraction, fixed_ns: int) -> Kernel:
    """Give a kernel that does some times as much, but for what it takes however little it does."""
    if not isinstance(one, TimedKernel):
        raise InputError("kernels with shapes are not scaled", where="traces")
    fixed_ns = min(fixed_ns, one.duration_ns)
    return TimedKernel(max(1, fixed_ns + round((one.duration_ns - fixed_ns) * factor)))


def _times(value: int, factor: Fraction) -> int:
    """Multiply, and round up."""
    return -(-value * factor.numerator // factor.denominator)


def _updates(program: StageProgram) -> dict[int, bool]:
    """Find the updates of parameters: what waits for sums over replicas; and whether of a part."""
    found: dict[int, bool] = {}
    for row, kind in enumerate(program.kind):
        sums = {
            program.collective[dep]
            for dep in program.deps[row]
            if program.group[dep] in _REPLICAS and program.collective[dep] in (_REDUCE, _SCATTER)
        }
        if kind == NodeType.COMP and sums:
            found[row] = _SCATTER in sums
    return found


def _of_communication(program: StageProgram, row: int, scaling: Scaling) -> Fraction:
    """Give how many times as many bytes a message or collective has."""
    group, collective = program.group[row], program.collective[row]
    between = scaling.micro * (scaling.parts if scaling.traced.sequence else Fraction(1))
    if program.kind[row] != NodeType.COMM_COLL:
        return between if program.peer[row] < _STAGES else scaling.micro * scaling.parts
    if group in _PARAMETERS and collective != _EXCHANGE:
        return scaling.parts * (scaling.replicas if collective == _GATHER else 1)
    if group == _TENSOR:
        return scaling.micro * (scaling.parts if collective == _GATHER else Fraction(1))
    return between
