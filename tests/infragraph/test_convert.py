"""Topology files of NCCL and lstopo, made into documents: what is in them arrives, the rest is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError, InputWarning
from astranb.infragraph import Infra, convert, load
from tests.infragraph.test_expand import RECORDED

FOUR = Path(__file__).resolve().parents[2] / "tutorials" / "data" / "four_a100_nccl_topology.xml"

PCI = 'link_speed="32.0 GT/s PCIe" link_width="16"'


def gpu(address: str, dev: int, inside: str = "", sm: int = 90, pcie: str = PCI) -> str:
    return (
        f'<pci busid="{address}" class="0x030200" {pcie}><gpu dev="{dev}" sm="{sm}" rank="{dev}">'
        f"{inside}</gpu></pci>"
    )


def bridge(address: str, *inside: str, pcie: str = PCI) -> str:
    return f'<pci busid="{address}" class="0x060400" {pcie}>{"".join(inside)}</pci>'


def link(target: str, count: int = 1, towards: str = "0x030200") -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="{towards}"/>'


NIC = f'<pci busid="0000:09:00.0" class="0x020700" {PCI}><nic><net name="mlx5_0" speed="400000"/></nic></pci>'


def nccl(tmp_path: Path, *inside: str) -> Infra:
    file = tmp_path / "box.xml"
    file.write_text(f'<system version="1"><cpu numaid="0">{"".join(inside)}</cpu></system>')
    return convert(file)


def edges(infra: Infra) -> dict[tuple[str, str], tuple[str, int]]:
    """Link and lanes of each edge, by its ends without the host."""
    graph = infra.expand()
    short = [graph.name(n).removeprefix("host.0.") for n in range(len(graph))]
    return {
        (short[a], short[b]): (graph.links[link].name, int(lanes))
        for a, b, link, lanes in zip(
            graph.edges.a, graph.edges.b, graph.edges.link, graph.edges.lanes, strict=True
        )
    }


def test_nccl_of_the_lesson() -> None:
    infra = convert(FOUR)
    found = edges(infra)
    assert infra.summary()["node_types"] == {"cpu": 2, "nic": 2, "switch": 2, "xpu": 4}
    assert {found[f"gpu.{a}", f"gpu.{b}"] for a in range(4) for b in range(a + 1, 4)} == {("nvlink3", 4)}
    assert found["cpu.0", "pciesw.0"] == found["pciesw.1", "gpu.3"] == ("pcie4-x16", 1)
    assert found["cpu.0", "cpu.1"] == ("cpu fabric", 1)
    graph = infra.expand()
    rates = {
        graph.links[k].name: int(r)
        for k, r in zip(graph.edges.link, graph.edges["bandwidth_Bps"][0], strict=True)
    }
    assert rates == {"nvlink3": 25 * 10**9, "pcie4-x16": 31_508_000_000, "cpu fabric": 48 * 10**9}
    assert not infra.notes
    assert not infra.check()


def test_gpus_are_in_the_order_of_ranks_and_ports_are_no_switches(tmp_path: Path) -> None:
    infra = nccl(
        tmp_path,
        bridge("0000:10:00.0", bridge("0000:11:00.0", gpu("0000:12:00.0", 1))),
        bridge("0000:20:00.0", gpu("0000:21:00.0", 0), NIC),
    )
    assert edges(infra) == {
        ("cpu.0", "gpu.1"): ("pcie5-x16", 1),
        ("cpu.0", "pciesw.0"): ("pcie5-x16", 1),
        ("pciesw.0", "gpu.0"): ("pcie5-x16", 1),
        ("pciesw.0", "nic.0"): ("pcie5-x16", 1),
    }
    components = infra.to_dict()["devices"][0]["components"]
    said = {c["name"]: c["description"] for c in components}
    assert said["gpu"] == "H100 (sm 90): 0000:21:00.0, 0000:12:00.0"
    assert said["nic"] == "mlx5_0 400 Gb/s: 0000:09:00.0"


def test_the_slowest_port_of_a_route_is_its_rate(tmp_path: Path) -> None:
    slow = 'link_speed="8.0 GT/s PCIe" link_width="8"'
    infra = nccl(tmp_path, bridge("0000:10:00.0", gpu("0000:12:00.0", 0), pcie=slow))
    assert edges(infra) == {("cpu.0", "gpu.0"): ("pcie3-x8", 1)}
    assert int(infra.expand().edges["bandwidth_Bps"][0][0]) == 7_877_000_000  # 8 GT/s x 8 x 128/130 / 8
    assert any("an idle GPU lowers it" in note for note in infra.notes)


@pytest.mark.parametrize("pcie", ["", 'link_speed="Unknown" link_width="255"', 'link_speed="16 GT/s"'])
def test_a_rate_that_is_not_given_is_assumed(tmp_path: Path, pcie: str) -> None:
    infra = nccl(tmp_path, gpu("0000:12:00.0", 0, pcie=pcie))
    assert any("bandwidth of 'pcie'" in line for line in infra.summary()["assumed"])


def test_nvswitches_are_known_only_by_links_to_them(tmp_path: Path) -> None:
    ups = "".join(link(f"0000:c{n}:00.0", 2, "0x068000") for n in range(3))
    infra = nccl(tmp_path, *(gpu(f"0000:1{n}:00.0", n, ups) for n in range(4)))
    found = edges(infra)
    assert {found[f"gpu.{g}", f"nvsw.{s}"] for g in range(4) for s in range(3)} == {("nvlink4", 2)}
    assert not any("nvsw" in b for a, b in found if "gpu" not in a)  # no PCIe to them
    # All with all is one declaration, once for each lane.
    nvlinks = [e for e in infra.to_dict()["devices"][0]["edges"] if e["link"] == "nvlink4"]
    assert (
        nvlinks
        == [
            {
                "ep1": {"component": "gpu"},
                "ep2": {"component": "nvsw"},
                "scheme": "many2many",
                "link": "nvlink4",
            }
        ]
        * 2
    )


def test_other_links(tmp_path: Path) -> None:
    xgmi = '<xgmi target="0000:13:00.0" count="1" tclass="0x038000"/>'
    infra = nccl(tmp_path, gpu("0000:12:00.0", 0, xgmi), gpu("0000:13:00.0", 1))
    assert edges(infra)["gpu.0", "gpu.1"] == ("xgmi", 1)
    infra = nccl(tmp_path, gpu("0000:12:00.0", 0, '<c2c bw="450000" count="1"/>'))
    assert edges(infra)["gpu.0", "cpu.0"] == ("nvlink-c2c", 1)
    infra = nccl(
        tmp_path, gpu("0000:12:00.0", 0, link("0000:13:00.0", 4), 86), gpu("0000:13:00.0", 1, "", 86)
    )
    assert edges(infra)["gpu.0", "gpu.1"] == ("nvlink3-14GBps", 4)


def test_links_out_of_the_file_are_noted(tmp_path: Path) -> None:
    infra = nccl(tmp_path, gpu("0000:12:00.0", 0, link("0000:99:00.0", 4)))
    assert infra.notes == ["left out: 1 NVLink to 0000:99:00.0, which is not in the file"]


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the shared folder with real topology files is not here")
@pytest.mark.parametrize("algorithm", ["ring", "allpairs"])
def test_a_real_dgx_a100_is_the_blueprint(algorithm: str) -> None:
    times = []
    for infra in (convert(RECORDED / "xml" / "dgx_a100_nccl_topo.xml"), "dgx-a100"):
        collective = anb.collectives.all_reduce("64 KiB", algorithm)
        sim = anb.Simulation(infra, collective, gpu="a100-sxm", record=False)
        sim.run()
        times.append(sim.now_ps)
    assert times[0] == times[1] > 0


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the shared folder with real topology files is not here")
def test_a_real_dgx_2() -> None:
    (file,) = (RECORDED / "xml").glob("NVIDIA-DGX2H*.xml")
    infra = convert(file)
    kinds = {c["name"]: c["count"] for c in infra.to_dict()["devices"][0]["components"]}
    assert infra.name == "NVIDIA DGX-2H"
    assert kinds == {"gpu": 16, "nvsw": 12, "pciesw": 12, "nic": 10, "eth": 1, "cpu": 2}
    assert infra.summary()["edges_by_link"]["nvlink2"] == 96
    assert infra.notes == ["NVLink falls into 2 parts: links between NVSwitches are not in the file"]


# Files for NCCL_TOPO_FILE, which leave out what NCCL asks the driver, laid out as those of Azure and AWS
# (Azure/azhpc-images @6db46df, topology/ndv5-topo.xml; aws/aws-ofi-nccl @8807ce1, topology/p5.48xl-topo.xml).


def untagged(address: str, code: str = "0x030200", more: str = "") -> str:
    return f'<pci busid="{address}" class="{code}" {PCI} {more}/>'


def input_file(tmp_path: Path, count: int = 8, inside: str = "") -> Path:
    pairs = [
        bridge(f"ffff:ff:0{n}.0", untagged(f"000{n}:00:00.0"), untagged(f"010{n}:00:00.0", "0x020700"))
        for n in range(count)
    ]
    cpus = ("".join(pairs[: count // 2]) + inside, "".join(pairs[count // 2 :]))
    file = tmp_path / "cloud.xml"
    inner = "".join(f'<cpu numaid="{n}">{cpu}</cpu>' for n, cpu in enumerate(cpus))
    file.write_text(f"<system>{inner}</system>")
    return file


BY_PCIE = "8 GPUs have neither <gpu> nor <nvlink>, as in a file for NCCL_TOPO_FILE"


def test_an_input_file_of_nccl_is_completed_as_nccl_does(tmp_path: Path) -> None:
    file = input_file(tmp_path)
    plain = convert(file)
    assert plain.check() == [plain.missing]
    assert plain.missing.startswith(BY_PCIE)
    assert "nvlink4" not in plain.expand().edges_by_link()
    with pytest.warns(InputWarning, match=rf"cloud\.xml: {BY_PCIE}.*name the GPU .--gpu h100-sxm"):
        assert plain.completed(None) is plain
    for made in (plain.completed("h100-sxm"), convert(file, gpu="h100-sxm")):
        found = edges(made)
        assert {found[f"gpu.{n}", "nvsw.0"] for n in range(8)} == {("nvlink4", 18)}
        assert made.device_names() == ["h100-server"]
        assert any("added for h100-sxm: 18 NVLinks" in note for note in made.notes)
        assert not made.check()
        assert made.completed(None) is made
    times = []
    for infra in (str(file), "ndv5"):
        sim = anb.Simulation(infra, anb.collectives.all_reduce("64 KiB"), gpu="h100-sxm", record=False)
        sim.run()
        times.append(sim.now_ps)
    assert times[0] == times[1] > 0


@pytest.mark.parametrize(
    "gpu, link, lanes",
    [
        ("h800-sxm", "nvlink4-h800", 8),
        ("h20", "nvlink4", 18),
        ("a100-sxm", "nvlink3", 12),
        ("gb200", "nvlink5", 18),
    ],
)
def test_the_gpu_says_which_nvlinks_are_added(tmp_path: Path, gpu: str, link: str, lanes: int) -> None:
    assert edges(convert(input_file(tmp_path, 2), gpu=gpu))["gpu.1", "nvsw.0"] == (link, lanes)


def test_gpus_of_amd_are_a_mesh(tmp_path: Path) -> None:
    found = edges(convert(input_file(tmp_path, 4), gpu="mi300x"))
    pairs = [
        f"gpu.{b}" for a in range(4) for b in range(a + 1, 4) if found[f"gpu.{a}", f"gpu.{b}"] == ("xgmi", 1)
    ]
    assert len(pairs) == 6


@pytest.mark.parametrize("gpu", ["generic", "l40s", "h100-pcie", "v100"])
def test_a_gpu_without_known_links_is_warned_of(tmp_path: Path, gpu: str) -> None:
    plain = convert(input_file(tmp_path))
    with pytest.warns(InputWarning, match=f"no links among 8 GPUs '{gpu}' are known"):
        assert edges(plain.completed(gpu)) == edges(plain)


def test_gpus_with_an_element_but_no_nvlink(tmp_path: Path) -> None:
    """AWS's later file has <gpu>, and no <nvlink>; a machine of PCIe cards has none to miss."""
    p5 = nccl(tmp_path, gpu("0000:4f:00.0", 0), gpu("0000:60:00.0", 1))
    assert p5.missing.startswith("2 GPUs have no <nvlink>: they reach one another by PCIe only")
    assert edges(p5.completed("h100-sxm"))["gpu.1", "nvsw.0"] == ("nvlink4", 18)
    assert not nccl(tmp_path, gpu("0000:4f:00.0", 0, "", 89), gpu("0000:60:00.0", 1, "", 89)).missing
    assert not nccl(tmp_path, gpu("0000:4f:00.0", 0)).missing


