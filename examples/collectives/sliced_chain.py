"""A broadcast down a chain in slices: while a rank passes one on, the next one comes."""


def sliced_chain(p, *, slices=32):
    p.chunks(slices)
    chain = p.everyone[p.root :] + p.everyone[: p.root]
    came = {me: me.semaphore() for me in chain}
    for place, me in enumerate(chain):
        block = me.block()
        if place == 0:
            block.copy(me.input[:], me.output[:])
        for k in range(slices):
            if place:
                block.wait(came[me])
            if place < p.ranks - 1:
                after = chain[place + 1]
                mine = me.output if place else me.input
                block.put_signal(mine[k], after.output[k], came[after])
