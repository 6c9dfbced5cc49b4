"""Published training steps against predicted ones, the tables of docs/steps.md.

``python -m scripts.published_steps [ID...]`` prints each published step, or those whose names contain an
ID, beside the estimated one; ``--write`` writes the tables of the page. ``--simulate`` simulates the steps
that take a second or so (:data:`MOST_OPERATIONS`) and compares the estimates with the simulations.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from astranb.explore.algorithms.collective_times import CollectiveTimes
from astranb.explore.plans.step_estimates import estimate_step
from astranb.workload.kernels import GPUS, KernelTimes
from astranb.workload.models import Job, ModelStep, Parallelism, Transformer, machine, workload
from astranb.workload.models.library import TRANSFORMERS

from .generated import write_generated

DATA: Final = Path(__file__).parents[1] / "tests" / "data" / "published"
PAGE: Final = Path(__file__).parents[1] / "docs" / "steps.md"
MOST_OPERATIONS: Final = 13_000
"""Layers of a stage, microbatches and ranks, multiplied: larger steps are not simulated here."""


def _gpt(name: str, layers: int, hidden: int, heads: int, vocab: int = 51200) -> Transformer:
    return Transformer(
        name, layers, hidden, heads, 4 * hidden, vocab, 2048, biases=True, positions=2048, tied=True
    )


def _nemotron(name: str, layers: int, hidden: int, heads: int, kv: int = 0) -> Transformer:
    return Transformer(name, layers, hidden, heads, 4 * hidden, 256000, 4096, kv_heads=kv)


def _mpt(name: str, layers: int, hidden: int, heads: int) -> Transformer:
    return Transformer(
        name, layers, hidden, heads, 4 * hidden, 50368, 2048, biases=True, positions=2048, tied=True
    )


def _experts(
    name: str, layers: int, hidden: int, heads: int, kv: int, ffn: int, vocab: int, experts: int, top: int
) -> Transformer:
    return Transformer(
        name, layers, hidden, heads, ffn, vocab, 4096, kv_heads=kv, head_size=128, gated=True, norm="rms",
        experts=experts, top_k=top,
    )  # fmt: skip


_OTHERS: Final = (
    _gpt("megatron-1.7b", 24, 2304, 24), _gpt("megatron-3.6b", 30, 3072, 32),
    _gpt("megatron-7.5b", 36, 4096, 32), _gpt("megatron-18b", 40, 6144, 48),
    _gpt("megatron-39b", 48, 8192, 64), _gpt("megatron-76b", 60, 10240, 80),
    _gpt("megatron-145b", 80, 12288, 96), _gpt("megatron-310b", 96, 16384, 128),
    _gpt("megatron-530b", 105, 20480, 128), _gpt("megatron-1t", 128, 25600, 160),
    _gpt("megatron-22b", 48, 6144, 64), _gpt("megatron-175b", 96, 12288, 96),
    _gpt("megatron-530b-k", 105, 20480, 128), _gpt("megatron-1t-k", 128, 25600, 160),
    _gpt("gpt3-5b", 24, 4096, 32), _gpt("gpt3-20b", 44, 6144, 48),
    _nemotron("nemotron-8b", 32, 4096, 32), _nemotron("nemotron-22b", 40, 6144, 48),
    _nemotron("nemotron-340b", 96, 18432, 96, 8), _nemotron("nemotron-15b", 32, 6144, 48, 8),
    _mpt("mpt-7b", 32, 4096, 32), _mpt("mpt-13b", 40, 5120, 40),
    _mpt("mpt-30b", 48, 7168, 56), _mpt("mpt-70b", 80, 8192, 64),
    _experts("qwen3-30b", 48, 2048, 32, 4, 768, 151936, 128, 8),
    _experts("qwen3-235b", 94, 4096, 64, 4, 1536, 151936, 128, 8),
    _experts("grok1", 64, 6144, 48, 8, 32768, 131072, 8, 2),
    _mpt("mpt-1b", 24, 2048, 16), _mpt("mpt-3b", 32, 2560, 20),
    _gpt("gpt2-xl", 48, 1600, 25, 50304),
    Transformer("qwen2.5-7b", 28, 3584, 28, 18944, 152064, 2048, kv_heads=4, gated=True, norm="rms"),
)  # fmt: skip
MODELS: Final = TRANSFORMERS | {one.name: one for one in _OTHERS}
"""Models of the tables: sizes of the papers, of NeMo's configurations, and our own."""


