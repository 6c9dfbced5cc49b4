"""Profiles: what every rank of a job does in one step, where that is from, and what it rests on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from astranb.chakra import CollectiveType, NodeType
from astranb.chakra.scaling import GROUPS, PEERS, plan_text
from astranb.core.document import read_document
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.workload.astrasim2 import DimensionNetwork, InfraNetwork, Workload
from astranb.workload.kernels import DEFAULT_GPU, KernelTimes
from astranb.workload.models import Job, ModelStep, Parallelism, Transformer, require_memory, workload

from .document import step_document, step_of

__all__ = ["Profile", "durations_text", "profile_model", "profile_of"]

_FORMAT: Final = "astranb profile"
_VERSION: Final = 1
_MOST_BYTES: Final = 1 << 30


@dataclass(frozen=True, eq=False)
class Profile:
    """One step of every rank of a job.

    Ranks of a pipeline stage share one program, so a profile of 16,384 ranks is as small as one of 16.

    Parameters
    ----------
    step : ModelStep
        Operators of each stage, with their operations, bytes, kernels and communication by group.
    origin : str
        ``model``, ``torch`` or ``traces``.
    source : str
        The model, function or files that it was made from.
    assumptions : mapping of str to str
        What it rests on, by subject.
    operators : sequence of mapping
        Of a PyTorch model the operators that ran: unit, pass, operator, count, operations and bytes.

    Examples
    --------
    >>> profile = profile_model("gpt3-125m", Parallelism(data=2, tensor=2))
    >>> [(row["group"], row["collective"], row["count"]) for row in profile.communication()]
    [('tensor', 'all_reduce', 51), ('data', 'all_reduce', 14)]
    """

    step: ModelStep
    origin: str
    source: str
    assumptions: Mapping[str, str] = field(default_factory=dict)
    operators: Sequence[Mapping[str, Any]] = ()

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.step.ranks

    def workload(self, network: DimensionNetwork | InfraNetwork | None = None) -> Workload:
        """Return the operations of all ranks on a cluster.

        Parameters
        ----------
        network : DimensionNetwork or InfraNetwork, optional
            Default: nodes of the step's GPU (:func:`astranb.workload.models.machine`).
        """
        return self.step.on(network)

    def _place(self, program: int) -> dict[str, int]:
        """Return a program's stage, and its ranks' share of the model where shares differ."""
        stage, share = divmod(program, self.step.share_count)
        return {"stage": stage} if self.step.is_even else {"stage": stage, "share": share}

    def communication(self) -> list[dict[str, Any]]:
        """Return what one rank of each stage communicates: a row by group or peer, and collective.

        Bytes of a collective are those of each rank's input.
        """
        rows = []
        for number, program in enumerate(self.step.stages):
            found: dict[tuple[str, str], Counter[str]] = {}
            for row, kind in enumerate(program.kind):
                if kind == NodeType.COMM_COLL:
                    key = GROUPS[program.group[row]], CollectiveType(program.collective[row]).name.lower()
                elif kind == NodeType.COMM_SEND:
                    key = PEERS[program.peer[row]], "send"
                else:
                    continue
                found.setdefault(key, Counter()).update(count=1, bytes=program.size[row])
            rows += [
                {
                    **self._place(number),
                    "group": group,
                    "ranks": self.step.parallelism.size(group) if group in GROUPS else 2,
                    "collective": collective,
                    **counted,
                }
                for (group, collective), counted in found.items()
            ]
        return rows

    def computation(self) -> list[dict[str, Any]]:
        """Return what one rank of each stage computes: operations, bytes and time."""
        return [
            {
                **self._place(number),
                "count": sum(kind == NodeType.COMP for kind in program.kind),
                "flops": sum(program.flops),
                "bytes": sum(
                    size
                    for kind, size in zip(program.kind, program.size, strict=True)
                    if kind == NodeType.COMP
                ),
                "duration_ns": sum(took.tolist()),
            }
            for number, (program, took) in enumerate(
                zip(self.step.stages, self.step.durations_ns(), strict=True)
            )
        ]

    def summary(self) -> dict[str, Any]:
        """Return the profile in a few numbers, as ``astranb traffic profile --json`` prints it."""
        return {
            "origin": self.origin,
            "source": self.source,
            "ranks": self.ranks,
            "stages": self.step.parallelism.pipeline,
            "operations": self.step.nodes,
            self.step.unit: self.step.tokens,
            "model_flops": self.step.model_flops,
            "computation": self.computation(),
            "communication": self.communication(),
            "assumptions": dict(self.assumptions),
        }

    def save(self, path: str | Path) -> None:
        """Write the profile as one JSON document.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        InputError
            It cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "job.json"
        >>> profile_model("vgg-16", Parallelism(data=8)).save(file)
        >>> Profile.load(file).step.tokens
        256
        """
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "origin": self.origin,
            "source": self.source,
            "assumptions": dict(self.assumptions),
            "operators": list(self.operators),
            "step": step_document(self.step),
        }
        with whole_file(Path(path)) as file:
            file.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Read a profile: its step is the one that was saved, to the bit.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        InputError
            It cannot be read, or is no profile.
        """
        document = read_document(path, _MOST_BYTES, form="json")
        if not document.has("format") or document.get("format").value != _FORMAT:
            hint = "make one with 'astranb traffic profile'"
            raise InputError("this is not a profile of astranb", where=str(path), hint=hint)
        if document.get("version").value != _VERSION:
            what = f"version {document.get('version').brief} of the format"
            raise InputError(what, where=str(path), hint=f"this astranb reads version {_VERSION}")
        given = document.get("assumptions").value
        if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
            raise document.get("assumptions").error("texts by subject are expected")
        rows = [one.value for one in document.get("operators").items()]
        step = step_of(document.get("step"))
        return cls(step, document.get("origin").text(), document.get("source").text(), given, rows)


