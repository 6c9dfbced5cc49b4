"""Training loops: functions that say, layer by layer, what an NPU computes, sends and waits for.

A loop is a generator over layers. It yields *steps*; a step is an action, or several in their
order. It runs when a simulation is built, never while it runs: its steps become a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ._layers import Layer, Part, Workload

__all__ = [
    "FORWARD",
    "INPUT_GRADIENT",
    "WEIGHT_GRADIENT",
    "Action",
    "LayerView",
    "Layers",
    "Loop",
    "Step",
    "registered",
    "training_loop",
]

FORWARD: Final = 0
INPUT_GRADIENT: Final = 1
WEIGHT_GRADIENT: Final = 2


class Action(NamedTuple):
    """What an NPU does: ``compute``, ``issue`` or ``wait``, of one part of one layer."""

    verb: str
    layer: int
    part: int
    first: bool = False


Step = Action | tuple[Action, ...]


class PartView(NamedTuple):
    """A part of a layer as a loop sees it: its figures, and its actions."""

    layer: int
    part: int
    figures: Part

    def compute(self) -> Action:
        """Compute."""
        return Action("compute", self.layer, self.part)

    def issue(self, *, first: bool = False) -> Action:
        """Begin this part's collective and go on; `first`: before all that waits."""
        return Action("issue", self.layer, self.part, first)

    def wait(self) -> Action:
        """Wait until no collective of this part is under way."""
        return Action("wait", self.layer, self.part)


class LayerView:
    """A layer as a loop sees it.

    Attributes
    ----------
    number : int
        From 0.
    name : str
    forward, input_gradient, weight_gradient : PartView
    """

    def __init__(self, number: int, layer: Layer) -> None:
        self.number, self.name = number, layer.name
        self.forward = PartView(number, FORWARD, layer.forward)
        self.input_gradient = PartView(number, INPUT_GRADIENT, layer.input_gradient)
        self.weight_gradient = PartView(number, WEIGHT_GRADIENT, layer.weight_gradient)


class Layers(tuple[LayerView, ...]):  # noqa: SLOT001 - one for each run
    """The layers of a workload in their order.

    Attributes
    ----------
    workload : Workload
        With what its first line says.
    """

    workload: Workload

    @classmethod
    def of(cls, workload: Workload) -> Layers:
        """Show a workload's layers to a loop."""
        layers = cls(LayerView(number, layer) for number, layer in enumerate(workload.layers))
        layers.workload = workload
        return layers


LoopFunction = Callable[[Layers], Iterator[Step]]


@dataclass(frozen=True)
class Loop:
    """A training loop with a name.

    Parameters
    ----------
    name : str
    function : callable
        From :class:`Layers` to steps: one pass.
    dimensions : str
        Which dimensions of the network its collectives use: the name of a policy.
    step_ns : int
        What ASTRA-sim 1.0 takes from one step to the next.
    """

    name: str
    function: LoopFunction
    dimensions: str
    step_ns: int = 1


registered: dict[str, Loop] = {}
"""All loops by their names."""


def training_loop(
    name: str, dimensions: str = "DATA", *, step_ns: int = 1
) -> Callable[[LoopFunction], LoopFunction]:
    """Give a training loop a name, which the first line of a workload may then have.

    Parameters
    ----------
    name : str
    dimensions : str
        As of which loop the network's dimensions are shared out: ``DATA`` (weight gradients use all,
        the rest none), ``MODEL`` (the reverse), ``HYBRID_DATA_MODEL``, ``HYBRID_MODEL_DATA``,
        ``HYBRID_TRANSFORMER``, or ``ALL``.
    step_ns : int
        Nanoseconds from one step to the next under ``compat``; without it none.

    Examples
    --------
    A loop that is done with all input gradients before it looks at a weight gradient:

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
