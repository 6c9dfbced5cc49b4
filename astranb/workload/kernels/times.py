"""Durations of kernels on a GPU.

**Products of matrices.** The output is cut into tiles; each multiprocessor computes one tile at a time,
so all tiles take as many waves as there are tiles for each multiprocessor, rounded up. Small tiles fill
the last wave better and achieve less; where tiles are few, ``k`` is split between multiprocessors and the
parts are added in memory. The library is taken to choose the best tile and split. A product takes at
least what moving its matrices takes.

**Attention** is limited by operations (prompts, training) or by keys and values in memory (decoding).
**Passes over memory** take what their bytes take.

Every kernel takes a constant besides. What GPUs achieve is in :mod:`.gpus`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from astranb.core.errors import InputError, near
from astranb.core.plugins import Registry
from astranb.hardware import PRECISIONS, Gpu

from .engine_tables import ENGINES_MEASURED, engine_table
from .hybrid import HybridMemory, MemorySplit
from .work import Attention, HostUpdate, Kernel, Product, Stream, TimedKernel

__all__ = [
    "COSTS",
    "EFFICIENCIES",
    "LAUNCHES",
    "NUMBER_BYTES",
    "WEIGHTS",
    "CostModel",
    "KernelTimes",
    "Tile",
    "checkpoint_precision",
    "power_part",
    "read_efficiency",
]

_TILES: Final = (
    (256, 128, 1.0), (128, 256, 1.0), (128, 128, 1.0), (128, 64, 0.92), (64, 128, 0.92), (64, 64, 0.6),
)  # fmt: skip
"""Rows, columns, and the part of the largest tile's rate that a tile achieves: it reads more for each
operation."""
_SPLITS: Final[tuple[int, ...]] = (1, 2, 3, 4, 6, 8)
_SHORTEST: Final = 512
"""A part of a split ``k`` takes at least as long as one of this."""
_DRAIN: Final = 160
"""Cost of filling and emptying a tile's pipeline, as more of ``k``."""

LAUNCHES: Final = ("none", "graph", "stream")
"""Launch methods of kernels: a computation takes at least what the launches of its kernels take. ``graph``:
as nodes of a CUDA graph; ``stream``: one after another from the host."""

EFFICIENCIES: Final = ("kernels", "ideal")
"""Spellings of an efficiency, besides a number."""

_OWN: Final = "kernels"
_MOST_NS: Final = 10**15

SUSTAINED: Final = 0.9
"""Part of a short benchmark's rate that a GPU sustains for minutes, within its power."""

_STREAMED: Final = {"optimizer": "optimizer", "matrices": "gradients"}
"""Sort of data that passes over memory move, by their sort; others move activations."""
NUMBER_BYTES: Final = {"bf16": Fraction(2), "fp16": Fraction(2), "fp8": Fraction(1), "fp4": Fraction(9, 16)}
"""Bytes of a number of a product's inputs; in fp4 with a scale of a byte for 16 (NVFP4)."""
WEIGHTS: Final[dict[str, tuple[Fraction, bool]]] = {
    "mxfp4": (Fraction(17, 32), True),
    "nvfp4": (Fraction(9, 16), False),
    "fp8-block": (Fraction(4097, 4096), False),
}
"""Bytes of a parameter that is stored in four or eight bits, and whether those of experts alone are: MXFP4
has a scale of a byte for 32 numbers (OCP Microscaling Formats 1.0; gpt-oss has its experts in it), NVFP4 one
for 16, DeepSeek's fp8 one of four bytes for 128 x 128 (arXiv 2412.19437, section 3.3)."""
_CAST_BYTES: Final = {"fp8": Fraction(6), "fp4": Fraction(41, 8)}
"""To cast a number: two bytes read for the largest of all, from which scales are made, and read again, the
number written, and once more for the transposed copy (Transformer Engine's current scaling; NVFP4
likewise, NVIDIA 2025, arXiv 2509.25149). Delayed scaling and MXFP8 read once."""


