"""Values of ``gpu=``, wherever it can be passed."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.gpu import preset
from astranb.gpu.chosen import chosen_preset, with_numbers


def _unroll(**given):
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB"), record=False, **given)
    return sim.engine.presets[0].name, sim.engine.presets[0].unroll


def test_numbers_of_the_infrastructures_own_gpu_and_of_another_one():
    own, unroll = _unroll()
    assert _unroll(gpu={"unroll": unroll + 4}) == (own, unroll + 4)
    assert _unroll(gpu={"preset": "a100-sxm", "unroll": 3}) == ("a100-sxm", 3)
    assert _unroll(gpu={"preset": preset("a100-sxm")})[0] == "a100-sxm"


def test_ranks_with_one_preset_keep_one():
    a, b = preset("h100-sxm"), preset("a100-sxm")
    found = with_numbers([a, b, a], {"unroll": 5})
    assert (found[0] is found[2], [one.unroll for one in found]) == (True, [5, 5, 5])
    assert with_numbers([a, b], {}) == [a, b]


def test_what_is_no_gpu_is_refused():
    with pytest.raises(InputError, match=r"unrol.*did you mean 'unroll'"):
        _unroll(gpu={"unrol": 8})
    with pytest.raises(InputError, match="did you mean 'h100-sxm'"):
        _unroll(gpu={"preset": "h100-sx"})
    with pytest.raises(InputError, match="not a GPU: 3"):
        chosen_preset(3)  # type: ignore[arg-type]


def test_the_best_algorithm_is_found_for_changed_numbers():
    found = anb.explore.best_algorithm(
        "switch:gpus=2", "all_reduce", "4 KiB", algorithms=["ring"], gpu={"unroll": 2}
    )
    assert found is not None
