"""A preset of what was measured: the simulated GPU then measures the same."""

import json

import pytest

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError

TWO = "switch:gpus=2"
COPIES = tuple(f"copy to a peer, {blocks} blocks" for blocks in (1, 16, 64))


def measurement(gpu, infra=TWO, *, peak=True, only=None):
    """Return what ``gpu_microbench.py`` would write on a simulated GPU."""
    chosen = anb.gpu.preset(gpu)
    table = anb.explore.microbenchmarks(chosen, infra)
    rows = [{"what": r.what, "value": r.value, "unit": r.unit, "spread": 0.0} for r in table.itertuples()]
    device = {
        "name": f"simulated {gpu}",
        "sms": chosen.sms,
        "l2_bytes": chosen.l2_bytes,
        "near_bytes": chosen.near_bytes,
        "memory_bytes": chosen.memory_bytes,
        "clock_MHz": 2e6 / chosen.issue_ps,
    }
    if peak:
        device["memory_GBps"] = chosen.hbm_Bps / 1e9
    measured = [row for row in rows if only is None or row["what"] in only]
    return {"format": "astranb-gpu-microbench", "version": 1, "device": device, "measured": measured}


@pytest.mark.parametrize(
    "gpu,like,infra,peak",
    [
        ("a100-sxm", "h100-sxm", TWO, True),
        ("a100-sxm", "h100-sxm", "dgx-h100", False),
        # An MI300X keeps half as many lines in flight as an H200 needs.
        ("h200-sxm", "mi300x", TWO, False),
    ],
)
def test_the_round_trip(gpu, like, infra, peak):
    found = measurement(gpu, infra, peak=peak)
    made = anb.explore.preset_from(found, like=like, infra=infra)
    assert made.name == f"simulated-{gpu}"
    again = anb.explore.microbenchmarks(made, infra).set_index("what")["value"]
    assert set(again.index) == {row["what"] for row in found["measured"]}
    for row in found["measured"]:
        assert again[row["what"]] == pytest.approx(row["value"], rel=0.05), row["what"]
    compared = anb.explore.compare_to_measured(made, found, infra)
    assert compared["off"].abs().max() < 0.05


def test_the_source_of_every_number_records_whether_it_was_measured():
    only = {"L2 hit, near", "fence after a store", "copy to a peer, 1 blocks"}
    found = measurement("a100-sxm", only=only)
    made = anb.explore.preset_from(found, like="h100-sxm", name="mine")
    h100, a100 = anb.gpu.preset("h100-sxm"), anb.gpu.preset("a100-sxm")
    printed = {name for name, one in made.sources.items() if not one.source.startswith("not measured")}
    assert printed == {
        "sms", "l2_bytes", "near_bytes", "memory_bytes", "issue_ps", "atomic_ps", "noc_ps", "l2_ps",
        "fence_ps",
    }  # fmt: skip
    assert (made.sms, made.l2_bytes, made.near_bytes) == (a100.sms, a100.l2_bytes, a100.near_bytes)
    assert made.fence_ps == pytest.approx(a100.fence_ps, rel=0.01)
    for name in set(made.sources) - printed:
        assert getattr(made, name) == getattr(h100, name)
        kind, source = h100.sources[name]
        assert made.sources[name] == (kind, f"not measured, as h100-sxm: {source}")
    assert {made.sources[name].kind for name in printed} == {"measured"}


def test_what_crosses_links_tells_nothing_without_them():
    found = measurement("a100-sxm", only={"flag, one way", "copy to a peer, 1 blocks", "memory"})
    made = anb.explore.preset_from(found)
    compared = anb.explore.compare_to_measured(made, found).set_index("what")
    assert compared["simulated"].isna().to_dict() == {
        "memory": False, "flag, one way": True, "copy to a peer, 1 blocks": True,
    }  # fmt: skip


def test_a_slow_block_keeps_less_in_flight():
    found = measurement("h100-sxm", "dgx-h100", only=set(COPIES[:2]))
    for row in found["measured"]:
        row["value"] /= 2
    made = anb.explore.preset_from(found, infra="dgx-h100")
    assert made.max_outstanding < 200
    assert made.sources["max_outstanding"].source.startswith("copy to a peer, 1 blocks")
    # Sixteen blocks are not limited by what one SM keeps in flight alone.
    off = anb.explore.compare_to_measured(made, found, "dgx-h100")["off"].abs()
    assert (off[0] < 0.05, off[1] < 0.2) == (True, True)


