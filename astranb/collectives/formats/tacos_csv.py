"""Schedules of TACOS: CSV in which every link lists the chunks that it carries, in order.

The lines are those that TACOS's ``src/writer/csv_writer.cpp`` writes (github.com/astra-sim/tacos, up to
v1.0): counts, a heading, and a row for each link with the numbers of its chunks. Tools that build on TACOS
add times to each (``chunk:time:time``), and further counts. As in TACOS's ``AllGather``, chunk ``c`` is
contributed by rank ``c mod N``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from astranb.collectives.language import Chunk, Origin
from astranb.core.document import contents
from astranb.core.errors import InputError
from astranb.core.number_files import whole
from astranb.core.plural import plural
from astranb.core.units import format_time

from .plan import MOST_CHUNKS, Flag, Plan, PlanBlock, PlanStep

__all__ = ["read_tacos"]

_COUNTS: Final = ("NPUs Count", "Links Count", "Chunks Count", "Chunk Size")
_HEADING: Final = "SrcID"
_MOST_SENDS: Final = 1_000_000
_BEFORE: Final = 4
"""Columns of a link's row before its chunks: both ends, latency and bandwidth."""


@dataclass(frozen=True, slots=True)
class _Send:
    """A chunk that a link carries: its number, and which of the link's it is by time or place."""

    chunk: int
    order: float
    line: int


def read_tacos(path: str | Path, data: bytes | None = None) -> Plan:
    """Read a schedule of TACOS, as :func:`read_algorithm`; ``data`` are its contents if read already.

    It is an all-gather: each link is a thread block that stores chunks into the output of the rank at its
    other end, one after the other, each when its own rank has it.
    """
    text = (contents(path) if data is None else data).decode("utf-8", "replace").removeprefix("\ufeff")
    return _TacosReader(str(path), text).read()


