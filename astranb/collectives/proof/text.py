"""The check of programs as text: compiled, run within limits and verified, with a line for every fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from astranb.collectives.language import (
    COLLECTIVES,
    FORBIDDEN,
    Contract,
    ParameterValue,
    Program,
    ProgramError,
    bind_parameters,
    check_values,
    compiled,
    line_of,
    nearest_name,
    text_name,
)
from astranb.collectives.library import Collective
from astranb.core.deadline import OutOfTime, within
from astranb.core.errors import InputError
from astranb.infragraph import Infra
from astranb.net import Shape

from .verify import slots_of, verify

__all__ = ["Problem", "check_text"]

_SECONDS = 2.0
_MOST_CHARACTERS = 100_000
_MOST_OPERATIONS = 200_000  # some 100 MB
_MOST_PROBLEMS = 100
_MOST_FAULTS = 1000


@dataclass(frozen=True)
class Problem:
    """A fault in the text of a program.

    Attributes
    ----------
    line, column : int
        The place, both from 1.
    severity : str
        ``"error"`` or ``"warning"``.
    text : str
        One line.
    hint : str
        What to do about it; may be empty.
    also : tuple of int
        Related lines, as those of the other operations in a deadlock.
    """

    line: int
    column: int
    severity: str
    text: str
    hint: str = ""
    also: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Format it as ``line 3: error: …``."""
        others = f" (see also line {', '.join(map(str, self.also))})" if self.also else ""
        return (
            f"line {self.line}: {self.severity}: {self.text}{f'; {self.hint}' if self.hint else ''}{others}"
        )


