"""Kinds of networks between hosts: their files, how they are recognised, and what a library makes of them."""

from __future__ import annotations

import json

import pytest

import astranb as anb
from astranb.collectives import library_choice, library_cost, library_view
from astranb.core.errors import InputError
from astranb.hardware import KINDS, device_file
from astranb.infragraph import NETWORK_TYPES, blueprint, load, network_type, recognise_network
from astranb.infragraph.network_types import read_network_type


@pytest.mark.parametrize("name", NETWORK_TYPES)
def test_every_number_has_a_source(name):
    numbers = json.loads(device_file("networks", name).read_text())["network"]
    assert network_type(name).name == name
    for number in ("hop_ps", "stated_ps"):
        if number in numbers:
            assert numbers[number]["kind"] in KINDS
            assert numbers[number]["source"]


@pytest.mark.parametrize(
    "infra, name",
    [
        ("single-tier", "ethernet"),
        ("single-tier:server=ndv5", "infiniband"),
        ("single-tier:server=ndv4", "infiniband"),
        ("single-tier:server=p4de", "efa-v1"),
        ("single-tier:server=p6-b200", "efa-v3"),
        ("single-tier:server=a4", "gib"),
        ("rails:network=infiniband", "infiniband"),
        ("rails:server=p5", "efa"),
        ("clos:server=a3-mega", "tcpxo"),
        ("fat-tree:server=a3-ultra,servers=2", "gib"),
        ("single-tier:server=dgx-b200,network=gib", "gib"),
        ("single-tier:server=p5,network=ethernet", "efa"),  # its NICs are EFA's
    ],
)
def test_blueprints_have_a_network(infra, name):
    assert library_view(blueprint(infra)).network == network_type(name)


def test_a_document_keeps_its_network():
    made = blueprint("single-tier:network=tcpxo")
    assert library_view(load(made.to_dict())).network.name == "tcpxo"


@pytest.mark.parametrize(
    "texts, type_, name",
    [
        (["leaf FasTrak"], "", "tcpxo"),
        (["leaf", "nic gIB plug-in"], "cable", "gib"),
        (["nic 50 GiB/s"], "cable", "ethernet"),  # a size, not a network
        (["EFA", "gIB"], "ib-ndr", "efa"),  # the nearest text
        (["cx7"], "ib-hdr", "infiniband"),
    ],
)
def test_networks_are_recognised_by_words(texts, type_, name):
    assert recognise_network(texts, type_).name == name


def test_software_of_a_network_is_in_every_hop_at_both_fidelities():
    plain, efa = "single-tier:server=dgx-h100", "single-tier:server=dgx-h100,network=efa"
    hop_us = network_type("efa").hop_us
    for size in ("1 KiB", "256 KiB"):  # up and down a tree of two nodes
        slow, fast = (library_choice(infra, "all_reduce", size) for infra in (efa, plain))
        assert slow.algorithm == fast.algorithm == "Tree"
        assert slow.proxy_us - fast.proxy_us == pytest.approx(hop_us)
        assert any("software on a hop (fitted" in line for line in slow.why)
        times = []
        for infra in (efa, plain):
            sim = anb.Simulation(
                infra, anb.collectives.all_reduce(size), fidelity="congestion", record=False, cost="library"
            )
            sim.run()
            times.append(sim.result.time_us)
        assert times[0] - times[1] == pytest.approx(2 * hop_us, rel=0.01)


def test_within_a_node_a_network_changes_nothing():
    for collective in ("all_reduce", "all_to_all"):
        assert library_choice("p5", collective, "1 MiB").proxy_us == 0


def test_a_ring_leaves_each_node_once_a_round():
    plain, gib = (
        library_cost(library_view(blueprint(infra)), "all_gather", 1 << 16)
        for infra in ("single-tier", "single-tier:network=gib")
    )
    assert gib.far_us - plain.far_us == pytest.approx(network_type("gib").hop_us)
    assert gib.near_us == plain.near_us
    # Thirteen steps within nodes, two between them: all of the cost model's latency.
    model = library_choice("single-tier", "all_gather", "64 KiB").candidates[0]
    assert plain.begin_us + 13 * plain.near_us + 2 * plain.far_us == pytest.approx(model.latency_us)


def test_a_plugin_states_its_latency_to_the_library():
    plain, efa = (
        library_choice(f"single-tier:servers=8,network={kind}", "all_reduce", "1 KiB")
        for kind in ("ethernet", "efa")
    )
    ring = [
        next(c.latency_us for c in one.candidates if (c.algorithm, c.protocol) == ("Ring", "LL"))
        for one in (plain, efa)
    ]
    assert ring[1] - ring[0] == pytest.approx(14 * network_type("efa").stated_us)


def test_a_network_without_packets_of_eight_bytes():
    found = library_choice("single-tier:server=a3-mega", "all_reduce", "1 KiB")
    assert all(one.protocol in network_type("tcpxo").protocols.split() for one in found.candidates)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"hop_ps": -1}, "out of range|-1"),
        ({"cable": "copper"}, "unknown 'copper'"),
        ({"protocols": "LL LL64"}, "unknown 'LL64'; did you mean"),
        ({"speed_Bps": 1}, "unknown number 'speed_Bps'"),
    ],
)
def test_bad_files_are_named(tmp_path, change, message):
    document = json.loads(device_file("networks", "efa").read_text())
    document["network"] |= change
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        read_network_type(path)


def test_unknown_networks_are_named():
    with pytest.raises(InputError, match="network: unknown value 'efs'; did you mean 'efa'"):
        blueprint("single-tier:network=efs")
    with pytest.raises(InputError, match="unknown network 'efs'"):
        network_type("efs")
