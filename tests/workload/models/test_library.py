"""Models that are no transformers, a user's own, and what is refused."""

from __future__ import annotations

import json

import pytest

from astranb.chakra import NodeType, check, read_ranks
from astranb.core.errors import InputError
from astranb.workload.astrasim2 import DimensionNetwork
from astranb.workload.kernels import GPUS, HybridMemory, MemoryTier
from astranb.workload.models import CONVOLUTIONAL, DLRM, Job, Parallelism, machine, read_model, workload
from astranb.workload.models.dlrm import recommendation_memory
from tests.workload.models.support import collected, tiny, waiting_ranks


@pytest.mark.parametrize(
    "name, parameters, forward",
    [
        # torchvision: num_params and _ops (in 10^9 multiplications) of ResNet50_Weights and VGG16_Weights.
        ("resnet-50", 25_557_032, 4.089),
        ("vgg-16", 138_357_544, 15.47),
    ],
)
def test_convolutional_networks_are_as_published(name, parameters, forward):
    model = CONVOLUTIONAL[name]
    assert model.parameters == parameters
    assert round(model.flops / 2e9, 3 if name == "resnet-50" else 2) == forward
    step = workload(name, Parallelism(data=4), batch=64, microbatches=2)
    first = model.layers[0].flops  # whose input needs no gradient
    assert step.model_flops == 64 * (3 * model.flops - first)
    assert collected(step.trace(1), "all_reduce") == (len(model.layers), 2 * parameters)
    assert not waiting_ranks(step)


