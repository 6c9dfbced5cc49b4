"""A workload of a corpus: the traces of all ranks, their groups, and what they are a step of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astranb.chakra.traces import Trace, read, read_ranks, write_ranks
from astranb.core.document import read_document
from astranb.core.errors import InputError

__all__ = ["CorpusJob", "read_corpus"]

_CONDITIONS = ("parameters", "batch", "tensor", "data", "pipeline")
_SUFFIX = ".job.json"


@dataclass(frozen=True)
class CorpusJob:
    """The traces of all ranks of one workload.

    Ranks are counted tensor group by tensor group, then replica by replica, then stage by stage.

    Parameters
    ----------
    traces : sequence of Trace
    groups : mapping of str to sequence of int
        The ranks of each process group; a group that is not named has all ranks.
    parameters, batch : float
        The size of the model, and what one step processes (in any unit that the corpus agrees on).
    tensor, data, pipeline : int
        Degrees of parallelism. Their product is the number of ranks.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.compute("forward", num_ops=1000, tensor_size=100)
    >>> CorpusJob([step.build()] * 2, data=2).ranks
    2
    """

    traces: Sequence[Trace]
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    parameters: float = 1.0
    batch: float = 1.0
    tensor: int = 1
    data: int = 1
    pipeline: int = 1

    def __post_init__(self) -> None:
        degrees = (self.tensor, self.data, self.pipeline)
        if min(degrees) < 1 or self.tensor * self.data * self.pipeline != self.ranks:
            what = f"{self.ranks} traces, but {' x '.join(map(str, degrees))} ranks (tensor, data, pipeline)"
            raise InputError(what, where="corpus", hint="their product is the number of ranks")
        if not (self.parameters > 0 and self.batch > 0):
            raise InputError(
                "parameters and batch must be greater than zero", where="corpus", hint="leave it out: 1"
            )

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.traces)

    @property
    def nodes(self) -> int:
        """Number of nodes of all traces together."""
        return sum(map(len, self.traces))

    def write(self, prefix: str | Path) -> list[Path]:
        """Write ``PREFIX.RANK.et``, ``PREFIX.groups.json`` and ``PREFIX.job.json`` (the conditions)."""
        groups = json.dumps({name: list(ranks) for name, ranks in self.groups.items()})
        conditions = json.dumps({name: getattr(self, name) for name in _CONDITIONS})
        return write_ranks(
            lambda rank: self.traces[rank].data,
            prefix,
            ranks=self.ranks,
            others={
                Path(f"{prefix}.groups.json"): groups.encode(),
                Path(f"{prefix}{_SUFFIX}"): conditions.encode(),
            },
        )


def read_corpus(*places: str | Path) -> list[CorpusJob]:
    """Read the workloads of folders, of prefixes of ``PREFIX.RANK.et``, or of one of these files.

    ``PREFIX.groups.json`` holds the groups. ``PREFIX.job.json`` holds the conditions by the names of the
    parameters of :class:`CorpusJob`; without a degree of parallelism every rank counts as a stage of its own.

    Raises
    ------
    InputError
        There is no trace, or a file cannot be read.
    """
    jobs: list[CorpusJob] = []
    for place in map(Path, places):
        if place.is_dir():
            files = sorted(place.glob("*.0.et")) + sorted(place.glob("*.0.et.gz"))
            if not files:
                raise InputError("no trace NAME.0.et", where=str(place), hint="give a folder of traces")
            jobs += [_read(one.with_name(one.name.rpartition(".0.et")[0])) for one in files]
        elif place.is_file():
            numbered = re.fullmatch(r"(.+)\.\d+\.et(\.gz)?", place.name)
            jobs.append(_read(place.with_name(numbered[1])) if numbered else CorpusJob([read(place)]))
        else:
            jobs.append(_read(place))
    return jobs


def _read(prefix: Path) -> CorpusJob:
    traces = read_ranks(prefix)
    groups, conditions = Path(f"{prefix}.groups.json"), Path(f"{prefix}{_SUFFIX}")
    members: dict[str, list[int]] = {}
    if groups.exists():
        document = read_document(groups)
        if not isinstance(document.value, dict):
            raise document.error("the groups must be an object", 'write it as {"1": [0, 1]}')
        for name in document.value:
            members[name] = [one.number(0, len(traces) - 1) for one in document.get(name).items()]
    sizes, degrees = {"parameters": 1.0, "batch": 1.0}, {"tensor": 1, "data": 1, "pipeline": 1}
    if conditions.exists():
        given = read_document(conditions)
        sizes = {name: given.get(name, one).real(1e-9, 1e18) for name, one in sizes.items()}
        degrees = {name: given.get(name, one).number(1, len(traces)) for name, one in degrees.items()}
    if not conditions.exists() or not any(name in given.value for name in degrees):
        degrees["pipeline"] = len(traces)
    return CorpusJob(
        traces, members, sizes["parameters"], sizes["batch"],
        degrees["tensor"], degrees["data"], degrees["pipeline"],
    )  # fmt: skip
