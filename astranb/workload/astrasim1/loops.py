"""Training loops: what an NPU computes, sends and waits for, layer by layer.

A loop is a generator over layers. It yields *steps*; a step is one action or a tuple of actions in
their order. It is called when a simulation is built, never while it runs: its steps become a table.
The loops of ASTRA-sim 1.0 are written at the end of this file, as a user would write one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from astranb.core.errors import InputError, near

from .table import Layer, LayerTable, Part

__all__ = [
    "FORWARD",
    "INPUT_GRADIENT",
    "WEIGHT_GRADIENT",
    "Action",
    "LayerView",
    "Layers",
    "Loop",
    "Step",
    "WrittenLoop",
    "loop_named",
    "loop_names",
    "registered",
    "training_loop",
]

FORWARD: Final = 0
INPUT_GRADIENT: Final = 1
WEIGHT_GRADIENT: Final = 2


class Action(NamedTuple):
    """An action of an NPU: ``compute``, ``issue`` or ``wait``, for one part of one layer."""

    verb: str
    layer: int
    part: int
    first: bool = False


Step = Action | tuple[Action, ...]


class PartView(NamedTuple):
    """A part of a layer in a loop: its numbers and its actions."""

    layer: int
    part: int
    figures: Part

    def compute(self) -> Action:
        """Return the action that computes this part."""
        return Action("compute", self.layer, self.part)

    def issue(self, *, first: bool = False) -> Action:
        """Return the action that issues this part's collective; `first`: ahead of all that are queued."""
        return Action("issue", self.layer, self.part, first)

    def wait(self) -> Action:
        """Return the action that waits until no collective of this part is in flight."""
        return Action("wait", self.layer, self.part)


class LayerView:
    """A layer in a loop.

    Attributes
    ----------
    number : int
        Counted from 0.
    name : str
    forward, input_gradient, weight_gradient : PartView
    """

    def __init__(self, number: int, layer: Layer) -> None:
        self.number, self.name = number, layer.name
        self.forward = PartView(number, FORWARD, layer.forward)
        self.input_gradient = PartView(number, INPUT_GRADIENT, layer.input_gradient)
        self.weight_gradient = PartView(number, WEIGHT_GRADIENT, layer.weight_gradient)


class Layers(tuple[LayerView, ...]):  # noqa: SLOT001 - one per run
    """The layers of a table in their order.

    Attributes
    ----------
    table : LayerTable
        With the numbers of its first line: groups, checkpoints, …
    """

    table: LayerTable

    @classmethod
    def of(cls, table: LayerTable) -> Layers:
        """Return the layers that a loop is called with."""
        layers = cls(LayerView(number, layer) for number, layer in enumerate(table.layers))
        layers.table = table
        return layers


LoopFunction = Callable[[Layers], Iterator[Step]]


@dataclass(frozen=True)
class Loop:
    """A training loop with a name.

    Parameters
    ----------
    name : str
    function : callable
        Takes :class:`Layers` and yields the steps of one pass.
    dimensions : str
        The policy that says which network dimensions its collectives use.
    step_ns : int
        Time from one step to the next in ASTRA-sim 1.0.
    """

    name: str
    function: LoopFunction
    dimensions: str
    step_ns: int = 1

    @property
    def shipped(self) -> bool:
        """Whether it comes with astranb, so that its name is enough to have it."""
        return registered.get(self.name) is self and self.function.__module__ == __name__

    def written(self, layers: Layers) -> WrittenLoop:
        """Return the steps of a pass over some layers, for a file."""
        steps = ((one,) if isinstance(one, Action) else tuple(one) for one in self.function(layers))
        return WrittenLoop(self.name, self.dimensions, self.step_ns, tuple(steps))


