"""A small training job of several processes on the CPU that records itself.

``recorded_job.py PREFIX RANKS [WIDTH]`` runs it; ``recorded_job.py compact FROM TO`` keeps of a recording
what is read, as in tests/data/recorded.

A step is DDP on gloo, an all-to-all, collectives of sub-groups, a broadcast, a message between neighbours, an
asynchronous all-reduce beside a product, and a barrier.
"""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import sys
from pathlib import Path
from typing import Any


def train(rank: int, ranks: int, port: int, prefix: str, width: int) -> None:
    """Train four steps as one rank, and record the last two."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from astranb import chakra

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    pairs: list[Any] = [dist.new_group([first, first + 1]) for first in range(0, ranks, 2)]
    pair, neighbour = pairs[rank // 2], rank ^ 1
    layers = (torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 64))
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    square = torch.randn(width, width)
    with chakra.record(prefix, steps=2, skip=1) as recording:
        for _ in range(4):
            model(torch.randn(width, width)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            sent = torch.ones(1000 * ranks)
            dist.all_to_all_single(torch.empty_like(sent), sent)
            some = torch.ones(5000)
            dist.all_reduce(some, group=pair)
            dist.all_gather([torch.empty(700) for _ in range(2)], torch.ones(700), group=pair)
            dist.broadcast(some, src=0)
            if rank < neighbour:
                dist.send(torch.ones(3000), neighbour, tag=7)
            else:
                dist.recv(torch.empty(3000), neighbour, tag=7)
            work = dist.all_reduce(torch.ones(9000), async_op=True)
            square @ square
            work.wait()
            dist.barrier()
            recording.step()
    dist.destroy_process_group()


def main(prefix: str, ranks: int, width: int = 256) -> None:
    """Start the processes, and wait for them."""
    import torch.multiprocessing

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(train, (ranks, port, prefix, width), ranks)


def compact(prefix: str, to: str) -> None:
    """Write a recording without what nothing reads: strides, outputs, flow events, the machine's name."""
    for rank in itertools.count():
        host, device = (Path(f"{prefix}.{rank}{end}") for end in (".et.json", ".kineto.json.gz"))
        if not host.exists():
            return
        trace = json.loads(host.read_bytes())
        for node in trace["nodes"]:
            node["inputs"].pop("strides", None)
            node["outputs"] = {"values": [], "shapes": [], "types": []}
            node["attrs"] = [one for one in node["attrs"] if one["name"] in ("rf_id", "tid")]
        kineto = json.loads(gzip.decompress(device.read_bytes()))
        kept = ("External id", "Record function id")
        events = [
            {key: event[key] for key in ("ph", "cat", "name", "tid", "ts", "dur")}
            | {"args": {key: event["args"][key] for key in kept if key in event["args"]}}
            for event in kineto["traceEvents"]
            if event.get("cat") in ("cpu_op", "user_annotation")
        ]
        small = {key: kineto[key] for key in ("distributedInfo", "baseTimeNanoseconds")}
        for document, end in ((trace, ".et.json.gz"), (small | {"traceEvents": events}, ".kineto.json.gz")):
            text = json.dumps(document, separators=(",", ":")).encode()
            Path(f"{to}.{rank}{end}").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    if sys.argv[1] == "compact":
        compact(*sys.argv[2:])
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
