"""The command ``astranb gpu``: presets shown, listed, and made of what was measured."""

from __future__ import annotations

import argparse
import math
from typing import Any

from astranb._print import print_json

__all__ = ["add_commands"]

_OFF = 0.05  # a row that is further off than this is pointed out


def add_commands(commands: Any, parser_class: type[argparse.ArgumentParser]) -> None:
    """Add ``gpu list``, ``gpu show`` and ``gpu from`` to the command line."""
    gpu = commands.add_parser("gpu", help="GPU presets").add_subparsers(
        required=True, metavar="VERB", parser_class=parser_class
    )
    listing = gpu.add_parser("list", help="the presets there are", allow_abbrev=False)
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(command=_list)
    show = gpu.add_parser("show", help="every number of a preset, with its source", allow_abbrev=False)
    show.add_argument("gpu", help="a preset, or its file as my-gpu.preset.json")
    show.add_argument("--json", action="store_true")
    show.set_defaults(command=_show)
    fit = gpu.add_parser("from", help="make a preset of what was measured on a GPU", allow_abbrev=False)
    fit.add_argument("file", help="what benchmarks/gpu_microbench.py has written")
    fit.add_argument("--like", default="h100-sxm", help="what is not measured stays as here (h100-sxm)")
    fit.add_argument("--name", help="of the new preset (after the device)")
    fit.add_argument("--infra", help="the machine that was measured, for what crosses links")
    fit.add_argument("--out", metavar="FILE.json", help="where to write it (NAME.preset.json)")
    fit.add_argument("--json", action="store_true")
    fit.set_defaults(command=_from)


def _rows(preset: Any) -> list[dict[str, Any]]:
    from astranb.gpu._preset_file import NUMBERS

    return [
        {"number": n, "value": getattr(preset, n), "unit": _unit(n), "source": preset.sources.get(n, "")}
        for n in NUMBERS
    ]


def _unit(number: str) -> str:
    """The unit that a number's name ends in."""
    units = {"_ps": "ps", "_Bps": "B/s", "_bytes": "B", "payload": "B"}
    return next((unit for ending, unit in units.items() if number.endswith(ending)), "")


def _list(args: argparse.Namespace) -> int:
    from astranb.gpu import PRESETS

    rows = [
        {"name": p.name, "sms": p.sms, "l2_bytes": p.l2_bytes, "hbm_Bps": p.hbm_Bps, "hbm_bytes": p.hbm_bytes}
        for p in PRESETS.values()
    ]
    if args.json:
        print_json(rows)
        return 0
    for p in PRESETS.values():
        memory = f"{p.hbm_bytes / 1e9:.0f} GB at {p.hbm_Bps / 1e12:.2f} TB/s"
        print(f"{p.name:<12} {p.sms:>4} {p.sm_word}s, {memory}, L2 {p.l2_bytes / 2**20:.0f} MiB")
    return 0


def _show(args: argparse.Namespace) -> int:
    from astranb.gpu import preset

    found = preset(args.gpu)
    rows = _rows(found)
    if args.json:
        print_json({"name": found.name, "numbers": rows})
        return 0
    print(found.name)
    _print_numbers(rows)
    return 0


def _from(args: argparse.Namespace) -> int:
    from astranb.explore import held_against, preset_from
    from astranb.gpu import read_measured, write_preset

    measured = read_measured(args.file)
    made = preset_from(measured, like=args.like, name=args.name, infra=args.infra)
    changed = [row for row in _rows(made) if row["source"].startswith("measured")]
    held: list[Any] = held_against(made, measured, args.infra).to_dict("records")
    path = args.out or f"{made.name}.preset.json"
    write_preset(made, path)
    if args.json:
        held = [{k: None if _missing(v) else v for k, v in row.items()} for row in held]
        print_json({"name": made.name, "file": str(path), "measured": changed, "held_against": held})
        return 0
    print(f"{made.name}, like {args.like}, is in {path}: use it as --gpu {path}")
    _print_numbers(changed)
    print(f"\n{'':<30} {'measured':>10} {'simulated':>10}")
    for row in held:
        if _missing(row["simulated"]):
            said = "not modelled by this preset" if args.infra else "crosses a link: give --infra"
            print(f"{row['what']:<30} {row['measured']:>10.4g} {'':>10} {row['unit']:<5} {said}")
        else:
            mark = "  <- does not come out" if abs(row["off"]) > _OFF else ""
            numbers = f"{row['measured']:>10.4g} {row['simulated']:>10.4g}"
            print(f"{row['what']:<30} {numbers} {row['unit']:<5} {row['off']:+.1%}{mark}")
    return 0


def _print_numbers(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f"{row['number']:<18} {row['value']:>20,} {row['unit']:<4} {row['source']}")


def _missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
