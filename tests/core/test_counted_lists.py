"""Numbers that a file announces are those that follow: no more, and no fewer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb import collectives
from astranb.collectives.formats import read_algorithm
from astranb.collectives.formats.msccl_xml import write_msccl_xml
from astranb.core.errors import InputError
from astranb.infragraph import load
from astranb.traffic.targets import read_traffic
from astranb.workload.astrasim1.network import read_network
from astranb.workload.astrasim1.simai import read_simai
from astranb.workload.astrasim1.table_file import read_layer_table

_Made = tuple[str, dict[str, int]]
"""A text with ``@name@`` for each number, and the numbers that are right."""


def _star(hosts: int, rate: str = "200Gbps") -> str:
    """List the switch behind the hosts, and a link of each host to it."""
    return f"{hosts}\n" + "".join(f"{host} {hosts} {rate} 1us 0\n" for host in range(hosts))


def ns3(n: int) -> _Made:
    explained = "First line: nodes, switches, links\nlinks: source destination rate delay error_rate\n"
    return f"@nodes@ @switches@ @links@\n{_star(n)}{explained}", {"nodes": n + 1, "switches": 1, "links": n}


def power_tcp(n: int) -> _Made:
    counts = {"nodes": n + 1, "switches": 1, "edge": 1, "links": n}
    return f"@nodes@ @switches@ @edge@ @links@\n{_star(n, '25000000000.0')}", counts


def reverie(n: int) -> _Made:
    text, counts = power_tcp(n)
    return text.replace("@links@", "@links@ 25000000000 25000000000"), counts


def two_tiers(n: int) -> _Made:
    rate = "Downlink_speed_Gbps 100\nDownlink_Latency_ns 1000\n"
    text = f"Nodes @nodes@\nTiers @tiers@\nPodsize @podsize@\nTier 0\n{rate}Radix_Down 4\nRadix_Up 2\n"
    text += f"Oversubscribed 2\nTier 1\n{rate}Radix_Down {n}\n"
    return text, {"nodes": 4 * n, "tiers": 2, "podsize": 4 * n}


def three_tiers(n: int) -> _Made:
    rate = "Downlink_speed_Gbps 100\nDownlink_Latency_ns 1000\n"
    text = f"Nodes @nodes@\nTiers @tiers@\nPodsize @podsize@\nTier 0\n{rate}Radix_Down 2\nRadix_Up 2\n"
    text += f"Tier 1\n{rate}Radix_Down 2\nRadix_Up 2\nTier 2\n{rate}Radix_Down {n}\n"
    return text, {"nodes": 4 * n, "tiers": 3, "podsize": 4}


def matrix(n: int) -> _Made:
    flows = "".join(f"{k}->{k + 1} id {k + 1} start 0 size 8 send_done_trigger {k + 1}\n" for k in range(n))
    triggers = "".join(f"trigger id {k + 1} oneshot\n" for k in range(n))
    failure = "failure type 0\n"
    head = f"Nodes {n + 1}\nConnections @connections@\nTriggers @triggers@\nFailures @failures@\n"
    return head + flows + triggers + failure, {"connections": n, "triggers": n, "failures": 1}


def goal(n: int) -> _Made:
    blocks = "".join(f"rank {rank} {{\nl1: calc 5\n}}\n" for rank in range(n))
    return f"num_ranks @ranks@\n{blocks}", {"ranks": n}


def tacos(n: int) -> _Made:
    """All-gather on a ring."""
    rows = "".join(
        f"{rank},{(rank + 1) % n},500,50,{','.join(str((rank - k) % n) for k in range(n - 1))}\n"
        for rank in range(n)
    )
    head = "NPUs Count,@ranks@\nLinks Count,@links@\nChunks Count,@chunks@\nChunk Size,1024,B\n"
    heading = "SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks (ID)\n"
    return head + heading + rows, {"ranks": n, "links": n, "chunks": n}


_LAYER: Final = "NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n"


def layers(n: int) -> _Made:
    return "DATA\n@layers@\n" + "".join(f"l{k} -1 1 {_LAYER}" for k in range(n)), {"layers": n}


def checkpoints(n: int) -> _Made:
    listed = " ".join(map(str, range(n)))
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 "
    head += f"checkpoints: @checkpoints@ {listed} checkpoint_initiates: @initiates@ {listed}\n"
    text, counts = layers(n)
    return text.replace("DATA\n", head), {**counts, "checkpoints": n, "initiates": n}


def simai(n: int) -> _Made:
    text, counts = layers(n)
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 2 "
    return text.replace("DATA", f"{head}checkpoints: 0 checkpoint_initiates: 0"), counts


def msccl(n: int) -> _Made:
    with TemporaryDirectory() as folder:
        file = Path(folder, "a.xml")
        write_msccl_xml(collectives.all_gather("1MiB", "ring").program(n), file)
        text = file.read_text()
    counts = {}
    for name in ("ngpus", "nchannels", "nchunksperloop", "o_chunks"):
        found = re.search(f' {name}="([0-9]+)"', text)
        assert found is not None
        counts[name] = int(found[1])
        text = text.replace(found[0], f' {name}="@{name}@"', 1)
    return text, counts


def barrier(n: int) -> _Made:
    """A plan in which all thread blocks of a rank wait for one another."""
    ops = [{"name": "barrier", "barrier_id": 0, "num_threadblocks": 1000}]
    blocks = [{"id": k, "ops": ops, "channels": []} for k in range(n)]
    gpus = [
        {"id": rank, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 0, "threadblocks": blocks}
        for rank in range(2)
    ]
    plan = {"name": "p", "collective": "allreduce", "protocol": "Simple", "inplace": True, "gpus": gpus}
    return json.dumps(plan).replace("1000", "@blocks@"), {"blocks": n}


def dimensions(n: int) -> _Made:
    lists: dict[str, Any] = {
        "topologies-per-dim": ["Ring"], "units-count": [2], "links-count": [2], "link-latency": [500],
        "link-bandwidth": [50],
    }  # fmt: skip
    text = json.dumps({"topology-name": "Hierarchical"} | {name: n * one for name, one in lists.items()})
    return text.replace("{", '{"dimensions-count": @dimensions@, ', 1), {"dimensions": n}


def task_graph(n: int) -> _Made:
    """A node of each GPU, and a switch between them."""
    connections = ", ".join(f"{{fromnode: {k}, tonode: {n}, nconn: 1}}" for k in range(n))
    text = "{ngpupernode: 1, nnode: @nodes@, nswitch: @switches@, netbw: 25000000.0,"
    text += ' tasks: [{type: "TASK_FORWARD", taskid: 1, deviceid: 7, runtime: 0.5}],'
    text += f" devices: [{{deviceid: 7, nodeid: 0, deviceproperty: 0}}], conn: [{connections}]}}"
    return text, {"nodes": n, "switches": 1}


COUNTED: Final[dict[str, tuple[Callable[[int], _Made], str, Callable[[Path], Any]]]] = {
    "ns-3 topology": (ns3, "t.txt", load),
    "PowerTCP": (power_tcp, "t.txt", load),
    "Reverie": (reverie, "t.txt", load),
    "htsim, two tiers": (two_tiers, "t.topo", load),
    "htsim, three tiers": (three_tiers, "t.topo", load),
    "connection matrix": (matrix, "t.cm", read_traffic),
    "GOAL": (goal, "t.goal", read_traffic),
    "TACOS": (tacos, "t.csv", read_algorithm),
    "layer table": (layers, "t.txt", read_layer_table),
    "checkpoints": (checkpoints, "t.txt", read_layer_table),
    "SimAI": (simai, "t.txt", read_simai),
    "MSCCL": (msccl, "t.xml", read_algorithm),
    "MSCCL++ barrier": (barrier, "t.json", read_algorithm),
    "network of ASTRA-sim 1.0": (dimensions, "t.json", read_network),
    "FlexFlow": (task_graph, "t.json", load),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
@given(data=st.data())
def test_a_number_that_is_not_that_of_the_list_is_refused(name: str, data: st.DataObject) -> None:
    make, file_name, read = COUNTED[name]
    text, counts = make(data.draw(st.integers(2, 5), label="length"))
    which = data.draw(st.sampled_from(sorted(counts)), label="number")
    wrong = data.draw(st.integers(1, 2 * counts[which] + 2).filter(lambda one: one != counts[which]))
    with TemporaryDirectory() as folder:
        file = Path(folder, file_name)

        def written(given: dict[str, int]) -> Path:
            file.write_text(re.sub("@([a-z_]+)@", lambda found: str(given[found[1]]), text))
            return file

        read(written(counts))
        with pytest.raises(InputError) as error:
            read(written(counts | {which: wrong}))
    assert str(file) in error.value.where
    assert "\n" not in str(error.value)
