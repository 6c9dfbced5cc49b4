"""``astranb gpu fit``, ``diagnose`` and ``expected``: what a log of nccl-tests tells about a machine."""

from __future__ import annotations

import argparse
from math import isnan
from typing import TYPE_CHECKING, Any

from astranb.core.limits import MOST_CHANNELS
from astranb.core.plural import plural
from astranb.core.units import format_bytes, format_time
from astranb.explore.runs import algorithm_of, file_named, whole

from .arguments import add_command, add_output, typed
from .parsing import Parser
from .printing import Report

if TYPE_CHECKING:
    from astranb.explore import CollectiveLog, Diagnosis, Expectation, FittedNumber, LogFit

__all__ = ["add_log_verbs"]

_MOST_ALIKE = 8
_BASES = {"run": "", "line": "on a line", "links": "at the links' bandwidth", "padded": "as a larger size"}


def add_log_verbs(verbs: Any) -> None:
    """Add ``fit``, ``diagnose`` and ``expected``."""
    fit = add_command(verbs, "fit", "fit a preset to a log of nccl-tests or NCCL Inspector", _fit)
    _add_log(fit, "sizes above are on the line through this size and its half (default: 4MiB)")
    fit.add_argument("--like", help="preset to start from (default: that of the infrastructure)")
    fit.add_argument(
        "--name", type=file_named(""), help="name of the preset (default: that of --like, with -fitted)"
    )
    add_output(fit, "file to write (default: NAME.preset.json)", metavar="FILE.json")
    diagnose = add_command(
        verbs, "diagnose", "find the slow link, NIC or rank that explains a log", _diagnose
    )
    _add_log(diagnose, "larger sizes are not used (default: 4MiB)")
    diagnose.add_argument("--gpu", help="preset, as fitted to a machine without faults")
    expect = add_command(
        verbs,
        "expected",
        "print what a collective takes on such machines: published, simulated, yours",
        _expected,
    )
    expect.add_argument("--infra", required=True, help="infrastructure")
    expect.add_argument("--collective", help="as all_reduce (default: that of the log, if it has one)")
    expect.add_argument("--gpu", help="preset of all GPUs (default: that of the infrastructure)")
    expect.add_argument(
        "--log", action="append", metavar="LOG", help="output of nccl-tests or rccl-tests; may be repeated"
    )
    expect.add_argument("--lines-to", metavar="SIZE", help="largest size by cache lines (default: 1MiB)")


def _add_log(parser: Parser, up_to: str) -> None:
    parser.add_argument("log", nargs="+", metavar="LOG", help="output of nccl-tests or rccl-tests, or JSON")
    parser.add_argument("--infra", required=True, help="infrastructure that was measured")
    parser.add_argument("--collective", help="what was measured, if the log does not say")
    parser.add_argument("--algorithm", help="as of astranb run collective (default: that of the collective)")
    parser.add_argument("--protocol", help="Simple, LL or LL128 (default: the fastest for each size)")
    parser.add_argument("--channels", type=whole(1, MOST_CHANNELS), help="sets of thread blocks", metavar="N")
    parser.add_argument("--up-to", help=up_to, metavar="SIZE")


def _log(args: argparse.Namespace) -> CollectiveLog:
    from astranb.explore import joined_logs, read_log

    return joined_logs([read_log(file, collective=args.collective) for file in args.log])


def _expected(args: argparse.Namespace) -> Report:
    from astranb.core.errors import InputError
    from astranb.explore import expected

    log, collective = _log(args) if args.log else None, args.collective
    if collective is None:
        names = sorted({row.collective for row in log.rows}) if log is not None else []
        if len(names) != 1:
            text = f"the log has {', '.join(names)}" if names else "nothing says what is run"
            raise InputError(text, where="gpu expected", hint="give --collective, as all_reduce")
        collective = names[0]
    found = expected(args.infra, collective, log=log, **typed(args, "gpu", "lines_to"))
    rows: list[Any] = found.rows.to_dict("records")
    rows = [{name: value for name, value in row.items() if value == value} for row in rows]  # noqa: PLR0124 - NaN
    tables = [
        {"id": one.id, "library": one.library, "settings": one.settings, "source": one.source}
        for one in found.tables
    ]
    document = {
        "infra": found.infra, "collective": collective, "rows": rows, "published": tables,
        "notes": list(found.notes),
    }  # fmt: skip
    return Report(document, _expected_lines(found, with_log=log is not None))


def _expected_lines(found: Expectation, *, with_log: bool) -> list[str]:
    from astranb.core.text_table import aligned

    heads = ["size", "links need", "by messages", "by lines", "published", *["your log", ""][: 2 * with_log]]
    cells = []
    rows: list[Any] = found.rows.to_dict("records")
    for row in rows:
        least, most = (_us(row[f"published_{which}_us"]) for which in ("least", "most"))
        one = [
            format_bytes(row["size_bytes"]),
            *(_us(row[f"{name}_us"]) for name in ("bound", "messages", "lines")),
        ]
        one.append(least if least == most else f"{least} to {most}")
        if with_log:
            ratio = "" if isnan(row["log_ratio"]) else f"{row['log_ratio'] - 1:+.0%}"
            one += [_us(row["log_us"]), ratio]
        cells.append(one)
    lines = [f"{found.collective} on {found.infra}, µs out of place", "", *aligned(heads, cells, left=())]
    lines += [
        "",
        *(f"published {one.id}: {one.library}; {one.settings}; {one.source}" for one in found.tables),
    ]
    return lines + [f"note: {note}" for note in found.notes]


def _us(value: float) -> str:
    return "" if isnan(value) else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "algorithm": algorithm_of(args.algorithm),
        **typed(args, "protocol", "channels", "up_to"),
    }


def _fit(args: argparse.Namespace) -> Report:
    from astranb.explore import fit_log
    from astranb.gpu import write_preset

    log = _log(args)
    fit = fit_log(log, args.infra, **_options(args), **typed(args, "like", "name"))
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
            f"{plural(len(ended), 'row is', 'rows are')} at the bandwidth of the links: the runs of {half} "
            f"and {whole} are too small to show less (--up-to)"
        )
    beyond = [row for row in rows if row["use"] == "beyond the links"]
    if beyond:
        worst = max(beyond, key=lambda row: row["links_us"] / row["measured_us"])
        lines.append(
            f"{plural(len(beyond), 'row is', 'rows are')} faster than the links of {infra} allow, "
            f"and not used: {worst['collective']} of {format_bytes(worst['size_bytes'])} "
            f"in {worst['measured_us']:.5g} µs, "
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

    found = diagnose(_log(args), args.infra, **_options(args), **typed(args, "gpu"))
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
    lines = [f"{plural(len(found.rows), 'row')}; without any fault the simulation is {found.healthy:.1%} off"]
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
