"""The training loops of ASTRA-sim 1.0, written as anybody would write one; and all loops by name."""

from __future__ import annotations

from collections.abc import Iterator

from astranb.core.errors import InputError, near

from ._loops import Action, Layers, LayerView, Loop, Step, registered, training_loop

__all__ = ["loop_named", "loop_names"]


def _forward(layer: LayerView) -> Step:
    """The forward pass of a layer: its weights have come, and its collective is waited for."""
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
    """The gradients of a layer; that of its input goes out while that of its weights is computed."""
    given, weight = layer.input_gradient, layer.weight_gradient
    yield (given.compute(), given.issue()) if layer.number > 0 else given.compute()
    yield (weight.compute(), weight.issue(), given.wait()) if weights else (weight.compute(), given.wait())


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


def _transformer_backward(layer: LayerView) -> Iterator[Step]:
    """The gradients of a layer, one after the other."""
    given, weight = layer.input_gradient, layer.weight_gradient
    yield given.compute(), given.issue(), given.wait()
    yield weight.compute(), weight.issue(), given.wait()


@training_loop("HYBRID_TRANSFORMER", dimensions="HYBRID_TRANSFORMER")
def _transformer(layers: Layers) -> Iterator[Step]:
    for layer in layers:
        yield _forward(layer)
    for layer in reversed(layers):
        yield from _transformer_backward(layer)


@training_loop("HYBRID_TRANSFORMER_FWD_IN_BCKWD", dimensions="HYBRID_TRANSFORMER")
def _transformer_again(layers: Layers) -> Iterator[Step]:
    workload = layers.workload
    for layer in layers:
        yield _forward(layer)
    for layer in reversed(layers):
        if layer.number in workload.initiates:
            kept = [number for number in workload.checkpoints if number <= layer.number]
            first = max(kept, default=layer.number)
            if first == layer.number or any(first < other < layer.number for other in workload.initiates):
                raise InputError(
                    f"layer {layer.number} ({layer.name[:40]}) has no checkpoint of its own before it",
                    where=workload.where,
                    hint="let one of the checkpoints lie between two layers of checkpoint_initiates",
                )
            yield ()
            for again in layers[first : layer.number]:
                yield _forward(again)
        yield from _transformer_backward(layer)


def _dlrm(layers: Layers, *, enhanced: bool) -> Iterator[Step]:
    last, embedding = layers.workload.last_bottom, layers[0]
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
            given = layer.input_gradient.compute()
            if last is not None and layer.number == last + 1:
                yield given, embedding.input_gradient.issue(first=True)
            else:
                yield given


@training_loop("HYBRID_DLRM", dimensions="HYBRID_DLRM")
def _dlrm_waiting(layers: Layers) -> Iterator[Step]:
    return _dlrm(layers, enhanced=False)


@training_loop("HYBRID_DLRM_ENHANCED", dimensions="HYBRID_DLRM")
def _dlrm_enhanced(layers: Layers) -> Iterator[Step]:
    return _dlrm(layers, enhanced=True)


def loop_named(name: str, where: str = "workload") -> Loop:
    """Find a loop by its name.

    Parameters
    ----------
    name : str
    where : str
        Where the name stands, for messages.

    Raises
    ------
    InputError
        There is none.
    """
    if name not in registered:
        what = f"unknown training loop {name[:40]!r}"
        raise InputError(what, where=where, hint=near(name[:40], registered))
    return registered[name]


def loop_names() -> list[str]:
    """Give the names of all loops.

    Examples
    --------
    >>> "DATA_REORDER" in loop_names()
    True
    """
    return sorted(registered)