class WrittenLoop(NamedTuple):
    """A loop as its steps, for a file: whoever reads it needs no function.

    Attributes
    ----------
    name, dimensions : str
    step_ns : int
        Those of the loop.
    steps : tuple of tuple of Action
    """

    name: str
    dimensions: str
    step_ns: int
    steps: tuple[tuple[Action, ...], ...]

    def loop(self) -> Loop:
        """Return the loop of these steps."""
        return Loop(self.name, lambda _: iter(self.steps), self.dimensions, self.step_ns)


registered: dict[str, Loop] = {}
"""All loops by name."""


def training_loop(
    name: str, dimensions: str = "DATA", *, step_ns: int = 1
) -> Callable[[LoopFunction], LoopFunction]:
    """Register a training loop under a name that the first line of a layer table may use.

    Parameters
    ----------
    name : str
    dimensions : str
        Which network dimensions each part uses: ``DATA`` (weight gradients all, the others none),
        ``MODEL`` (the reverse), ``HYBRID_DATA_MODEL``, ``HYBRID_MODEL_DATA``,
        ``HYBRID_TRANSFORMER``, or ``ALL`` (each part all).
    step_ns : int
        Nanoseconds from one step to the next with ``compat``; 0 without it.

    Examples
    --------
    A loop that computes all input gradients before any weight gradient:

    >>> @training_loop("GRADIENTS_LAST", dimensions="DATA")
    ... def gradients_last(layers):
    ...     for layer in layers:
    ...         yield layer.weight_gradient.wait(), layer.forward.compute()
    ...     for layer in reversed(layers[1:]):
    ...         yield layer.input_gradient.compute()
    ...     for layer in reversed(layers):
    ...         yield layer.weight_gradient.compute(), layer.weight_gradient.issue()
    >>> registered["GRADIENTS_LAST"].dimensions
    'DATA'
    """

    def register(function: LoopFunction) -> LoopFunction:
        registered[name] = Loop(name, function, dimensions, step_ns)
        return function

    return register


def loop_named(name: str, where: str = "layer table") -> Loop:
    """Return a loop by its name.

    Parameters
    ----------
    name : str
    where : str
        The place of the name, for error messages.

    Raises
    ------
    InputError
        The name is unknown.
    """
    if name not in registered:
        what = f"unknown training loop {name[:40]!r}"
        raise InputError(what, where=where, hint=near(name[:40], registered))
    return registered[name]


def loop_names() -> list[str]:
    """Return the names of all loops.

    Examples
    --------
    >>> "DATA_REORDER" in loop_names()
    True
    """
    return sorted(registered)


# The loops of ASTRA-sim 1.0.


def _forward(layer: LayerView) -> Step:
    """The forward pass of a layer, after its weights have arrived; the loop waits for its collective."""
    forward = layer.forward
    return layer.weight_gradient.wait(), forward.compute(), forward.issue(), forward.wait()


@training_loop("MICRO", dimensions="DATA", step_ns=0)
def _micro(layers: Layers) -> Iterator[Step]:
    yield layers[0].weight_gradient.issue()


@training_loop("DATA", dimensions="DATA")
def _data(layers: Layers) -> Iterator[Step]:
    for layer in layers:
        yield layer.weight_gradient.wait(), layer.forward.compute()
    for layer in reversed(layers):
        yield layer.weight_gradient.compute(), layer.weight_gradient.issue()
        if layer.number > 0:
            yield layer.input_gradient.compute()


@training_loop("DATA_REORDER", dimensions="DATA")
def _data_reorder(layers: Layers) -> Iterator[Step]:
    for layer in layers:
        yield layer.weight_gradient.wait(), layer.forward.compute()
    for layer in reversed(layers):
        if layer.number > 0:
            yield layer.input_gradient.compute()
        yield layer.weight_gradient.compute(), layer.weight_gradient.issue()


@training_loop("DISTRIBUTED_INFERENCE", dimensions="MODEL")
def _inference(layers: Layers) -> Iterator[Step]:
    for layer in layers:
        yield _forward(layer)


