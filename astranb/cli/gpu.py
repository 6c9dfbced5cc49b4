"""``astranb gpu``: list and show GPU presets, and make one from measurements or a log."""

from __future__ import annotations

import argparse
import math
from typing import Any

from .arguments import add_command, add_output, add_verbs
from .gpu_logs import add_log_verbs
from .printing import Report

__all__ = ["add_commands"]

_TOLERANCE = 0.05  # a larger deviation from a measurement is marked


def add_commands(commands: Any) -> None:
    """Add ``gpu`` and its verbs to the command line."""
    verbs = add_verbs(commands, "gpu", "list GPU presets, and make one from measurements")
    add_command(verbs, "list", "list all presets", _list)
    show = add_command(verbs, "show", "print every number of a preset with its source", _show)
    show.add_argument("gpu", help="preset, or its file, as my-gpu.preset.json")
    fit = add_command(verbs, "from", "make a preset from measurements of a GPU", _from)
    fit.add_argument("file", help="file written by benchmarks/gpu_microbench.py")
    fit.add_argument("--like", default="h100-sxm", help="preset of what was not measured (default: h100-sxm)")
    fit.add_argument("--name", help="name of the preset (default: that of the device)")
    fit.add_argument("--infra", help="infrastructure that was measured, for what crosses links")
    add_output(fit, "file to write (default: NAME.preset.json)", metavar="FILE.json")
    add_log_verbs(verbs)


def _rows(preset: Any) -> list[dict[str, Any]]:
    from astranb.gpu.presets import NUMBERS

    return [
        {"number": n, "value": getattr(preset, n), "unit": _unit(n), "source": preset.sources.get(n, "")}
        for n in NUMBERS
    ]


def _unit(number: str) -> str:
    """Return the unit that a number's name ends with."""
    units = {"_ps": "ps", "_Bps": "B/s", "_bytes": "B", "payload": "B"}
    return next((unit for ending, unit in units.items() if number.endswith(ending)), "")


def _list(args: argparse.Namespace) -> Report:
    from astranb.gpu import PRESETS

    del args
    names = ("name", "sms", "l2_bytes", "hbm_Bps", "hbm_bytes")
    built_in = PRESETS.own().values()
    rows: list[dict[str, Any]] = [{name: getattr(p, name) for name in names} for p in built_in]
    lines = [
        f"{p.name:<12} {p.sms:>4} {p.sm_word}s, {p.hbm_bytes / 1e9:.0f} GB at {p.hbm_Bps / 1e12:.2f} TB/s, "
        f"L2 {p.l2_bytes / 2**20:.0f} MiB"
        for p in built_in
    ]
    for plugin in PRESETS.plugins():
        rows.append({"name": plugin.name, "plugin": plugin.source})
        lines.append(f"{plugin.name:<12} of {plugin.source}")
    return Report(rows, lines)


def _show(args: argparse.Namespace) -> Report:
    from astranb.gpu import preset

    found = preset(args.gpu)
    rows = _rows(found)
    return Report({"name": found.name, "numbers": rows}, [found.name, *_number_lines(rows)])


def _from(args: argparse.Namespace) -> Report:
    from astranb.explore import compare_to_measured, preset_from
    from astranb.gpu import read_measured, write_preset

    measured = read_measured(args.file)
    made = preset_from(measured, like=args.like, name=args.name, infra=args.infra)
    changed = [row for row in _rows(made) if row["source"].startswith("measured")]
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


def _number_lines(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['number']:<18} {row['value']:>20,} {row['unit']:<4} {row['source']}" for row in rows]


def _missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
