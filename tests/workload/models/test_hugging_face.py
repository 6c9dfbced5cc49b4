"""Model cards of Hugging Face give the models with public sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.cli import main
from astranb.core.errors import InputError
from astranb.explore.serving.batch_times import windowed
from astranb.workload.kernels import Attention
from astranb.workload.models import TRANSFORMERS, Job, Parallelism, read_model
from astranb.workload.models.costs import Costs
from astranb.workload.models.memory import StageMemory

DATA: Final = Path(__file__).parents[2] / "data"

# Sizes of the public config.json files that the library cites.
CARDS: dict[str, dict[str, Any]] = {
    "llama3-8b": {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
        "max_position_embeddings": 8192, "attention_bias": False, "tie_word_embeddings": False,
    },
    "llama2-7b": {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
        "max_position_embeddings": 4096, "tie_word_embeddings": False,
    },
    "mixtral-8x7b": {
        "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8,
        "num_experts_per_tok": 2, "max_position_embeddings": 32768, "sliding_window": None,
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
        "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
        "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
        "n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 129280,
        "max_position_embeddings": 163840, "tie_word_embeddings": False,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    },
    "minimax-m2": {
        "model_type": "minimax_m2", "hidden_size": 3072, "num_hidden_layers": 62, "num_attention_heads": 48,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 1536, "num_local_experts": 256,
        "num_experts_per_tok": 8, "vocab_size": 200064, "max_position_embeddings": 196608,
        "use_qk_norm": True, "tie_word_embeddings": False,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    },
}  # fmt: skip
PUBLISHED: dict[str, dict[str, Any]] = json.loads((DATA / "model_cards.json").read_text())["models"]
CARDS |= {name: PUBLISHED[name]["card"] for name in ("gpt-oss-20b", "gpt-oss-120b")}


def card(folder: Path, contents: dict[str, Any], file: str = "config.json") -> Path:
    path = folder / file
    path.write_text(json.dumps(contents))
    return path


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_the_model_with_public_sizes(name: str, tmp_path: Path) -> None:
    found = read_model(card(tmp_path, CARDS[name]))
    known = TRANSFORMERS[name]
    assert replace(found, name=name, source=known.source, sequence=known.sequence) == known
    assert "config.json, model_type" in found.source


def test_gpt2_has_the_parameters_of_its_checkpoint(tmp_path: Path) -> None:
    sizes = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024}
    found = read_model(card(tmp_path, {**sizes, "vocab_size": 50257, "n_inner": None}))
    assert (found.parameters, found.sequence, found.tied) == (124_439_808, 1024, True)


def test_a_card_has_a_name_and_no_longer_sequences_than_8192(tmp_path: Path) -> None:
    long = CARDS["llama3-8b"] | {"max_position_embeddings": 131072}
    folder = tmp_path / "mine"
    folder.mkdir()
    assert read_model(card(folder, long)).name == "mine"
    assert read_model(card(folder, long)).sequence == 8192
    assert read_model(card(folder, long | {"_name_or_path": "org/Llama-X"})).name == "Llama-X"
    assert read_model(card(folder, long, "other.json")).name == "other"
    assert read_model(card(folder, long | {"model_type": "mistral", "sliding_window": 4096})).sequence == 4096


@pytest.mark.parametrize(
    "change,text",
    [
        ({"model_type": "bert"}, "config.json.*model_type: unknown 'bert'; take llama, mistral"),
        ({"hidden_size": "wide"}, "hidden_size: a whole number is expected"),
        ({"mlp_bias": True}, "mlp_bias: a part of layers that is not modelled"),
        ({"is_encoder_decoder": True}, "unknown 'llama'; take llama, mistral, qwen3 or another decoder"),
        ({"mamba_d_state": 128}, "mamba_d_state: a part of layers that is not modelled"),
        ({"model_type": "new"}, "'rms_norm_eps' is missing"),
        ({"num_experts": 8}, "'num_experts_per_tok' is missing"),
        ({"head_dim": 0}, "head_dim: 0 is out of range"),
        ({"num_key_value_heads": 5}, "32 heads of queries do not fit 5 of keys"),
        ({"sliding_window": 64, "layer_types": ["full_attention"]}, "layer_types: 1 layers, but num_hidden"),
        (
            {"sliding_window": 64, "layer_types": ["sliding_attention"] * 31 + ["linear_attention"]},
            "layer_types.31.: unknown 'linear_attention'",
        ),
        (
            {"sliding_window": 64, "layer_types": ["sliding_attention", *["full_attention"] * 31]},
            "layer_types: layers with and without a window do not alternate regularly",
        ),
        ({"num_hidden_layers": None}, "num_hidden_layers: a whole number is expected"),
    ],
)
def test_what_a_card_cannot_be_is_refused(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=text) as error:
        read_model(card(tmp_path, CARDS["llama3-8b"] | change))
    assert str(tmp_path / "config.json") in error.value.where
    assert "give the sizes as MODEL.yaml" in error.value.hint


NEEDED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@pytest.mark.parametrize("key", NEEDED)
@pytest.mark.parametrize("nested", [False, True])
def test_a_size_that_is_missing_is_named(key: str, nested: bool, tmp_path: Path) -> None:
    without = {name: value for name, value in CARDS["llama3-8b"].items() if name != key}
    given = {"model_type": "of images", "text_config": without} if nested else without
    with pytest.raises(InputError, match=f"'{key}' is missing; give it, or give the sizes as MODEL.yaml"):
        read_model(card(tmp_path, given))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_the_checkpoint(name: str, tmp_path: Path) -> None:
    """To the last one; what a checkpoint has besides is listed with its arithmetic."""
    one = PUBLISHED[name]
    found = read_model(card(tmp_path, one["card"]))
    assert found.parameters + sum(one.get("left out", {}).values()) == one["parameters"], one["source"]
    method = one["card"].get("quantization_config", {}).get("quant_method", "")
    assert found.weights == ("mxfp4" if method == "mxfp4" else "")
    assert (method not in ("", "mxfp4")) == ("quantization_config (" in found.left_out)
    assert ("vision_config" in one["card"]) == ("vision_config left out" in found.left_out)


def test_active_parameters_are_as_published(tmp_path: Path) -> None:
    """In billions, as papers and pages say: of gpt-oss and MiniMax without the embedding."""
    published = {
        "qwen3-30b-a3b": 3.3,
        "qwen3-235b-a22b": 22,
        "kimi-k2": 32,
        "llama-4-scout": 17,
        "llama-4-maverick": 17,
        "mixtral-8x7b": 12.9,
    }
    for name, billions in published.items():
        found = read_model(card(tmp_path, PUBLISHED[name]["card"])).active_parameters
        assert found / 1e9 == pytest.approx(billions, rel=0.08), name
    sparse = read_model(card(tmp_path, CARDS["minimax-m2"]))
    assert sparse.parameters / 1e9 == pytest.approx(230, rel=0.01)
    assert (sparse.active_parameters - sparse.embedding) / 1e9 == pytest.approx(10, rel=0.05)
    large = read_model(card(tmp_path, PUBLISHED["gpt-oss-120b"]["card"]))
    assert (large.active_parameters - large.embedding) / 1e9 == pytest.approx(5.1, abs=0.1)


def test_every_card_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Over tensor, expert and pipeline parallelism, whatever its layers have."""
    for name, degrees in {"gpt-oss-20b": ["--dp", "4", "--ep", "4"], "gemma-3-1b": ["--pp", "2"],
                          "phi-2": ["--tp", "4"], "deepseek-v2-lite": ["--tp", "2", "--dp", "2", "--ep", "2"],
                          "llama-4-maverick": ["--tp", "8", "--dp", "2", "--ep", "2"]}.items():  # fmt: skip
        for mode in ("training", "prefill", "decode"):
            small = dict(PUBLISHED[name]["card"])
            inner = small.get("text_config", small)
            inner["num_hidden_layers"] = 4
            inner.pop("layer_types", None)
            path = card(tmp_path, small)
            words = ["--mode", mode, "--seq", "256", "--batch", "4", "--microbatches", "1", "--json"]
            assert main(["run", "model", str(path), *degrees, *words, "--memory-limit", "none"]) == 0, name
            assumed = json.loads(capsys.readouterr().out)["assumed"]
            assert any("left out" in one for one in assumed) == (name == "llama-4-maverick")
            stored = any("weights in mxfp4" in one for one in assumed)
            assert stored == (name == "gpt-oss-20b" and mode != "training")