def test_dlrm_has_the_tables_and_exchanges_of_mlperf():
    model = DLRM["dlrm"]
    assert sum(model.tables) == 187_767_399
    assert len(model.tables) == 26
    ranks, batch = 8, 1024
    step = workload("dlrm", Parallelism(data=ranks), batch=batch, microbatches=2)
    trace = step.trace(3)
    count, size = collected(trace, "all_to_all")
    # Rows there, gradients back: 128 numbers of two bytes a table and sample, each microbatch a half.
    assert (count, size) == (4, 2 * batch // ranks * 26 * 128 * 2)
    assert collected(trace, "all_reduce")[1] == 2 * model.dense_parameters
    dense = model.dense_parameters - sum((*model.bottom[1:], *model.top[1:]))
    flops = 6 * dense + 3 * model.interaction_flops - 2 * model.bottom[0] * model.bottom[1]
    assert step.model_flops == batch * flops
    assert not waiting_ranks(step)


def test_pure_data_parallelism_is_one_file_for_all(tmp_path):
    step = workload(tiny(), Parallelism(data=8, zero=3), gpu="h100-sxm")
    assert len({step.trace_bytes(rank) for rank in range(8)}) == 1
    assert len({id(one) for one in step.operations()}) == 1
    files = step.write(tmp_path / "t")
    assert json.loads(files[-2].read_text()) == {}  # the groups
    traces = read_ranks(tmp_path / "t")
    for trace in traces:
        check(trace)
    computes = traces[0].type == NodeType.COMP
    assert (traces[0].duration_us[computes] > 0).all()


def test_a_model_of_ones_own(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("layers: 4\nhidden: 64\nheads: 4\nffn: 256\nvocab: 100\ngated: true\n")
    assert read_model(file).gated
    assert workload(str(file), Parallelism(tensor=4)).ranks == 4
    for text, message in [
        ("layers: 4", "hidden, heads, ffn, vocab missing"),
        ("layrs: 4", "did you mean 'layers'"),
        ("[1", "not YAML"),
        ("7", "a mapping of names to values"),
        ("{layers: 0, hidden: 64, heads: 4, ffn: 256, vocab: 100}", "layers is 0"),
        ("{layers: 1, hidden: 64, heads: 4, ffn: 256, vocab: 100, norm: rm}", "did you mean 'rms'"),
        ("{layers: 1, hidden: 64, heads: 4, ffn: 256, vocab: 100, gated: 1}", "gated is 1"),
        ("{layers: 1, hidden: 64, heads: 4, ffn: 256, vocab: 100, kv_heads: 3}", "let kv_heads divide"),
        (
            "{layers: 1, hidden: 64, heads: 4, ffn: 256, vocab: 100, experts: 3}",
            r"a token cannot go to 0 of 3 experts; take top_k \(--topk\) from 1 to 3",
        ),
    ]:
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            read_model(file)


@pytest.mark.parametrize(
    "degrees, more, message",
    [
        ({"tensor": 300}, {}, "tensor parallelism 300 exceeds an MLP's 256"),
        (
            {"tensor": 2, "sequence": True, "context": 3},
            {},
            "6 parts .* do not divide a sequence of 32 tokens",
        ),
        ({"pipeline": 16}, {}, "16 stages and chunks, but only 8 layers"),
        ({"pipeline": 2, "interleave": 2}, {"microbatches": 3}, "take a multiple of 2"),
        ({"data": 4}, {"batch": 6}, "take a multiple of 4, as 8"),
        ({"data": 2, "expert": 2}, {}, "has no experts"),
        ({"zero": 3}, {"mode": "prefill"}, "does not apply to prefill"),
        ({"context": 2}, {"mode": "decode"}, "single token"),
        ({}, {"mode": "train"}, "did you mean 'training'"),
        ({}, {"microbatches": 60_000, "batch": 60_000}, "too many operations of a rank"),
    ],
)
def test_divisions_that_do_not_fit_are_refused(degrees, more, message):
    with pytest.raises(InputError, match=message):
        workload(tiny(), Parallelism(**degrees), **more)


@pytest.mark.parametrize(
    "degrees, message",
    [
        ({"data": 4, "expert": 3}, "does not divide data parallelism"),
        ({"interleave": 2}, "interleaving needs more than one stage"),
        ({"sequence": True}, "needs tensor parallelism"),
        ({"zero": 4}, "unknown ZeRO stage 4"),
        ({"data": 0}, "out of range"),
        ({"data": 2048, "tensor": 1024}, "2,097,152 ranks"),
    ],
)
def test_degrees_that_do_not_fit_are_refused(degrees, message):
    with pytest.raises(InputError, match=message):
        Parallelism(**degrees)


def _ranks(count):
    return workload("vgg-16", Parallelism(data=count))


def test_the_network_has_as_many_npus_as_there_are_ranks(tmp_path):
    file = tmp_path / "n.yml"
    file.write_text("topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n")
    with pytest.raises(InputError, match="the network has 4 NPUs, but the plan has 8 ranks"):
        machine(_ranks(8), network=file)
    network = machine(_ranks(12)).network
    assert isinstance(network, DimensionNetwork)
    assert network.npus_count == (6, 2)
    with pytest.raises(InputError, match="known: a100-sxm"):
        workload("vgg-16", gpu="h10")


@pytest.mark.parametrize("zero, parts", [(0, 1), (1, 4)])
def test_dlrms_memory_is_tables_and_layers(zero, parts):
    """Tables over ranks; 2 + 2 + 12 bytes for each parameter of the layers, the last divided by ZeRO 1."""
    model, ranks = DLRM["dlrm"], 4
    job = Job(Parallelism(data=ranks, zero=zero), 1, 4096)
    held = recommendation_memory(model, job)
    dense = model.dense_parameters
    assert held.weights == 2 * -(-sum(model.tables) // ranks) * 128 + 2 * dense
    assert held.gradients == 2 * dense
    assert held.optimizer == 12 * -(-dense // parts)
    assert held.activations == 2 * 1024 * (13 + 512 + 256 + 480 + 1024 + 1024 + 512 + 256 + 27 * 128)


def test_dlrm_looks_up_slower_in_expanded_memory():
    memory = HybridMemory(MemoryTier.of("480 GB, 50 GB/s"), local_bytes=10 * 10**9)
    slow = workload("dlrm", Parallelism(data=2), batch=4096, gpu="a100-sxm", expanded_memory=memory)
    alone = slow.expanded(None)
    times = slow.times_of(0)
    assert times is not None
    assert times.split is not None
    lookup = slow.stages[0].names.index("lookup 0")
    took, own = (int(one.durations_ns()[0][lookup]) for one in (slow, alone))
    (kernel,) = slow.stages[0].kernels[lookup]
    far = times.split.fraction * times.moved(kernel) / (50e9 * GPUS["a100-sxm"].stream) * 1e9
    near = (1 - times.split.fraction) * (own - GPUS["a100-sxm"].kernel_ns)
    assert took == pytest.approx(near + far + GPUS["a100-sxm"].kernel_ns, abs=2)
