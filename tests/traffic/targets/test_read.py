"""The format of traffic is detected from its content."""

from __future__ import annotations

from pathlib import Path

import pytest

from astranb.core.errors import InputError
from astranb.traffic import MessageGraph, read_traffic, translate
from tests.traffic.targets.graphs import NAMED, bytes_by_pair


@pytest.mark.parametrize("target", ["goal", "htsim", "csv", "parquet"])
def test_what_targets_write_is_read(target: str, tmp_path: Path) -> None:
    graph = NAMED["all-to-all 4"]()
    name = {"csv": "job.csv", "parquet": "job.parquet"}.get(target, "job.txt")
    translate(graph, target, tmp_path / name)
    found = read_traffic(tmp_path / name)
    assert isinstance(found, MessageGraph)
    assert bytes_by_pair(found) == bytes_by_pair(graph)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello\n")
    with pytest.raises(InputError, match="no traffic of a known format; give a pattern"):
        read_traffic(tmp_path / "a")
    with pytest.raises(InputError, match=r"b\.csv: No such file or directory; give a file that can be read"):
        read_traffic(tmp_path / "b.csv")
    (tmp_path / "c").write_text("<!doctype html>\n<html></html>")
    with pytest.raises(InputError, match="this is a web page"):
        read_traffic(tmp_path / "c")
