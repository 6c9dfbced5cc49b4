"""Effects of pause frames, ECN marks and rate limits, in words and rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.plural import plural
from astranb.core.units import format_bandwidth, format_time
from astranb.net import CLASSES, INJECTS, MARKS, PAUSES, Fabric

from .machine import CacheLineMachine
from .state import CacheLineState

__all__ = ["describe_event", "explain_ethernet", "link_rows", "paused_ps", "rates"]

_MOST_FLOWS = 16
_FLOW_COLUMNS = ("rate_Bps", "slowest_Bps", "messages", "bytes", "waiting", "cnps")


def paused_ps(machine: CacheLineMachine, links: np.ndarray, now_ps: int) -> int:
    """Time for which classes of some links were paused, with the pauses that last."""
    queues = machine.queues[(np.asarray(links)[:, None] * CLASSES + np.arange(CLASSES)).ravel()]
    still = queues[queues["paused"] == 1]
    return int(machine.links["paused_ps"][links].sum() + (now_ps - still["paused_at_ps"]).sum())


def link_rows(
    machine: CacheLineMachine, fabric: Fabric, links: np.ndarray, now_ps: int
) -> list[tuple[str, Any]]:
    """Rows of the inspector for the lanes of a link; none where it is no Ethernet."""
    roce, rows = machine.roce[0], machine.links[links]
    if not roce.on or not (rows["role"] & (PAUSES | MARKS | INJECTS)).any():
        return []
    state: list[tuple[str, Any]] = [("most queued, one class", f"{int(rows['most_queued'].max()):,} B")]
    if roce.pfc and (rows["role"] & PAUSES).any():
        queues = machine.queues[(links[:, None] * CLASSES + np.arange(CLASSES)).ravel()]
        held = f"{int(queues['stored'].max()):,} B now, {int(rows['most_stored'].max()):,} B at most"
        state += [
            ("waiting behind it, one class", held),
            ("paused now", "yes" if queues["paused"].any() else "no"),
            ("time paused", format_time(paused_ps(machine, links, now_ps))),
            ("pause frames", f"{int(rows['pauses'].sum()):,}"),
        ]
    if roce.ecn and (rows["role"] & MARKS).any():
        state.append(("messages marked", f"{int(rows['marked'].sum()):,}"))
    if roce.dcqcn and (rows["role"] & INJECTS).any():
        mine = machine.flows[np.isin(machine.flows["link"], links)]
        ranks = {int(node): rank for rank, node in enumerate(fabric.gpus)}
        for flow in mine[:_MOST_FLOWS]:
            limit = format_bandwidth(int(flow.rate_Bps)) if flow.limited else "the line's"
            waits = (
                f", {plural(int(flow.waiting), 'message waits', 'messages wait')} for it"
                if flow.waiting
                else ""
            )
            state.append((f"rate to GPU{ranks[int(flow.target)]}", limit + waits))
        if len(mine) > _MOST_FLOWS:
            state.append(("more flows", f"{len(mine) - _MOST_FLOWS:,}"))
    return state


def rates(engine: CacheLineState) -> dict[str, list[Any]]:
    """Columns with a row a flow, which is all that enters by one link for one GPU: its rate, what it sent.

    Without DCQCN there is no row: senders have no rates.
    """
    machine, fabric = engine.machine, engine.fabric
    flows = machine.flows[(machine.flows["link"] >= 0) & bool(machine.roce[0].dcqcn)]
    ranks = {int(node): rank for rank, node in enumerate(fabric.gpus)}
    return {
        "link": [fabric.name(int(link)) for link in flows["link"]],
        "to_rank": [ranks[int(node)] for node in flows["target"]],
        **{name: flows[name].tolist() for name in _FLOW_COLUMNS},
    }


def explain_ethernet(machine: CacheLineMachine, fabric: Fabric, now_ps: int) -> list[str]:
    """Lines for ``explain``: what was paused, marked and slowed; none without these options."""
    roce = machine.roce[0]
    if not roce.on:
        return []
    links = machine.links[: len(fabric.links)]
    lines = ["", "Ethernet:"]
    worst = int(np.argmax(links["most_queued"]))
    lines.append(f"  longest queue {int(links['most_queued'][worst]):,} B, for {fabric.name(worst)}")
    if roce.pfc:
        took = np.array([paused_ps(machine, np.array([k]), now_ps) for k in range(len(links))])
        first = int(np.argmax(took))
        most = f", most of all {fabric.name(first)} ({format_time(int(took[first]))})" if took[first] else ""
        lines.append(f"  {plural(int(links['pauses'].sum()), 'pause frame')}{most}")
    if roce.ecn:
        passed = links["role"] & MARKS > 0
        of = int(links["messages"][passed].sum())
        lines.append(
            f"  {plural(int(links['marked'].sum()), 'mark')} on {plural(of, 'message')} out of switches"
        )
    if roce.dcqcn:
        flows = machine.flows[machine.flows["cnps"] > 0]
        least = format_bandwidth(int(flows["slowest_Bps"].min())) if len(flows) else ""
        down = f", the slowest down to {least}" if least else ""
        lines.append(f"  {plural(int(flows['cnps'].sum()), 'CNP')} slowed {plural(len(flows), 'flow')}{down}")
    return lines


def describe_event(machine: CacheLineMachine, fabric: Fabric, kind: str, arg: int) -> str:
    """Describe an event that is not about a request: a pause frame, a rate limiter, a CNP."""
    if kind == "pause":
        queue = arg // 2
        what = "responses" if queue % CLASSES % 2 else "requests"
        does = "must pause" if arg % 2 else "resumes"
        return f"{fabric.name(queue // CLASSES)} {does} {what}"
    flow = machine.flows[arg]
    name = f"the flow from {fabric.name(int(flow.link))} to {fabric.graph.name(int(flow.target))}"
    if kind == "rate_release":
        return f"{name} may send its next message"
    return f"{name} is notified of congestion"
