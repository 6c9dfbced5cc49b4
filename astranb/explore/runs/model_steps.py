"""From the specification of a model's step to the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError, near
from astranb.core.units import size_bytes

from .readers import both_given, cache_bytes, flag_of
from .specs import ModelRun, StepSpec, arguments_of, given, parameter_of

if TYPE_CHECKING:
    from astranb.workload.kernels import HybridMemory, KernelTimes
    from astranb.workload.models import ModelStep

__all__ = [
    "DEGREES",
    "NETWORK_FIELDS",
    "degrees_of",
    "expanded_memory_of",
    "memory_limit_of",
    "sharing_steps",
    "times_of",
    "traced_degrees",
    "workload_of",
]

DEGREES: Final = {
    name: parameter_of(StepSpec, name) for name in ("dp", "tp", "pp", "cp", "ep", "interleave", "zero")
}
"""Degrees of parallelism, and the fields of ``Parallelism``."""
_FIELDS: Final = (
    "mode", "seq", "output_tokens", "batch", "microbatches", "gradient_bytes", "experts", "topk",
    "dispatch_node", "expert_imbalance", "expert_capacity", "elementwise", "dropout", "uneven", "recompute",
    "framework", "attention", "precision", "offload", "update", "weights", "lora",
)  # fmt: skip
"""Fields of a step that :func:`astranb.workload.models.workload` takes as they are."""


def workload_of(spec: StepSpec, gpu: Any) -> ModelStep:
    """Make the step of a specification.

    Parameters
    ----------
    spec : StepSpec
    gpu : str or mapping, optional
        The GPU that gives the computations durations.
    """
    if _sharing:
        key = _identity(spec, gpu)
        if key not in _shared:
            while len(_shared) >= _MOST_SHARED:
                del _shared[next(iter(_shared))]
            _shared[key] = _made(spec, gpu)
        return _shared.setdefault(key, _shared.pop(key))  # the last one used is the last one dropped
    return _made(spec, gpu)


def _made(spec: StepSpec, gpu: Any) -> ModelStep:
    from astranb.workload.models import Parallelism, workload

    if given(spec, "output_tokens") and spec.mode != "decode":
        what, hint = f"{spec.mode[:40]} generates no tokens", "leave it out, or give --mode decode"
        raise InputError(what, where="--output-tokens", hint=hint)
    if given(spec, "gradient_bytes") and spec.mode != "training":
        what = f"{spec.mode[:40]} has no gradients"
        raise InputError(what, where="--gradient-bytes", hint="leave it out, or give --mode training")
    numbers = arguments_of(spec, *_FIELDS)
    if given(spec, "cache_precision"):
        numbers["cache_bytes"] = cache_bytes(spec.cache_precision)
    if "overlap" in given(spec, "overlap"):
        numbers["overlap"] = () if spec.overlap == "none" else tuple(spec.overlap.split(","))
    # Without a GPU nothing has a duration, and what a host updates would be lost.
    if gpu is None or any(getattr(spec, name, None) is not None for name in ("memory", "expanded_memory")):
        numbers.setdefault("update", "gpu")
    if gpu is None and spec.kernels is not None:
        raise InputError("--kernels needs --gpu", where="run", hint="name the GPU that is most like it")
    times = None
    if gpu is not None:
        times = times_of(
            gpu, **given(spec, "precision", "efficiency", "costs", "kernels", "weights", "power"),
            launch=getattr(spec, "launch", None),
        )  # fmt: skip
    made = workload(spec.model, Parallelism(**degrees_of(spec)), gpu=times, **numbers)
    if spec.dispatch_node is not None and not (made.plan and made.plan[0].experts):
        what = f"{made.title} has no experts"
        raise InputError(what, where="--dispatch-node", hint="leave it out, or give --experts")
    if spec.update is not None and "optimizer" not in spec.offload.split(","):
        what = "the optimizer is not offloaded"
        raise InputError(what, where="--update", hint="leave it out, or give --offload optimizer")
    return made


@contextmanager
def sharing_steps() -> Iterator[None]:
    """Share the latest steps of models between runs, whatever network and system they are on.

    Writing what ranks do takes longer than simulating it where ranks are alike.
    """
    _sharing.append(True)
    try:
        yield
    finally:
        _sharing.pop()


_MOST_SHARED: Final = 4
_sharing: list[bool] = []
_shared: dict[tuple[Any, ...], ModelStep] = {}


NETWORK_FIELDS: Final = (
    "infra", "network", "system", "dimensions", "num_queues_per_dim", "injection_scale",
    "rendezvous_protocol", "fidelity", "price",
    "expanded_memory", "expanded_shared", "expanded_streaming", "expanded_placement",
)  # fmt: skip
"""Fields that :func:`workload_of` does not read; all others may decide the step."""


def _identity(spec: StepSpec, gpu: Any) -> tuple[Any, ...]:
    """Return what decides a step: its fields, and the state of files that they name."""
    values = {name: value for name, value in given(spec).items() if name not in NETWORK_FIELDS}
    files = [Path(value) for value in values.values() if isinstance(value, str)]
    about = [(one.stat().st_mtime_ns, one.stat().st_size) for one in files if one.is_file()]
    return gpu, repr(sorted(values.items(), key=lambda item: item[0])), *about


def degrees_of(spec: StepSpec) -> dict[str, Any]:
    """Return the degrees of parallelism that are given, as fields of ``Parallelism``."""
    return arguments_of(spec, "sp", "schedule", *DEGREES)


def traced_degrees(text: str) -> dict[str, Any]:
    """Read the degrees of a traced job, as ``dp=2,tp=4``, as fields of ``Parallelism``."""
    values: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in DEGREES or not (value.isascii() and value.isdecimal() and len(value) < 8):
            raise InputError(f"no degree {part[:40]!r}", where="--traced", hint="write dp=2,tp=4,pp=2")
        values[name] = int(value)
    return degrees_of(StepSpec(**values))


def times_of(
    gpu: Any,
    *,
    precision: str | None = None,
    efficiency: str | None = None,
    launch: str | None = None,
    costs: str | None = None,
    kernels: str | None = None,
    weights: str = "",
    power: str | None = None,
) -> KernelTimes:
    """Return the times of a GPU's kernels; None is the default of the specification."""
    from astranb.workload.kernels import KernelTimes, gpu_named, gpu_of_file, power_part, read_efficiency

    device = gpu_named(gpu)
    if kernels is not None:
        device = gpu_of_file(kernels, device).gpu
    part = power_part(device, power)
    return KernelTimes(
        device, precision or StepSpec.precision, efficiency=read_efficiency(efficiency),
        launch=launch or "none", costs=costs or StepSpec.costs, weights=weights,
        power=part,
    )  # fmt: skip


