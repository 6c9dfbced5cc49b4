"""Logs of measured collectives: nccl-tests and rccl-tests (text and JSON) and NCCL Inspector.

The formats are those of nccl-tests' ``src/util.cu`` (@0fdb00a) and of NCCL's ``ext-profiler/inspector``
(@b27865c); older versions print fewer columns, which the head of a table names.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from astranb.core.document import DocumentNode, DocumentSource, contents
from astranb.core.errors import InputError, near

__all__ = ["CollectiveLog", "LogRow", "check_measured", "joined_logs", "read_log"]

_NAMES: Final = {
    "all_gather": "all_gather",
    "all_reduce": "all_reduce",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "gather": "gather",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "scatter": "scatter",
    "sendrecv": "send_recv",
}
"""The tests of nccl-tests, and what the collectives are called here."""
_BY_INSPECTOR: Final = {
    "AllGather": "all_gather",
    "AllReduce": "all_reduce",
    "AlltoAll": "all_to_all",
    "Broadcast": "broadcast",
    "Gather": "gather",
    "Reduce": "reduce",
    "ReduceScatter": "reduce_scatter",
    "Scatter": "scatter",
}
_OF_ONE_RANK: Final = ("all_gather", "reduce_scatter")
"""Collectives whose message size NCCL counts for one rank; nccl-tests prints that of all."""
_ROOTED: Final = ("broadcast", "gather", "reduce", "scatter")

_TEST: Final = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?\b")
_STARTS: Final = re.compile(r"Collective test starting:\s*(\S+)")
_OPTIONS: Final = re.compile(r"nThread\s+(\d+)\s+nGpus\s+(\d+)\s+minBytes\s+\d+")
_GRAPH: Final = re.compile(r"\bgraph:\s*(\d+)")
_RANK: Final = re.compile(
    r"Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+\S+\s+device\s+\d+\s+\[\S+\]\s*(.*)"
)
_FAILED: Final = re.compile(r"Test (?:NCCL|RCCL|CUDA|HIP)? ?failure|Out of bounds values\s*:\s*[1-9]")
_PREFIX: Final = re.compile(r"(?:\[\d+(?:,\d+)?\](?:<std(?:out|err)>)?:?)?\s*")
_MOST_US: Final = 1e9
_FAILED_HINT: Final = "measure again: times of failed iterations are not used"


@dataclass(frozen=True, slots=True)
class LogRow:
    """One measured collective.

    Attributes
    ----------
    collective : str
        As ``all_reduce``.
    size : int
        Bytes of the larger buffer of a rank, as nccl-tests prints it.
    root : int
        0 where the collective has none.
    time_us : float
        Of one iteration, out of place; in place where only that was measured.
    spread : float
        Standard deviation over iterations, relative; 0 if the log has only the mean.
    where : str
        File and line.
    """

    collective: str
    size: int
    root: int
    time_us: float
    spread: float
    where: str

    @property
    def key(self) -> tuple[str, int, int]:
        """Collective, size and root."""
        return self.collective, self.size, self.root


@dataclass(frozen=True, slots=True)
class CollectiveLog:
    """Collectives measured on one machine.

    Attributes
    ----------
    where : str
        The file, or the first of several.
    ranks : int
        0 if the log does not say.
    devices : tuple of str
        Names of the GPUs, each once.
    graph : bool
        Whether iterations were captured in a CUDA graph (``-G``).
    kernels : bool
        Whether times are of kernels alone, as NCCL Inspector measures, without their launch.
    rows : tuple of LogRow
        Ascending by collective, size and root, each once.
    """

    where: str
    ranks: int = 0
    devices: tuple[str, ...] = ()
    graph: bool = False
    kernels: bool = False
    rows: tuple[LogRow, ...] = ()

    @property
    def launch(self) -> str:
        """Launch mode of the iterations, as the option ``launch`` of a simulation."""
        return "none" if self.kernels else "graph" if self.graph else "stream"


def read_log(path: str | Path, *, collective: str | None = None) -> CollectiveLog:
    r"""Read a log of nccl-tests, rccl-tests or NCCL Inspector.

    Parameters
    ----------
    path : str or Path
    collective : str, optional
        What was measured, for a table that does not name its test.

    Raises
    ------
    InputError
        No table, half a table, failed iterations, or a test that has no counterpart here.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "log.txt"
    >>> head = "# size count type redop root time algbw busbw #wrong"
    >>> row = "1048576 262144 float sum -1 28.39 36.94 64.64 0"
    >>> _ = file.write_text("\n".join(["$ ./all_reduce_perf -b 1M -e 1M", head, row]))
    >>> row = read_log(file).rows[0]
    >>> row.collective, row.size, row.time_us
    ('all_reduce', 1048576, 28.39)
    """
    if collective is not None:
        check_measured(collective)
    text = contents(path).decode("utf-8", "replace")
    name = str(path)
    log = _of_json(text, name, collective) if text.lstrip()[:1] == "{" else _Text(name, collective).read(text)
    if not log.rows:
        hint = "give what nccl-tests prints (or writes with -J), or what NCCL Inspector writes"
        raise InputError("no table of measured times", where=name, hint=hint)
    return log


def check_measured(collective: str) -> None:
    """Check that a collective is one that nccl-tests measures.

    Raises
    ------
    InputError
        It is not.
    """
    if collective not in _NAMES.values():
        raise InputError(f"unknown collective {collective[:40]!r}", hint=near(collective, _NAMES.values()))


def joined_logs(logs: Sequence[CollectiveLog]) -> CollectiveLog:
    """Join logs of one machine; a row that several have gets the median.

    Raises
    ------
    InputError
        They are of different machines, or launched in different ways.
    """
    first = logs[0]
    for other in logs[1:]:
        if first.ranks and other.ranks and other.ranks != first.ranks:
            what = f"a log of {other.ranks} ranks, but {first.where} has {first.ranks}"
            raise InputError(what, where=other.where, hint="give logs of one machine")
        if (other.graph, other.kernels) != (first.graph, first.kernels):
            what = f"launched another way than {first.where}"
            raise InputError(what, where=other.where, hint="fit logs with and without -G apart")
    return replace(
        first,
        ranks=max(log.ranks for log in logs),
        devices=tuple(dict.fromkeys(name for log in logs for name in log.devices)),
        rows=_merged(row for log in logs for row in log.rows),
    )


def _merged(rows: Iterable[LogRow]) -> tuple[LogRow, ...]:
    """Return each collective, size and root once, with the median of its times."""
    by_key: dict[tuple[str, int, int], list[LogRow]] = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row)
    return tuple(
        replace(same[0], time_us=median(row.time_us for row in same), spread=max(row.spread for row in same))
        for _, same in sorted(by_key.items())
    )


def _collective_of(test: str, where: str) -> str:
    """Return the collective of a test, as ``./build/all_reduce_perf_mpi``."""
    found = _TEST.search(test.rpartition("/")[2])
    name = found[1] if found else test
    if name not in _NAMES:
        hint = f"these can be compared: {', '.join(f'{n}_perf' for n in _NAMES)}"
        raise InputError(f"{name[:40]}_perf has no counterpart here", where=where, hint=hint)
    return _NAMES[name]


@dataclass
class _Text:
    """Reads what nccl-tests prints; a file may hold the output of several tests."""

    name: str
    collective: str | None
    test: str = ""
    columns: list[str] = field(default_factory=list)
    ranks: int = 0
    devices: dict[str, None] = field(default_factory=dict)
    graph: bool = False
    rows: list[LogRow] = field(default_factory=list)

    def read(self, text: str) -> CollectiveLog:
        for number, line in enumerate(text.splitlines(), 1):
            self._line(_PREFIX.sub("", line, count=1).lstrip("# \t"), f"{self.name}:{number}")
        return CollectiveLog(self.name, self.ranks, tuple(self.devices), self.graph, rows=_merged(self.rows))

    def _line(self, line: str, where: str) -> None:
        if _FAILED.search(line):
            raise InputError(f"the test failed ({line.strip()[:80]})", where=where, hint=_FAILED_HINT)
        words = line.split()
        if found := _RANK.match(line):
            self.ranks = max(self.ranks, int(found[1]) + 1)
            self.devices[found[2].strip()] = None
        elif found := _OPTIONS.search(line):
            self.columns = []
            graph = _GRAPH.search(line)
            self.graph |= graph is not None and int(graph[1]) > 0
        elif found := _STARTS.search(line):
            self.test, self.columns = found[1], []
        elif {"size", "count", "busbw"} <= set(words):
            self.columns = words
        elif words[:1] and words[0].isdecimal() and self.columns:
            self._row(words, where)
        elif found := _TEST.search(line):  # the command that was typed
            word = next(word for word in words if found[0] in word)
            if _TEST.search(self.test) is None or _TEST.findall(self.test) != _TEST.findall(word):
                self.test, self.columns = word, []

    def _row(self, words: list[str], where: str) -> None:
        if len(words) > 1 and not words[1].isdecimal():
            return  # a message of the launcher
        first = next(i for i, name in enumerate(self.columns) if name in ("time", "cputime"))
        names = [name for name in self.columns[first:] if name != "timestamp"]
        if len(names) != len(self.columns) - first:
            words = words[: -2 * (len(self.columns) - first - len(names))]  # a date and a time of day
        left, values = words[: -len(names)], words[-len(names) :]
        if len(left) < 3 or not all(map(_is_value, values)):
            hint = "the output is cut off, or mixed with NCCL_DEBUG's; measure again without it"
            raise InputError("half a row of the table", where=where, hint=hint)
        wrong = [value for name, value in zip(names, values, strict=True) if name in ("#wrong", "error")]
        counted = [value for name, value in zip(names, values, strict=True) if name == "#wrong"]
        if any("*" in value for value in wrong) or any(_number(value) > 0 for value in counted):
            raise InputError(f"wrong results of {words[0]} bytes", where=where, hint=_FAILED_HINT)
        times = [_number(value) for name, value in zip(names, values, strict=True) if name.endswith("time")]
        time_us = next((time for time in times if time > 0), 0.0)
        size, last = int(words[0]), left[-1]
        if size == 0:
            return  # fewer elements than ranks
        if not 0 < time_us <= _MOST_US:
            raise InputError(f"no time of {size} bytes", where=where)
        collective = self.collective or _collective_of(self._test(where), where)
        root = int(last) if len(left) > 3 and re.fullmatch(r"\d{1,6}", last) else 0
        self.rows.append(LogRow(collective, size, root, time_us, self._spread(names, values), where))

    def _spread(self, names: list[str], values: list[str]) -> float:
        """Return the coefficient of variation that newer versions print for iterations."""
        return _number(values[names.index("i_cv%")]) / 100 if "i_cv%" in names else 0.0

    def _test(self, where: str) -> str:
        """Return the test that a table is of: from its log, else from the name of the file."""
        if self.test:
            return self.test
        file = Path(self.name).name
        for name in sorted(_NAMES, key=len, reverse=True):
            if name in file.lower():
                return name
        hint = "give --collective, or name the file after the test, as all_reduce.txt"
        raise InputError("the log does not say which collective it is of", where=where, hint=hint)


def _is_value(word: str) -> bool:
    return word == "N/A" or re.fullmatch(r"[\d.]+(?:e[+-]?\d+)?\*?", word) is not None


def _number(word: str) -> float:
    try:
        return float(word.rstrip("*"))
    except ValueError:
        return 0.0


def _of_json(text: str, name: str, collective: str | None) -> CollectiveLog:
    """Read the file of ``-J``, or the records of NCCL Inspector."""
    records = _records(text, name)
    if any("results" in record.value for record in records):
        return _of_tests(records[0], name, collective)
    return _of_inspector(records, name)


def _records(text: str, name: str) -> list[DocumentNode]:
    """Read the JSON objects of a file, one after another."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        where = f"{name}:{text.count(chr(10), 0, at) + 1}"
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            hint = "the test or the program has not ended"
            raise InputError("this JSON document is not whole", where=where, hint=hint) from None
        if not isinstance(value, dict):
            raise InputError("a JSON object is expected", where=where)
        found.append(DocumentNode(value, DocumentSource(where)))
        at = end
    return found


