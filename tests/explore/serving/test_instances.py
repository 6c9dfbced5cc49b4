"""Serving: laws that every trace and policy keeps, and cases with known results."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore import serve
from astranb.explore.serving.batch_times import PARTS
from astranb.explore.serving.scheduler import REASONS, Scheduler, Sequence
from astranb.workload.astrasim2 import DimensionNetwork
from astranb.workload.kernels import GPUS, KernelTimes
from astranb.workload.models import Parallelism, workload
from astranb.workload.serving import (
    ENGINES,
    Batch,
    Request,
    RequestTrace,
    ServingPolicy,
    blocks_of,
    engine_named,
    requests_of,
)
from tests.explore.serving.test_batch_times import batch_times
from tests.workload.models.support import tiny

MODEL = tiny()
"""So small that a GPU's memory is cut down, to have few blocks."""


def limit_for(blocks, policy, tensor=1, pipeline=1):
    """Return the memory in which this number of blocks fits."""
    from astranb.workload.models import Job
    from astranb.workload.models.memory import rank_memory
    from astranb.workload.serving import token_bytes

    job = Job(Parallelism(tensor=tensor, pipeline=pipeline), policy.token_budget, 1, 1, mode="prefill")
    needed = []
    for stage in range(pipeline):
        held = rank_memory(MODEL, job, stage)
        each = policy.block_size * token_bytes(MODEL, job, stage)
        needed.append(held.weights + held.buffers + (blocks * pipeline + 0.5) * each)
    return int(max(needed) / policy.memory_fraction) + 1


@st.composite
def cases(draw):
    count = draw(st.integers(1, 30))
    gaps = draw(st.lists(st.integers(0, 2_000_000), min_size=count, max_size=count))
    lengths = st.tuples(st.integers(1, 120), st.integers(1, 60))
    listed = [Request(int(at), *draw(lengths)) for at in np.cumsum(gaps)]
    trace = RequestTrace(listed, draw(st.sampled_from([0, 0, 1, 5])))
    split = draw(st.sampled_from([(0, 0), (0, 0), (1, 1), (2, 3)]))
    batch = draw(st.integers(1, 20))
    policy = ServingPolicy(
        batch, draw(st.integers(max(batch, 120), 300)), chunked_prefill=draw(st.booleans()),
        block_size=draw(st.integers(1, 20)), reserve_output=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1])), instances=1 if split[0] else draw(st.integers(1, 3)),
        prefill_instances=split[0], decode_instances=split[1], host_ns=draw(st.sampled_from([0, 5000])),
        front_ns=draw(st.sampled_from([0, 300_000])),
        mixed_batches=draw(st.sampled_from([None, True, False])), overlap=draw(st.booleans()),
        hidden_ns=draw(st.sampled_from([0, 40_000])), graph_batch=draw(st.sampled_from([0, 4])),
    )  # fmt: skip
    longest = max(blocks_of(one.prompt + one.output, policy.block_size) for one in listed)
    blocks = longest + draw(st.integers(0, 40))
    if policy.watermark:
        blocks = blocks * 5 // 4 + 2
    pipeline = 1 if split[0] else draw(st.sampled_from([1, 1, 2]))
    return trace, policy, blocks, {"tensor": draw(st.sampled_from([1, 2])), "pipeline": pipeline}


