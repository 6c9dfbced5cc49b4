"""Whether a step fits, and which plan would."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.workload.kernels import GPUS
from astranb.workload.models import Job, Parallelism
from astranb.workload.models.fits import fullest, options_of, require_memory, what_fits
from tests.workload.models.support import TRANSFORMERS

H100 = GPUS["h100-sxm"].memory_bytes


def test_405_billion_parameters_do_not_fit_on_eight_gpus():
    model = TRANSFORMERS["llama3-405b"]
    with pytest.raises(InputError, match=r"needs 7,\d\d\d\.\d GB of the 85.5 GB of h100-sxm") as caught:
        require_memory(model, Job(Parallelism(data=8), 8192, 8), H100, "h100-sxm")
    assert "--tp 8 --sp --pp 16" in caught.value.hint
    assert "--memory-limit none" in caught.value.hint


def test_what_fits_is_given_back():
    model, job = TRANSFORMERS["llama3-8b"], Job(Parallelism(data=8, zero=3), 8192, 32, 4)
    assert require_memory(model, job, H100, "h100-sxm") == fullest(model, job)


def test_smaller_microbatches_come_before_other_degrees():
    model = TRANSFORMERS["llama3-8b"]
    better = what_fits(model, Job(Parallelism(data=8, zero=3), 8192, 32, 1), H100)
    assert better is not None
    assert options_of(better) == "--dp 8 --zero 3 --batch 32 --microbatches 4"


def test_nothing_fits_in_a_small_memory():
    model = TRANSFORMERS["llama3-405b"]
    job = Job(Parallelism(data=8), 8192, 8)
    assert what_fits(model, job, 2 << 30) is None
    with pytest.raises(InputError) as caught:
        require_memory(model, job, 2 << 30, "mine")
    assert caught.value.hint.startswith("take a GPU with more memory")


@given(
    st.sampled_from(["llama3-8b", "llama3-70b", "mixtral-8x7b", "gpt3-175b", "deepseek-v3"]),
    st.sampled_from([8, 16, 64, 256]),
    st.sampled_from(["training", "prefill", "decode"]),
)
def test_what_is_proposed_fits(name, data, mode):
    model = TRANSFORMERS[name]
    better = what_fits(model, Job(Parallelism(data=data), 2048, data * 4, 1, mode=mode), H100)
    if better is not None:
        assert fullest(model, better).total <= H100
        assert len(shlex.split(options_of(better))) % 2 == ("--sp" in options_of(better))
