"""Failed links: gone from the graph, kept in the document, and named where they cut ranks off."""

from __future__ import annotations

import numpy as np
import pytest

from astranb.core.errors import InputError
from astranb.infragraph import blueprint, load
from astranb.net import compile_fabric

DGX, NVSW = "dgx_h100.0.xpu.0", "dgx_h100.0.nvsw.0"


def test_a_failed_lane_is_not_shared_out_again() -> None:
    whole, less = (
        i.expand() for i in (blueprint("dgx-h100"), blueprint("dgx-h100").without(f"{DGX}->{NVSW}#1"))
    )
    assert int(whole.edges.lanes.sum()) - int(less.edges.lanes.sum()) == 1
    assert np.count_nonzero(whole.edges.lanes != less.edges.lanes) == 1
    assert less.failed == (f"{NVSW}->{DGX}",)


def test_lanes_add_up_to_the_link_and_a_lane_has_two_names() -> None:
    infra = blueprint("dgx-h100")
    both = infra.without(f"{DGX}->{NVSW}#1", f"{NVSW}->{DGX}#1")
    assert int(infra.expand().edges.lanes.sum()) - int(both.expand().edges.lanes.sum()) == 1
    all_of_them = infra.without(*[f"{DGX}->{NVSW}#{k}" for k in range(5)])
    assert len(all_of_them.expand().edges.a) == len(infra.expand().edges.a) - 1
    assert all_of_them.expand().edges.lanes.min() > 0


def test_a_node_loses_all_its_links_and_the_document_keeps_it() -> None:
    infra = blueprint("dgx-h100").without(NVSW)
    again = load(infra.to_dict())
    for graph in (infra.expand(), again.expand()):
        node = graph.index(NVSW)
        assert not np.any((graph.edges.a == node) | (graph.edges.b == node))
        assert len(graph.failed) == 9  # 8 GPUs, and its PCIe switch
    assert infra.notes[-1] == f"{NVSW} is down"


def test_failures_of_failures_and_ranks_by_number() -> None:
    ring = blueprint("ring:gpus=4").without("gpu[0]->gpu[1]").without("gpu[2]->gpu[3]")
    assert len(ring.expand().edges.a) == 2
    with pytest.raises(InputError, match="unknown link"):
        ring.without("gpu[0]->gpu[1]")


@pytest.mark.parametrize(
    "path, error",
    [
        ("gpu[0]->gpu[9]", r"unknown gpu\[9\]"),
        ("gpu[0]->gpu[2]", "unknown link 'gpu\\[0\\]->gpu\\[2\\]'"),
        ("gpu[0]->gpu[1]#7", "lanes are #0 to #0"),
        ("nothing", "unknown object 'nothing'"),
    ],
)
def test_bad_paths(path: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        blueprint("ring:gpus=4").without(path)


def test_ranks_that_are_cut_off_are_named() -> None:
    infra = blueprint("switch:gpus=4").without("gpu[1]", "gpu[3]")
    fabric = compile_fabric(infra.expand())
    with pytest.raises(
        InputError, match=r"no route to ranks 1 \(.*\), 3 \(.*\): down: .*gpu.1->.*sw"
    ) as error:
        fabric.routes([(0, 1), (0, 2)])
    assert error.value.hint.startswith("leave these ranks out")
    assert len(fabric.routes([(0, 2)])[0]) == 1
