"""Workloads like those of a corpus: grammar, sizes, plans, what is given away."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import NodeType, Trace, TraceBuilder, check, link_job, recorded_files
from astranb.chakra.corpus import Corpus, CorpusJob, CorpusModel, privacy, quality, read_corpus
from astranb.chakra.corpus.depth import with_stages
from astranb.chakra.corpus.outline import outline_of
from astranb.chakra.corpus.writer import written
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.explore import compare_on_clusters, corpus_report
from astranb.workload.models import TRANSFORMERS, Parallelism, workload

DATA = Path(__file__).resolve().parents[2] / "data" / "recorded"
PLANS = [(2, 1, 1), (2, 2, 1), (4, 2, 1), (2, 2, 2)]
MODELS = [(4, 256), (4, 512), (6, 512), (8, 512), (8, 768), (12, 768)]


@cache
def job(
    layers: int, hidden: int, tensor: int, data: int, pipeline: int, batch: int, micro: int | None = None
) -> CorpusJob:
    """A GPT of so many layers."""
    model = replace(
        TRANSFORMERS["gpt3-125m"], layers=layers, ffn=4 * hidden, expert_ffn=4 * hidden, sequence=512,
        hidden=hidden, heads=hidden // 64, kv_heads=hidden // 64,
    )  # fmt: skip
    plan = Parallelism(data=data, tensor=tensor, pipeline=pipeline)
    step = workload(model, plan, batch=batch, gpu="h100-sxm", microbatches=micro)
    groups = {str(name): ranks for name, ranks in step.groups.items()}
    traces = [step.trace(rank) for rank in range(step.ranks)]
    return CorpusJob(traces, groups, model.parameters, batch, tensor, data, pipeline)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    grid = itertools.product(MODELS, PLANS, (8, 16))
    return Corpus.of([job(*model, *plan, batch) for model, plan, batch in grid], held_out=0.15)


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> CorpusModel:
    return corpus.fit()


def unlike_ranks() -> CorpusJob:
    """Two ranks of which each does something else, with messages both ways."""
    ranks = []
    for rank in range(2):
        step = TraceBuilder()
        last = step.compute("private", num_ops=10 + rank, tensor_size=4)
        if rank:
            last = step.compute("more", num_ops=99, tensor_size=4, after=last)
            step.recv(777, 0, rank=1, tag=41, after=last)
        else:
            step.send(777, 1, rank=0, tag=41, after=last)
        step.collective("all_to_all", 512, group="5", after=last)
        ranks.append(step.build())
    return CorpusJob(ranks, {"5": [0, 1]}, data=2)


def silent() -> Trace:
    """A rank that receives nothing."""
    step = TraceBuilder()
    step.collective("all_to_all", 512, group="5")
    return step.build()


def consistent(made: CorpusJob) -> None:
    """Every rank of a group does the same collectives in the same order; sends match receives."""
    called: dict[str, list[list[tuple[int, int]]]] = {}
    sent: list[tuple[int, ...]] = []
    received: list[tuple[int, ...]] = []
    for rank, trace in enumerate(made.traces):
        check(trace)
        collective = np.flatnonzero(trace.type == NodeType.COMM_COLL).tolist()
        own: dict[str, list[tuple[int, int]]] = {}
        for row in collective:
            what = (int(trace.comm_type[row]), int(trace.comm_size[row]))
            own.setdefault(trace.pg_name[row] or "", []).append(what)
        for name, calls in own.items():
            assert rank in made.groups.get(name, range(made.ranks))
            called.setdefault(name, []).append(calls)
        columns = (trace.comm_src, trace.comm_dst, trace.comm_tag, trace.comm_size)
        for kind, found in ((NodeType.COMM_SEND, sent), (NodeType.COMM_RECV, received)):
            of = trace.type == kind
            found.extend(zip(*(column[of].tolist() for column in columns), strict=True))
            own_end = columns[0] if kind == NodeType.COMM_SEND else columns[1]
            assert (own_end[of] == rank).all()
    for name, each in called.items():
        assert len(each) == len(made.groups.get(name, range(made.ranks)))
        assert all(one == each[0] for one in each)
    assert sorted(sent) == sorted(received)


@pytest.mark.parametrize("plan", [(1, 1, 1), (2, 1, 1), (2, 2, 2), (1, 1, 4)])
def test_a_grammar_gives_the_trace_back_and_that_of_a_deeper_model(plan):
    one, deeper = (outline_of(job(layers, 256, *plan, 8)) for layers in (12, 12 + 2 * plan[2]))
    for stage in range(plan[2]):
        same, more = one.expanded(stage), one.expanded(stage, 2)
        assert [node.parents for node in same] == one.stages[stage].modules.parents
        assert [node.letter for node in same] == one.stages[stage].letters
        assert [node.parents for node in more] == deeper.stages[stage].modules.parents
        assert [node.letter for node in more] == deeper.stages[stage].letters


@pytest.mark.parametrize("asked", [2, 4, 6])
def test_a_grammar_gives_the_schedule_of_another_number_of_stages(asked):
    """All of these have 16 microbatches, so that only places in the schedule differ."""
    here, there = (outline_of(job(12, 256, 1, 2, stages, 32, 16)) for stages in (3, asked))
    moved = with_stages(here, asked)
    assert moved is not None
    assert moved.plan == (1, 2, asked)
    for stage in range(asked):
        same, made = there.expanded(stage), moved.expanded(stage, there.layers - moved.layers)
        assert [node.parents for node in made] == [node.parents for node in same]
        kinds = [
            [one.letters[node.letter][:6] for node in nodes] for one, nodes in ((moved, made), (there, same))
        ]
        assert kinds[0] == kinds[1]
        assert [node.tag for node in made] == [node.tag for node in same]


def test_another_number_of_stages_needs_one_between_the_ends():
    two = outline_of(job(12, 256, 1, 2, 2, 32, 16))
    assert with_stages(two, 4) is None
    assert with_stages(two, 1) is None
    assert with_stages(outline_of(unlike_ranks()), 3) is None
    model = CorpusModel([job(12, 256, 1, 2, stages, 16, 4) for stages in (2, 3)])
    made = model.sample(pipeline=5, seed=2)
    assert (made.ranks, made.pipeline) == (10, 5)
    consistent(made)


def test_the_sizes_of_the_corpus_write_its_own_workload():
    recorded = job(4, 256, 2, 2, 2, 8)
    outline = outline_of(recorded)
    made = written(outline, outline.sizes.astype(np.int64), 0, (2, 2, 2), 1.0, 1.0)
    consistent(made)
    for one, other in zip(made.traces, recorded.traces, strict=True):
        for name in ("type", "comm_type", "comm_size", "num_ops", "comm_src", "comm_dst", "duration_us"):
            assert (getattr(one, name) == getattr(other, name)).all()
        assert (one.parents.flat == other.parents.flat).all()
    assert sorted(map(tuple, made.groups.values())) == sorted(map(tuple, recorded.groups.values()))


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([{}, {"tensor": 4, "data": 2, "pipeline": 2}, {"ranks": 8}]))
def test_what_is_drawn_is_consistent(model, seed, asked):
    consistent(model.sample(seed=seed, **asked))


def test_a_seed_gives_one_workload_and_degrees_what_was_asked(model):
    made = model.sample(tensor=8, data=4, pipeline=2, parameters=5e7, batch=16, seed=3)
    assert (made.ranks, made.tensor, made.data, made.pipeline) == (64, 8, 4, 2)
    assert sorted({len(ranks) for ranks in made.groups.values()}) == [2, 4, 8]
    again = model.sample(tensor=8, data=4, pipeline=2, parameters=5e7, batch=16, seed=3)
    assert list(made.traces) == list(again.traces)
    assert model.sample(tensor=8, data=4, pipeline=2, parameters=5e7, batch=16, seed=4).traces != made.traces
    consistent(made)


def test_a_larger_model_computes_more(model):
    asked = {"tensor": 2, "data": 2, "pipeline": 1, "batch": 16}
    work = []
    for size in (3e7, 6e7, 1.2e8):
        made = [model.sample(parameters=size, seed=seed, **asked) for seed in range(5)]
        work.append(np.mean([one.traces[0].num_ops.sum() for one in made]))
    assert work[0] < work[1] < work[2]


def test_held_out_workloads_are_near_and_nothing_is_verbatim(corpus):
    report = corpus_report(corpus)
    for row in report["clusters"]:
        assert abs(row["makespan_off"]) < 0.1
        assert abs(row["exposed_off"]) < 0.1
        assert max(row["worst_pair_off"], row["worst_pair_exposed_off"]) < 0.1
    assert {row["cluster"] for row in report["clusters"]} == {"ring", "switch", "full mesh", "nodes of 2"}
    found = report["privacy"]
    assert found["verbatim_sizes"] == 0
    assert found["verbatim_names"] == 0
    assert found["nearest"] > 0.5 * found["nearest_training"]
    assert found["membership_auc"] < 0.75
    assert report["distances"]["kinds"]["distance"] < 0.01


def test_copies_are_told_from_synthetic_workloads(corpus):
    copied = privacy(corpus.training, corpus.held_out, corpus.training)
    assert copied["nearest"] == 0
    assert copied["membership_auc"] > 0.9
    assert copied["verbatim_sizes"] > 100
    assert copied["verbatim_names"] > 10
    same = quality(corpus.held_out, corpus.held_out, corpus.training)
    assert {row["distance"] for row in same.values()} == {0.0}
    assert all(row["distance"] == 0 for row in compare_rows(corpus))


def compare_rows(corpus: Corpus) -> list[dict[str, float]]:
    """Compare a workload with itself on every cluster."""
    rows = compare_on_clusters(corpus.held_out[:1], corpus.held_out[:1])
    return [{"distance": abs(row["makespan_off"]) + row["worst_pair_off"]} for row in rows]


def test_ranks_that_differ_are_stages_of_their_own():
    recorded = unlike_ranks()
    assert outline_of(recorded).plan == (1, 1, 2)
    made = CorpusModel([recorded, recorded]).sample(seed=1)
    consistent(made)
    assert [len(trace) for trace in made.traces] == [3, 4]
    text = b"".join(trace.data for trace in made.traces)
    assert b"private" not in text
    assert 777 not in made.traces[0].comm_size


@cache
def recorded(name: str) -> CorpusJob:
    """A step of PyTorch on gloo as tests/data/recorded has it: hundreds of nodes, all ranks different."""
    linked = link_job(recorded_files(DATA / name))
    return CorpusJob(linked.traces, linked.groups, data=len(linked.traces))


def test_recorded_jobs_beside_generated_ones():
    made = [job(*size, *plan, 8) for size in MODELS[:3] for plan in PLANS[:2]]
    model = CorpusModel([*made, recorded("two"), recorded("four")])
    for data in (2, 4):
        like = model.sample(tensor=1, data=data, pipeline=1, seed=data)
        consistent(like)
        assert (like.data, like.ranks) == (data, data)
        assert len(like.traces[0]) > 700
    kinds = [set(one.traces[0].comm_type.tolist()) for one in (like, recorded("four"))]
    assert kinds[0] == kinds[1]
    assert len(model.sample(tensor=2, data=1, pipeline=1).traces[0]) < 100
    with pytest.raises(InputError, match="the corpus has no such plan"):
        model.sample(tensor=1, data=8, pipeline=1)  # ranks that differ are as many as were recorded


def test_workloads_that_nothing_is_like_are_left_out_of_a_report():
    report = corpus_report(
        Corpus([recorded("two"), job(4, 256, 2, 1, 1, 8)], [recorded("four"), recorded("two")])
    )
    assert (report["held_out"], report["unlike"]) == (1, 1)
    assert all(row["worst_pair_off"] < 0.1 for row in report["clusters"])
    with pytest.raises(InputError, match="none of 1 held-out workloads is divided like"):
        corpus_report(Corpus([recorded("two")] * 2, [recorded("four")]))


def test_a_corpus_is_written_and_read(tmp_path):
    for at, one in enumerate([job(4, 256, 2, 1, 1, 8), job(4, 512, 2, 1, 1, 8)]):
        one.write(tmp_path / f"job{at}")
    jobs = read_corpus(tmp_path)
    assert [(one.parameters, one.batch, one.tensor) for one in jobs] == [
        (one.parameters, one.batch, one.tensor) for one in (job(4, 256, 2, 1, 1, 8), job(4, 512, 2, 1, 1, 8))
    ]
    assert read_corpus(tmp_path / "job1.0.et", tmp_path / "job1")[0].ranks == 2


@given(
    st.tuples(*[st.sampled_from([1, 2])] * 4).filter(lambda some: max(some) > 1), st.integers(1, 2),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_a_generated_step_says_how_it_is_divided(tmp_path_factory, degrees, each):
    """Its ranks of a stage do the same by the plan beside it, without which each is a stage of its own."""
    tensor, data, pipeline, context = degrees
    model = replace(TRANSFORMERS["gpt3-125m"], layers=4, sequence=512)
    plan = Parallelism(data=data, tensor=tensor, pipeline=pipeline, context=context)
    prefix = tmp_path_factory.mktemp("made") / "step"
    workload(model, plan, batch=each * data * pipeline, microbatches=pipeline).write(prefix)
    (found,) = read_corpus(prefix)
    assert (found.tensor, found.data, found.pipeline) == (tensor, data * context, pipeline)
    assert (found.parameters, found.batch) == (model.parameters, each * data * pipeline)
    if context == 1:  # a rank that sends parts of sequences on is no copy of its neighbour
        outline = outline_of(found)
        assert outline.divided
        assert len(outline.stages) == pipeline


def test_a_corpus_of_generated_steps_is_learnt_from(tmp_path, capsys):
    for layers, (data, tensor) in itertools.product((4, 6), ((2, 2), (4, 2), (2, 4))):
        plan = Parallelism(data=data, tensor=tensor)
        model = replace(TRANSFORMERS["gpt3-125m"], layers=layers, sequence=512)
        workload(model, plan, gpu="h100-sxm").write(tmp_path / f"j{layers}{data}{tensor}")
    (tmp_path / "new").mkdir()
    made = str(tmp_path / "new" / "n")
    asked = ["chakra", "synthesize", str(tmp_path), "-o", made, "--tp", "2", "--dp", "2"]
    assert main(asked) == 0
    assert "(tensor 2, data 2, pipeline 1)" in capsys.readouterr().out
    for file in tmp_path.glob("*.job.json"):
        file.unlink()
    assert main(asked) == 2
    assert "ranks of a job without PREFIX.job.json count as stages" in capsys.readouterr().err


def test_what_the_corpus_lacks_is_said(tmp_path):
    one = job(4, 256, 2, 1, 1, 8)
    with pytest.raises(InputError, match=r"no such plan.*it has tensor x data x pipeline 2x1x1"):
        CorpusModel([one]).sample(pipeline=4)
    with pytest.raises(InputError, match="8 ranks, but tensor, data, pipeline 3, 2, 1"):
        CorpusModel([one]).sample(ranks=8, tensor=3)
    with pytest.raises(InputError, match="tensor: 0 is out of range; take 1 to "):
        CorpusModel([one]).sample(tensor=0)
    with pytest.raises(InputError, match="no workload to learn from"):
        CorpusModel([])
    with pytest.raises(InputError, match="their product"):
        CorpusJob([Trace.of([])], tensor=2)
    with pytest.raises(InputError, match="greater than zero"):
        CorpusJob([Trace.of([])], batch=-1)
    with pytest.raises(InputError, match="no trace"):
        read_corpus(tmp_path)
    lonely = CorpusJob([unlike_ranks().traces[0]], {"5": [0]})
    with pytest.raises(InputError, match="rank without a trace"):
        CorpusModel([lonely])
    with pytest.raises(InputError, match="1 workloads to learn from"):
        corpus_report(Corpus([one]))
    recorded = unlike_ranks()
    with pytest.raises(InputError, match="send other messages than they receive"):
        CorpusModel([CorpusJob([recorded.traces[0], silent()], {"5": [0, 1]}, pipeline=2)])
