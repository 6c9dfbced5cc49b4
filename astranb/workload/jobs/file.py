"""A file that describes several jobs: where each runs, from when on, and what varies from run to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from astranb.collectives import Collective
from astranb.core.document import DocumentNode, read_document
from astranb.core.errors import InputError, near
from astranb.workload.astrasim2 import load
from astranb.workload.models import Parallelism, workload

from .job import ClusterJob
from .join import Jobs
from .variation import Failures, Jitter, Stragglers, Variation

__all__ = ["JobsFile", "read_jobs"]

_MOST_BYTES: Final = 1 << 20
_PLACE: Final = ("name", "ranks", "gpus", "start", "seed", "repeat")
_PLAN: Final = {
    "dp": "data", "tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert", "sp": "sequence",
    "zero": "zero", "interleave": "interleave",
}  # fmt: skip
_STEP: Final = {
    "batch": "batch", "microbatches": "microbatches", "seq": "sequence", "mode": "mode", "tokens": "tokens",
    "precision": "precision", "recompute": "recompute",
}  # fmt: skip
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("plan", *_STEP),
    "collective": ("size", "algorithm", "root"),
    "workload": ("system", "network", "groups"),
    "pattern": (),
    "background": (),
}
"""Key that chooses the kind of a job, and the other keys of such a job."""
_BACKGROUND: Final = ("load", "size", "pattern", "until", "seed")
_VARIATION: Final[Mapping[str, Callable[..., Any]]] = {
    "jitter": Jitter, "stragglers": Stragglers, "failures": Failures,
}  # fmt: skip
_T = TypeVar("_T")


@dataclass(frozen=True)
class JobsFile:
    """Content of a file of jobs.

    Attributes
    ----------
    jobs : Jobs
    infra : str, optional
        The infrastructure: a blueprint, or a file.
    variation : Variation, optional
    """

    jobs: Jobs
    infra: str | None = None
    variation: Variation | None = None


def read_jobs(path: str | Path, read_pattern: Callable[[str], Any] | None = None) -> JobsFile:
    """Read jobs from a YAML or JSON file.

    At the top are ``infra``, ``jobs`` and ``variation``. A job is one of

    - ``model`` with ``plan`` (``dp``, ``tp``, ``pp``, ``cp``, ``ep``, ``sp``, ``zero``, ``interleave``),
      ``batch``, ``microbatches``, ``seq``, ``mode``, ``tokens``, ``precision`` and ``recompute``,
    - ``collective`` with ``size``, ``algorithm`` and ``root``,
    - ``workload``, the prefix of ASTRA-sim 2.0's traces, with ``system``, ``network`` and ``groups``,
    - ``pattern``, a file of recorded traffic,
    - ``background`` with ``load``, ``size``, ``pattern``, ``until`` and ``seed``,

    and each has ``name``, ``ranks`` (a placement, a list, or as ``0-7,16-23``), ``gpus``, ``start``, ``seed``
    and ``repeat`` as :class:`ClusterJob` describes them. ``variation`` has ``seed``, ``jitter``,
    ``stragglers`` and ``failures`` with the fields of :class:`Variation`.

    Parameters
    ----------
    path : str or Path
    read_pattern : callable, optional
        Reads a file of recorded traffic, as :func:`astranb.traffic.read_pattern`.

    Raises
    ------
    InputError
        It cannot be read, or a key or value is not valid; the text names the line.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "jobs.yaml"
    >>> _ = file.write_text(
    ...     "jobs: [{collective: all_reduce, size: 1 MiB, ranks: 0-3}, {model: gpt3-125m, plan: {dp: 2}}]"
    ... )
    >>> [one.count for one in read_jobs(file).jobs.jobs]
    [4, 2]
    """
    document = read_document(path, _MOST_BYTES)
    _check_keys(document, ("infra", "jobs", "variation"))
    jobs = [_job(one, read_pattern) for one in document.get("jobs").items()]
    infra = document.get("infra").text() if document.has("infra") else None
    variation = _variation(document.get("variation")) if document.has("variation") else None
    return JobsFile(_at(document.get("jobs"), lambda: Jobs(jobs)), infra, variation)


def _job(node: DocumentNode, read_pattern: Callable[[str], Any] | None) -> ClusterJob:
    kinds = [kind for kind in _KINDS if node.has(kind)]
    if len(kinds) != 1:
        named = " and ".join(kinds) if kinds else "none of them"
        raise node.error(f"a job is one of {', '.join(_KINDS)}, this has {named}", "give one")
    kind = kinds[0]
    _check_keys(node, (kind, *_KINDS[kind], *_PLACE))
    placed = {name: node.get(name).value for name in _PLACE if node.has(name)}
    if isinstance(placed.get("ranks"), str):
        placed["ranks"] = _ranks(node.get("ranks"))
    for name in ("gpus", "seed", "repeat"):
        if name in placed:
            placed[name] = node.get(name).number(0, 1 << 40)
    if "name" in placed:
        placed["name"] = node.get("name").text()
    if kind == "background":
        own = node.get(kind)
        _check_keys(own, _BACKGROUND)
        values = {name: own.get(name).value for name in _BACKGROUND if own.has(name)}
        values |= {"load": own.get("load").real(0, 1), "until": own.get("until").value}
        if own.has("seed"):
            values["seed"] = own.get("seed").number(0, 1 << 40)
        if "seed" in placed or "repeat" in placed:
            raise node.error("seed and repeat do not apply here", "seed is one of background's own")
        return _at(node, lambda: ClusterJob.background(**values, **placed))
    makers = {"model": _model, "collective": _collective, "workload": _traces}
    if kind == "pattern":
        if read_pattern is None:
            raise node.error("recorded traffic cannot be read here", "give read_pattern=")
        name = node.get(kind).text()
        return _at(node, lambda: ClusterJob(read_pattern(name), **placed))
    return _at(node, lambda: ClusterJob(makers[kind](node), **placed))


def _model(node: DocumentNode) -> Any:
    degrees: dict[str, Any] = {}
    if node.has("plan"):
        plan = node.get("plan")
        _check_keys(plan, tuple(_PLAN))
        for key, name in _PLAN.items():
            if plan.has(key):
                one = plan.get(key)
                degrees[name] = one.truth() if key == "sp" else one.number(0 if key == "zero" else 1, 1 << 20)
    numbers: dict[str, Any] = {}
    for key, name in _STEP.items():
        if node.has(key):
            one = node.get(key)
            is_text = key in ("mode", "precision", "recompute")
            numbers[name] = one.text() if is_text else one.number(1, 1 << 24)
    return workload(node.get("model").text(), Parallelism(**degrees), **numbers)


def _collective(node: DocumentNode) -> Collective:
    root = node.get("root").number(0, 1 << 20) if node.has("root") else 0
    algorithm = node.get("algorithm").text() if node.has("algorithm") else None
    return Collective.of(node.get("collective").text(), node.get("size").value, algorithm, root=root)


def _traces(node: DocumentNode) -> Any:
    groups = node.get("groups").text() if node.has("groups") else None
    files = (node.get(name).text() for name in ("workload", "system", "network"))
    return load(*files, groups=groups)


def _variation(node: DocumentNode) -> Variation:
    _check_keys(node, ("seed", *_VARIATION))
    parts = {}
    for name, kind in _VARIATION.items():
        if node.has(name):
            own = node.get(name)
            _check_keys(own, tuple(kind.__annotations__))
            parts[name] = _at(own, partial(kind, **own.value))
    seed = node.get("seed").number(0, 1 << 62) if node.has("seed") else 0
    return _at(node, lambda: Variation(seed, **parts))


def _ranks(node: DocumentNode) -> str | list[int]:
    """Read ``0-7,16`` as ranks; other text is a placement."""
    text = node.text()
    if not text[:1].isdigit():
        return text
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isascii() and first.isdecimal() and last.isascii() and last.isdecimal()):
            raise node.error(f"{part[:40]!r} is not a range of ranks", "write 0-7,16")
        if int(last) - int(first) >= 1 << 24 or int(last) < int(first):
            raise node.error(f"{part[:40]!r} is not a range of ranks", "write the smaller number first")
        found += range(int(first), int(last) + 1)
    return found


def _check_keys(node: DocumentNode, known: tuple[str, ...]) -> None:
    if not isinstance(node.value, dict):
        raise node.error(f"a mapping is expected, not {node.brief}", f"it has {', '.join(known)}")
    for key in node.value:
        if key not in known:
            raise node.get(key).error(f"unknown key {str(key)[:60]!r}", near(str(key), known))


def _at(node: DocumentNode, make: Callable[[], _T]) -> _T:
    """Make something; an error names the place in the file."""
    try:
        return make()
    except InputError as error:
        if node.file in error.where:
            raise
        where = f" ({error.where})" if error.where else ""
        raise node.error(f"{error.what}{where}", error.hint) from None
    except TypeError as error:
        raise node.error(f"a value has another type: {str(error)[:100]}", "see read_jobs") from None