def test_a_file_without_gpus_and_classes(tmp_path: Path) -> None:
    """AWS's first file: switches and NICs without a class; NCCL adds the GPUs of the machine."""
    nics = "".join(
        f'<pci busid="0000:5{n}:00.0" link_speed="32 GT/s PCIe/s" link_width="16"/>' for n in range(4)
    )
    infra = nccl(tmp_path, f'<pci busid="0000:45:00.0">{nics}</pci>')
    assert infra.missing.startswith("no GPU in the file: NCCL adds those of the machine")
    assert infra.notes == ["0000:50:00.0 and 3 more of class ?: left out"]
    with pytest.warns(InputWarning, match="no GPU in the file"):
        infra.completed("h100-sxm")


@pytest.mark.filterwarnings("default::astranb.core.errors.InputWarning")
def test_commands_warn_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(input_file(tmp_path, 2))
    run = ["run", "collective", "all_reduce", "--infra", file, "--size", "1KiB", "--json"]
    step = ["run", "model", "gpt3-125m", "--infra", file, "--dp", "2", "--json"]
    for command in (run, [*run, "--fidelity", "congestion"], step):
        assert main(command) == 0
        printed = capsys.readouterr()
        assert printed.err.splitlines() == [f"astranb: {file}: {convert(file).missing}"]
        if "congestion" not in command:
            assert main([*command, "--gpu", "h100-sxm"]) == 0
            assert not capsys.readouterr().err
    assert main(["infra", "convert", file, "--gpu", "h100", "--output", str(tmp_path / "out.yaml")]) == 0
    assert "added for h100-sxm" in capsys.readouterr().err
    assert load(tmp_path / "out.yaml").expand().edges_by_link()["nvlink4"] == 2
    assert main(["infra", "convert", file, "--gpu", "h10"]) == 2
    assert "unknown GPU 'h10'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more, count",
    [
        ('vendor="0x10de" device="0x1b38"', 1),  # NVIDIA's graphics are GPUs
        ('vendor="0x1002" device="0x744c"', 1),
        ('vendor="0x1002" device="0x515e"', 0),  # ES1000
        ('vendor="0x1a03" device="0x2000"', 0),  # ASPEED
        ('vendor="0x102b" device="0x0536"', 0),  # Matrox
        ("", 0),
    ],
)
def test_graphics_of_a_server_are_no_gpu(tmp_path: Path, more: str, count: int) -> None:
    vga = untagged("0000:02:00.0", "0x030000", more)
    infra = convert(input_file(tmp_path, 2, vga))
    assert len(infra.expand().gpus) == 2 + count
    assert ("0000:02:00.0 of class 0x030000: left out" in infra.notes) == (not count)


