"""DCQCN: the rate of a flow, cut by congestion notifications and raised by timer and by bytes sent.

After Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015,
section 3. Timers are no events: what they would have done is done when the flow next sends
or is notified, period by period, which comes to the same. Everything is in integers:
``alpha`` in units of 1/2**20, rates in bytes a second.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.core.ticks import transfer_ps

__all__ = ["FLOW", "ONE", "ROCE", "catch_up", "cut", "spend"]

ONE: Final = 1 << 20
"""An ``alpha`` or a gain of 1."""

ROCE = np.dtype(
    [
        ("on", "i8"),  # 1: any of this is asked for
        ("pfc", "i8"),  # 1: pause frames
        ("ecn", "i8"),  # 1: switches mark
        ("dcqcn", "i8"),  # 1: senders have rates
        ("xoff", "i8"),  # bytes behind a link above which its sender is paused
        ("xon", "i8"),  # and below which it may go on
        ("kmin", "i8"),  # bytes in a queue up to which nothing is marked
        ("kmax", "i8"),  # and from which everything is
        ("pmax", "i8"),  # share of messages marked just below kmax, in 1/2**32
        ("gain", "i8"),  # g, in 1/2**20
        ("interval_ps", "i8"),  # between two notifications of a flow
        ("alpha_ps", "i8"),  # without a notification after which alpha decays
        ("timer_ps", "i8"),  # between two increases by time
        ("counter", "i8"),  # bytes between two increases by bytes
        ("recovery", "i8"),  # F: steps of fast recovery
        ("additive_Bps", "i8"),  # R_AI
        ("hyper_Bps", "i8"),  # R_HAI
        ("least_Bps", "i8"),  # no flow is made slower
        ("buffers", "i8"),  # of Network: messages behind a link, 0 for no limit
    ]
)
"""One row: the options of Ethernet, as numbers."""

FLOW = np.dtype(
    [
        ("link", "i8"),  # where it enters the Ethernet: out of a NIC, or out of the GPU
        ("target", "i8"),  # node of the GPU that it goes to
        ("rate_Bps", "i8"),  # R_C
        ("target_Bps", "i8"),  # R_T
        ("alpha", "i8"),
        ("limited", "i8"),  # 1: slower than the line
        ("alpha_at_ps", "i8"),  # when alpha was last changed
        ("timer_at_ps", "i8"),  # when the timer last ran out
        ("by_time", "i8"),  # increases since the last notification
        ("by_bytes", "i8"),
        ("counted", "i8"),  # bytes since the last increase by bytes
        ("next_ps", "i8"),  # the next message may enter then
        ("head", "i8"),  # who waits for that (a list through ``requests.next_free``)
        ("tail", "i8"),
        ("waiting", "i8"),
        ("messages", "i8"),  # that have entered
        ("bytes", "i8"),
        ("cnps", "i8"),  # congestion notification packets (CNPs) received
        ("next_cnp_ps", "i8"),  # the receiver sends no other CNP before
        ("cnp_under_way", "i8"),  # 1: a CNP is under way
        ("slowest_Bps", "i8"),
    ]
)
"""A flow: what goes from one link into the Ethernet to one GPU."""


@kernel(inline=False)
def catch_up(roce: Records, flows: Records, flow: int, line_Bps: int, now_ps: int) -> None:  # noqa: N803
    """Do what the timers of a flow have done since it was last looked at."""
    if flows[flow].cnps == 0:
        return
    periods = (now_ps - flows[flow].alpha_at_ps) // roce[0].alpha_ps
    if periods > 0:
        flows[flow].alpha_at_ps += periods * roce[0].alpha_ps
        alpha = flows[flow].alpha
        while periods > 0 and alpha > 0:
            alpha -= (alpha * roce[0].gain + ONE - 1) >> 20
            periods -= 1
        flows[flow].alpha = alpha
    periods = (now_ps - flows[flow].timer_at_ps) // roce[0].timer_ps
    if periods > 0:
        flows[flow].timer_at_ps += periods * roce[0].timer_ps
        while periods > 0 and flows[flow].limited == 1:
            flows[flow].by_time += 1
            increase(roce, flows, flow, line_Bps)
            periods -= 1


@kernel
def increase(roce: Records, flows: Records, flow: int, line_Bps: int) -> None:  # noqa: N803
    """One step up: fast recovery, then additive, then hyper increase (section 3.3 of the paper)."""
    more = max(flows[flow].by_time, flows[flow].by_bytes)
    less = min(flows[flow].by_time, flows[flow].by_bytes)
    target_Bps = flows[flow].target_Bps  # noqa: N806
    if less > roce[0].recovery:
        target_Bps += (less - roce[0].recovery) * roce[0].hyper_Bps  # noqa: N806
    elif more > roce[0].recovery:
        target_Bps += roce[0].additive_Bps  # noqa: N806
    target_Bps = min(target_Bps, line_Bps)  # noqa: N806
    flows[flow].target_Bps = target_Bps
    # Round up so that the target rate is reached.
    flows[flow].rate_Bps = min((target_Bps + flows[flow].rate_Bps + 1) >> 1, line_Bps)
    if flows[flow].rate_Bps == line_Bps:
        flows[flow].limited = 0


@kernel(inline=False)
def cut(roce: Records, flows: Records, flow: int, line_Bps: int, now_ps: int) -> None:  # noqa: N803
    """A notification has come: the flow becomes slower, and everything starts anew."""
    catch_up(roce, flows, flow, line_Bps, now_ps)
    # The line may have become faster or slower since a flow was last limited.
    rate_Bps = min(flows[flow].rate_Bps, line_Bps) if flows[flow].limited == 1 else line_Bps  # noqa: N806
    alpha = flows[flow].alpha
    flows[flow].target_Bps = rate_Bps
    # alpha / 2 is at most 2**19, a rate less than 2**44: the product fits.
    slower_Bps = rate_Bps - ((rate_Bps * (alpha >> 1)) >> 20)  # noqa: N806
    flows[flow].rate_Bps = min(max(slower_Bps, roce[0].least_Bps), line_Bps)
    flows[flow].limited = 1 if flows[flow].rate_Bps < line_Bps else 0
    flows[flow].slowest_Bps = min(flows[flow].slowest_Bps, flows[flow].rate_Bps)
    flows[flow].alpha = alpha + (((ONE - alpha) * roce[0].gain) >> 20)
    flows[flow].alpha_at_ps = now_ps
    flows[flow].timer_at_ps = now_ps
    flows[flow].by_time = 0
    flows[flow].by_bytes = 0
    flows[flow].counted = 0
    flows[flow].cnps += 1


@kernel(inline=False)
def spend(roce: Records, flows: Records, flow: int, line_Bps: int, size: int, now_ps: int) -> None:  # noqa: N803
    """A message enters: set when the next one may follow, and increase the rate by bytes."""
    flows[flow].messages += 1
    flows[flow].bytes += size
    if flows[flow].limited == 0:
        return
    flows[flow].counted += size
    while flows[flow].counted >= roce[0].counter and flows[flow].limited == 1:
        flows[flow].counted -= roce[0].counter
        flows[flow].by_bytes += 1
        increase(roce, flows, flow, line_Bps)
    flows[flow].next_ps = now_ps + transfer_ps(size, flows[flow].rate_Bps)
