"""Operations that are computed again one by one: between none of them and all of a layer."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.workload.models import TRANSFORMERS, Job, Parallelism, Transformer, rank_memory, workload
from astranb.workload.models.activations import LayerActivations
from astranb.workload.models.costs import Costs

ORDER = ("none", "ops", "full")


def test_operations_of_a_gated_layer_by_hand():
    """Keys, attention's output and the MLP's inside are computed again; others are kept."""
    model = TRANSFORMERS["llama3-8b"]
    tokens, hidden, kv, ffn = 1024, 4096, 1024, 14336
    job = Job(Parallelism(), tokens, 1, recompute="ops")
    again = Costs(model, job).again(experts=False)
    assert again.flops == 2 * tokens * (hidden * kv + hidden * hidden + hidden * ffn)
    kept = LayerActivations(model, job).kept(experts=False)
    # The layer's input, queries, values, attention's output and the gate's, two bytes each.
    assert kept == 2 * tokens * (hidden + hidden + kv + hidden + ffn)


def test_operations_of_a_layer_without_a_gate_by_hand():
    model = TRANSFORMERS["gpt3-1.3b"]
    tokens, hidden = 512, 2048
    job = Job(Parallelism(), tokens, 1, recompute="ops")
    assert Costs(model, job).again(experts=False).flops == 2 * tokens * (2 * hidden**2 + 4 * hidden**2)
    kept = LayerActivations(model, job).kept(experts=False)
    assert kept == 2 * tokens * (4 * hidden + 4 * hidden)


@pytest.mark.parametrize("name, degrees", [
    ("llama3-8b", {"tensor": 4, "sequence": True}),
    ("mixtral-8x7b", {"data": 8, "expert": 8}),
    ("deepseek-v3", {"data": 64, "expert": 64}),
])  # fmt: skip
def test_memory_is_between_nothing_and_all_of_it(name, degrees):
    jobs = {one: Job(Parallelism(**degrees), 2048, 64, 1, recompute=one) for one in ORDER}
    model = TRANSFORMERS[name]
    held = [rank_memory(model, jobs[one], 0).activations for one in ORDER]
    assert held[0] > held[1] > held[2]


@pytest.mark.parametrize("degrees", [{}, {"tensor": 2, "sequence": True}, {"pipeline": 2, "schedule": "zbv"}])
def test_time_is_between_nothing_and_all_of_it(degrees):
    model = Transformer("small", 4, 2048, 16, 8192, 32000, 1024, kv_heads=4, gated=True, norm="rms")
    took, counted = [], set()
    for one in ORDER:
        step = workload(model, Parallelism(**degrees), batch=8, microbatches=4, recompute=one, gpu="h100-sxm")
        sim = anb.Simulation(step)
        sim.run()
        took.append(sim.result.time_ps)
        counted.add(step.model_flops)
    assert took[0] < took[1] < took[2]
    assert len(counted) == 1
