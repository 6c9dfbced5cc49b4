"""Whether a step fits, and which plan would."""

from __future__ import annotations

import math
import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.cli import main
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
    assert "nothing similar fits on 8 GPUs: take 128, with --tp 8 --sp --pp 16" in caught.value.hint
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


@given(
    st.sampled_from(["llama3-8b", "llama3-70b", "llama3-405b", "mixtral-8x7b", "gpt3-175b"]),
    st.sampled_from([1, 4, 8, 16, 64]),
    st.sampled_from(["training", "prefill", "decode"]),
)
@settings(max_examples=25, deadline=None)
def test_a_proposal_keeps_to_the_gpus_that_there_are(name, ranks, mode):
    """If more are needed, it says that nothing similar fits, and how many are; it proposes as many."""
    model, job = TRANSFORMERS[name], Job(Parallelism(data=ranks), 2048, ranks, 1, mode=mode)
    if fullest(model, job).total <= H100:
        return
    with pytest.raises(InputError) as caught:
        require_memory(model, job, H100, "h100-sxm", fp8=True)
    hint = caught.value.hint
    found = re.match(r"(nothing similar fits on (\d+) GPUs?: take ([\d,]+), with |take )(--[^;]+)", hint)
    if found is None:
        assert hint.startswith("take a GPU with more memory")
        return
    words = iter(found[4].split())
    asked = {word: next(words) for word in words if word != "--sp"}
    count = math.prod(int(asked.get(flag, 1)) for flag in ("--tp", "--dp", "--pp", "--cp"))
    assert count == (ranks if found[3] is None else int(found[3].replace(",", "")))
    if found[3] is not None:
        assert int(found[2]) == ranks
        assert count > ranks


def test_what_the_host_or_fewer_bits_can_hold_needs_no_more_gpus(capsys):
    """70 billion parameters: 12 bytes each of the optimizer's state, over eight GPUs more than they have."""
    assert H100 < 70e9 * 12 / 8
    asked = "run model llama3-70b --tp 8 --infra dgx-h100"
    assert main(asked.split()) == 2
    said = capsys.readouterr().err
    options = re.search(r"take (--tp 8 [^;]*--offload optimizer); or more GPUs: 16, with --tp 8", said)
    assert options is not None
    assert main(f"run model llama3-70b --infra dgx-h100 {options[1]}".split()) == 0
    capsys.readouterr()
    asked = "run model llama3-405b --mode decode --tp 8 --infra dgx-h100"
    assert main(asked.split()) == 2
    said = capsys.readouterr().err
    assert "take --tp 8 --batch 1 --microbatches 1 --precision fp8; or more GPUs: 16, with" in said
    assert main([*asked.split(), "--precision", "fp8"]) == 0


def test_a_search_of_plans_where_none_fits_proposes_the_same(capsys):
    assert main(["run", "model", "llama3-70b", "--tp", "8", "--infra", "dgx-h100", "--suggest"]) == 0
    assert "none fits: take --tp 8" in capsys.readouterr().out