def served(trace, policy, blocks=None, **degrees):
    limit = None if blocks is None else limit_for(blocks, policy, **degrees)
    return serve(MODEL, trace, **degrees, policy=policy, limit_bytes=limit)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_laws(case):
    trace, policy, blocks, degrees = case
    found = served(trace, policy, blocks, **degrees)
    assert found.blocks == blocks
    columns = found.per_request()
    # Every request is answered, in the order of its own times.
    front = [policy.admission_ns(one.prompt) for one in trace.requests]
    assert (columns["begin_ns"] >= columns["arrival_ns"] + front).all()
    assert (columns["first_token_ns"] > columns["begin_ns"]).all()
    assert (columns["end_ns"] >= columns["first_token_ns"]).all()
    assert (columns["ttft_ns"] <= columns["latency_ns"]).all()
    assert ((columns["output"] == 1) == (columns["end_ns"] == columns["first_token_ns"])).all()
    # Tokens: each iteration gives those that it decodes, and one for each prompt that ends in it.
    whole = [one.prompt + one.output - 1 for one in trace.requests]
    computed = sum(one.decodes + one.prompt_tokens for one in found.iterations)
    if not sum(found.requests["preemptions"]):
        assert computed == sum(whole)
        assert sum(one.decodes for one in found.iterations) == sum(one.output - 1 for one in trace.requests)
    else:
        assert computed > sum(whole)
        assert not policy.reserve_output
    # Iterations of an instance follow one another, in time.
    ends: Counter[int] = Counter()
    for one in found.iterations:
        assert one.begin_ns >= ends[one.instance]
        assert one.end_ns > one.begin_ns
        ends[one.instance] = one.end_ns
        assert one.end_ns - one.begin_ns == sum(one[-6:])
        # Limits of the policy and the memory.
        assert one.decodes + one.prompts <= policy.max_batch
        recomputed = not policy.chunked_prefill and one.prompts == 1
        assert one.decodes + one.prompt_tokens <= policy.token_budget or recomputed
        assert 0 < one.blocks <= blocks
        assert policy.mixes or not (one.decodes and one.prompts)
        assert one.waits_for in {*REASONS, ""}
        assert bool(one.waits_for) <= bool(one.waiting)
    # Time is all accounted for.
    assert sum(found.time_ns().values()) == found.batches * found.duration_ns
    assert min(found.time_ns().values()) >= 0
    assert found.limit in {*PARTS, "idle"}
    # Times between two tokens: one for each token after the first, and together all of the time.
    gaps, counts = found.gaps
    assert counts.sum() == sum(one.output - 1 for one in trace.requests)
    assert (gaps * counts).sum() == (columns["end_ns"] - columns["first_token_ns"]).sum()
    if len(gaps):
        assert gaps.min() > 0
        assert (np.diff(gaps) > 0).all()
        assert counts.min() > 0
        each = np.repeat(gaps, counts)
        cuts = dict(zip(("p50", "p90", "p99"), np.percentile(each, (50, 90, 99)), strict=True))
        assert found.percentiles("itl_ns") == pytest.approx({"mean": each.mean(), **cuts})
    # The same again.
    again = served(trace, policy, blocks, **degrees)
    assert (again.requests, again.iterations) == (found.requests, found.iterations)
    assert again.document() == found.document()
    if policy.prefill_instances:
        sent = [one for one in trace.requests if one.output > 1]
        assert found.document()["transfers"] == len(sent)
        moved = sum(one.prompt for one in sent) * MODEL.layers * MODEL.cache_width * 2
        assert found.transfer_bytes == moved


@settings(max_examples=60, deadline=None)
@given(
    st.data(), st.integers(1, 12), st.integers(1, 8), st.booleans(), st.booleans(),
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=12),
)  # fmt: skip
def test_blocks_are_conserved(data, batch, size, chunked, reserve, lengths):
    """After every iteration the blocks that are not free are those of the sequences' tokens."""
    need = max(blocks_of(prompt + output, size) for prompt, output in lengths)
    total = need + data.draw(st.integers(0, 10))
    policy = ServingPolicy(
        batch, 64, chunked_prefill=chunked, block_size=size, reserve_output=reserve, watermark=0.0
    )
    preempted: list[Sequence] = []
    scheduler = Scheduler(policy, total, preempted.append)
    every = [Sequence(number, *each) for number, each in enumerate(lengths)]
    scheduler.waiting.extend(every)
    done: list[Sequence] = []
    given_tokens: Counter[Sequence] = Counter()
    clock = 0
    for _ in range(20_000):
        if scheduler.begin() is None:
            break
        assert 0 <= scheduler.free <= total
        ended, ready = scheduler.end(clock := clock + 1)
        for one in ready:
            scheduler.join(one)
        for one in ended:
            given_tokens[one] = one.given
            done.append(one)
        parts = [one for one in scheduler.running if one.joined < 0]
        now = [one.computed + scheduler._step - one.joined for one in scheduler.running if one.joined >= 0]
        in_use = sum(blocks_of(tokens, size) for tokens in now)
        in_use += sum(blocks_of(one.prefill, size) for one in parts)
        assert scheduler.free == total - in_use
        assert scheduler.tokens == sum(now) + sum(one.prefill for one in parts)
    assert sorted(one.number for one in done) == list(range(len(every)))
    assert all(given_tokens[one] == one.output for one in every)
    assert scheduler.free == total
    assert scheduler.load == scheduler.decodes == 0
    assert not (reserve and preempted)


