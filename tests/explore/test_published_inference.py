"""The table of published inference, and a part of it against predictions."""

from __future__ import annotations

import pytest

from astranb.workload.kernels import GPUS
from astranb.workload.models.library import TRANSFORMERS
from scripts.published_inference import rows


def test_every_row_has_a_source_and_can_be_read():
    table = rows()
    assert len({row.fields["id"] for row in table}) == len(table) >= 30
    for row in table:
        f = row.fields
        assert f["use"] in {"choose", "blind", "seen"}
        assert f["gpu"] in GPUS
        assert f["precision"] in GPUS[f["gpu"]].peaks
        assert f["model"] in TRANSFORMERS
        assert f["source"]
        assert f["first_error"].endswith("%")
        assert float(f["value"]) > 0
        assert len(row.trace.requests) == row.number("requests")
        assert row.policy.max_batch >= 1


@pytest.mark.parametrize(
    "name",
    ["lmdeploy-a100-7b-b32-128-2048", "trtllm061-h100-7b-2048-2048", "nim-h100-70b-c25", "nim-h100-70b-c5"],
)
def test_a_published_measurement_is_predicted(name):
    (row,) = (one for one in rows() if one.fields["id"] == name)
    measured, predicted = row.times()
    assert predicted == pytest.approx(measured, rel=0.15)
