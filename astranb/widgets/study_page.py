"""One file that shows a sweep in any browser, without a network: its view, and what a kernel would send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.plural import plural
from astranb.core.version import __version__
from astranb.explore import SweepResult
from astranb.explore.sweeps import AxisEffect

from .assets import STUDY, STUDY_MODULES, STUDY_PLAYER
from .feed import Columns, unpack
from .offline_page import wrapped
from .study_message import PointDetails, effects_of, study_message

__all__ = ["write_study"]


def write_study(
    result: SweepResult,
    path: str | Path,
    *,
    effects: Mapping[str, Sequence[AxisEffect]] | None = None,
    most: int = 5000,
) -> Path:
    """Write the page of a sweep, whole or not at all.

    Parameters
    ----------
    result : SweepResult
    path : str or Path
    effects : mapping, optional
        By objective, where they are known already.
    most : int
        Most points in it; of more, a random choice, and all of the Pareto front.
    """
    if most < 1:
        raise InputError(f"most must be at least 1, got {most}", where="to_html")
    columns = Columns()
    message = study_message(result, effects or effects_of(result), most=most)
    shown: Any = unpack("study", message[1])["number"].tolist()
    details = PointDetails(result)
    header: dict[str, Any] = {
        "study": columns.message(message),
        "details": {str(number): details.of(number) for number in shown},
        "modules": STUDY_MODULES,
        "entry": STUDY,
    }
    header["buffers"] = columns.buffers
    counts = ", ".join(f"{number:,} {status}" for status, number in result.counts().items())
    text = wrapped(
        header,
        title=result.spec.name,
        still=f"<pre>{escape(result.text())}</pre>",
        caption=f"{plural(len(result.points), 'point')}: {counts}. Simulated with astranb {__version__}.",
        player=STUDY_PLAYER,
    )
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return Path(path)
