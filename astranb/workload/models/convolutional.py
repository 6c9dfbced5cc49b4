"""Convolutional networks, which are divided by data parallelism only, and their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError
from astranb.workload.kernels import Product

from .job import Job
from .program import Cost, StageProgram, optimizer_pass

__all__ = ["CONVOLUTIONAL", "Convolutional", "ConvolutionalLayer", "data_parallel"]

_UPDATE_FLOPS: Final = 4
"""Approximate operations of SGD with momentum per parameter."""


@dataclass(frozen=True)
class ConvolutionalLayer:
    """One layer with parameters.

    Parameters
    ----------
    name : str
    parameters : int
        Biases and batch norms included.
    flops : int
        Operations of a forward pass of one sample: a multiplication and an addition are two.
    numbers : int
        Numbers read and written for one sample.
    pixels, outputs : int
        Of a sample's output: the rows and columns of its product of matrices.
    """

    name: str
    parameters: int
    flops: int
    numbers: int
    pixels: int
    outputs: int


@dataclass(frozen=True)
class Convolutional:
    """A convolutional network.

    Parameters
    ----------
    name : str
    layers : tuple of ConvolutionalLayer
        From first to last.
    source : str

    Examples
    --------
    >>> CONVOLUTIONAL["vgg-16"].parameters
    138357544
    """

    name: str
    layers: tuple[ConvolutionalLayer, ...]
    source: str = ""

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops(self) -> int:
        """Operations of a forward pass of one sample."""
        return sum(layer.flops for layer in self.layers)


def _conv(
    name: str, into: int, out: int, kernel: int, size: int, stride: int = 1, *, bias: bool = False
) -> ConvolutionalLayer:
    """Return a convolution with an output of ``size`` by ``size``; without bias, a batch norm follows."""
    weights = into * out * kernel * kernel
    pixels = size * size
    numbers = into * pixels * stride * stride + out * pixels
    return ConvolutionalLayer(
        name, weights + (out if bias else 2 * out), 2 * weights * pixels, numbers, pixels, out
    )


def full(name: str, into: int, out: int) -> ConvolutionalLayer:
    """Return a fully connected layer with biases."""
    return ConvolutionalLayer(name, into * out + out, 2 * into * out, into + out, 1, out)


def _vgg16() -> Convolutional:
    layers, into, size = [], 3, 224
    for block, (out, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for number in range(1, count + 1):
            layers.append(_conv(f"conv{block}_{number}", into, out, 3, size, bias=True))
            into = out
        size //= 2
    layers += [full("fc6", 512 * 7 * 7, 4096), full("fc7", 4096, 4096), full("fc8", 4096, 1000)]
    return Convolutional("vgg-16", tuple(layers), "Simonyan and Zisserman 2014, arXiv 1409.1556, table 1, D")


def _resnet50() -> Convolutional:
    layers = [_conv("conv1", 3, 64, 7, 112, 2)]
    into = 64
    for stage, (width, count, size) in enumerate(((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)), 2):
        for number in range(1, count + 1):
            name = f"conv{stage}_{number}"
            step = 2 if number == 1 and stage > 2 else 1  # of the 3 by 3 convolution, as in torchvision
            layers.append(_conv(f"{name}a", into, width, 1, size * step))
            layers.append(_conv(f"{name}b", width, width, 3, size, step))
            layers.append(_conv(f"{name}c", width, 4 * width, 1, size))
            if number == 1:
                layers.append(_conv(f"{name}d", into, 4 * width, 1, size, step))
            into = 4 * width
    layers.append(full("fc", 2048, 1000))
    return Convolutional(
        "resnet-50", tuple(layers), "He et al. 2015, arXiv 1512.03385, table 1; torchvision's v1.5"
    )


CONVOLUTIONAL: Final = {model.name: model for model in (_resnet50(), _vgg16())}
"""By name; pictures of 224 by 224."""


def check_data_only(name: str, job: Job) -> None:
    """Check that no option is set that applies to transformers only.

    Parameters
    ----------
    name : str
        The model's.
    job : Job
    """
    degrees = job.parallelism
    for degree in ("tensor", "pipeline", "context", "expert"):
        if getattr(degrees, degree) > 1:
            what = f"{name} is divided by data parallelism only"
            raise InputError(what, where=degree, hint="take 1")
    if job.mode == "decode" or job.recompute != "none":
        what = f"{'decode' if job.mode == 'decode' else 'recompute'} does not apply to {name}"
        raise InputError(what, where="mode" if job.mode == "decode" else "recompute", hint="leave it out")
    if degrees.zero > 1:
        what = f"{name} is trained with ZeRO 0 or 1"
        raise InputError(what, where="zero", hint="take 0 or 1")


def data_parallel(model: Convolutional, job: Job) -> StageProgram:
    """Return a rank's step: gradients of a layer are reduced while those of earlier layers are computed.

    Parameters
    ----------
    model : Convolutional
    job : Job
        Its sequences are pictures; ``sequence`` is ignored.
    """
    check_data_only(model.name, job)
    job.require(2 * len(model.layers) * job.microbatches)
    program = StageProgram(job.parallelism)
    reduced: list[int] = []
    for micro in range(job.microbatches):
        forward(program, job, model.layers, micro)
        if job.mode == "training":
            backward(program, job, model.layers, micro, reduced, first=model.layers[0])
    if job.mode == "training":
        update(program, job, model.parameters, reduced)
    return program


def _cost(layer: ConvolutionalLayer, job: Job) -> Cost:
    touched = (layer.parameters + job.micro * layer.numbers) * job.bytes_each
    inputs = layer.flops // (2 * layer.pixels * layer.outputs)
    product = Product(job.micro * layer.pixels, layer.outputs, inputs)
    return Cost(job.micro * layer.flops, touched, kernels=(product,))


def forward(program: StageProgram, job: Job, layers: Sequence[ConvolutionalLayer], micro: int) -> int:
    """Add the forward passes of layers; returns the last one."""
    return [program.compute(f"{layer.name} fwd {micro}", _cost(layer, job)) for layer in layers][-1]


def backward(
    program: StageProgram,
    job: Job,
    layers: Sequence[ConvolutionalLayer],
    micro: int,
    reduced: list[int],
    first: ConvolutionalLayer,
) -> None:
    """Add the backward passes of layers, and after the last microbatch the sums of their gradients.

    Parameters
    ----------
    program : StageProgram
    job : Job
    layers : sequence of ConvolutionalLayer
    micro : int
    reduced : list of int
        Gets the collectives that sum gradients.
    first : ConvolutionalLayer
        The model's first layer, whose input needs no gradient.
    """
    kind = "reduce_scatter" if job.parallelism.zero else "all_reduce"
    for layer in reversed(layers):
        cost = _cost(layer, job)
        cost = cost.halves()[1] if layer is first else cost.backward()
        done = program.compute(f"{layer.name} bwd {micro}", cost)
        if micro == job.microbatches - 1:
            name = f"{layer.name} grads {micro}"
            size = layer.parameters * job.bytes_each
            reduced.extend(program.collect(kind, "data", size, name, [done], background=True))


def update(program: StageProgram, job: Job, parameters: int, after: list[int]) -> None:
    """Add the optimizer's step, and with ZeRO the all-gather of parameters."""
    degrees, size = job.parallelism, job.bytes_each
    own = -(-parameters // degrees.size("data")) if degrees.zero else parameters
    touched = own * (2 * job.optimizer_bytes + 2 * size)
    done = program.compute(
        "optimizer",
        Cost(_UPDATE_FLOPS * own, touched, vector=True, kernels=(optimizer_pass(touched),)),
        after,
    )
    if degrees.zero:
        program.collect("all_gather", "data", own * size, "params", [done], background=True)
