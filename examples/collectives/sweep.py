"""A sweep over sizes and parameters of a sliced ring: what slices and posted signals bring."""

import astranb as anb


def sliced_ring(p, *, slices=2, posted=True):
    n = p.ranks
    p.chunks(n * slices)
    wires = p.connections(posted=posted)  # a posted signal goes behind its stores: the block goes on
    for me in p.everyone:
        block = me.block()
        for step in range(2 * n - 1):
            for k in range(slices):
                chunk = (me.number - step) % n * slices + k
                parts = [wires[me.left, me].receive(block)] if step else []
                parts += [me.input[chunk]] if step < n else []
                done = [me.output[chunk]] if step >= n - 1 else []
                if step < 2 * n - 2:
                    wires[me, me.right].send(block, parts, also=done)
                else:
                    block.reduce(parts, *done)


def swept(infra="dgx-h100", sizes=("256 KiB", "1 MiB"), slices=(1, 2, 4)):
    params = {"slices": list(slices), "posted": [False, True]}
    return anb.explore.sweep(infra, "all_reduce", sliced_ring, sizes=sizes, params=params)


if __name__ == "__main__":
    found = swept()
    columns = ["size", "params.slices", "params.posted", "proved", "time_us"]
    print(found.to_dataframe(time="us")[columns])
    anb.export.figures.save(found.figure(), "sweep.html")
