"""Small models in PyTorch, as a user would write them."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra of its own: pip install 'astranb[torch]'")

from torch import Tensor, nn  # noqa: E402 - where it is installed
from torch.nn import functional  # noqa: E402


class Attention(nn.Module):
    """Attention of several heads, with its scores in memory; a rank may have some of the heads."""

    def __init__(self, hidden: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.n_heads, self.size = heads, hidden // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(hidden, hidden, bias=bias) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q, k, v = (
            part(x).view(batch, tokens, -1, self.size).transpose(1, 2) for part in (self.wq, self.wk, self.wv)
        )
        weights = ((q @ k.transpose(-2, -1)) / math.sqrt(self.size)).softmax(-1)
        return self.wo((weights @ v).transpose(1, 2).reshape(batch, tokens, -1))


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int, ffn: int, *, bias: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn = Attention(hidden, heads, bias=bias)
        self.fc1, self.fc2 = nn.Linear(hidden, ffn, bias=bias), nn.Linear(ffn, hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x))))


class Gpt(nn.Module):
    """GPT, from words to the loss."""

    def __init__(
        self, layers: int, hidden: int, heads: int, ffn: int, vocab: int, positions: int, *, bias: bool
    ) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(positions, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, ffn, bias=bias) for _ in range(layers))
        self.norm, self.lm_head = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, words: Tensor) -> Tensor:
        x = self.wte(words) + self.wpe(torch.arange(words.shape[1]))
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), words.flatten())


class LlamaAttention(nn.Module):
    """Grouped-query attention in one kernel."""

    def __init__(self, hidden: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.size = heads, kv_heads, hidden // heads
        self.wq, self.wo = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
        self.wk, self.wv = (nn.Linear(hidden, kv_heads * self.size, bias=False) for _ in range(2))

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q, k, v = (part(x).view(batch, tokens, -1, self.size) for part in (self.wq, self.wk, self.wv))
        turned = [one.transpose(1, 2) for one in (q * turns, k * turns, v)]
        out = functional.scaled_dot_product_attention(*turned, is_causal=True, enable_gqa=True)
        return self.wo(out.transpose(1, 2).reshape(batch, tokens, -1))


class LlamaLayer(nn.Module):
    def __init__(self, hidden: int, heads: int, kv_heads: int, ffn: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.attention = LlamaAttention(hidden, heads, kv_heads)
        self.w1, self.w2 = nn.Linear(hidden, ffn, bias=False), nn.Linear(ffn, hidden, bias=False)
        self.w3 = nn.Linear(hidden, ffn, bias=False)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), turns)
        y = self.norm2(x)
        return x + self.w2(functional.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    """Llama, from words to logits."""

    def __init__(
        self, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, tokens: int
    ) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleDict(
            {str(number): LlamaLayer(hidden, heads, kv_heads, ffn) for number in range(layers)}
        )
        self.norm, self.output = nn.RMSNorm(hidden), nn.Linear(hidden, vocab, bias=False)
        self.register_buffer("turns", torch.zeros(1, tokens, 1, hidden // heads))

    def forward(self, words: Tensor) -> Tensor:
        x = self.tok_embeddings(words)
        for layer in self.layers.values():
            x = layer(x, self.turns)
        return self.output(self.norm(x))


def gpt(*, bias: bool = True, micro: int = 2, **sizes: int) -> Any:
    """Make a GPT and a microbatch of words."""
    chosen = {"layers": 4, "hidden": 256, "heads": 8, "ffn": 1024, "vocab": 1024, "positions": 128} | sizes
    return Gpt(**chosen, bias=bias), (torch.zeros(micro, chosen["positions"], dtype=torch.long),)


def llama(
    layers: int = 2, hidden: int = 256, heads: int = 8, kv_heads: int = 4, ffn: int = 512, vocab: int = 1024,
    tokens: int = 64,
) -> Any:  # fmt: skip
    """Make a Llama and a microbatch of words."""
    words = torch.zeros(1, tokens, dtype=torch.long)
    return Llama(layers, hidden, heads, kv_heads, ffn, vocab, tokens), (words,)


def perceptron() -> Any:
    """Make layers in a row, of which two are the same."""
    sizes = ((32, 64), (64, 64), (64, 64), (64, 8))
    return nn.Sequential(*(nn.Linear(*one) for one in sizes)), (torch.zeros(16, 32),)


def convolutional() -> Any:
    """Make a small convolutional network."""
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 64, 10),
    )  # fmt: skip
    return net, (torch.zeros(4, 3, 16, 16),)
