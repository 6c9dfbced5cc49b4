"""Experts of each token: drawn by a gate, or read from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.number_files import exact_sum, read_arrays, text_of, whole_array, whole_table
from astranb.core.state import require_bytes

__all__ = ["NO_EXPERT", "Routing", "draw_routing", "read_routing"]

NO_EXPERT: Final = -1
_MOST_TOKENS: Final = 2**24
"""Tokens of all ranks: chunks are numbered by them."""
_HINT: Final = "give a .npz or .csv file of a routing"
_CHOSEN_SHAPE, _COUNTS_SHAPE = "ranks x tokens x topk", "ranks x experts"
_FEWER: Final = "use fewer tokens, experts or ranks"


@dataclass(frozen=True)
class Routing:
    """The experts of every token. Expert ``e`` of ``E`` is on rank ``e // (E / ranks)``.

    Attributes
    ----------
    chosen : ndarray of int64, shape (ranks, tokens, topk)
        The experts of each token, or ``NO_EXPERT``.
    experts : int
        How many experts there are.

    Examples
    --------
    >>> routing = Routing(np.array([[[0, 1], [3, 2]], [[0, 2], [1, -1]]]), experts=4)
    >>> routing.copies().tolist()  # of each token for each rank: here two experts are on each
    [[[2, 0], [0, 2]], [[1, 1], [1, 0]]]
    """

    chosen: np.ndarray
    experts: int

    def __post_init__(self) -> None:
        """Check that a gate can have chosen these experts."""
        chosen = whole_array(self.chosen, "chosen", "routing")
        if chosen.ndim != 3 or not chosen.size:
            raise _bad_shape(chosen, _CHOSEN_SHAPE, "routing")
        object.__setattr__(self, "chosen", chosen)
        ranks, tokens, topk = chosen.shape
        if self.experts < 1 or self.experts % ranks:
            raise InputError(
                f"{self.experts} experts do not divide among {ranks} ranks",
                where="experts",
                hint=f"use a multiple of {ranks}",
            )
        if not 1 <= topk <= self.experts:
            raise InputError(
                f"a token cannot go to {topk} of {self.experts} experts",
                where="topk",
                hint=f"from 1 to {self.experts}",
            )
        _check_tokens(ranks, tokens, "tokens")
        if self.chosen.min() < NO_EXPERT or self.chosen.max() >= self.experts:
            wrong = self.chosen.min() if self.chosen.min() < NO_EXPERT else self.chosen.max()
            raise InputError(
                f"unknown expert {wrong}", where="routing", hint=f"experts are 0 to {self.experts - 1}"
            )
        ordered = np.sort(self.chosen, axis=2)
        twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] != NO_EXPERT)
        if twice.any():
            rank, token, _ = (int(k[0]) for k in np.nonzero(twice))
            raise InputError(f"duplicate expert of token {token} of rank {rank}", where="routing")

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return int(self.chosen.shape[0])

    @property
    def tokens(self) -> int:
        """Tokens of each rank."""
        return int(self.chosen.shape[1])

    def holders(self) -> np.ndarray:
        """Return the rank of each chosen expert, or -1: shape (ranks, tokens, topk)."""
        held = self.chosen // (self.experts // self.ranks)
        return np.where(self.chosen == NO_EXPERT, NO_EXPERT, held)

    def copies(self) -> np.ndarray:
        """Return how many of its experts each token has on each rank: shape (ranks, tokens, ranks)."""
        require_bytes(24 * self.chosen.size + 12 * self.ranks**2 * self.tokens, where="tokens", hint=_FEWER)
        holders = self.holders()
        each = [(holders == rank).sum(axis=2, dtype=np.int32) for rank in range(self.ranks)]
        return np.stack(each, axis=2)


def draw_routing(
    ranks: int,
    tokens: int,
    topk: int,
    experts: int,
    *,
    groups: int | None = None,
    groups_of: int = 1,
    skew: float = 0.0,
    seed: int = 0,
) -> Routing:
    """Draw the experts of every token.

    A gate's scores are independent, so that any ``topk`` experts are as likely as any others.
    With ``groups`` the gate is DeepSeek-V3's: the experts of a token are in as many of the
    ``groups_of`` groups (nodes), those of the best score.

    Parameters
    ----------
    ranks, tokens, topk, experts : int
    groups : int, optional
        Groups that a token's experts may be in; by default any.
    groups_of : int
        Groups of consecutive experts that there are: nodes.
    skew : float
        Popularity falls with an expert's place as ``place ** -skew`` (Zipf), in a random order; 0: all alike.
    seed : int

    Examples
    --------
    >>> draw_routing(2, 3, topk=2, experts=8).chosen.shape
    (2, 3, 2)
    """
    for name, number in (("tokens", tokens), ("topk", topk), ("experts", experts)):
        if number < 1:
            raise InputError(f"{name} must be at least 1, got {number}", where=name)
    if topk > experts:
        raise InputError(
            f"a token cannot go to {topk} of {experts} experts", where="topk", hint=f"from 1 to {experts}"
        )
    if experts % ranks:
        raise InputError(
            f"{experts} experts do not divide among {ranks} ranks",
            where="experts",
            hint=f"use a multiple of {ranks}",
        )
    if not 0 <= skew <= 10:
        raise InputError(f"skew must be from 0 to 10, got {skew:g}", where="skew")
    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}", where="seed")
    _check_tokens(ranks, tokens, "tokens")
    _check_groups(groups, groups_of, topk, experts)
    require_bytes(24 * tokens * (experts + ranks * topk), where="tokens", hint=_FEWER)
    random = np.random.default_rng(seed)
    popular = -skew * np.log(1 + random.permutation(experts))
    chosen = np.empty((ranks, tokens, topk), np.int64)
    for rank in range(ranks):
        scores = popular + random.gumbel(size=(tokens, experts))
        if groups is not None and groups < groups_of:
            best = scores.reshape(tokens, groups_of, -1).max(axis=2)
            left_out = np.argsort(-best, axis=1)[:, groups:]
            closed = np.zeros((tokens, groups_of), bool)
            np.put_along_axis(closed, left_out, 1, axis=1)
            scores[np.repeat(closed, experts // groups_of, axis=1)] = -np.inf
        best = np.argpartition(-scores, topk - 1, axis=1)[:, :topk]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        chosen[rank] = np.take_along_axis(best, order, axis=1)
    return Routing(chosen, experts)


def _check_tokens(ranks: int, tokens: int, where: str) -> None:
    if not 1 <= ranks * tokens <= _MOST_TOKENS:
        hint = f"from 1 to {_MOST_TOKENS:,} of all ranks"
        raise InputError(f"{ranks * tokens:,} tokens are out of range", where=where, hint=hint)


def _check_groups(groups: int | None, groups_of: int, topk: int, experts: int) -> None:
    if groups is None:
        return
    if not 1 <= groups <= groups_of:
        raise InputError(
            f"{groups} groups are out of range: there are {groups_of}, one for each node",
            where="groups",
            hint=f"from 1 to {groups_of}",
        )
    if experts % groups_of or topk > groups * (experts // groups_of):
        raise InputError(
            f"{groups} of {groups_of} groups have no {topk} of {experts} experts",
            where="groups",
            hint="use more groups",
        )


def read_routing(path: str | Path, experts: int) -> Routing:
    """Read the experts of every token, or how many tokens go to each expert.

    ``.npz``: an array ``chosen`` of shape (ranks, tokens, topk) with the experts of each token, or
    ``counts`` of shape (ranks, experts). ``.csv``: a line for each token, ``rank,EXPERT,EXPERT,…``
    below a header ``rank,…``; or a line for each rank with a count for each expert, without a header.
    Of counts, tokens are made so that none has an expert twice.

    Raises
    ------
    InputError
        It cannot be read, or is of other experts.
    """
    where = str(path)
    if where.lower().endswith(".npz"):
        arrays = read_arrays(path, _HINT)
        name = next((name for name in ("chosen", "counts") if name in arrays), None)
        if name is None:
            raise InputError("neither an array 'chosen' nor 'counts'", where=where, hint=_HINT)
        data, counted = arrays[name], name == "counts"
    else:
        data, counted = _read_csv(text_of(path), where)
    if data.ndim != (2 if counted else 3) or not data.size:
        raise _bad_shape(data, _COUNTS_SHAPE if counted else _CHOSEN_SHAPE, where)
    if counted and data.shape[1] != experts:
        raise InputError(
            f"it has counts of {data.shape[1]} experts, there are {experts}",
            where=where,
            hint="give --experts",
        )
    if counted:
        return Routing(_of_counts(whole_array(data, "counts", where, 0, _MOST_TOKENS), where), experts)
    return Routing(whole_array(data, "chosen", where), experts)


def _bad_shape(array: np.ndarray, wanted: str, where: str) -> InputError:
    shape = "x".join(map(str, array.shape))
    return InputError(f"its shape is {shape}", where=where, hint=f"give {wanted}")


def _read_csv(text: str, where: str) -> tuple[np.ndarray, bool]:
    head, _, rest = text.partition("\n")
    if not head.startswith("rank"):
        return whole_table(text, where), True
    rows = whole_table(rest, where, first=2)
    if rows.shape[1] < 2:
        raise InputError("no token has an expert", where=where, hint="give lines of rank,EXPERT,…")
    ranks = rows[:, 0]
    # Of equally many tokens from rank 0 on, so that no rank has the number of rows or more.
    of_rank = np.bincount(ranks) if 0 <= ranks.min() <= ranks.max() < len(rows) else np.arange(2)
    if len(set(of_rank.tolist())) != 1:
        hint = "give a line for each token, ranks 0, 1, …"
        raise InputError("ranks must have equally many tokens, from rank 0 on", where=where, hint=hint)
    ordered = rows[np.argsort(ranks, kind="stable"), 1:]
    return ordered.reshape(len(of_rank), int(of_rank[0]), -1), False


def _of_counts(counts: np.ndarray, where: str) -> np.ndarray:
    """Make tokens of counts: as few as the most popular expert of a rank needs."""
    if not counts.any():
        raise InputError("counts must be positive", where=where)
    tokens = int(counts.max())
    _check_tokens(len(counts), tokens, where)
    topk = -(-max(map(exact_sum, counts)) // tokens)
    require_bytes(16 * len(counts) * tokens * topk, where=where, hint=_FEWER)
    chosen = np.full((len(counts), tokens * topk), NO_EXPERT, np.int64)
    for rank, row in enumerate(counts):
        listed = np.repeat(np.arange(len(row)), row)
        chosen[rank, : len(listed)] = listed
    # One expert's tokens follow one another, at most as many as there are tokens.
    return chosen.reshape(len(counts), topk, tokens).swapaxes(1, 2)