def read_efficiency(text: str | float | None) -> float | None:
    """Return the efficiency that a text means.

    Parameters
    ----------
    text : str or float, optional
        ``kernels``: what kernels achieve; ``ideal``: the roofline; a number above 0, at most 1: that part
        of the roofline.

    Returns
    -------
    float or None
        None: what kernels achieve.

    Raises
    ------
    InputError
        It is something else.

    Examples
    --------
    >>> read_efficiency("ideal"), read_efficiency("0.8"), read_efficiency(None)
    (1.0, 0.8, None)
    """
    if text in (None, "kernels"):
        return None
    if text == "ideal":
        return 1.0
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 1:
        hint = near(str(text), EFFICIENCIES)
        raise InputError(
            f"unknown efficiency {str(text)[:40]!r}", where="efficiency", hint=f"{hint} (or 0.01 to 1)"
        )
    return value


def checkpoint_precision(weights: str, gpu: Gpu) -> str:
    """Return the precision in which a GPU computes with a checkpoint's weights by default.

    Examples
    --------
    >>> from astranb.hardware import GPUS
    >>> [checkpoint_precision("fp8-block", GPUS[name]) for name in ("h100-sxm", "a100-sxm")]
    ['fp8', 'bf16']
    """
    return "fp8" if weights == "fp8-block" and "fp8" in gpu.peaks else "bf16"


class Tile(NamedTuple):
    """The part of a product that a thread block computes.

    Attributes
    ----------
    rows, columns : int
    split : int
        Thread blocks that share it, each with a part of ``k``.
    flops_per_ns : float
        What a multiprocessor achieves with it.
    product_ns : float
        What all tiles take.
    even : bool
        Whether the steps of the last wave's tiles are divided evenly between all multiprocessors (Stream-K).
    """

    rows: int
    columns: int
    split: int
    flops_per_ns: float
    product_ns: float
    even: bool = False

    def step_ps(self, numbers: int) -> float:
        """Time of a multiprocessor for so many numbers of ``k``."""
        return 2000 * self.rows * self.columns * numbers / self.flops_per_ns


