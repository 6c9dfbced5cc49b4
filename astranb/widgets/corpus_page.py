"""One file that shows how good models of a corpus are in any browser, without a network."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from astranb.core.files import whole_file
from astranb.core.version import __version__

from .assets import JUDGED_MODULES, JUDGED_PLAYER
from .offline_page import wrapped

__all__ = ["write_corpus_report"]


def write_corpus_report(reports: Mapping[str, Mapping[str, Any]], path: str | Path) -> Path:
    """Write the page of reports, whole or not at all.

    Parameters
    ----------
    reports : mapping of str to mapping
        By the name of the model, as :func:`astranb.explore.corpus_report` gives them.
    path : str or Path
    """
    title = "Workloads like those of a corpus"
    header: dict[str, Any] = {
        "title": title,
        "judged": [{"model": name, **_finite(report)} for name, report in reports.items()],
        "modules": JUDGED_MODULES,
        "buffers": [],
    }
    text = wrapped(
        header,
        title=title,
        still=f"<pre>{escape(_text(reports))}</pre>",
        caption=f"Compared and simulated with astranb {__version__}.",
        player=JUDGED_PLAYER,
    )
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return Path(path)


def _finite(value: Any) -> Any:
    """Replace what is infinite, as the distance of a kind that one side lacks, by None."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and abs(value) == float("inf") else value


def _text(reports: Mapping[str, Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{name}, {row['cluster']}: makespan {row['makespan_off']:+.1%}, exposed {row['exposed_off']:+.1%}, "
        f"worst single makespan {row['worst_pair_off']:.1%}"
        for name, report in reports.items()
        for row in report["clusters"]
    )
