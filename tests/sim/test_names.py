"""Names that are shown can be typed: in edits, conditions, questions, search and views, by cache lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from tests.engine.operations.support import mixed

LINK = "dgx_h100.0.xpu.2->dgx_h100.0.nvsw.0"


@pytest.fixture
def sim() -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring"))


def test_a_title_of_the_workbench_is_a_name(sim: anb.Simulation) -> None:
    assert sim.paths("GPU2 → nvsw.0") == [LINK]
    assert sim.at("GPU2 → nvsw.0").path == sim.at("gpu[2]->nvsw.0").path == LINK
    assert sim.at("GPU3 block 0").path == "dgx_h100.0.xpu.3.block.0"
    assert sim.at("nic[1]").path == sim.at("cx7.1").path == "dgx_h100.0.cx7.1"
    assert sim.paths("gpu[1]->*") == [f"dgx_h100.0.xpu.1->dgx_h100.0.nvsw.{n}" for n in range(4)] + [
        "dgx_h100.0.xpu.1->dgx_h100.0.pciesl.1"
    ]


def test_every_path_that_is_found_can_be_inspected(sim: anb.Simulation) -> None:
    for text in ("gpu[0]->*", "*->*", "gpu[*].hbm[0]", "nvsw.*", "gpu[0-3].sm[7]", "gpu[*]"):
        found = sim.paths(text, most=1000)
        assert found
        assert [sim.at(path).path for path in found] == found


def test_an_edit_of_all_is_an_edit_of_each(sim: anb.Simulation) -> None:
    other = sim.fork()
    sim.set("gpu[*].hbm", "x0.5")
    sim.set("gpu[2]->*.bandwidth", "20 GB/s")
    sim.set("gpu[2]->*.latency", "x2")
    for rank in range(8):
        other.set(f"gpu[{rank}].hbm", "x0.5")
    for path in sim.paths("gpu[2]->*"):
        other.set(f"{path}.bandwidth", "20 GB/s")
    for path in sim.paths("gpu[2]->*"):
        other.set(f"{path}.latency", "x2")
    assert len(sim.edits) == 3
    assert sim.run().why == other.run().why == "end"
    assert sim.state_hash() == other.state_hash()
    sim.reset(keep=True)
    sim.run()
    assert sim.state_hash() == other.state_hash()


def test_factors_add_up_and_are_undone(sim: anb.Simulation) -> None:
    latency = sim.engine.machine.links["latency_ps"]
    before = latency.copy()
    sim.set("*->*.latency", "x2")
    sim.set("*->*.latency", "x2")
    assert (latency == 4 * before).all()
    copy = sim.rebuilt()
    assert np.array_equal(copy.engine.machine.links["latency_ps"], latency)
    sim.undo()
    assert (sim.engine.machine.links["latency_ps"] == 2 * before).all()


def test_a_condition_on_all_stops_at_the_first(sim: anb.Simulation) -> None:
    point = sim.break_when("gpu[*].hbm[*].busy_ps > 10")
    assert point.text == "gpu[*].hbm.*.busy_ps > 10"
    stop = sim.run()
    busy = sim.engine.machine.tables["hbm_channels"]["busy_ps"]
    assert (stop.why, int((busy > 10).sum())) == ("breakpoint", 1)


def test_a_condition_names_a_time_or_a_phase(sim: anb.Simulation) -> None:
    sim.break_when("time >= 1 us")
    assert sim.run().why == "breakpoint"
    assert sim.now_ps <= 1_000_000 < (sim.next_ps or 0)
    sim.clear()
    sim.break_when("phase[reduce-scatter 1/7].ended_ps >= 0")
    sim.run()
    assert sim.engine.machine.phases["ended_ps"][0] == sim.now_ps
    with pytest.raises(InputError, match=r"unknown phase 'reduce-scatter 1/8'; did you mean"):
        sim.break_when("phase[reduce-scatter 1/8].ended_ps >= 0")


@pytest.mark.parametrize(
    "move, message",
    [
        (lambda sim: sim.at("gpu[*]"), "'gpu[*]' names 8 objects; name one of them, as dgx_h100.0.xpu.0"),
        (
            lambda sim: sim.at("gpu[0]->gpu[1]"),
            "unknown link 'gpu[0]->gpu[1]'; for example gpu[0]->nvsw.0",
        ),
        (lambda sim: sim.at("nvsv.0"), "did you mean 'nvsw.0'"),
        (lambda sim: sim.set("gpu[*].up", "no"), "'up' of dgx_h100.0.xpu.0 cannot be changed"),
        (lambda sim: sim.set("gpu[0]->*.up", "x2"), "a link is up or not; write yes or no"),
        (lambda sim: sim.set("gpu[*].sms", "x1e9"), "'x1e9' is not a factor"),
        (lambda sim: sim.set("gpu[0-3].sms", "x4"), "a number of SMs must be 1 to 132, got 'x4'"),
        (lambda sim: sim.break_when("gpu[*].waitin > 0"), "has no field 'waitin'"),
        (lambda sim: sim.break_when("gpu[*].sm[*].waiting > 0"), "1056 compiled breakpoints, 1024 fit"),
        (lambda sim: sim.holds("gpu[0].putput"), "'gpu[0].putput' is not a buffer; write gpu[0].output"),
        (lambda sim: sim.holds("gpu[0].output[99]"), "they count from 0 to 7"),
        (lambda sim: sim.step("phas"), "unknown unit 'phas'; did you mean 'phase'?"),
        (lambda _: anb.Simulation("dgx-h100"), "nothing to run is given; give what runs behind it"),
    ],
)
def test_what_is_wrong_says_what_to_write(sim: anb.Simulation, move: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        move(sim)


def test_numbers_and_texts_are_attributes(sim: anb.Simulation) -> None:
    sim.run("2 us")
    link = sim.at("GPU2 → nvsw.0")
    assert link.bandwidth_Bps == 125 * 10**9 == link.state["bandwidth_Bps"]
    assert link.queue_now == dict(link["state"])["queue now"]
    assert {"bandwidth_Bps", "queue_now", "in_flight"} <= {*dir(link)}
    with pytest.raises(AttributeError, match=r"has no 'bandwith_Bps'; did you mean 'bandwidth_Bps'"):
        _ = link.bandwith_Bps


def test_calls_that_a_person_tries_first() -> None:
    step = anb.workload([anb.compute("50 us"), [anb.compute("20 us"), anb.all_reduce("1 MiB")]], ranks=4)
    sim = anb.Simulation("dgx-h100", step, cost="wire")
    sim.run()
    assert sim.result.time_us == 70
    assert sim.result.time_ms == sim.result.time_us / 1000 == sim.result.time_ps / 1e9
    first = sim.result.to_dataframe("operations")
    assert set(first["rank"]) == set(range(4))
    lines = anb.Simulation("dgx-h100", step, fidelity="cacheline")
    assert lines.run().why == "end"


@pytest.mark.parametrize(
    "move",
    [
        lambda sim: sim.at("gpu[3-1]"),
        lambda sim: sim.set("gpu[3-1].hbm", "x2"),
        lambda sim: sim.break_when("phase[00000000099].left > 0"),
        lambda sim: sim.at(f"gpu[{'9' * 5000}]"),
        lambda sim: sim.at("gpu[" * 3000),
        lambda sim: sim.set("*.hbm[*].bandwidth", "x2"),
        lambda sim: sim.break_when(5),
        lambda sim: sim.step("phase", "cycle"),
        lambda _: anb.workload(cast("Any", None)),
        lambda _: anb.workload([anb.compute("5 us"), []]),
        lambda _: anb.workload([]),
        lambda _: anb.workload([3]),
        lambda _: anb.workload([anb.compute("5 us")], ranks=0),
        lambda _: anb.Simulation("dgx-h100", anb.workload([anb.compute("5 us")], ranks=9)),
        lambda _: anb.compute("0 us"),
        lambda _: anb.infragraph.blueprint("clos", server=4),
        lambda _: anb.infragraph.blueprint("clos", servers="16,spines=2"),
        lambda _: anb.infragraph.blueprint("dgx-h100", servers=2),
    ],
)
def test_what_is_no_name_and_no_call_is_an_input_error(sim: anb.Simulation, move: Any) -> None:
    with pytest.raises(InputError):
        move(sim)


def test_a_search_of_nothing_finds_nothing(sim: anb.Simulation) -> None:
    assert sim.paths("gpu[0-9]") == sim.paths("gpu[*].hbm[*].bu") == []
    assert len(sim.paths("*.port[*]", most=10_000)) == len(sim.engine.fabric.links)
    assert len(sim.paths("gpu[0-1]->nvsw.0")) == 2


def test_names_of_a_document_are_looked_up_as_they_are_written() -> None:
    document = anb.infragraph.blueprint("ring:gpus=4").to_dict()
    text = str(document).replace("'box'", "'gpu0'").replace("'box.", "'gpu0.").replace("box[", "gpu0[")
    names = anb.infragraph.Infra(eval(text)).expand().names
    sim = anb.Simulation(anb.infragraph.Infra(eval(text)), anb.all_reduce("4 KiB", "ring"))
    assert names[1] == "gpu0.0.gpu.1"
    assert [sim.at(name).path for name in names] == names
    assert sim.at("gpu0.0").kind == "instance"


@pytest.mark.parametrize("infra", ["dgx-h100", "ring:gpus=4", "clos:servers=2"])
@pytest.mark.parametrize("fidelity", ["congestion", "cacheline"])
def test_links_have_the_same_ends_at_every_fidelity_and_they_can_be_typed(infra: str, fidelity: str) -> None:
    sim = anb.Simulation(infra, anb.all_reduce("4 KiB", "ring"), fidelity=fidelity)
    sim.run()
    links = sim.result.to_dataframe("links")
    assert list(links.columns[:3]) == ["link", "source", "target"]
    assert {"messages", "bytes", "busy_ps", "utilisation"} <= set(links.columns)
    used = links[links["bytes"] > 0]
    assert {f"gpu[{rank}]" for rank in range(sim.ranks)} <= set(used["source"]) & set(used["target"])
    for link, source, target in used[["link", "source", "target"]].sample(20, replace=True).values:
        if " and " not in source + target:  # some of a switch's ports have no pattern
            assert sim.at(link).bytes <= sim.at(f"{source}->{target}").bytes  # one of its lanes, or all
        assert sim.parameters(link) != []


def test_messages_that_queue_nowhere_have_no_links() -> None:
    sim = anb.Simulation("ring:gpus=4", anb.all_reduce("4 KiB", "ring"), fidelity="analytical")
    sim.run()
    assert "links" not in sim.result.tables
    with pytest.raises(InputError, match=r"unknown table 'links' of this run; .*fidelity='congestion'"):
        sim.result.to_dataframe("links")


HOSTILE = [
    "", " ", ".", "..", "#", "->", "→", "->->", "gpu", "gpu[", "gpu]", "gpu[]", "gpu[[0]]", "gpu[-1]",
    "gpu[999999999999]", "gpu[99]", "gpu[3-1]", "gpu[0-999999999]", "gpu[*].*", "gpu[0]->", "->gpu[0]",
    "gpu[0]->gpu[0]", "gpu[0]->*#99", "gpu[0]->nvsw.0#x", "gpu[0]#1", "gpu[0].sm", "gpu[0].sm.",
    "gpu[0].sm[3-1]", "gpu[0].sm[0-99999999]", "gpu[0]..sm.0", "gpu[0] sm 0 x", "dgx_h100.0.xpu.8",
    "dgx_h100.1.xpu.0", "dgx_h10.0.xpu.1", "xpu.00", "XPU.0", "nvsw.3-1", "\uff47pu[0]", "gpu[٣]", "gpu[²]",
    "göu[1]", "💥", "gpu[0]\x00", "x" * 10_000, "gpu[" * 2000, "->" * 2000, "gpu[*]." * 500, "rank[0].op[9]",
    "rank[0].op[", "rank[0].dim[9]", "dim[-1]", "link[99]", "link[x]", "layer[x]", "line[99999999]",
    "line[-1]", "nic[99]", "foo[*]", "gpu[0-1]->nvsw.0-9", "(((", "[a-z]+", "gpu[0](GPU1)", "../../etc",
    "%s{0}", "host.0", "nvsw.0.sm.0", "0.0",
]  # fmt: skip
"""Names of no object of a box of eight GPUs, at any fidelity."""

VERBS: dict[str, Callable[[anb.Simulation, str], object]] = {
    "at": lambda sim, name: sim.at(name),
    "set": lambda sim, name: sim.set(f"{name}.bandwidth", "x2"),
    "what_if": lambda sim, name: sim.what_if(f"{name}.bandwidth", "x2"),
    "break_when": lambda sim, name: sim.break_when(f"{name}.waiting > 0"),
    "break_on": lambda sim, name: sim.break_on(None, name),
    "watch": lambda sim, name: sim.watch(f"{name}.waiting"),
    "take_down": lambda sim, name: sim.take_down(name),
    "holds": lambda sim, name: sim.holds(name),
}
NEXT = re.compile(
    r"did you mean '.*' or '.*' or '|for example .*->.*, |count from 0 to|ranks are 0 to 7"
    r"|: no \w+ '.*; 0 to|lanes are #0 to|write |numbered|a few dozen|is not a GPU; by messages"
    r"|is not under way now|has no links|known by cache lines only"
)
"""The end of an error: the three nearest names, the numbers that there are, or the form of a name."""


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fidelity", ["cacheline", "congestion", "analytical"])
def test_a_name_of_nothing_is_refused_in_a_line_with_what_there_is(fidelity: str, verb: str) -> None:
    sim = anb.Simulation("dgx-h100", anb.all_reduce("4 KiB", "ring"), fidelity=fidelity)
    before = sim.state_hash()
    for name in HOSTILE:
        with pytest.raises(InputError) as refused:
            VERBS[verb](sim, name)
        line = str(refused.value)
        assert len(line.splitlines()) == 1
        assert len(line) < 400, name
        assert NEXT.search(line), (name, line)
        assert len(sim.paths(name)) <= 50
    assert (sim.state_hash(), sim.edits, sim.breakpoints, sim.watches) == (before, [], [], [])


@pytest.mark.parametrize("fidelity", ["cacheline", "congestion", "analytical"])
def test_what_is_displayed_is_a_name_of_the_same_object_at_every_fidelity(fidelity: str) -> None:
    sim = anb.Simulation("clos:servers=2", anb.all_reduce("16 KiB", "ring"), fidelity=fidelity)
    for rank, node in ((3, "host.0.xpu.3"), (9, "host.1.xpu.1")):
        for name in (f"gpu[{rank}]", f"GPU{rank}", f"rank[{rank}]", node, f"{node} (GPU{rank})"):
            assert sim.at(name).title == f"{node} (GPU{rank})"
    shown = "host.0.pciesl.0->host.0.cx7.0"
    assert {sim.at(name).title for name in (shown, "host.0.pciesl.0 → host.0.cx7.0")} == {shown}
    sim.set(f"{shown}.latency", "x2")
    assert [path for _, path, _ in sim.edits] == [f"{shown}.latency"]
    for name in (shown, "host.0.pciesl.0 → host.0.cx7.0"):
        assert sim.what_if(f"{name}.latency", "x2").path == f"{shown}.latency"


@pytest.mark.parametrize(
    "infra",
    ["dgx-h100", "dgx-2", "clos:servers=4", "fat-tree:servers=8,levels=3", "torus2d", "rails:servers=2"],
)
def test_links_of_messages_have_names_that_find_their_lanes_by_cache_lines(infra: str) -> None:
    work = anb.all_reduce("16 KiB", "ring")
    sim = anb.Simulation(infra, work, fidelity="congestion")
    fabric = sim.engine.routed.fabric
    lanes = sim.engine.routed.known(sim.engine.machine).lanes
    links = [path for path in sim.engine.parts()["objects"] if not path.startswith(("rank[", "dim["))]
    assert len(links) == len(lanes) == len(set(links))
    for number, (path, own) in enumerate(zip(links, lanes, strict=True)):
        found = sim.at(path)
        assert (found.path, found.title, found.kind) == (path, path, "link")
        assert sim.at(f"link[{number}]").title == path
        assert sorted(fabric.find(path)) == sorted(own)
    sim.run()
    rows = sim.result.to_dataframe("links")
    assert set(rows["link"]) <= set(links)
    for text in re.findall(r"^ +[\d.]+%  (\S+->\S+)$", sim.result.explain(), re.MULTILINE):
        assert text in links


def test_a_link_that_has_lost_lanes_is_called_by_its_number() -> None:
    sim = anb.Simulation("dgx-h100", anb.all_reduce("1 MiB", "ring"), fidelity="congestion")
    sim.step(50)
    sim.take_down("gpu[0]->nvsw.0#0", both=True)
    sim.reroute()
    names = [path for path in sim.engine.others() if ".xpu.0" in sim.at(path).title]
    assert names
    for path in names:
        found = sim.at(path)
        assert found.path == path
        assert sim.at(found.title).title.partition(" (")[0] in (found.title.partition(" (")[0], "link")
    assert sim.run().why == "end"


def test_links_of_dimensions_are_called_by_their_numbers() -> None:
    sim = mixed(congestion=True)
    assert sim.at("rank[1]").title == "rank[1]"
    found = sim.at("link[1]")
    assert (found.path, found.title) == ("link[1]", "link[1] (rank[1] to rank[2])")
    assert sim.at(found.title).path == "link[1]"
    name = sim.at("rank[1].op[0]").title
    assert name.startswith("rank[1].op[0] (")
    assert sim.at(name).path == "rank[1].op[0]"


@pytest.mark.parametrize("fidelity", ["cacheline", "congestion"])
@pytest.mark.parametrize("word", ["a->b", "->", "gpu 3", "x (y)", "2-3", "b", "a > b", "gpux", "rank"])
def test_names_of_a_document_with_arrows_brackets_and_spaces(word: str, fidelity: str) -> None:
    text = str(anb.infragraph.blueprint("ring:gpus=4").to_dict())
    for old in ("box", "gpu"):
        text = text.replace(f"'{old}'", repr(word)).replace(f"'{old}[", f"'{word}[")
    infra = anb.infragraph.Infra(eval(text))
    names = infra.expand().names
    assert names[1] == f"{word}.0.{word}.1"
    sim = anb.Simulation(infra, anb.all_reduce("4 KiB", "ring"), fidelity=fidelity)
    for rank, (name, after) in enumerate(zip(names, names[1:] + names[:1], strict=True)):
        title = f"{name} (GPU{rank})"
        assert sim.at(name).title == sim.at(title).title == sim.at(f"gpu[{rank}]").title == title
        assert sim.at(f"{name}->{after}").path == f"{name}->{after}"
        sim.set(f"{name}->{after}.latency", "x2")
    assert len(sim.edits) == 4
