"""Steps that keep parameters, activations or the optimizer's state in a memory outside the GPUs."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.chakra import NodeType
from astranb.core.errors import InputError
from astranb.workload.astrasim2 import Memory
from astranb.workload.kernels import HybridMemory, MemoryTier
from astranb.workload.models import Job, ModelStep, Parallelism, StageProgram, Transformer, workload
from astranb.workload.models.activations import LayerActivations
from astranb.workload.models.memory import StageMemory
from astranb.workload.models.pipeline import stage_program
from astranb.workload.models.weights import of_unit

MODEL = Transformer("small", 6, 512, 8, 2048, 1024, 256)
LOAD, STORE = NodeType.MEM_LOAD, NodeType.MEM_STORE
ALL = "optimizer,parameters,activations"


def moved(program: StageProgram, what: str) -> Counter[tuple[int, str]]:
    """Count the bytes that are loaded and stored of one sort, by unit."""
    found: Counter[tuple[int, str]] = Counter()
    for kind, name, size in zip(program.kind, program.names, program.size, strict=True):
        if kind in (LOAD, STORE) and name.split()[1].startswith(what):
            found[kind, name.split()[2] if what != "L" else name.split()[1]] += size
    return found


def step(offload: str, degrees: Parallelism | None = None, **more: object) -> ModelStep:
    options = {"sequence": 256, "update": "gpu", "gpu": "a100-sxm", **more}
    return workload(MODEL, degrees or Parallelism(), offload=offload, **options)  # type: ignore[arg-type]


def run(one: ModelStep, memory: Memory | None = None) -> anb.Simulation:
    sim = anb.Simulation(one.on(memory=memory))
    sim.run()
    return sim


@settings(max_examples=25)
@given(
    st.sampled_from([0, 3]), st.integers(1, 3), st.sampled_from([1, 2]), st.sampled_from([1, 2]),
    st.sampled_from(["none", "selective", "full"]), st.sampled_from(["host", "gpu"]),
)  # fmt: skip
def test_what_is_loaded_was_stored(zero, micro, data, pipeline, recompute, update):
    """Parameters of each unit come for both passes of each microbatch; activations and states as often as
    they go."""
    degrees = Parallelism(data, pipeline=pipeline, zero=zero)
    job = Job(
        degrees,
        256,
        data * micro,
        micro,
        recompute=recompute,
        attention="unfused",
        offload=ALL,
        update=update,
    )
    kept = LayerActivations(MODEL, job).kept(experts=False)
    for stage in range(pipeline):
        program = stage_program(MODEL, job, stage)
        layers = [key for keys in StageMemory(MODEL, job, stage)._keys for key in keys]
        shares = {
            str(key): -(-of_unit(MODEL, degrees, key).shared // (data if zero else 1)) for key in layers
        }
        parameters, states, activations = (moved(program, what) for what in ("params", "states", "L"))
        for key, count in shares.items():
            assert parameters[LOAD, key] == 2 * micro * 2 * count
            by_gpu = update == "gpu"
            assert parameters[STORE, key] == (2 * count if by_gpu else 0)
            assert states[LOAD, key] == states[STORE, key] == (12 * count if by_gpu else 0)
        assert sum(activations[LOAD, f"L{key}"] for key in layers) == sum(
            activations[STORE, f"L{key}"] for key in layers
        )
        assert sum(activations.values()) == 2 * micro * kept * sum(key >= 0 for key in layers)


def test_a_memory_that_takes_no_time_changes_no_pass():
    endless = Memory("PER_NPU_MEMORY_EXPANSION", 0, 1e12)
    for degrees in (Parallelism(), Parallelism(data=2, zero=3), Parallelism(pipeline=2)):
        alone = run(step("none", degrees, batch=4, microbatches=2))
        assert (
            run(step("parameters,activations", degrees, batch=4, microbatches=2), endless).now_ps
            == alone.now_ps
        )


@settings(max_examples=10)
@given(st.sampled_from([1.0, 10.0, 100.0]), st.sampled_from([1.5, 4.0]), st.sampled_from(["parameters", ALL]))
def test_more_bandwidth_is_never_slower(rate, more, offload):
    one = step(offload, batch=2, microbatches=2)
    times = [run(one, Memory("PER_NPU_MEMORY_EXPANSION", 500, each)).now_ps for each in (rate, rate * more)]
    assert times[1] <= times[0]
    # Loads and stores are done one after another.
    assert times[0] >= one.moved_bytes / rate * 1000


def test_units_wait_for_their_data_and_two_are_on_the_gpu():
    one = step("parameters,activations", batch=2, microbatches=2, recompute="full")
    sim = run(one, Memory("PER_NPU_MEMORY_EXPANSION", 500, 5.0))
    start, end = sim.engine.times_of(0)
    (program,) = one.stages
    rows = {name: row for row, name in enumerate(program.names)}
    for layer, micro in product(range(6), range(2)):
        assert start[rows[f"L{layer} again {micro} attn"]] >= end[rows[f"load L{layer} {micro}"]]
        assert start[rows[f"load L{layer} {micro}"]] >= end[rows[f"store L{layer} {micro}"]]
    loads = [row for row, name in enumerate(program.names) if name.startswith("load params")]
    assert len(loads) == len(program.units)
    for at, (row, unit) in enumerate(zip(loads, program.units, strict=True)):
        assert start[unit.first] >= end[row]
        if at > 1:
            # There is room for two.
            assert start[row] >= end[program.units[at - 2].last]
    moves = [row for row, kind in enumerate(program.kind) if kind in (LOAD, STORE)]
    assert (start[moves[1:]] >= end[moves[:-1]]).all()


def test_the_account_names_what_memory_takes():
    one = step(ALL, Parallelism(data=2, zero=3), batch=4, microbatches=2)
    sim = run(one)
    found = anb.explore.account(sim, one)
    assert found.compute_ps + sum(found.exposed_ps.values()) == found.step_ps
    assert found.exposed_ps["memory"] > found.step_ps / 2  # over PCIe 4
    assert "memory outside the GPU" in found.limited_by


@pytest.mark.parametrize("kind, npus", [("PER_NODE_MEMORY_EXPANSION", 2), ("MEMORY_POOL", 4)])
def test_ranks_that_share_a_memory_wait_for_each_other(kind, npus):
    one = step("parameters", Parallelism(data=4, zero=3), batch=4)
    own = run(one, Memory("PER_NPU_MEMORY_EXPANSION", 0, 1.0)).now_ps
    shared = run(one, Memory(kind, 0, 1.0, npus)).now_ps
    assert own < shared
    assert shared >= one.moved_bytes / 4 * npus * 1000


def test_an_expansion_holds_what_is_offloaded():
    memory = HybridMemory(MemoryTier.of("480 GB, 50 GB/s, 500 ns"), shared_by=2)
    one = step(ALL, Parallelism(data=2, zero=3), batch=2, expanded_memory=memory)
    made = one.on()
    assert made.memory == Memory("PER_NODE_MEMORY_EXPANSION", 500, 50.0, 2)
    held = StageMemory(MODEL, one.plan[1], 0) if one.plan else None
    assert held is not None
    assert held.weights == held.optimizer == 0
    assert held.offloaded > 14 * MODEL.parameters / 2
    small = HybridMemory(MemoryTier(held.offloaded - 1, 50 * 10**9))
    with pytest.raises(InputError, match="0 too few"):
        one.expanded(small).durations_ns()


def test_states_and_activations_are_not_on_the_gpu():
    one, alone = step(ALL), step("none")
    (held,), (more,) = one.memory(), alone.memory()
    assert held.weights == held.optimizer == 0
    assert held.activations < more.activations
    assert held.total < more.total


@pytest.mark.parametrize(
    "more, said",
    [
        ({"offload": "optimiser"}, "unknown offload 'optimiser'"),
        ({"offload": "parameters,"}, "unknown offload ''"),
        ({"offload": "parameters", "zero": 1}, "ZeRO 1 keeps all parameters on every GPU"),
        ({"offload": "optimizer", "update": "cpu"}, "unknown update 'cpu'"),
        ({"offload": "activations", "mode": "prefill"}, "offload does not apply to prefill"),
    ],
)
def test_what_cannot_be_offloaded_is_refused(more, said):
    degrees = Parallelism(data=2, zero=more.pop("zero", 0))
    with pytest.raises(InputError, match=said):
        Job(degrees, 256, 2, **more)


def test_decoding_loads_parameters_for_each_token():
    one = workload(MODEL, mode="decode", tokens=3, sequence=64, offload="parameters")
    (program,) = one.stages
    loaded = moved(program, "params")
    assert {
        key: size // (2 * of_unit(MODEL, Parallelism(), int(key[1])).shared) for key, size in loaded.items()
    } == {(LOAD, str(key)): 3 for key in (-1, *range(6), -2)}
    assert np.isin(program.kind, (LOAD, STORE)).sum() == 3 * 8


def test_plans_profiles_and_cache_lines_refuse_it():
    one = step("parameters")
    with pytest.raises(InputError, match="not estimated"):
        anb.explore.suggest(one)
    with pytest.raises(InputError, match="no memory outside the GPUs"):
        one.operations(by_lines=True)
