"""Algorithms whose sums and copies a switch makes, by NVLink SHARP's ``multimem`` instructions.

Each rank lets the switch reduce its share and send it to all (NCCL's NVLS algorithm): a byte
crosses each GPU's link once in each direction, in a ring twice.

``oneshot_mc``, ``twoshot_mc`` and ``twoshot_mc_poison`` are kernels that use NCCL's device API
(NVIDIA/nccl @5067397c, contrib/custom_algos/allreduce): 1,024 threads, of which each has one load of 16 B
under way. With poison a rank polls the data where it arrives; here a copy to the output takes the place of
that, because outputs hold data only. The kernel sets another buffer, of an earlier call, to poison again.
``oneshot_packets_mc``, ``packets_mc`` and ``store_mc`` are NCCL's AllReduce_AGxLLMC_R, AllGather_LLMC and
AllGather_STMC for buffers in symmetric memory (src/device/symmetric). ``oneshot_poison_mc`` and
``twoshot_poison_mc`` are TensorRT-LLM's kernels where NVLink joins nodes (NVIDIA/TensorRT-LLM @0357203e,
communicationKernels/mnnvlAllreduceKernels.cu): switches multiply what ranks store, and ranks add.
"""

from __future__ import annotations

from astranb.collectives.language import SWITCH_WRITES, Block, Program, Semaphore

from .hierarchical import far_signals, nodes_of
from .registry import algorithm
from .trees import double_tree

__all__: list[str] = []


