"""Published inference against predicted: ``python -m scripts.published_inference [ID…]``."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from astranb.core.errors import InputError
from astranb.explore import Served, serve
from astranb.workload.kernels import GPUS, KernelTimes
from astranb.workload.serving import RequestTrace, ServingPolicy, engine_named, requests_of

DATA: Final = Path(__file__).parents[1] / "tests" / "data" / "published" / "inference.csv"

_BATCH: Final = 256
"""Requests that are worked on at once, where arrivals are given."""
_LEAST: Final = 8192
"""Tokens of an iteration, at least."""
_RUN: Final = (
    "gpu", "precision", "cache", "model", "tensor", "kind", "batch", "requests", "input", "output", "engine",
    "source", "note",
)  # fmt: skip
"""Columns in which rows of one run agree."""
_served: dict[tuple[str, ...], Served] = {}
"""The last run."""


@dataclass(frozen=True)
class Row:
    """One published measurement.

    ``kind``: ``static``, a batch that begins and ends together; ``closed``, as many users as the batch, whose
    first requests do not count in latencies, as the measurement begins when it is steady (with an engine: as
    InferenceX counts, all of them);
    ``offline``, all requests from the beginning; ``poisson``, as many a second as the batch.

    ``use``: ``choose``, chose the host's time; ``blind``, evaluated once, nothing was changed after that;
    ``seen``, was blind until the model was changed: ``first_error`` is that of the first evaluation.
    """

    fields: dict[str, str]

    def number(self, name: str) -> int:
        """Return a whole number of the row."""
        return int(self.fields[name])

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return self.number("tensor")

    @property
    def is_online(self) -> bool:
        """Whether requests come from a client over HTTP."""
        return self.fields["kind"] == "poisson" or "NIM" in self.fields["source"]

    @property
    def trace(self) -> RequestTrace:
        """The requests."""
        f, count = self.fields, self.number("requests")
        lengths = f"prompt={f['input']},output={f['output']},count={count}"
        if f["kind"] == "poisson":
            return requests_of(f"poisson:rate={f['batch']},{lengths}")
        if f["engine"]:
            return requests_of(f"closed:users={f['batch']},prompt={f['input']},output={f['output']}")
        if f["kind"] == "closed":
            return requests_of(f"closed:users={f['batch']},range=1,warmup={f['batch']},{lengths}")
        return requests_of(f"offline:{lengths}")

    @property
    def policy(self) -> ServingPolicy:
        """The policy: a static batch is computed whole; servers of TensorRT-LLM (and NIM) mix whole prompts.

        Their versions are older than the overlap of the scheduler. A row with an engine has its defaults.
        """
        f = self.fields
        if f["engine"]:
            return engine_named(f["engine"]).policy(GPUS[f["gpu"]].memory_bytes)
        static, whole = f["kind"] == "static", "all of its tokens" in f["note"]
        batch = self.number("batch") if f["kind"] != "poisson" else _BATCH
        budget = max(_LEAST, batch, batch * self.number("input") if static else 0)
        mixes = self.is_online and "vllm" not in f["id"]
        # Static batches fit, as they were measured.
        return ServingPolicy(
            batch, budget, chunked_prefill=not (static or mixes), mixed_batches=not static,
            reserve_output=whole, memory_fraction=1.0 if static else 0.95, watermark=0.0,
            front_ns=ServingPolicy.front_ns if self.is_online else 0,
        )  # fmt: skip

    def served(self) -> Served:
        """Serve the requests; rows of one run, as of its tokens and its first ones, do so once."""
        f = self.fields
        key = tuple(f[name] for name in _RUN)
        if key not in _served:
            _served.clear()
            precision, weights = ("fp8", "nvfp4") if f["precision"] == "nvfp4" else (f["precision"], "")
            _served[key] = serve(
                f["model"], self.trace, tensor=self.gpus, policy=self.policy,
                gpu=KernelTimes(GPUS[f["gpu"]], precision, weights=weights),
                cache_bytes=1 if f["cache"] == "fp8" else 2,
                limit_bytes=1 << 40 if f["kind"] == "static" else None,
            )  # fmt: skip
        return _served[key]

    def times(self) -> tuple[float, float]:
        """Return the measured and the predicted time in seconds: of a token, the first one, or the batch."""
        unit, value, found = self.fields["unit"], float(self.fields["value"]), self.served()
        if unit.startswith("tokens/s"):
            rate = value * (self.gpus if unit.endswith("/GPU") else 1)
            return 1 / rate, 1 / found.output_tokens_per_s
        which = "p50" if "median" in unit else "mean"
        means = {name: found.percentiles(name)[which] or 0.0 for name in ("ttft_ns", "tpot_ns", "latency_ns")}
        took = means["ttft_ns" if "first" in unit else "tpot_ns" if "per token" in unit else "latency_ns"]
        if "cached" in self.fields["note"]:
            # Only the last token of a prompt is computed, like one that is given.
            took += means["tpot_ns"] - means["ttft_ns"]
        return value * (1 if unit.startswith("s ") else 1e-3), took / 1e9


def rows() -> list[Row]:
    """Read the table of published inference."""
    with DATA.open(newline="") as file:
        return [Row(row) for row in csv.DictReader(file)]


def main(arguments: list[str]) -> None:
    """Print the table, and the errors of the rows by use."""
    errors: dict[str, list[float]] = {}
    for row in rows():
        f = row.fields
        if arguments and not any(one in f["id"] for one in arguments):
            continue
        try:
            measured, predicted = row.times()
        except InputError as error:
            print(f["id"], error)
            continue
        error_ = predicted / measured - 1
        errors.setdefault(f["use"], []).append(error_)
        print(
            f"{f['use']:7s}{f['id']:42s}{f['gpu']:9s} t{f['tensor']} {f['kind']:8s}{f['batch']:>5s} "
            f"{f['input']:>5s} {f['output']:>5s} measured {measured * 1e3:12.4f} ms "
            f"predicted {predicted * 1e3:12.4f} ms {error_:+.1%}",
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
