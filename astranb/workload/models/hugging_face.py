"""Model cards of Hugging Face: the ``config.json`` of a transformer as its sizes.

A card is read by its fields, whose names are those of ``transformers``. What a card does not say is in the
code of each kind of model (``model_type``): which norms and biases there are, and the values of fields that
cards leave out (``configuration_*.py`` and ``modeling_*.py`` of each in github.com/huggingface/transformers,
src/transformers/models). A kind that is not known here is taken as Llama is, which its model says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from astranb.core.document import DocumentNode
from astranb.core.errors import InputError

from .transformer import Transformer

__all__ = ["is_card", "transformer_of_card"]

_MOST: Final = 1 << 24
_LONGEST: Final = 8192
"""Tokens of a sequence, by default, of models that may have longer ones."""
_REMEDY: Final = "or give the sizes as MODEL.yaml (docs: Workloads)"

_SIZES: Final[dict[str, tuple[str, ...]]] = {
    "layers": ("num_hidden_layers",), "hidden": ("hidden_size",), "heads": ("num_attention_heads",),
    "ffn": ("intermediate_size_mlp", "intermediate_size"), "vocab": ("vocab_size",),
}  # fmt: skip
"""Our sizes, and the card's names for them."""
_EXPERTS: Final = ("num_local_experts", "num_experts", "n_routed_experts")
_TOP_K: Final = ("experts_per_token", "num_experts_per_tok")
_LATENT: Final = {
    "kv_rank": "kv_lora_rank", "rope_size": "qk_rope_head_dim", "head_size": "qk_nope_head_dim",
    "v_size": "v_head_dim",
}  # fmt: skip
_GPT2: Final = {
    "layers": "n_layer", "hidden": "n_embd", "heads": "n_head", "vocab": "vocab_size",
    "positions": "n_positions",
}  # fmt: skip

_GEMMA: Final[dict[str, Any]] = {"head_dim": 256, "tie_word_embeddings": True}
_GEMMA_2: Final = _GEMMA | {"num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 4096}
_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "gemma": _GEMMA,
    "gemma2": _GEMMA_2 | {"sliding_window_pattern": 2},
    "gemma3_text": _GEMMA_2 | {"sliding_window_pattern": 6, "vocab_size": 262208},
    "glm": {"attention_bias": True},
    "phi": {"lm_head_bias": True},
    "llama4_text": {"attention_chunk_size": 8192, "no_rope_layer_interval": 4, "n_shared_experts": 1},
    "qwen2": {"attention_bias": True},
    "qwen2_moe": {"attention_bias": True},
}
"""By ``model_type``: values that its class has where a card leaves them out."""
_TRAITS: Final[dict[str, dict[str, Any]]] = {
    "gemma2": {"norms": 4},
    "gemma3_text": {"norms": 4},
    "glm4": {"norms": 4},
    "gpt_oss": {"sinks": True, "expert_biases": True},
    "phi": {"norm": "layer", "gated": False, "biases": True, "norms": 1},
    "phimoe": {"norm": "layer"},
    "qwen2_moe": {"shared_gate": True},
}
"""By ``model_type``: what its layers have besides what Llama's have."""
_QK_NORMS: Final = ("gemma3_text", "qwen3", "qwen3_moe")
"""Kinds with a norm of each head's queries and keys; others may say it (``use_qk_norm``)."""
_WHOLE_QK_NORMS: Final = ("minimax_m2", "olmo2")
"""Kinds whose norms of queries and keys are over all heads."""
_OUTPUT_WITHOUT: Final = ("qwen2", "qwen2_moe", "glm", "glm4", "glm4_moe")
"""Kinds whose ``attention_bias`` is one of queries, keys and values, and none of the output."""
_EXPERT_IS_MLP: Final = ("llama4_text",)
"""Kinds whose ``intermediate_size`` is that of an expert, where dense layers have another one."""
_PLAIN: Final = (
    "llama", "mistral", "mixtral", "phi3", "deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe", "minimax_m2",
    "olmo2",
)  # fmt: skip
_KNOWN: Final = (*_PLAIN, "qwen3", "qwen3_moe", *_DEFAULTS, *_TRAITS)
_TEXT_OF: Final = {"gemma3": "gemma3_text", "llama4": "llama4_text", "mistral3": "mistral"}
"""Kinds whose card nests that of their text, or is one, which may leave out its own kind."""
_NO_DECODERS: Final = (
    "albert", "bart", "bert", "clip", "deberta-v2", "distilbert", "electra", "modernbert", "roberta",
    "siglip", "t5", "vit", "whisper", "xlm-roberta",
)  # fmt: skip
_NOT_MODELLED: Final = (
    "attn_layer_period", "full_attention_interval", "hybrid_override_pattern", "index_n_heads",
    "layers_block_type", "linear_attn_config", "linear_num_key_heads", "mamba_d_state", "mamba_num_heads",
    "mlp_bias", "qk_layernorm", "ssm_cfg", "state_size",
)  # fmt: skip
"""Fields of layers, or parts of them, that a :class:`Transformer` does not have."""
_OTHER_PARTS: Final = ("vision_config", "audio_config", "speech_config")


