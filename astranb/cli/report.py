"""Output of ``astranb run``: files, and a report as text or JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from astranb.core.plural import plural
from astranb.core.units import format_time
from astranb.explore.runs import (
    COLLECTIVE,
    EXCHANGE,
    JOBS,
    LAYERS,
    MODEL,
    TRACES,
    Subject,
    memory_limit_of,
)

from .options import RunOutputs
from .printing import Report

if TYPE_CHECKING:
    from astranb.explore import StepAccount, StepBill

__all__ = ["ReportedRun", "inspects", "records", "report_of", "write_files"]


@dataclass(frozen=True)
class ReportedRun(Subject):
    """A run, and what is written of it."""

    outputs: RunOutputs = field(default_factory=RunOutputs)


def records(outputs: RunOutputs) -> bool:
    """Return whether an output file needs a recording; without one, simulation is faster."""
    return bool(outputs.html or outputs.perfetto)


def inspects(outputs: RunOutputs) -> bool:
    """Return whether an output needs more of a workload than its numbers."""
    wanted = (outputs.explain, outputs.frames, outputs.svg, outputs.save, outputs.energy, outputs.rates)
    return bool(records(outputs) or any(wanted))


def write_files(subject: ReportedRun) -> None:
    """Write the files that options name."""
    outputs = subject.outputs
    sim: Any = subject.sim
    if outputs.save:
        sim.save(outputs.save)
    if outputs.frames:
        sim.result.write_frames(outputs.frames)
    if outputs.perfetto:
        sim.result.to_perfetto(outputs.perfetto)
    if outputs.memory_svg:
        from astranb.drawing import memory

        memory(sim, outputs.memory_svg)
    if outputs.html or outputs.svg:
        from astranb.widgets import files_of

        files = files_of(sim)
        if outputs.html and outputs.live:  # it simulates what has been simulated here once more
            start = sim.fork()
            start.reset()
            files_of(start).to_html(outputs.html, live=True if outputs.live == "page" else outputs.live)
        elif outputs.html:
            files.to_html(outputs.html)
        if outputs.svg:
            files.to_svg(outputs.svg)
    if outputs.path:
        from astranb.engine.layers import write_tables

        write_tables(
            sim.engine.run.result(), outputs.path, run_name=outputs.run_name, row=outputs.stat_row,
            rows=outputs.total_stat_rows,
        )  # fmt: skip


def report_of(subject: ReportedRun) -> Report:
    """Return the results as JSON, as an explanation, or as text."""
    outputs, result = subject.outputs, subject.sim.result
    document, text = _LINES_REPORT if subject.by_lines else _REPORTS[subject.kind]
    if outputs.json:
        common = {
            "fidelity": subject.sim.fidelity,
            "time_ps": result.time_ps,
            "events": subject.sim.events,
            "per_rank": _rows(subject),
            "breakdown": result.breakdown(),
            "state_hash": subject.sim.state_hash(),
        }
        remarks = _remarks(subject)
        return Report({**common, **document(subject), **({"remarks": remarks} if remarks else {})})
    notes = [*(subject.inputs.what.notes if subject.kind in (TRACES, JOBS) else ()), *_remarks(subject)]
    chosen = subject.inputs.choice
    notes += [chosen.nearest] if chosen and chosen.nearest else []
    choice = chosen.lines() if outputs.explain and chosen else []
    return Report(None, [*choice, result.explain() if outputs.explain else text(subject)], notes=notes)


def _remarks(subject: ReportedRun) -> list[str]:
    """Return what has to be said about the routes."""
    engine: Any = subject.sim.engine
    if subject.sim.fidelity == "cacheline":
        fabric = engine.fabric
    else:  # ASTRA-sim 1.0's networks, and 2.0's dimensions, have no routes
        fabric = getattr(getattr(getattr(engine.run, "workload", None), "network", None), "fabric", None)
    return [] if fabric is None else list(fabric.remarks)


def _rows(subject: ReportedRun) -> list[dict[str, Any]]:
    """Return a row for each rank; times as ASTRA-sim counts them where its results are reproduced."""
    rows = [{name: value for name, value in row.items() if name != "done"} for row in subject.per_rank]
    counted: tuple[str, ...] = ()
    if subject.kind == LAYERS and subject.by_lines:  # the update of weights is a part of its collective
        counted = ("compute_ps", "exposed_comm_ps")
    elif subject.kind == TRACES and subject.spec.compat:
        counted = ("exposed_comm_ps",)
    return [{**row, **{name: row[f"astrasim_{name}"] for name in counted}} for row in rows]


# A collective ------------------------------------------------------------------


def _collective_document(subject: ReportedRun) -> dict[str, Any]:
    sim: Any = subject.sim
    collective = subject.inputs.what
    by_lines = sim.fidelity == "cacheline"
    return {
        "collective": collective.name,
        "algorithm": collective.algorithm_name,
        "protocol": collective.protocol if by_lines else None,
        "size_bytes": sim.engine.collective.size,
        "checked": by_lines and sim.engine.work.checked,
        "algbw_GBps": sim.result.algbw_Bps / 1e9,
        "busbw_GBps": None if sim.result.busbw_Bps is None else sim.result.busbw_Bps / 1e9,
        **({"choice": subject.inputs.choice.document()} if subject.inputs.choice else {}),
        **(_machine(sim) if by_lines else {"infra": subject.spec.infra}),
    }


def _exchange_document(subject: ReportedRun) -> dict[str, Any]:
    exchange = subject.inputs.what
    names = ("tokens", "hidden", "topk", "experts", "groups", "precision")
    return {
        "collective": exchange.name,
        "algorithm": exchange.algorithm_name,
        "size_bytes": exchange.size,
        "checked": subject.sim.engine.work.checked,
        **{name: getattr(exchange, name) for name in names},
        "counted_GBps": {link: rate / 1e9 for link, rate in subject.sim.result.counted_Bps.items()},
        **_machine(subject.sim),
    }


def _collective_text(subject: ReportedRun) -> str:
    return subject.sim.result.summary()


def _machine(sim: Any) -> dict[str, Any]:
    """Return what the cache-line machine adds."""
    return {
        "infra": sim.engine.infra.name,
        "line_hops": int(sim.engine.machine.clock[0].hops),
        "assumed": sim.engine.assumed,
    }


# A workload --------------------------------------------------------------------


def _lines_document(subject: ReportedRun) -> dict[str, Any]:
    sim, spec = subject.sim, subject.spec
    return {
        "workload": getattr(spec, spec.subject),
        "compat": getattr(spec, "compat", None),
        "gpu": sim.engine.presets[0].name,
        **_machine(sim),
    }


def _traces_document(subject: ReportedRun) -> dict[str, Any]:
    run = _run_of(subject)
    simulated = run.result()
    return {
        "workload": subject.spec.workload,
        "compat": subject.spec.compat,
        "messages": simulated.messages,
        "message_bytes": simulated.message_bytes,
        "cost_dollars": run.workload.network.cost_dollars(),
        "notes": run.workload.notes,
        **({"dimensions": subject.sim.result.table("dimensions")} if inspects(subject.outputs) else {}),
    }


def _ranks_text(subject: ReportedRun) -> str:
    """Write ASTRA-sim 2.0's lines; with its own figure where its results are reproduced."""
    return "\n".join(
        f"sys[{row['rank']}] finished, {row['end_ps'] // 1000} cycles, "
        f"exposed communication {row['exposed_comm_ps'] // 1000} cycles."
        for row in _rows(subject)
    )