# hwloc's file: objects in objects, indices for the matrix of NVLinks.


def device(index: int, address: str, code: str, inside: str = "", speed: float = 31.507692) -> str:
    return (
        f'<object type="PCIDev" gp_index="{index}" pci_busid="{address}" pci_type="{code}" '
        f'pci_link_speed="{speed}">{inside}</object>'
    )


def system(index: int, name: str, kind: int, **infos: str) -> str:
    said = "".join(f'<info name="{key}" value="{value}"/>' for key, value in infos.items())
    return f'<object type="OSDev" gp_index="{index}" name="{name}" osdev_type="{kind}">{said}</object>'


def port(*inside: str, speed: float = 31.507692) -> str:
    return (
        f'<object type="Bridge" pci_busid="0000:00:01.0" pci_link_speed="{speed}">{"".join(inside)}</object>'
    )


def package(number: int, *bridges: str) -> str:
    host = f'<object type="Bridge" bridge_type="0-1">{"".join(bridges)}</object>'
    return f'<object type="Package" os_index="{number}"><info name="CPUModel" value="EPYC"/>{host}</object>'


def lstopo(tmp_path: Path, *inside: str, matrix: str = "", doctype: str = "") -> Infra:
    file = tmp_path / "box.xml"
    product = '<info name="DMIProductName" value="Box 1.0"/>'
    file.write_text(
        f'<?xml version="1.0" encoding="UTF-8"?>\n{doctype}'
        f'<topology version="2.0"><object type="Machine">{product}{"".join(inside)}</object>'
        f"{matrix}</topology>"
    )
    return convert(file)