def is_card(document: DocumentNode) -> bool:
    """Return whether a document is a model card, and not a file of our own names."""
    return document.has("model_type") or document.has("architectures")


def transformer_of_card(document: DocumentNode, name: str) -> Transformer:
    """Return the sizes of a model card.

    Parameters
    ----------
    document : DocumentNode
        The contents of ``config.json``.
    name : str
        Of the model.

    Raises
    ------
    InputError
        A field is missing, or says what is not modelled; the text names it, and the remedy.

    Examples
    --------
    >>> from astranb.core.document import parse_document
    >>> card = '{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,'
    >>> card += ' "vocab_size": 50257}'
    >>> transformer_of_card(parse_document(card, "config.json", "json"), "gpt2").parameters
    124439808
    """
    try:
        if document.get("model_type", "").value == "gpt2":
            return _gpt2(document, name)
        return _Card(document).transformer(name)
    except InputError as error:
        where = error.where if error.where.startswith(document.file) else document.file
        hint = f"{error.hint}, {_REMEDY}" if error.hint else _REMEDY.removeprefix("or ")
        raise InputError(error.what, where=where, hint=hint) from None


def _gpt2(document: DocumentNode, name: str) -> Transformer:
    sizes: dict[str, Any] = {field: document.get(key).number(0, _MOST) for field, key in _GPT2.items()}
    ffn = document.get("n_inner", None)
    sizes["ffn"] = 4 * sizes["hidden"] if ffn.value is None else ffn.number(1, _MOST)
    tied = document.get("tie_word_embeddings", default=True).truth()
    source = f"{document.file}, model_type gpt2"
    return Transformer(name, **sizes, sequence=sizes["positions"], biases=True, tied=tied, source=source)


