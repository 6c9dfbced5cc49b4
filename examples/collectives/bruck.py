"""Bruck's all-gather: ceil(log2 n) steps for any n, each with all that has come so far.

Bruck, Ho, Kipnis, Upfal, Weathersby: "Efficient algorithms for all-to-all communications in
multiport message-passing systems", IEEE TPDS 1997.
"""


def bruck(p):
    n = p.ranks
    steps = [1 << k for k in range((n - 1).bit_length())]
    came = {(me.number, step): me.semaphore() for me in p.everyone for step in steps}
    for me in p.everyone:
        block, r = me.block(), me.number
        block.copy(me.input[0], me.output[r])
        for step in steps:
            block.phase(f"{step} to the left")
            left = p.rank((r - step) % n)
            for k in range(min(step, n - step)):
                block.put(me.output[(r + k) % n], left.output[(r + k) % n])
            block.signal(came[left.number, step])
            block.wait(came[r, step])
