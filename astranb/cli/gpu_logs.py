"""``astranb gpu fit`` and ``astranb gpu diagnose``: what a log of nccl-tests tells about a machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from astranb.core.units import format_bytes, format_time
from astranb.explore.options import Parser, algorithm_of, given, whole

from .arguments import add_command, add_output
from .printing import Report

if TYPE_CHECKING:
    from astranb.explore import CollectiveLog, Diagnosis, FittedNumber, LogFit

__all__ = ["add_log_verbs"]

_MOST_ALIKE = 8
_BASES = {"run": "", "line": "on a line", "links": "at the links' bandwidth", "padded": "as a larger size"}


def add_log_verbs(verbs: Any) -> None:
    """Add ``fit`` and ``diagnose``."""
    fit = add_command(verbs, "fit", "fit a preset to a log of nccl-tests or NCCL Inspector", _fit)
    _add_log(fit, "sizes above are on the line through this size and its half (default: 4MiB)")
    fit.add_argument("--like", help="preset to start from (default: that of the infrastructure)")
    fit.add_argument("--name", help="name of the preset (default: that of --like, with -fitted)")
    add_output(fit, "file to write (default: NAME.preset.json)", metavar="FILE.json")
    diagnose = add_command(
        verbs, "diagnose", "find the slow link, NIC or rank that explains a log", _diagnose
    )
    _add_log(diagnose, "larger sizes are not used (default: 4MiB)")
    diagnose.add_argument("--gpu", help="preset, as fitted to a machine without faults")


def _add_log(parser: Parser, up_to: str) -> None:
    parser.add_argument("log", nargs="+", metavar="LOG", help="output of nccl-tests or rccl-tests, or JSON")
    parser.add_argument("--infra", required=True, help="infrastructure that was measured")
    parser.add_argument("--collective", help="what was measured, if the log does not say")
    parser.add_argument("--algorithm", help="as of astranb run (default: that of the collective)")
    parser.add_argument("--protocol", help="Simple, LL or LL128 (default: the fastest for each size)")
    parser.add_argument("--channels", type=whole(1, 1024), help="sets of thread blocks", metavar="N")
    parser.add_argument("--up-to", help=up_to, metavar="SIZE")


def _log(args: argparse.Namespace) -> CollectiveLog:
    from astranb.explore import joined_logs, read_log

    return joined_logs([read_log(file, collective=args.collective) for file in args.log])


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "algorithm": algorithm_of(args.algorithm),
        **given(args, "protocol", "channels", "up_to"),
    }


def _fit(args: argparse.Namespace) -> Report:
    from astranb.explore import fit_log
    from astranb.gpu import write_preset

    log = _log(args)
    fit = fit_log(log, args.infra, **_options(args), **given(args, "like", "name"))
    path = args.output or f"{fit.preset.name}.preset.json"
    write_preset(fit.preset, path)
    launch = "" if fit.launch == "none" else f" --launch {fit.launch}"
    rows: list[Any] = fit.rows.to_dict("records")
    document = {
        "name": fit.preset.name,
        "file": str(path),
        "launch": fit.launch,
        "numbers": [_number_row(number) for number in fit.numbers],
        "errors": {use: dict(zip(("mean", "worst"), fit.errors(use), strict=True)) for use in _uses(fit)},
        "rows": rows,
    }
    lines = [
        f"wrote {fit.preset.name} to {path}; use it with --gpu {path}{launch}\n",
        *map(_number_line, fit.numbers),
        *_error_lines(fit),
        *_physics_lines(fit, args.infra),
        *_row_lines(fit),
    ]
    return Report(document, lines)


def _uses(fit: LogFit) -> list[str]:
    return [use for use in ("fitted", "kept aside") if (fit.rows["use"] == use).any()]


def _number_row(number: FittedNumber) -> dict[str, Any]:
    return {name: getattr(number, name) for name in type(number).__slots__}


def _number_line(number: FittedNumber) -> str:
    def written(value: float) -> str:
        return format_time(round(value)) if number.number.endswith("_ps") else f"{value:.3g} B"

    line = f"{number.number:<13} {number.meaning:<34} {written(number.before):>9} -> "
    if number.why_not:
        return f"{line}as it is: {number.why_not}"
    limit = ", the least there can be" if number.after == 0 else ""
    return f"{line}{written(number.after)} ± {written(number.error)}{limit}"


def _error_lines(fit: LogFit) -> list[str]:
    lines = [f"\n{'':<12} {'rows':>5} {'mean error':>11} {'worst':>7} {'mean before':>12}"]
    for use in _uses(fit):
        count = int((fit.rows["use"] == use).sum())
        (mean, worst), (before, _) = fit.errors(use), fit.errors(use, "before_us")
        lines.append(f"{use:<12} {count:>5} {mean:>11.1%} {worst:>7.1%} {before:>12.1%}")
    return lines


def _physics_lines(fit: LogFit, infra: str) -> list[str]:
    """Return what the bandwidth of the links decides."""
    lines: list[str] = []
    rows: list[Any] = fit.rows.to_dict("records")
    ended = [row for row in rows if row["basis"] == "links"]
    if ended:
        half, whole = (format_bytes(size) for size in (fit.up_to_bytes // 2, fit.up_to_bytes))
        lines.append(
            f"{len(ended)} rows are at the bandwidth of the links: the runs of {half} and {whole} are too "
            "small to show less (--up-to)"
        )
    beyond = [row for row in rows if row["use"] == "beyond the links"]
    if beyond:
        worst = max(beyond, key=lambda row: row["links_us"] / row["measured_us"])
        lines.append(
            f"{len(beyond)} rows are faster than the links of {infra} allow, and not used: "
            f"{worst['collective']} of {format_bytes(worst['size_bytes'])} in {worst['measured_us']:.5g} µs, "
            f"its bytes alone take {worst['links_us']:.5g}; is --infra as it was measured?"
        )
    return [""] * bool(lines) + lines


def _row_lines(fit: LogFit) -> list[str]:
    from astranb.core.text_table import aligned

    heads = ["", "size", "root", "protocol", "measured µs", "simulated µs", "error", ""]
    rows: list[Any] = fit.rows.to_dict("records")
    cells = [
        [
            row["collective"],
            format_bytes(row["size_bytes"]),
            str(row["root"]),
            row["protocol"],
            f"{row['measured_us']:.5g}",
            f"{row['simulated_us']:.5g}",
            f"{row['error']:+.1%}",
            ", ".join(filter(None, ("" if row["use"] == "fitted" else row["use"], _BASES[row["basis"]]))),
        ]
        for row in rows
    ]
    return ["", *aligned(heads, cells, left=(0, 3, 7))]


def _diagnose(args: argparse.Namespace) -> Report:
    from astranb.explore import diagnose

    found = diagnose(_log(args), args.infra, **_options(args), **given(args, "gpu"))
    rows: list[Any] = found.rows.dropna(axis="columns").to_dict("records")
    document = {
        "healthy_error": found.healthy,
        "explained": found.explained,
        "suspects": [{n: getattr(one, n) for n in type(one).__slots__} for one in found.suspects],
        "next": found.next,
        "links_visible": found.visible[0],
        "links_used": found.visible[1],
        "rows": rows,
    }
    return Report(document, _diagnosis_lines(found))


def _diagnosis_lines(found: Diagnosis) -> list[str]:
    seen, used = found.visible
    lines = [f"{len(found.rows)} rows; without any fault the simulation is {found.healthy:.1%} off"]
    if not found.suspects:
        lines.append("nothing is slow: the machine as described explains the log")
    for place, one in enumerate(found.suspects):
        title = "runner-up" if place else "slow" if found.explained else "at best"
        rate = f" ({one.now})" if one.now else ""
        lines.append(
            f"{title + ':':<11}{one.name}, {one.kind} at {one.factor:.2f}{rate}, {one.error:.1%} off"
        )
        if one.alike:
            more = f" and {len(one.alike) - _MOST_ALIKE} more" if len(one.alike) > _MOST_ALIKE else ""
            lines.append(f"{'':<11}as well: {', '.join(one.alike[:_MOST_ALIKE])}{more}")
    if found.explained and not found.by_root:
        lines.append("           (or the machine is described as too fast: these rows do not compare roots)")
    if found.suspects and not found.explained:
        lines.append("no single slow part explains the log; fit a preset to a machine without faults first")
    if seen < used:
        lines.append(f"{seen} of {used} links would be seen in these rows at half their bandwidth")
    if found.next:
        lines.append(f"next:      {found.next}")
    return lines
