"""The options of Ethernet, and how a switch marks."""

from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.gpu.flow import mark
from astranb.gpu.tables import DETAIL, LOAD, REQUEST, STORE, Machine
from astranb.infragraph import resolve
from astranb.net import Dcqcn, Ecn, Pfc, Roce, compile_fabric
from astranb.net.link import INJECTS, LINK, MARKS, PAUSES
from astranb.net.port import QUEUE
from astranb.net.roce import roce_row

WRONG: dict[str, Any] = {"pfc": "64 KiB"}
WRONG_TOO: dict[str, Any] = {"roce": True}


@pytest.mark.parametrize(
    "build,says",
    [
        (lambda: Pfc("16 KiB", "32 KiB"), "xon must be above 0 and less than xoff"),
        (lambda: Pfc("16 KiB", 0), "xon must be above 0"),
        (lambda: Pfc("16 Kb"), "unknown size unit"),
        (lambda: Pfc("2 GiB"), "at most 1 GiB"),
        (lambda: Ecn("200 kB", "5 kB"), "kmin must be above 0 and less than kmax"),
        (lambda: Ecn(pmax=1.5), "pmax must be a share"),
        (lambda: Ecn(pmax=True), "pmax must be a share"),
        (lambda: Dcqcn(gain=0), "gain must be a share"),
        (lambda: Dcqcn(gain=1e-9), "too small"),
        (lambda: Dcqcn(interval="0 us"), "dcqcn, interval: must not be '0 us'"),
        (lambda: Dcqcn(additive="40"), "has no unit"),
        (lambda: Dcqcn(recovery=-1), "number of steps"),
        (lambda: Dcqcn(byte_counter=0), "byte_counter"),
        (lambda: Roce(ecn=None), "add ecn"),
        (lambda: Roce(**WRONG), r"pfc=anb.net.Pfc\(...\)"),
        (lambda: Roce.of("pfc,enc"), "did you mean 'ecn'"),
        (lambda: anb.Network(**WRONG_TOO), r"roce=anb.net.Roce\(\)"),
        (lambda: anb.Simulation("dgx-h100", anb.collectives.all_reduce(64), network=anb.Network(roce=Roce())),
         "without Ethernet"),
    ],
)  # fmt: skip
def test_bad_options_are_one_clear_line(build, says):
    with pytest.raises(InputError, match=says) as error:
        build()
    assert "\n" not in str(error.value)


def test_parts_by_name():
    assert Roce.of("pfc, ecn,dcqcn") == Roce()
    assert Roce.of("ecn") == Roce(pfc=None, dcqcn=None)


def test_what_a_link_is_to_ethernet():
    fabric = compile_fabric(resolve("single-tier:servers=2,server=dgx-a100").expand())
    roles = {
        (fabric.graph.kind_name(int(k.src)), fabric.graph.kind_name(int(k.dst))): int(k.role)
        for k in fabric.links
    }
    assert roles["nic", "port"] == PAUSES | INJECTS
    assert roles["port", "nic"] == PAUSES | MARKS
    assert roles["xpu", "switch"] == roles["switch", "xpu"] == 0  # NVLink
    assert roles["port", "cpu"] not in (0, PAUSES)  # inside of the Ethernet switch


def marks(found, *, kind=STORE, role=MARKS, messages=4000):
    """Count the marked ones of so many messages that find so many bytes in a queue."""
    links, queues = np.zeros(1, LINK).view(np.recarray), np.zeros(4, QUEUE).view(np.recarray)
    requests, details = np.zeros(1, REQUEST).view(np.recarray), np.zeros(1, DETAIL).view(np.recarray)
    roce = roce_row(Roce(ecn=Ecn("10 kB", "100 kB", 0.2)), 0)
    links["role"], requests["kind"], queues["bytes"] = role, kind, found
    owners = {"roce": roce, "links": links, "queues": queues, "requests": requests, "details": details}
    fields: dict[str, Any] = dict.fromkeys(Machine._fields) | owners
    machine = Machine(**fields)
    for _ in range(messages):
        queues[0].joined += 1
        mark(machine, 0, 0, 0)
    return int(links[0].marked)


def test_marks_begin_at_kmin_rise_in_a_line_and_end_at_all():
    assert marks(0) == marks(10_000) == 0
    assert marks(100_000) == marks(200_000) == 4000
    for found in (19_000, 55_000, 91_000):
        share = 0.2 * (found - 10_000) / 90_000
        # Four standard deviations of a fair coin of that share.
        assert abs(marks(found) / 4000 - share) < 4 * (share * (1 - share) / 4000) ** 0.5
    assert marks(55_000) == marks(55_000)


def test_what_carries_no_data_is_not_marked():
    assert marks(200_000, kind=LOAD) == 0
    assert marks(200_000, role=INJECTS) == 0