class _Card:
    """Reads the fields of a card: those of its text, then its own, then what the kind's class has."""

    def __init__(self, document: DocumentNode) -> None:
        self.document = document
        outer = document.get("model_type", "").text()
        self.text = document.get("text_config") if document.has("text_config") else document
        kind = self.text.get("model_type", outer).text()
        self.kind = _TEXT_OF.get(kind, kind)
        self.defaults: Mapping[str, Any] = _DEFAULTS.get(self.kind, {})
        if self.kind in _NO_DECODERS or self.field("is_encoder_decoder", default=False).truth():
            raise document.get("model_type", outer).error(
                f"unknown {self.kind[:40]!r}", "take llama, mistral, qwen3 or another decoder of text"
            )
        for key in _NOT_MODELLED:
            if (node := self.given(key)) is not None and node.value not in (False, 0):
                raise node.error(
                    "a part of layers that is not modelled", "leave it out if it does not matter"
                )

    def given(self, *names: str) -> DocumentNode | None:
        """Return the first of some fields that the card has, and that is not null; None: none of them."""
        for node in (self.text, self.document):
            for one in names:
                if node.has(one) and node.get(one).value is not None:
                    return node.get(one)
        return next((self.text.get(one, self.defaults[one]) for one in names if one in self.defaults), None)

    def field(self, *names: str, default: Any = ...) -> DocumentNode:
        """Return a field; without a default it must be there."""
        found = self.given(*names)
        if found is None and default is not ...:
            return DocumentNode(default, self.text.source, (*self.text.place, names[-1]))
        return self.text.get(names[-1]) if found is None else found

    def size(self, *names: str, default: Any = ..., low: int = 0) -> int:
        return self.field(*names, default=default).number(low, _MOST)

    def says(self, name: str) -> bool:
        return self.field(name, default=False).truth()

    def transformer(self, name: str) -> Transformer:
        sizes: dict[str, Any] = {field: self.size(*names) for field, names in _SIZES.items()}
        if self.kind not in _KNOWN:
            self.field("rms_norm_eps")  # without it, the kind is none that is like Llama
        sizes |= {"norm": "rms", "gated": True} | _TRAITS.get(self.kind, {})
        sizes |= self._attention(sizes) | self._experts(sizes) | self._window(sizes["layers"])
        limits = [self.field("max_position_embeddings", default=_LONGEST).number(1, 1 << 30)]
        limits += [sizes["window"]] if sizes["window"] and not sizes["full_every"] else []
        return Transformer(
            name,
            **sizes,
            sequence=min([_LONGEST, *limits]),
            tied=self.says("tie_word_embeddings"),
            head_bias=self.says("lm_head_bias"),
            source=f"{self.document.file}, model_type {self.kind}",
            left_out="; ".join(self._left_out()),
            weights=self._stored,
        )

    def _attention(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        if self.given("kv_lora_rank") is not None:
            if self.says("attention_bias"):
                raise self.field("attention_bias").error("biases of latent attention are not modelled")
            found: dict[str, Any] = {field: self.size(key) for field, key in _LATENT.items()}
            return found | {"q_rank": self.size("q_lora_rank", default=0)}
        heads = sizes["heads"]
        found = {"kv_heads": self.size("num_key_value_heads", default=heads, low=1)}
        if self.given("head_dim") is not None:
            found["head_size"] = self.size("head_dim", low=1)
        if self.says("attention_bias") and not sizes.get("biases"):
            found |= {"qkv_biases": True, "output_bias": self.kind not in _OUTPUT_WITHOUT}
        normed = self.kind in _QK_NORMS or (self.kind != "llama4_text" and self.says("use_qk_norm"))
        if normed:  # Llama 4's norms of queries and keys have no parameters
            found["qk_norm"] = 2 * (found.get("head_size") or sizes["hidden"] // max(1, heads))
        if self.kind in _WHOLE_QK_NORMS:
            size = found.get("head_size") or sizes["hidden"] // max(1, heads)
            found["qk_norm"] = (heads + found["kv_heads"]) * size
        return found

    def _experts(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        experts = self.size(*_EXPERTS, default=0)
        if not experts:
            return {"expert_biases": False, "shared_gate": False}
        found: dict[str, Any] = {"experts": experts, "top_k": self.size(*_TOP_K)}
        names = ("intermediate_size",) if self.kind in _EXPERT_IS_MLP else ("moe_intermediate_size",)
        found["expert_ffn"] = self.size(*names, default=sizes["ffn"], low=1)
        found["shared_experts"] = self.size("n_shared_experts", "num_shared_experts", default=0)
        shared = self.size("shared_expert_intermediate_size", default=0)
        if shared:
            found["shared_experts"], rest = divmod(shared, found["expert_ffn"])
            if rest:
                node = self.field("shared_expert_intermediate_size")
                raise node.error(f"no multiple of the {found['expert_ffn']:,} of an expert")
        found["expert_step"] = self.size("interleave_moe_layer_step", "decoder_sparse_step", default=1, low=1)
        found["dense_layers"] = self.size("first_k_dense_replace", default=0)
        frequency = self.field("moe_layer_freq", default=1)
        if frequency.value != 1:
            raise frequency.error("layers with experts that are not those behind the first dense ones")
        dense = [one.number(0, _MOST) for one in self.field("mlp_only_layers", default=[]).items()]
        if dense:
            found["dense_layers"] = len(dense)
            if sorted(dense) != list(range(len(dense))):
                raise self.field("mlp_only_layers").error("dense layers that are not the first ones")
        return found

    def _window(self, layers: int) -> dict[str, Any]:
        """Read which layers attend to the last tokens only: as listed, or by the kind's rule."""
        window = self.given("sliding_window", "attention_chunk_size")
        listed = self.given("layer_types")
        if window is None or not self.field("use_sliding_window", default=True).truth():
            return {"window": 0, "full_every": 0}
        every = self.size("sliding_window_pattern", "no_rope_layer_interval", default=0)
        if listed is None and self.given("use_sliding_window") is not None:
            first = self.field("max_window_layers", default=0)  # Qwen's: those before it have none
            if first.number(0, _MOST) >= layers:
                return {"window": 0, "full_every": 0}
            if first.value:
                raise first.error("a window in the last layers only is not modelled")
        if listed is not None:
            kinds = [one.choice(("full_attention", "sliding_attention", "chunked_attention"))
                     for one in listed.items()]  # fmt: skip
            full = [number for number, one in enumerate(kinds, 1) if one == "full_attention"]
            every = full[0] if full else 0
            if len(kinds) != layers:
                raise listed.error(f"{len(kinds)} layers, but num_hidden_layers is {layers}")
            if full != (list(range(every, layers + 1, every)) if every else []):
                raise listed.error("layers with and without a window do not alternate regularly")
        size = window.number(1, 1 << 30)
        longest = self.field("max_position_embeddings", default=_MOST).number(1, 1 << 30)
        return {"window": 0 if every == 1 or size >= longest else size, "full_every": every}

    @property
    def _quantized(self) -> str:
        """The method in which the checkpoint has its parameters; empty: none."""
        node = self.given("quantization_config")
        return "" if node is None else str(node.get("quant_method", "unknown").value)

    @property
    def _stored(self) -> str:
        """One of the kinds of weights that inference knows; empty: none of them."""
        if self._quantized == "fp8":
            blocks = self.field("quantization_config").get("weight_block_size", None)
            return "fp8-block" if blocks.value == [128, 128] else ""
        return "mxfp4" if self._quantized == "mxfp4" else ""

    def _left_out(self) -> list[str]:
        """Name what the card has and the model has not."""
        found = []
        if self._quantized and not self._stored:
            what = (
                f"quantization_config ({self._quantized[:40]}) is left out: numbers are as --precision says"
            )
            found.append(what)
        parts = [key for key in _OTHER_PARTS if self.document.has(key)]
        if parts:
            found.append(f"{', '.join(parts)} left out: the text's model alone")
        if self.size("num_nextn_predict_layers", default=0):
            found.append("multi-token prediction (num_nextn_predict_layers) is left out")
        if self.kind not in _KNOWN:
            found.append(f"model_type {self.kind[:40]} is not known: norms and biases as Llama's")
        return found
