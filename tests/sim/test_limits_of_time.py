"""Times that cannot be counted: one line that names the operation, in every engine, never a wrong number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline import Graph
from astranb.engine.messages.run import simulate
from astranb.sim import Simulation
from astranb.workload.astrasim1 import Layer, Part
from astranb.workload.astrasim2 import COLLECTIVE, COMPUTE, DimensionNetwork, Operations, System, Workload
from astranb.workload.astrasim2.kinds import INTRA
from benchmarks.hostile import many_chunks
from tests.engine.operations.support import ONE_RING, SYSTEM, by_messages, mixed, sim_of

_LONG = 2**48  # µs
_ONE = System.from_document({k: v[:1] if isinstance(v, list) else v for k, v in SYSTEM.items()})


def _computations(count: int, us: int) -> Operations:
    rows = [{"kind": COMPUTE, "duration_ns": 1000 * us}] * count
    return Operations.of(rows, [[], *([row] for row in range(count - 1))])


def _reduced(size: int = 1 << 16) -> Operations:
    return Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": size}])


def _by_messages(one: Operations, network: Any = ONE_RING, **options: Any) -> Simulation:
    return by_messages([one] * 6, network, _ONE, **options)


def _ring(bandwidth: float, latency: float) -> DimensionNetwork:
    return DimensionNetwork(["Ring"], [6], [bandwidth], [latency])


@pytest.mark.parametrize("options", [{}, {"congestion": True}, {"record": False}], ids=str)
@pytest.mark.parametrize(
    "one, network, says",
    [
        (_computations(40, _LONG), ONE_RING, r"rank 0, operation 0 \(computation\)"),
        (_computations(40, 2**40), ONE_RING, r"rank 0, operation 2 \(computation\)"),
        (_reduced(), _ring(50, 1e18), r"rank 0, operation 0 \(all_reduce of 65536 bytes\)"),
        (_reduced(), _ring(50, 1e300), r"rank 0, operation 0 \(all_reduce"),
        (_reduced(), _ring(1e-300, 1), r"rank 0, operation 0 \(all_reduce"),
        (_reduced(2**50), _ring(1e-3, 1), r"rank 0, operation 0 \(all_reduce"),
    ],
    ids=["one", "the sum", "latency", "infinite latency", "no bandwidth", "size"],
)
def test_an_operation_that_ends_too_late_is_named(
    options: dict[str, Any], one: Operations, network: Any, says: str
) -> None:
    sim = _by_messages(one, network, **options)
    with pytest.raises(InputError, match=says + ".* ends after more than 26 days") as caught:
        sim.run()
    assert "\n" not in str(caught.value)
    assert 0 <= sim.now_ps < 2**61
    with pytest.raises(InputError, match="26 days"):  # and again, by whatever verb
        sim.step(10)
    sim.reset()
    assert (sim.events, sim.now_ps) == (0, 0)


def test_without_a_simulation_it_is_the_same_error() -> None:
    with pytest.raises(InputError, match="rank 0, operation 0"):
        simulate(Workload([_computations(40, _LONG)] * 6, ONE_RING, _ONE))


def test_what_ends_in_time_is_exact() -> None:
    sim = _by_messages(_computations(2, 2**40))
    sim.run()
    assert sim.now_ps == 2 * 2**40 * 10**6


@pytest.mark.parametrize("size", [2**50 + 1, 2**62, 2**64])
def test_a_size_that_cannot_be_counted_names_its_operation(size: int) -> None:
    with pytest.raises(InputError, match=r"operation 0.* (more than|too large)"):
        _reduced(size)


def _changed(make: Callable[[], Simulation], *edits: tuple[str, str]) -> Callable[[], Simulation]:
    def made() -> Simulation:
        sim = make()
        for path, value in edits:
            sim.set(path, value)
        return sim

    return made


def _layers(ns: int) -> Simulation:
    return sim_of("DATA", (Layer("a", Part(ns), Part(1), Part(1)),))


def _lines(us: int) -> Simulation:
    return Simulation(
        "ring:gpus=2", Graph([_computations(3, us)] * 2, System.from_document({})), gpu="h100-sxm"
    )


_L2: Sequence[tuple[str, str]] = tuple((f"gpu[{rank}].l2", "2000000 s") for rank in range(2))


@pytest.mark.parametrize(
    "make, says",
    [
        (_changed(mixed, ("dim[0].latency", "9223372 s")), "operation 1"),
        (_changed(lambda: _by_messages(_computations(2, 2**40)), ("rank[1].speed", "0.000001")), "rank 1"),
        (lambda: _layers(2**62), "over 50 days"),
        (lambda: _layers(2**80), "over 50 days"),
        (_changed(lambda: _layers(2**42), ("rank[0].speed", "0.000001")), "over 50 days"),
        (lambda: _lines(_LONG), "computations of rank 0"),
        (lambda: _lines(2**40), "computations of rank 0"),
        (
            _changed(lambda: Simulation("ring:gpus=2", anb.collectives.all_reduce("4 KiB", "ring")), *_L2),
            "hop of .* after more than 26 days",
        ),
        (
            _changed(
                lambda: Simulation("ring:gpus=2", anb.collectives.all_reduce("4 KiB", "ring")),
                ("gpu[0].l2", "9000000 s"),
            ),
            "more than 26 days",
        ),
    ],
)
def test_a_change_or_a_layer_is_refused_likewise(make: Callable[[], Simulation], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        make().run()
    assert "\n" not in str(caught.value)


def test_a_latency_that_would_be_polled_for_too_long_names_its_link() -> None:
    document = anb.infragraph.blueprint("ring:gpus=2").to_dict()
    owner = document.get("infrastructure", document)
    for device in owner["devices"]:
        for link in device["links"]:
            link["physical"] = {"latency": {"ms": 2 * 86_400_000}}
    collective = anb.collectives.all_reduce("4 KiB", algorithm="ring")
    with pytest.raises(InputError, match=r"the latency of \S+->\S+ is .*; at most 1 s"):
        Simulation(anb.infragraph.load(document), collective)
    Simulation(anb.infragraph.load(document), collective, fidelity="congestion").run()
    for device in owner["devices"]:
        for link in device["links"]:
            link["physical"] = {"latency": {"ms": 999}}
    Simulation(anb.infragraph.load(document), collective)


@pytest.mark.parametrize("order", INTRA)
def test_a_collective_of_65535_chunks_begins_at_once(order: str) -> None:
    """It is a second of computation; a search of the queue for every chunk would take minutes."""
    run = many_chunks(order)
    run.go(steps=20_000)
    assert run.events == 20_000
