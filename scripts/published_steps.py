"""Published steps against predicted ones: ``python -m scripts.published_steps [--write] [--simulate]``."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from astranb.core.errors import InputError
from astranb.explore._collective_times import CollectiveTimes
from astranb.explore._estimate import estimate_step
from astranb.workload.kernels import GPUS, KernelTimes
from astranb.workload.models import Job, ModelStep, Parallelism, Transformer, machine, workload
from astranb.workload.models.library import TRANSFORMERS

DATA: Final = Path(__file__).parents[1] / "tests" / "data" / "published"


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
)  # fmt: skip
MODELS: Final = TRANSFORMERS | {one.name: one for one in _OTHERS}
"""Models of the tables: sizes of the papers, of NeMo's configurations, and our own."""


@dataclass(frozen=True)
class Row:
    """One published step."""

    fields: dict[str, str]

    def number(self, name: str) -> int:
        """Give a whole number of the row."""
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
            data, tensor, pipeline, context, one("expert"), zero=one("data_sharding") if data * context > 1 else 0,
            sequence=tensor > 1 and overlap != "none", interleave=one("interleave"),
        )  # fmt: skip
        flags = tuple(one for one in overlap.split("+") if one not in ("none", "sequence"))
        if not degrees.sequence:
            flags = tuple(one for one in flags if one != "tensor")
        micro = one("batch") // (data * one("microbatch"))
        return Job(
            degrees, one("sequence"), one("batch"), micro, recompute=self.fields["recompute"],
            attention=self.fields["attention"], precision=self.fields["precision"], overlap=flags,
            dropout=self.fields["attention"] == "unfused",
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

    def predicted_s(self, *, simulate: bool = False) -> float:
        """The predicted time of a step."""
        job, gpu = self.job, GPUS[self.fields["gpu"]]
        times = KernelTimes(gpu, job.precision)
        if simulate:
            import astranb as anb

            sim = anb.Simulation(None, self.step(times))
            sim.run()
            return sim.result.time_ps / 1e12
        cluster = machine(_Shape(job.parallelism.ranks, times))
        network = CollectiveTimes(cluster.network, cluster.system)
        return estimate_step(self.model, job, times, network).step_ns / 1e9

    def step(self, times: KernelTimes) -> ModelStep:
        """Give the step, to simulate it."""
        job = self.job
        return workload(
            self.model, job.parallelism, batch=job.batch, microbatches=job.microbatches,
            sequence=job.sequence, recompute=job.recompute, attention=job.attention,
            precision=job.precision, overlap=job.overlap, dropout=job.dropout, gpu=times,
        )  # fmt: skip


@dataclass
class _Shape:
    """What a cluster has to know of a step."""

    ranks: int
    times: KernelTimes | None
    precision: str = "bf16"
    spans_all: bool = False


def rows() -> list[Row]:
    """Read the table of published training steps."""
    with (DATA / "training.csv").open(newline="") as file:
        return [Row(row) for row in csv.DictReader(file)]


def main(arguments: list[str]) -> None:
    """Print the table."""
    errors: dict[str, list[float]] = {}
    only = [one for one in arguments if not one.startswith("-")]
    for row in rows():
        if only and not any(one in row.fields["id"] for one in only):
            continue
        try:
            predicted = row.predicted_s(simulate="--simulate" in arguments)
        except InputError as error:
            print(row.fields["id"], error)
            continue
        measured = row.measured_s()
        error = predicted / measured - 1
        errors.setdefault(row.fields["use"], []).append(error)
        f = row.fields
        print(
            f"{f['use']:7s}{f['id']:42s}{f['gpu']:9s}{f['gpus']:>5s} t{f['tensor']} p{f['pipeline']} "
            f"c{f['context']} v{f['interleave']:3s} measured {measured:8.3f} predicted {predicted:8.3f} "
            f"{error:+.1%}",
            flush=True,
        )
    for use, found in errors.items():
        mean = sum(map(abs, found)) / len(found)
        print(
            f"{use}: {len(found)} rows, mean {mean:.1%}, worst {max(map(abs, found)):.1%}, "
            f"bias {sum(found) / len(found):+.1%}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