def profile_model(
    model: str | Transformer,
    parallelism: Parallelism | None = None,
    *,
    gpu: str | Path | KernelTimes = DEFAULT_GPU,
    memory_limit_bytes: int | None = None,
    **options: Any,
) -> Profile:
    """Profile a model from its sizes: one of ours, a file of sizes, or a ``config.json`` of Hugging Face.

    Parameters
    ----------
    model : str or Transformer
        As :func:`astranb.workload.models.workload` takes it.
    parallelism : Parallelism, optional
        Default: one rank.
    gpu : str or KernelTimes
        Whose kernels give computations their durations.
    memory_limit_bytes : int, optional
        The memory of a GPU, in which a transformer has to fit. Default: no limit.
    **options
        Of :func:`astranb.workload.models.workload`: ``batch``, ``microbatches``, ``sequence``, ``mode``, ...

    Raises
    ------
    InputError
        The options do not fit the model, or the model does not fit in memory.

    Examples
    --------
    >>> profile_model("llama3-8b", Parallelism(data=4, tensor=8), batch=32).step.tokens
    262144
    """
    step = workload(model, parallelism, gpu=gpu, **options)
    return profile_of(step, model if isinstance(model, str) else model.name, memory_limit_bytes)


def profile_of(step: ModelStep, source: str, memory_limit_bytes: int | None = None) -> Profile:
    """Make the profile of a step that was made from a model's sizes."""
    if step.moved_bytes or (step.times is not None and step.times.expanded is not None):
        what = "a profile has no memory outside the GPUs"
        raise InputError(what, where="GPU memory", hint="leave --offload and the expanded memory out")
    if step.plan is not None and memory_limit_bytes is not None and step.times is not None:
        require_memory(*step.plan, memory_limit_bytes, step.times.gpu.name)
    return Profile(step, "model", source, _assumed(step))


def durations_text(times: KernelTimes | None) -> str:
    """Write where durations of computations are from."""
    return "none" if times is None else times.text


def _assumed(step: ModelStep) -> dict[str, str]:
    found = {"parallelism": plan_text(step.parallelism), "durations": durations_text(step.times)}
    if step.plan is None:
        return found
    model, job = step.plan
    return found | _model_assumptions(model, job)


def _model_assumptions(model: Transformer, job: Job) -> dict[str, str]:
    found: dict[str, str] = {
        "sizes": model.source or "given by the user",
        "batch": f"{job.batch} sequences of {job.sequence}, {job.microbatches} microbatches of {job.micro}",
        "numbers": f"{job.bytes_each} bytes, gradients {job.gradient_bytes}; products in {job.precision}",
        "kernels around the matrices": f"as {job.framework}'s",
        "attention": job.attention,
        "overlap": ", ".join(job.overlap) or "none",
    }
    if job.mode == "training":
        found["schedule"] = (
            "1F1B" if job.parallelism.interleave == 1 else f"1F1B, {job.parallelism.interleave} chunks"
        )
        found["recomputation"] = str(job.recompute)
        found["optimizer"] = f"Adam, {job.optimizer_bytes} bytes of state for each parameter"
    else:
        found["mode"] = job.mode
    if model.left_out:
        found["left out"] = model.left_out
    if model.experts:
        found["experts"] = (
            f"each takes {job.expert_capacity:g} times the mean of tokens, padded or cut"
            if job.expert_capacity
            else f"the busiest has {job.expert_imbalance:g} times the mean of tokens"
        )
    return found
