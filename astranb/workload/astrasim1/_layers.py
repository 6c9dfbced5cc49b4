"""A layer table: what ASTRA-sim 1.0's workload files describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from astranb.core.errors import InputError

__all__ = ["COLLECTIVES", "Layer", "Part", "Workload"]

COLLECTIVES = ("NONE", "ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL")
"""What a part of a layer may communicate."""


@dataclass(frozen=True)
class Part:
    """The forward pass, the input gradient or the weight gradient of a layer.

    Parameters
    ----------
    compute_ns : int
    collective : str
        One of :data:`COLLECTIVES`.
    size : int
        Bytes of each NPU: of an all-gather its share.
    """

    compute_ns: int = 0
    collective: str = "NONE"
    size: int = 0

    def __post_init__(self) -> None:
        """Check the kind and the numbers."""
        if self.collective not in COLLECTIVES:
            raise InputError(
                f"unknown collective {self.collective[:40]!r}", hint=f"take {', '.join(COLLECTIVES)}"
            )
        if self.compute_ns < 0 or self.size < 0:
            raise InputError("a time or a size is negative", hint="give 0 or more")
        if self.collective != "NONE" and self.size == 0:
            raise InputError(f"{self.collective} of no bytes", hint="give its size, or NONE")


@dataclass(frozen=True)
class Layer:
    """One layer.

    Parameters
    ----------
    name : str
    forward, input_gradient, weight_gradient : Part
    update_ns : int
        What passes between the end of a collective of this layer and what waits for it.
    policy : str, optional
        How this layer is parallelised, where layers differ (``HYBRID_CUSTOMIZED``).
    """

    name: str
    forward: Part = Part()
    input_gradient: Part = Part()
    weight_gradient: Part = Part()
    update_ns: int = 0
    policy: str | None = None


@dataclass(frozen=True)
class Workload:
    """A training loop and its layers.

    Parameters
    ----------
    loop : str
        A loop's name: see :func:`training_loop`.
    layers : tuple of Layer
    group : int, optional
        NPUs of a model-parallel group (``HYBRID_TRANSFORMER``).
    checkpoints : tuple of int
        Layers whose activations are kept.
    initiates : tuple of int
        Layers before whose input gradient activations are worked out again.
    last_bottom : int, optional
        The last layer of DLRM's bottom MLP.
    where : str
        The file's name, for messages.

    Examples
    --------
    >>> layer = Layer("a", weight_gradient=Part(10, "ALLREDUCE", 1024), update_ns=1)
    >>> Workload("DATA", (layer,)).scaled(comm_scale=2).layers[0].weight_gradient.size
    2048
    """

    loop: str
    layers: tuple[Layer, ...]
    group: int | None = None
    checkpoints: tuple[int, ...] = ()
    initiates: tuple[int, ...] = ()
    last_bottom: int | None = None
    where: str = "workload"

    def __post_init__(self) -> None:
        """Check what is said about layers."""
        if not self.layers:
            raise InputError("there are no layers", where=self.where, hint="describe at least one")
        for name in ("checkpoints", "initiates"):
            for layer in getattr(self, name):
                if not 0 <= layer < len(self.layers):
                    raise InputError(
                        f"{name} name layer {layer} of {len(self.layers)}",
                        where=self.where,
                        hint="count layers from 0",
                    )

    def scaled(
        self, compute_scale: float = 1.0, comm_scale: float = 1.0, *, compat: bool = False
    ) -> Workload:
        """Multiply compute times and sizes.

        Parameters
        ----------
        compute_scale, comm_scale : float
        compat : bool
            In numbers of 32 bits, as ASTRA-sim 1.0: also where the scale is 1.
        """

        def times(scale: float) -> Callable[[int], int]:
            if compat:
                return lambda value: int(np.float32(value) * np.float32(scale))
            return lambda value: value if scale == 1 else int(value * scale)

        compute, comm = times(compute_scale), times(comm_scale)

        def part(one: Part) -> Part:
            size = comm(one.size)
            if one.collective != "NONE":
                size = max(size, 1)
            return Part(compute(one.compute_ns), one.collective, size)

        return replace(
            self,
            layers=tuple(
                replace(
                    layer,
                    forward=part(layer.forward),
                    input_gradient=part(layer.input_gradient),
                    weight_gradient=part(layer.weight_gradient),
                )
                for layer in self.layers
            ),
        )
