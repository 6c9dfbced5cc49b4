"""``astranb chakra synthesize``: workloads like those of a corpus, and how good the models are."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError
from astranb.core.limits import MOST_RANKS
from astranb.core.plural import plural
from astranb.explore.runs import StepSpec, positive, whole

from .arguments import add_command, add_output, name_passed, typed
from .options import add_fields
from .printing import Report

if TYPE_CHECKING:
    from astranb.chakra.corpus import Corpus

__all__ = ["add_synthesize"]

_METHODS: Final = ("statistical", "network")
_PAGES: Final = (".html", ".htm")


def add_synthesize(verbs: Any) -> None:
    """Add ``synthesize`` to the verbs of ``chakra``."""
    parser = add_command(
        verbs, "synthesize", "learn from a corpus of traces and write a synthetic workload", _synthesize
    )
    parser.add_argument(
        "corpus", nargs="+",
        help="folder of PREFIX.RANK.et, PREFIX or FILE.et; beside it PREFIX.groups.json and PREFIX.job.json",
    )  # fmt: skip
    add_output(parser, "write PREFIX.RANK.et, its groups and conditions", required=True, metavar="PREFIX")
    parser.add_argument(
        "--method", choices=_METHODS,
        help="statistical: grammars and regressions; network: a neural network, with PyTorch, in minutes "
        "(default: statistical)",
    )  # fmt: skip
    ranks = whole(1, MOST_RANKS)
    parser.add_argument("--ranks", type=ranks, metavar="N", help="number of ranks")
    parser.add_argument(
        "--model-size", type=positive(1e18), metavar="P", help="parameters of the model, as 1e9"
    )
    parser.add_argument(
        "--batch", type=positive(1e12), metavar="B", help="batch of a step, in the corpus' unit"
    )
    add_fields(parser, [StepSpec], "--tp N, --pp N, --dp N", default="the corpus'")
    parser.add_argument("--seed", type=whole(0), metavar="N", help="random seed (default: 0)")
    parser.add_argument(
        "--report", metavar="FILE",
        help="write how near held-out workloads are, on simulated clusters too, and what is given away: "
        "FILE.json, or a page FILE.html; with --method network of both methods",
    )  # fmt: skip


def _synthesize(args: argparse.Namespace) -> Report:
    from astranb.chakra import summary
    from astranb.chakra.corpus import Corpus, read_corpus

    if args.report is not None and Path(args.report).suffix.lower() not in (".json", *_PAGES):
        hint = "name it FILE.json or FILE.html"
        raise InputError("a report is JSON or a page", where=args.report, hint=hint)
    jobs = read_corpus(*args.corpus)
    name_passed(args, {"sample": "--ranks"})
    made = (
        Corpus(jobs)
        .fit(network=args.method == "network")
        .sample(
            **typed(args, "batch", "ranks", "seed", parameters="model_size"),
            **typed(args, tensor="tp", data="dp", pipeline="pp"),
        )
    )
    files = [str(file) for file in made.write(args.output)]
    plan = {name: getattr(made, name) for name in ("tensor", "data", "pipeline")}
    document = {"ranks": made.ranks, "nodes": made.nodes, **plan, "first": summary(made.traces[0])}
    text = (
        f"{plural(made.ranks, 'rank')}, {plural(made.nodes, 'node')}, "
        f"like {plural(len(jobs), 'workload')}: {args.output}.RANK.et"
    )
    lines = [f"{text} (tensor {made.tensor}, data {made.data}, pipeline {made.pipeline})"]
    if args.report:
        reports = _reports(Corpus.of(jobs, **typed(args, "seed")), args)
        _write(reports, Path(args.report))
        document["report"] = reports
        lines += [_line(name, report) for name, report in reports.items()] + [args.report]
    return Report(document | {"files": files}, lines)


def _reports(corpus: Corpus, args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    from astranb.explore import corpus_report

    names, seed = _METHODS if args.method == "network" else _METHODS[:1], typed(args, "seed")
    return {name: corpus_report(corpus, network=name == "network", **seed) for name in names}


def _write(reports: dict[str, dict[str, Any]], path: Path) -> None:
    from astranb.core.files import whole_file

    if path.suffix.lower() in _PAGES:
        from astranb.widgets import write_corpus_report

        write_corpus_report(reports, path)
        return
    with whole_file(path) as file:
        file.write(json.dumps(reports, indent=1).encode())


def _line(name: str, report: dict[str, Any]) -> str:
    clusters, verbatim = report["clusters"], report["privacy"]["verbatim_sizes"]
    mean = max(max(abs(row["makespan_off"]), abs(row["exposed_off"])) for row in clusters)
    single = max(row["worst_pair_off"] for row in clusters)
    unlike = f" ({report['unlike']} more are divided like none learnt from)" if report["unlike"] else ""
    return (
        f"{name}: {report['held_out']} held-out workloads{unlike} on {len(clusters)} clusters: means of "
        f"makespan and exposed communication off by {mean:.1%}, a single makespan by {single:.1%} at most; "
        f"{verbatim:.0f} sizes verbatim"
    )