@given(
    layers=st.integers(1, 13), every=st.integers(0, 6), window=st.integers(1, 300), tokens=st.integers(1, 300)
)
def test_windows_are_those_of_the_listed_layers(layers: int, every: int, window: int, tokens: int) -> None:
    """It makes no difference whether a card lists its layers or has their period, and which rule we keep."""
    kinds = [
        "full_attention" if every and number % every == 0 else "sliding_attention"
        for number in range(1, layers + 1)
    ]
    base = CARDS["llama3-8b"] | {"num_hidden_layers": layers, "sliding_window": window}
    listed = base | {"layer_types": kinds}
    with TemporaryDirectory() as folder:
        found = [
            read_model(card(Path(folder), one)) for one in (listed, base | {"sliding_window_pattern": every})
        ]
    for model in found:
        seen = [min(window, tokens) if kind == "sliding_attention" else tokens for kind in kinds]
        assert [model.seen(layer, tokens) for layer in range(layers)] == seen


def test_a_window_bounds_the_cache_and_the_time(tmp_path: Path) -> None:
    """Gemma 3: five of six layers keep 512 tokens."""
    shape = PUBLISHED["gemma-3-1b"]["card"] | {"num_hidden_layers": 12}
    windowed = read_model(card(tmp_path, shape))
    whole = replace(windowed, window=0)
    job = Job(Parallelism(), 8192, 2, 1, mode="decode")
    each = 2 * 1 * 256 * 2  # keys and values of one head of 256, in bytes
    for model, tokens in ((windowed, 2 * 8192 + 10 * 512), (whole, 12 * 8192)):
        assert StageMemory(model, job, 0).cached == 2 * tokens * each
    costs = Costs(whole, replace(job, mode="prefill"))
    assert [costs.attention(windowed.seen(layer, 8192)).flops for layer in (4, 5)] == [
        2 * 2 * 8192 * seen * 4 * 512 for seen in (512, 8192)
    ]


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60))
def test_pairs_of_a_chunk_are_counted(queries: int, before: int, window: int) -> None:
    """As a list says, but for half a pair of each query whose window still grows."""
    exact = sum(min(window or before + number, before + number) for number in range(1, queries + 1))
    parts = windowed(queries, before + queries, window)
    assert sum(some for some, *_ in parts) == queries
    found = sum(Attention(1, some, keys, 1, 1, 8, 8, causal=causal).pairs for some, keys, causal in parts)
    assert -1 <= exact - found <= (queries + 1) // 2 + 1


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 60))
def test_pairs_of_a_window_are_counted(queries: int, window: int, more: int) -> None:
    """As a list says: of a whole sequence but for half a pair of each query, behind a window to the last."""
    exact = sum(min(window, number) for number in range(1, queries + 1))
    found = Attention(1, queries, min(queries, window), 1, 1, 8, 8).pairs
    assert queries == 1 or 0 <= exact - found <= (queries + 1) // 2
    behind = Attention(1, queries, window, 1, 1, 8, 8, causal=False)
    assert behind.pairs == sum(min(window, window + more + number) for number in range(queries))