def _of_tests(root: DocumentNode, name: str, collective: str | None) -> CollectiveLog:
    """Read the file that nccl-tests writes with ``-J``."""
    args = root.get("args", []).items()
    test = args[0].text() if args else ""
    config = root.get("config", {})
    # A process has one entry in the list, for the first of its GPUs.
    devices = config.get("devices", []).items()
    per_process = config.get("nthreads", 1).number(1, 2**16) * config.get("ngpus", 1).number(1, 2**16)
    if root.get("out_of_bounds", {}).get("count", 0).value:
        raise InputError("the test found wrong results", where=name, hint=_FAILED_HINT)
    rows = []
    for result in root.get("results").items():
        chosen = collective or _collective_of(test or result.get("experiment_name", "").text(), name)
        row = _row_of_tests(result, chosen, name)
        rows += [row] if row.size else []
    return CollectiveLog(
        name,
        len(devices) * per_process,
        tuple(dict.fromkeys(device.get("device_info", "").text() for device in devices)),
        graph=config.get("graph", 0).number(0, 2**31) > 0,
        rows=_merged(rows),
    )


def _row_of_tests(result: DocumentNode, collective: str, name: str) -> LogRow:
    size = result.get("size").number(0, 2**50)
    time_us, spread = 0.0, 0.0
    for place in ("in_place", "out_of_place"):  # the latter wins
        if result.get(place, None).value is None:
            continue
        one = result.get(place)
        if one.get("nwrong", None).value:
            raise one.get("nwrong").error(f"wrong results of {size} bytes", _FAILED_HINT)
        time = one.get("time" if one.has("time") else "cpu_time")
        time_us = time.real(0, _MOST_US) or time_us
        if result.get(f"{place}_per_iter", None).value is not None and time.value:
            each = result.get(f"{place}_per_iter")
            times = [item.real(0, _MOST_US) for item in each.get("times_us").items()]
            if times:  # a median is not moved by the few slow iterations of a shared machine
                time_us, spread = median(times), each.get("cv_pct", 0.0).real(0, 1e6) / 100
    if size and not time_us:
        raise result.error(f"no time of {size} bytes")
    root = str(result.get("root", "-1").value).strip()
    rooted = collective in _ROOTED and root.isdecimal()
    return LogRow(collective, size, int(root) if rooted else 0, time_us, spread, name)


