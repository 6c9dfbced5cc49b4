"""An all-reduce of boxes with rails: a box first, then each of its GPUs with its peers in other boxes."""


def rails(p):
    width, boxes = p.per_node, p.ranks // p.per_node
    box = [range(first, first + width) for first in range(0, p.ranks, width)]
    rail = [range(place, p.ranks, width) for place in range(width)]
    sums = lambda r: p.scratch(r)[:boxes]
    totals = lambda r: p.scratch(r)[boxes : 2 * boxes]
    whole = lambda buffer: lambda r: buffer(r)[:]
    p.call("reduce_scatter", "allpairs", ranks=box, source=whole(p.input), target=sums)
    p.call("all_reduce", "allpairs", ranks=rail, source=sums, target=totals)
    p.call("all_gather", "allpairs", ranks=box, source=totals, target=whole(p.output))
