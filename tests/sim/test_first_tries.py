"""First tries of a newcomer that go wrong: one line with what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import astranb as anb
from astranb.core.errors import InputError

RING = "ring:gpus=4"
UNITS: Any = anb.units


def by_messages() -> anb.Simulation:
    sim = anb.Simulation(RING, anb.all_reduce("4 KiB", "ring"), fidelity="congestion")
    sim.run()
    return sim


def by_lines() -> anb.Simulation:
    return anb.Simulation(RING, anb.all_reduce("4 KiB", "ring"))


@pytest.mark.parametrize(
    "attempt, write",
    [
        (lambda sim: sim.now, r"did you mean 'now_us'"),
        (lambda sim: sim.time_us, r"write sim\.result\.time_us"),
        (lambda sim: sim.explain(), r"write sim\.result\.explain"),
        (lambda sim: sim.result.time, r"'time_us'"),
        (lambda sim: sim.result.links, r"write to_dataframe\('links'\)"),
        (lambda sim: sim.critical_path().causes, r"did you mean 'by_cause'"),
        (lambda sim: sim.watch("link[0].bytes").values_us, r"did you mean 'value'"),
        (lambda sim: sim.play(), r"write run\(\), or press Play in anb\.Workbench\(sim\)"),
        (lambda sim: sim.copy(), r"write fork\(\)"),
        (lambda sim: sim.links, r"write sim\.result\.to_dataframe\('links'\)"),
        (lambda sim: sim.time, r"write now_us"),
        (lambda sim: sim.result.bandwidth, r"write algbw_Bps or busbw_Bps"),
        (
            lambda _: anb.load,
            r"write anb\.Simulation\.load\(path\), of an infrastructure anb\.infragraph\.load",
        ),
        (lambda _: anb.broadcast, r"write astranb\.collectives\.broadcast"),
        (lambda _: anb.blueprint, r"write astranb\.infragraph\.blueprint"),
        (lambda _: UNITS.KB, r"did you mean 'kB'"),
        (lambda _: UNITS.format_size, r"'format_bytes'"),
    ],
)
def test_an_unknown_attribute_has_what_to_write(attempt: Callable[[Any], Any], write: str) -> None:
    with pytest.raises(AttributeError, match=write):
        attempt(by_messages())


@pytest.mark.parametrize(
    "attempt, write",
    [
        (lambda sim: sim.at(3), r"a name is text, got 3; write for example 'gpu\[3\]'"),
        (lambda sim: sim.why(2), r"a name is text"),
        (lambda sim: sim.at("ranks[1]"), r"did you mean 'rank\[1\]'"),
        (lambda sim: sim.at("gpu[0]->gpu[2]"), r"for example gpu\[0\]->gpu\[1\], gpu\[0\]->gpu\[3\]"),
        (lambda sim: sim.watch("link[0]"), r"'link\[0\]' is an object; name a field; known: busy_ns, bytes"),
        (lambda sim: sim.break_when("rank[0].waiting = 1"), r"<op> is one of < <= =="),
        (lambda sim: sim.break_when("rank[0].waiting"), r"write <path>\.<field> <op> <number>"),
        (
            lambda sim: sim.break_when("rank[0].waiting > 0 and rank[1].waiting > 0"),
            r"write a breakpoint for each comparison",
        ),
        (lambda sim: sim.set("link[0].bandwidth", "2x"), r"'2x' is not a factor; write x2"),
        (lambda sim: sim.what_if("link[0].bandwidth", "0.5*"), r"write x0\.5"),
        (lambda sim: sim.result.to_dataframe("blocks"), r"fidelity='cacheline'"),
        (lambda _: by_lines().at("link[0]"), r"write its ends: gpu\[0\]->gpu\[1\]"),
        (lambda _: by_lines().at("block[2]"), r"write its GPU, too: gpu\[0\]\.block"),
        (lambda _: by_lines().watch("gpu[0]->gpu[1]"), r"'gpu\[0\]->gpu\[1\]' is an object; name a field"),
        (lambda _: by_lines().watch("gpu[0]->gpu[9].bytes"), r"ranks are 0 to 3"),
        (lambda _: anb.all_reduce("4 KiB", "direct"), r"ASTRA-sim's direct is 'allpairs'"),
        (lambda _: anb.all_gather("4 KiB", "doubleBinaryTree"), r"known: allpairs"),
        (lambda _: anb.all_reduce("4 KiB", "get"), r"did you mean 'allpairs_get'"),
        (lambda _: anb.all_reduce("4 KiB", "ring", protocol="ll"), r"did you mean 'LL'"),
        (lambda _: anb.all_reduce("4 KiB", "ring", channels="1"), r"a whole number of at least 1, got '1'"),  # type: ignore[arg-type]
        (lambda _: anb.gpu.preset("H100-SXM"), r"did you mean 'h100-sxm'"),
        (lambda _: anb.infragraph.blueprint("ring:8"), r"write ring:gpus=8"),
        (lambda _: anb.infragraph.blueprint("generic:latency=2us"), r"a whole number of ns from 500"),
        (lambda _: anb.infragraph.blueprint("rails:bandwidth=fast"), r"a whole number of Gb/s"),
        (lambda _: anb.collectives.verify(anb.all_gather("4 KiB", "ring")), r"write verify\(anb"),
        (lambda _: anb.collectives.verify(anb.all_gather, RING), r"neither a collective nor a program"),  # type: ignore[arg-type]
        (lambda _: anb.Simulation(RING, fidelty="congestion"), r"did you mean 'fidelity'"),  # type: ignore[call-arg]
        (lambda _: anb.Simulation(RING, down="gpu[0]->gpu[1]"), r"infra\.without\('gpu\[0\]->gpu\[1\]'\)"),  # type: ignore[call-arg]
        (lambda _: anb.Simulation(RING, size="4 KiB"), r"anb\.all_reduce\('1 MiB'\)"),  # type: ignore[call-arg]
        (lambda sim: anb.export.page("x.html", sim), r"comes first; write page\(sim, 'run"),  # type: ignore[arg-type]
        (lambda sim: sim.step(kind="line"), r"write step\(1, 'line'\)"),
        (lambda sim: sim.set("gpu[0]->gpu[1]", bandwidth="x2"), r"'gpu\[0\]->gpu\[1\]\.bandwidth'"),
        (lambda sim: sim.what_if("gpu[0]->gpu[1]", bandwidth="x2"), r"'gpu\[0\]->gpu\[1\]\.bandwidth'"),
        (lambda _: anb.models.Parallelism(dp=2), r"unknown option 'dp'; write data"),  # type: ignore[call-arg]
        (
            lambda _: anb.models.workload("gpt3-125m", dp=2),  # type: ignore[call-arg]
            r"workload: unknown option 'dp'; write Parallelism\(data=\.\.\.\) behind the model",
        ),
        (lambda _: anb.astrasim2.System(chunks=4), r"write splits"),  # type: ignore[call-arg]
        (lambda _: anb.astrasim2.System(splits="4"), r"splits: '4' is not a whole number"),  # type: ignore[arg-type]
        (lambda _: anb.astrasim1.HierarchicalNetwork("Ring", npus=8), r"write units"),  # type: ignore[call-arg]
        (lambda _: anb.astrasim1.Part("500 ps"), r"not a whole number of nanoseconds"),
        (lambda _: anb.astrasim1.Part(compute="20 us"), r"write compute_ns"),  # type: ignore[call-arg]
        (lambda _: anb.astrasim1.Layer("fc", ["20 us"]), r"not a part of a layer: \['20 us'\]; write Part"),  # type: ignore[arg-type]
        (lambda _: anb.astrasim1.LayerTable("DATA", ["fc"]), r"not a layer: 'fc'; write Layer"),  # type: ignore[list-item]
        (lambda _: anb.all_reduce("4 KiB", "ring", slices=8), r"is given as params=\{'slices': 8\}"),  # type: ignore[call-arg]
        (lambda _: anb.all_reduce("4 KiB", "ring", chanels=8), r"did you mean 'channels'"),  # type: ignore[call-arg]
        (
            lambda _: anb.collectives.write_algorithm(anb.all_gather("4 KiB"), "x.json"),  # type: ignore[arg-type]
            r"not a program: .*; write write_algorithm\(collective\.program\('dgx-h100'\)",
        ),
    ],
)
def test_a_wrong_input_has_what_to_write(attempt: Callable[[Any], Any], write: str) -> None:
    with pytest.raises(InputError, match=write):
        attempt(by_messages())


@pytest.mark.parametrize(
    "line, write",
    [
        ("block.signal(me.right)", r"not a semaphore: rank 1; make one of each rank with me\.semaphore\(\)"),
        ("block.put(me.input, me.right.output[me])", r"not a chunk: the input of rank 0; index a buffer"),
        ("block.copy(me.input[0], me.right.output)", r"not a chunk: the output of rank 1"),
        (
            "block.copy(me.input[0], me.scratch[-1])",
            r"scratch\[-1\] of rank 0 does not exist; chunks count from 0",
        ),
        ("block.reduce(me.input[0], me.output[me])", r"write reduce\(\[chunk, chunk\], target\)"),
        ("me.output[(me - 1) % p.ranks]", r"write me\.number for the number of a rank"),
        ("p.everyone[me + 1]", r"write me\.number for the number of a rank"),
        ("me.id", r"write me\.number"),
        ("me.next.output[0]", r"write me\.right"),
        ("me.where", r"known: along, block, .*number"),
        ("p.world_size", r"write p\.ranks"),
        (
            "block.send(me.input[0], me.right)",
            r"write wires\[me, you\]\.send\(block, chunk\), with wires",
        ),
        ("block.add(me.input[0], me.output[0])", r"write reduce\(\[chunk, chunk\], target\)"),
        ("me.input.chunks", r"write len\(me\.input\)"),
        ("p.connections[me, me.right]", r"call it first, with \(\)"),
        ("p.everyone()", r"leave its \(\) out"),
        ("p.connections()[me.right]", r"a connection has two ends: wires\[me, you\]"),
        ("block.wait(me.semaphore)", r"not a semaphore: .{1,60}; make one"),
        ("p.connections()[me, me.right].send(block, None)", r"not a chunk: None; index a buffer"),
        (
            "block.copy(p.connections()[me.left, me].receive(block), me.output[:])",
            r"different lengths.*of several chunks is receive\(block, me\.input\[:\]\)",
        ),
        ("list(p.cut_into('8'))", r"cannot be cut into '8' slices; use a whole number of at least 1"),
    ],
)
def test_a_wrong_line_of_an_algorithm_has_what_to_write(line: str, write: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def wrong(p):\n for me in p.everyone:\n  block = me.block()\n  {line}\n", scope)
    with pytest.raises(InputError, match=write):
        anb.collectives.verify(anb.all_gather("4 KiB", scope["wrong"]), RING)


def test_times_are_asked_for_as_they_are_shown() -> None:
    result = by_messages().result
    assert result.to_dataframe("links", time="µs").equals(result.to_dataframe("links", time="us"))


def test_the_error_of_a_property_is_its_own() -> None:
    class Broken(anb.Simulation):
        @property
        def broken(self) -> int:
            return [].missing  # type: ignore[attr-defined,no-any-return]

    sim = Broken(RING, anb.all_reduce("4 KiB", "ring"))
    with pytest.raises(AttributeError, match="'list' object has no attribute 'missing'"):
        _ = sim.broken


def test_a_segment_of_the_critical_path_has_a_number() -> None:
    path = by_messages().critical_path()
    assert (path[0], path[-1]) == (path.segments[0], path.segments[-1])


def test_a_layer_takes_plain_times() -> None:
    a1 = anb.astrasim1
    short = a1.LayerTable("DATA", a1.Layer("fc", "20 us", 10_000, a1.Part("20 us", "ALLREDUCE", "1 MiB")))
    part = a1.Part(20_000)
    whole = a1.Layer("fc", part, a1.Part(10_000), a1.Part(20_000, "ALLREDUCE", 1 << 20))
    assert short == a1.LayerTable("DATA", [whole])


def test_an_error_inside_a_call_stays_as_it_is() -> None:
    """Only the keyword of the call itself is explained."""

    def wrong(_: Any) -> bool:
        asked: Any = lambda: True  # noqa: E731
        return bool(asked(unit="event"))

    sim = by_lines()
    sim.break_when(wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'unit'"):
        sim.step(1, unit="event")
