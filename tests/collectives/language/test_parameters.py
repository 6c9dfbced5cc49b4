"""The parameters of an algorithm's function: given, refused, shown."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest

import astranb as anb
from astranb.collectives import Collective, algorithm
from astranb.collectives.language.parameters import parameters_of
from astranb.collectives.library.registry import ALGORITHMS
from astranb.core.errors import InputError


def _shift(p, distance=1, *, order: Literal["near", "far"] = "near"):
    for me in p.everyone:
        there = p.rank((me.number + distance) % p.ranks)
        me.block().put(me.input[0], there.output[0])
        if order == "far":
            me.block()


def _blocks(**given):
    return len(Collective.of("custom", "1 KiB", _shift, channels=1, **given).program(4).blocks)


def test_values_reach_the_function_and_the_title():
    collective = Collective.of("custom", "1 KiB", _shift, channels=1, params={"distance": 2, "order": "far"})
    program = collective.program(4)
    assert program.blocks[0].operations[0].targets[0].rank == 2
    assert len(program.blocks) == 8
    assert collective.title == program.name == "custom/_shift(distance=2, order=far)"
    assert Collective.of("custom", "1 KiB", _shift).title == "custom/_shift"


def test_a_partial_is_the_function_with_these_parameters():
    collective = Collective.of("custom", "1 KiB", partial(_shift, distance=3))
    assert (collective.algorithm, collective.params) == (_shift, {"distance": 3})
    given = Collective.of("custom", "1 KiB", partial(_shift, distance=3), params={"distance": 2})
    assert given.params == {"distance": 2}

    def many(p, *, ranks):
        for rank in ranks:
            p.block(rank).put(p.input(rank)[0], p.output(rank)[0])

    whole = Collective.of("custom", "1 KiB", partial(many, ranks=[0, 2]), channels=1)  # no value for a title
    assert whole.title == "custom/many"
    assert len(whole.program(4).blocks) == 2


@pytest.mark.parametrize(
    "params,message",
    [
        (
            {"distanc": 2},
            r"test_parameters.py line \d+: _shift has no parameter 'distanc'; did you mean",
        ),
        ({"order": "middle"}, "order is 'middle'; use 'near' or 'far'"),
        ({"distance": [1]}, "distance is \\[1\\]; give a number"),
        ({1: 2}, "not values by name"),
    ],
)
def test_wrong_values_are_refused_with_the_line(params, message):
    with pytest.raises(InputError, match=message):
        Collective.of("custom", "1 KiB", _shift, params=params)


def test_a_parameter_without_a_value_and_one_without_a_name_are_refused():
    def needs(p, *, slices): ...

    with pytest.raises(InputError, match=r"needs needs a value for 'slices'; give it, as slices=16"):
        Collective.of("custom", "1 KiB", needs)

    def unnamed(p, slices, /): ...

    with pytest.raises(InputError, match=r"'slices' cannot be given by name; write def unnamed\("):
        Collective.of("custom", "1 KiB", unnamed)
    with pytest.raises(InputError, match="it has none; add a keyword parameter"):
        Collective.of("custom", "1 KiB", lambda _: None, params={"slices": 8})


def test_registered_algorithms_have_parameters_too():
    algorithm("custom", "shifted")(_shift)
    try:
        assert _blocks() == 4
        collective = Collective.of("custom", "1 KiB", "shifted", params={"order": "far"})
        assert len(collective.program(4).blocks) % 8 == 0
        with pytest.raises(InputError, match="has no parameter 'far'"):
            Collective.of("custom", "1 KiB", "shifted", params={"far": 1})
    finally:
        del ALGORITHMS["custom", "shifted"]


def test_the_public_functions_take_parameters():
    def f(p, *, slices=8): ...

    assert anb.collectives.all_reduce("1 KiB", f, params={"slices": 2}).params == {"slices": 2}
    assert anb.collectives.all_gather("1 KiB", f, params={"slices": 2}, chunks=64).chunks == 64
    assert anb.collectives.broadcast("1 KiB", f, params={"slices": 2}).title == "broadcast/f(slices=2)"


def test_a_run_is_rebuilt_with_other_parameters():
    sim = anb.Simulation("switch:gpus=4", Collective.of("custom", "1 KiB", _shift), record=False)
    assert sim.rebuilt(params={"distance": 3}).engine.work.params == {"distance": 3}
    other = sim.rebuilt(params={"distance": 3}).rebuilt(params={"order": "far"}, size="2 KiB")
    assert other.engine.work.params == {"distance": 3, "order": "far"}
    with pytest.raises(InputError, match="has no parameter"):
        sim.rebuilt(params={"slices": 3})


def test_functions_say_what_they_take():
    def anything(p, **values): ...

    assert parameters_of(anything) is None
    assert [(one.name, one.choices) for one in parameters_of(_shift) or ()] == [
        ("distance", ()),
        ("order", ("near", "far")),
    ]
