"""Communication hides behind computations as far as it can, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.explore import StepAccount, account
from astranb.workload.astrasim2 import DimensionNetwork
from astranb.workload.models import Parallelism, Transformer, workload

MODEL = Transformer("four-layers", 4, 4096, 32, 14336, 0, 2048, kv_heads=8, gated=True, norm="rms")
RANKS = 4
BANDWIDTHS = st.sampled_from([5, 25, 100, 335, 1000])
"""GB/s of a rank: from networks that take most of a step to such that take nearly nothing."""


def run(bandwidth_gb: float, overlap: tuple[str, ...] = (), **about: Any) -> StepAccount:
    """Account for a step of four layers on four ranks."""
    degrees = Parallelism(**about.pop("degrees"))
    step = workload(MODEL, degrees, gpu="h100-sxm", overlap=overlap, **about)
    sim = anb.Simulation(step.on(DimensionNetwork(["Switch"], [RANKS], [bandwidth_gb], [650])))
    sim.run()
    return account(sim, step)


CASES: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
    "tensor": (("tensor",), "tensor", {"degrees": {"tensor": RANKS, "sequence": True}, "batch": 2}),
    "gradients": (("gradients",), "data", {"degrees": {"data": RANKS}, "batch": RANKS}),
    "gradients, ZeRO 1": (("gradients",), "data", {"degrees": {"data": RANKS, "zero": 1}, "batch": RANKS}),
    "parameters": (("parameters",), "data", {"degrees": {"data": RANKS, "zero": 1}, "batch": RANKS}),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=5, deadline=None)
@given(bandwidth=BANDWIDTHS)
def test_an_overlap_hides_at_most_the_smaller_of_both(name, bandwidth):
    overlap, kind, about = CASES[name]
    before, after = run(bandwidth, **about), run(bandwidth, overlap, **about)
    assert after.compute_ps == pytest.approx(before.compute_ps, rel=1e-6)
    saved = before.step_ps - after.step_ps
    assert 0 < saved <= min(before.compute_ps, before.exposed_ps[kind])
    assert after.exposed_ps.get(kind, 0) == pytest.approx(before.exposed_ps[kind] - saved, rel=1e-6)


@pytest.mark.parametrize(
    "name, least",
    [("tensor", 0.6), ("gradients", 0.6), ("gradients, ZeRO 1", 0.3), ("parameters", 0.3)],
)
def test_most_of_what_is_sent_is_hidden_where_the_network_is_fast(name, least):
    # Reduce-scatters of gradients and all-gathers of parameters are half of ZeRO 1's communication each.
    overlap, kind, about = CASES[name]
    before, after = run(335, **about), run(335, overlap, **about)
    assert before.step_ps - after.step_ps >= least * before.exposed_ps[kind]


def test_gradients_and_parameters_together_hide_what_each_hides():
    about = {"degrees": {"data": RANKS, "zero": 1}, "batch": RANKS}
    plain, gradients, parameters, both = (
        run(335, overlap, **about)
        for overlap in ((), ("gradients",), ("parameters",), ("gradients", "parameters"))
    )
    saved = 2 * plain.step_ps - gradients.step_ps - parameters.step_ps
    assert plain.step_ps - both.step_ps == pytest.approx(saved, rel=0.01)


@settings(max_examples=5, deadline=None)
@given(bandwidth=BANDWIDTHS)
def test_parameters_are_gathered_one_layer_ahead(bandwidth):
    """FSDP waits for the first gather of each pass and the last sum, if all others fit behind layers."""
    found = run(bandwidth, degrees={"data": RANKS, "zero": 3}, batch=4 * RANKS)
    alone = run(1e6, degrees={"data": RANKS, "zero": 3}, batch=4 * RANKS)
    layer = 2 * MODEL.layer(0)  # bytes of a layer's parameters, and of its gradients
    each_ps = layer * (RANKS - 1) / RANKS / (bandwidth * 1e9) * 1e12
    # Gathered forward and backward, summed once (Rajbhandari et al. 2020: three times the parameters).
    sent = 3 * MODEL.layers * each_ps
    assert alone.step_ps <= found.step_ps <= alone.step_ps + sent * 1.05 + 1e8
    exposed = found.exposed_ps["data"]
    if each_ps < 0.9 * alone.compute_ps / (3 * MODEL.layers):
        assert exposed == pytest.approx(3 * each_ps, rel=0.05, abs=2e7)
    else:
        assert exposed >= 3 * each_ps


@pytest.mark.parametrize("attention", ["flash", "unfused"])
@pytest.mark.parametrize("elementwise", [False, True])
def test_recomputation_adds_what_it_computes_again(attention, elementwise):
    about = {"degrees": {"tensor": RANKS}, "batch": 2, "attention": attention, "elementwise": elementwise}
    none, selective, full = (run(335, recompute=again, **about) for again in ("none", "selective", "full"))
    assert none.step_ps < selective.step_ps < full.step_ps
    core = "attention" if attention == "flash" and not elementwise else "matrices"
    assert selective.step_ps - none.step_ps < none.sorts_ps[core]
    # The forward pass, a third of the operations, with its two sums a layer, around a ring; a layer's
    # input is there, so that it may begin while the gradients of its output are summed.
    assert 1.2 < full.compute_ps / none.compute_ps < 1.4
    one_ps = 2 * (RANKS - 1) / RANKS * (2 * MODEL.sequence * MODEL.hidden * 2) / 335e9 * 1e12
    more = full.exposed_ps["tensor"] - none.exposed_ps["tensor"]
    assert 0.6 < more / (2 * MODEL.layers * one_ps) < 1.1
    assert none.mfu == pytest.approx(none.hfu)
    assert full.hfu / full.mfu == pytest.approx(4 / 3, rel=0.01)
