"""``astranb serve``, and what ``astranb run`` says of inference."""

from __future__ import annotations

import json

import pytest

from astranb.cli import main
from astranb.explore import serve
from astranb.workload.kernels import GPUS, KernelTimes
from astranb.workload.serving import ServingPolicy, engine_named, requests_of

POISSON = "poisson:rate=20,prompt=200,output=20,count=40,seed=1"


def run(capsys, *argv):
    code = main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_answer_is_that_of_the_library(capsys):
    code, out, err = run(capsys, "serve", "--model", "llama3-8b", "--requests", POISSON, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == serve("llama3-8b", requests_of(POISSON)).document()


def test_every_option_reaches_the_policy(capsys):
    code, out, _ = run(
        capsys, "serve", "--model", "llama3-70b", "--gpu", "h200", "--tp", "4", "--pp", "2", "--precision",
        "fp8", "--cache-precision", "fp8", "--requests", POISSON, "--max-batch", "16", "--token-budget",
        "512", "--no-chunked-prefill", "--block-size", "32", "--reserve-output", "--watermark", "0.05",
        "--memory-fraction", "0.8", "--instances", "2", "--host-time", "20 us", "--front-end-time", "1 ms",
        "--launch", "graph", "--memory-limit", "100GB", "--json",
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    policy = ServingPolicy(
        16, 512, chunked_prefill=False, block_size=32, reserve_output=True, watermark=0.05,
        memory_fraction=0.8, instances=2, host_ns=20_000, front_ns=1_000_000,
    )  # fmt: skip
    times = KernelTimes(GPUS["h200-sxm"], "fp8", launch="graph")
    expected = serve(
        "llama3-70b", requests_of(POISSON), tensor=4, pipeline=2, policy=policy, gpu=times, cache_bytes=1,
        limit_bytes=100 * 10**9,
    )  # fmt: skip
    assert found == expected.document()
    assert found["gpus"] == 16


def test_an_engine_is_a_policy_that_options_change(capsys):
    base = ["serve", "--model", "llama3-8b", "--requests", POISSON, "--engine", "sglang", "--json"]
    other = {"mixed_batches": True, "overlap": False, "max_batch": 4}
    for options, changes in (((), {}), (("--mixed-batches", "--no-overlap", "--max-batch", "4"), other)):
        code, out, _ = run(capsys, *base, *options)
        assert code == 0
        policy = engine_named("sglang").policy(GPUS["h100-sxm"].memory_bytes, **changes)
        assert json.loads(out) == serve("llama3-8b", requests_of(POISSON), policy=policy).document()
    assert json.loads(out)["engine"] == "sglang"


def test_prompts_and_decoding_apart(capsys):
    code, out, _ = run(
        capsys, "serve", "--model", "llama3-8b", "--requests", POISSON, "--disaggregate", "1:2", "--json"
    )
    assert code == 0
    found = json.loads(out)
    assert found["instances"] == 3
    assert found["transfers"] == 40


def test_the_text_names_what_limits(capsys):
    code, out, _ = run(capsys, "serve", "--model", "llama3-8b", "--requests", POISSON)
    assert code == 0
    for words in (
        "requests/s",
        "time to first token",
        "time per output token",
        "between two tokens",
        "keys and values",
        "limit:",
    ):
        assert words in out


def test_a_file_of_requests_and_files_of_results(capsys, tmp_path):
    file = tmp_path / "r.csv"
    file.write_text("arrival_s,prompt,output\n0,100,3\n0.1,50,1\n")
    frames = tmp_path / "frames"
    code, out, _ = run(
        capsys, "serve", "--model", "llama3-8b", "--requests", str(file), "--frames", str(frames), "--json"
    )
    assert code == 0
    assert json.loads(out)["output_tokens"] == 4
    header, *rows = (frames / "requests.csv").read_text().splitlines()
    assert "ttft_ns" in header
    assert len(rows) == 2


@pytest.mark.parametrize(
    "argv, what",
    [
        ((), "--model"),
        (("--model", "llama3-8b"), "--requests"),
        (("--model", "llama3-9b", "--requests", "offline"), "unknown model"),
        (("--model", "llama3-8b", "--requests", "often"), "unknown requests 'often'"),
        (
            ("--model", "llama3-8b", "--requests", "offline", "--engine", "orca"),
            "unknown engine 'orca'; known: sglang, trtllm, vllm",
        ),
        (("--model", "llama3-8b", "--requests", "offline", "--disaggregate", "2"), "'2' is not P:D"),
        (("--model", "llama3-8b", "--requests", "offline", "--disaggregate", "0:1"), "'0:1' is not P:D"),
        (("--model", "llama3-8b", "--requests", "offline", "--disaggregate", "9999:1"), "out of range"),
        (("--model", "llama3-8b", "--requests", "offline", "--max-batch", "0"), "--max-batch"),
        (
            ("--model", "llama3-8b", "--requests", "offline", "--pp", "2", "--disaggregate", "1:1"),
            "disaggregated instances have one stage",
        ),
        (("--model", "llama3-8b", "--requests", "offline", "--pp", "99"), "99 stages"),
        (
            ("--model", "llama3-8b", "--requests", "offline", "--max-batch", "9000"),
            "--token-budget: token budget 8192",
        ),
        (("--model", "llama3-8b", "--requests", "offline", "--cache-precision", "int4"), "'int4'"),
        (
            ("--model", "llama3-8b", "--requests", "offline", "--gpu", "a100", "--precision", "fp8"),
            "does not compute in fp8",
        ),
        (("--model", "llama3-8b", "--requests", "offline", "--memory-limit", "1 GB"), "for weights"),
        (("--model", "llama3-8b", "--requests", "offline", "--memory-limit", "lots"), "--memory-limit"),
        (("--model", "llama3-8b", "--requests", "offline", "--host-time", "soon"), "--host-time"),
        (("--model", "llama3-8b", "--requests", "offline", "--network", "nowhere.yml"), "nowhere.yml"),
        (
            ("--model", "llama3-8b", "--requests", "offline", "--dimensions", "8"),
            "--dimensions needs --infra",
        ),
        (
            ("--model", "llama3-8b", "--requests", "offline", "--infra", "dgx-h100", "--network", "n.yml"),
            "exclude each other",
        ),
        (
            ("--model", "llama3-8b", "--requests", "offline", "--infra", "dgx-h100", "--tp", "1"),
            "NPUs, but the plan has 1 rank",
        ),
        (("--model", "resnet-50", "--requests", "offline"), "generates no tokens"),
        (
            ("--model", "llama3.1-70b", "--requests", "offline", "--gpu", "h100-sxm", "--precision", "fp4"),
            "h100-sxm does not compute in FP4; take --precision fp8",
        ),
    ],
)
def test_errors_are_one_line(capsys, argv, what):
    code, out, err = run(capsys, "serve", *argv)
    assert (code, out) == (2, "")
    assert what in err
    assert err.count("\n") == 1


def test_an_infrastructure_carries_the_model(capsys):
    code, out, _ = run(
        capsys, "serve", "--model", "llama3-8b", "--tp", "8", "--requests", POISSON, "--infra", "dgx-h100",
        "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["time_ns"]["tensor"] > 0


def test_run_reports_prefill_and_decode(capsys):
    base = ["run", "model", "llama3-8b", "--tp", "2", "--batch", "4", "--seq", "256"]
    code, out, _ = run(capsys, *base, "--mode", "prefill", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["ttft_ps"] == found["time_ps"]
    assert found["tpot_ps"] is None
    assert found["output_tokens_per_s"] == pytest.approx(4e12 / found["time_ps"])
    code, out, _ = run(capsys, *base, "--mode", "decode", "--output-tokens", "8", "--json")
    found = json.loads(out)
    assert found["tpot_ps"] == pytest.approx(found["time_ps"] / 8, abs=1)
    assert found["output_tokens_per_s_per_gpu"] == pytest.approx(16e12 / found["time_ps"])
    assert "time per output token" in run(capsys, *base, "--mode", "decode")[1]
    assert "time to first token" in run(capsys, *base, "--mode", "prefill")[1]
    code, out, _ = run(capsys, "run", "model", "gpt3-125m", "--json")
    assert json.loads(out)["ttft_ps"] is None


def test_each_token_attends_to_one_more(capsys):
    base = ["run", "model", "llama3-8b", "--mode", "decode", "--json", "--batch", "32"]
    took = [
        json.loads(run(capsys, *base, "--seq", str(seq), "--output-tokens", str(tokens))[1])["time_ps"]
        for seq, tokens in ((1000, 1), (1001, 1), (1002, 1), (1000, 3))
    ]
    assert took[3] == sum(took[:3])
    assert took[0] < took[1] < took[2]


def test_weights_and_cache_are_as_small_as_their_precision(capsys):
    base = ["run", "model", "llama3-8b", "--mode", "decode", "--json", "--batch", "32", "--seq", "4096"]
    memory = {}
    for name, more in (("bf16", ()), ("fp8", ("--precision", "fp8", "--cache-precision", "fp8"))):
        memory[name] = json.loads(run(capsys, *base, *more)[1])["memory"][0]
    assert memory["bf16"]["cache"] == 32 * 4097 * 32 * 2 * 8 * 128 * 2
    assert memory["fp8"]["cache"] * 2 == memory["bf16"]["cache"]
    assert memory["fp8"]["weights"] < 0.6 * memory["bf16"]["weights"]
    code, _, err = run(capsys, "run", "model", "llama3-8b", "--cache-precision", "fp8")
    assert code == 2
    assert "does not apply to training" in err