def _of_inspector(records: Sequence[DocumentNode], name: str) -> CollectiveLog:
    """Read records of NCCL Inspector: a collective takes as long as on its slowest rank."""
    slowest: dict[tuple[str, int, int], float] = defaultdict(float)
    ranks: set[int] = set()
    header: Any = {}
    for record in records:
        header = record.get("header").value if record.has("header") else header
        if not record.has("coll_perf"):
            continue  # messages between two ranks, and statistics
        one = record.get("coll_perf")
        about = DocumentNode(header, DocumentSource(record.file))
        count = about.get("n_ranks").number(1, 2**24)
        collective = _BY_INSPECTOR.get(one.get("coll").text())
        if collective is None:
            continue
        ranks.add(count)
        of_all = count if collective in _OF_ONE_RANK else 1
        size = one.get("coll_msg_size_bytes").number(0, 2**50) * of_all
        key = collective, size, one.get("coll_sn").number(0, 2**62)
        if size:
            slowest[key] = max(slowest[key], one.get("coll_exec_time_us").real(0, _MOST_US))
    if len(ranks) > 1:
        what = f"communicators of {', '.join(map(str, sorted(ranks)))} ranks"
        raise InputError(what, where=name, hint="give the records of one communicator")
    rows = [LogRow(kind, size, 0, time, 0.0, name) for (kind, size, _), time in slowest.items() if time > 0]
    by_size: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in rows:
        by_size[row.collective, row.size].append(row.time_us)
    spreads = {key: (max(t) - min(t)) / (2 * median(t)) for key, t in by_size.items()}
    merged = (replace(row, spread=spreads[row.collective, row.size]) for row in _merged(rows))
    return CollectiveLog(name, max(ranks, default=0), kernels=True, rows=tuple(merged))
