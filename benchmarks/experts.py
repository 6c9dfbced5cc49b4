"""Simulated against published dispatches and combines of experts, row by row of a table.

``python -m benchmarks.experts [--most 16384] [--gpus 64] [--only REGEX]`` prints ours beside the
published figures. ``--most`` limits the tokens of all ranks: a row of more is run with fewer tokens each,
and marked; its bandwidth is compared, which hardly depends on them. Nothing is coalesced. Rows of more
than ``--gpus`` GPUs are left out: low latency on 64 takes 2 (dispatch) and 7 minutes (combine), and more
GPUs in proportion.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import astranb as anb
from astranb.collectives import EXCHANGE_LAUNCH, combine, dispatch
from astranb.core.errors import InputError

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "published" / "deepep.csv"

_SERVERS = {
    "h800-sxm": ("dgx-h800", None),
    "h100-sxm": ("dgx-h100", None),
    "h200-sxm": ("dgx-h100", "h200-sxm"),
    "b200-sxm": ("dgx-b200", None),
    "mi300x": ("mi300x", None),
    "mi355x": ("mi355x", None),
}
"""The server of each GPU, and the preset where it is another one than the server's."""
_LOW_LATENCY_EXPERTS, _EXPERTS = 288, 256
"""The defaults of DeepEP's tests, which refuse experts that do not divide by the ranks: 288 by 64."""
_TOKENS = 4096  # where a table does not say it, as its notes have it


@dataclass
class Row:
    """A published figure and ours."""

    published: dict[str, str]
    tokens: int
    us: float
    bandwidth_GBps: float  # noqa: N815 - unit in the name
    seconds: float

    @property
    def shortened(self) -> bool:
        """Whether it was run with fewer tokens."""
        return self.tokens < int(self.published["tokens"] or _TOKENS)

    @property
    def by_time(self) -> bool:
        """Whether the time is compared: low-latency kernels at full size; else the bandwidth is."""
        return bool(self.published["us"]) and self.published["kernel"] != "normal"

    @property
    def error(self) -> float:
        """Relative error: of the time, or of the bandwidth."""
        if self.by_time:
            return self.us / float(self.published["us"]) - 1
        return self.bandwidth_GBps / float(self.published["GBps"]) - 1


def left_out(row: dict[str, str], most_gpus: int) -> str:
    """Return the reason why a row is not run; empty if it is."""
    gpus = int(row["gpus"])
    if row["kernel"] == "small batch":
        return "counts other bytes than any kernel of DeepEP's"
    if _experts(row) % gpus:
        return f"{_experts(row)} experts do not divide among {gpus} ranks"
    if gpus > most_gpus:
        return f"more than {most_gpus} GPUs"
    return ""


def _experts(row: dict[str, str]) -> int:
    default = _LOW_LATENCY_EXPERTS if row["kernel"] == "low-latency" else _EXPERTS
    given = int(row["experts"] or default)
    return _EXPERTS if given == _LOW_LATENCY_EXPERTS and given % int(row["gpus"]) else given


def simulate(row: dict[str, str], most: int) -> Row:
    """Run a row, with at most so many tokens of all ranks."""
    gpus, low_latency = int(row["gpus"]), row["kernel"] == "low-latency"
    server, gpu = _SERVERS[row["gpu"]]
    infra = server if gpus <= 8 else f"single-tier:servers={gpus // 8},server={server}"
    tokens = int(row["tokens"] or _TOKENS)
    tokens = tokens if low_latency else min(tokens, most // gpus)
    exchange = (dispatch if row["operation"] == "dispatch" else combine)(
        tokens,
        "low_latency" if low_latency else "normal",
        hidden=int(row["hidden"]),
        topk=int(row["topk"]),
        experts=_experts(row),
        groups=int(row["groups"]) if row["groups"] else None,
        precision=row["precision"],
        channels=int(row["sms"]) // 2 if row["sms"] else None,
    )
    began = perf_counter()
    sim = anb.Simulation(infra, exchange, gpu=gpu, launch=EXCHANGE_LAUNCH, record=False, checkpoint_bytes=0)
    sim.run()
    found = exchange.counted_bytes(gpus, sim.engine.fabric.shape)
    link = "RDMA" if "RDMA" in found else "NVLink"
    took_ps = sim.result.time_ps
    return Row(row, tokens, took_ps / 1e6, found[link] * 1e3 / took_ps, perf_counter() - began)


def rows(only: str) -> Iterator[dict[str, str]]:
    """Read the published rows whose names a regular expression finds."""
    with DATA.open(encoding="utf-8", newline="") as file:
        yield from (row for row in csv.DictReader(file) if re.search(only, row["id"]))


def role(row: dict[str, str]) -> str:
    """Return the role of a row: whether it had been looked at before it was first compared."""
    return "blind at first" if "compared blind" in row["note"] else row["use"]


def line(row: Row) -> str:
    """Write a row of the table."""
    p = row.published
    ours = f"{row.us:.0f} µs" if row.by_time else f"{row.bandwidth_GBps:.0f}"
    theirs = f"{p['us']} µs" if row.by_time else p["GBps"]
    marks = [role(p), *([f"{row.tokens} tokens"] if row.shortened else [])]
    marks += [f"{_experts(p)} experts"] if p["experts"] and _experts(p) != int(p["experts"]) else []
    return f"| {p['id']} | {theirs} | {ours} | {row.error:+.0%} | {', '.join(marks)} |"


def summary(found: list[Row]) -> list[str]:
    """Write the mean and the worst error, of each library and use."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        groups[f"{row.published['library']}, {row.published['kernel']}, {role(row.published)}"].append(row)
        groups[f"all {role(row.published)}"].append(row)
    lines = ["| rows | number | mean absolute error | worst |", "|---|---|---|---|"]
    for name, members in groups.items():
        worst = max(members, key=lambda one: abs(one.error))
        mean = sum(abs(one.error) for one in members) / len(members)
        lines.append(f"| {name} | {len(members)} | {mean:.0%} | {worst.published['id']} {worst.error:+.0%} |")
    return lines


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.experts")
    parser.add_argument("--most", type=int, default=16_384, help="most tokens of all ranks")
    parser.add_argument("--gpus", type=int, default=64, help="leave out rows of more GPUs")
    parser.add_argument("--only", default="", help="rows whose names this regular expression finds")
    options = parser.parse_args(arguments)
    print("| row | published GB/s | simulated | error | |\n|---|---|---|---|---|")
    found, without = [], defaultdict(list)
    for row in rows(options.only):
        why = left_out(row, options.gpus)
        if not why:
            try:
                found.append(simulate(row, options.most))
                print(line(found[-1]), flush=True)
                print(f"{row['id']}: {found[-1].seconds:.0f} s", file=sys.stderr)
            except InputError as error:
                why = str(error)
        if why:
            without[why].append(row["id"])
    print("", *summary(found), "", sep="\n")
    for why, names in without.items():
        print(f"- {why}: {', '.join(names)}")


if __name__ == "__main__":
    main(sys.argv[1:])
