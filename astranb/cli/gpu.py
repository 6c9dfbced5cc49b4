"""``astranb gpu``: list and show GPU presets, and make one from measurements or a log."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from astranb.explore.runs import file_named
from astranb.hardware import DEFAULT_GPU

from .arguments import add_command, add_output, add_verbs, name_passed
from .gpu_logs import add_log_verbs
from .printing import Report

__all__ = ["add_commands"]

_TOLERANCE = 0.05  # a larger deviation from a measurement is marked


def add_commands(commands: Any) -> None:
    """Add ``gpu`` and its verbs to the command line."""
    verbs = add_verbs(commands, "gpu", "list GPU presets, and make one from measurements")
    add_command(verbs, "list", "list all presets", _list)
    show = add_command(verbs, "show", "print every number of a preset with its source", _show)
    show.add_argument("gpu", help="preset, or its file, as my-gpu.yaml")
    fit = add_command(verbs, "from", "make a preset from measurements of a GPU", _from)
    fit.add_argument("file", help="measurement of benchmarks/gpu_microbench.py, or timings (FILE.csv)")
    like = f"preset of what was not measured (default: {DEFAULT_GPU})"
    fit.add_argument("--like", default=DEFAULT_GPU, help=like)
    fit.add_argument("--name", type=file_named(""), help="name of the preset (default: that of the device)")
    fit.add_argument("--infra", help="infrastructure that was measured, for what crosses links")
    add_output(fit, "file to write (default: NAME.preset.json)", metavar="FILE.json")
    add_log_verbs(verbs)


def _list(args: argparse.Namespace) -> Report:
    from astranb.hardware import GPU_FILES, PRESETS, read_gpu

    del args
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for name in PRESETS:
        gpu = read_gpu(name)
        p, memory = gpu.preset, gpu.memory
        numbers = {"name": name, "sms": p.sms, "l2_bytes": p.l2_bytes, "hbm_Bps": p.hbm_Bps}
        rows.append({**numbers, **asdict(memory)})
        lines.append(
            f"{name:<12} {p.sms:>4} {p.sm_word}s, {memory.sold_bytes / 1e9:.0f} GB at "
            f"{p.hbm_Bps / 1e12:.2f} TB/s, L2 {p.l2_bytes / 2**20:.0f} MiB"
        )
    for plugin in GPU_FILES.plugins():
        rows.append({"name": plugin.name, "plugin": plugin.source})
        lines.append(f"{plugin.name:<12} of {plugin.source}")
    return Report(rows, lines)


def _show(args: argparse.Namespace) -> Report:
    from astranb.hardware import read_gpu

    found = read_gpu(args.gpu)
    rows, lines = list(found.rows()), [found.name]
    for section, some in groupby(rows, key=itemgetter("section")):
        lines += [f"\n{section}", *_number_lines(some)]
    return Report({"name": found.name, "file": str(found.file.root.file), "numbers": rows}, lines)


def _from(args: argparse.Namespace) -> Report:
    if Path(args.file).suffix.lower() == ".csv":
        return _from_timings(args)
    from astranb.explore import compare_to_measured, preset_from
    from astranb.gpu import read_measured, write_preset
    from astranb.hardware import unit_of

    measured = read_measured(args.file)
    made = preset_from(measured, like=args.like, name=args.name, infra=args.infra)
    sources = made.sources.items()
    changed = [
        {"number": n, "value": getattr(made, n), "unit": unit_of(n), "kind": one.kind, "source": one.source}
        for n, one in sources
        if not one.source.startswith("not measured")
    ]
    compared: list[Any] = compare_to_measured(made, measured, args.infra).to_dict("records")
    path = args.output or f"{made.name}.preset.json"
    write_preset(made, path)
    lines = [f"wrote {made.name}, based on {args.like}, to {path}; use it with --gpu {path}"]
    lines += [*_number_lines(changed), f"\n{'':<30} {'measured':>10} {'simulated':>10}"]
    for row in compared:
        if _missing(row["simulated"]):
            reason = "not modelled by this preset" if args.infra else "crosses a link; give --infra"
            lines.append(f"{row['what']:<30} {row['measured']:>10.4g} {'':>10} {row['unit']:<5} {reason}")
        else:
            mark = f"  <- off by more than {_TOLERANCE:.0%}" if abs(row["off"]) > _TOLERANCE else ""
            numbers = f"{row['measured']:>10.4g} {row['simulated']:>10.4g}"
            lines.append(f"{row['what']:<30} {numbers} {row['unit']:<5} {row['off']:+.1%}{mark}")
    compared = [{k: None if _missing(v) else v for k, v in row.items()} for row in compared]
    document = {"name": made.name, "file": str(path), "measured": changed, "comparison": compared}
    return Report(document, lines)


def _from_timings(args: argparse.Namespace) -> Report:
    """Fit what kernels achieve to timings of them."""
    from astranb.core.errors import InputError
    from astranb.hardware import checked_name, gpu_named, read_gpu, write_device_file
    from astranb.workload.kernels import fitted_document, gpu_of_file

    if args.infra is not None:
        raise InputError("timings of kernels cross no links", where="--infra", hint="leave it out")
    name_passed(args, {"gpu": "--like"})
    like = gpu_named(args.like)
    if not like.shipped:
        raise InputError(f"{args.like} is not a shipped GPU", where="--like", hint="give the name of one")
    fit = gpu_of_file(args.file, like)
    name = checked_name(args.name or f"{like.name}-fitted", "--name")
    path = args.output or f"{name}.json"
    write_device_file(fitted_document(fit, like.name, name, Path(args.file).name), path)
    rows = [row for row in read_gpu(path).rows() if row["source"].startswith(Path(args.file).name)]
    lines = [f"wrote {name}, based on {like.name}, to {path}; use it with --gpu {path}", *_number_lines(rows)]
    return Report({"name": name, "file": str(path), "fitted": fit.text, "numbers": rows}, lines)


def _number_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    lines = []
    for row in rows:
        value = row["value"]
        text = f"{value:>20,}" if isinstance(value, int | float) else f"{value!s:>20}"
        lines.append(
            f"{row['number']:<18} {text} {row['unit']:<4} {row['kind']:<10} {row['source']}".rstrip()
        )
    return lines


def _missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
