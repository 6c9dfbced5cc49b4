"""An all-to-all of uneven counts, as the experts of a mixture need: a contract of one's own.

MPI calls it MPI_Alltoallv, PyTorch all_to_all_single with split sizes.
"""

from astranb.collectives import Contract


def count(source, target):
    """Bytes from one rank to another."""
    return 16384 * ((3 * source + 5 * target) % 7)


uneven = Contract(
    name="all_to_all_v",
    inputs=lambda r, n: [count(r, target) for target in range(n)],
    outputs=lambda r, n: [count(source, r) for source in range(n)],
    post=lambda r, k: {(k, r)},
)


def direct(p):
    came = [me.semaphore() for me in p.everyone]
    for me in p.everyone:
        block, r = me.block(), me.number
        block.copy(me.input[r], me.output[r])
        for you in me.others:
            block.put(me.input[you], you.output[r])
        for you in me.others:
            block.signal(came[you])
        block.wait(came[r], p.ranks - 1)
