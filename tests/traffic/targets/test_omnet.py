"""OMNeT++: ini files as INET reads them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest  # noqa: TC002 - hypothesis reads the types
from hypothesis import given

from astranb.infragraph import resolve
from astranb.traffic import MessageGraph
from astranb.traffic.schedule import message_times
from astranb.traffic.targets import translate
from tests.traffic.targets.graphs import graphs, ring

KEY = re.compile(r'\*\.host\[(\d+)\]\.(?:numApps|app\[(\d+)\]\.(\w+)) = (?:"([^"]*)"|(\S+))')


def read_ini(text: str) -> tuple[str, dict[int, int], dict[tuple[int, int], dict[str, str]]]:
    """Read the network's name, the number of applications of each host, and their parameters."""
    head, *lines = text.splitlines()
    assert head == "[General]"
    network, counts = "", {}
    apps: dict[tuple[int, int], dict[str, str]] = {}
    for line in lines:
        if line.startswith("network = "):
            network = line.removeprefix("network = ")
        elif match := KEY.fullmatch(line):
            host, app, key, quoted, plain = match.groups()
            if app is None:
                counts[int(host)] = int(plain)
            else:
                assert key not in apps.setdefault((int(host), int(app)), {})
                apps[int(host), int(app)][key] = plain if quoted is None else quoted
        else:
            assert line.startswith(("#", "simtime-resolution = ps"))
    return network, counts, apps


def commands(script: str) -> list[tuple[float, int]]:
    """Parse a script as TcpSessionApp does: time, bytes, and a semicolon between them."""
    return [(float(time), int(size)) for time, size in (part.split() for part in script.split(";"))]


@given(graph=graphs)
def test_scripts(graph: MessageGraph, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("omnet") / "omnetpp.ini"
    translate(graph, "omnet", file)
    _, counts, apps = read_ini(file.read_text())
    assert sorted(counts) == list(range(graph.ranks))
    sent: Counter[tuple[int, int, int, int]] = Counter()
    for (host, app), parameters in apps.items():
        assert app < counts[host]
        if app == 0:
            assert parameters == {"typename": "TcpSinkApp", "localPort": "1000"}
            continue
        assert parameters["typename"] == "TcpSessionApp"
        assert (parameters["connectPort"], parameters["sendBytes"]) == ("1000", "0B")
        target = int(re.fullmatch(r"host\[(\d+)\]", parameters["connectAddress"])[1])  # type: ignore[index]
        script = commands(parameters["sendScript"])
        assert [time for time, _ in script] == sorted(time for time, _ in script)
        sent.update((host, target, size, round(time * 1e12)) for time, size in script)
    assert sum(counts.values()) == len(apps)
    starts = message_times(graph).start_ps.tolist()
    nodes = graph.nodes[graph.sends].tolist()
    want = Counter((n[0], n[2], max(1, n[3]), ps) for n, ps in zip(nodes, starts, strict=True))
    assert sent == want


def test_the_network_is_beside_it(tmp_path: Path) -> None:
    found = translate(ring(4, 5000), "omnet", tmp_path / "omnetpp.ini", topology=resolve("switch:gpus=4"))
    name, _, _ = read_ini((tmp_path / "omnetpp.ini").read_text())
    assert f"network {name}\n" in (tmp_path / "omnetpp.ned").read_text()
    assert [file.name for file in found.files] == ["omnetpp.ini", "omnetpp.ned"]