def _run_of(subject: ReportedRun) -> Any:
    """Return the engine's run of a workload."""
    return subject.sim.engine.run


# A model -----------------------------------------------------------------------


def _account(subject: ReportedRun) -> StepAccount:
    from astranb.explore import account

    step, cluster = subject.inputs.step, subject.inputs.cluster
    assert step is not None and cluster is not None  # noqa: S101, PT018 - what a model's inputs have
    return account(subject.sim, step, peak_flops=cluster.peak_flops, price=subject.spec.price)


def _bill(subject: ReportedRun) -> StepBill | None:
    """Return the energy and cost of a step, if the options ask for it."""
    outputs, step = subject.outputs, subject.inputs.step
    if not outputs.energy and outputs.rates is None:
        return None
    from astranb.explore import bill, read_rates

    assert step is not None  # noqa: S101 - what a model's inputs have
    return bill(subject.sim, step, None if outputs.rates is None else read_rates(outputs.rates))


def _bill_lines(found: StepBill | None, unit: str) -> list[str]:
    """Write the energy and cost of a step."""
    if found is None:
        return []
    parts = {
        "GPUs": found.gpu_energy_J,
        "links": found.link_energy_J,
        "memory outside": found.memory_energy_J,
    }
    listed = ", ".join(f"{name} {part / found.energy_J:.1%}" for name, part in parts.items() if part)
    prices = {"GPUs": found.gpu_dollars, "network": found.network_dollars, "memory": found.memory_dollars}
    paid = ", ".join(f"{name} {price:,.0f}" for name, price in prices.items() if price)
    each = f"{found.energy_per_token_J:.4g} J a {unit[:-1]}, {found.power_W / 1000:,.4g} kW"
    million = f"${found.dollars_per_million_tokens:,.4g} for a million {unit}"
    cluster = f"cluster: ${found.cluster_dollars:,.0f} ({paid})"
    return [
        f"energy of a step: {found.energy_J:,.4g} J ({listed}), {each}",
        f"{cluster}; with electricity ${found.dollars_per_step:,.4g} a step, {million}",
    ]


