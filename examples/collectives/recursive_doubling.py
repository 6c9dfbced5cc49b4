"""Recursive doubling: in step k, pairs 2^k apart exchange what they have added up so far.

Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH",
IJHPCA 2005. Few steps, whole buffers: for small sizes, and powers of two of ranks.
"""


def recursive_doubling(p):
    wires = p.connections()
    steps = p.ranks.bit_length() - 1
    for me in p.everyone:
        block = me.block()
        for chunk in range(p.ranks):
            mine = me.input[chunk]
            for step in range(steps):
                block.phase(f"step {step + 1}/{steps}")
                peer = p.rank(me.number ^ 1 << step)
                wires[me, peer].send(block, mine)
                target = me.output if step == steps - 1 else me.scratch
                total = target[(1000 + step) * p.ranks + chunk if step < steps - 1 else chunk]
                block.reduce([mine, wires[peer, me].receive(block)], total)
                mine = total
