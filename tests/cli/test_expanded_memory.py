"""``astranb run model --expanded-memory``."""

from __future__ import annotations

import json

import pytest

from astranb.chakra import NodeType, read_ranks
from astranb.cli import main

_SMALL = ["run", "model", "gpt3-125m", "--gpu", "a100"]


def test_what_does_not_fit_runs_slower_from_expanded_memory(capsys):
    model = [*_SMALL, "--memory-limit", "4 GB"]
    assert main(model) == 2
    capsys.readouterr()
    tier = ["--expanded-memory", "480 GB, 500 GB/s, 500 ns"]
    assert main([*model, *tier]) == 0
    said = capsys.readouterr().out
    assert "of a rank's 5.4 GB lie in expanded memory; memory streams at " in said
    found = {}
    for how in ("serial", "concurrent"):
        assert main([*model, *tier, "--expanded-streaming", how, "--json"]) == 0
        found[how] = json.loads(capsys.readouterr().out)
    assert main([*_SMALL, "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert found["serial"]["time_ps"] > found["concurrent"]["time_ps"] >= alone["time_ps"]
    (split,) = found["serial"]["expanded_memory"]
    assert split["total_bytes"] == found["serial"]["memory"][0]["total"]
    assert split["expanded_bytes"] == split["total_bytes"] - 4 * 10**9
    assert found["serial"]["memory_limit"] == 484 * 10**9
    assert "expanded_memory" not in alone
    assert main([*model, *tier, "--expanded-placement", "coldest"]) == 0
    assert "lie in expanded memory; optimizer " in capsys.readouterr().out


def test_nodes_share_expanded_memory(capsys):
    each = []
    for who in ("gpu", "node"):
        command = [*_SMALL, "--dp", "4", "--memory-limit", "4 GB", "--expanded-memory", "480 GB, 500 GB/s"]
        assert main([*command, "--expanded-shared", who, "--json"]) == 0
        each.append(json.loads(capsys.readouterr().out))
    assert [one["memory_limit"] for one in each] == [484 * 10**9, 124 * 10**9]
    assert each[1]["time_ps"] > each[0]["time_ps"]


def test_plans_are_searched_with_expanded_memory(capsys):
    command = [*_SMALL, "--dp", "2", "--memory-limit", "3 GB", "--suggest", "--json"]
    assert main(command) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main([*command, "--expanded-memory", "8 GB, 500 GB/s"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert more["estimated"] > alone["estimated"]
    assert more["limit_bytes"] == 11 * 10**9


@pytest.mark.parametrize(
    "more, said",
    [
        (["--expanded-shared", "node"], "--expanded-shared needs --expanded-memory"),
        (["--expanded-memory", "480 GB"], "'480 GB' is not a capacity, a bandwidth and a latency"),
        (["--expanded-memory", "1 GB, 1 GB/s", "--memory-limit", "none"], "exclude each other"),
        (["--expanded-memory", "1 GB, 1 GB/s", "--expanded-shared", "nod"], "neither gpu nor node"),
        (["--expanded-memory", "1 GB, 1 GB/s", "--expanded-streaming", "seral"], "did you mean 'serial'"),
        (["--expanded-memory", "1 GB, 1 GB/s", "--expanded-placement", "even"], "did you mean 'evenly'"),
        (
            ["--expanded-memory", "1 GB, 1 GB/s", "--memory-limit", "4 GB"],
            "with 1.0 GB of expanded memory 0.4 GB are missing",
        ),
        (["--expanded-memory", "1 GB, 1 GB/s", "--fidelity", "cacheline"], "does not apply to a model"),
    ],
)
def test_errors_are_one_line(more, said, capsys):
    assert main([*_SMALL, *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_model_whose_memory_is_not_known_is_refused(capsys):
    assert main(["run", "model", "vgg-16", "--expanded-memory", "1 GB, 1 GB/s"]) == 2
    assert "what a rank of vgg-16 holds is not known" in capsys.readouterr().err


def _memory(tmp_path, **more):
    file = tmp_path / "memory.json"
    file.write_text(json.dumps({"remote-mem-latency": 500, "remote-mem-bw": 100, **more}))
    return str(file)


def test_offloaded_data_is_in_the_traces_and_comes_back(tmp_path, capsys):
    """Loads and stores are nodes of the traces, which run as the model does, to the nanosecond."""
    system = {
        **{f"{name}-implementation": ["ring"] for name in ("all-reduce", "all-gather", "reduce-scatter")},
        "preferred-dataset-splits": 1,
    }
    (tmp_path / "s.json").write_text(json.dumps(system))
    (tmp_path / "n.yml").write_text("topology: [Ring]\nnpus_count: [2]\nbandwidth: [100]\nlatency: [500]\n")
    memory = _memory(tmp_path, **{"memory-type": "PER_NODE_MEMORY_EXPANSION", "num-npus-per-node": 2})
    model = [
        "gpt3-125m", "--dp", "2", "--zero", "3", "--gpu", "a100", "--batch", "4",
        "--microbatches", "2", "--offload", "optimizer,parameters,activations", "--update", "gpu",
    ]  # fmt: skip
    prefix = str(tmp_path / "t")
    assert main(["chakra", "generate", "--model", *model, "--output", prefix, "--json"]) == 0
    (trace, _) = read_ranks(prefix)
    loads, stores = (trace.type == kind for kind in (NodeType.MEM_LOAD, NodeType.MEM_STORE))
    assert loads.sum() > stores.sum() > 0
    capsys.readouterr()
    cluster = ["--system", str(tmp_path / "s.json"), "--network", str(tmp_path / "n.yml"), "--memory", memory]
    groups = ["--comm-group", f"{prefix}.groups.json"]
    found = []
    for command in (["trace", prefix, *groups], ["model", *model]):
        assert main(["run", *command, *cluster, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    by_files, at_once = found
    for name in ("time_ps", "per_rank", "message_bytes", "state_hash"):
        assert at_once[name] == by_files[name]
    assert at_once["exposed_ps"]["memory"] > 0
    moved = int(trace.tensor_size[loads | stores].sum())
    assert at_once["time_ps"] >= 2 * moved / 100e9 * 1e12  # two ranks, one memory


def test_the_host_holds_what_is_offloaded(capsys):
    command = [*_SMALL, "--offload", "parameters"]
    assert main(command) == 0
    assert "assumed: offloaded to the host, over 26 GB/s: PCIe 4 x16" in capsys.readouterr().out
    assert main([*command, "--expanded-memory", "480 GB, 500 GB/s"]) == 0
    assert "offloaded to the host" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "more, said",
    [
        (["--offload", "optimiser"], "did you mean 'optimizer'"),
        (["--offload", "parameters", "--dp", "2", "--zero", "1"], "ZeRO 1 keeps all parameters on every GPU"),
        (["--offload", "optimizer", "--update", "cpu"], "unknown update 'cpu'"),
        (["--offload", "parameters", "--suggest"], "are not estimated"),
        (["--offload", "parameters", "--fidelity", "cacheline"], "has no memory outside the GPUs"),
    ],
)
def test_errors_of_offloading_are_one_line(more, said, capsys):
    assert main([*_SMALL, *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_energy_and_cost_are_printed_on_request(tmp_path, capsys):
    assert main([*_SMALL, "--dp", "2"]) == 0
    assert "energy" not in capsys.readouterr().out
    assert main([*_SMALL, "--dp", "2", "--energy"]) == 0
    out = capsys.readouterr().out
    assert "energy of a step: " in out
    assert "with electricity $" in out
    rates = tmp_path / "rates.yaml"
    rates.write_text("gpu_dollars: 1000\nmemory_dollars_per_GB: 0\nnetwork: {Node: {link: 0}}\n")
    assert main([*_SMALL, "--dp", "2", "--rates", str(rates), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["bill"]
    assert found["cluster_dollars"] == 2000
    assert found["energy_J"] > found["gpu_energy_J"] > 0
    rates.write_text("gpu_dolars: 1000\n")
    assert main([*_SMALL, "--rates", str(rates)]) == 2
    error = capsys.readouterr().err
    assert "did you mean 'gpu_dollars'" in error
    assert error.count("\n") == 1


def test_recommendation_models_are_held_against_the_memory_too(capsys):
    command = ["run", "model", "dlrm", "--dp", "2", "--batch", "4096", "--gpu", "a100"]
    assert main([*command, "--json"]) == 0
    (held,) = json.loads(capsys.readouterr().out)["memory"]
    assert held["weights"] > 24e9 < held["total"] < held["total"] + held["free"] == 81_920 << 20
    small = [*command, "--memory-limit", "20 GB"]
    assert main(small) == 2
    assert "needs 26.3 GB of the 20.0 GB of a100-sxm" in capsys.readouterr().err
    assert main([*small, "--expanded-memory", "480 GB, 50 GB/s"]) == 0
    assert "of a rank's 26.3 GB lie in expanded memory" in capsys.readouterr().out
    assert main([*small, "--expanded-memory", "1 GB, 50 GB/s"]) == 2
    assert "5.3 GB are missing; take more GPUs (--dp)" in capsys.readouterr().err
