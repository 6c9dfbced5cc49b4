"""Models: those with public sizes, each with its source, and those in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from astranb.core.document import read_document
from astranb.core.errors import InputError, near

from .convolutional import CONVOLUTIONAL, Convolutional
from .dlrm import DLRM, Dlrm
from .hugging_face import is_card, transformer_of_card
from .transformer import Transformer

__all__ = ["MODELS", "TRANSFORMERS", "Model", "find_model", "read_model"]

_MOST_BYTES: Final = 1 << 20

_GPT3 = "Brown et al. 2020, arXiv 2005.14165, table 2.1; 50,257 words as GPT-2"
_MEGATRON = (
    "Narayanan et al. 2021, arXiv 2104.04473, table 1 (1008.0 billion parameters); 51,200 words and "
    "sequences of 2,048 as the models of its section 5"
)
_LLAMA2 = "Touvron et al. 2023, arXiv 2307.09288; config.json of meta-llama/Llama-2-*-hf"
_LLAMA3 = "Llama team 2024, arXiv 2407.21783, table 3; config.json of meta-llama/Llama-3*"
_GPT_OSS = "OpenAI 2025, arXiv 2508.10925, section 2; config.json of openai/gpt-oss-*"


def _gpt3(size: str, layers: int, hidden: int, heads: int, note: str = "") -> Transformer:
    return Transformer(
        f"gpt3-{size}", layers, hidden, heads, 4 * hidden, 50257, 2048,
        biases=True, positions=2048, tied=True, source=_GPT3 + note,
    )  # fmt: skip


def _llama(
    name: str, layers: int, hidden: int, heads: int, kv: int, ffn: int, vocab: int, seq: int, source: str
) -> Transformer:
    return Transformer(
        name, layers, hidden, heads, ffn, vocab, seq, kv_heads=kv, gated=True, norm="rms", source=source
    )


def _gpt_oss(size: str, layers: int, experts: int) -> Transformer:
    return Transformer(
        f"gpt-oss-{size}", layers, 2880, 64, 2880, 201088, 8192,
        kv_heads=8, head_size=64, gated=True, norm="rms", experts=experts, top_k=4, qkv_biases=True,
        output_bias=True, expert_biases=True, sinks=True, window=128, full_every=2, weights="mxfp4",
        source=_GPT_OSS,
    )  # fmt: skip


_ALL = (
    _gpt3("125m", 12, 768, 12),
    _gpt3("350m", 24, 1024, 16),
    _gpt3("760m", 24, 1536, 16),
    _gpt3("1.3b", 24, 2048, 16, "; 16 heads of 128, where the table's 24 do not divide its width"),
    _gpt3("2.7b", 32, 2560, 32),
    _gpt3("6.7b", 32, 4096, 32),
    _gpt3("13b", 40, 5120, 40, "; width 5120 = 40 heads of 128, where the table has 5140"),
    _gpt3("175b", 96, 12288, 96),
    Transformer(
        "transformer-1t", 128, 25600, 160, 102400, 51200, 2048,
        biases=True, positions=2048, tied=True, source=_MEGATRON,
    ),
    _llama("llama2-7b", 32, 4096, 32, 32, 11008, 32000, 4096, _LLAMA2),
    _llama("llama2-13b", 40, 5120, 40, 40, 13824, 32000, 4096, _LLAMA2),
    _llama("llama2-70b", 80, 8192, 64, 8, 28672, 32000, 4096, _LLAMA2),
    _llama("llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, _LLAMA3),
    _llama("llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192, _LLAMA3),
    _llama("llama3-405b", 126, 16384, 128, 8, 53248, 128256, 8192, _LLAMA3),
    Transformer(
        "mixtral-8x7b", 32, 4096, 32, 14336, 32000, 4096,
        kv_heads=8, gated=True, norm="rms", experts=8, top_k=2,
        source="Jiang et al. 2024, arXiv 2401.04088, table 1; sequences of 4,096 of up to 32,768 chosen here",
    ),
    Transformer(
        "deepseek-v3", 61, 7168, 128, 18432, 129280, 4096,
        head_size=128, gated=True, norm="rms", experts=256, top_k=8, shared_experts=1, expert_ffn=2048,
        dense_layers=3, q_rank=1536, kv_rank=512, rope_size=64, v_size=128, weights="fp8-block",
        source="DeepSeek-AI 2024, arXiv 2412.19437, section 4.2; without multi-token prediction",
    ),
    _gpt_oss("20b", 24, 32),
    _gpt_oss("120b", 36, 128),
    Transformer(
        "minimax-m2", 62, 3072, 48, 1536, 200064, 8192,
        kv_heads=8, head_size=128, gated=True, norm="rms", experts=256, top_k=8, qk_norm=56 * 128,
        weights="fp8-block",
        source="config.json of MiniMaxAI/MiniMax-M2, as of M2.5; without multi-token prediction",
    ),
)  # fmt: skip

TRANSFORMERS: Final = {model.name: model for model in _ALL}
"""By name."""

ALIASES: Final = {
    "llama3.1-8b": "llama3-8b", "llama3.1-70b": "llama3-70b", "llama3.3-70b": "llama3-70b",
    "llama3.1-405b": "llama3-405b", "deepseek-r1": "deepseek-v3", "minimax-m2.5": "minimax-m2",
}  # fmt: skip
"""Models of the same sizes under another name: their cards differ in what they were trained on."""

Model: TypeAlias = "Transformer | Convolutional | Dlrm"

MODELS: Final[dict[str, Model]] = {**TRANSFORMERS, **CONVOLUTIONAL, **DLRM}
"""All models with public sizes, by name."""


def read_model(path: str | Path) -> Transformer:
    """Read a transformer from a YAML or JSON file.

    It holds the fields of :class:`Transformer` by name, or is a ``config.json`` of Hugging Face.

    Returns
    -------
    Transformer
        Its default name is that of the file.

    Raises
    ------
    InputError
        It cannot be read, or a key or value is not valid.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mine.yaml"
    >>> _ = file.write_text("{layers: 2, hidden: 64, heads: 4, ffn: 256, vocab: 1000}")
    >>> read_model(file).name
    'mine'
    """
    where = str(path)
    document = read_document(path, _MOST_BYTES)
    given = document.value
    if not isinstance(given, dict):
        raise document.error("a model must be a mapping of names to values", "as layers: 32")
    if is_card(document):
        return transformer_of_card(document, _name_of_card(Path(path), given))
    known = {field.name: field for field in fields(Transformer)}
    for key in given:
        if key not in known:
            raise document.get(key).error(f"unknown key {key[:60]!r}", near(key, known))
    given = {"name": Path(path).stem, **given}
    missing = [name for name, field in known.items() if field.default is MISSING and name not in given]
    if missing:
        raise InputError(f"{', '.join(missing)} missing", where=where, hint="give them")
    try:
        return Transformer(**given)
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint) from None


def _name_of_card(path: Path, given: Mapping[str, Any]) -> str:
    """Return the name of a model card, whose file is always called ``config.json``."""
    name = given.get("_name_or_path")
    if path.stem != "config":
        return path.stem
    return name.rpartition("/")[2] if isinstance(name, str) and name else path.absolute().parent.name


def find_model(name: str) -> Model:
    """Find a shipped model by its name, or read a file ``.yaml``, ``.yml`` or ``.json``.

    Raises
    ------
    InputError
        There is no such model.
    """
    if name.lower().endswith((".yaml", ".yml", ".json")):
        return read_model(name)
    known = ALIASES.get(name, name)
    if known not in MODELS:
        hint = f"{near(name, (*MODELS, *ALIASES))} (or give a file, as MODEL.yaml)"
        raise InputError(f"unknown model {name[:60]!r}", where="model", hint=hint)
    return MODELS[name] if name in MODELS else replace(MODELS[known], name=name)
