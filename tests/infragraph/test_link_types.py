"""Files of link types: what they may hold, and what their errors say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astranb.core.document import read_document
from astranb.core.errors import InputError
from astranb.hardware.reader import FOLDER, KINDS, read_section
from astranb.infragraph import LINK_PROPERTIES, LINK_TYPES, NETWORK_TYPES
from astranb.infragraph.link_properties import BANDWIDTH
from astranb.infragraph.link_types import CABLE, DEFAULT, forwarding, read_link_type
from astranb.infragraph.servers import _BUILD, SERVERS, HostNumbers, read_hosts

GOOD: dict[str, Any] = {
    "format": "astranb-link",
    "version": 1,
    "name": "wire",
    "link": {
        "bandwidth_Bps": {"value": "3 GB/s", "kind": "measured", "source": "iperf"},
        "latency_ps": "7 ns",
    },
}


def written(folder: Path, **numbers: Any) -> Path:
    path = folder / "wire.json"
    link = {name: value for name, value in {**GOOD["link"], **numbers}.items() if value is not None}
    path.write_text(json.dumps({**GOOD, "link": link}, indent=1))
    return path


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    found = read_link_type(written(tmp_path))
    assert (found.name, found.number(BANDWIDTH), found.links_per_gpu) == ("wire", 3 * 10**9, 0)
    assert found.values["bandwidth"] == (3 * 10**9, "iperf", "measured")
    assert found.values["latency"] == (7000, "given in wire.json", "assumed")
    assert "message_rate" not in found.values


@pytest.mark.parametrize(
    "numbers, said",
    [
        ({"bandwidth_Bps": 0}, r"wire\.json:\d+, link\.bandwidth_Bps: 0 is out of range.* 1 to 9"),
        ({"bandwidth_Bps": 10**14}, r"wire\.json:\d+, link\.bandwidth_Bps: .*out of range"),
        ({"latency_ps": -1}, r"wire\.json:\d+, link\.latency_ps: -1 is out of range.* 0 to "),
        ({"latency_ps": "7 GB/s"}, r"link\.latency_ps: unknown time unit 'GB/s'"),
        ({"bandwidth_Bps": None}, r"link: 'bandwidth_Bps' is missing"),
        ({"bandwith_Bps": 5}, r"unknown number 'bandwith_Bps'; did you mean 'bandwidth_Bps'"),
        (
            {"latency_ps": {"value": 1, "kind": "guessed", "source": "me"}},
            r"link\.latency_ps\.kind: .*guessed",
        ),
        ({"latency_ps": {"value": 1, "kind": "measured", "source": " "}}, r"the source is empty"),
    ],
)
def test_bad_numbers_are_named(numbers: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_link_type(written(tmp_path, **numbers))


def test_every_shipped_file_is_read() -> None:
    names = {file.stem for file in (FOLDER / "links").glob("*.json")}
    assert names == {*LINK_TYPES, DEFAULT.name, CABLE.name}
    known = {one.name for one in LINK_PROPERTIES}
    for kind in (*LINK_TYPES.values(), DEFAULT, CABLE):
        assert {"bandwidth", "latency"} <= set(kind.values) <= known
        assert {value.kind for value in kind.values.values()} <= set(KINDS)
    nodes = {"SWITCH", "CPU", "NIC"}
    assert all(forwarding(kind, "")[0] > 0 for kind in nodes)
    assert len(list((FOLDER / "nodes").glob("*.json"))) == 6


def test_hosts_are_a_file_each_number_with_its_source(tmp_path: Path) -> None:
    shipped = read_document(FOLDER / "hosts.json")
    assert set(SERVERS) == set(shipped.value) - {"format", "version"} == set(_BUILD)
    for name in SERVERS:
        origins = read_section(shipped.get(name), HostNumbers).origins
        assert {origin.kind for origin in origins.values()} <= {"data sheet", "assumed"}
        assert SERVERS[name].numbers.network in NETWORK_TYPES
    path = tmp_path / "hosts.json"
    path.write_text('{"format": "astranb-hosts", "version": 1,\n"box": {"title": "a box",\n"nic_Bps": -5}}')
    with pytest.raises(InputError, match=r"hosts\.json:3, box\.nic_Bps: -5 is out of range.* 0 to "):
        read_hosts(path)
    path.write_text('{"format": "astranb-hosts", "version": 1,\n"box": {"title": "a box",\n"nics": 5}}')
    with pytest.raises(InputError, match=r"hosts\.json:3, box\.nics: unknown number 'nics'"):
        read_hosts(path)
