"""A page finds the same objects by the same paths, and says the same of those that there are not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline.paths import object_names, part_names, resolve
from astranb.widgets.feed import Columns, feed_of
from astranb.widgets.live import live
from astranb.widgets.page import packed
from astranb.widgets.session import session_of
from tests.widgets.live.kernels import HERE, STATIC
from tests.widgets.live.machines import MACHINES
from tests.widgets.live.selection import mostly_slow

_TAILS = [
    *["", ".sm.0", ".sm.999", ".engine.0", ".nic.0", ".block.0", ".block.99", ".l2.3", ".hbm.1"],
    *[".port.0", ".port.77", ".semaphore.0", ".semaphore.1", ".semaphore.9999", ".sm.", ".sm.x"],
    *[".what.0", "#0", "#99", ".buffer.requests", ".buffer.reqests", ".buffer.", ".0", ".1"],
]
_HEADS = [
    *["gpu[0]", "gpu[1]", "GPU1", "gpu[99]", "GPU99", "gpu[0-1]", "gpu[0-99]", "gpu[7-3]", "gpu[-1]"],
    *["gpu", "", " gpu[0] ", "line[0]", "line[99999999]", "line[]"],
    *["->", "gpu[0]->", "gpu[0]->gpu[1]", "gpu[0]->gpu[99]", "a->b->c"],
]
_SLICES = ["[0:1]", "[-1]", "[9]", "[0:2].gpu[0]", "[::-1]", "["]


def _expected(path: str, sim: anb.Simulation) -> dict[str, Any]:
    try:
        place = resolve(path, sim.engine.fabric, sim.engine.machine)
    except InputError as error:
        return {"error": str(error)}
    return {"kind": place.kind, "rows": list(place.rows), "path": place.path}


@pytest.mark.parametrize("name", mostly_slow(MACHINES, "NICs", "posts"))
def test_paths_of_a_machine(name, tmp_path):
    sim = MACHINES[name]()
    fabric, machine = sim.engine.fabric, sim.engine.machine
    names = list(object_names(fabric))
    nodes = [fabric.graph.name(node) for node in range(len(fabric.graph))]
    some = [*names[:: max(1, len(names) // 60)], *nodes[::17]]
    instances = sorted({".".join(one.split(".")[:2]) for one in nodes})
    slices = [
        one.split(".")[0] + bracket
        for one in instances
        for bracket in ("[0:1]", "[-1]", "[9]", "[0:2].gpu[0]", "[::-1]", "[")
    ]
    between = [f"{a}->{b}" for a in instances for b in instances]
    heads = [*some, *_HEADS, *instances, *slices, *between, *(link + " " for link in between[:2])]
    heads += [one[:-1] + "x" + one[-1] for one in some[::5]]
    paths = [head + tail for head in heads for tail in _TAILS]
    columns = Columns()
    header = {"live": live(feed_of(session_of(sim)), columns), **columns.placed()}
    page = tmp_path / "page.txt"
    page.write_text(packed(header))
    command = ["node", str(Path(HERE, "paths.mjs")), str(STATIC), str(page)]
    done = subprocess.run(command, input=json.dumps(paths), stdout=subprocess.PIPE, check=True, text=True)
    answer = json.loads(done.stdout)
    for path, found in zip(paths, answer["found"], strict=True):
        assert found == _expected(path, sim), path
    assert answer["names"] == names
    for path, parts in zip(names, answer["parts"], strict=True):
        expected = part_names(path, fabric, machine)
        assert parts == [[kind, list(every)] for kind, every in expected.items()], path
