"""A layer table: a training loop and its layers, as ASTRA-sim 1.0's workload files describe them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from astranb.core.errors import InputError
from astranb.core.given import Given
from astranb.core.keywords import hinted_class
from astranb.core.units import ns, size_bytes, time_ps

from .roofline import CountedWork, ProductWork, Rooflines

__all__ = ["COLLECTIVES", "Layer", "LayerTable", "Part"]

COLLECTIVES = ("NONE", "ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL")
"""The collectives that a part of a layer may issue."""


def _whole_ns(given: int | str) -> int:
    """Read a time in nanoseconds, or a text with a unit."""
    if not isinstance(given, str):
        return given
    time, rest = divmod(time_ps(given, where="compute_ns"), ns)
    if rest:
        raise InputError(f"{given!r} is not a whole number of nanoseconds", where="compute_ns")
    return time


def _part(given: Part | int | str) -> Part:
    """Return a part, or one that only computes for a time."""
    if isinstance(given, Part):
        return given
    if isinstance(given, bool) or not isinstance(given, int | str):
        hint = "write Part('20 us', 'ALLREDUCE', '1 MiB'), or only its time"
        raise InputError(f"not a part of a layer: {given!r:.60}", where="Layer", hint=hint)
    return Part(given)


def _layers(given: Layer | Sequence[Layer]) -> tuple[Layer, ...]:
    layers = (given,) if isinstance(given, Layer) else tuple(given)
    for layer in layers:
        if not isinstance(layer, Layer):
            raise InputError(f"not a layer: {layer!r:.60}", where="LayerTable", hint="write Layer('fc', ...)")
    return layers


@hinted_class(compute="write compute_ns", bytes="write size", collective_size="write size")
@dataclass(frozen=True)
class Part:
    """The forward pass, the input gradient or the weight gradient of a layer.

    Parameters
    ----------
    compute_ns : int or str
        Nanoseconds, or text as ``"20 us"``.
    collective : str
        One of :data:`COLLECTIVES`.
    size : int or str
        Bytes per NPU, or text as ``"1 MiB"``; of an all-gather what each NPU contributes.
    work : ProductWork or CountedWork, optional
        What it computes: where the system has a roofline, that gives ``compute_ns``.
    """

    compute_ns: Given[int | str, int] = Given(_whole_ns, 0)
    collective: str = "NONE"
    size: Given[int | str, int] = Given(size_bytes, 0)
    work: ProductWork | CountedWork | None = None

    def __post_init__(self) -> None:
        """Check the collective and the numbers."""
        if self.collective not in COLLECTIVES:
            raise InputError(
                f"unknown collective {self.collective[:40]!r}", hint=f"use {', '.join(COLLECTIVES)}"
            )
        if self.compute_ns < 0:
            raise InputError("a time is negative", hint="use 0 or more")
        if self.collective != "NONE" and self.size == 0:
            raise InputError(f"size of {self.collective} is zero", hint="give its size, or use NONE")


@hinted_class()
@dataclass(frozen=True)
class Layer:
    """One layer.

    Parameters
    ----------
    name : str
    forward, input_gradient, weight_gradient : Part, int or str
        A part; or only the time that it computes, as of :class:`Part`.
    update_ns : int
        Time between the end of a collective of this layer and the end of the wait for it.
    policy : str, optional
        How this layer is parallelised if layers differ (``HYBRID_CUSTOMIZED``).
    """

    name: str
    forward: Given[Part | int | str, Part] = Given(_part, Part())
    input_gradient: Given[Part | int | str, Part] = Given(_part, Part())
    weight_gradient: Given[Part | int | str, Part] = Given(_part, Part())
    update_ns: int = 0
    policy: str | None = None

    @property
    def parts(self) -> tuple[Part, Part, Part]:
        """Forward pass, input gradient, weight gradient."""
        return self.forward, self.input_gradient, self.weight_gradient


@dataclass(frozen=True)
class LayerTable:
    """A training loop and its layers.

    Parameters
    ----------
    loop : str
        A name registered with :func:`training_loop`.
    layers : Layer or sequence of Layer
    group : int, optional
        Number of NPUs of a model-parallel group (``HYBRID_TRANSFORMER``).
    checkpoints : tuple of int
        Layers whose activations are kept (activation checkpointing).
    initiates : tuple of int
        Layers before whose input gradient the activations are recomputed.
    last_bottom : int, optional
        The last layer of DLRM's bottom MLP.
    overlapped : bool
        The loops of transformers compute a layer's weight gradient while its input gradient's collective is
        under way, as ASTRA-sim 1.0 since May 2022 and COMET's fork do; before, they waited for it.
    where : str
        The file's name, for error messages.

    Examples
    --------
    >>> layer = Layer("a", weight_gradient=Part(10, "ALLREDUCE", "1 KiB"), update_ns=1)
    >>> LayerTable("DATA", [layer]).scaled(comm_scale=2).layers[0].weight_gradient.size
    2048
    """

    loop: str
    layers: Given[Layer | Sequence[Layer], tuple[Layer, ...]] = Given(_layers)
    group: int | None = None
    checkpoints: tuple[int, ...] = ()
    initiates: tuple[int, ...] = ()
    last_bottom: int | None = None
    overlapped: bool = False
    where: str = "workload"

    def __post_init__(self) -> None:
        """Check the numbers of layers."""
        if not self.layers:
            raise InputError("the table has no layers", where=self.where, hint="give at least one")
        for name in ("checkpoints", "initiates"):
            for layer in getattr(self, name):
                if not 0 <= layer < len(self.layers):
                    raise InputError(
                        f"{name} name layer {layer}, but there are {len(self.layers)}",
                        where=self.where,
                        hint="count layers from 0",
                    )

    def scaled(
        self, compute_scale: float = 1.0, comm_scale: float = 1.0, *, compat: bool = False
    ) -> LayerTable:
        """Return a table with multiplied compute times and sizes.

        Parameters
        ----------
        compute_scale, comm_scale : float
        compat : bool
            Multiply 32-bit floats as ASTRA-sim 1.0 does, also if the scale is 1.
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
            return replace(one, compute_ns=compute(one.compute_ns), size=size)

        return self._with(part)

    def timed(self, rooflines: Rooflines | None, *, compat: bool = False) -> LayerTable:
        """Return a table whose parts have their times, and no longer what they compute.

        Parameters
        ----------
        rooflines : Rooflines, optional
            What gives parts with work their times; without, the table's own times stay.
        compat : bool
            In the arithmetic of COMET's fork.
        """

        def part(one: Part) -> Part:
            if one.work is None or rooflines is None:
                return replace(one, work=None)
            return replace(one, compute_ns=one.work.time_ns(rooflines, compat=compat), work=None)

        return self._with(part)

    def _with(self, part: Callable[[Part], Part]) -> LayerTable:
        """Return a table with changed parts."""
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