def test_one_request_is_a_prefill_and_decoding_steps():
    prompt, output = 300, 5
    times = KernelTimes(GPUS["h100-sxm"])

    def step_ns(**more):
        sim = anb.Simulation(workload("llama3-8b", Parallelism(tensor=1), gpu=times, **more))
        sim.run()
        return sim.result.time_ps // 1000

    first = step_ns(mode="prefill", sequence=prompt)
    steps = [step_ns(mode="decode", sequence=prompt + token) for token in range(output - 1)]
    trace = RequestTrace([Request(0, prompt, output)])
    found = serve("llama3-8b", trace, policy=ServingPolicy(host_ns=0, front_ns=0), gpu=times)
    assert found.requests["first_token_ns"] == [first]
    assert found.requests["end_ns"] == [first + sum(steps)]
    # All of its tokens in one step, which is simulated.
    assert sum(steps) == step_ns(mode="decode", sequence=prompt, tokens=output - 1)
    later = serve("llama3-8b", trace, policy=ServingPolicy(host_ns=7, front_ns=0), gpu=times)
    assert later.requests["end_ns"] == [first + sum(steps) + 7 * output]
    behind = ServingPolicy(host_ns=7, front_ns=1000)
    asked = serve("llama3-8b", trace, policy=behind, gpu=times)
    assert asked.requests["begin_ns"] == [behind.admission_ns(prompt)] == [1000 + 1500 * prompt]
    assert asked.requests["end_ns"] == [later.requests["end_ns"][0] + behind.admission_ns(prompt)]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 200), st.integers(2, 100))
def test_no_throughput_above_the_bound_of_the_kernels(batch, prompt, output):
    policy = ServingPolicy(batch, 8192, host_ns=0)
    found = served(requests_of(f"offline:prompt={prompt},output={output},count={2 * batch}"), policy)
    times = batch_times(MODEL, 1, KernelTimes(GPUS["h100-sxm"]))
    bound = max(count / times.time(Batch(count, count * (prompt + 1))).total for count in range(1, batch + 1))
    assert found.output_tokens_per_s <= bound * 1e9 * output / (output - 1)


def test_blocks_that_run_out_preempt_the_request_that_came_last():
    policy = ServingPolicy(8, 64, block_size=1, watermark=0.0, front_ns=0)
    # Two requests of 10 tokens that give 10: at 15 blocks of each one there is no more.
    found = served(requests_of("offline:prompt=10,output=10,count=2"), policy, blocks=30)
    assert found.requests["preemptions"] == [0, 1]
    first, second = found.requests["end_ns"]
    assert first < second
    assert found.peak_blocks == 30
    enough = served(requests_of("offline:prompt=10,output=10,count=2"), policy, blocks=38)
    assert enough.requests["preemptions"] == [0, 0]
    reserved = served(
        requests_of("offline:prompt=10,output=10,count=2"), replace(policy, reserve_output=True), blocks=30
    )
    assert reserved.requests["preemptions"] == [0, 0]
    assert reserved.requests["begin_ns"][1] == reserved.requests["end_ns"][0]
    assert reserved.waits_ns().keys() == {"memory"}


def test_a_pipeline_is_a_step_of_prefill_and_steps_of_decode():
    times = KernelTimes(GPUS["h100-sxm"])
    prompt, output = 300, 4

    def step_ns(**more):
        sim = anb.Simulation(
            None, workload("llama3-8b", Parallelism(pipeline=4), gpu=times, microbatches=1, **more)
        )
        sim.run()
        return sim.result.time_ps // 1000

    trace = RequestTrace([Request(0, prompt, output)])
    policy = ServingPolicy(host_ns=0, front_ns=0)
    found = serve("llama3-8b", trace, pipeline=4, policy=policy, gpu=times)
    assert found.gpus == 4
    # The first stage hears of a token in a message, which a prefill by itself does not send.
    first, last = found.requests["first_token_ns"][0], found.requests["end_ns"][0]
    assert 0 < first - step_ns(mode="prefill", sequence=prompt) < 10_000
    steps = step_ns(mode="decode", sequence=prompt, tokens=output - 1)
    assert last - first == pytest.approx(steps, rel=2e-3)


def test_batches_fill_the_stages_of_a_pipeline():
    policy = ServingPolicy(16, host_ns=0, front_ns=0)
    text = "offline:prompt=200,output=100,count={}"
    alone = serve("llama3-8b", requests_of(text.format(16)), pipeline=4, policy=policy)
    four = serve("llama3-8b", requests_of(text.format(64)), pipeline=4, policy=policy)
    assert four.output_tokens_per_s > 3.5 * alone.output_tokens_per_s
    # No stage computes two batches at once.
    busy = sum(one.end_ns - one.begin_ns - one.pipeline_ns for one in four.iterations)
    assert busy <= 4 * four.duration_ns
    assert alone.time_ns()["pipeline"] < four.time_ns()["pipeline"]


