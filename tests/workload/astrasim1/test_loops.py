"""Training loops: the order of their computations, and the errors of unknown ones."""

import pytest

from astranb.core.errors import InputError
from astranb.workload.astrasim1 import Action, Layer, Layers, LayerTable, Part
from astranb.workload.astrasim1.loops import loop_named


def _order(loop, count=4, **more):
    layers = tuple(
        Layer(f"l{number}", Part(1), Part(1), Part(1, "ALLREDUCE", 4096)) for number in range(count)
    )
    table = LayerTable(loop, layers, **more)
    short = "fiw"
    steps = loop_named(loop).function(Layers.of(table))
    actions = [a for step in steps for a in ((step,) if isinstance(step, Action) else step)]
    return " ".join(f"{short[a.part]}{a.layer}" for a in actions if a.verb == "compute")


def test_loops_compute_in_the_order_of_the_tutorial():
    assert _order("DATA") == "f0 f1 f2 f3 w3 i3 w2 i2 w1 i1 w0"
    assert _order("DATA_REORDER") == "f0 f1 f2 f3 i3 w3 i2 w2 i1 w1 w0"
    assert _order("MODEL") == "f0 f1 f2 f3 i3 w3 i2 w2 i1 w1 i0 w0"
    assert _order("DISTRIBUTED_INFERENCE") == "f0 f1 f2 f3"
    assert _order("MICRO") == ""
    assert _order("HYBRID_DLRM", last_bottom=1) == "f0 f1 f2 f3 w3 i3 w2 i2 w1 i1 w0"


def test_activations_are_recomputed_from_the_checkpoint():
    order = _order("HYBRID_TRANSFORMER_FWD_IN_BCKWD", checkpoints=(0, 2), initiates=(1, 3), group=1)
    assert order == "f0 f1 f2 f3 f2 i3 w3 i2 w2 f0 i1 w1 i0 w0"
    with pytest.raises(InputError, match=r"layer 1 .* no checkpoint"):
        _order("HYBRID_TRANSFORMER_FWD_IN_BCKWD", checkpoints=(1,), initiates=(1,), group=1)


def test_an_unknown_loop_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match="did you mean 'DATA'"):
        loop_named("DATTA")