def _model_document(subject: ReportedRun) -> dict[str, Any]:
    step: Any = subject.inputs.step
    cluster: Any = subject.inputs.cluster
    simulated = _run_of(subject).result()
    figures = _account(subject).document()
    waited = sum(figures["exposed_ps"].values())
    return {
        "model": subject.spec.model,
        "mode": subject.spec.mode,
        "ranks": step.ranks,
        "operations": step.nodes,
        "last_rank": figures.pop("rank"),
        "compute_ps": figures.pop("compute_ps"),
        "exposed_comm_ps": waited,
        f"{step.unit}_per_s": figures.pop("tokens_per_s"),
        f"{step.unit}_per_s_per_gpu": figures.pop("tokens_per_s_per_gpu"),
        "model_flops": step.model_flops,
        "hardware_flops": step.hardware_flops,
        "model_flops_utilisation": figures["mfu"],
        **figures,
        "memory": [{**one.document(), "free": _limit_bytes(subject) - one.total} for one in step.memory()],
        "memory_limit": _limit_bytes(subject) if step.memory() else None,
        **_expanded_document(step),
        **({} if (bill := _bill(subject)) is None else {"bill": bill.document()}),
        "messages": simulated.messages,
        "message_bytes": simulated.message_bytes,
        "assumed": cluster.assumed,
    }


def _model_text(subject: ReportedRun) -> str:
    step: Any = subject.inputs.step
    cluster: Any = subject.inputs.cluster
    found = _account(subject)
    took, computed = found.step_ps, found.compute_ps
    lines = [
        (
            f"{subject.spec.model}, {subject.spec.mode}, {plural(step.ranks, 'rank')}: "
            f"a step takes {format_time(took)}"
        ),
        f"rank {found.rank} finishes last: computes {format_time(computed)} ({computed / took:.1%}),",
        f"  {_shares(found.sorts_ps, took)}",
        f"  communicates or waits for peers {format_time(took - computed)} ({1 - computed / took:.1%})",
    ]
    if found.sorts_ps.get("launches", 0) > computed / 10:
        lines.insert(3, "  limited by launches from the host; --launch graph makes a CUDA graph of them")
    if found.exposed_ps:
        lines.append(f"  {_shares(found.exposed_ps, took)}")
    lines += _inference(found)
    lines += [
        found.limited_by,
        f"{found.tokens_per_s:,.0f} {step.unit}/s, {found.tokens_per_s_per_gpu:,.0f} per GPU",
        f"{found.flops_per_s_per_gpu / 1e12:,.0f} TFLOP/s per GPU: "
        f"model FLOPs utilisation {found.mfu:.1%} of "
        f"{found.peak_flops:.4g} FLOP/s"
        + (f", {found.hfu:.1%} with recomputation" if found.hfu > found.mfu else ""),
    ]
    lines += _memory_lines(subject, step)
    if found.dollars_per_step is not None and found.dollars_per_million_tokens is not None:
        lines.append(
            f"${found.dollars_per_step:,.4g} a step, ${found.dollars_per_million_tokens:,.4g} "
            f"for a million {step.unit}"
        )
    lines += _bill_lines(_bill(subject), step.unit)
    return "\n".join([*lines, *(f"assumed: {line}" for line in cluster.assumed)])


