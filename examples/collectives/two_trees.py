"""An all-reduce over two binary trees that share no inner rank, chunk after chunk.

Sanders, Speck, Traeff: "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
Parallel Computing 2009.
"""

from astranb.collectives import parts


def two_trees(p, *, slices=8):
    p.chunks(2 * slices)
    for which, tree in enumerate(parts.double_tree(p.ranks)):
        mine = range(which, 2 * slices, 2)
        ready = [me.semaphore() for me in p.everyone]
        parts.reduce_up(p, tree, mine, ready)
        parts.hand_down(p, tree, mine, ready, begin=False)
