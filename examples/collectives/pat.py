"""PAT: an all-gather by parallel aggregated trees, far steps first, as NCCL 2.23 has it.

Jeaugey: "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
arXiv 2506.20252. Of Bruck's steps the farthest comes first, so that only small messages go far.
"""


def pat(p):
    n = p.ranks
    steps = [1 << k for k in reversed(range((n - 1).bit_length()))]
    came = {(me.number, step): me.semaphore() for me in p.everyone for step in steps}
    for me in p.everyone:
        block, r = me.block(), me.number
        block.copy(me.input[0], me.output[r])
        for step in steps:
            block.phase(f"{step} to the right")
            right = (r + step) % n
            # It has the ranks at distances that are multiples of twice this step.
            for back in range(0, n - step, 2 * step):
                block.put(me.output[(r - back) % n], p.output(right)[(r - back) % n])
            block.signal(came[right, step])
            block.wait(came[r, step])
