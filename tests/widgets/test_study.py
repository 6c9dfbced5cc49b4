"""A sweep in a cell, without a browser: what it sends, what is chosen, the run below, the page."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.explore import Sweep, SweepResult
from astranb.widgets.feed import unpack
from astranb.widgets.study_message import STATUSES, PointDetails, study_message

SPEC: dict[str, Any] = {
    "name": "</script><b>sizes</b>",
    "run": {"infra": "switch:gpus=4", "collective": "all_reduce", "fidelity": "analytical"},
    "axes": {"size": ["1 MiB", "2 MiB", "4 MiB"], "algorithm": ["ring", "nonsense"], "seed": [0, 1]},
    "objectives": {"time_ps": "min", "busbw_Bps": "max"},
    "constraints": ["time_ps < 100 us"],
}


@pytest.fixture(scope="module")
def found() -> SweepResult:
    spec = {**SPEC, "axes": {name: SPEC["axes"][name] for name in ("size", "algorithm")}}
    return Sweep.of(spec).run(workers=0)


def sent(study: Any) -> list[tuple[dict[str, Any], list[bytes]]]:
    """Record what a study sends from now on."""
    messages: list[tuple[dict[str, Any], list[bytes]]] = []
    study.send = lambda content, buffers=(): messages.append((content, list(buffers)))
    return messages


def test_the_message_has_every_point_as_columns(found: SweepResult) -> None:
    meta, buffers = study_message(found)
    columns = unpack("study", buffers)
    count = len(found.rows)
    assert columns["number"].tolist() == list(range(count))
    assert [STATUSES[one] for one in columns["status"]] == [row["status"] for row in found.rows]
    assert [axis["labels"] for axis in meta["axes"]] == [["1 MiB", "2 MiB", "4 MiB"], ["ring", "nonsense"]]
    codes = columns["code"].reshape(2, count)
    labels = [[meta["axes"][k]["labels"][codes[k, at]] for k in range(2)] for at in range(count)]
    assert labels[0] == [found.rows[0]["size"], found.rows[0]["algorithm"]]
    time = columns["value"].reshape(-1, count)[0]
    assert [None if np.isnan(one) else one for one in time] == [row.get("time_ps") for row in found.rows]
    failed = columns["status"].tolist().index(STATUSES.index("failed"))
    assert "no algorithm 'nonsense'" in meta["errors"][columns["error"][failed]]
    ((x, y, start, long),) = meta["fronts"]
    assert (x, y, columns["front"][start : start + long].tolist()) == (0, 1, found.pareto())
    (first, second) = meta["heats"]
    assert (first[:3], second[:3]) == ([0, 1, 0], [0, 1, 1])
    assert set(columns["cell_point"][: first[4]].tolist()) <= set(found.best(9))
    json.dumps(meta, allow_nan=False)


def test_of_many_points_some_are_sent_and_the_whole_front(found: SweepResult) -> None:
    numbers = unpack("study", study_message(found, most=2)[1])["number"].tolist()
    assert len(numbers) < len(found.rows)
    assert set(found.pareto()) <= set(numbers)
    assert numbers == sorted(set(numbers))


def test_details_say_how_good_a_point_is_and_what_limits_it(found: SweepResult) -> None:
    details = PointDetails(found)
    best, worst = found.best(9)[0], found.best(9)[-1]
    good, bad = details.of(best), details.of(worst)
    assert (good["figures"][0][2], bad["figures"][0][2]) == ("1st of 2", "2nd of 2")
    assert found.counts() == {"done": 2, "failed": 3, "infeasible": 1}
    assert good["shares"] == [("exposed comm", 1.0)]
    assert good["command"].startswith("astranb run collective all_reduce --infra=switch:gpus=4")
    failed = next(k for k, row in enumerate(found.rows) if row["status"] == "failed")
    assert (details.of(failed)["shares"], details.of(failed)["status"]) == ([], "failed")


def test_a_study_runs_its_sweep_and_opens_a_point() -> None:
    study = anb.Study(
        {**SPEC, "axes": {"size": ["1 MiB", "2 MiB"], "algorithm": ["ring", "nonsense"]}}, workers=0
    )
    result = study.wait()
    assert (study._progress["running"], result.counts()) == (False, {"done": 2, "failed": 2})
    messages = sent(study)
    study._received(study, {"type": "detail", "point": 0}, [])
    assert messages[0][0]["axes"] == [["size", "1 MiB"], ["algorithm", "ring"]]
    study._received(study, {"type": "open", "point": 0}, [])
    bench = study.opened
    assert bench is not None
    assert (study.chosen, bench.sim.now_ps, study._opened["title"]) == (0, 0, bench.sim.title)
    bench.sim.run()
    assert bench.sim.now_ps == result.rows[0]["time_ps"]
    study._received(study, {"type": "open", "point": 1}, [])  # it failed: it cannot be made
    assert "no algorithm 'nonsense'" in study._opened["error"]
    for content in ({"type": "open", "point": 99}, {"type": "detail", "point": "0"}, {"type": "nothing"}):
        study._received(study, content, [])
    assert len(messages) == 1
    with pytest.raises(InputError, match="unknown point 4"):
        study.choose(4)
    study.close()


def test_in_a_notebook_points_arrive_while_cells_go_on() -> None:
    async def cell() -> list[tuple[dict[str, Any], list[bytes]]]:
        study = anb.Study({**SPEC, "axes": {"size": ["1 MiB", "2 MiB"]}}, workers=0)
        messages = sent(study)
        await study._task
        study.close()
        return messages

    meta, _ = asyncio.run(cell())[-1]
    assert (meta["type"], meta["counts"]) == ("study", {"done": 2})


def test_what_cannot_be_run_is_reported() -> None:
    with pytest.raises(InputError, match="not a sweep: int"):
        anb.Study(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown axis"):
        anb.Study({**SPEC, "axes": {"sice": [1]}})
    study = anb.Study({**SPEC, "constraints": ["size > 1 GiB"]}, workers=0)
    with pytest.raises(InputError, match="no point of 12 satisfies"):
        study.wait()
    assert "no point of 12 satisfies" in study._progress["error"]
    with pytest.raises(InputError, match="no point is chosen"):
        study.show()
    study.close()


def test_the_page_holds_everything_and_no_markup_of_names(found: SweepResult, tmp_path: Path) -> None:
    study = anb.Study(found)
    study.wait()
    text = study.to_html(tmp_path / "sweep.html").read_text()
    study.close()
    assert "<b>sizes" not in text
    assert "connect-src" not in text
    assert "default-src &#x27;none&#x27;" in text
    packed = re.search(r'id="anb-recording">([^<]*)<', text)
    assert packed
    content = gzip.decompress(base64.b64decode(packed[1]))
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["study"]["message"]["name"] == SPEC["name"]
    assert header["details"].keys() == {str(number) for number in range(len(found.rows))}
    assert "topology" not in header["modules"]  # only what the page loads


def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "sweep.json"
    spec.write_text(json.dumps({**SPEC, "axes": {"size": ["1 MiB"]}}))
    assert main(["explore", str(spec), "--workers", "0", "--html", str(tmp_path / "page.html")]) == 0
    assert "1 point: 1 done" in capsys.readouterr().out
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
