"""Parts of the library's algorithms, to write others with: rings, trees, exchanges with a peer.

Examples
--------
A broadcast down two trees, in an algorithm of one's own:

>>> from astranb.collectives import Collective, verify
>>> from astranb.collectives.parts import below, double_tree, hand_down
>>> def two_trees(p):
...     for which, tree in enumerate(below(p.root, double_tree(p.ranks - 1))):
...         hand_down(p, tree, range(which, p.output_chunks, 2), [me.semaphore() for me in p.everyone])
>>> verify(Collective.of("broadcast", "64 KiB", two_trees).program(6), "broadcast")
[]
"""

from astranb.collectives.library import (
    Tree,
    around,
    below,
    by_nic,
    chain,
    double,
    double_tree,
    halve,
    hand_down,
    reduce_up,
    swing_peer,
)

__all__ = [
    "Tree",
    "around",
    "below",
    "by_nic",
    "chain",
    "double",
    "double_tree",
    "halve",
    "hand_down",
    "reduce_up",
    "swing_peer",
]