class _TacosReader:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]

    def read(self) -> Plan:
        heading = next((n for n, row in enumerate(self.lines) if row[0] == _HEADING), None)
        if heading is None:
            raise InputError("no line begins with SrcID", where=self.path, hint="give a CSV of TACOS")
        found = {row[0]: (number, row) for number, row in enumerate(self.lines[:heading], 1)}
        self.ranks, self.links, self.chunks = (self._count(found, name) for name in _COUNTS[:3])
        if self.chunks % self.ranks:
            number = found["Chunks Count"][0]
            raise self.error(number, f"{self.chunks} chunks of {self.ranks} ranks", "each has equally many")
        self.sends = self._read_links(heading + 1)
        if len(self.sends) != self.links:
            number = found["Links Count"][0]
            raise self.error(number, f"Links Count is {self.links}, but {len(self.sends)} links follow", "")
        return self._plan(found)

    def error(self, number: int, what: str, hint: str) -> InputError:
        return InputError(what, where=f"{self.path}, line {number}", hint=hint)

    def _count(self, found: dict[str, tuple[int, list[str]]], name: str) -> int:
        if name not in found:
            raise InputError(f"{name} is missing", where=self.path, hint=f"write a line {name},N")
        number, row = found[name]
        return self._number(number, row[1] if len(row) > 1 else "", name, 1, MOST_CHUNKS)

    def _number(self, line: int, text: str, what: str, low: int, high: int) -> int:
        return whole(text, low, high, what=what, where=f"{self.path}, line {line}")

    def _read_links(self, first: int) -> dict[tuple[int, int], list[_Send]]:
        """Read the links, each with its chunks in the order in which it carries them."""
        found: dict[tuple[int, int], list[_Send]] = {}
        count = 0
        for number, row in enumerate(self.lines[first:], first + 1):
            if row == [""]:
                continue
            if len(row) < _BEFORE:
                raise self.error(number, "no link", "write SrcID,DestID,latency,bandwidth and its chunks")
            source, target = (
                self._number(number, row[at], name, 0, self.ranks - 1)
                for at, name in enumerate(("SrcID", "DestID"))
            )
            if source == target or (source, target) in found:
                raise self.error(
                    number, f"duplicate link {source} to {target}, or a link to itself", "leave it out"
                )
            cells = [cell for cell in row[_BEFORE:] if cell not in ("", "None")]
            sends = [self._send(number, cell, at) for at, cell in enumerate(cells)]
            count += len(sends)
            if count > _MOST_SENDS:
                raise self.error(number, f"more than {_MOST_SENDS} chunks are sent", "use fewer chunks")
            found[source, target] = sorted(sends, key=lambda send: send.order)
        return found

    def _send(self, line: int, cell: str, place: int) -> _Send:
        name, *times = cell.split(":")
        chunk = self._number(line, name, "a chunk", 0, self.chunks - 1)
        try:
            order = min(map(float, times), default=float(place))
        except ValueError:
            raise self.error(line, f"{cell[:40]!r} has no times", "write chunk:start:end") from None
        return _Send(chunk, order, line)

    def _plan(self, found: dict[str, tuple[int, list[str]]]) -> Plan:
        each = self.chunks // self.ranks
        plan = Plan(Path(self.path).stem[:200] or "tacos", "all_gather", self.ranks, each, self.chunks)
        plan.notes += self._expected(found)
        arrives = self._arrivals(plan)
        consumers: dict[tuple[int, int], list[Flag]] = {}  # who waits for a chunk on a rank
        for link, sends in self.sends.items():
            for send in sends:
                if arrives.get((link[1], send.chunk)) == link and send.chunk % self.ranks != link[0]:
                    flag = Flag(link[0], ("chunk", send.chunk, link[1]))
                    consumers.setdefault((link[0], send.chunk), []).append(flag)
        for rank in range(self.ranks):
            block = PlanBlock(rank)
            for k in range(each):
                own = k * self.ranks + rank
                block.steps.append(PlanStep("move", (self._input(rank, own),), (self._output(rank, own),)))
            for chunk in range(self.chunks):
                if chunk % self.ranks != rank and (rank, chunk) not in consumers:
                    flag = Flag(rank, ("chunk", chunk, rank))
                    consumers[rank, chunk] = [flag]
                    block.steps.append(PlanStep("wait", flags=(flag,), value=1))
            plan.blocks.append(block)
        for link, sends in self.sends.items():
            block = PlanBlock(link[0])
            for number, send in enumerate(sends):
                if arrives.get((link[1], send.chunk)) != link:
                    continue
                source, target = link
                own = send.chunk % self.ranks == source
                first = len(block.steps)
                if not own:
                    flag = Flag(source, ("chunk", send.chunk, target))
                    block.steps.append(PlanStep("wait", flags=(flag,), value=1))
                read = (self._input if own else self._output)(source, send.chunk)
                block.steps.append(PlanStep("move", (read,), (self._output(target, send.chunk),)))
                flags = tuple(consumers[target, send.chunk])
                block.steps.append(PlanStep("signal", flags=flags, value=1))
                block.name_steps(first, Origin(len(plan.blocks), number, f"link {source} to {target}"))
            if block.steps:
                plan.blocks.append(block)
        return plan

    def _expected(self, found: dict[str, tuple[int, list[str]]]) -> list[str]:
        """Return a note of the time that the file expects, if it has one."""
        number, row = found.get("Collective Time", (0, []))
        units = {"ps": 1, "ns": 1000, "us": 1_000_000}
        if len(row) < 3 or row[2] not in units:
            return []
        try:
            time_ps = round(float(row[1]) * units[row[2]])
        except (ValueError, OverflowError):
            raise self.error(number, f"Collective Time is {row[1][:40]!r}", "give a number") from None
        size = " ".join(found["Chunk Size"][1][1:]) if "Chunk Size" in found else "unknown size"
        return [f"the file expects {format_time(time_ps)} on its own links, with chunks of {size}"]

    def _arrivals(self, plan: Plan) -> dict[tuple[int, int], tuple[int, int]]:
        """Find the link by which each chunk comes to each rank first; check that all come."""
        at = dict.fromkeys(self.sends, 0)
        here = {(chunk % self.ranks, chunk) for chunk in range(self.chunks)}
        came: dict[tuple[int, int], tuple[int, int]] = {}
        moved, again = True, 0
        while moved:
            moved = False
            for link, sends in self.sends.items():
                while at[link] < len(sends) and (link[0], sends[at[link]].chunk) in here:
                    key = link[1], sends[at[link]].chunk
                    again += key in here
                    if key not in here:
                        here.add(key)
                        came[key] = link
                    at[link] += 1
                    moved = True
        for link, sends in self.sends.items():
            if at[link] < len(sends):
                send = sends[at[link]]
                what = f"rank {link[0]} sends chunk {send.chunk}, which never comes to it"
                raise self.error(send.line, what, "send it there before")
        missing = next(
            ((r, c) for r in range(self.ranks) for c in range(self.chunks) if (r, c) not in here), None
        )
        if missing is not None:
            what = f"chunk {missing[1]} never comes to rank {missing[0]}"
            raise InputError(what, where=self.path, hint="an all-gather brings every chunk to every rank")
        if again:
            plan.notes.append(f"left out: {plural(again, 'chunk')} that the rank has already")
        return came

    def _place(self, chunk: int) -> int:
        """Return the index of a chunk in the output: rank by rank."""
        return chunk % self.ranks * (self.chunks // self.ranks) + chunk // self.ranks

    def _input(self, rank: int, chunk: int) -> Chunk:
        return Chunk(rank, "input", chunk // self.ranks, 0)

    def _output(self, rank: int, chunk: int) -> Chunk:
        return Chunk(rank, "output", self._place(chunk), 0)
