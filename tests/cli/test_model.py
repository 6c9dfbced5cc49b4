"""``astranb run model`` and ``astranb chakra generate``."""

from __future__ import annotations

import json

import pytest

from astranb.chakra import read_ranks
from astranb.cli import main


def test_the_models_are_listed(capsys):
    assert main(["chakra", "generate", "--list", "--json"]) == 0
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["llama2-7b"]["parameters"] == 6_738_415_616
    assert all(row["source"] for row in rows.values())


def test_what_is_written_runs_as_astra_sims_files_do(tmp_path, capsys):
    """The same model by its files, and at once: to the nanosecond."""
    system = {
        **{
            f"{name}-implementation": ["ring", "ring"]
            for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
        },
        "roofline-enabled": 1,
        "peak-perf": 100,
        "local-mem-bw": 1000,
        "preferred-dataset-splits": 2,
    }
    (tmp_path / "s.json").write_text(json.dumps(system))
    (tmp_path / "n.yml").write_text(
        "topology: [Ring, Switch]\nnpus_count: [2, 4]\nbandwidth: [100, 50]\nlatency: [500, 1000]\n"
    )
    model = ["gpt3-125m", "--dp", "2", "--tp", "2", "--pp", "2", "--microbatches", "3"]
    cluster = ["--system", str(tmp_path / "s.json"), "--network", str(tmp_path / "n.yml")]
    prefix = str(tmp_path / "t")
    assert main(["chakra", "generate", "--model", *model, "--output", prefix, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["ranks"] == len(read_ranks(prefix)) == 8
    groups = ["--comm-group", f"{prefix}.groups.json"]
    assert main(["run", "trace", prefix, *cluster, *groups, "--json"]) == 0
    by_files = json.loads(capsys.readouterr().out)
    assert main(["run", "model", *model, *cluster, "--json"]) == 0
    at_once = json.loads(capsys.readouterr().out)
    for name in ("time_ps", "per_rank", "messages", "message_bytes", "state_hash"):
        assert at_once[name] == by_files[name]
    assert 0 < at_once["model_flops_utilisation"] < 1
    seconds = at_once["time_ps"] / 1e12
    assert at_once["tokens_per_s"] == pytest.approx(6 * 2048 / seconds)
    assert made["tokens"] == 6 * 2048
    used = at_once["model_flops"] / (8 * 100e12 * seconds)
    assert at_once["model_flops_utilisation"] == pytest.approx(used)
    assert at_once["assumed"] == []


def test_without_files_a_cluster_is_assumed_and_printed(capsys):
    assert main(["run", "model", "vgg-16", "--dp", "2"]) == 0
    out = capsys.readouterr().out
    assert "pictures/s" in out
    assert out.count("assumed: ") == 2
    assert main(["run", "model", "vgg-16", "--dp", "8", "--infra", "dgx-h100", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["assumed"]) == 1
    assert main(["run", "model", "gpt3-125m", "--mode", "decode", "--tp", "2", "--seq", "100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mode"] == "decode"


@pytest.mark.parametrize(
    "command, said",
    [
        ("run model gpt-3", "unknown model 'gpt-3'; did you mean"),
        ("run --dp 2", "run: what to run comes first: collective, exchange, model"),
        ("run collective all_gather --sp", "unknown option --sp; it belongs to astranb run model"),
        ("run model gpt3-125m --collective x", "unknown option --collective"),
        ("run model gpt3-125m --infra dgx-h100", "the network has 8 NPUs, but the plan has 1 rank"),
        ("run model gpt3-125m --infra dgx-h100 --network n.yml", "--infra and --network exclude"),
        ("run model gpt3-125m --fidelity cachelin", "did you mean 'cacheline'"),
        ("run model gpt3-125m --dp 0", "0 is out of range"),
        ("run model none.yaml", "No such file"),
        ("chakra generate --model gpt3-125m", "--output is missing"),
        ("chakra generate --output x", "--model is missing"),
        ("chakra generate --model gpt3-125m --output /no/such/t", "cannot be written"),
        ("chakra generate --model gpt3-125m --output x --gpu h10", "no GPU 'h10' for a model"),
    ],
)
def test_what_does_not_go_is_one_line(command, said, capsys):
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert any(part in error for part in said.split("|"))


def test_options_of_the_system_count_for_models_too(tmp_path, capsys):
    (tmp_path / "s.json").write_text('{"all-reduce-implementation": ["ring"], "endpoint-delay": 1000}')
    command = ["run", "model", "vgg-16", "--dp", "2", "--json", "--system", str(tmp_path / "s.json")]
    times = []
    for more in ([], ["--injection-scale", "9"], ["--num-queues-per-dim", "0"]):
        code = main([*command, *more])
        out = capsys.readouterr().out
        times.append(json.loads(out)["time_ps"] if code == 0 else code)
    assert times[0] < times[1]
    assert times[2] == 2
    command = ["run", "model", "gpt3-125m", "--pp", "2", "--json"]
    messages = []
    for more in ([], ["--rendezvous-protocol"]):
        assert main([*command, *more]) == 0
        messages.append(json.loads(capsys.readouterr().out)["messages"])
    assert messages[1] == 2 * messages[0]  # each is asked for


def test_the_three_fidelities_and_what_they_leave(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text("{layers: 1, hidden: 64, heads: 4, ffn: 128, vocab: 0, sequence: 16}")
    (tmp_path / "n.yml").write_text("topology: [Switch]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n")
    command = ["run", "model", str(tmp_path / "mine.yaml"), "--tp", "2", "--dp", "2"]
    command += ["--network", str(tmp_path / "n.yml")]
    times = {}
    for fidelity in ("analytical", "congestion", "cacheline"):
        assert main([*command, "--fidelity", fidelity, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        times[fidelity] = said["time_ps"]
        assert len(said["per_rank"]) == 4
    assert times["analytical"] <= times["congestion"]
    # Of a few KiB, what the endpoints do counts most.
    assert 1 < times["cacheline"] / times["congestion"] < 10
    files = ["--perfetto", str(tmp_path / "p.json"), "--frames", str(tmp_path / "frames")]
    assert main([*command, *files, "--explain"]) == 0
    out = capsys.readouterr().out
    assert "ends last" in out
    spans = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    assert any("L0 fwd 0 mlp" in str(event.get("name")) for event in spans)
    assert list((tmp_path / "frames").glob("*.csv"))


def test_element_wise_operations_and_experts(tmp_path, capsys):
    model = tmp_path / "m.yaml"
    model.write_text("{layers: 2, hidden: 64, heads: 4, ffn: 256, vocab: 100, experts: 4, top_k: 2}")
    run = ["chakra", "generate", f"--model={model}", "--dp=4", "--ep=4", f"--output={tmp_path / 'w'}"]
    assert main([*run, "--elementwise", "--dropout", "--expert-imbalance=1.5"]) == 0
    assert "4 traces" in capsys.readouterr().out
    assert main([*run, "--expert-imbalance=0.5"]) == 2
    assert "take 1 to 2" in capsys.readouterr().err
    assert main(["run", "collective", "all_gather", "--expert-imbalance=2", "--infra=dgx-h100"]) == 2
    assert "--expert-imbalance; it belongs to astranb run model" in capsys.readouterr().err


def test_pytorch_without_compilation_is_slower_and_deepep_sends_less(capsys):
    def took(model: str, *more: str) -> int:
        assert main(["run", "model", model, "--json", *more]) == 0
        return int(json.loads(capsys.readouterr().out)["time_ps"])

    dense = ["llama3-8b", "--dp=8", "--zero=3", "--recompute"]
    fused, eager = took(*dense, "--framework=megatron"), took(*dense, "--framework=pytorch")
    assert took(*dense) == eager  # that is PyTorch's FSDP
    assert took("llama3-8b", "--dp=4", "--tp=2", "--zero=3", "--recompute") == took(
        "llama3-8b", "--dp=4", "--tp=2", "--zero=3", "--recompute", "--framework=pytorch"
    )
    summed = took(*dense, "--framework=pytorch", "--gradient-bytes=4")
    assert fused < eager < summed < took(*dense, "--framework=pytorch", "--attention=flash1")
    experts = ["mixtral-8x7b", "--dp=16", "--ep=8", "--memory-limit=none"]
    assert took(*experts, "--dispatch-node=8") < took(*experts)
    assert main(["run", "model", "llama3-8b", "--framework=jax"]) == 2
    assert "unknown library 'jax'; known: megatron, pytorch" in capsys.readouterr().err
    assert main(["run", "model", *dense, "--batch=8"]) == 0
    assert "PyTorch's FSDP, whose kernels are not fused; --framework megatron" in capsys.readouterr().out


def test_a_gpu_is_fitted_to_timings_of_its_kernels(tmp_path, capsys):
    """Kernels that take twice as long make a step that computes longer; the report has the errors."""
    rows = ["gpu,kernel,precision,shape,ns"]
    rows += [
        f"mine,gemm,bf16,m={m} n=8192 k=8192,{2 * m * 8192 * 8192 / 400e3 + 60_000:.0f}"
        for m in (64, 1024, 8192)
    ]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join([*rows, ""]))
    took = []
    for more in ([], ["--kernels", str(path)]):
        assert main(["run", "model", "llama3-8b", "--tp", "8", *more, "--json"]) == 0
        took.append(json.loads(capsys.readouterr().out))
    assert took[1]["sorts_ps"]["matrices"] > 1.5 * took[0]["sorts_ps"]["matrices"]
    # What every kernel takes besides is fitted, too.
    assert took[1]["sorts_ps"]["attention"] == pytest.approx(took[0]["sorts_ps"]["attention"], rel=0.1)
    assert any("fitted to mine.csv: 3 rows, mean error" in line for line in took[1]["assumed"])
    output = ["--output", str(tmp_path / "t")]
    assert main(["chakra", "generate", "--model", "gpt3-125m", "--kernels", str(path), *output]) == 2
    assert "chakra generate: --kernels needs --gpu" in capsys.readouterr().err
    path.write_text("gpu,ns\n")
    assert main(["run", "model", "gpt3-125m", "--kernels", str(path)]) == 2
    assert "mine.csv: the columns are 'gpu,ns'" in capsys.readouterr().err
