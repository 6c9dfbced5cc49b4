"""Logs as nccl-tests would print them, had it run on a simulated machine."""

from astranb.collectives import Collective
from astranb.sim import Simulation

_TESTS = {"all_to_all": "alltoall", "send_recv": "sendrecv"}
HEAD = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""  # noqa: E501


def devices(ranks, name="NVIDIA H100 80GB HBM3"):
    """Return what nccl-tests prints about its options and devices."""
    lines = ["# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) iters: 20 graph: 0"]
    lines += [
        f"#  Rank {rank:>2} Group  0 Pid   {7000 + rank} on n0 device {rank:>2} [0000:{rank:02x}:00] {name}"
        for rank in range(ranks)
    ]
    return "\n".join(lines) + "\n"


def row(size, root, time_us, wrong=0):
    """One row of the table."""
    body = f"{time_us:>8.2f}  {size / time_us / 1e3:>6.2f}  {size / time_us / 1e3:>6.2f}  {wrong:>5}"
    return f"{size:>12}  {size // 4:>12}     float     sum  {root:>6}  {body}  {body}\n"


def measured(
    infra, collective, sizes, roots=(-1,), *, edits=(), outside_us=0.0, noise=lambda: 0.0, gpu=None, **options
):
    """The table of a test on a machine with some edits."""
    text = f"# Collective test starting: {_TESTS.get(collective, collective)}_perf\n"
    rows = []
    for size in sizes:
        for root in roots:
            wanted = Collective.of(collective, size, root=max(0, root), **options)
            sim = Simulation(infra, wanted, gpu=gpu, record=False, checkpoint_bytes=0)
            for path, value in edits:
                sim.set(path, value)
            sim.run()
            rows.append(row(size, root, (sim.now_ps / 1e6 + outside_us) * (1 + noise())))
    return text + devices(sim.ranks) + HEAD + "".join(rows)
