"""Cost of a collective that is written to a file and read back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astranb.collectives import Collective, read_algorithm, write_algorithm
from astranb.core.display import Displayed
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_time
from astranb.gpu import Preset
from astranb.infragraph import Infra, resolve
from astranb.net import Network
from astranb.sim import Simulation

__all__ = ["Exported", "export_algorithm"]


@dataclass(frozen=True)
class Exported(Displayed):
    """A collective's program and the file that was written of it, both simulated.

    Attributes
    ----------
    file : Path
    notes : tuple of str
        What the file adds to the program or leaves out.
    operations, file_operations : int
        Of all thread blocks: the program's, and those of the file read back.
    blocks, file_blocks : int
        Thread blocks and copy engines.
    time_ps, file_time_ps : int
    """

    file: Path
    notes: tuple[str, ...]
    operations: int
    file_operations: int
    blocks: int
    file_blocks: int
    time_ps: int
    file_time_ps: int

    @property
    def slower(self) -> float:
        """Time of the file over that of the program."""
        return self.file_time_ps / self.time_ps

    def document(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "file": str(self.file), "notes": list(self.notes), "operations": self.operations,
            "file_operations": self.file_operations, "blocks": self.blocks, "file_blocks": self.file_blocks,
            "time_ps": self.time_ps, "file_time_ps": self.file_time_ps, "slower": self.slower,
        }  # fmt: skip

    def __str__(self) -> str:
        """Both times, and what the file adds or leaves out."""
        change = f"{round(100 * (self.slower - 1), 1) + 0.0:+.1f}%"  # never -0.0
        before = f"{plural(self.operations, 'operation')} in {plural(self.blocks, 'block')}"
        after = f"{plural(self.file_operations, 'operation')} in {plural(self.file_blocks, 'block')}"
        lines = [
            str(self.file),
            f"program {format_time(self.time_ps)}, {before}",
            f"file    {format_time(self.file_time_ps)} ({change}), {after}",
        ]
        return "\n".join([*lines, *(f"  - {note}" for note in self.notes)])


def export_algorithm(
    infra: Infra | str | Path,
    collective: Collective,
    path: str | Path,
    *,
    gpu: str | Path | Preset | None = None,
    network: Network | None = None,
    launch: str = "none",
) -> Exported:
    """Write a collective's program to a file, read it back, and simulate both by cache lines.

    Parameters
    ----------
    infra : Infra or str or Path
        Where both run; the file is for as many ranks.
    collective : Collective
    path : str or Path
        The file, as for :func:`astranb.collectives.write_algorithm`.
    gpu, network, launch
        As for :class:`astranb.Simulation`.

    Raises
    ------
    InputError
        The format cannot express the program, or the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import astranb as anb
    >>> ring = anb.collectives.all_gather("64 KiB", "ring", channels=1)
    >>> with TemporaryDirectory() as folder:
    ...     found = anb.explore.export_algorithm("ring:gpus=4", ring, Path(folder, "ring.xml"))
    >>> abs(found.slower - 1) < 0.05
    True
    """
    where = resolve(infra)
    options = {"gpu": gpu, "network": network, "launch": launch}
    sim, program = _run(where, collective, options)
    if collective.contract is not None:
        hint = "export it with astranb collective export"
        raise InputError(
            "a contract has no collective of that name to run its file as", where="collective", hint=hint
        )
    notes = list(write_algorithm(program, path))
    machine = sim.engine.machine
    if machine.gpus["poll_ps"].any() and (machine.operands["flag"] >= 0).any():
        notes.append("packets lie elsewhere, some in a nearer or farther half of the L2 than before")
    plan = read_algorithm(path)
    again = Collective.of(collective.name, collective.size, plan, root=collective.root)
    read, found = _run(where, again, options)
    operations, file_operations = (sum(len(b.operations) for b in one.blocks) for one in (program, found))
    blocks, file_blocks = (sum(bool(b.operations) for b in one.blocks) for one in (program, found))
    return Exported(
        Path(path), tuple(notes), operations, file_operations, blocks, file_blocks,
        sim.result.time_ps, read.result.time_ps,
    )  # fmt: skip


def _run(where: Infra, collective: Collective, options: dict[str, Any]) -> tuple[Simulation, Any]:
    """Run a collective, and return its simulation and program."""
    from astranb.net import compile_fabric

    sim = Simulation(where, collective, record=False, checkpoint_bytes=0, **options)
    sim.run()
    fabric = compile_fabric(where.completed(None).expand())
    return sim, collective.program(sim.ranks, fabric.shape)
