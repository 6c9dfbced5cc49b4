"""A file of an algorithm that is opened on a page: what it is in words, and its run on the page's machine."""

from __future__ import annotations

from typing import Final, NamedTuple

from astranb.collectives import Collective, Plan
from astranb.collectives.formats import algorithm_of
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes
from astranb.engine.cacheline import CacheLineEngine
from astranb.sim import Simulation

from .shared_link import Brought

__all__ = ["PagePlan"]

_MOST_BYTES: Final = 64 * 2**20  # of a file
_USUAL_BYTES: Final = 2**20  # where neither the plan nor the page has a size
_MOST_MEMORY: Final = 2e9
# Of an operation, until it can run: measured for 295,000 of them (800 bytes, 15 us), times two for a page.
_BYTES_EACH: Final = 1600
_US_EACH: Final = 30
_MANY: Final = 100_000  # what fewer operations take is not worth a word


class PagePlan(NamedTuple):
    """A plan that was read.

    Attributes
    ----------
    plan : Plan
    name : str
        Of its file.
    text : str
        The contents of that.
    """

    plan: Plan
    name: str
    text: str

    @classmethod
    def read(cls, data: bytes, name: str, sim: Simulation) -> PagePlan:
        """Read a file, for the machine of a simulation.

        Raises
        ------
        InputError
            It is none, or too large; or the simulation has no machine that runs one.
        """
        if len(data) > _MOST_BYTES:
            what = f"larger than {_MOST_BYTES >> 20} MiB"
            raise InputError(what, where=name, hint="is it the right file?")
        if not isinstance(sim.engine, CacheLineEngine):
            what = "plans run by cache lines, and this page simulates whole messages"
            raise InputError(what, where=name)
        return cls(algorithm_of(data, name), name, data.decode("utf-8", "replace"))

    def title(self, gpus: int) -> str:
        """Describe it in a line."""
        plan = self.plan
        what = f"“{plan.name}”: {plan.collective or 'no collective that is known, run unchecked'}"
        where = "; input and output are one buffer" if plan.in_place else ""
        here = "" if plan.ranks == gpus else f" (this page has {gpus})"
        return f"{what}, {plan.protocol}, for {plural(plan.ranks, 'GPU')}{where}{here}"

    def usual_bytes(self, sim: Simulation) -> int:
        """The size that it is given at first: that of the page's run, within the plan's range."""
        work = sim.engine.work
        size = work.size if isinstance(work, Collective) and work.size else _USUAL_BYTES
        most = size if self.plan.max_bytes is None else self.plan.max_bytes
        return max(1, self.plan.min_bytes, min(size, most))

    def cost(self, size: int) -> str:
        """Describe the time that a large one takes until it can run; empty where it is small.

        Raises
        ------
        InputError
            A page has no memory for it.
        """
        most = int(_MOST_MEMORY // _BYTES_EACH)
        count = self.plan.operations(size, most)
        if count > most:
            what = f"more than {most:,} operations, which take {_BYTES_EACH / 1000} kB of memory each, "
            hint = "run it in JupyterLab, or reduce the size"
            raise InputError(
                f"{what}and a page has 2 GB at most", where=f"plan {self.plan.name!r}", hint=hint
            )
        if count < _MANY:
            return ""
        megabytes, seconds = -(-count * _BYTES_EACH // 10**6), -(-count * _US_EACH // 10**6)
        return f"{count:,} operations: about {megabytes:,} MB of memory, and {seconds} s until it can run"

    def run(self, sim: Simulation, size: int) -> Simulation:
        """Make the run on the machine of another one, at its start.

        Raises
        ------
        InputError
            It cannot run there.
        """
        self.cost(size)
        what = Collective.of(self.plan.collective or "custom", size, self.plan)
        made = sim.rebuilt(keep=False, collective=what)
        self.brought(size).note(made)
        return made

    def brought(self, size: int) -> Brought:
        """Return the part of a link about it."""
        return Brought("plan", {"name": self.name, "size": size}, self.text)

    def described(self, sim: Simulation) -> dict[str, object]:
        """Return the traits that the page shows of it before it runs."""
        size = self.usual_bytes(sim)
        try:
            cost = self.cost(size)
        except InputError as error:
            cost = str(error)
        notes = list(self.plan.notes)
        shown = {"title": self.title(sim.ranks), "size": format_bytes(size), "cost": cost, "notes": notes}
        return {"kind": "plan", "name": self.name, **shown}