def test_a_fast_block_keeps_more_in_flight():
    found = measurement("h100-sxm", "dgx-h100", only=set(COPIES[::2]))
    found["measured"][0]["value"] *= 2
    made = anb.explore.preset_from(found, infra="dgx-h100")
    assert made.max_outstanding > 256  # 32 lines a warp are enough
    assert anb.explore.compare_to_measured(made, found, "dgx-h100")["off"][0] == pytest.approx(0, abs=0.05)


def test_what_no_gpu_can_be_is_said_to_be_off():
    """A memory faster than the L2 in front of it."""
    found = measurement("h100-sxm", only={"L2 hit, near", "memory"})
    found["measured"][1]["value"] = 50
    compared = anb.explore.compare_to_measured(anb.explore.preset_from(found), found).set_index("what")["off"]
    assert compared["L2 hit, near"] == pytest.approx(0, abs=0.01)
    assert compared["memory"] > 0.5


def test_a_gpu_without_an_l2_is_no_start():
    with pytest.raises(InputError, match="generic has none; start from a preset with an L2"):
        anb.explore.preset_from(measurement("h100-sxm", only={"L2 hit, near"}), like="generic")


def test_names():
    found = measurement("h100-sxm", only={"kernel launch"})
    names = {"h100-sxm": "h100-sxm-measured", "µ": "my-gpu", "GH200 480GB": "gh200-480gb"}
    for device, name in names.items():
        found["device"]["name"] = device
        assert anb.explore.preset_from(found).name == name
    with pytest.raises(InputError, match="not a valid name"):
        anb.explore.preset_from(found, name="a/b")


SOME = ("L2 hit, near", "memory", "fence after a store", "kernel launch", "flag, one way")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my-gpu.json"
    found = measurement("a100-sxm", only=set(SOME))
    path.write_text(json.dumps(found))
    return path


def test_the_command(file, tmp_path, capsys):
    out = tmp_path / "mine.preset.json"
    assert main(["gpu", "from", str(file), "--like", "h100-sxm", "--name", "mine", "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"wrote mine, based on h100-sxm, to {out}" in printed
    assert "crosses a link; give --infra" in printed
    assert "off by more than" not in printed
    assert main(["gpu", "show", str(out), "--json"]) == 0
    numbers = {row["number"]: row for row in json.loads(capsys.readouterr().out)["numbers"]}
    assert numbers["launch_ps"]["value"] == 2_600_000
    assert numbers["launch_ps"]["source"] == "kernel launch 2600 ns (simulated a100-sxm)"
    assert numbers["launch_ps"]["kind"] == "measured"
    run = ["run", "collective", "all_reduce", "--infra", TWO, "--size", "1KiB", "--gpu", str(out)]
    assert main(run) == 0


def test_the_command_as_json(file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["gpu", "from", str(file), "--infra", TWO, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["file"] == "simulated-a100-sxm.preset.json"
    assert {row["what"]: abs(row["off"]) < 0.05 for row in printed["comparison"]} == dict.fromkeys(SOME, True)
    assert anb.gpu.preset(printed["file"]).name == printed["name"]


def test_presets_are_listed_and_shown(capsys):
    assert main(["gpu", "list"]) == 0
    assert "304 CUs" in capsys.readouterr().out
    assert main(["gpu", "list", "--json"]) == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} == set(anb.gpu.PRESETS)
    assert main(["gpu", "show", "mi300x"]) == 0
    assert "304 CUs, AMD Instinct MI300X data sheet" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["show", "h100-smx"], "did you mean 'h100-sxm'"),
        (["show", "none.json"], "none.json: No such file"),
        (["from", "none.json"], "none.json: No such file"),
        (["from", "FILE", "--like", "h10"], "unknown GPU 'h10'"),
        (["from", "FILE", "--name", "a b"], "'a b' is not a valid name"),
        (["from", "FILE", "--output", "mine.txt"], "ends in .json"),
        (["from", "FILE", "--infra", "no-such"], "no-such"),
        (["show", "FILE"], "`astranb gpu from` makes a GPU's file from a measurement"),
        (["fits"], "unknown command 'fits'; did you mean 'fit'"),
    ],
)
def test_bad_input_is_one_line(arguments, message, file, capsys):
    assert main(["gpu", *(str(file) if word == "FILE" else word for word in arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