def v100(number: int) -> str:
    name = system(100 + number, f"nvml{number}", 1, GPUModel="Tesla V100-SXM2")
    return port(device(number, f"0000:0{number}:00.0", "0302 [10de:1db8] [10de:131d] a1", name))


def nvlinks(*rows: str, ends: str = "OSDev:101 OSDev:102 PCIDev:7") -> str:
    values = "".join(f'<u64values length="9">{row} </u64values>' for row in rows)
    inside = f"<indexes>{ends}</indexes>{values}"
    return f'<distances2hetero nbobjs="3" name="NVLinkBandwidth">{inside}</distances2hetero>'


CX6 = device(5, "0000:21:00.0", "0207 [15b3:101b] [15b3:0007] 00", system(50, "mlx5_0", 3))
I350 = [
    device(8 + n, f"0000:31:00.{n}", "0200 [8086:1521] [0:0] 01", system(60 + n, f"eno{n}", 2))
    for n in (0, 1)
]
SWITCH = port(device(7, "0000:41:00.0", "0680 [10de:1ac2] [0000:0000] a1", speed=1.0))
CONSOLES = [
    port(device(9 + n, f"0000:5{n}:00.0", f"0300 [{ids}] [0:0] 52"))
    for n, ids in enumerate(("1a03:2000", "1002:515e", "1002:4752", "102b:0536"))
]


