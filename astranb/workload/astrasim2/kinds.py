"""The numbers of kinds of operations, collectives, algorithms and schedules."""

from __future__ import annotations

from typing import Final

# Kinds of operations.
COMPUTE: Final = 0
COLLECTIVE: Final = 1
SEND: Final = 2
RECV: Final = 3
MEMORY: Final = 4
REPLAY: Final = 5  # takes its duration: ASTRA-sim 2.0's broadcasts, what a recording knows too little about
DELAY: Final = 6  # occupies nothing for its duration: before a job begins, between messages, a recorded pause

# Collectives.
ALL_REDUCE: Final = 0
REDUCE_SCATTER: Final = 1
ALL_GATHER: Final = 2
ALL_TO_ALL: Final = 3
BROADCAST: Final = 4  # this and all following have a root
REDUCE: Final = 5
SCATTER: Final = 6
GATHER: Final = 7
COLLECTIVES: Final = 8
NONE: Final = -1

# Algorithms of one phase.
RING_STEPS: Final = 0
DIRECT: Final = 1
HALVING: Final = 2
TREE: Final = 3
CUSTOM: Final = 4
IN_NETWORK: Final = 5
ROOTED: Final = 6  # of a collective with a root, with any shape
ONE_SHOT: Final = 7  # direct: all bytes to all others, each of which reduces them
CHAINED: Final = 8  # a shape: a chain in each node, and a binary tree over the heads of these

# Orders of the dimensions of a chunk, and of the chunks in a queue.
ASCENDING: Final = 0
ROUND_ROBIN: Final = 1
THEMIS: Final = 2
THEMIS_FLEX: Final = 3

INTER: Final = {
    "baseline": ASCENDING,
    "ascending": ASCENDING,
    "roundRobin": ROUND_ROBIN,
    "offlineGreedy": THEMIS,
    "themis": THEMIS,
    "offlineGreedyFlex": THEMIS_FLEX,
    "themisFlex": THEMIS_FLEX,
}
"""Orders of the dimensions by the names of ``inter-dimension-scheduling``."""

FIFO: Final = 0
ALTERNATING: Final = 1
SMALLEST_FIRST: Final = 2
LEAST_PHASES_FIRST: Final = 3
SHORTEST_FIRST: Final = 4

INTRA: Final = {
    "FIFO": FIFO,
    "RG": ALTERNATING,
    "smallestFirst": SMALLEST_FIRST,
    "SCF": SHORTEST_FIRST,
    "lessRemainingPhaseFirst": LEAST_PHASES_FIRST,
}
"""Orders of the chunks in a queue of a dimension by the names of ``intra-dimension-scheduling``.

``SCF`` is ASTRA-sim 1.0's: by the bytes at the start of a phase. ``smallestFirst`` is 2.0's: by the
bytes at the start or the end of a phase, whichever are more, and a chunk's phase before the last goes
behind all others.
"""
