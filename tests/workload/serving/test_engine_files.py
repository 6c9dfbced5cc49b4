"""Engines: files of numbers with sources, and the policies that they give."""

from __future__ import annotations

from dataclasses import fields

import pytest

from astranb.core.errors import InputError
from astranb.hardware import KINDS, quantities
from astranb.workload.serving import ENGINES, ServingPolicy, engine_named
from astranb.workload.serving.engine_files import EngineHost, EngineScheduler


@pytest.mark.parametrize("name", ENGINES)
def test_every_number_has_a_source(name):
    engine = engine_named(name)
    known = {one for schema in (EngineScheduler, EngineHost) for one in quantities(schema)} - {
        "text",
        "kernels",
    }
    assert engine.sources.keys() == known
    for number, origin in engine.sources.items():
        assert origin.kind in KINDS
        assert len(origin.source) > 10, number
    assert engine.scheduler.text


def test_policies_are_those_of_the_engines():
    vllm, sglang, trtllm = (engine_named(name).policy(80 << 30) for name in ("vllm", "sglang", "trtllm"))
    assert (vllm.chunked_prefill, vllm.mixes) == (True, True)
    assert (sglang.chunked_prefill, sglang.mixes) == (True, False)
    assert (trtllm.chunked_prefill, trtllm.mixes, trtllm.reserve_output) == (False, True, True)
    assert [one.block_size for one in (vllm, sglang, trtllm)] == [16, 1, 32]
    # The token budget depends on the GPU's memory.
    budgets = [engine_named("sglang").policy(size << 30).token_budget for size in (16, 80, 180)]
    assert budgets == [2048, 8192, 32768]
    assert engine_named("vllm").policy(40 << 30).token_budget == 2048


def test_options_change_an_engine():
    found = engine_named("vllm").policy(80 << 30, max_batch=16, overlap=False)
    assert (found.max_batch, found.overlap, found.engine) == (16, False, "vllm")
    same = engine_named("vllm").policy(80 << 30)
    changed = {
        one.name for one in fields(ServingPolicy) if getattr(found, one.name) != getattr(same, one.name)
    }
    assert changed == {"max_batch", "overlap"}


def test_an_engine_of_ones_own(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("format: astranb-engine\nversion: 1\nlike: vllm\nhost:\n  host_ns: 200 us\n")
    mine = engine_named(file)
    assert mine.name == "mine"
    assert mine.policy(80 << 30).host_ns == 200_000
    assert mine.policy(80 << 30).token_budget == 8192
    assert mine.sources["host_ns"].kind == "assumed"
    file.write_text("format: astranb-engine\nversion: 1\nlike: vllm\nscheduler:\n  max_batch: 0\n")
    with pytest.raises(InputError, match=r"mine\.yaml:5, scheduler\.max_batch: 0 is out of range"):
        engine_named(str(file))


def test_an_unknown_engine_names_the_known_ones():
    with pytest.raises(InputError, match="unknown engine 'orca'; known: sglang, trtllm, vllm"):
        engine_named("orca")