def test_lstopo(tmp_path: Path) -> None:
    infra = lstopo(
        tmp_path,
        package(0, v100(2), port(port(CX6), v100(1)), *CONSOLES),
        package(1, port(*I350, speed=2.5), SWITCH),
        matrix=nvlinks("0 50000 25000", "50000 0 25000", "25000 25000 0"),
        doctype='<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n',
    )
    assert infra.name == "Box 1-0"
    assert edges(infra) == {
        ("cpu.0", "gpu.1"): ("pcie at 31_5 GBps", 1),  # nvml2, found first
        ("cpu.0", "pciesw.0"): ("pcie at 31_5 GBps", 1),
        ("pciesw.0", "nic.0"): ("pcie at 31_5 GBps", 1),
        ("pciesw.0", "gpu.0"): ("pcie at 31_5 GBps", 1),
        ("cpu.1", "eth.0"): ("pcie at 2_5 GBps", 1),
        ("cpu.0", "cpu.1"): ("cpu fabric", 1),
        ("gpu.0", "gpu.1"): ("nvlink2", 2),
        ("gpu.0", "nvsw.0"): ("nvlink2", 1),
        ("gpu.1", "nvsw.0"): ("nvlink2", 1),
    }
    said = {c["name"]: c["description"] for c in infra.to_dict()["devices"][0]["components"]}
    assert said["gpu"] == "Tesla V100-SXM2: 0000:01:00.0, 0000:02:00.0"
    assert said["eth"] == "0000:31:00.0 + 0000:31:00.1"
    assert not infra.notes


def test_lstopo_without_nvml_and_packages(tmp_path: Path) -> None:
    infra = lstopo(tmp_path, f'<object type="Bridge" bridge_type="0-1">{v100(1)}</object>')
    assert edges(infra) == {("cpu.0", "gpu.0"): ("pcie at 31_5 GBps", 1)}
    assert infra.notes == ["no CPU package is listed: one is assumed"]


def sxm(number: int) -> str:
    name = system(200 + number, f"cuda{number}", 5, GPUModel="NVIDIA H100 SXM5 80GB")
    return port(device(number, f"0000:0{number}:00.0", "0302 [10de:2330] [10de:16c1] a1", name))


def test_lstopo_without_nvml_is_completed(tmp_path: Path) -> None:
    infra = lstopo(tmp_path, package(0, sxm(1), sxm(2)))
    assert infra.missing.startswith("2 GPUs on a board have no links in the file, as lstopo without NVML")
    assert edges(infra.completed("h100-sxm"))["gpu.0", "nvsw.0"] == ("nvlink4", 18)


def test_bridges_without_a_package_hang_on_the_first_cpu(tmp_path: Path) -> None:
    host = f'<object type="Bridge" bridge_type="0-1">{v100(1)}</object>'
    infra = lstopo(tmp_path, package(0), package(1), host)
    assert ("cpu.0", "gpu.0") in edges(infra)
    assert any("they are connected to the first" in note for note in infra.notes)