class KernelTimes:
    """The times of kernels on a GPU.

    Parameters
    ----------
    gpu : Gpu
    precision : str
        Of the products with parameters: ``bf16``, ``fp16``, ``fp8`` or ``fp4``. Attention is in bfloat16.
    efficiency : float, optional
        The part of the roofline that every computation achieves; default: what kernels achieve.
    launch : str
        One of :data:`LAUNCHES`.
    sustained : float
        Part of a short benchmark's rate of operations that is kept up.
    stream_k : bool
        Whether products may divide their last wave along ``k`` between all multiprocessors (Osama et al.,
        arXiv 2301.03598: one-tile Stream-K behind data-parallel tiles), where that is faster. The libraries
        of these GPUs are not known to by default: hipBLASLt on MI300X uses it only with
        ``TENSILE_SOLUTION_SELECTION_METHOD=2`` (its documentation, "Using Stream-K with hipBLASLt").
    expanded : HybridMemory, optional
        An expansion of the GPU's memory. What of it a kernel reads depends on what a rank holds
        (:meth:`holding`); until then it reads nothing.
    costs : str
        One of :data:`COSTS`: the model that times each kernel.
    weights : str
        One of :data:`WEIGHTS`, in which parameters are stored and read; products compute in ``precision`` all
        the same. ``none``, or empty: they are stored in that.
    power : float
        Part of the GPU's power that it may draw (:func:`power_part`).

    Raises
    ------
    InputError
        The GPU has no such precision, or there is no such launch or cost model, or a cost model is combined
        with an efficiency.

    Examples
    --------
    >>> from astranb.hardware import GPUS
    >>> times = KernelTimes(GPUS["h100-sxm"])
    >>> large = Product(8192, 8192, 8192)
    >>> times.kernel_ns(large)
    1512674
    """

    def __init__(
        self,
        gpu: Gpu,
        precision: str = "bf16",
        *,
        efficiency: float | None = None,
        launch: str = "none",
        sustained: float = SUSTAINED,
        stream_k: bool = False,
        expanded: HybridMemory | None = None,
        costs: str = "kernels",
        weights: str = "",
        power: float = 1.0,
    ) -> None:
        if weights not in ("", "none", *WEIGHTS):
            what = f"unknown weights {weights[:40]!r}"
            raise InputError(what, where="weights", hint=near(weights, ("none", *WEIGHTS)))
        if power != 1 and (efficiency is not None or costs != _OWN):
            what = "a limit of power changes kernels, not an efficiency or a cost model"
            raise InputError(what, where="power", hint="leave one of them out")
        if precision not in PRECISIONS or precision not in gpu.peaks:
            known = [name for name in PRECISIONS if name in gpu.peaks]
            raise InputError(
                f"{gpu.name} does not compute in {precision[:40]}",
                where="precision",
                hint=near(precision, known),
            )
        if launch not in LAUNCHES:
            raise InputError(f"unknown launch {launch[:40]!r}", where="launch", hint=near(launch, LAUNCHES))
        if costs not in COSTS:
            raise InputError(f"unknown cost model {costs[:40]!r}", where="costs", hint=near(costs, COSTS))
        if costs != _OWN and efficiency is not None:
            hint = "leave one of them out"
            raise InputError("a cost model and an efficiency exclude each other", where="costs", hint=hint)
        self.gpu, self.precision, self.efficiency, self.launch = gpu, precision, efficiency, launch
        self.costs, self.weights, self.power = costs, weights, power
        self.sustained, self.stream_k, self.expanded = sustained, stream_k, expanded
        self.split: MemorySplit | None = None
        self._known: dict[Kernel, int] = {}

    def _with(self, expanded: HybridMemory | None, split: MemorySplit | None) -> KernelTimes:
        made = KernelTimes(
            self.gpu, self.precision, efficiency=self.efficiency, launch=self.launch,
            sustained=self.sustained, stream_k=self.stream_k, expanded=expanded, costs=self.costs,
            weights=self.weights, power=self.power,
        )  # fmt: skip
        made.split = split
        return made

    def launched(self, launch: str) -> KernelTimes:
        """Return the times of the same kernels with another launch, of :data:`LAUNCHES`."""
        made = self._with(self.expanded, self.split)
        made.launch = launch
        return made

    def costed(self, costs: str) -> KernelTimes:
        """Return the times by another model, of :data:`COSTS`."""
        made = self._with(self.expanded, self.split)
        made.costs = costs
        return made

    def stored(self, weights: str) -> KernelTimes:
        """Return the times with parameters stored in others of :data:`WEIGHTS`, unless some are named."""
        if self.weights or not weights:
            return self
        made = self._with(self.expanded, self.split)
        made.weights = weights
        return made

    def expanded_by(self, memory: HybridMemory | None) -> KernelTimes:
        """Return the times on the same GPU with an expansion of its memory, or without."""
        return self if memory == self.expanded else self._with(memory, None)

    def holding(self, held: Mapping[str, int], offloaded: int = 0) -> KernelTimes:
        """Return the times of a rank that holds some data.

        Parameters
        ----------
        held : mapping of str to int
            Bytes by what they are for, as :data:`astranb.workload.models.MEMORY_PARTS`.
        offloaded : int
            Bytes in the expansion that are only loaded and stored.

        Raises
        ------
        InputError
            It does not fit in the GPU's memory and the expansion.

        Examples
        --------
        >>> from astranb.workload import kernels
        >>> memory = kernels.HybridMemory(kernels.MemoryTier.of("480 GB, 500 GB/s"))
        >>> times = KernelTimes(kernels.GPUS["a100-sxm"], efficiency=1.0, expanded=memory)
        >>> held = {"weights": 100 * 10**9, "activations": 9 * 10**9}
        >>> [one.kernel_ns(Stream(10**9)) for one in (times, times.holding(held))]
        [579784, 956167]
        """
        if self.expanded is None:
            return self
        split = self.expanded.split(held, self.gpu.memory_bytes, offloaded)
        return self if split is None else self._with(self.expanded, split)

    @property
    def peak_flops(self) -> int:
        """Peak operations per second of the products' precision."""
        return self.gpu.peaks[self.precision]

    @property
    def memory_bytes(self) -> int:
        """The GPU's memory, with its part of an expansion."""
        if self.expanded is None:
            return self.gpu.memory_bytes
        return (self.expanded.local_bytes or self.gpu.memory_bytes) + self.expanded.capacity_bytes

    @property
    def launch_ns(self) -> int:
        """Nanoseconds from the launch of a kernel to that of the next."""
        return {"none": 0, "graph": self.gpu.graph_ns, "stream": self.gpu.stream_ns}[self.launch]

    @property
    def text(self) -> str:
        """Description of the times, in a line."""
        gpu, peak = self.gpu, f"{self.peak_flops / 1e12:g} TFLOP/s ({self.precision})"
        rates = f"{peak}, {gpu.memory_Bps / 1e9:g} GB/s"
        rates += f", limited to {self.power:.0%} of its power" if self.power < 1 else ""
        rates += f", weights in {self.weights}" * (self.weights in WEIGHTS)
        if self.costs != _OWN:
            return f"kernels of {gpu.name} by cost model {self.costs}, of {rates}"
        if self.efficiency is None:
            launched = f", launched in {self.launch_ns:,} ns each ({self.launch})" if self.launch_ns else ""
            return f"kernels of {gpu.name} {gpu.fitted or 'as measured'}{launched}, of {rates}"
        return f"{self.efficiency:.0%} of the peak rates of {gpu.name}: {rates}"

    def roofline_ns(self, flops: int, touched: int) -> int:
        """Return the least time of a computation, in ns, rounded up."""
        return self._roofline_ns(flops, {"": touched})

    def _roofline_ns(self, flops: int, touched: Mapping[str, int]) -> int:
        """Return the same of bytes of each sort of data."""
        operations = -(-flops * 10**9 // self.peak_flops)
        if self.split is None:
            return max(operations, -(-sum(touched.values()) * 10**9 // self.gpu.memory_Bps))
        return max(operations, math.ceil(self.split.streamed_ns(touched, self.gpu.memory_Bps)))

    def ideal_ns(self, flops: int, touched: int, kernels: Sequence[Kernel]) -> int:
        """Return the least time of a computation, in ns: no times of kernels are below it.

        That is the roofline of its operations and bytes; but what kernels leave out, as the operations that a
        mask spares and the bytes that fp8 does, counts for nothing.
        """
        if not kernels:
            return self.roofline_ns(flops, touched)
        operations = sum(one.flops / self._peak_flops_of(one) for one in kernels)
        if self.split is None:
            whole = self.roofline_ns(flops, touched)
            moved = sum(map(self.moved, kernels)) / self.gpu.memory_Bps
            return min(whole, math.ceil(max(operations, moved) * 1e9))
        parts: dict[str, int] = {}
        for one in kernels:
            for name, size in self.moved_parts(one).items():
                parts[name] = parts.get(name, 0) + size
        total = sum(parts.values())
        # What the computation touches is divided as what its kernels move.
        whole = self._roofline_ns(
            flops, {name: touched * size // total for name, size in parts.items()} if total else {"": touched}
        )
        streamed_ns = self.split.streamed_ns(parts, self.gpu.memory_Bps)
        return min(whole, math.ceil(max(operations * 1e9, streamed_ns)))

    def computation_ns(self, flops: int, touched: int, kernels: Iterable[Kernel]) -> int:
        """Return the time of a computation.

        Parameters
        ----------
        flops, touched : int
            Operations and bytes, for the roofline where an efficiency is given.
        kernels : iterable of Kernel

        Returns
        -------
        int
            Nanoseconds.
        """
        listed = tuple(kernels)
        if self.efficiency is not None and not any(
            isinstance(one, HostUpdate | TimedKernel) for one in listed
        ):
            return round(self.ideal_ns(flops, touched, listed) / self.efficiency)
        return sum(map(self.kernel_ns, listed)) + self.waiting_ns(listed)

    @property
    def model(self) -> CostModel:
        """The cost model that :attr:`costs` names."""
        return COSTS[self.costs]

    @property
    def modelled(self) -> bool:
        """Whether the built-in model times every kernel, so that its tiles can be simulated."""
        return self.efficiency is None and self.costs == _OWN

    def waiting_ns(self, kernels: Sequence[Kernel]) -> int:
        """Return the time that the GPU waits for a computation's launches, beyond that of its kernels."""
        if not self.launch_ns:
            return 0
        launches = sum(one.launches * (1 + self.casts(one)) for one in kernels)
        return max(0, launches * self.launch_ns - sum(map(self.kernel_ns, kernels)))

    def kernel_ns(self, kernel: Kernel) -> int:
        """Return the time of one kernel in ns, from the end of the one before to its own end.

        Raises
        ------
        InputError
            The cost model returns no time, or is a plug-in's that fails.
        """
        found = self._known.get(kernel)
        if found is None:
            with COSTS.running(self.costs):
                took = self.model.kernel_ns(kernel, self)
                if not 0 <= took < _MOST_NS:
                    what = f"the time of a kernel must be from 0 to 10^15 ns, got {took!r:.40}"
                    if COSTS.plugin(self.costs) is not None:
                        raise ValueError(what)  # which names the plug-in
                    where = f"GPU {self.gpu.name!r}, costs {self.costs!r}"
                    raise InputError(what, where=where, hint="check the numbers of its file")
            found = self._known[kernel] = max(1, round(took))
        return found

    def fitted_ns(self, kernel: Kernel) -> float:
        """Return the time of a kernel by the built-in model, in ns, not rounded.

        Examples
        --------
        >>> from astranb.hardware import GPUS
        >>> round(KernelTimes(GPUS["h100-sxm"]).fitted_ns(Stream(10**9)))
        341713
        """
        if isinstance(kernel, Product):
            return self._product_ns(kernel)
        if isinstance(kernel, Attention):
            return self._attention_ns(kernel)
        if isinstance(kernel, HostUpdate):
            return self.gpu.host.update_ns(kernel.sent, kernel.size)
        if isinstance(kernel, TimedKernel):
            return kernel.duration_ns
        return self._moved_ns(self.moved_parts(kernel)) + kernel.launches * self.gpu.kernel_ns

    def casts(self, kernel: Kernel) -> bool:
        """Return whether a kernel's input is cast to fp8 or fp4 before, by another kernel."""
        return isinstance(kernel, Product) and kernel.cast and self._precision_of(kernel) in _CAST_BYTES

    def product_precision(self, one: Product) -> str:
        """Return the precision of a product as measured tables name it, by its weights, too."""
        precision = self._precision_of(one)
        if one.plain or not one.weights or self.weights not in WEIGHTS or WEIGHTS[self.weights][1]:
            return precision
        return self.weights if self.weights != "fp8-block" or precision == "fp8" else precision

    def _precision_of(self, one: Product) -> str:
        return "bf16" if one.plain and self.precision in _CAST_BYTES else self.precision

    def _peak_flops_of(self, kernel: Kernel) -> int:
        """Return the peak of the precision that a kernel computes in."""
        return self.gpu.peaks[self._precision_of(kernel) if isinstance(kernel, Product) else "bf16"]

    def number_bytes(self, one: Product) -> Fraction:
        """Return the bytes of a number of a product's matrices."""
        return NUMBER_BYTES[self._precision_of(one)]

    def moved(self, kernel: Kernel) -> int:
        """Return the bytes that a kernel reads and writes at least."""
        if isinstance(kernel, Stream):
            return kernel.size
        if isinstance(kernel, Attention):
            return 2 * kernel.numbers
        if isinstance(kernel, HostUpdate | TimedKernel):
            return 0  # of the GPU's memory; or not known
        each = NUMBER_BYTES[self._precision_of(kernel)]
        one = kernel
        return one.copies * (math.ceil(each * one.m * one.k) + 2 * one.m * one.n) + self._matrix_bytes(one)

    def _matrix_bytes(self, one: Product) -> int:
        """Return the bytes of a product's other matrices, which may be parameters in four bits."""
        numbers = one.copies * one.k * one.n
        if self.weights in WEIGHTS and one.weights and not (one.plain or one.sums):
            size, experts_alone = WEIGHTS[self.weights]
            if one.experts or not experts_alone:
                return math.ceil(numbers * size)
        return math.ceil(numbers * NUMBER_BYTES[self._precision_of(one)])

    def moved_parts(self, kernel: Kernel) -> dict[str, int]:
        """Return the same by what the bytes are for (:data:`astranb.workload.models.MEMORY_PARTS`).

        An optimizer's pass counts as its state: that is 24 of the 28 bytes of a parameter that Adam moves.
        """
        moved = self.moved(kernel)
        if isinstance(kernel, Stream):
            return {kernel.data or _STREAMED.get(kernel.sort, "activations"): moved}
        if isinstance(kernel, Attention) and kernel.queries == 1:
            kept = 2 * kernel.kept_numbers
            return {"cache": kept, "activations": moved - kept}
        if isinstance(kernel, Product) and kernel.weights:
            if kernel.sums:
                of_gradients = 2 * kernel.copies * kernel.m * kernel.n
                return {"gradients": of_gradients, "activations": moved - of_gradients}
            of_weights = self._matrix_bytes(kernel)
            return {"weights": of_weights, "activations": moved - of_weights}
        return {"activations": moved}

    def _moved_ns(self, parts: Mapping[str, int]) -> float:
        """Return the time of a pass over memory."""
        return self._streamed_ns(parts, self.gpu.stream)

    def _fed_ns(self, parts: Mapping[str, int]) -> float:
        """Return the time to feed a product from memory, and to write its output."""
        return self._streamed_ns(parts, self.gpu.feed)

    def _streamed_ns(self, parts: Mapping[str, int], achieved: float) -> float:
        if self.split is None:
            return sum(parts.values()) * 1e9 / (self.gpu.memory_Bps * achieved)
        return self.split.streamed_ns(parts, self.gpu.memory_Bps, achieved)

    def tile(self, one: Product) -> Tile:
        """Return the best tile of a product, and how often its ``k`` is split."""
        return min(self.tiles(one), key=lambda tile: tile.product_ns)

    def tiles(self, one: Product, more: Sequence[tuple[int, int, float]] = ()) -> list[Tile]:
        """Return the tiles that a product may be cut into: the usual ones, and more (rows, columns, rate)."""
        gpu = self.gpu
        precision = self._precision_of(one)
        rate = gpu.peaks[precision] * gpu.matrices[precision] * self.sustained * self.power / gpu.sms / 1e9
        choices = [(tile, _SPLITS) for tile in (*_TILES, *more)]
        if gpu.fp8_tiles and precision == "fp8":
            alone = choices if one.m == 1 else []
            choices = [*alone, *((tile, (1,)) for tile in gpu.fp8_tiles)]
        found = []
        for (rows, columns, part), splits in choices:
            tiles = -(-one.m // rows) * -(-one.n // columns) * one.copies
            for split in splits:
                if split > 1 and tiles >= gpu.sms:
                    break
                waves = -(-tiles * split // gpu.sms)
                length = one.k if split == 1 else max(one.k / split, _SHORTEST)
                took = waves * 2 * rows * columns * (length + _DRAIN) / (rate * part)
                if split > 1:
                    took += self._fed_ns({"buffers": 4 * (split + 1) * one.m * one.n * one.copies})
                found.append(Tile(rows, columns, split, rate * part, took))
            full, rest = divmod(tiles, gpu.sms)
            if self.stream_k and full and rest:
                steps = full * (one.k + _DRAIN) + rest / gpu.sms * one.k + _DRAIN
                took = 2 * rows * columns * steps / (rate * part)
                # Every multiprocessor hands a part of a tile on, or takes one over.
                took += self._fed_ns({"buffers": 2 * 4 * rows * columns * gpu.sms})
                found.append(Tile(rows, columns, 1, rate * part, took, even=True))
        return found

    def _product_ns(self, one: Product) -> float:
        """Return the time of a product, and in fp8 and fp4 of casting its input."""
        took = max(self.tile(one).product_ns, self._fed_ns(self.moved_parts(one))) + self.gpu.kernel_ns
        if self.casts(one):
            took += self._moved_ns({"activations": self.cast_size(one)}) + self.gpu.kernel_ns
        return took

    def cast_size(self, one: Product) -> int:
        """Return the bytes that a cast of a product's input to fp8 or fp4 reads and writes."""
        return math.ceil(_CAST_BYTES[self._precision_of(one)] * one.m * one.k * one.copies)

    def _attention_ns(self, one: Attention) -> float:
        gpu = self.gpu
        if one.queries == 1:
            # The parts of long contexts, which several multiprocessors read, are added in the end.
            parts = _PARTS_NS * one.keys / (one.keys + 1024)
            return self._moved_ns(self.moved_parts(one)) + parts + gpu.kernel_ns + gpu.decode_ns
        return max(self.attended_ns(one), self._moved_ns(self.moved_parts(one))) + gpu.kernel_ns

    def attended_ns(self, one: Attention) -> float:
        """Return the time of the operations of attention, of more tokens than one."""
        gpu = self.gpu
        part = gpu.attention_back if one.is_backward else gpu.attention
        if one.version == _EIGHT_BITS:
            part *= gpu.attention_8
        elif one.version and gpu.attention_2:
            part = gpu.attention_2
        if one.version == 1:
            part /= _SINCE_TRITON
        # Short sequences fill the pipelines of a tile less; a causal mask halves what a query sees of them.
        rows = one.sequences * one.heads * one.queries
        seen = 2 * one.pairs / rows
        part *= seen / (seen + gpu.half_keys)
        # Tiles on the diagonal of a causal mask are computed whole.
        whole = one.flops * (1 + rows * _DIAGONAL / 2 / one.pairs if one.causal else 1)
        return whole * 1e9 / (gpu.peaks["bf16"] * part * self.sustained * self.power)


_EIGHT_BITS: Final = 8
_SINCE_TRITON: Final = 1.8
"""Speed-up of FlashAttention-2 over the first version in Triton: the middle of 1.3 to 2.5 (Dao
2023, arXiv 2307.08691, section 4.1)."""
_DIAGONAL: Final = 128
"""Rows of a tile of attention."""
_PARTS_NS: Final = 5000
"""Additional time of single-token attention for long contexts: on H100 8.5 µs with a few keys, 14 to
16.5 with 4,096 of a few heads (the source of astranb/hardware/timings/trtllm.csv)."""


@dataclass(frozen=True)
class CostModel:
    """A model of the times of kernels.

    Attributes
    ----------
    name : str
        The value of ``costs=`` and ``--costs``.
    description : str
        Where the times are from, in a line.
    kernel_ns : callable
        Takes a kernel and the :class:`KernelTimes` that ask: their ``gpu``, ``precision`` and
        :meth:`~KernelTimes.fitted_ns`, for kernels that the model does not know. Returns nanoseconds.
    """

    name: str
    description: str
    kernel_ns: Callable[[Kernel, KernelTimes], float]


def _fitted_ns(kernel: Kernel, times: KernelTimes) -> float:
    return times.fitted_ns(kernel)


def _measured_by(engine: str) -> CostModel:
    """Return the cost model of an engine's measured kernels."""

    def kernel_ns(kernel: Kernel, times: KernelTimes) -> float:
        table, found = engine_table(times.gpu, engine), None
        if table is not None and isinstance(kernel, Product):
            found = table.product_ns(kernel, times.product_precision(kernel))
        elif table is not None and isinstance(kernel, Attention):
            found = table.attention_ns(kernel)
        return times.fitted_ns(kernel) if found is None else found

    return CostModel(engine, f"measured kernels of {engine}, else those of {_OWN}", kernel_ns)


COSTS: Final[Registry[str, CostModel]] = Registry(
    "costs",
    CostModel,
    lambda one: one.name,
    {
        _OWN: CostModel(_OWN, "tiles and passes over memory, fitted to timings", _fitted_ns),
        **{engine: _measured_by(engine) for engine in ENGINES_MEASURED},
    },
)
"""The cost models of kernels, by name."""

_LEAST_POWER: Final = 0.25
"""Least part of a GPU's power that a limit may be: drivers take no less, and clocks do not fall further."""


def power_part(gpu: Gpu, limit: str | None) -> float:
    """Return the part of a GPU's power that a limit leaves, as ``500W``; None: all of it.

    Products and attention draw the most, so that a limit holds their clock down; it is taken to fall in
    proportion: cuBLAS at 500 of 1,400 W reaches 617 TFLOP/s on GB300, and 1,600 to 2,174 at 1,400
    (github.com/facebookexperimental/triton, pull request 2023), 28 to 39 % where 36 % are in proportion.
    Memory keeps its clock (github.com/ashalliants/ninfer-3090, pull request 72).

    Raises
    ------
    InputError
        It is no power, or more than the GPU draws, or less than a quarter.

    Examples
    --------
    >>> from astranb.hardware import GPUS
    >>> round(power_part(GPUS["h100-sxm"], "500W"), 3)
    0.714
    """
    if limit is None:
        return 1.0
    most = gpu.costs.peak_W
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?) ?(k?)W", limit.strip(), re.IGNORECASE)
    watts = float(match[1]) * (1000 if match[2] else 1) if match else 0.0
    if not _LEAST_POWER * most <= watts <= most:
        what = f"{limit[:40]!r} is no limit of {gpu.name}'s power"
        hint = f"take {_LEAST_POWER * most:g}W to {most:g}W"
        raise InputError(what, where="power", hint=hint)
    return watts / most
