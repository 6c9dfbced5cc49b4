"""The recurrent network of :class:`CorpusNetwork`: its training, and its queries step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.number_files import read_tables, write_tables

from .sizes import SizeModel
from .tokens import NodeToken, Repetition, Vocabulary
from .totals import TotalsModel

with needs_extra("the network of a corpus"):
    import torch
    from torch import nn
    from torch.nn import functional

__all__ = ["Sequences", "StageNetwork", "read_network", "trained", "write_network"]

_FORMAT: Final = "astranb corpus network 1"
_CLASSES: Final[dict[str, Any]] = {
    one.__name__: one for one in (SizeModel, TotalsModel, Vocabulary, NodeToken, Repetition)
}

_WIDTH: Final = 96  # of the state
_BATCH: Final = 16  # sequences
_PART: Final = 16  # items of a sequence in a step of training
_RATE: Final = 8e-3
_FORGOTTEN: Final = 0.1  # share of the state, in training
_LARGEST: Final = 1.0  # norm of a gradient


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: for tensors this small, threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Sequences(NamedTuple):
    """Stages to learn from; arrays by place in the sequence.

    Attributes
    ----------
    tokens : array of int, shape (length, 2)
        Token and pattern; -1 for none.
    bins : array of int, shape (length, sizes)
        Of sizes; -1 for none.
    features : array of float, shape (length, features)
    conditions : array of float, shape (conditions,)
    """

    tokens: np.ndarray
    bins: np.ndarray
    features: np.ndarray
    conditions: np.ndarray


class SequenceBatch(NamedTuple):
    """Some sequences as tensors of one length, beyond their end -1."""

    tokens: Any
    bins: Any
    tokens_before: Any
    bins_before: Any
    features: Any
    conditions: Any

    @classmethod
    def of(cls, sequences: Sequence[Sequences]) -> SequenceBatch:
        """Put sequences beside each other."""
        longest = max(len(one.tokens) for one in sequences)

        def stacked(parts: Sequence[np.ndarray], value: float, kind: Any) -> Any:
            filled = [np.pad(one, ((0, longest - len(one)), (0, 0)), constant_values=value) for one in parts]
            return torch.tensor(np.array(filled), dtype=kind)

        tokens = stacked([one.tokens for one in sequences], -1, torch.long)
        bins = stacked([one.bins for one in sequences], -1, torch.long)
        before = [functional.pad(one[:, :-1], (0, 0, 1, 0), value=-1) for one in (tokens, bins)]
        features = stacked([one.features for one in sequences], 0.0, torch.float32)
        conditions = torch.tensor(np.array([one.conditions for one in sequences]), dtype=torch.float32)
        return cls(tokens, bins, before[0], before[1], features, conditions)


class StageNetwork(nn.Module):
    """Predicts the next token of a stage, its pattern, and bins of its sizes one after the other.

    Parameters
    ----------
    tokens, patterns, features, conditions, sizes, bins : int
        How many there are.
    """

    def __init__(
        self, tokens: int, patterns: int, features: int, conditions: int, sizes: int, bins: int
    ) -> None:
        super().__init__()
        self.shape = (tokens, patterns, features, conditions, sizes, bins)
        # The first row of each table stands for none.
        self.token, self.pattern = nn.Embedding(tokens + 1, _WIDTH), nn.Embedding(patterns + 1, _WIDTH)
        self.size = nn.ModuleList([nn.Embedding(bins + 1, _WIDTH) for _ in range(sizes)])
        self.about = nn.Linear(features + conditions, _WIDTH)
        self.first = nn.Linear(conditions, _WIDTH)
        self.gru = nn.GRU(_WIDTH, _WIDTH, batch_first=True)
        self.forget = nn.Dropout(_FORGOTTEN)
        self.to_token = nn.Linear(_WIDTH, tokens)
        self.to_pattern = nn.Sequential(nn.Tanh(), nn.Linear(_WIDTH, patterns))
        self.to_size = nn.ModuleList(
            [nn.Sequential(nn.Tanh(), nn.Linear(_WIDTH, bins)) for _ in range(sizes)]
        )

    def read(self, tokens: Any, bins: Any, features: Any, conditions: Any, state: Any = None) -> Any:
        """Read earlier items and features of the places after them; give states there, and the last."""
        given = conditions[:, None].expand(-1, features.shape[1], -1)
        x = self.about(torch.cat([features, given], dim=2))
        x = x + self.token(tokens[..., 0] + 1) + self.pattern(tokens[..., 1] + 1)
        for at, table in enumerate(self.size):
            x = x + table(bins[..., at] + 1)
        if state is None:
            state = torch.tanh(self.first(conditions))[None]
        found, state = self.gru(x, state)
        return self.forget(found), state

    def patterns(self, found: Any, token: Any) -> Any:
        """Return logits of patterns where a token is known."""
        return self.to_pattern(found + self.token(token + 1))

    def sizes(self, found: Any, token: Any, bins: Any, at: int) -> Any:
        """Return logits of a size's bin where the token and bins of the sizes before it are known."""
        x = found + self.token(token + 1)
        for before in range(at):
            x = x + self.size[before](bins[..., before] + 1)
        return self.to_size[at](x)

    def loss(self, batch: SequenceBatch, begin: int, state: Any) -> tuple[Any, Any]:
        """Return the loss of predicting a part of some sequences, and the state after it."""
        part = slice(begin, begin + _PART)
        tokens, bins = batch.tokens[:, part], batch.bins[:, part]
        found, state = self.read(
            batch.tokens_before[:, part],
            batch.bins_before[:, part],
            batch.features[:, part],
            batch.conditions,
            state,
        )

        def missed(logits: Any, wanted: Any) -> Any:
            return functional.cross_entropy(
                logits.flatten(0, 1), wanted.flatten(), ignore_index=-1, reduction="sum"
            )

        token = tokens[..., 0]
        total = missed(self.to_token(found), token) + missed(self.patterns(found, token), tokens[..., 1])
        for at in range(bins.shape[2]):
            total = total + missed(self.sizes(found, token, bins, at), bins[..., at])
        return total / (token >= 0).sum().clamp(min=1), state.detach()

    def begin(self, conditions: np.ndarray) -> StageWriter:
        """Begin to write a stage."""
        return StageWriter(self, conditions)


