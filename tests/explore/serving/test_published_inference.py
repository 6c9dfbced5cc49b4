"""The table of published inference, and a part of it against predictions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astranb.workload.kernels import GPUS
from astranb.workload.models import Transformer, find_model
from scripts.published_inference import rows

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "serve_a_model.md"


def test_every_row_has_a_source_and_can_be_read():
    table = rows()
    assert len({row.fields["id"] for row in table}) == len(table) >= 30
    for row in table:
        f = row.fields
        assert f["use"] in {"choose", "blind", "seen"}
        assert f["gpu"] in GPUS
        assert f["precision"] in (*GPUS[f["gpu"]].peaks, "nvfp4")
        assert isinstance(find_model(f["model"]), Transformer)
        assert f["source"]
        assert f["first_error"].endswith("%")
        assert float(f["value"]) > 0
        assert len(row.trace.requests) == row.number("requests")
        assert row.policy.max_batch >= 1


@pytest.mark.parametrize(
    "name",
    [
        "lmdeploy-a100-7b-b32-128-2048",
        "trtllm061-h100-7b-2048-2048",
        "nim-h100-70b-c25",
        "nim-h100-70b-c5",
        "nim-h100-70b-c25-5000-500-first",
        "nim-h100-70b-c50-5000-500-first",
        "ix-sglang-h200-r1-fp8-t8-1024-u4-token",
        "ix-sglang-h200-r1-fp8-t8-1024-u4-first",
        "ix-trtllm-b200-r1-fp8-t4-1024-u8-mean-token",
        "ix-trtllm-b200-r1-fp8-t4-1024-u8-mean-first",
    ],
)
def test_a_published_measurement_is_predicted(name):
    (row,) = (one for one in rows() if one.fields["id"] == name)
    measured, predicted = row.times()
    assert predicted == pytest.approx(measured, rel=0.15)


def test_the_page_has_the_first_errors_of_the_blind_rows():
    """Counts, means and worst ones of the page are those of the table: nobody has to believe them."""
    found: dict[str, list[float]] = {name: [] for name in ("throughput", "token", "first")}
    for row in rows():
        f = row.fields
        if f["use"] == "blind":
            unit = f["unit"]
            kind = "throughput" if "tokens/s" in unit else "first" if "first" in unit else "token"
            found[kind].append(abs(float(f["first_error"].rstrip("%"))))
    said = re.findall(
        r"^\| (\d+): .* \| blind \| ([\d.]+) % \| (\d+) % \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    for (count, mean, worst), errors in zip(said, found.values(), strict=True):
        assert int(count) == len(errors)
        assert float(mean) == pytest.approx(sum(errors) / len(errors), abs=0.05 if "." in mean else 0.5)
        assert abs(int(worst) - max(errors)) <= 0.5