def iterations_of(trace, **policy):
    """Return the served trace, and the begin and end of each iteration in ns, by its decodes and prompts."""
    found = serve("llama3-8b", RequestTrace(trace), policy=ServingPolicy(front_ns=0, **policy))
    return found, [(one.begin_ns, one.end_ns, one.decodes, one.prompts) for one in found.iterations]


def test_an_iteration_that_is_scheduled_ahead_has_no_later_request():
    """One that arrives in an iteration misses the next one, which the host has scheduled as that began."""
    _, alone = iterations_of([Request(0, 300, 8)])
    late = alone[2][0] + 1  # while the second token is decoded
    trace = [Request(0, 300, 8), Request(late, 300, 8)]
    for overlap, misses in ((False, 1), (True, 2)):
        found, listed = iterations_of(trace, overlap=overlap)
        assert listed[:3] == alone[:3]
        assert found.requests["begin_ns"][1] == listed[2 + misses][0]
        assert [prompts for _, _, _, prompts in listed[:5]].index(1, 1) == 2 + misses
    assert found.waits_ns().keys() == {"overlap"}


def test_overlap_hides_the_hosts_time_behind_the_gpus():
    trace, host, hidden = [Request(0, 300, 8)], 1000, 200_000
    _, bare = iterations_of(trace, host_ns=0)
    took = [end - begin for begin, end, _, _ in bare]
    assert min(took) > hidden
    for overlap in (False, True):
        _, listed = iterations_of(trace, host_ns=host, hidden_ns=hidden, overlap=overlap)
        # Nothing is computed while the first one is scheduled.
        extra = [hidden] + [0 if overlap else hidden] * 7
        assert [end - begin for begin, end, _, _ in listed] == [
            gpu + host + more for gpu, more in zip(took, extra, strict=True)
        ]
    longer = max(took) + 5000
    _, listed = iterations_of(trace, host_ns=host, hidden_ns=longer, overlap=True)
    assert {end - begin for begin, end, _, _ in listed[1:]} == {longer + host}


def test_requests_wait_for_the_tokenizer():
    policy = ServingPolicy(host_ns=0, front_ns=1000)
    found = serve("llama3-8b", RequestTrace([Request(0, 100, 1), Request(0, 200, 1)]), policy=policy)
    each = policy.tokenizing_ns(100)
    first, second = found.requests["begin_ns"]
    assert first == each + 1000
    assert second == max(found.requests["first_token_ns"][0], 3 * each + 1000)


def test_batches_that_only_decode_are_launched_as_graphs():
    trace = requests_of("offline:prompt=16,output=16,count=8")
    base = ServingPolicy(host_ns=0, front_ns=0)
    slow = KernelTimes(replace(GPUS["h100-sxm"], graph_ns=10_000, stream_ns=20_000))
    times = [
        {
            bool(one.prompts): one.end_ns - one.begin_ns
            for one in serve(MODEL, trace, policy=replace(base, graph_batch=size), gpu=slow).iterations
        }
        for size in (0, 4, 8)
    ]
    assert times[0][True] < times[1][True] == times[2][True]
    assert times[0][False] < times[2][False] < times[1][False]


def test_warm_up_counts_in_no_latency():
    text = "closed:users=4,prompt=300,output=20"
    all_, later = (serve(MODEL, requests_of(text + more)) for more in ("", ",warmup=4"))
    assert all_.requests == later.requests
    columns = all_.per_request()
    for name in ("ttft_ns", "tpot_ns", "latency_ns"):
        assert later.percentiles(name)["mean"] == pytest.approx(columns[name][4:].mean())
        assert all_.percentiles(name)["mean"] == pytest.approx(columns[name].mean())
    first, warm = (one.percentiles("ttft_ns")["mean"] for one in (all_, later))
    assert first is not None
    assert warm is not None
    assert warm < first
    assert later.output_tokens_per_s == all_.output_tokens_per_s


@pytest.mark.parametrize("name", ENGINES)
def test_engines_serve(name):
    policy = engine_named(name).policy(80 << 30)
    found = serve("llama3-8b", requests_of("closed:users=8,prompt=1024,output=64"), policy=policy)
    assert f"by {name}" in found.text()
    assert found.document()["engine"] == name
    mixed = [one for one in found.iterations if one.decodes and one.prompts]
    assert bool(mixed) == policy.mixes
    assert len(found.requests["end_ns"]) == 80
    assert any("lengths of 80% to 100%" in line for line in found.assumed)