class StageWriter:
    """A stage that is being written: queries the network, and passes it what was chosen."""

    def __init__(self, network: StageNetwork, conditions: np.ndarray) -> None:
        self._net = network.eval()
        self._conditions = torch.tensor(conditions[None], dtype=torch.float32)
        self._state: Any = None
        self._last = (torch.full((1, 1, 2), -1), torch.full((1, 1, network.shape[4]), -1))
        self._found: Any = None

    def tokens(self, features: Sequence[float]) -> np.ndarray:
        """Return logits of the next token."""
        inputs = torch.tensor([[list(features)]], dtype=torch.float32)
        with _one_thread(), torch.inference_mode():
            found, self._state = self._net.read(*self._last, inputs, self._conditions, self._state)
            self._found = found[0, 0]
            return np.asarray(self._net.to_token(self._found).numpy())

    def patterns(self, token: int) -> np.ndarray:
        """Return logits of its pattern."""
        with _one_thread(), torch.inference_mode():
            return np.asarray(self._net.patterns(self._found, torch.tensor(token)).numpy())

    def bins(self, token: int, has: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Draw bins of its sizes, one after the other; -1 for sizes that it has not."""
        drawn = torch.full((len(has),), -1)
        for at in np.flatnonzero(has).tolist():
            with _one_thread(), torch.inference_mode():
                found = self._net.sizes(self._found, torch.tensor(token), drawn, at)
            logits = found.numpy().astype(float)
            chance = np.exp(logits - logits.max())
            drawn[at] = int(random.choice(len(chance), p=chance / chance.sum()))
        return np.asarray(drawn.numpy())

    def take(self, token: int, pattern: int, bins: np.ndarray) -> None:
        """Take what was chosen."""
        self._last = (torch.tensor([[[token, pattern]]]), torch.tensor(bins)[None, None])


def write_network(network: StageNetwork, document: dict[str, Any], path: Path) -> Path:
    """Write a network, and what belongs to it: named arrays, and their places in a JSON document."""
    weights = {name: one.numpy() for name, one in network.state_dict().items()}
    tables: dict[str, np.ndarray] = {}
    content = _plain({"shape": network.shape, "weights": weights, "document": document}, tables)
    tables[_FORMAT] = np.frombuffer(json.dumps(content).encode(), np.uint8)
    write_tables(tables, path)
    return path


def read_network(path: Path) -> tuple[StageNetwork, dict[str, Any]]:
    """Read what :func:`write_network` wrote.

    Raises
    ------
    InputError
        There is no such file, it is something else, or it is damaged.
    """
    hint = "give a file that CorpusNetwork.save wrote"
    tables = read_tables(path, "a network of a corpus", hint)
    try:
        content = _restored(json.loads(tables[_FORMAT].tobytes()), tables)
        network = StageNetwork(*content["shape"])
        network.load_state_dict({name: torch.tensor(one) for name, one in content["weights"].items()})
        return network.eval(), content["document"]
    except (ValueError, KeyError, TypeError, IndexError, RuntimeError, AttributeError):
        raise InputError("not a network of a corpus", where=str(path), hint=hint) from None


def _plain(value: Any, tables: dict[str, np.ndarray]) -> Any:
    """Move arrays to tables, and give what JSON does not have as its class and its parts."""
    if isinstance(value, np.ndarray):
        tables[name := f"array {len(tables)}"] = value
        return {"array": name}
    if isinstance(value, Vocabulary):
        return _of_class(value, [value.tokens, value.patterns, value.calls_last], tables)
    if isinstance(value, SizeModel | TotalsModel):
        return _of_class(value, vars(value), tables)
    if isinstance(value, NodeToken | Repetition):
        return _of_class(value, list(value), tables)
    if isinstance(value, dict):
        return {"items": [[_plain(one, tables) for one in pair] for pair in value.items()]}
    if isinstance(value, list):
        return [_plain(one, tables) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(one, tables) for one in value]}
    return value.item() if isinstance(value, np.generic) else value


def _of_class(value: Any, parts: Any, tables: dict[str, np.ndarray]) -> dict[str, Any]:
    return {"class": type(value).__name__, "parts": _plain(parts, tables)}


def _restored(value: Any, tables: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_restored(one, tables) for one in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return tables[value["array"]]
    if "tuple" in value:
        return tuple(_restored(value["tuple"], tables))
    if "items" in value:
        return {key: one for key, one in _restored(value["items"], tables)}  # noqa: C416 - lists of two
    kind, parts = _CLASSES[value["class"]], _restored(value["parts"], tables)
    if isinstance(parts, list):
        return kind(*parts)
    made = kind.__new__(kind)
    vars(made).update(parts)
    return made


def trained(
    sequences: Sequence[Sequences], patterns: int, tokens: int, bins: int, *, seed: int, epochs: int
) -> StageNetwork:
    """Train a network; the same seed gives the same on the same machine."""
    first = sequences[0]
    order = sorted(range(len(sequences)), key=lambda at: len(sequences[at].tokens))
    batches = [
        SequenceBatch.of([sequences[at] for at in order[begin : begin + _BATCH]])
        for begin in range(0, len(order), _BATCH)
    ]
    steps = epochs * sum(-(-one.tokens.shape[1] // _PART) for one in batches)
    with torch.random.fork_rng(), _one_thread():
        torch.manual_seed(seed)
        shape = (first.features.shape[1], len(first.conditions), first.bins.shape[1])
        net = StageNetwork(tokens, patterns, *shape, bins)
        net.train()
        optimizer = torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=1e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps)
        for _ in range(epochs):
            for at in torch.randperm(len(batches)).tolist():
                state = None
                for begin in range(0, batches[at].tokens.shape[1], _PART):
                    optimizer.zero_grad()
                    loss, state = net.loss(batches[at], begin, state)
                    loss.backward()
                    nn.utils.clip_grad_norm_(net.parameters(), _LARGEST)
                    optimizer.step()
                    schedule.step()
    net.eval()
    return net