def _inference(found: StepAccount) -> list[str]:
    """Write the figures of prefill or decoding."""
    if found.output_tokens_per_s is None:
        return []
    times = {"time to first token": found.ttft_ps, "time per output token": found.tpot_ps}
    listed = [f"{name} {format_time(took)}" for name, took in times.items() if took is not None]
    rates = found.output_tokens_per_s, found.output_tokens_per_s_per_gpu or 0.0
    rate, each = (f"{one:,.0f}" if one >= 1000 else f"{one:.4g}" for one in rates)
    return [f"{', '.join(listed)}: {rate} output tokens/s, {each} per GPU"]


def _memory_lines(subject: ReportedRun, step: Any) -> list[str]:
    """Write what the rank that needs most memory holds; with --memory-table that of every stage."""
    found = step.memory()
    if not found:
        return []
    limit, expanded = _limit_bytes(subject), _expanded_lines(step)
    if subject.outputs.memory_table:
        from astranb.workload.models import memory_lines

        return [
            f"memory of a rank at its fullest moment, GB of {limit / 1e9:.1f}:",
            *memory_lines(found, limit),
            *expanded,
        ]
    most = max(found, key=lambda one: one.total)
    parts = sorted(most.parts.items(), key=lambda one: -one[1])
    listed = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in parts if size >= 5e7)
    held = f"{most.total / 1e9:.1f} GB of {limit / 1e9:.1f}"
    return [f"memory of a rank of stage {most.stage}: {held} ({listed})", *expanded]


def _splits(step: Any) -> list[tuple[int, Any, Any]]:
    """Return the stages whose ranks use expanded memory, the times of their kernels, and what lies where."""
    each = [(stage, step.times_of(stage)) for stage in range(len(step.stages))]
    return [(stage, times, times.split) for stage, times in each if times is not None and times.split]


def _expanded_lines(step: Any) -> list[str]:
    """Write what of the rank that needs most lies in expanded memory, and what that costs."""
    if not (some := _splits(step)):
        return []
    _, times, split = max(some, key=lambda one: one[2].total_bytes)
    slower, peak = (rate / 1e12 for rate in (split.bandwidth_of(times.gpu.memory_Bps), times.gpu.memory_Bps))
    if split.memory.placement == "evenly":
        what = f"memory streams at {slower:.3g} TB/s instead of {peak:.3g}"
    else:
        parts = {name: part for name, part in split.fractions.items() if part}
        what = ", ".join(f"{name} {part:.0%}" for name, part in parts.items())
    return [
        f"{split.fraction:.0%} of a rank's {split.total_bytes / 1e9:.1f} GB lie in expanded memory; {what}"
    ]


def _expanded_document(step: Any) -> dict[str, Any]:
    """Return what of each stage's ranks lies in expanded memory, where it is described."""
    if step.times is None or step.times.expanded is None:
        return {}
    return {
        "expanded_memory": [
            {
                "stage": stage,
                "total_bytes": split.total_bytes,
                "expanded_bytes": split.expanded_bytes,
                "fractions": dict(split.fractions),
                "bandwidth_Bps": split.bandwidth_of(times.gpu.memory_Bps),
            }
            for stage, times, split in _splits(step)
        ]
    }


def _limit_bytes(subject: ReportedRun) -> int:
    """Return the memory of a GPU that the step is held against."""
    # Not that of the engine: its description of all operations would be made for it.
    footprint = subject.inputs.what.footprint
    if footprint is not None:
        return int(footprint.limit_bytes)
    step: Any = subject.inputs.step
    if subject.spec.memory_limit in (None, "none"):
        return int(step.times.memory_bytes)
    return memory_limit_of(subject.spec.memory_limit, step.times)


def _shares(parts: dict[str, int], whole: int) -> str:
    """Write the parts of a time and their shares of the whole."""
    return ", ".join(f"{name} {format_time(part)} ({part / whole:.1%})" for name, part in parts.items())


# Several jobs --------------------------------------------------------------------


def _jobs_alone(subject: ReportedRun) -> list[dict[str, Any]]:
    """Return a row for each job, which is run once more without the others."""
    sim: Any = subject.sim
    rows: list[dict[str, Any]] = sim.result.jobs(alone=True).to_dict("records")
    # A job that does nothing takes no time, and is not slower.
    return [{**row, "slowdown": row["slowdown"] if row["alone_ps"] else None} for row in rows]