def expanded_memory_of(spec: ModelRun, per_node: Callable[[], int]) -> HybridMemory | None:
    """Return the expansion of the GPUs' memory.

    Parameters
    ----------
    spec : ModelRun
    per_node : callable
        Gives the GPUs of a node, which share it with ``--expanded-shared node``.
    """
    if spec.expanded_memory is None:
        for name in given(spec, "expanded_shared", "expanded_streaming", "expanded_placement"):
            what = f"{flag_of(name)} needs --expanded-memory"
            raise InputError(what, where="run", hint="give it, or leave both out")
        return None
    if spec.memory_limit == "none":
        raise both_given("--expanded-memory", "--memory-limit none", "run")
    from astranb.workload.kernels import HybridMemory, MemoryTier

    shared = spec.expanded_shared
    if shared not in ("gpu", "node"):
        hint = near(shared, ("gpu", "node"))
        raise InputError(f"{shared[:40]!r} is neither gpu nor node", where="--expanded-shared", hint=hint)
    local = 0 if spec.memory_limit is None else size_bytes(spec.memory_limit, where="--memory-limit")
    return HybridMemory(
        MemoryTier.of(spec.expanded_memory, "--expanded-memory"),
        local,
        shared_by=per_node() if shared == "node" else 1,
        **arguments_of(spec, "expanded_streaming", "expanded_placement"),
    )


def memory_limit_of(limit: str | None, times: KernelTimes | None) -> int:
    """Return the memory of a GPU in bytes, with its expansion; without a limit more than any has."""
    if times is not None and times.expanded is not None:
        return times.memory_bytes
    if limit == "none":
        return 1 << 60
    if limit is not None:
        return size_bytes(limit, where="--memory-limit")
    assert times is not None  # noqa: S101 - a step that runs has a GPU
    return times.gpu.memory_bytes
