"""Traces that PyTorch recorded: which kernels their computations are, and what the roofline takes of them."""

from __future__ import annotations

import pytest

from astranb.chakra import Attribute, Node, NodeType, Trace
from astranb.core.errors import InputError
from astranb.workload.astrasim2.traces import operations_of
from astranb.workload.kernels import Launch, Product, ShapedKernel

MM = (str([[64, 32], [32, 16]]), str(["Tensor(c10::BFloat16)"] * 2))
WRONG = ("[[64, 32], [31, 16]]", MM[1])
FLOPS, TOUCHED = 2 * 64 * 32 * 16, 2 * (64 * 32 + 32 * 16 + 64 * 16)


SCHEMA = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
ON_GPU, ON_CPU = (Attribute(value, "bool_val") for value in (False, True))


def kernel(number, name="gemm", *, schema=SCHEMA, inputs=MM, took=9, caller=None, **numbers):
    attributes = {"is_cpu_op": ON_GPU}
    attributes |= {key: Attribute(value, "int64_val") for key, value in numbers.items()}
    if schema:
        attributes["op_schema"] = Attribute(schema, "string_val")
    declared = ("[]", *inputs) if inputs else None
    after = () if caller is None else (caller,)
    return Node(number, name, NodeType.COMP, (), after, 0, took, attributes, declared)


def host(number):
    return Node(number, "aten::mm", NodeType.COMP, attributes={"is_cpu_op": ON_CPU})


def read(*nodes, **options):
    return operations_of(Trace.of(nodes), roofline=True, **options)


def test_recorded_shapes_give_operations_and_bytes():
    one = read(kernel(0))
    assert (int(one.rows["flops"][0]), int(one.rows["bytes"][0])) == (FLOPS, TOUCHED)
    assert one.kernels == {0: ShapedKernel(Product(64, 16, 32, cast=False), "bf16", 2)}
    # A node's own numbers stay; its shapes are known nevertheless.
    own = read(kernel(0, num_ops=7, tensor_size=8))
    assert (int(own.rows["flops"][0]), int(own.rows["bytes"][0])) == (7, 8)
    assert own.kernels == one.kernels


def test_the_operator_may_be_the_node_s_name():
    assert read(kernel(0, "aten::mm", schema="")).kernels == read(kernel(0)).kernels
    overload = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
    assert read(kernel(0, schema=overload)).kernels == read(kernel(0)).kernels


def test_of_several_kernels_of_a_call_the_longest_computes():
    one = read(host(0), kernel(1, "memset", took=1, caller=0), kernel(2, took=9, caller=0),
               kernel(3, "splitKreduce", took=2, caller=0), host(4), kernel(5, took=1, caller=4))  # fmt: skip
    assert sorted(one.kernels) == [2, 5]
    assert one.rows["flops"].tolist() == [0, 0, FLOPS, 0, 0, FLOPS]
    assert one.rows["bytes"][[1, 3]].tolist() == [0, 0]


def test_what_has_no_shapes_of_a_product_keeps_its_duration():
    launch = {"num_blocks": 20, "block_threads": 512, "thread_registers": 110, "block_shared_bytes": 332}
    one = read(kernel(0, schema="aten::add(Tensor self, Tensor other) -> Tensor", **launch))
    assert one.rows["flops"].tolist() == [-1]
    assert one.kernels == {0: Launch(20, 512, 110, 332)}
    # Without a roofline every kernel does.
    both = operations_of(Trace.of([kernel(0, **launch), kernel(1, num_blocks=3)]))
    assert both.kernels == {0: Launch(20, 512, 110, 332), 1: Launch(3)}


@pytest.mark.parametrize(
    "node, options, said",
    [
        (
            kernel(0, inputs=("[[64, 32], [31, 16]]", MM[1])),
            {},
            "64 x 32 and 31 x 16 is not a product of matrices",
        ),
        (kernel(0, inputs=None), {}, "no num_ops"),
        (kernel(0, schema="aten::add", took=0), {}, "no num_ops"),
        (kernel(0), {"compat": True}, "no num_ops"),
    ],
)
def test_what_cannot_be_modelled_is_refused_by_node(node, options, said):
    with pytest.raises(InputError, match=said) as refused:
        read(node, **options)
    assert "node 0" in str(refused.value)
    assert "roofline-enabled" in str(refused.value)


def test_without_a_roofline_shapes_are_not_looked_at():
    wrong = kernel(0, inputs=WRONG)
    for modelled in (False, True):
        found = operations_of(Trace.of([wrong]), roofline=modelled, replay=modelled)
        assert found.rows["duration_ns"].tolist() == [9000]
