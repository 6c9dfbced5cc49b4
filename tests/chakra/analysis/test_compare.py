"""Traces side by side."""

from __future__ import annotations

from astranb.chakra import Node, Trace, TraceBuilder, compare, summary


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
