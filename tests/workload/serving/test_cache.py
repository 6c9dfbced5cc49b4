"""The policy, and the blocks that fit in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from astranb.core.errors import InputError
from astranb.workload.kernels import GPUS
from astranb.workload.models import Job, Parallelism
from astranb.workload.models.library import TRANSFORMERS
from astranb.workload.models.memory import rank_memory
from astranb.workload.serving import ServingPolicy, cache_blocks, token_bytes

MODEL = TRANSFORMERS["llama3-70b"]
LIMIT = GPUS["h100-sxm"].memory_bytes


def job(tensor=8, **more):
    return Job(Parallelism(tensor=tensor), 1, 1, mode="decode", **more)


def test_a_token_takes_the_bytes_of_its_keys_and_values():
    # 80 layers, 8 heads of keys and values of 128 numbers, 2 bytes, over 8 GPUs
    assert token_bytes(MODEL, job()) == 80 * 2 * 8 * 128 * 2 // 8
    assert token_bytes(MODEL, job(cache_bytes=1)) == token_bytes(MODEL, job()) // 2
    # Latent vectors are not divided over GPUs: 61 layers of 512 + 64 numbers.
    assert token_bytes(TRANSFORMERS["deepseek-v3"], job()) == 61 * 576 * 2


def test_blocks_weights_and_buffers_fill_the_memory():
    policy = ServingPolicy()
    blocks = cache_blocks(MODEL, job(), policy, LIMIT)
    prefill = replace(job(), mode="prefill", sequence=policy.token_budget)
    held = rank_memory(MODEL, prefill, 0)
    used = held.weights + held.buffers + blocks * 16 * token_bytes(MODEL, job())
    assert 0 <= int(LIMIT * 0.9) - used < 16 * token_bytes(MODEL, job())


def test_more_room_has_more_blocks():
    policy = ServingPolicy()
    base = cache_blocks(MODEL, job(), policy, LIMIT)
    assert cache_blocks(MODEL, job(precision="fp8"), policy, LIMIT) > base
    assert cache_blocks(MODEL, job(cache_bytes=1), policy, LIMIT) == pytest.approx(2 * base, abs=1)
    assert cache_blocks(MODEL, job(), replace(policy, memory_fraction=0.95), LIMIT) > base
    assert cache_blocks(MODEL, job(), replace(policy, token_budget=2048), LIMIT) > base
    assert cache_blocks(MODEL, job(), policy, 2 * LIMIT) > 2 * base


def test_a_model_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"141\.1 GB for weights"):
        cache_blocks(MODEL, job(1), ServingPolicy(), LIMIT)


@pytest.mark.parametrize(
    "values, where",
    [
        ({"max_batch": 0}, "max_batch"),
        ({"token_budget": 0}, "token_budget"),
        ({"max_batch": 9000}, "token_budget"),
        ({"block_size": 0}, "block_size"),
        ({"watermark": float("nan")}, "watermark"),
        ({"watermark": 0.9}, "watermark"),
        ({"memory_fraction": 0.0}, "memory_fraction"),
        ({"host_ns": -1}, "host_ns"),
        ({"instances": 0}, "instances"),
        ({"prefill_instances": 1}, "disaggregate"),
        ({"prefill_instances": 1, "decode_instances": 1, "instances": 2}, "instances"),
    ],
)
def test_a_policy_that_does_not_fit_together(values, where):
    with pytest.raises(InputError) as error:
        ServingPolicy(**values)
    assert error.value.where == where
