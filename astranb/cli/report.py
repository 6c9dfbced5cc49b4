"""What ``astranb run`` writes: files, and a report as text or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, Final

from astranb.core.units import format_time

from .inputs import Subject, table_row
from .printing import print_result
from .run_options import COLLECTIVE, LAYERS, MODEL, TRACES

__all__ = ["inspects", "print_report", "records", "write_files"]


def records(args: argparse.Namespace) -> bool:
    """Return whether a file is asked for that needs a recording; without one, simulation is faster."""
    return bool(args.html or args.perfetto)


def inspects(args: argparse.Namespace) -> bool:
    """Return whether more of a workload is asked for than its numbers."""
    return bool(records(args) or args.explain or args.frames or args.svg or args.save)


def write_files(subject: Subject) -> None:
    """Write the files that were asked for."""
    args = subject.args
    sim: Any = subject.sim
    if args.save:
        sim.save(args.save)
    if args.frames:
        sim.result.write_frames(args.frames)
    if args.perfetto:
        sim.result.to_perfetto(args.perfetto)
    if args.html or args.svg:
        from astranb.widgets.files import files_of

        files = files_of(sim)
        if args.html:
            files.to_html(args.html)
        if args.svg:
            files.to_svg(args.svg)
    if args.path:
        from astranb.engine.layers import write_tables

        row, rows = table_row(args)
        write_tables(sim.engine.run.result(), args.path, _run_name(subject), row=row, rows=rows)


def print_report(subject: Subject) -> int:
    """Print the results as JSON, as an explanation, or as text; returns exit code 0."""
    args = subject.args
    document, text = _LINES_REPORT if subject.by_lines else _REPORTS[subject.kind]
    if args.json:
        return print_result({**_common(subject), **document(subject)}, "", as_json=True)
    shown = subject.sim.result.explain() if args.explain else text(subject)
    return print_result(None, shown, as_json=False)


def _common(subject: Subject) -> dict[str, Any]:
    """Return what every report has."""
    return {
        "fidelity": subject.fidelity,
        "time_ps": max(row["end_ps"] for row in subject.per_rank),
        "events": subject.sim.events,
        "per_rank": _without_done(subject.per_rank),
        "breakdown": subject.sim.result.breakdown(),
    }


def _without_done(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "done"} for row in rows]


# A collective ------------------------------------------------------------------


def _collective_document(subject: Subject) -> dict[str, Any]:
    sim: Any = subject.sim
    collective: Any = subject.collective
    by_lines = subject.fidelity == "cacheline"
    return {
        "collective": collective.name,
        "algorithm": collective.algorithm_name,
        "protocol": collective.protocol if by_lines else None,
        "size_bytes": collective.size,
        "algbw_GBps": sim.result.algbw_Bps / 1e9,
        "busbw_GBps": sim.result.busbw_Bps / 1e9,
        **(_machine(sim) if by_lines else {"infra": subject.args.infra, "state_hash": sim.state_hash()}),
    }


def _collective_text(subject: Subject) -> str:
    return subject.sim.result.summary()


def _machine(sim: Any) -> dict[str, Any]:
    """Return what the cache-line machine adds."""
    return {
        "infra": sim.engine.infra.name,
        "line_hops": int(sim.engine.machine.clock[0].hops),
        "assumed": sim.engine.assumed,
        "state_hash": sim.state_hash(),
    }


# A workload by cache lines -----------------------------------------------------


def _lines_rows(subject: Subject) -> list[dict[str, int]]:
    sim: Any = subject.sim
    ends, computed = sim.engine.machine.gpus["ended_ps"].tolist(), sim.engine.work.compute_ps().tolist()
    return [
        {"rank": rank, "end_ps": end, "exposed_comm_ps": end - compute, "compute_ps": compute}
        for rank, (end, compute) in enumerate(zip(ends, computed, strict=True))
    ]


def _lines_document(subject: Subject) -> dict[str, Any]:
    sim: Any = subject.sim
    return {
        "workload": subject.args.workload or subject.args.model,
        "compat": subject.args.compat,
        "gpu": sim.engine.presets[0].name,
        "per_rank": _lines_rows(subject),
        **_machine(sim),
    }


def _lines_text(subject: Subject) -> str:
    rows = _lines_rows(subject)
    return _astrasim_lines((row["end_ps"] // 1000, row["exposed_comm_ps"] // 1000) for row in rows)


def _astrasim_lines(rows: Iterable[tuple[int, int]]) -> str:
    """Write ASTRA-sim 2.0's lines."""
    return "\n".join(
        f"sys[{rank}] finished, {end} cycles, exposed communication {exposed} cycles."
        for rank, (end, exposed) in enumerate(rows)
    )


# A model -----------------------------------------------------------------------