def deep(name: str, count: int, inside: str = "") -> str:
    opened = {"pci": '<pci busid="0000:01:00.0" class="0x060400">', "object": '<object type="Group">'}[name]
    return opened * count + inside + f"</{name}>" * count


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "not XML"),
        ("<system><cpu></system>", "box.xml: line 1: not XML"),
        ("name: yaml", "not XML"),
        ('<graphs version="1"/>', "a graph of NCCL's"),
        ("<svg/>", "an element <svg>"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><system/>', "a DOCTYPE with declarations"),
        ('<!DOCTYPE a SYSTEM "x"><!DOCTYPE b SYSTEM "x"><system/>', "a DOCTYPE with declarations"),
        (f"<system><cpu>{deep('pci', 5000)}</cpu></system>", "nested deeper than 60"),
        (f'<topology><object type="Machine">{deep("object", 5000)}</object></topology>', "deeper than 120"),
        ("<topology/>", "no object of type Machine"),
        ('<topology><object type="NUMANode"/></topology>', "no object of type Machine"),
        (f"<system><cpu>{gpu('a', 0)}{gpu('a', 1)}</cpu></system>", "duplicate address 'a'"),
        (f"<system><cpu>{gpu('a', 0, link('b', 0))}</cpu></system>", "count=0 is out of range"),
        (f"<system><cpu>{gpu('a', 0, link('b', 10**9))}</cpu></system>", "count=1000000000 is out of range"),
        ('<system><cpu><pci class="0x030200"/></cpu></system>', "attribute 'busid' is missing"),
        (f"<system>{'<cpu/>' * 300}</system>", "too many CPUs in one host: 300"),
        (f'<topology><object type="Machine"/>{nvlinks("0 1", "1 0")}</topology>', "not the square of"),
        (f'<topology><object type="Machine"/>{nvlinks("0 x")}</topology>', "something that is not a number"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "box.xml"
    file.write_text(text)
    assert main(["infra", "convert", str(file), "--output", str(tmp_path / "out.yaml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert not (tmp_path / "out.yaml").exists()


def test_a_box_without_gpus_converts_and_says_so(tmp_path: Path) -> None:
    assert "no GPU: a GPU is a component with choice: xpu" in nccl(tmp_path, NIC).check()


def test_names_from_files_are_names(tmp_path: Path) -> None:
    said = lstopo(tmp_path, '<info name="DMIProductName" value="&lt;img src=x onerror=alert(1)&gt; [0].b"/>')
    assert said.name == "img src-x onerror-alert(1)- -0-b"
    with pytest.raises(InputError, match="No such file"):
        convert(tmp_path / "none.xml")


def test_a_topology_file_is_read_wherever_a_document_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert edges(load(FOUR)) == edges(load(str(FOUR))) == edges(convert(FOUR))
    noted = load(FOUR, {"links": [{"name": "pcie4-x16", "attributes": [note("astranb.latency", "1 us")]}]})
    assert set(noted.expand().edges["latency_ps"][0].tolist()) == {100_000, 120_000, 1_000_000}
    assert main(["infra", "check", str(FOUR)]) == 0
    assert capsys.readouterr().out == "well formed, no warnings\n"


def note(attribute: str, value: str) -> dict[str, str]:
    return {"attribute": attribute, "value": value}


def test_the_command_writes_what_load_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "four.json"
    assert main(["infra", "convert", str(FOUR), "--output", str(out), "--name", "four", "--json"]) == 0
    import json

    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    infra = load(out)
    assert (said["name"], said["gpus"], said["file"]) == ("four", 4, str(out))
    assert edges(infra) == edges(convert(FOUR))
    assert infra.device_names() == ["a100-server"]


def test_no_document_is_written_over_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["infra", "convert", str(FOUR)]) == 0
    written = Path("four_a100_nccl_topology.yaml")
    written.write_text("mine")
    capsys.readouterr()
    assert main(["infra", "convert", str(FOUR)]) == 2
    assert "four_a100_nccl_topology.yaml: the file exists" in capsys.readouterr().err
    assert written.read_text() == "mine"
    assert main(["infra", "convert", str(FOUR), "--output", str(written)]) == 0
    assert load(written).summary()["gpus"] == 4


def test_a_system_without_content_is_refused(tmp_path: Path) -> None:
    for text in ('<system version="1"/>', '<system version="1"> </system>'):
        (tmp_path / "empty.xml").write_text(text)
        with pytest.raises(InputError, match=r"system: the system has no content; write it again with NCCL_"):
            convert(tmp_path / "empty.xml")


def test_an_infrastructure_without_nodes_has_no_components() -> None:
    device: dict[str, Any] = {"name": "d", "components": []}
    infra = load({"devices": [device], "instances": [{"name": "h", "device": "d", "count": 1}]})
    assert infra.summary()["connected_components"] == 0
    assert infra.check() == ["no GPU: a GPU is a component with choice: xpu"]
