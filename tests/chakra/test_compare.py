"""Traces side by side, and a trace made like another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.chakra import Node, NodeType, Trace, TraceBuilder, check, compare, summary, synthesize
from astranb.core.errors import InputError


def _step(layers: int = 20, **first: int) -> Trace:
    made = TraceBuilder()
    last: list[int] = []
    for layer in range(layers):
        size = first.get("num_ops", 1000) if not layer else 1000 + layer
        last = [made.compute(f"L{layer}", num_ops=size, tensor_size=64 * layer, after=last)]
        last = [made.collective("all_reduce", 4096 + layer, group="1", after=last)]
    made.send(10, 1, rank=0, after=last)
    return made.build()


def test_a_trace_is_the_same_as_itself_and_as_one_written_in_other_words():
    one = _step()
    said = compare(one, one)
    assert said["same"]
    assert said["identical"]
    assert said["differences"] == {}
    assert said["first_difference"] is None
    other = Trace.of(one.nodes(), metadata={"note": "x"})
    said = compare(one, other)
    assert said["same"]
    assert not said["identical"]


def test_the_first_difference_is_named():
    said = compare(_step(), _step(num_ops=5))
    assert said["differences"] == {
        "num_ops": [summary(_step())["num_ops"], summary(_step())["num_ops"] - 995]
    }
    assert said["same_structure"]
    place = said["first_difference"]
    assert (place["row"], place["fields"]) == (0, ["num_ops"])
    assert place["second"]["attributes"]["num_ops"] == 5


def test_one_that_goes_on_and_one_that_waits_for_something_else():
    nodes = list(_step().nodes())
    said = compare(Trace.of(nodes), Trace.of(nodes[:-1]))
    assert (said["first_difference"]["row"], said["first_difference"]["second"]) == (len(nodes) - 1, None)
    assert said["differences"]["sent_bytes"] == [10, 0]
    for deps, same in (((0,), False), ((3, 2), False), ((3,), True)):
        nodes[4] = Node(4, nodes[4].name, nodes[4].type, deps, attributes=nodes[4].attributes)
        said = compare(_step(), Trace.of(nodes))
        assert said["same"] == said["same_structure"] == same
        if not same:
            assert (said["first_difference"]["row"], said["first_difference"]["fields"]) == (4, ["parents"])


@given(st.integers(1, 400), st.integers(0, 5))
def test_a_made_trace_is_like_the_original(count, seed):
    original = _step()
    made = synthesize(original, nodes=count, seed=seed)
    check(made)
    assert len(made) == count
    assert compare(made, synthesize(original, nodes=count, seed=seed))["identical"]
    assert not (made.type == NodeType.COMM_SEND).any()
    # Computations and collectives take turns, as in the original, with its sizes.
    assert abs(int((made.type == NodeType.COMP).sum()) - count / 2) <= 1
    collective = made.type == NodeType.COMM_COLL
    assert set(made.comm_size[collective].tolist()) <= set(original.comm_size.tolist())
    assert set(made.pg_name.values) <= {"1"}
    assert not synthesize(original, nodes=count, seed=seed, groups=False).has("pg_name").any()
    assert np.diff(made.parents.offset).max(initial=0) <= 1


def test_other_seeds_make_others_and_sums_come_near():
    original = _step(200)
    one, other = (synthesize(original, nodes=4000, seed=seed) for seed in (1, 2))
    assert one != other
    for name in ("num_ops", "dependencies"):
        assert summary(one)[name] / 4000 == pytest.approx(summary(original)[name] / 401, rel=0.05)


def test_there_has_to_be_something_to_be_like():
    with pytest.raises(InputError, match="only messages"):
        synthesize(Trace.of([Node(0, "m", NodeType.METADATA)]))
    with pytest.raises(InputError, match="0 nodes"):
        synthesize(_step(), nodes=0)
