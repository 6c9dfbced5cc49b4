"""Write what published timings say of the numbers of kernels into the files of GPUs.

``python -m scripts.fit_gpus [--take] [--check] [GPU …]``: for each number of kind ``fitted`` the source says
how many timings of ``astranb/hardware/timings`` decide it (those marked ``choose``) and which value is the
best for them. The value itself was chosen by hand, for other sources and formulae too, and stays; ``--take``
writes the best one instead, which changes simulated times. ``--check`` writes nothing, and fails where a file
would change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from astranb.hardware.reader import FOLDER, write_device_file
from astranb.workload.kernels import GPUS, Fit, fit_gpu
from astranb.workload.kernels.fit import rows_of
from astranb.workload.kernels.timings import KernelTiming, read_timings

TIMINGS: Final = FOLDER / "timings"


def timings() -> list[KernelTiming]:
    """Read all tables."""
    return [row for file in sorted(TIMINGS.glob("*.csv")) for row in read_timings(file)]


def _summary(fit: Fit | None, number: str, precision: str = "") -> str:
    """Return what the timings say of a number."""
    name = f"{number}.{precision}" if precision else number
    if fit is None or name not in fit.changed:
        return "no timings decide it"
    value = getattr(fit.gpu, number)
    best = value[precision] if precision else value
    rows = rows_of([row for row, _ in fit.errors], name)
    return f"{len(rows)} timings alone are met best by {best:g}"


def _source(fit: Fit | None, number: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"chosen by hand; {_summary(fit, number)}"
    summaries = {precision: _summary(fit, number, precision) for precision in value}
    return "chosen by hand; " + "; ".join(f"{precision}: {text}" for precision, text in summaries.items())


def fitted(name: str, rows: Iterable[KernelTiming], *, take: bool = False) -> dict[str, Any]:
    """Return the document of a GPU's file, with what timings say of its fitted numbers.

    Parameters
    ----------
    name : str
    rows : iterable of KernelTiming
    take : bool
        Whether to take the values that fit best.
    """
    document: dict[str, Any] = json.loads((FOLDER / "gpus" / f"{name}.json").read_text("utf-8"))
    entries = {
        number: entry
        for number, entry in document.get("kernels", {}).items()
        if isinstance(entry, dict) and entry["kind"] == "fitted"
    }
    chosen = [row for row in rows if row.gpu == name and row.use == "choose"]
    fit = fit_gpu(chosen, GPUS[name]) if chosen and entries else None
    for number, entry in entries.items():
        if take and fit is not None and any(one.partition(".")[0] == number for one in fit.changed):
            best = getattr(fit.gpu, number)
            entry["value"] = dict(best) if isinstance(best, Mapping) else best
            entry["source"] = f"timings in astranb/hardware/timings: {fit.text}"
        else:
            entry["source"] = _source(fit, number, entry["value"])
    return document


def main(arguments: list[str]) -> int:
    """Write the files; return 1 if --check found one that differs."""
    names = [one for one in arguments if not one.startswith("-")] or list(GPUS)
    rows, different = timings(), []
    for name in names:
        path = FOLDER / "gpus" / f"{name}.json"
        before, document = path.read_bytes(), fitted(name, rows, take="--take" in arguments)
        if "--check" in arguments:
            different += [name] * (json.loads(before) != document)
        else:
            write_device_file(document, path)
            print(f"{name}: {'as before' if path.read_bytes() == before else 'written'}", flush=True)
    for name in different:
        print(f"{name} differs; run python -m scripts.fit_gpus {name}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