def test_chunks_of_prompts_do_not_stall_decoding():
    text = "constant:rate=20,prompt=3000,output=200,count=20"
    longest = {}
    for chunked in (True, False):
        policy = ServingPolicy(64, 512 if chunked else 8192, chunked_prefill=chunked, host_ns=0)
        found = serve("llama3-8b", requests_of(text), policy=policy)
        spans = [one.end_ns - one.begin_ns for one in found.iterations]
        longest[chunked] = max(spans)
        mixed = [one for one in found.iterations if one.decodes and one.prompts]
        assert bool(mixed) == chunked
    assert longest[True] < longest[False] / 3


def test_disaggregated_instances_do_one_thing_each():
    policy = ServingPolicy(prefill_instances=1, decode_instances=2, host_ns=0)
    trace = requests_of("poisson:rate=40,prompt=500,output=50,count=100,seed=2")
    found = serve("llama3-8b", trace, policy=policy)
    for one in found.iterations:
        assert bool(one.decodes) == (one.instance > 0)
        assert bool(one.prompts) == (one.instance == 0)
    assert set(found.requests["instance"]) == {1, 2}
    assert min(found.requests["transfer_ns"]) > 0
    assert found.transfer_bytes == 100 * 500 * 32 * 2 * 8 * 128 * 2
    slow = DimensionNetwork(["Switch"], [3], [1], [1000])
    slower = serve("llama3-8b", trace, policy=policy, network=slow)
    assert min(slower.requests["transfer_ns"]) >= 500 * 131_072  # ns at 1 GB/s
    assert sum(slower.per_request()["latency_ns"]) > sum(found.per_request()["latency_ns"])
    assert slower.percentiles("ttft_ns") == found.percentiles("ttft_ns")


def test_more_instances_share_the_requests():
    trace = requests_of("offline:prompt=64,output=16,count=40")
    one, four = (served(trace, ServingPolicy(8, instances=count)) for count in (1, 4))
    assert sorted(Counter(four.requests["instance"]).values()) == [10] * 4
    assert four.duration_ns < one.duration_ns / 2  # two batches in place of five


def test_closed_arrivals_keep_so_many_requests_under_way():
    found = served(requests_of("closed:users=3,prompt=20,output=8,count=12"), ServingPolicy())
    columns = found.per_request()
    for when in columns["arrival_ns"]:
        under_way = (columns["arrival_ns"] <= when) & (columns["end_ns"] > when)
        assert under_way.sum() == 3


def test_tables(tmp_path):
    found = served(requests_of("closed:users=3,prompt=20,output=8,count=12,range=1"), ServingPolicy())
    frame = found.to_dataframe()
    assert len(frame) == 12
    assert (frame["latency_ns"] == frame["ttft_ns"] + (frame["output"] - 1) * frame["tpot_ns"]).all()
    assert (found.to_dataframe(time="ms")["ttft_ms"] == frame["ttft_ns"] / 1e6).all()
    assert found.duration_s == (frame["end_ns"].max() - frame["arrival_ns"].min()) / 1e9
    iterations = found.to_dataframe("iterations", time="us")
    assert iterations["end_us"].tolist() == [one.end_ns / 1000 for one in found.iterations]
    with pytest.raises(InputError, match="no table"):
        found.to_dataframe("blocks")
    assert found.write_frames(tmp_path) == ["requests", "iterations", "gaps"]
    assert (found.to_dataframe("gaps")["tokens"].sum()) == 12 * 7
    assert (tmp_path / "requests.csv").read_text().count("\n") == 13


def test_a_prompt_makes_the_tokens_beside_it_late():
    """The first request has a token in every iteration; one of them computes the prompt of the second."""
    trace = RequestTrace([Request(0, 16, 5), Request(1, 4000, 2)])
    found = serve("llama3-8b", trace, policy=ServingPolicy(1 << 4, 1 << 14, front_ns=0))
    spans = Counter(one.end_ns - one.begin_ns for one in found.iterations if one.decodes)
    with_prompt = next(one for one in found.iterations if one.prompts and one.decodes)
    both = next(one for one in found.iterations if one.decodes == 2)
    spans[both.end_ns - both.begin_ns] += 1
    assert with_prompt.decodes == 1
    assert dict(zip(*(each.tolist() for each in found.gaps), strict=True)) == spans


