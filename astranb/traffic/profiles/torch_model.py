"""Profiles of PyTorch models: run once with fake tensors, or on the CPU, and divided over ranks by a plan.

Repeated modules with the same shapes run once; the others of them are passed by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from astranb.chakra.scaling import plan_text, take_divisor
from astranb.core.errors import InputError, near
from astranb.core.extras import needs_extra
from astranb.workload.kernels import DEFAULT_GPU, KernelTimes, gpu_named
from astranb.workload.models import Job, ModelStep, Parallelism

from .profile import Profile, durations_text
from .torch_operators import OperatorRecorder, RecordedPass, segments_of, storage_of
from .units import BALANCES, ProfiledModel, ProfiledUnit, stages_of, unit_memory

__all__ = ["PLAN", "profile_torch"]

PLAN: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "q_proj", "k_proj", "v_proj", "wq", "wk", "wv", "c_attn", "qkv", "query_key_value", "gate_proj",
            "up_proj", "gate_up_proj", "w1", "w3", "c_fc", "fc1", "dense_h_to_4h", "lm_head", "output",
        ),
        "colwise",
    ),
    **dict.fromkeys(
        (
            "o_proj", "wo", "down_proj", "w2", "c_proj", "fc2", "dense_4h_to_h", "attention.dense",
            "out_proj", "embed_tokens", "tok_embeddings", "wte", "word_embeddings",
        ),
        "rowwise",
    ),
}  # fmt: skip
"""Division of modules with known names: those of Hugging Face's Llama, GPT-2 and GPT-NeoX, and of
torchtitan's Llama (github.com/pytorch/torchtitan, torchtitan/models/llama). One's own plan replaces it."""

_STYLES: Final = ("colwise", "rowwise")
_HEADS: Final = (
    "num_heads", "n_heads", "n_head", "num_attention_heads", "n_kv_heads", "num_kv_heads",
    "num_key_value_heads",
)  # fmt: skip
_NUMBERED: Final = ("idx", "index", "layer_id", "layer_number")
"""Attributes of a module whose names have these do not tell it from the others."""


@dataclass
class _Unit:
    """One run of a repeated module: its place among the others, what comes before it, and its profile."""

    module: Any
    profile: ProfiledUnit
    received: int
    repeated: bool = False


@dataclass
class _Rest:
    """Computations of a model outside its units: before each of them, and behind the last."""

    forward: list[RecordedPass] = field(default_factory=lambda: [RecordedPass()])
    backward: list[RecordedPass] = field(default_factory=list)


def profile_torch(
    model: Any,
    inputs: Any = None,
    parallelism: Parallelism | None = None,
    *,
    plan: Mapping[str, str] | None = None,
    microbatches: int | None = None,
    precision: str | None = "bf16",
    gpu: str | Path | KernelTimes = DEFAULT_GPU,
    measured: float | None = None,
    balance: str = "layers",
    recompute: str | bool = "none",
    gradient_bytes: int | None = None,
    bucket_bytes: int = 0,
    optimizer_bytes: int = 12,
    memory_limit_bytes: int | None = None,
) -> Profile:
    """Profile a training step of a PyTorch model.

    The model runs forward and backward for one microbatch with fake tensors: nothing is computed, and weights
    take no memory. Children of module lists and sequential modules are its units: they are spread over the
    stages of a pipeline, and those with the same class, shapes and attributes run once.

    Parameters
    ----------
    model : Module or callable
        A callable returns a module, or a module and its inputs. Its result is a loss, or what losses have
        gradients of.
    inputs : tensor, tuple or dict, optional
        Of one microbatch; the first dimension is its sequences.
    parallelism : Parallelism, optional
        ``data``, ``tensor``, ``pipeline``, ``interleave`` and ``zero``. Default: one rank.
    plan : mapping of str to str, optional
        How tensor parallelism divides modules, ``colwise`` or ``rowwise`` by name, as
        ``{"attn.wq": "colwise", "attn.wo": "rowwise"}``. Default: :data:`PLAN`.
    microbatches : int, optional
        Default: four for each stage of a pipeline.
    precision : str, optional
        Of parameters and floating-point inputs, of a model that a callable makes: ``bf16`` or ``fp16``;
        None: as it is.
    gpu : str or KernelTimes
        Whose kernels give durations.
    measured : float, optional
        Run on this CPU, and take durations of operators from there: how many times as fast the GPU is.
    balance : str
        What stages have as much of, ``layers`` or ``flops``.
    recompute : str
        ``none``, or ``full``: units run again before their backward pass.
    gradient_bytes : int, optional
        Of a gradient in sums over replicas. Default: as of a parameter.
    bucket_bytes : int
        Gradients are summed when so many are complete, as PyTorch's DDP does with 25 MiB; 0: unit by unit, as
        FSDP does.
    optimizer_bytes : int
        Of the optimizer's state of a parameter.
    memory_limit_bytes : int, optional
        The memory of a GPU, in which the step has to fit. Default: no limit.

    Raises
    ------
    InputError
        PyTorch is not installed, the model cannot be run, or the plan does not divide it.
    """
    with needs_extra("profile_torch"):
        import torch
    degrees = parallelism or Parallelism()
    for name in ("context", "expert", "sequence"):
        if int(getattr(degrees, name)) > (name != "sequence"):
            what = f"{name} parallelism of a PyTorch model is not profiled"
            raise InputError(what, where=name, hint="leave it out, or profile a model by its sizes")
    if balance not in BALANCES:
        raise InputError(f"unknown balance {balance[:40]!r}", where="balance", hint=near(balance, BALANCES))
    dtype = _dtype(torch, precision)
    tracer = _Tracer(torch, degrees.tensor, measured)
    with tracer.tensors():
        module, given = _made(torch, model, inputs, dtype)
        divided = tracer.divide(module, plan)
        tracer.run(module, given)
    first = tracer.leaves(given)[0]
    found = tracer.model(module)
    micro, sequence = _sizes(torch, first)
    count = microbatches or (4 * degrees.pipeline if degrees.pipeline > 1 else 1)
    number_bytes = max((one.element_size() for one in module.parameters()), default=2)
    job = Job(
        degrees, sequence, micro * count * degrees.data, count, recompute=recompute, bytes_each=number_bytes,
        gradient_bytes=gradient_bytes or number_bytes, optimizer_bytes=optimizer_bytes, library="pytorch",
    )  # fmt: skip
    programs = stages_of(found, job, balance, bucket_bytes)
    times = KernelTimes(gpu_named(gpu), precision or "bf16") if isinstance(gpu, str | Path) else gpu
    title = type(module).__name__
    unit = "tokens" if sequence > 1 else "samples"
    step = ModelStep(degrees, programs, job.new_tokens, times, unit, title)
    needs = [unit_memory(found, job, program) for program in programs]
    if memory_limit_bytes is not None and max(needs) > memory_limit_bytes:
        what = f"a rank of stage {needs.index(max(needs))} needs {max(needs) / 1e9:,.1f} GB of the "
        what += f"{memory_limit_bytes / 1e9:,.1f} GB of {times.gpu.name}"
        raise InputError(what, where="GPU memory", hint="divide it more; or --memory-limit none")
    assumptions = {
        "parallelism": plan_text(degrees),
        "durations": durations_text(times)
        if measured is None
        else f"of operators as measured on this CPU, divided by {measured:g}",
        "units": f"{len(tracer.units)}, of which {tracer.runs} ran; spread by {balance}",
        "parameters": f"{sum(one.numel() for one in module.parameters()):,}",
        "memory": f"{max(needs) / 1e9:.3g} GB for parameters, their states and activations of a rank at most",
        **_job_assumptions(job, bucket_bytes),
    }
    if divided:
        assumptions["tensor parallelism"] = divided
    return Profile(step, "torch", title, assumptions, tracer.rows())


def _job_assumptions(job: Job, bucket_bytes: int) -> dict[str, str]:
    degrees = job.parallelism
    how = f"in buckets of {bucket_bytes:,} bytes" if bucket_bytes else "unit by unit"
    return {
        "batch": f"{job.batch} sequences or samples, {job.microbatches} microbatches of {job.micro}",
        "kernels": "one for each operator, nothing fused, forward and backward as autograd runs them",
        "operations": "as PyTorch counts them: products, convolutions and attention, no mask subtracted",
        "gradients": f"{job.gradient_bytes} bytes, summed {how} behind the last backward passes",
        "schedule": "1F1B" if degrees.interleave == 1 else f"1F1B, {degrees.interleave} chunks",
        "recomputation": str(job.recompute),
        "optimizer": f"Adam, {job.optimizer_bytes} bytes of state for each parameter, of many passes",
    }


def _dtype(torch: Any, precision: str | None) -> Any:
    if precision is None:
        return None
    known = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if precision not in known:
        what = f"unknown precision {precision[:40]!r}"
        raise InputError(what, where="precision", hint=near(precision, known))
    return known[precision]


def _made(torch: Any, model: Any, inputs: Any, dtype: Any) -> tuple[Any, Any]:
    """Make the module and its inputs."""
    if isinstance(model, torch.nn.Module):
        module = model
    else:
        try:
            module = model()
        except Exception as error:  # whatever the user's function raises
            raise InputError(f"{type(error).__name__}: {error}"[:300], where="module") from error
        if isinstance(module, tuple) and len(module) == 2:
            module, own = module
            inputs = own if inputs is None else inputs
        if not isinstance(module, torch.nn.Module):
            what = f"a module is expected, or a module and its inputs, not {type(module).__name__}"
            raise InputError(what, where="module", hint="return torch.nn.Module and a tuple of tensors")
        if dtype is not None:
            _convert(torch, module, dtype)
    if inputs is None:
        raise InputError("there are no inputs", where="inputs", hint="give tensors of one microbatch")
    if dtype is not None and module is not model:
        inputs = torch.utils._pytree.tree_map_only(  # noqa: SLF001 - PyTorch gives no public one
            torch.Tensor, lambda one: one.to(dtype) if one.is_floating_point() else one, inputs
        )
    return module, inputs


def _convert(torch: Any, module: Any, dtype: Any) -> None:
    """Convert parameters and buffers; ``Module.to`` cannot swap those of fake tensors."""
    known: dict[int, Any] = {}
    for part in module.modules():
        for name, one in list(part.named_parameters(recurse=False)):
            if one.is_floating_point():
                if id(one) not in known:
                    known[id(one)] = torch.nn.Parameter(
                        one.detach().to(dtype), requires_grad=one.requires_grad
                    )
                part._parameters[name] = known[id(one)]  # noqa: SLF001 - setattr would check shared ones again
        for name, one in list(part.named_buffers(recurse=False)):
            if one.is_floating_point():
                part._buffers[name] = one.to(dtype)  # noqa: SLF001


def _sizes(torch: Any, first: Any) -> tuple[int, int]:
    """Return the sequences of a microbatch, and their tokens; 1 where the inputs are no words."""
    if first.dim() == 0:
        raise InputError("the first input has no dimensions", where="inputs", hint="give a batch")
    token_ids = first.dim() == 2 and first.dtype in (torch.int64, torch.int32)
    return int(first.shape[0]), int(first.shape[1]) if token_ids else 1


class _Tracer:
    """Runs a model once, unit by unit."""

    def __init__(self, torch: Any, parts: int, measured: float | None) -> None:
        self.torch, self.measured = torch, measured
        self.recorder = OperatorRecorder(torch, parts, measure=measured is not None)
        self.units: list[_Unit] = []
        self.rest = _Rest()
        self._profiles: dict[Any, tuple[ProfiledUnit, Any]] = {}
        self._recorded: list[tuple[str, RecordedPass, RecordedPass]] = []
        self._seen: set[int] = set()
        self._names: dict[int, str] = {}

    @contextmanager
    def tensors(self) -> Iterator[None]:
        """Make fake tensors meanwhile, unless operators are measured."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        with nullcontext() if self.measured is not None else FakeTensorMode(allow_non_fake_inputs=True):
            yield

    def leaves(self, value: Any) -> list[Any]:
        """Return the tensors of a structure."""
        found = self.torch.utils._pytree.tree_leaves(value)  # noqa: SLF001 - PyTorch gives no public one
        return [one for one in found if isinstance(one, self.torch.Tensor)]

    # The plan

    def divide(self, module: Any, plan: Mapping[str, str] | None) -> str:
        """Divide parameters between the ranks of a tensor group, as a plan says; give it in words."""
        parts = self.recorder.parts
        if parts == 1:
            if plan:
                raise InputError("a plan without tensor parallelism", where="plan", hint="take tensor > 1")
            return ""
        chosen = PLAN if plan is None else plan
        matched: dict[str, list[str]] = {}
        for name, part in module.named_modules():
            key = next((key for key in chosen if _matches(name, key)), None)
            if key is None or getattr(part, "weight", None) is None:
                continue
            style = chosen[key]
            if style not in _STYLES:
                hint = near(str(style), _STYLES)
                raise InputError(f"unknown style {str(style)[:40]!r} of {key!r}", where="plan", hint=hint)
            matched.setdefault(key, []).append(name)
            self._divide_one(name, part, style)
        missing = [key for key in chosen if key not in matched] if plan is not None else []
        if missing or not matched:
            names = [
                name for name, part in module.named_modules() if getattr(part, "weight", None) is not None
            ]
            what = f"no module is called {missing[0]!r}" if missing else "no module has a name that is known"
            raise InputError(what, where="plan", hint=near(missing[0] if missing else "wq", names))
        for name, part in module.named_modules():
            if any(storage_of(one) in self.recorder.split for one in part.parameters()):
                self._require_heads(name, part)
        return ", ".join(f"{key} {chosen[key]} ({len(names)})" for key, names in matched.items())

    def _divide_one(self, name: str, part: Any, style: str) -> None:
        is_embedding = isinstance(part, self.torch.nn.Embedding)
        # Rows of a linear layer's weights are outputs; of GPT-2's Conv1D they are inputs.
        outputs = 1 if is_embedding or type(part).__name__ == "Conv1D" else 0
        dim = outputs if style == "colwise" else 1 - outputs
        if part.weight.dim() != 2:
            what = f"{name} has weights of {part.weight.dim()} dimensions"
            raise InputError(what, where="plan", hint="divide linear layers and embeddings")
        if storage_of(part.weight) not in self.recorder.split:  # words may be shared with the head
            self.recorder.divide(part.weight, name, dim)
        if style == "colwise" and getattr(part, "bias", None) is not None:
            self.recorder.divide(part.bias, name, 0)

    def _require_heads(self, name: str, part: Any) -> None:
        parts = self.recorder.parts
        for attribute in _HEADS:
            value = getattr(part, attribute, None)
            if isinstance(value, int) and not isinstance(value, bool) and value % parts:
                what = (
                    f"tensor parallelism {parts} does not divide {value} {attribute} of {name or 'the model'}"
                )
                raise InputError(what, where="tensor", hint=take_divisor(value))

    # The run

    def run(self, module: Any, given: Any) -> None:
        """Run the model forward and backward."""
        named = isinstance(given, Mapping)
        args = () if named else tuple(given) if isinstance(given, list | tuple) else (given,)
        kwargs = dict(given) if named else {}
        self._names = {id(part): name for name, part in module.named_modules()}
        try:
            with self._replaced(module), self.recorder.active():
                self._run_whole(module, args, kwargs)
        except InputError:
            raise
        except Exception as error:  # whatever the user's model raises
            raise InputError(f"{type(error).__name__}: {error}"[:400], where="module") from error
        finally:
            for one in module.parameters():
                one.grad = None

    def _run_whole(self, module: Any, args: Any, kwargs: Any) -> None:
        with self.recorder.recording(self.rest.forward[0]):
            out = module(*args, **kwargs)
            ends = [one for one in self.leaves(out) if one.requires_grad]
            if not ends:
                raise InputError("its result has no gradient", where="module", hint="train its parameters")
            self.recorder.finish(ends, self.rest.forward[-1])
            gradients = self._gradients(ends)
            self.rest.backward.append(RecordedPass())
            self.recorder.into = self.rest.backward[0]
            self.torch.autograd.backward(ends, gradients)

    def _gradients(self, ends: Sequence[Any]) -> list[Any]:
        """Make gradients of results; ranks have of them what they have of these."""
        with self.recorder.recording(None):
            made = [self.torch.ones_like(one) for one in ends]
        for one, end in zip(made, ends, strict=True):
            self.recorder.like(one, end)
        return made

    @contextmanager
    def _replaced(self, module: Any) -> Iterator[None]:
        """Replace units by ones that pass their input on."""
        units = list(_units(self.torch, module))
        for one in units:
            one.forward = self._passing(one, one.forward)
        try:
            yield
        finally:
            for one in units:
                del one.forward

    def _passing(self, unit: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
        def passing(*args: Any, **kwargs: Any) -> Any:
            tensors = self.leaves((args, kwargs))
            self.recorder.finish(tensors, self.rest.forward[-1])
            key = (
                self._signature(unit),
                tuple((tuple(one.shape), one.dtype, one.requires_grad) for one in tensors),
            )
            if key not in self._profiles:
                self._profiles[key] = self._profiled(unit, forward, args, kwargs)
            profile, out = self._profiles[key]
            received = sum(_bytes(one) for one in tensors if one.requires_grad)
            self.units.append(_Unit(unit, profile, received, repeated=id(unit) in self._seen))
            self._seen.add(id(unit))
            result = self._passed(out, tensors)
            self.rest.forward.append(RecordedPass())
            self.recorder.into = self.rest.forward[-1]
            return result

        return passing

    def _signature(self, unit: Any) -> Any:
        """Return a signature that differs between units which do not do the same."""
        parts = []
        for part in unit.modules():
            attributes = {
                name: value
                for name, value in vars(part).items()
                if isinstance(value, bool | int | float | str) and not any(one in name for one in _NUMBERED)
            }
            own = [
                (name, tuple(one.shape), str(one.dtype)) for name, one in part.named_parameters(recurse=False)
            ]
            own += [
                (name, tuple(one.shape), str(one.dtype)) for name, one in part.named_buffers(recurse=False)
            ]
            parts.append(
                (type(part).__qualname__, part.extra_repr(), tuple(sorted(attributes.items())), tuple(own))
            )
        divided = tuple(self.recorder.split.get(storage_of(one), ("", -1))[1] for one in unit.parameters())
        return tuple(parts), divided

    def _profiled(
        self, unit: Any, forward: Callable[..., Any], args: Any, kwargs: Any
    ) -> tuple[ProfiledUnit, Any]:
        """Run one unit forward and backward."""
        map_only = self.torch.utils._pytree.tree_map_only  # noqa: SLF001
        found = RecordedPass(), RecordedPass()
        with self.recorder.recording(None):
            if self.measured is not None:  # the first run is slower
                self._run_unit(unit, forward, map_only, args, kwargs, (RecordedPass(), RecordedPass()))
            out = self._run_unit(unit, forward, map_only, args, kwargs, found)
        name = self._names.get(id(unit), type(unit).__name__)
        self._recorded.append((name, *found))
        kept = _kept(found[0], unit)
        parameters = sum(map(self._own, unit.parameters()))
        profile = ProfiledUnit(
            name, segments_of(found[0], self.measured), segments_of(found[1], self.measured), parameters,
            kept=kept,
        )  # fmt: skip
        return profile, out

    def _run_unit(
        self, unit: Any, forward: Callable[..., Any], map_only: Any, args: Any, kwargs: Any,
        found: tuple[RecordedPass, RecordedPass],
    ) -> Any:  # fmt: skip
        inputs = []

        def apart(one: Any) -> Any:
            copy = one.detach().requires_grad_(one.requires_grad)
            inputs.append(copy)
            return copy

        own, named = map_only(self.torch.Tensor, apart, (args, kwargs))
        with self.recorder.recording(found[0]):
            out = forward(*own, **named)
        results = self.leaves(out)
        self.recorder.finish(results, found[0])
        ends = [one for one in results if one.requires_grad]
        if any(map(self.recorder.is_part, results)):
            name = self._names.get(id(unit), type(unit).__name__)
            what = f"the result of {name} is divided between ranks"
            raise InputError(
                what, where="plan", hint="end it with a module that is divided by rows (rowwise)"
            )
        if ends:
            gradients = self._gradients(ends)
            with self.recorder.recording(found[1]):
                self.torch.autograd.backward(ends, gradients)
            self.recorder.finish([one.grad for one in inputs if one.grad is not None], found[1])
        for one in unit.parameters():
            one.grad = None
        return map_only(self.torch.Tensor, lambda one: one.detach().requires_grad_(one.requires_grad), out)

    def _own(self, parameter: Any) -> int:
        """Return the numbers of a parameter that a rank holds."""
        divided = storage_of(parameter) in self.recorder.split
        return int(parameter.numel()) // (self.recorder.parts if divided else 1)

    def _passed(self, out: Any, inputs: Sequence[Any]) -> Any:
        """Return placeholders of a unit's results, whose gradients bypass it."""
        torch, tracer = self.torch, self
        function: Any = torch.autograd.Function
        like = [one for one in self.leaves(out) if one.requires_grad]

        class Passing(function):
            @staticmethod
            def forward(ctx: Any, *given: Any) -> Any:
                ctx.save_for_backward(*given)
                return tuple(torch.empty_like(one) for one in like)

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                tracer.recorder.finish(
                    [one for one in gradients if one is not None], tracer.rest.backward[-1]
                )
                tracer.recorder.into = None
                made = tuple(
                    torch.empty_like(one) if one.requires_grad else None for one in ctx.saved_tensors
                )
                tracer.rest.backward.append(RecordedPass())
                tracer.recorder.into = tracer.rest.backward[-1]
                return made

        with self.recorder.recording(None):
            # Parameters have gradients even where the inputs have none.
            trained = torch.zeros((), requires_grad=True)
            results = iter(Passing.apply(trained, *inputs) if like else ())
            map_only = torch.utils._pytree.tree_map_only  # noqa: SLF001
            return map_only(
                torch.Tensor, lambda one: next(results) if one.requires_grad else torch.empty_like(one), out
            )

    # The result

    def model(self, module: Any) -> ProfiledModel:
        """Return the units with what comes before, between and behind them."""
        count = len(self.units)
        forward = self.rest.forward
        # Backward passes come in reverse; units without gradients are not passed then.
        backward = [RecordedPass() for _ in range(count + 1)]
        for place, recorded in zip(range(count, -1, -1), self.rest.backward, strict=False):
            backward[place] = recorded
        held, tied = self._held(module)
        units = [self._placed(one, forward[at], backward[at], held[at]) for at, one in enumerate(self.units)]
        if count:
            # What comes before the first unit is a unit of its own.
            units[0] = self._placed(self.units[0], RecordedPass(), RecordedPass(), 0)
        shared: dict[ProfiledUnit, ProfiledUnit] = {}
        units = [shared.setdefault(one, one) for one in units]
        first = self._end("before", forward[0], backward[0], held[0], module)
        if not count:
            return ProfiledModel(first, (), ProfiledUnit("behind", (), ()))
        _, out = next(pair for pair in self._profiles.values() if pair[0] is self.units[-1].profile)
        received = sum(_bytes(one) for one in self.leaves(out) if one.requires_grad)
        behind = self._end("behind", forward[count], backward[count], held[count], module, received)
        return ProfiledModel(first, tuple(units), behind, tied)

    def _held(self, module: Any) -> tuple[list[int], int]:
        """Return the parameters outside units, by the place that uses them first, and those of both ends."""
        forward = self.rest.forward
        own = {storage_of(one): one for one in module.parameters()}
        for one in self.units:
            for parameter in one.module.parameters():
                own.pop(storage_of(parameter), None)
        held, tied = [0] * len(forward), 0
        for key, parameter in own.items():
            used = [place for place, recorded in enumerate(forward) if key in recorded.used] or [0]
            held[used[0]] += self._own(parameter)
            if used[0] == 0 < used[-1] == len(self.units):
                tied += self._own(parameter)
        return held, tied

    def _end(
        self,
        name: str,
        forward: RecordedPass,
        backward: RecordedPass,
        parameters: int,
        module: Any,
        received: int = 0,
    ) -> ProfiledUnit:
        """Return what comes before all units, or behind them."""
        forward_segments, backward_segments = (segments_of(one, self.measured) for one in (forward, backward))
        return ProfiledUnit(
            name, forward_segments, backward_segments, parameters, received, _kept(forward, module)
        )

    def _placed(self, one: _Unit, front: RecordedPass, back: RecordedPass, parameters: int) -> ProfiledUnit:
        """Return a unit with what comes before it."""
        unit = one.profile
        return replace(
            unit,
            forward=segments_of(front, self.measured) + unit.forward,
            backward=unit.backward + segments_of(back, self.measured),
            parameters=parameters + (0 if one.repeated else unit.parameters),
            received=one.received,
        )

    @property
    def runs(self) -> int:
        """Number of units that ran."""
        return len(self._profiles)

    def rows(self) -> list[dict[str, Any]]:
        """Return the operators of each unit that ran, and of the rest: a row for each kind."""
        found = []
        rest = [
            ("rest", name, sum_of(some))
            for name, some in (("forward", self.rest.forward), ("backward", self.rest.backward))
        ]
        for name, forward, backward in self._recorded:
            rest += [(name, "forward", forward), (name, "backward", backward)]
        for unit, name, recorded in rest:
            found += list(recorded.rows(unit, name))
        return found


def sum_of(some: Sequence[RecordedPass]) -> RecordedPass:
    """Return several parts as one."""
    found = RecordedPass()
    for one in some:
        found = found.plus(one)
    return found


def _kept(recorded: RecordedPass, module: Any) -> int:
    """Return the bytes that backward passes need and parameters are not."""
    own = {storage_of(one) for one in module.parameters()}
    return sum(size for key, size in recorded.kept.items() if key not in own)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _matches(name: str, key: str) -> bool:
    return name == key or name.endswith(f".{key}") or fnmatch(name, key)


def _units(torch: Any, module: Any) -> Iterator[Any]:
    """Yield the children of the outermost lists and sequences of modules."""
    containers = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)
    if isinstance(module, containers):
        yield from module.children()
    else:
        for child in module.children():
            yield from _units(torch, child)