def _backward(layer: LayerView, *, weights: bool) -> Iterator[Step]:
    """The gradients of a layer; its input gradient is sent while its weight gradient is computed."""
    ig, weight = layer.input_gradient, layer.weight_gradient
    yield (ig.compute(), ig.issue()) if layer.number > 0 else ig.compute()
    yield (weight.compute(), weight.issue(), ig.wait()) if weights else (weight.compute(), ig.wait())


@training_loop("MODEL", dimensions="MODEL")
def _model(layers: Layers) -> Iterator[Step]:
    for layer in layers:
        yield _forward(layer)
    for layer in reversed(layers):
        yield from _backward(layer, weights=False)


def _hybrid(layers: Layers) -> Iterator[Step]:
    for layer in layers:
        yield _forward(layer)
    for layer in reversed(layers):
        yield from _backward(layer, weights=True)


for _name in ("HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_CUSTOMIZED"):
    training_loop(_name, dimensions=_name)(_hybrid)


def _transformer_backward(layer: LayerView, *, overlapped: bool) -> Iterator[Step]:
    """The gradients of a layer one after the other; ``overlapped`` as of :class:`LayerTable`."""
    ig, weight = layer.input_gradient, layer.weight_gradient
    yield (ig.compute(), ig.issue()) if overlapped else (ig.compute(), ig.issue(), ig.wait())
    yield weight.compute(), weight.issue(), ig.wait()


@training_loop("HYBRID_TRANSFORMER", dimensions="HYBRID_TRANSFORMER")
def _transformer(layers: Layers) -> Iterator[Step]:
    for layer in layers:
        yield _forward(layer)
    for layer in reversed(layers):
        yield from _transformer_backward(layer, overlapped=layers.table.overlapped)


@training_loop("HYBRID_TRANSFORMER_FWD_IN_BCKWD", dimensions="HYBRID_TRANSFORMER")
def _transformer_again(layers: Layers) -> Iterator[Step]:
    table = layers.table
    for layer in layers:
        yield _forward(layer)
    for layer in reversed(layers):
        if layer.number in table.initiates:
            kept = [number for number in table.checkpoints if number <= layer.number]
            first = max(kept, default=layer.number)
            if first == layer.number or any(first < other < layer.number for other in table.initiates):
                raise InputError(
                    f"layer {layer.number} ({layer.name[:40]}) has no checkpoint of its own before it",
                    where=table.where,
                    hint="put a checkpoint between any two layers of checkpoint_initiates",
                )
            yield ()
            for recomputed in layers[first : layer.number]:
                yield _forward(recomputed)
        yield from _transformer_backward(layer, overlapped=layers.table.overlapped)


def _dlrm(layers: Layers, *, enhanced: bool) -> Iterator[Step]:
    last, embedding = layers.table.last_bottom, layers[0]
    for layer in layers:
        step: tuple[Action, ...] = (layer.weight_gradient.wait(), layer.forward.compute())
        if layer.forward.figures.collective == "ALLTOALL":
            step = (*step, layer.forward.issue(first=True))
        elif layer.number == last:
            step = (*step, embedding.forward.wait())
        yield step
    for layer in reversed(layers):
        step = (layer.weight_gradient.compute(), layer.weight_gradient.issue())
        yield step if enhanced else (*step, layer.input_gradient.wait())
        if layer.number > 0:
            ig = layer.input_gradient.compute()
            if last is not None and layer.number == last + 1:
                yield ig, embedding.input_gradient.issue(first=True)
            else:
                yield ig


@training_loop("HYBRID_DLRM", dimensions="HYBRID_DLRM")
def _dlrm_waiting(layers: Layers) -> Iterator[Step]:
    return _dlrm(layers, enhanced=False)


@training_loop("HYBRID_DLRM_ENHANCED", dimensions="HYBRID_DLRM")
def _dlrm_enhanced(layers: Layers) -> Iterator[Step]:
    return _dlrm(layers, enhanced=True)
