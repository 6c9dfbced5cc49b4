"""One point of a sweep: what it runs, what identifies it, and the row of its figures."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from glob import escape
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import yaml

from astranb.core.document import read_document
from astranb.core.errors import AstranbError, InputError, near
from astranb.core.version import __version__
from astranb.explore.runs import (
    FILE_WORDS,
    NETWORK_FIELDS,
    ModelRun,
    RunSpec,
    Subject,
    sharing_steps,
    spec_of,
    step_of,
    subject_of,
)

from .expressions import number_of

if TYPE_CHECKING:
    from astranb.sim import Simulation

__all__ = [
    "DONE",
    "ESTIMATE",
    "FAILED",
    "PROVE",
    "SweepPoint",
    "is_document_key",
    "is_parameter",
    "option_words",
    "run_points",
    "simulation_of_words",
]

ESTIMATE: Final = "estimate"
"""The fidelity of a step that is laid out in time, not simulated."""
PROVE: Final = "prove"
"""Given where the program of a point is verified before it is run: see :func:`astranb.explore.sweep`."""
DONE: Final = "done"
FAILED: Final = "failed"
Words = Mapping[str, Any]

_PARAMETER: Final = "params."
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]")


@dataclass(frozen=True)
class SweepPoint:
    """One point of a sweep.

    Attributes
    ----------
    axes : dict
        What the axes set, by name.
    words : dict
        All that is given, by name.
    """

    axes: Words
    words: Words = field(repr=False)

    def at(self, fidelity: str | None) -> dict[str, Any]:
        """Return what is given at a fidelity; None: its own."""
        return dict(self.words) if fidelity is None else {**self.words, "fidelity": fidelity}


def is_document_key(name: str) -> bool:
    """Return whether a name is a key in a file of ``run``, as ``system.preferred-dataset-splits``."""
    head, dot, _ = name.partition(".")
    return bool(dot) and head in FILE_WORDS


def is_parameter(name: str) -> bool:
    """Return whether a name is a parameter of an algorithm's function, as ``params.slices``."""
    return name.startswith(_PARAMETER)


def option_words(words: Words) -> dict[str, Any]:
    """Return what is given as options of ``run``: parameters of an algorithm are ``--param``.

    Examples
    --------
    >>> option_words({"size": "1 MiB", "params.slices": 8, "link[0].latency": "1 us"})
    {'size': '1 MiB', 'param': ['slices=8']}
    """
    options = {name: value for name, value in words.items() if not _is_path(name) and name != PROVE}
    params = [f"{name.removeprefix(_PARAMETER)}={words[name]}" for name in words if is_parameter(name)]
    return {**options, "param": [*options.get("param", ()), *params]} if params else options


