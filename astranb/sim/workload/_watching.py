"""What can be followed over time in a workload: whatever its engine can read of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from astranb.core.errors import InputError, near
from astranb.sim._watch import Watch, Watched

if TYPE_CHECKING:
    from ._simulation import WorkloadSimulation

__all__ = ["Watching"]


class Watching(Watched):
    """The part of a :class:`WorkloadSimulation` that follows values."""

    def watchable(self, path: str) -> list[str]:
        """Fields of an object that watches may name.

        Examples
        --------
        >>> from astranb.workload.astrasim2 import COMPUTE, Network, Operations, System
        >>> from astranb.sim.workload import WorkloadSimulation
        >>> one = Operations.of([{"kind": COMPUTE, "duration_us": 3}])
        >>> network = Network(["Ring"], [2], [50], [500])
        >>> sim = WorkloadSimulation([one] * 2, network, System.from_document({}))
        >>> sim.watchable("rank[1].dim[0]")
        ['running', 'waiting', 'messages', 'bytes']
        """
        sim = self._sim
        unknown = () if sim.recording else sim.state.recorded(path)
        return [name for name in sim.state.readers(path)[1] if name not in unknown]

    @property
    def _sim(self) -> WorkloadSimulation:
        return cast("WorkloadSimulation", self)

    def _of_field(self, path: str, name: str) -> Watch:
        sim = self._sim
        place, readers = sim.state.readers(path)
        known = self.watchable(path)
        if name not in known:
            if name in readers:
                hint = "make it with WorkloadSimulation(..., record=True)"
                raise InputError(f"{name!r} is not recorded", where=place, hint=hint)
            raise InputError(f"no field {name!r}", where=place, hint=near(name, known))
        read = readers[name]

        def value(at: Any) -> float:
            return read(at.state.machine)

        return Watch(f"{place}.{name}", value, sim, place, name)
