"""Grammars as tokens and back, and stages that agree whatever is written."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra.corpus.assembly import WorkloadAssembly
from astranb.chakra.corpus.outline import Outline, outline_of
from astranb.chakra.corpus.tokens import NodeToken, Vocabulary, items_of
from astranb.chakra.corpus.writer import written

from .test_corpus import consistent, job, unlike_ranks

PLANS = [(2, 1, 1), (2, 2, 2), (1, 2, 3), (1, 1, 4)]


def outlines() -> list[Outline]:
    """Grammars of pipelines of several depths, and of ranks that differ."""
    jobs = [job(layers, 256, *plan, 16, 8 if plan[2] > 1 else None) for layers in (6, 12) for plan in PLANS]
    return [outline_of(one) for one in [*jobs, unlike_ranks()]]


@pytest.fixture(scope="module")
def known() -> tuple[list[Outline], Vocabulary]:
    found = outlines()
    return found, Vocabulary.of(found)


def test_a_grammar_that_is_written_token_by_token_is_the_same(known):
    found, vocabulary = known
    assert len(vocabulary.tokens) < 80
    for one in found:
        stages = [items_of(vocabulary, one, own) for own in range(len(one.stages))]
        ends = [dict(budget.left) for _, budget in stages]
        made = WorkloadAssembly(vocabulary, one.plan, one.layers, ends, np.random.default_rng(0))
        for items, _ in stages:
            for item in items:
                assert made.allowed()[item.token]
                assert made.budget.features == item.features
                ended = made.take(item.token, item.pattern, partial(np.array, item.sizes))
            assert ended
        same = made.outline(divided=one.divided)
        assert same is not None
        for own in range(len(one.stages)):
            kinds = [[each.letters[at][:6] for at in each.stages[own].letters] for each in (one, same)]
            assert kinds[0] == kinds[1]
            both = [each.stages[own].parents for each in (one, same)]
            if one.divided:
                assert both[0] == both[1]
            else:  # messages before a collective are sent before it
                assert all(set(before) <= set(more) for before, more in zip(*both, strict=True))
            assert one.stages[own].tags == same.stages[own].tags
        assert same.counts().sum() == one.counts().sum()


def test_repetitions_are_told_by_layers(known):
    """A model of twice the layers is the same tokens, but for the first and last of a module."""
    found, vocabulary = known
    few, many = ([at.token for at in items_of(vocabulary, one, 0)[0]] for one in (found[0], found[4]))
    assert few == many
    assert len(found[4].stages[0].letters) > 1.7 * len(found[0].stages[0].letters)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([(2, 2, 2), (1, 2, 3), (2, 1, 5)]))
def test_whatever_is_allowed_gives_ranks_that_agree(known, seed, plan):
    """Tokens at random: what comes out has no sense, but every message an end, and every group its calls."""
    _, vocabulary = known
    random = np.random.default_rng(seed)
    like = items_of(vocabulary, outlines_of_three()[1], 0)[1]
    made = WorkloadAssembly(vocabulary, plan, 4, [dict(like.left)] * 3, random)
    nodes = np.array([isinstance(one, NodeToken) for one in vocabulary.tokens])
    for _ in range(plan[2]):
        for step in range(200):
            allowed = np.flatnonzero(made.allowed() & (nodes | (step > 30)))
            ends = step > 60 and made.allowed()[0]
            token = 0 if ends or not len(allowed) else int(random.choice(allowed))
            if not len(allowed) or made.take(
                token, int(random.integers(len(vocabulary.patterns))), lambda: random.integers(1, 99, 4)
            ):
                break
        else:
            made.end()
    outline = made.outline(divided=True)
    if outline is not None:
        consistent(written(outline, outline.sizes.astype(np.int64), 0, plan, 1.0, 1.0))


def outlines_of_three() -> list[Outline]:
    """The stages of a pipeline of three."""
    return [outline_of(job(6, 256, 1, 2, stages, 16, 8)) for stages in (2, 3)]