def check_text(
    text: str,
    *,
    collective: str | Contract = "all_reduce",
    ranks: int | str | Path | Infra = 8,
    size: int | str | None = "64 KiB",
    channels: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
    shape: Shape | int | None = None,
    name: str = "program",
    seconds: float = _SECONDS,
    params: Mapping[str, ParameterValue] | None = None,
    names: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """Return every fault in the text of a program, with its line.

    The text is compiled and **executed**, as by :func:`text_algorithm`: pass only text that you
    would run yourself. The program is verified: semaphores, deadlocks, races, missing fences,
    bounds, sizes, what a rank finds when it has ended, and the result. A text that runs too long or
    adds too many operations is stopped; only a single call into compiled code that never returns
    cannot be stopped.

    Parameters
    ----------
    text : str
    collective, size, channels, root, protocol
        As for :meth:`Collective.of`; a :class:`Contract` has a size of its own.
    ranks : int or str or Path or Infra
        The number of ranks to check it for; or the infrastructure whose GPUs, nodes and links it is for.
    shape : Shape or int, optional
        How a number of ranks are joined, or only how many consecutive ranks share a node.
    name : str
        The algorithm's name.
    seconds : float
        The time limit.
    params : mapping of str to bool, int, float or str, optional
        Values of the function's parameters.
    names : mapping of str to object, optional
        Variables that the text may use, as for :func:`text_algorithm`.

    Returns
    -------
    list of Problem
        Errors first, then by line; empty if the program is correct.

    Raises
    ------
    InputError
        An unknown collective or protocol, or a size that cannot be parsed.

    Examples
    --------
    >>> check_text('''
    ... arrived = [me.semaphore() for me in p.everyone]
    ... for me in p.everyone:
    ...     block = me.block()
    ...     block.put(me.input[0], me.right.output[0])
    ...     block.signal(arrived[me.right.number])
    ...     block.wait(arrived[me.number])
    ... ''', collective="send_recv", ranks=4)
    []
    >>> print(check_text("p.block(0).wait(p.semaphore(0))", collective="barrier", ranks=2)[0])
    line 1: error: rank 0 block 0 operation 0 [wait semaphore 0 (1)] waits for 1, all signals together add 0
    """
    file = text_name(name, 0)
    if isinstance(collective, Contract):
        size = None
    elif collective in COLLECTIVES and COLLECTIVES[collective].silent:
        channels = 1  # as for ``barrier``
    values = dict(params or {})
    check_values(values)
    # A function without effect is the algorithm while the parameters are checked.
    wanted = Collective.of(collective, size, lambda _: None, channels=channels, root=root, protocol=protocol)
    if len(text) > _MOST_CHARACTERS:
        text = f"the text has {len(text):,} characters"
        return [Problem(1, 1, "error", text, f"at most {_MOST_CHARACTERS:,}")]
    first = 1

    def look() -> list[Problem]:
        nonlocal first
        write, first = compiled(text, file, name, names)
        work, own = wanted, values
        if isinstance(collective, Contract):
            made, own = collective.given(values, write)
            work = replace(wanted, contract=made, name=made.name)
        program = _written(work, write, own, ranks, shape)
        slots = None if isinstance(ranks, int) else slots_of(ranks)
        faults = verify(program, work.name, root=root, slots=slots, most=_MOST_FAULTS)
        prefix = f"{program.name}: "
        return [
            Problem(lines[0], 1, fault.severity, fault.message.removeprefix(prefix), also=tuple(lines[1:]))
            for fault in faults
            for lines in [[line.number for line in fault.lines if line.file == file] or [first]]
        ]

    try:
        found = within(seconds, look)
    except OutOfTime:
        hint = "check that loops end, or use fewer ranks"
        found = [Problem(first, 1, "error", f"not done after {seconds:g} s", hint)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the text raises is a fault of the text
        found = [_problem(error, file, first)]
    return _merged(found)


def _written(
    wanted: Collective,
    write: Callable[..., None],
    values: Mapping[str, ParameterValue],
    ranks: int | str | Path | Infra,
    shape: Shape | int | None,
) -> Program:
    """Build the program of a text; raise an error when it grows too large."""
    bound = bind_parameters(write, values)

    def bounded(program: Program) -> None:
        program.most_operations = _MOST_OPERATIONS
        bound(program)

    bounded.__name__ = write.__name__
    program = replace(wanted, algorithm=bounded).program(ranks, shape)
    if not program.blocks:
        raise InputError("the program adds no thread block", hint="block = p.block(0), or me.block()")
    return program


def _problem(error: BaseException, file: str, first: int) -> Problem:
    """Convert what a text raised to a problem at its line."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return Problem(error.lineno or 1, max(1, error.offset or 1), "error", error.msg)
    if isinstance(error, (MemoryError, RecursionError)):
        what = f"{type(error).__name__}: too deep or too large"
        return Problem(line_of(error, file) or first, 1, "error", what)
    cause = error.__cause__ if isinstance(error, InputError) and error.__cause__ else error
    line = line_of(cause, file)
    if isinstance(cause, InputError):
        if isinstance(cause, ProgramError) and cause.line is not None and cause.line.file == file:
            line = cause.line.number
        return Problem(line or first, 1, "error", " ".join(cause.what.split()), cause.hint)
    message = " ".join(f"{type(cause).__name__}: {cause}".split())
    hint = nearest_name(cause)
    if isinstance(cause, NameError) and cause.name in FORBIDDEN:
        hint = "a program cannot use files or input: it is run while it is typed"
    return Problem(line or first, 1, "error", message, hint)


def _merged(found: list[Problem]) -> list[Problem]:
    """Merge problems that are alike on several ranks into one."""
    alike: dict[tuple[object, ...], list[Problem]] = {}
    for problem in found:
        kind = problem.text.partition(": ")[0] if ": " in problem.text else ""
        alike.setdefault((problem.line, problem.severity, kind, problem.also), []).append(problem)
    merged = []
    for first, *others in alike.values():
        more = f" (and {len(others)} more like it)" if others else ""
        merged.append(replace(first, text=first.text + more))
    return sorted(merged, key=lambda p: (p.severity, p.line))[:_MOST_PROBLEMS]