_PLAN: Final = (
    "gpu", "precision", "model", "tensor", "pipeline", "context", "expert", "interleave", "data_sharding",
    "microbatch", "sequence", "recompute", "attention", "overlap", "library", "gradient_bytes", "launch",
    "dispatch_node", "lora", "schedule",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One published step.

    Its ``use`` says what its figure was for: ``choose`` (numbers of the model were chosen with it),
    ``visible`` (it could be seen while the model was built; if it has a first prediction, it was blind
    before), ``blind`` (its first prediction was made before anybody had compared the two) or ``other`` (its
    plan is not given completely).
    """

    fields: dict[str, str]

    @property
    def name(self) -> str:
        """Its name."""
        return self.fields["id"]

    @property
    def kind(self) -> str:
        """The table of the page that it is in."""
        use = self.fields["use"]
        if use not in ("visible", "blind"):
            return use
        if self.number("expert") > 1:
            return f"{use}, experts"
        if self.number("lora"):
            return f"{use}, LoRA"
        if self.fields["precision"] == "fp4":
            return f"{use}, fp4"
        if "results_v5.1" in self.fields["source"]:
            return f"{use}, MLPerf 5.1"
        if "tprimat" in self.fields["source"]:
            return f"{use}, run by others"
        pytorch = self.fields["library"] == "pytorch"
        return f"{use}, {'PyTorch FSDP' if pytorch else 'NeMo and Megatron-Bridge'}"

    @property
    def plan(self) -> tuple[str, ...]:
        """Fields that rows share which differ only in the number of GPUs and the batch."""
        return tuple(self.fields[name] for name in _PLAN)

    @property
    def plan_text(self) -> str:
        """The plan in a few letters."""
        letters = (
            ("t", "tensor"), ("p", "pipeline"), ("v", "interleave"), ("c", "context"), ("e", "expert"),
        )  # fmt: skip
        parts = [f"{letter}{self.number(name)}" for letter, name in letters if self.number(name) > 1]
        parts += ["FSDP"] if self.number("data_sharding") == 3 else []
        parts.append(f"b{self.number('microbatch')}")
        again = self.fields["recompute"]
        return " ".join([*parts, *([again] if again != "none" else [])])

    def number(self, name: str) -> int:
        """Return a whole number of the row."""
        return int(self.fields[name])

    @property
    def model(self) -> Transformer:
        """The model, with the row's sequence."""
        found = MODELS[self.fields["model"]]
        tokens = self.number("sequence")
        return replace(found, positions=tokens if found.positions else 0, sequence=tokens)

    @property
    def job(self) -> Job:
        """The job of the step."""
        one, overlap = self.number, self.fields["overlap"]
        tensor, pipeline, context = one("tensor"), one("pipeline"), one("context")
        data = one("gpus") // (tensor * pipeline * context)
        degrees = Parallelism(
            data, tensor, pipeline, context, one("expert"),
            zero=one("data_sharding") if data * context > 1 else 0, sequence=tensor > 1 and overlap != "none",
            interleave=one("interleave"), schedule=self.fields["schedule"],
        )  # fmt: skip
        flags = tuple(one for one in overlap.split("+") if one not in ("none", "sequence"))
        if not degrees.sequence:
            flags = tuple(one for one in flags if one != "tensor")
        micro = one("batch") // (data * one("microbatch"))
        return Job(
            degrees, one("sequence"), one("batch"), micro, recompute=self.fields["recompute"],
            attention=self.fields["attention"], precision=self.fields["precision"], overlap=flags,
            dropout=self.fields["attention"] == "unfused", library=self.fields["library"],
            gradient_bytes=one("gradient_bytes"), dispatch_node=one("dispatch_node"), lora=one("lora"),
        )  # fmt: skip

    @property
    def tokens(self) -> int:
        """Tokens of the step."""
        return self.number("batch") * self.number("sequence")

    def measured_s(self) -> float:
        """The published time of a step, or the one that the published rate means."""
        if self.fields["step_s"]:
            return float(self.fields["step_s"])
        if self.fields["tokens_per_s_per_gpu"]:
            return self.tokens / float(self.fields["tokens_per_s_per_gpu"]) / self.number("gpus")
        return self._flops() / (float(self.fields["TFLOPs_per_gpu"]) * 1e12 * self.number("gpus"))

    def _flops(self) -> float:
        """The operations that the source counts: of SC'21 with recomputation, of NeMo with the mask."""
        m, s = self.model, self.number("sequence")
        per_token = m.layers * (2 * (m.attention.split + m.mlp.split)) + 2 * m.vocab * m.hidden
        scores = 4 * s * m.heads * m.head_size * m.layers
        if self.fields["recompute"] == "full":
            return self.tokens * (4 * (per_token + scores) - 2 * m.vocab * m.hidden)
        return self.tokens * 3 * (per_token + scores / 2)

    @property
    def operations(self) -> int:
        """About how large the step is: layers of a stage, microbatches and ranks, multiplied."""
        job = self.job
        return self.model.layers * job.microbatches * job.parallelism.per_stage

    @property
    def times(self) -> KernelTimes:
        """The times of kernels on the GPU."""
        fields = self.fields
        return KernelTimes(GPUS[fields["gpu"]], fields["precision"], launch=fields["launch"])

    def predicted_s(self) -> float:
        """The estimated time of a step."""
        times = self.times
        return estimate_step(self.model, self.job, times, network_of(times, self.job)).step_ns / 1e9

    def simulated_s(self) -> float:
        """The simulated time of a step."""
        import astranb as anb

        sim = anb.Simulation(self.step())
        sim.run()
        return sim.result.time_ps / 1e12

    def step(self) -> ModelStep:
        """Return the step, to simulate it."""
        job = self.job
        return workload(
            self.model, job.parallelism, batch=job.batch, microbatches=job.microbatches,
            sequence=job.sequence, recompute=job.recompute, attention=job.attention,
            precision=job.precision, overlap=job.overlap, dropout=job.dropout, library=job.library,
            gradient_bytes=job.gradient_bytes, dispatch_node=job.dispatch_node, lora=job.lora, gpu=self.times,
        )  # fmt: skip


_NETWORKS: dict[tuple[str, int], CollectiveTimes] = {}


@dataclass
class _Shape:
    """Numbers of a step that determine the cluster it needs."""

    ranks: int
    times: KernelTimes | None
    precision: str = "bf16"
    spans_all: bool = False
    host_updates: bool = False
    moved_bytes: int = 0
    left_out: str = ""
    chosen: str = ""


def network_of(times: KernelTimes, job: Job) -> CollectiveTimes:
    """Return the times of collectives on the cluster of a GPU."""
    key = times.gpu.name, job.parallelism.ranks
    if key not in _NETWORKS:
        cluster = machine(_Shape(job.parallelism.ranks, times))
        _NETWORKS[key] = CollectiveTimes(cluster.network, cluster.system)
    return _NETWORKS[key]


@dataclass(frozen=True)
class Compared:
    """A published step and the predicted one.

    Attributes
    ----------
    row : Row
    predicted_s : float
    """

    row: Row
    predicted_s: float

    @property
    def error(self) -> float:
        """The relative error; negative where the prediction is too fast."""
        return self.predicted_s / self.row.measured_s() - 1

    @property
    def first(self) -> float | None:
        """The error of the first prediction, of a blind row."""
        text = self.row.fields["first_s"]
        return float(text) / self.row.measured_s() - 1 if text else None


def rows() -> list[Row]:
    """Read the table of published training steps."""
    with (DATA / "training.csv").open(newline="") as file:
        return [Row(row) for row in csv.DictReader(file)]


def compare(only: Iterable[str] = ()) -> Iterator[Compared]:
    """Predict the published steps, or those whose names contain one of some texts."""
    wanted = tuple(only)
    for row in rows():
        if not wanted or any(one in row.name for one in wanted):
            yield Compared(row, row.predicted_s())


def mean_and_worst(errors: Iterable[float]) -> str:
    """Return the mean and the greatest of absolute errors, as two cells of a table."""
    found = [abs(one) for one in errors]
    return f"{sum(found) / len(found):.1%} | {max(found):.1%}"


def of_plans(found: Iterable[Compared]) -> list[float]:
    """Return one error for each model, plan and GPU: the mean over its sizes."""
    errors: dict[tuple[str, ...], list[float]] = {}
    for one in found:
        errors.setdefault(one.row.plan, []).append(one.error)
    return [sum(each) / len(each) for each in errors.values()]


KINDS: Final = {
    "choose": "used to choose numbers",
    "visible, NeMo and Megatron-Bridge": "not used, but visible: NeMo, Megatron-Bridge",
    "visible, PyTorch FSDP": "not used, but visible: FSDP in PyTorch, not compiled",
    "visible, experts": "not used, but visible: mixture of experts",
    "visible, MLPerf 5.1": "not used, but visible: MLPerf Training 5.1, fp8",
    "visible, fp4": "not used, but visible: NVFP4",
    "visible, LoRA": "not used, but visible: LoRA",
    "blind, NeMo and Megatron-Bridge": "blind: NeMo, Megatron-Bridge",
    "blind, PyTorch FSDP": "blind: FSDP in PyTorch, not compiled",
    "blind, run by others": "blind: Megatron-LM and NeMo, run by others",
    "blind, experts": "blind: mixture of experts",
    "other": "plan not given completely",
}
"""The sorts of rows, in the order of the page."""

_NEW: Final = ("blind: NeMo, Megatron-Bridge, new plans",)
_TOGETHER: Final = {
    _NEW[0]: ("blind, NeMo and Megatron-Bridge",),
    "not used, NeMo and Megatron-Bridge": (
        "visible, NeMo and Megatron-Bridge",
        "blind, NeMo and Megatron-Bridge",
    ),
    "all blind, dense": ("blind, NeMo and Megatron-Bridge", "blind, PyTorch FSDP", "blind, run by others"),
    "all blind": (
        "blind, NeMo and Megatron-Bridge",
        "blind, PyTorch FSDP",
        "blind, run by others",
        "blind, experts",
    ),
    "all not used, dense": (
        "visible, NeMo and Megatron-Bridge",
        "visible, MLPerf 5.1",
        "visible, fp4",
        "visible, LoRA",
        "visible, PyTorch FSDP",
        "blind, NeMo and Megatron-Bridge",
        "blind, PyTorch FSDP",
        "blind, run by others",
    ),
}


def summary(found: list[Compared]) -> list[str]:
    """Write the table of errors by sort of rows."""
    lines = [
        "| steps | rows | mean error | worst | bias | plans | mean | worst | first mean | first worst |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    seen = {one.row.plan for one in found if one.row.fields["use"] in ("choose", "visible")}
    for title, kinds in {**{title: (kind,) for kind, title in KINDS.items()}, **_TOGETHER}.items():
        each = [one for one in found if one.row.kind in kinds]
        if title in _NEW:
            each = [one for one in each if one.row.plan not in seen]
        if not each:
            continue
        bias = sum(one.error for one in each) / len(each)
        plans = of_plans(each)
        first = [one.first for one in each if one.first is not None]
        then = mean_and_worst(first) if len(first) == len(each) else " | "
        lines.append(
            f"| {title} | {len(each)} | {mean_and_worst(one.error for one in each)} | {bias:+.1%} "
            f"| {len(plans)} | {mean_and_worst(plans)} | {then} |"
        )
    return lines


RATIOS: Final = {
    "H100 over A100, GPT-3 175B, bf16": ("korthikanti-175b-selective", "dgxc-gpt3-175b-bf16-128"),
    "H100 over A100, MPT-7B, FSDP": ("foundry-mpt-7b-a100-2048-8", "foundry-mpt-7b-h100-2048-8"),
    "B200 over H100, GPT-3 175B, fp8": ("mlperf-eos-n32", "mlperf-b200-n8"),
    "GB200 over H100, Llama-3 405B, bf16": ("dgxc-llama3-405b-bf16-512", "dgxc-llama3-405b-bf16-gb200-512"),
    "GB200 over H100, Llama-3 405B, fp8": ("dgxc-llama3-405b-fp8-512", "dgxc-llama3-405b-fp8-gb200-512"),
    "selective over full recomputation, 22B": ("korthikanti-22b-full", "korthikanti-22b-selective"),
    "selective over full recomputation, 175B": ("korthikanti-175b-full", "korthikanti-175b-selective"),
    "selective over full recomputation, 530B": ("korthikanti-530b-full", "korthikanti-530b-selective"),
    "selective over full recomputation, 1T": ("korthikanti-1t-full", "korthikanti-1t-selective"),
    "tensor degree 4 (H200) over 8 (H100), 405B, fp8": ("mlperf-eos-512", "mlperf-nebius-512"),
    "fp8 over bf16, Llama-3 8B": ("dgxc-llama3-8b-bf16-8", "dgxc-llama3-8b-fp8-8"),
    "fp8 over bf16, Llama-3 405B": ("dgxc-llama3-405b-bf16-512", "dgxc-llama3-405b-fp8-512"),
    "fp8 over bf16, Nemotron 15B": ("dgxc-nemotron-15b-bf16-16", "dgxc-nemotron-15b-fp8-16"),
    "fp8 over bf16, Nemotron 340B": ("dgxc-nemotron-340b-bf16-256", "dgxc-nemotron-340b-fp8-256"),
    "fp8 over bf16, GPT-3 175B": ("dgxc-gpt3-175b-bf16-128", "dgxc-gpt3-175b-fp8-128"),
    "fp8 over bf16, 405B on GB200": ("dgxc-llama3-405b-bf16-gb200-128", "dgxc-llama3-405b-fp8-gb200-128"),
}
"""Pairs of rows, the slower one first: what the published and the predicted times say of the same change."""


def ratio(found: dict[str, Compared], name: str) -> tuple[float, float]:
    """Return how many times as fast a GPU is after a change, by the published and by the predicted times.

    Parameters
    ----------
    found : dict of str to Compared
        By the names of rows.
    name : str
        One of :data:`RATIOS`.
    """
    slow, fast = (found[one] for one in RATIOS[name])

    def each(one: Compared, seconds: float) -> float:
        """GPU-seconds of a token."""
        return seconds * one.row.number("gpus") / one.row.tokens

    published = each(slow, slow.row.measured_s()) / each(fast, fast.row.measured_s())
    return published, each(slow, slow.predicted_s) / each(fast, fast.predicted_s)


def changes(found: list[Compared]) -> list[str]:
    """Write the table of ratios."""
    known = {one.row.name: one for one in found}
    lines = ["| change | published | predicted | difference |", "|---|---|---|---|"]
    for name in RATIOS:
        published, predicted = ratio(known, name)
        lines.append(f"| {name} | {published:.2f} | {predicted:.2f} | {predicted / published - 1:+.1%} |")
    return lines


def listing(found: list[Compared], kind: str) -> list[str]:
    """Write the table of the rows of a sort."""
    firsts = any(one.row.kind == kind and one.first is not None for one in found)
    lines = [
        "| row | GPUs | model | plan | batch | published s | predicted s | error |" + " first |" * firsts,
        "|---|---|---|---|---|---|---|---|" + "---|" * firsts,
    ]
    for one in found:
        f = one.row.fields
        if one.row.kind != kind:
            continue
        line = (
            f"| {one.row.name} | {f['gpus']} {f['gpu'].removesuffix('-sxm')}, {f['precision']} "
            f"| {f['model']}, {int(f['sequence']):,} | {one.row.plan_text} | {f['batch']} "
            f"| {one.row.measured_s():.3f} | {one.predicted_s:.3f} | {one.error:+.1%} |"
        )
        lines.append(line + ("" if one.first is None else f" {one.first:+.1%} |"))
    return lines


def page(found: list[Compared]) -> list[str]:
    """Write all tables of published steps."""
    lines = [*summary(found), "", "### Changes", "", *changes(found)]
    for kind, title in KINDS.items():
        each = [one for one in found if one.row.kind == kind]
        sources = sorted({one.row.fields["source"].partition("/results/")[0] for one in each})
        lines += ["", f"### {title[0].upper()}{title[1:]}", "", *listing(found, kind)]
        lines += ["", f"Sources: {'; '.join(sources)}."]
        notes: dict[str, list[str]] = {}
        for one in each:
            if one.row.fields["note"]:
                notes.setdefault(one.row.fields["note"], []).append(one.row.name)
        if notes:
            lines += ["", "Notes of the table:", ""]
            lines += [f"- {note[0].upper()}{note[1:]}: {_names(names)}." for note, names in notes.items()]
    return lines


def _names(names: list[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(names)} rows)"


def simulations() -> list[str]:
    """Write how far estimates are from simulations, of the steps that are small enough."""
    found = [
        (row, row.predicted_s(), row.simulated_s()) for row in rows() if row.operations <= MOST_OPERATIONS
    ]
    every = [one / other - 1 for _, one, other in found]
    piped = [one / other - 1 for row, one, other in found if row.number("pipeline") > 1]
    said = []
    for name, each in (("{} steps", every), ("the {} with pipelines", piped)):
        mean, most = mean_and_worst(each).split(" | ")
        said.append(f"of {name.format(len(each))} by {mean} on average, at most by {most}")
    lines = ["| row | published s | estimated s | simulated s | difference |", "|---|---|---|---|---|"]
    for (row, one, other), error in zip(found, every, strict=True):
        if abs(error) >= 0.01:
            lines.append(f"| {row.name} | {row.measured_s():.3f} | {one:.3f} | {other:.3f} | {error:+.1%} |")
    text = f"Estimates differ from simulations: {'; '.join(said)}. Those that differ by 1 % or more:"
    return [text, "", *lines]


STEPS: Final = "python -m scripts.published_steps --write"
SIMULATED: Final = "python -m scripts.published_steps --simulate --write"


def main(arguments: list[str]) -> None:
    """Print the tables, or write them into the page."""
    only = [one for one in arguments if not one.startswith("-")]
    simulate = "--simulate" in arguments
    if simulate:
        lines = simulations()
    elif only:
        found = list(compare(only))
        lines = [line for kind in KINDS for line in listing(found, kind)[2:]]
    else:
        lines = page(list(compare()))
    if "--write" in arguments:
        write_generated(SIMULATED if simulate else STEPS, "\n".join(lines), PAGE)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
