"""Swing: halving and doubling with peers that swing 1, -1, 3, -5, ... away: short ways on a ring.

De Sensi, Bonato, Saam, Hoefler: "Swing: short-cutting rings for higher bandwidth allreduce",
NSDI 2024. For powers of two of ranks.
"""


def peer(r, step, n):
    jump = (1 - (-2) ** (step + 1)) // 3
    return (r + (jump if r % 2 == 0 else -jump)) % n


def reach(r, step, n):
    """Return the ranks that rank r still sends to, directly or through others, from a step on."""
    later = range(step, n.bit_length() - 1)
    return {r}.union(*(reach(peer(r, k, n), k + 1, n) for k in later))


def swing(p):
    n, steps = p.ranks, range(p.ranks.bit_length() - 1)
    halved, doubled = ([[me.semaphore() for _ in steps] for me in p.everyone] for _ in range(2))
    for me in p.everyone:
        block, r = me.block(), me.number
        sums = {c: [me.input[c], *(me.scratch[s * n + c] for s in steps)] for c in range(n)}
        for s in steps:
            to = peer(r, s, n)
            for c in sorted(reach(to, s + 1, n)):
                block.reduce(sums[c][: s + 1], p.rank(to).scratch[s * n + c])
            block.signal(halved[to][s])
            block.wait(halved[r][s])
        block.reduce(sums[r], me.output[r])
        for s in reversed(steps):
            to = peer(r, s, n)
            for c in sorted(reach(r, s + 1, n)):
                block.put(me.output[c], p.rank(to).output[c])
            block.signal(doubled[to][s])
            block.wait(doubled[r][s])
