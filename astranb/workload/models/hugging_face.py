"""Model cards of Hugging Face: the ``config.json`` of a transformer as its sizes.

The keys are those of ``transformers`` (the ``configuration_*.py`` of each model in
github.com/huggingface/transformers, src/transformers/models).
"""

from __future__ import annotations

from typing import Any, Final

from astranb.core.document import DocumentNode

from .transformer import Transformer

__all__ = ["is_card", "transformer_of_card"]

_MOST: Final = 1 << 24
_LONGEST: Final = 8192
"""Tokens of a sequence, by default, of models that may have longer ones."""

_WIDE: Final = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "ffn": "intermediate_size", "vocab": "vocab_size",
}  # fmt: skip
_FIELDS: Final[dict[str, dict[str, str]]] = {
    "llama": _WIDE,
    "mistral": _WIDE,
    "mixtral": _WIDE | {"experts": "num_local_experts", "top_k": "num_experts_per_tok"},
    "deepseek_v3": _WIDE | {
        "experts": "n_routed_experts", "top_k": "num_experts_per_tok", "shared_experts": "n_shared_experts",
        "expert_ffn": "moe_intermediate_size", "dense_layers": "first_k_dense_replace",
        "q_rank": "q_lora_rank", "kv_rank": "kv_lora_rank", "rope_size": "qk_rope_head_dim",
        "head_size": "qk_nope_head_dim", "v_size": "v_head_dim",
    },
    "gpt2": {"layers": "n_layer", "hidden": "n_embd", "heads": "n_head", "vocab": "vocab_size",
             "positions": "n_positions"},
}  # fmt: skip
"""By ``model_type``: our sizes, and the card's names for them."""


def is_card(document: DocumentNode) -> bool:
    """Say whether a document is a model card, and not a file of our own names."""
    return document.has("model_type")


def transformer_of_card(document: DocumentNode, name: str) -> Transformer:
    """Give the sizes of a model card.

    Parameters
    ----------
    document : DocumentNode
        The contents of ``config.json``.
    name : str
        Of the model.

    Raises
    ------
    InputError
        The kind of model is not known, or a size is missing.

    Examples
    --------
    >>> from astranb.core.document import parse_document
    >>> card = '{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,'
    >>> card += ' "vocab_size": 50257}'
    >>> transformer_of_card(parse_document(card, "config.json", "json"), "gpt2").parameters
    124439808
    """
    kind = document.get("model_type").choice(tuple(_FIELDS))
    sizes: dict[str, Any] = {
        field: document.get(key).number(0, _MOST) for field, key in _FIELDS[kind].items()
    }
    source = f"{document.file}, model_type {kind}"
    if kind == "gpt2":
        ffn = document.get("n_inner", None)
        sizes["ffn"] = 4 * sizes["hidden"] if ffn.value is None else ffn.number(1, _MOST)
        tied = document.get("tie_word_embeddings", default=True).truth()
        return Transformer(
            name, **sizes, sequence=sizes["positions"], biases=True, tied=tied, source=source
        )  # fmt: skip
    for flag in ("attention_bias", "mlp_bias"):
        if document.has(flag) and document.get(flag).truth():
            raise document.get(flag).error("biases of some matrices are not modelled", "describe it in YAML")
    if kind != "deepseek_v3":
        sizes["kv_heads"] = document.get("num_key_value_heads", sizes["heads"]).number(1, _MOST)
        if document.has("head_dim") and document.get("head_dim").value is not None:
            sizes["head_size"] = document.get("head_dim").number(1, _MOST)
    given = (document.get(key, None) for key in ("max_position_embeddings", "sliding_window"))
    limits = [one.number(1, 1 << 30) for one in given if one.value is not None]
    tied = document.get("tie_word_embeddings", default=False).truth()
    return Transformer(
        name, **sizes, sequence=min([_LONGEST, *limits]), gated=True, norm="rms", tied=tied, source=source
    )  # fmt: skip