def _model_numbers(subject: Subject) -> dict[str, Any]:
    step: Any = subject.workload
    cluster: Any = subject.cluster
    simulated = _run_of(subject).result()
    last = int(simulated.end_ns.argmax())
    time_ps = int(simulated.end_ns[last]) * 1000
    seconds = time_ps / 1e12
    return {
        "time_ps": time_ps,
        "ranks": step.ranks,
        "operations": step.nodes,
        "last_rank": last,
        "compute_ps": int(simulated.compute_ns[last]) * 1000,
        f"{step.unit}_per_s": step.tokens / seconds,
        "model_flops": step.model_flops,
        "model_flops_utilisation": step.model_flops / (seconds * step.ranks * cluster.peak_flops),
        "messages": simulated.messages,
        "message_bytes": simulated.message_bytes,
        "assumed": cluster.assumed,
    }


def _model_document(subject: Subject) -> dict[str, Any]:
    numbers = _model_numbers(subject)
    row = subject.per_rank[numbers["last_rank"]]
    return {
        "model": subject.args.model,
        "mode": _mode(subject),
        "exposed_comm_ps": row["exposed_comm_ps"],
        "state_hash": _run_of(subject).digest(),
        **numbers,
    }


def _model_text(subject: Subject) -> str:
    step: Any = subject.workload
    cluster: Any = subject.cluster
    numbers = _model_numbers(subject)
    took, computed, rate = numbers["time_ps"], numbers["compute_ps"], numbers[f"{step.unit}_per_s"]
    what = f"{subject.args.model}, {_mode(subject)}, {step.ranks} ranks"
    part, utilisation = computed / took, numbers["model_flops_utilisation"]
    lines = [
        f"{what}: a step takes {format_time(took)}",
        f"rank {numbers['last_rank']} finishes last: computes {format_time(computed)} ({part:.1%}),",
        f"  communicates or waits for peers {format_time(took - computed)} ({1 - part:.1%})",
        f"{rate:,.0f} {step.unit}/s, {rate / step.ranks:,.0f} per rank",
        f"model FLOPs utilisation {utilisation:.1%} of {cluster.peak_flops:.4g} FLOP/s",
    ]
    return "\n".join([*lines, *(f"assumed: {line}" for line in cluster.assumed)])


def _mode(subject: Subject) -> str:
    return subject.args.mode or "training"


# ASTRA-sim 2.0 -----------------------------------------------------------------


def _run_of(subject: Subject) -> Any:
    """Return the engine's run of a workload."""
    sim: Any = subject.sim
    return sim.engine.run


def _traces_document(subject: Subject) -> dict[str, Any]:
    sim: Any = subject.sim
    run = _run_of(subject)
    simulated = run.result()
    rows = subject.per_rank
    if subject.args.compat:
        rows = [{**row, "exposed_comm_ps": row["astrasim_exposed_comm_ps"]} for row in rows]
    return {
        "workload": subject.args.workload,
        "compat": subject.args.compat,
        "messages": simulated.messages,
        "message_bytes": simulated.message_bytes,
        "cost_dollars": run.workload.network.cost_dollars(),
        "per_rank": _without_done(rows),
        **({"dimensions": sim.result.table("dimensions")} if inspects(subject.args) else {}),
        "state_hash": run.digest(),
    }


def _traces_text(subject: Subject) -> str:
    simulated = _run_of(subject).result()
    return _astrasim_lines(zip(simulated.end_ns.tolist(), simulated.exposed_comm_ns.tolist(), strict=True))


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


def _run_name(subject: Subject) -> str:
    return subject.args.run_name or "unnamed run"


def _layers_document(subject: Subject) -> dict[str, Any]:
    from astranb.engine.layers import LAYER_COLUMNS

    run = _run_of(subject)
    result = run.result()
    return {
        "workload": subject.args.workload,
        "compat": subject.args.compat,
        "training_loop": run.inputs.table.loop,
        "npus": run.inputs.network.npus,
        "passes": len(result.pass_end_ps),
        "time_ps": result.time_ps,
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
        "state_hash": run.digest(),
    }


def _layers_text(subject: Subject) -> str:
    """Write ASTRA-sim 1.0's lines, and its tutorial's table."""
    from astranb.engine.layers import result_tables

    result = _run_of(subject).result()
    lines = [f"pass: {n} finished at time: {end // 1000}" for n, end in enumerate(result.pass_end_ps)]
    lines += [
        f"id: {layer} ,{words}: {value // 1000}"
        for layer, row in zip(result.layer_names, result.layers.tolist(), strict=True)
        for words, value in zip(_CYCLES, row, strict=True)
    ]
    first = result.layer_names[0]
    lines.append(f"all passes finished at time: {result.time_ns}, id of first layer: {first}")
    table = result_tables(result, _run_name(subject))["tutorial_result.csv"]
    return "\n".join([*lines, *(",".join(cells) for _, cells in table)])


_Document = Callable[[Subject], dict[str, Any]]
_Text = Callable[[Subject], str]

_LINES_REPORT: Final[tuple[_Document, _Text]] = (_lines_document, _lines_text)
_REPORTS: Final[dict[str, tuple[_Document, _Text]]] = {
    COLLECTIVE: (_collective_document, _collective_text),
    MODEL: (_model_document, _model_text),
    TRACES: (_traces_document, _traces_text),
    LAYERS: (_layers_document, _layers_text),
}
