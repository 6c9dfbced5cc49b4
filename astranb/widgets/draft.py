"""A program that is being written: its text, what it is for, and its problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from astranb.collectives import Collective, Contract, Problem, check_text, text_algorithm
from astranb.collectives.language import AlgorithmParameter, ParameterValue, text_parameters
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.infragraph import Infra, resolve
from astranb.net import Fabric, compile_fabric
from astranb.sim import Simulation

if TYPE_CHECKING:
    from astranb.explore import Synthesis

__all__ = ["MOST_RANKS", "Draft", "Unfit"]

_SECONDS = 2.0
MOST_RANKS = 16
"""A program is verified as it is typed: for more ranks that takes too long, and shows little more."""


class Unfit(InputError):
    """A program with problems; a notebook shows them as a list, each with its line."""

    def __init__(self, name: str, problems: list[Problem], text: str) -> None:
        self.problems = problems
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{first.text}{more}", where=f"{name} line {first.line}", hint=first.hint)
        self._listing = listing(name, problems, text)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback, which would be about astranb."""
        return self._listing


def listing(name: str, problems: list[Problem], text: str) -> list[str]:
    """Problems with the lines that they are about."""
    lines, shown = text.splitlines(), []
    for problem in problems:
        shown.append(f"{name}, {problem}")
        if 1 <= problem.line <= len(lines):
            shown.append(f"    {problem.line:>3} | {lines[problem.line - 1]}")
    return shown


@dataclass
class Draft:
    """A program's text, and where it runs; the fields are those of :class:`.Editor`."""

    text: str
    name: str = "program"
    infra: Infra | str = "dgx-h100"
    size: str | int = "64 KiB"
    collective: str = "all_reduce"
    channels: int | None = None
    protocol: str = "Simple"
    root: int = 0
    params: dict[str, ParameterValue] = field(default_factory=dict)
    names: Mapping[str, Any] | None = None
    """Variables of the notebook that the text may use."""
    made: Synthesis | None = None
    """Algorithm that runs instead of the text: a synthesised one that is too long to be written as text."""

    @property
    def ranks(self) -> int:
        """GPUs of the infrastructure."""
        return len(self._fabric.gpus)

    @property
    def checked_ranks(self) -> int:
        """For how many ranks it is verified."""
        if self.made is not None:
            return self.made.network.ranks
        return self.ranks if self.ranks <= MOST_RANKS else 8

    @property
    def promise(self) -> str | Contract:
        """The collective, or the contract of the notebook that has this name."""
        contract = (self.names or {}).get(self.collective)
        return contract if isinstance(contract, Contract) else self.collective

    @property
    def parameters(self) -> tuple[AlgorithmParameter, ...]:
        """The parameters of the text's function that have plain values; it is not executed."""
        return (text_parameters(self.text, self.name) or ()) if self.made is None else ()

    def forget(self) -> None:
        """Forget the values of parameters that the text's function no longer has."""
        known = text_parameters(self.text, self.name)
        if known is not None:
            own = self.promise.parameters if isinstance(self.promise, Contract) else ()
            names = [one.name for one in (*known, *own)]
            self.params = {name: value for name, value in self.params.items() if name in names}

    @property
    def _fabric(self) -> Fabric:
        return _of_name(self.infra) if isinstance(self.infra, str) else compile_fabric(self.infra.expand())

    right: tuple[Any, ...] | None = None
    """Text that was verified last: it is not verified again, as that may take a second."""

    def check(self, seconds: float = _SECONDS) -> list[Problem]:
        """Find the problems of the text, which is executed (see :func:`check_text`) for so long.

        Raises
        ------
        InputError
            The infrastructure, the size or the collective is wrong.
        """
        if self.made is not None:
            return self._fit(self.made)
        shape, few = self._fabric.shape, range(self.checked_ranks)
        what = (self.size, self.collective, self.channels, self.protocol, self.root, str(self.params))
        key = (self.text, self.name, self.infra, *what)
        if key == self.right and self.names is None:  # variables may have other values now
            return []
        found = check_text(
            self.text,
            collective=self.promise,
            ranks=self.checked_ranks,
            size=self.size,
            channels=self.channels,
            root=self.root,
            protocol=self.protocol,
            shape=shape if len(few) == self.ranks else shape.among(few),
            name=self.name,
            seconds=seconds,
            params=self.params,
            names=self.names,
        )
        self.right = None if found else key
        return found

    def _fit(self, made: Synthesis) -> list[Problem]:
        """Find the problems of a synthesised algorithm: of its own, or that it is for something else."""
        what, ranks = made.schedule.condition.name, made.network.ranks
        if (what, ranks) != (self.collective, self.ranks):
            text = f"it was synthesised for {what} of {plural(ranks, 'rank')}"
            return [Problem(1, 1, "error", text, "synthesise again, or go back to the previous text")]
        return [Problem(1, 1, flaw.severity, flaw.message) for flaw in made.verify()]

    def simulation(self, **options: Any) -> Simulation:
        """Make a simulation of it, with options of :class:`.Simulation`.

        Raises
        ------
        InputError
            The text has errors, or it cannot run on the infrastructure.
        """
        return Simulation(self.infra, self.work(), **options)

    def work(self) -> Collective:
        """Make what it runs.

        Raises
        ------
        InputError
            The text has errors.
        """
        errors = [problem for problem in self.check() if problem.severity == "error"]
        if errors:
            raise Unfit(self.name, errors, self.text)
        if self.made is None:
            algorithm, params = text_algorithm(self.text, self.name, self.names), self.params
        else:
            algorithm, params = self.made.algorithm, {}
        return Collective.of(
            self.promise,
            None if isinstance(self.promise, Contract) else self.size,
            algorithm,
            channels=self.channels,
            root=self.root,
            protocol=self.protocol,
            params=params,
        )


@lru_cache(maxsize=4)
def _of_name(infra: str) -> Fabric:
    """The fabric of a blueprint or file, once for all checks of a text."""
    return compile_fabric(resolve(infra).expand())