def _jobs_document(subject: ReportedRun) -> dict[str, Any]:
    infra = subject.inputs.infra
    return {"jobs": _jobs_alone(subject), "varies": _varies(subject), "infra": infra and infra.name}


def _jobs_text(subject: ReportedRun) -> str:
    lines = [
        f"{row['job']}: {plural(row['ranks'], 'GPU')} ({row['gpus']}), "
        f"from {format_time(row['start_ps'])} to "
        f"{format_time(row['end_ps'])}: {format_time(row['duration_ps'])}, "
        f"{row['slowdown'] or 1:.3f} times as long as alone"
        for row in _jobs_alone(subject)
    ]
    varies = [f"varies: {one}" for one in [_varies(subject)] if one]
    return "\n".join([subject.sim.result.summary(), *lines, *varies])


def _varies(subject: ReportedRun) -> str | None:
    variation = getattr(subject.inputs.what, "variation", None)
    return None if variation is None else variation.text


# ASTRA-sim 1.0 -----------------------------------------------------------------

_CYCLES: Final = (
    "Total cycles spent on fwd pass compute",
    "Total cycles spent on weight grad compute",
    "Total cycles spent on input grad compute",
    "Total cycles spent idle waiting for fwd finish",
    "Total cycles spent idle waiting for weight grad finish",
    "Total cycles spent idle waiting for input grad finish",
    "Total cycles spent on fwd pass comm",
    "Total cycles spent on weight grad comm",
    "Total cycles spent on input grad comm",
)


def _layers_document(subject: ReportedRun) -> dict[str, Any]:
    from astranb.engine.layers import LAYER_COLUMNS

    run = _run_of(subject)
    result = run.result()
    return {
        "workload": subject.spec.workload,
        "compat": subject.spec.compat,
        "training_loop": run.inputs.table.loop,
        "npus": run.inputs.network.npus,
        "passes": len(result.pass_end_ps),
        "compute_ps": result.compute_ps,
        "exposed_comm_ps": result.exposed_comm_ps,
        "message_bytes": result.message_bytes,
        "message_bytes_per_dim": list(result.bytes_per_dim),
        "cost_dollars": result.cost_dollars,
        "pass_end_ps": list(result.pass_end_ps),
        "layers": [
            {"layer": name, **dict(zip(LAYER_COLUMNS, row, strict=True))}
            for name, row in zip(result.layer_names, result.layers.tolist(), strict=True)
        ],
        "dimensions": [
            {"chunks": chunks, "chunk_ps": round(took), "busy_ps": busy}
            for chunks, took, busy in zip(
                result.chunks_per_dim, result.chunk_ps_per_dim, result.busy_ps_per_dim, strict=True
            )
        ],
    }


def _layers_text(subject: ReportedRun) -> str:
    """Write ASTRA-sim 1.0's lines, and its tutorial's table."""
    from astranb.engine.layers import result_tables

    result = _run_of(subject).result()
    lines = [f"pass: {n} finished at time: {end // 1000}" for n, end in enumerate(result.pass_end_ps)]
    lines += [
        f"id: {layer} ,{label}: {value // 1000}"
        for layer, row in zip(result.layer_names, result.layers.tolist(), strict=True)
        for label, value in zip(_CYCLES, row, strict=True)
    ]
    first = result.layer_names[0]
    lines.append(f"all passes finished at time: {result.time_ns}, id of first layer: {first}")
    table = result_tables(result, subject.outputs.run_name)["tutorial_result.csv"]
    return "\n".join([*lines, *(",".join(cells) for _, cells in table)])


_Document = Callable[[ReportedRun], dict[str, Any]]
_Text = Callable[[ReportedRun], str]

_LINES_REPORT: Final[tuple[_Document, _Text]] = (_lines_document, _ranks_text)
_REPORTS: Final[dict[str, tuple[_Document, _Text]]] = {
    COLLECTIVE: (_collective_document, _collective_text),
    EXCHANGE: (_exchange_document, _collective_text),
    MODEL: (_model_document, _model_text),
    JOBS: (_jobs_document, _jobs_text),
    TRACES: (_traces_document, _ranks_text),
    LAYERS: (_layers_document, _layers_text),
}
