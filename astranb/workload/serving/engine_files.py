"""Serving engines as data: policy of the scheduler and time of the host, each number with its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from astranb.hardware import (
    Provenance,
    check_ranges,
    device_file,
    device_names,
    is_file_name,
    number_field,
    read_device_file,
    text_field,
)

from .policy import ServingPolicy

__all__ = ["ENGINES", "EngineHost", "EngineScheduler", "ServingEngine", "engine_named"]

ENGINES: Final = device_names("engines")
"""Names of the engines of this package."""

_SWITCHES: Final = ("chunked_prefill", "mixed_batches", "reserve_output", "overlap", "fraction_of_rest")


@dataclass(frozen=True)
class EngineScheduler:
    """Defaults of an engine's scheduler, as for :class:`ServingPolicy`; switches are 0 or 1.

    Parameters
    ----------
    token_budgets : tuple of (bytes, tokens)
        Tokens of an iteration, from which memory of a GPU on.
    cache_bytes : tuple of (bytes, bytes)
        Bytes of a number of keys and values, from which memory of a GPU on.
    receive_every : tuple of (bytes, requests, iterations)
        Iterations between two looks at new requests, from which memory of a GPU and how many requests on.
    text : str
        What the engine does, in a line.
    """

    token_budgets: tuple[tuple[float, float], ...] = number_field(0, 2**50, columns=2)
    max_batch: int = number_field(1, 1 << 20)
    block_size: int = number_field(1, 1 << 16)
    chunked_prefill: int = number_field(0, 1)
    mixed_batches: int = number_field(0, 1)
    reserve_output: int = number_field(0, 1)
    overlap: int = number_field(0, 1)
    watermark: float = number_field(0, 0.5, whole=False)
    memory_fraction: float = number_field(0.05, 1, whole=False)
    fraction_of_rest: int = number_field(0, 1)
    cache_bytes: tuple[tuple[float, float], ...] = number_field(0, 2**50, columns=2)
    graph_batch: int = number_field(0, 1 << 20)
    receive_every: tuple[tuple[float, float, float], ...] = number_field(0, 2**50, columns=3)
    text: str = text_field("")

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges(self, "scheduler of an engine")


@dataclass(frozen=True)
class EngineHost:
    """Times of an engine's host, as for :class:`ServingPolicy`, and whose kernels were measured.

    Parameters
    ----------
    layer_ns : tuple of (bytes, requests, ns)
        To launch a layer with latent attention outside of graphs, from which memory of a GPU and how many
        requests on.
    """

    host_ns: int = number_field(0, 10**9)
    hidden_ns: int = number_field(0, 10**9)
    front_ns: int = number_field(0, 10**10)
    layer_ns: tuple[tuple[float, float, float], ...] = number_field(0, 2**50, columns=3)
    kernels: str = text_field("")

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges(self, "host of an engine")


@dataclass(frozen=True)
class ServingEngine:
    """An engine as its file describes it.

    Attributes
    ----------
    name : str
    scheduler : EngineScheduler
    host : EngineHost
    sources : mapping of str to Provenance
        Kind and source of each number, by its name.
    """

    name: str
    scheduler: EngineScheduler
    host: EngineHost
    sources: Mapping[str, Provenance]

    def cache_bytes(self, memory_bytes: int) -> int:
        """Return the bytes of a number of keys and values on GPUs with some memory.

        Examples
        --------
        >>> [engine_named("vllm").cache_bytes(size << 30) for size in (80, 180)]
        [2, 1]
        """
        return _from(self.scheduler.cache_bytes, memory_bytes)

    def policy(self, memory_bytes: int, **changes: Any) -> ServingPolicy:
        """Return the engine's policy on GPUs with some memory.

        Parameters
        ----------
        memory_bytes : int
            Of a GPU: it decides the token budget.
        **changes
            Fields of the policy that are others than the engine's defaults.

        Raises
        ------
        InputError
            The values do not fit together.

        Examples
        --------
        >>> vllm = engine_named("vllm").policy(80 << 30, max_batch=64)
        >>> vllm.token_budget, vllm.max_batch, vllm.overlap, vllm.mixes
        (8192, 64, True, True)
        """
        own = asdict(self.scheduler)

        fields: dict[str, Any] = {"token_budget": _from(own.pop("token_budgets"), memory_bytes)}
        own.pop("cache_bytes")
        own.pop("text")
        fields |= {name: bool(value) if name in _SWITCHES else value for name, value in own.items()}
        host = asdict(self.host)
        fields["kernels"] = host.pop("kernels")
        for name, rows in (("receive_every", own["receive_every"]), ("layer_ns", host.pop("layer_ns"))):
            known = [row for row in rows if row[0] <= memory_bytes]
            largest = max((row[0] for row in known), default=0)
            steps = [(round(least), round(value)) for size, least, value in known if size == largest]
            fields[name] = tuple(sorted(steps))
        fields |= {name: round(value) for name, value in host.items()}
        return ServingPolicy(**{**fields, "engine": self.name, **changes})


def _from(rows: Iterable[tuple[float, float]], memory_bytes: int) -> int:
    """Return the value of the last row whose memory a GPU has."""
    return int(max(row for row in rows if row[0] <= memory_bytes)[1])


def engine_named(name: str | Path) -> ServingEngine:
    """Return an engine by its name, or read it from a file of JSON or YAML.

    Raises
    ------
    InputError
        The name is unknown (all known ones are listed), or the file is not an engine's.

    Examples
    --------
    >>> ENGINES
    ('sglang', 'trtllm', 'vllm')
    >>> engine_named("sglang").scheduler.text
    'SGLang: parts of prompts in iterations of their own, before decoding'
    """
    return _read(Path(name)) if is_file_name(name) else _shipped(str(name))


@cache
def _shipped(name: str) -> ServingEngine:
    return _read(device_file("engines", name))


def _read(path: Path) -> ServingEngine:
    file = read_device_file(path, "engines", {"scheduler": EngineScheduler, "host": EngineHost}, {})
    sources = {name: one for given in file.sections.values() for name, one in given.origins.items()}
    scheduler, host = file.make("scheduler", EngineScheduler), file.make("host", EngineHost)
    return ServingEngine(file.name, scheduler, host, sources)