def content_hash(words: Words) -> str:
    """Return the hash of all that decides the result; of files the contents count, not the names."""
    given = {name: _content(name, value) for name, value in sorted(words.items())}
    text = json.dumps([_program_hash(), given], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def description(words: Words) -> str:
    """Return what stands for all that a point simulates: points with other words may agree in it."""
    if words.get("fidelity") == ESTIMATE:
        return content_hash(words)
    try:
        subject = _subject(words)
    except AstranbError:
        return content_hash(words)
    made = {
        name: value
        for name, value in subject.sim.engine.inputs().named.items()
        if name.startswith("network ")
    }
    return repr((subject.sim.state_hash(), subject.sim.fidelity, made, subject.failures))


def model_words(words: Words) -> str:
    """Return what decides the step of a model: runs that agree in it share the step."""
    return repr([item for item in sorted(words.items()) if item[0].partition(".")[0] not in NETWORK_FIELDS])


def _content(name: str, value: Any) -> Any:
    """Return what stands for a value: of a file, a folder or a prefix of traces what they contain."""
    if not isinstance(value, str) or name == "name":
        return value
    file, _, function = value.partition(".py:")
    place = Path(f"{file}.py" if function else value)
    if name == "workload" and not place.is_file():
        found = sorted(place.parent.glob(f"{escape(place.name)}.*.et"))
        return [_file_hash(one) for one in found] or value
    if name not in FILE_WORDS and not function:
        return value
    try:
        if place.is_dir():
            return [
                [str(one.relative_to(place)), _file_hash(one)]
                for one in sorted(place.rglob("*"))
                if one.is_file()
            ]
        if place.is_file():
            return [function, place.suffix, _file_hash(place)]
    except OSError:
        pass
    return value


def _file_hash(file: Path) -> str:
    about = file.stat()
    return _hash_of_file(str(file), about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=4096)
def _hash_of_file(file: str, _changed_ns: int, _size: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


@lru_cache(maxsize=1)
def _program_hash() -> str:
    """Return the hash of astranb's version and of its files that simulate: checkouts change."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256(__version__.encode())
    for file in sorted(package.rglob("*.py")):
        if file.relative_to(package).parts[0] not in ("cli", "export", "widgets"):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _subject(words: Words, *, record: bool = False) -> Subject:
    """Make the simulation of a point, at its start but for its edits.

    Parameters
    ----------
    words : mapping
    record : bool
        Whether views will show it.

    Raises
    ------
    InputError
        The words do not fit together, or an input cannot be used.
    """
    with _spec(words) as spec:
        subject = subject_of(spec, record=record)
    for name, value in words.items():
        if _is_path(name) and not is_document_key(name) and not is_parameter(name):
            subject.sim.set(name, value)
    return subject


@contextmanager
def _spec(words: Words) -> Iterator[RunSpec]:
    """Yield the specification of a point; its files with other values exist in this context."""
    options = option_words(words)
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, value in words.items():
            if name.startswith("gpu.") and not Path(str(options.get("gpu", ""))).is_file():
                numbers[name.removeprefix("gpu.")] = number_of(value)
            elif is_document_key(name):
                _change(options, name, value, Path(folder))
        if numbers:
            preset = {} if options.get("gpu") is None else {"preset": options["gpu"]}
            options["gpu"] = preset | numbers
        yield spec_of(options)


def simulation_of_words(words: Words) -> Simulation:
    """Make the simulation of a point for the workbench: at its start, or where its links have failed."""
    subject = _subject(words, record=True)
    subject.run(to_end=False)
    return subject.sim


def _is_path(name: str) -> bool:
    """Return whether a name is a key of a file or a path of ``Simulation.set``, and no option."""
    return "." in name or "[" in name


def _change(options: dict[str, Any], name: str, value: Any, folder: Path) -> None:
    """Write the file of an option again with another value, and name it instead."""
    head, _, path = name.partition(".")
    file = options.get(head)
    if not isinstance(file, str) or not Path(file).is_file():
        hint = f"give {head} as a file of YAML or JSON"
        raise InputError(f"no file to change {path!r} in", where=name, hint=hint)
    document = read_document(file).value
    place, steps = document, _STEP.findall(path)
    for at, step in enumerate(steps):
        key: Any = int(step[1:-1]) if step.startswith("[") else step
        known = range(len(place)) if isinstance(place, list) else place
        if not isinstance(place, dict | list) or isinstance(key, int) != isinstance(place, list):
            raise InputError(f"{file} has nothing at {step!r}", where=name, hint="name a key of the file")
        if key not in known and (isinstance(place, list) or at < len(steps) - 1):
            hint = near(str(key), map(str, known))
            raise InputError(f"{file} has no {key!r}", where=name, hint=hint)
        if at == len(steps) - 1:
            place[key] = value
        else:
            place = place[key]
    changed = folder / f"{head}{Path(file).suffix}"
    text = json.dumps(document) if changed.suffix == ".json" else yaml.safe_dump(document)
    changed.write_text(text, encoding="utf-8")
    options[head] = str(changed)


def run_points(batch: Iterable[tuple[str, Words]]) -> list[dict[str, Any]]:
    """Run points, each to a row; what fails is a row with the error.

    Parameters
    ----------
    batch : iterable of (str, mapping)
        The hash of each point, and its words; each is taken when the one before has ended.
    """
    with sharing_steps():
        return [_row(digest, words) for digest, words in batch]


def _row(digest: str, words: Words) -> dict[str, Any]:
    began = perf_counter()
    row: dict[str, Any] = {"hash": digest, "status": DONE, "error": ""}
    try:
        row |= _figures(words, row)
    except Exception as error:  # noqa: BLE001 - a point must not end the sweep, whatever is wrong with it
        what = str(error) if isinstance(error, AstranbError) else f"{type(error).__name__}: {error}"
        row |= {"status": FAILED, "error": " ".join(what.split())[:500]}
    return {**row, "seconds": perf_counter() - began}


def _figures(words: Words, row: dict[str, Any]) -> dict[str, Any]:
    """Run one point and return its figures; what is known before it runs is put in its row first."""
    if words.get("fidelity") == ESTIMATE:
        return _estimated(words)
    subject = _subject(words)
    if words.get(PROVE):
        row |= _proof(subject)
    subject.run()
    return figures_of(subject)


def _proof(subject: Subject) -> dict[str, Any]:
    """Verify the program of a collective: whether it is correct, and its first fault."""
    from astranb.collectives import verify

    what, infra = subject.inputs.what, subject.inputs.infra
    if infra is None:
        raise InputError("only collectives are proved", where=PROVE, hint="leave it out")
    flaws = verify(what, infra)
    errors = [flaw for flaw in flaws if flaw.severity == "error"]
    return {"proved": not errors, "fault": " ".join(str(errors[0]).split())[:500] if errors else ""}


def figures_of(subject: Subject) -> dict[str, Any]:
    """Return the figures of a run that has ended, by name; units are in the names."""
    result = subject.sim.result
    found: dict[str, Any] = {
        "fidelity": subject.sim.fidelity,
        "time_ps": result.time_ps,
        "ranks": subject.sim.ranks,
        "events": subject.sim.events,
        "algbw_Bps": result.algbw_Bps,
        "busbw_Bps": result.busbw_Bps,
        **{f"{name}_fraction": share for name, share in result.breakdown().items()},
    }
    step, cluster = subject.inputs.step, subject.inputs.cluster
    if step is not None and cluster is not None:
        found |= {
            "step_ps": result.time_ps,
            "memory_bytes": max((one.total for one in step.memory()), default=None),
        }
        if not subject.by_lines:
            from astranb.explore.plans import WAITS, account

            figures = account(subject.sim, step, peak_flops=cluster.peak_flops, price=subject.spec.price)
            waits = {f"exposed_{name}_ps": figures.exposed_ps.get(name, 0) for name in WAITS}
            found |= {**_scalars(figures.document()), **waits, "limit": figures.limit}
            found["exposed_ps"] = sum(figures.exposed_ps.values())
    return {name: value for name, value in found.items() if value is not None}


def _scalars(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if isinstance(value, str | int | float)}


def _estimated(words: Words) -> dict[str, Any]:
    """Estimate the step of a transformer; simulates nothing but single collectives."""
    from astranb.explore.algorithms import times_on
    from astranb.explore.plans import estimate_step

    what, hint = "only training steps of transformers are estimated", "use analytical"
    if "model" not in words:
        raise InputError(what, where="fidelity", hint=hint)
    for name in words:
        if _is_path(name) and not is_document_key(name):
            raise InputError(
                f"{name} is changed in a simulation, which an estimate is not", where=name, hint=hint
            )
    with _spec({**words, "fidelity": "analytical"}) as spec:
        assert isinstance(spec, ModelRun)  # noqa: S101 - it has a model
        step, cluster = step_of(spec)
    if step.plan is None or step.times is None or step.plan[1].mode != "training":
        raise InputError(what, where="fidelity", hint=hint)
    model, job = step.plan
    found = estimate_step(model, job, step.times, times_on(cluster.network, cluster.system))
    return {
        "fidelity": ESTIMATE,
        "time_ps": found.step_ns * 1000,
        "step_ps": found.step_ns * 1000,
        "ranks": step.ranks,
        "memory_bytes": max(one.total for one in step.memory()),
        "compute_ps": found.compute_ns * 1000,
        "exposed_ps": (found.exposed_ns + found.bubble_ns) * 1000,
        "exposed_bubble_ps": found.bubble_ns * 1000,
        "ends_ps": found.ends_ns * 1000,
        "limit": found.limit,
        "tokens_per_s": job.new_tokens / (found.step_ns / 1e9),
    }
