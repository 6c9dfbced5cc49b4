"""The editor without a browser: a text, its problems, and the simulation of it."""

from __future__ import annotations

from time import perf_counter
from typing import Any, ClassVar, Protocol

from astranb.collectives import COLLECTIVES, PROTOCOLS, Problem
from astranb.collectives.language import ParameterValue, check_values
from astranb.core.errors import AstranbError, InputError, near
from astranb.infragraph import Infra, blueprints
from astranb.sim import Simulation

from .draft import Draft
from .parameter_control import control

__all__ = ["EXAMPLE", "Desk", "EditedPage", "traits_of"]

EXAMPLE = """\
def two_shot(p):
    wires = p.connections()
    for me in p.everyone:
        block = me.block()
        for you in me.others:
            wires[me, you].send(block, me.input[you])
        parts = [wires[you, me].receive(block) for you in me.others]
        block.reduce([me.input[me], *parts], me.output[me])
        for you in me.others:
            wires[me, you].send(block, me.output[me])
        for you in me.others:
            block.copy(wires[you, me].receive(block), me.output[you])
"""

_FIELDS = ("infra", "size", "collective", "protocol")
"""Fields that may be chosen beside the text."""


class EditedPage(Protocol):
    """State that ``static/editor.js`` draws; when ``text`` changes, :meth:`Desk.check` is called."""

    text: Any
    chosen: Any
    choices: Any
    parameters: Any


def traits_of(draft: Draft) -> dict[str, Any]:
    """Return the first traits of a draft's page."""
    return {
        "text": draft.text,
        "chosen": {"infra": _infra_name(draft.infra), "size": str(draft.size), "collective": draft.collective}
        | {"protocol": draft.protocol, "name": draft.name},
        "choices": {
            "collective": list(COLLECTIVES),
            "protocol": list(PROTOCOLS),
            "infra": [list(known) for known in blueprints()],
        },
    }


class Desk:
    """A text that is edited: what a notebook's editor and a page's have in common."""

    problems: list[Problem]
    good: str
    """The last text without an error."""
    sim: Simulation | None = None
    """Of the text when it was last simulated."""

    _draft: Draft
    _page: Any  # an EditedPage
    _elsewhere: ClassVar[tuple[str, ...]] = ()
    """Messages that are answered by :meth:`_other`."""

    @property
    def text(self) -> str:
        """The program's text."""
        return str(self._page.text)

    @text.setter
    def text(self, text: str) -> None:
        self._page.text = text

    def check(self) -> list[Problem]:
        """Find the problems of the text, each at its line; also :attr:`problems`."""
        if self._draft.text != self.text:
            self._draft.text = self.text
            self._draft.forget()
        self.problems = self._draft.check()
        self._page.parameters = [control(one, self._draft.params) for one in self._draft.parameters]
        if not any(problem.severity == "error" for problem in self.problems):
            self.good = self.text
        return self.problems

    def choose(self, **what: str) -> None:
        """Change ``infra``, ``size``, ``collective`` or ``protocol``.

        Raises
        ------
        InputError
            It cannot be used; all stays as it was.
        """
        unknown = [name for name in what if name not in _FIELDS]
        if unknown:
            raise InputError(
                f"unknown field {unknown[0]!r}", where="choose", hint=f"take {', '.join(_FIELDS)}"
            )
        before = {name: getattr(self._draft, name) for name in what}
        try:
            for name, value in what.items():
                setattr(self._draft, name, value)
            self.check()
        except AstranbError:
            for name, value in before.items():
                setattr(self._draft, name, value)
            raise
        self._page.chosen = {**self._page.chosen, **what}

    def tune(self, **values: ParameterValue) -> list[Problem]:
        r"""Set parameters of the text's function to other values, and verify it with them.

        Raises
        ------
        InputError
            It has no such parameter, or it does not allow the value.

        Examples
        --------
        >>> import astranb as anb
        >>> editor = anb.Editor("def f(p, *, chunks=8):\n    p.chunks(chunks)", infra="switch:gpus=4")
        >>> [problem.text for problem in editor.tune(chunks=6)]
        ['the program adds no thread block']
        """
        check_values(values)
        known = {one.name: one for one in self._draft.parameters}
        for name, value in values.items():
            if name not in known:
                hint = near(name, known) if known else "the function has none"
                raise InputError(f"unknown parameter {name!r}", where="tune", hint=hint)
            if known[name].choices and value not in known[name].choices:
                hint = f"use {' or '.join(map(repr, known[name].choices))}"
                raise InputError(f"{name} is {value!r}", where="tune", hint=hint)
        self._draft.params = {**self._draft.params, **values}
        return self.check()

    def simulate(self) -> Simulation:
        """Make a simulation of the text, and show it below with the source beside it.

        Raises
        ------
        InputError
            There are errors in the text, or it cannot run there.
        """
        self._draft.text = self.text
        sim = self._simulated(self._draft)
        self._watch(sim)
        return sim

    def _simulated(self, draft: Draft) -> Simulation:
        """Make the simulation of a draft."""
        return draft.simulation()

    def _watch(self, sim: Simulation) -> None:
        """Show a simulation, with the source beside it."""
        raise NotImplementedError

    def _write(self, text: str) -> None:
        """Set the text, and check it once."""
        if text == self.text:
            self.check()
        else:
            self.text = text  # which checks it

    # The wire -----------------------------------------------------------------

    def _answered(self, content: Any) -> dict[str, Any]:
        """Whatever a message holds, the answer is a message with its number."""
        seq = content.get("seq", 0) if isinstance(content, dict) else 0
        answer: dict[str, Any] = {"type": "problems", "seq": seq}
        begun = perf_counter()
        try:
            self._answer(content)
        except AstranbError as error:
            answer["error"] = str(error)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        few = self._draft.checked_ranks if "error" not in answer else 0
        answer |= {
            "problems": [
                {"line": p.line, "column": p.column, "severity": p.severity, "text": p.text}
                | {"hint": p.hint, "also": list(p.also)}
                for p in self.problems
            ],
            "ranks": few,
            "good": self.good,
            "ms": round(1000 * (perf_counter() - begun)),
        }
        return answer

    def _answer(self, content: dict[str, Any]) -> None:
        kind = content["type"]
        if kind == "check":
            self._write(str(content["text"]))
        elif kind == "choose":
            self.choose(**{str(k): str(v) for k, v in content["what"].items()})
        elif kind == "tune":
            self.tune(**content["what"])
        elif kind == "simulate":
            self.text = str(content["text"])
            self.simulate()
        elif kind in self._elsewhere:
            self._other(kind)
        else:
            raise InputError(f"unknown message {kind!r:.80}", where="editor")

    def _other(self, kind: str) -> None:
        """Answer one of the messages of :attr:`_elsewhere`."""
        raise NotImplementedError


def _infra_name(infra: Infra | str) -> str:
    return infra if isinstance(infra, str) else infra.name
