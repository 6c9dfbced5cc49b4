"""Model cards of Hugging Face give the models with public sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from astranb.core.errors import InputError
from astranb.workload.models import TRANSFORMERS, read_model

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
    },
}  # fmt: skip


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
        ({"attention_bias": True}, "attention_bias: biases of some matrices are not modelled"),
        ({"num_hidden_layers": None}, "num_hidden_layers: a whole number is expected"),
    ],
)
def test_what_a_card_cannot_be_is_refused(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=text):
        read_model(card(tmp_path, CARDS["llama3-8b"] | change))


def test_a_size_that_is_missing_is_named(tmp_path: Path) -> None:
    without = {key: value for key, value in CARDS["llama3-8b"].items() if key != "vocab_size"}
    with pytest.raises(InputError, match="'vocab_size' is missing"):
        read_model(card(tmp_path, without))