@algorithm("all_reduce", "switch", "every rank lets a switch add one chunk of all and store the sum to all")
def all_reduce_switch(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    p.barrier(blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce and store")
        r = me.number
        block.switch_reduce_store(
            [you.input[r] for you in p.everyone], *(you.output[r] for you in p.everyone)
        )
    p.barrier(blocks)


@algorithm(
    "all_reduce", "switch_ring", "four fifths of the bytes by a switch, the rest around a ring beside it"
)
def all_reduce_switch_ring(p: Program) -> None:
    p.split({"switch": 0.8, "ring": 0.2})


@algorithm("reduce_scatter", "switch", "every rank lets a switch add its chunk of all")
def reduce_scatter_switch(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    p.barrier(blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("reduce")
        block.switch_reduce([you.input[me.number] for you in p.everyone], me.output[0])
    p.barrier(blocks)


@algorithm("all_gather", "switch", "every rank lets a switch store its chunk to all")
def all_gather_switch(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("all-gather")
        block.switch_store(me.input[0], *(you.output[me.number] for you in p.everyone))
    p.barrier(blocks)


@algorithm("broadcast", "switch", "the root lets a switch store everything to all", any_chunks=True)
def broadcast_switch(p: Program) -> None:
    root = p.rank(p.root)
    block = root.block()
    block.phase("broadcast")
    for chunk in range(p.output_chunks):
        block.switch_store(root.input[chunk], *(you.output[chunk] for you in p.everyone))
    for you in root.others:
        ready = you.semaphore()
        block.signal(ready)
        you.block().wait(ready)


_ONE_LOAD = 1024 * 16 // 128  # lines of 128 B that a block has under way: a load of 16 B of each thread
_LOADING = 4  # warps that have them under way: 32 lines each, as of GPUs with NVLink SHARP


@algorithm(
    "all_reduce",
    "oneshot_mc",
    "one shot: every rank lets a switch add everything of all into its own output, without a barrier",
    whole=True,
)
def all_reduce_oneshot_mc(p: Program) -> None:
    for me in p.everyone:
        block = me.block()
        block.lines_ahead = _ONE_LOAD
        block.phase("reduce")
        for chunk in range(p.ranks):
            block.switch_reduce([you.input[chunk] for you in p.everyone], me.output[chunk])


@algorithm(
    "all_reduce", "twoshot_mc", "as switch, with no barrier before: who calls it knows that inputs are ready"
)
def all_reduce_twoshot_mc(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    for me, block in zip(p.everyone, blocks, strict=True):
        block.lines_ahead = _ONE_LOAD
        block.phase("reduce and store")
        r = me.number
        block.switch_reduce_store(
            [you.input[r] for you in p.everyone], *(you.output[r] for you in p.everyone)
        )
    p.barrier(blocks)


@algorithm(
    "all_reduce",
    "twoshot_mc_poison",
    "as switch, without barriers: ranks poll the data, whose memory held a value that no data has",
)
def all_reduce_twoshot_mc_poison(p: Program) -> None:
    p.poisoned = True
    for me in p.everyone:
        # Threads poll all chunks at once: a warp for each, beside those that have the loads under way.
        block = me.block(warps=_LOADING + p.ranks)
        sum_ = block.warps(0, _LOADING)
        sum_.phase("reduce and store")
        r = me.number
        sum_.switch_reduce_store(
            [you.input[r] for you in p.everyone], *(p.packets(you)[r] for you in p.everyone)
        )
        for chunk in range(p.ranks):
            poll = block.warps(_LOADING + chunk, _LOADING + chunk + 1)
            poll.phase("poll")
            poll.copy(p.packets(me)[chunk], me.output[chunk])


@algorithm(
    "all_reduce",
    "oneshot_packets_mc",
    "one shot: every rank lets a switch store packets of everything to all, and adds what has come",
    whole=True,
)
def all_reduce_oneshot_packets_mc(p: Program) -> None:
    for me in p.everyone:
        block = me.block()
        block.phase("store")
        first = me.number * p.ranks
        for chunk in range(p.ranks):
            block.switch_store(me.input[chunk], *(p.packets(you)[first + chunk] for you in p.everyone))
        block.phase("reduce")
        for chunk in range(p.ranks):
            came = [p.packets(me)[you.number * p.ranks + chunk] for you in me.others]
            block.reduce([me.input[chunk], *came], me.output[chunk])


@algorithm(
    "all_reduce",
    "oneshot_poison_mc",
    "as oneshot_packets_mc, with poison for flags: every rank polls the data themselves, and adds them",
    whole=True,
)
def all_reduce_oneshot_poison_mc(p: Program) -> None:
    p.poisoned = True
    all_reduce_oneshot_packets_mc(p)


@algorithm(
    "all_reduce",
    "twoshot_poison_mc",
    "two shots without signals: ranks store to the one that adds a chunk, a switch stores its sum to all",
)
def all_reduce_twoshot_poison_mc(p: Program) -> None:
    p.poisoned = True
    far = far_signals(p)
    for me in p.everyone:
        block, r = me.block(), me.number
        block.phase("scatter")
        for you in me.others:
            if (r, you.number) in far:
                block.put(me.input[you.number], p.scratch(you)[r])
                block.signal(far[you.number, r])
            else:
                block.put(me.input[you.number], p.packets(you)[r])
        block.phase("reduce and store")
        for you in me.others:
            if (r, you.number) in far:
                block.wait(far[r, you.number])
        came = [(p.scratch if (r, you.number) in far else p.packets)(me)[you.number] for you in me.others]
        block.move([me.input[r], *came], [p.packets(you)[p.ranks + r] for you in p.everyone], SWITCH_WRITES)
        block.phase("poll")
        for chunk in range(p.ranks):
            block.copy(p.packets(me)[p.ranks + chunk], me.output[chunk])


@algorithm("all_gather", "packets_mc", "every rank lets a switch store packets of its chunk to all")
def all_gather_packets_mc(p: Program) -> None:
    for me in p.everyone:
        block = me.block()
        block.phase("all-gather")
        block.switch_store(me.input[0], *(p.packets(you)[me.number] for you in p.everyone))
        block.copy(me.input[0], me.output[me.number])
        for you in me.others:
            block.copy(p.packets(me)[you.number], me.output[you.number])


@algorithm("all_gather", "store_mc", "as switch, after a barrier: outputs may still be read")
def all_gather_store_mc(p: Program) -> None:
    blocks = [me.block() for me in p.everyone]
    p.barrier(blocks)
    for me, block in zip(p.everyone, blocks, strict=True):
        block.phase("all-gather")
        block.switch_store(me.input[0], *(you.output[me.number] for you in p.everyone))
    p.barrier(blocks)


_SCATTER, _REDUCE, _DOWN, _GATHER, _MOVE = 8, 5, 4, 7, 12
"""Warps of NCCL's 20 that do each part where buffers are not registered: ``src/device/all_reduce.h``
(8, 5, 7), ``all_gather.h`` and ``reduce_scatter.h`` (8 copy, 12 multiply or add), @5067397c.

NCCL polls the least of all ranks' counts with a ``multimem`` load; here a semaphore of each step counts the
ranks, so that one that is ahead cannot stand for one that is behind."""


@algorithm(
    "all_reduce",
    "nvls",
    "as switch, step by step through a library's own buffers: scatter, reduce, gather at once",
    stepwise=True,
)
def all_reduce_nvls(p: Program) -> None:
    pairs = [(p.block(r, _SCATTER), p.block(r, _REDUCE), p.block(r, _GATHER)) for r in range(p.ranks)]
    for _ in p.slices():
        staged, summed = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(2))
        for r, (scatter, reduce, gather) in enumerate(pairs):
            _stage(p, r, scatter, staged)
            reduce.phase("reduce and store")
            reduce.wait(staged[r], p.ranks)
            reduce.switch_reduce_store(
                [p.scratch(you)[r] for you in range(p.ranks)],
                *(p.scratch(you)[p.ranks + r] for you in range(p.ranks)),
            )
            _fetch(p, r, reduce, gather, summed, p.ranks, summed[r])


@algorithm("reduce_scatter", "nvls", "as switch, step by step through a library's own buffers", stepwise=True)
def reduce_scatter_nvls(p: Program) -> None:
    pairs = [(p.block(r, _SCATTER), p.block(r, _MOVE)) for r in range(p.ranks)]
    for _ in p.slices():
        staged = [p.semaphore(r) for r in range(p.ranks)]
        for r, (scatter, reduce) in enumerate(pairs):
            _stage(p, r, scatter, staged)
            reduce.phase("reduce")
            reduce.wait(staged[r], p.ranks)
            reduce.switch_reduce([p.scratch(you)[r] for you in range(p.ranks)], p.output(r)[0])


@algorithm("all_gather", "nvls", "as switch, step by step through a library's own buffers", stepwise=True)
def all_gather_nvls(p: Program) -> None:
    pairs = [(p.block(r, _MOVE), p.block(r, _SCATTER)) for r in range(p.ranks)]
    for _ in p.slices():
        came = [p.semaphore(r) for r in range(p.ranks)]
        for r, (send, gather) in enumerate(pairs):
            send.phase("all-gather")
            send.switch_store(p.input(r)[0], *(p.scratch(you)[r] for you in range(p.ranks)))
            _fetch(p, r, send, gather, came, 0, came[r])


@algorithm(
    "all_reduce",
    "nvls_tree",
    "a switch in each node for the ranks in it, binary trees along their rails between nodes: step by step",
    stepwise=True,
    of_node=True,
)
def all_reduce_nvls_tree(p: Program) -> None:
    """Each rank of a node is the head of a chunk: it has the switch add it, and sends it along its rail.

    NCCL adds what comes from other nodes in the same loads; here a role does it, so that no step waits.
    """
    width, nodes = nodes_of(p)
    tree = double_tree(nodes)[2 * p.channel // p.channels]
    blocks = [[p.block(r, w) for w in (_SCATTER, _REDUCE, _DOWN, _GATHER)] for r in range(p.ranks)]
    adders = [p.block(r, _REDUCE) if tree[r // width][1] else None for r in range(p.ranks)]
    for _ in p.slices():
        staged, stored, came = ([p.semaphore(r) for r in range(p.ranks)] for _ in range(3))
        risen = [[p.semaphore(r) for _ in range(1 + len(tree[r // width][1]))] for r in range(p.ranks)]
        for r in range(p.ranks):
            node, head = divmod(r, width)
            (parent, children), box = tree[node], range(node * width, (node + 1) * width)
            scatter, reduce, store, gather = blocks[r]
            _stage(p, r, scatter, [staged[you] for you in box])
            reduce.phase("reduce")
            reduce.wait(staged[r], width)
            # Behind what is staged and what is stored: the sums of this node and of those below, and of all.
            *sums, total, up = (p.scratch(r)[2 * width + k] for k in range(5))
            alone = parent < 0 and not children
            reduce.switch_reduce([p.scratch(you)[head] for you in box], total if alone else sums[0])
            sender = adders[r] or reduce
            if children:
                reduce.signal(risen[r][0])
                sender.phase("add")
                for semaphore in risen[r]:
                    sender.wait(semaphore)
                sender.reduce(sums[: 1 + len(children)], up if parent >= 0 else total)
            if parent >= 0:
                above, place = parent * width + head, 1 + tree[parent][1].index(node)
                sender.post(up if children else sums[0], p.scratch(above)[2 * width + place])
                sender.signal(risen[above][place])
            else:
                sender.signal(came[r])
            store.phase("store")
            store.wait(came[r])
            for child in children:
                store.post(total, p.scratch(child * width + head)[2 * width + 3])
                store.signal(came[child * width + head])
            store.switch_store(total, *(p.scratch(you)[width + head] for you in box))
            _fetch(p, r, store, gather, [stored[you] for you in box], width, stored[r])


def _stage(p: Program, r: int, scatter: Block, staged: list[Semaphore]) -> None:
    """Copy a rank's input to its own buffer, and tell every rank."""
    scatter.phase("scatter")
    for chunk in range(len(staged)):
        scatter.copy(p.input(r)[chunk], p.scratch(r)[chunk])
    for head in staged:
        scatter.signal(head)


def _fetch(
    p: Program, r: int, sender: Block, gather: Block, came: list[Semaphore], first: int, by: Semaphore
) -> None:
    """Signal every rank that this one has stored to all; copy what all have stored here to the output."""
    for semaphore in came:
        sender.signal(semaphore)
    gather.phase("gather")
    gather.wait(by, len(came))
    for chunk in range(len(came)):
        gather.copy(p.scratch(r)[first + chunk], p.output(r)[chunk])
