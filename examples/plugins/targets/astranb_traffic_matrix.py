"""A plug-in: the bytes that each rank sends to each other one, a row of CSV for each rank."""

import numpy as np

from astranb.experimental import TrafficTarget, Translation


def write(graph, path):
    sends = graph.nodes[graph.sends]
    matrix = np.zeros((graph.ranks, graph.ranks), np.int64)
    np.add.at(matrix, (sends["rank"], sends["peer"]), sends["bytes"])
    path.write_text("\n".join(",".join(map(str, row)) for row in matrix.tolist()) + "\n")
    lost = f"the order and the times of {len(sends):,} messages"
    return Translation((path,), len(sends), (lost,))


TARGET = TrafficTarget("matrix", "bytes between ranks", ".csv", write)
