"""Energy and cost of a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore import ClusterRates, bill, read_rates
from astranb.infragraph import resolve
from astranb.net.cost import LIBRA, PLACES, cost_dollars
from astranb.workload.astrasim2 import InfraNetwork
from astranb.workload.kernels import GPUS, HybridMemory, MemoryTier
from astranb.workload.models import ModelStep, Parallelism, workload

GB = 10**9
NOTHING = ClusterRates(
    gpu_peak_W=0.0, gpu_idle_W=0.0, node_link_pJ_per_bit=0.0, pod_link_pJ_per_bit=0.0, memory_pJ_per_bit=0.0,
    gpu_dollars=0.0, memory_dollars_per_GB=0.0, network=dict.fromkeys(LIBRA, (0.0, 0.0, 0.0)),
    electricity_dollars_per_kWh=0.0,
)  # fmt: skip


def only(**more: object) -> ClusterRates:
    """Return rates that are all 0 but some."""
    return ClusterRates(**{**NOTHING.__dict__, **more})


def run(step: ModelStep, network: InfraNetwork | None = None) -> anb.Simulation:
    sim = anb.Simulation(step.on(network))
    sim.run()
    return sim


@pytest.fixture(scope="module")
def two_nodes() -> tuple[anb.Simulation, ModelStep]:
    step = workload("gpt3-125m", Parallelism(data=16), gpu="a100-sxm")
    return run(step), step


def test_a_gpu_draws_its_peak_while_it_computes(two_nodes):
    sim, step = two_nodes
    computed = sum(row["compute_ps"] for row in sim.result.per_rank()) / 1e12
    whole = 16 * sim.now_ps / 1e12
    assert bill(sim, step, only(gpu_peak_W=400.0)).energy_J == pytest.approx(400 * computed)
    assert bill(sim, step, only(gpu_idle_W=50.0)).energy_J == pytest.approx(50 * (whole - computed))
    usual = bill(sim, step)
    assert usual.gpu_energy_J == pytest.approx(400 * computed + 48 * (whole - computed))
    assert usual.energy_J == usual.gpu_energy_J + usual.link_energy_J
    assert usual.power_W == pytest.approx(usual.energy_J / (sim.now_ps / 1e12))
    assert usual.energy_per_token_J == usual.energy_J / step.tokens


def test_links_count_every_bit_that_crosses_them(two_nodes):
    """Of a ring all-reduce over 8 GPUs of a node and 2 nodes, each message crosses two links of a switch."""
    sim, step = two_nodes
    inside, between = sim.result.table("dimensions")
    assert bill(sim, step, only(node_link_pJ_per_bit=1.0)).energy_J == pytest.approx(
        inside["bytes"] * 2 * 8 / 1e12
    )
    assert bill(sim, step, only(pod_link_pJ_per_bit=1.0)).link_energy_J == pytest.approx(
        between["bytes"] * 2 * 8 / 1e12
    )
    sent = sum(row["bytes"] for row in (inside, between))
    assert sent == sim.engine.run.result().message_bytes


def test_an_infrastructure_counts_alike():
    step = workload("gpt3-125m", Parallelism(data=16), gpu="h100-sxm")
    sim = run(step, InfraNetwork(resolve("clos:servers=2")))
    _, between = sim.result.table("dimensions")
    found = bill(sim, step, only(pod_link_pJ_per_bit=1.0))
    assert found.energy_J == pytest.approx(between["bytes"] * 2 * 8 / 1e12)


def test_prices_are_paid_over_the_lifetime(two_nodes):
    sim, step = two_nodes
    found = bill(sim, step, only(gpu_dollars=1000.0, lifetime_years=2.0))
    assert found.cluster_dollars == found.gpu_dollars == 16_000
    assert found.dollars_per_step == pytest.approx(16_000 * sim.now_ps / 1e12 / (2 * 365.25 * 86400))
    assert found.dollars_per_million_tokens == pytest.approx(found.dollars_per_step / step.tokens * 1e6)
    power = bill(sim, step, only(gpu_peak_W=400.0, electricity_dollars_per_kWh=0.1))
    assert power.dollars_per_step == pytest.approx(power.energy_J / 3.6e6 * 0.1)
    assert bill(sim, step).network_dollars == pytest.approx(16 * 213 * 17 + 16 * 23 * (7.8 + 18 + 31.6))


def test_memory_outside_the_gpus_costs_what_it_holds_and_moves():
    memory = HybridMemory(MemoryTier(480 * GB, 500 * GB), local_bytes=4 * GB, shared_by=2)
    one = workload("gpt3-125m", Parallelism(data=2), gpu="a100-sxm", expanded_memory=memory)
    found = bill(run(one), one, only(memory_pJ_per_bit=1.0, memory_dollars_per_GB=10.0))
    times = one.times_of(0)
    assert times is not None
    assert times.split is not None
    moved = sum(times.moved(kernel) for kernels in one.stages[0].kernels for kernel in kernels)
    assert one.expanded_bytes == pytest.approx(2 * moved * times.split.fraction, rel=1e-9)
    assert found.memory_energy_J == pytest.approx(one.expanded_bytes * 8 / 1e12)
    assert found.memory_dollars == 4800
    offloaded = workload(
        "gpt3-125m", Parallelism(data=2, zero=3), offload="parameters", update="gpu", gpu="a100-sxm"
    )
    each = bill(run(offloaded), offloaded, only(memory_pJ_per_bit=1.0))
    assert each.memory_energy_J == pytest.approx(offloaded.moved_bytes * 8 / 1e12)


def test_the_power_of_every_gpu_is_known():
    for name in GPUS:
        peak, idle = ClusterRates().powers_W(GPUS[name])
        assert 0 < idle < peak


def test_a_network_costs_what_libra_says():
    """A switch of all NPUs, as CostModel of github.com/astra-sim/libra has it: link, port and NIC each."""
    links = [("Switch", [8]), ("Switch", [4])]
    assert cost_dollars(links, [100, 25], ["Node", "Pod"], LIBRA) == 32 * (100 * 17 + 25 * (7.8 + 18 + 31.6))
    assert cost_dollars(links, [100, 25], ["Node", "Pod"], PLACES) != cost_dollars(
        links, [100, 25], ["Node", "Pod"], LIBRA
    )


def test_rates_are_read(tmp_path):
    file = tmp_path / "rates.yaml"
    file.write_text("gpu_dollars: 20000\nnetwork:\n  Pod: {link: 1, switch: 2, nic: 3}\n")
    found = read_rates(file)
    assert found.gpu_dollars == 20_000
    assert found.network["Pod"] == (1.0, 2.0, 3.0)
    assert found.network["Node"] == LIBRA["Node"]
    assert found.lifetime_years == ClusterRates().lifetime_years
    file.write_text("network: astrasim1\n")
    assert read_rates(file).network == PLACES


@pytest.mark.parametrize(
    "text, said",
    [
        ("gpu_dollar: 1", "unknown key 'gpu_dollar'"),
        ("gpu_dollars: -1", "out of range"),
        ("lifetime_years: 0", "out of range"),
        ("network: nvidia", "unknown 'nvidia'"),
        ("network: 3", "a name or an object is expected"),
        ("network: {Rack: {link: 1}}", "unknown dimension type 'Rack'"),
        ("- 1", "an object is expected"),
    ],
)
def test_bad_rates_are_refused(tmp_path, text, said):
    file = tmp_path / "rates.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read_rates(file)


def test_what_is_not_known_is_refused(two_nodes):
    sim, step = two_nodes
    with pytest.raises(InputError, match="out of range"):
        ClusterRates(gpu_dollars=-1)
    bare = replace(GPUS["h100-sxm"], own_costs=None)
    with pytest.raises(InputError, match="section 'costs' is missing; give gpu_peak_W in the rates, or add"):
        ClusterRates().powers_W(bare)
    with pytest.raises(InputError, match="section 'costs' is missing; give gpu_idle_W in the rates, or add"):
        ClusterRates(gpu_peak_W=700.0).powers_W(bare)
    assert ClusterRates(gpu_peak_W=700.0, gpu_idle_W=70.0).powers_W(bare) == (700.0, 70.0)
    with pytest.raises(InputError, match="has not ended"):
        bill(anb.Simulation(step), step)
    with pytest.raises(InputError, match="has no GPU"):
        bill(sim, workload("gpt3-125m", Parallelism(data=16)))
    quiet = anb.Simulation(step, record=False)
    quiet.run()
    with pytest.raises(InputError, match="messages were not recorded"):
        bill(quiet, step)