def test_single_tokens_have_no_time_per_token():
    found = served(requests_of("offline:prompt=20,output=1,count=4"), ServingPolicy())
    for name in ("tpot_ns", "itl_ns"):
        assert found.percentiles(name) == dict.fromkeys(("mean", "p50", "p90", "p99"))
    assert "no request has a second token" in found.text()


@pytest.mark.parametrize(
    "text, policy, what",
    [
        ("offline:prompt=1000000,output=9,count=1", {}, "request 0 keeps 1,000,008 tokens"),
        ("offline:prompt=5000", {"token_budget": 4096, "chunked_prefill": False}, "a prompt of 5,000 tokens"),
    ],
)
def test_requests_that_cannot_be_served(text, policy, what):
    with pytest.raises(InputError) as error:
        serve("llama3-8b", requests_of(text), policy=ServingPolicy(**policy))
    assert what in str(error.value)


def test_requests_are_seen_every_so_many_iterations():
    """One user decodes, another one comes between two looks; behind a prompt the scheduler looks at once."""
    pair = RequestTrace([Request(0, 64, 400), Request(100_000_000, 64, 8)])
    plain = ServingPolicy(front_ns=0)
    often, seldom = (
        serve("llama3-8b", pair, policy=replace(plain, receive_every=every))
        for every in (((0, 1),), ((0, 100),))
    )
    begins = [found.to_dataframe()["begin_ns"].tolist() for found in (often, seldom)]
    assert begins[0][0] == begins[1][0]
    waits = [one[1] - 100_000_000 for one in begins]
    iteration = 10_000_000
    assert waits[0] < iteration < 20 * iteration < waits[1] < 100 * iteration
    # With nobody decoding there is nothing to wait for.
    late = RequestTrace([Request(0, 64, 4), Request(10**9, 64, 4)])
    alone = serve("llama3-8b", late, policy=replace(plain, receive_every=((0, 100),)))
    assert alone.to_dataframe()["begin_ns"].tolist()[1] == 10**9


def test_a_layer_of_prompts_takes_the_host_its_time():
    trace = requests_of("offline:prompt=64,output=4,count=1")
    plain = ServingPolicy(front_ns=0)
    slow = replace(plain, layer_ns=((0, 2_000_000),))
    graphs = replace(plain, layer_ns=((0, 2_000_000), (1, 0)))
    first = [
        serve("deepseek-r1", trace, tensor=8, gpu="h200-sxm", policy=one).percentiles("ttft_ns")["p50"]
        for one in (plain, slow, graphs)
    ]
    assert first[1] == 61 * 2_000_000 + plain.host_ns
    assert first[0] == first[2]
    assert first[0] is not None
    assert first[0] < first[1]
    dense = [serve("llama3-8b", trace, policy=one).percentiles("ttft_ns") for one in (plain, slow)]
    assert dense[0] == dense[1]


def test_by_default_an_instance_has_the_fewest_gpus_that_hold_the_model():
    trace = requests_of("offline:prompt=100,output=4,count=1")
    found = serve("llama3-70b", trace)
    assert found.gpus == 2
    assert any("2 GPUs of tensor parallelism, the fewest" in line for line in found.assumed)
    assert serve("llama3-8b", trace).gpus == 1
    # Blocks for the longest request count, too.
    long = requests_of("offline:prompt=100000,output=4,count=1")
    assert serve("llama3-70b", long).gpus == 4
    network = DimensionNetwork(["Switch"], [8], [400], [1000])
    assert serve("llama3-8b", trace, network=network).gpus == 8


def test_models_and_networks_that_do_not_fit():
    trace = requests_of("offline:count=1")
    with pytest.raises(InputError, match="generates no tokens"):
        serve("resnet-50", trace)
    with pytest.raises(InputError, match="positions for 2048"):
        serve("gpt3-6.7b", requests_of("offline:prompt=2000,output=100,count=1"))
    with pytest.raises(InputError, match="exceeds an MLP's 14336"):
        serve("llama3-8b", trace, tensor=20_000)
    with pytest.raises(InputError, match="for weights"):
        serve("llama3-70b", trace, tensor=1)
    with pytest.raises(InputError, match="for weights"):
        serve("llama3-405b", trace)  # more than a node holds
    with pytest.raises(InputError, match="the network has 3 NPUs, but the plan has 2 ranks"):
        serve("llama3-8b", trace, tensor=2, network=DimensionNetwork(["Switch"], [3], [1], [1000]))
