"""``Editor``: a program is written, verified as one types, and simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import traitlets

from astranb.collectives import COLLECTIVES, PROTOCOLS, Problem
from astranb.collectives.language.parameters import ParameterValue, check_values
from astranb.core.errors import AstranbError, InputError, near
from astranb.infragraph import Infra, blueprints
from astranb.sim import Simulation

from .assets import EDITOR, STYLES
from .draft import Draft
from .parameter_control import control
from .session import Owner
from .synthesizing import Press, picture
from .workbench import Workbench

if TYPE_CHECKING:
    from astranb.explore import Synthesis

__all__ = ["EXAMPLE", "Editor"]

EXAMPLE = """\
def two_shot(p):
    wires = p.connections()
    for me in p.everyone:
        block = me.block()
        for you in me.others:
            wires[me, you].send(block, me.input[you.number])
        parts = [wires[you, me].receive(block) for you in me.others]
        block.reduce([me.input[me.number], *parts], me.output[me.number])
        for you in me.others:
            wires[me, you].send(block, me.output[me.number])
        for you in me.others:
            block.copy(wires[you, me].receive(block), me.output[you.number])
"""

_FIELDS = ("infra", "size", "collective", "protocol")
"""What may be chosen beside the text."""


class _Page(anywidget.AnyWidget):
    """The text, its line numbers and its problems: the part that is drawn by ``static/editor.js``."""

    _esm = EDITOR
    _css = STYLES
    # Both live as long as the kernel: a page that is loaded again shows them.
    text = traitlets.Unicode("").tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    parameters = traitlets.List().tag(sync=True)  # of the text's function, each as a control shows it
    # Of a synthesis: its state, what is done, lines about what was found, whether the text is locked.
    synthesis = traitlets.Dict({"state": "none"}).tag(sync=True)
    schedule = traitlets.Dict().tag(sync=True)  # as a picture


class Editor(ipywidgets.VBox):
    """Write a program; it is verified as you type, and simulated on request.

    The text is executed in this kernel whenever it changes, within limits (see
    :func:`astranb.collectives.check_text`): write only what you would run.

    Parameters
    ----------
    text : str, optional
        The program: a function over a :class:`Program`, or the body of one; an example if not given.
    infra : Infra or str
        Where it runs: an infrastructure, a blueprint's name or an InfraGraph document.
    size : int or str
    collective : str
        What it must do, as ``all_reduce``.
    name : str
        Of the algorithm.
    channels : int, optional
    protocol : str
    root : int
    params : mapping of str to bool, int, float or str, optional
        Values of the function's parameters; the page has a control for each (:meth:`tune`).
    names : mapping of str to object, optional
        Variables that the text may use, as ``globals()``: copies of plain values, the notebook's functions,
        and modules to compute with.

    Attributes
    ----------
    sim : Simulation or None
        Of the text when it was last simulated.
    workbench : Workbench or None
        That shows it.
    good : str
        The last text without an error.
    found : Synthesis or None
        What was synthesised last.

    Examples
    --------
    >>> import astranb as anb
    >>> editor = anb.Editor(infra="switch:gpus=4", size="4 KiB")
    >>> editor.problems
    []
    >>> editor.text = editor.text.replace("send(", "sent(", 1)
    >>> print(editor.problems[0])
    line 6: error: AttributeError: 'Connection' object has no attribute 'sent'
    >>> editor.text = editor.good
    >>> editor.simulate().run().why
    'end'
    """

    sim: Simulation | None = None
    workbench: Workbench | None = None
    found: Synthesis | None = None

    def __init__(
        self,
        text: str | None = None,
        *,
        infra: Infra | str = "dgx-h100",
        size: int | str = "64 KiB",
        collective: str = "all_reduce",
        name: str = "program",
        channels: int | None = None,
        protocol: str = "Simple",
        root: int = 0,
        params: Mapping[str, ParameterValue] | None = None,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        self._draft = Draft(
            EXAMPLE if text is None else text, name, infra, size, collective, channels, protocol, root,
            dict(params or {}), names,
        )  # fmt: skip
        self._draft.check()  # errors that are not the text's are raised at once
        self.problems: list[Problem] = []
        self.good = ""
        self._owner = Owner()
        self._press: Press | None = None
        self._previous: Draft | None = None  # from before the synthesis
        self._page = _Page(
            text=self._draft.text,
            chosen={"infra": _infra_name(infra), "size": str(size), "collective": collective}
            | {"protocol": protocol, "name": name},
            choices={
                "collective": list(COLLECTIVES),
                "protocol": list(PROTOCOLS),
                "infra": [list(known) for known in blueprints()],
            },
        )
        super().__init__([self._page])
        self._page.observe(lambda _: self.check(), "text")
        self._page.on_msg(self._received)
        self.check()

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
        r"""Give parameters of the text's function other values, and verify it with them.

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
        sim = self._draft.simulation()
        self._watch(sim)
        return sim

    def _watch(self, sim: Simulation) -> None:
        workbench = Workbench(sim)
        workbench._panels = {"side": "source"}  # noqa: SLF001 - what its own tabs do
        if self.workbench is not None:
            self.workbench.close()
        self.sim, self.workbench = sim, workbench
        self.children = [self._page, workbench]

    def synthesize(self) -> Synthesis:
        """Make an algorithm for the infrastructure and the collective, and simulate it below.

        It becomes the text if it is short enough to be read; :meth:`previous` brings the one before back.
        How good it is stands in the page, and in what is returned.

        Raises
        ------
        InputError
            The infrastructure is not connected, or the collective cannot be synthesised.
        """
        self.stop_synthesis()
        press = Press(self._draft, self._working, self._use, self._known)
        try:
            press.work()
        except AstranbError as error:
            self._ended(str(error))
            raise
        except BaseException:
            self.stop_synthesis()
            raise
        self._ended("")
        assert self.found is not None  # noqa: S101 - as it has ended
        return self.found

    def start_synthesis(self) -> None:
        """Begin :meth:`synthesize` in a thread of its own: other cells, and the page, can go on."""
        self.stop_synthesis()

        def here(call: Callable[..., None]) -> Callable[..., None]:
            """Call in the owner's thread, unless it was stopped meanwhile."""

            def handed(*what: Any) -> None:
                self._owner.hand(lambda: call(*what) if self._press is press else None)

            return handed

        press = Press(self._draft, here(self._working), here(self._use), here(self._known))
        self._press = press
        self._working("synthesising", None)
        press.start(here(self._ended))

    def stop_synthesis(self) -> None:
        """Stop what :meth:`start_synthesis` has begun; an algorithm that was found stays."""
        if self._press is not None:
            self._press.stop()
            self._press = None
            self._say(state="done" if self._page.synthesis.get("lines") else "none")

    def previous(self) -> None:
        """Bring back the program from before the synthesis."""
        if self._previous is None:
            return
        self.stop_synthesis()
        kept = self._previous
        self._previous = None
        self._draft = replace(
            self._draft, made=None, text=kept.text, channels=kept.channels, protocol=kept.protocol
        )
        self._page.chosen = {**self._page.chosen, "protocol": kept.protocol}
        self._page.synthesis, self._page.schedule = {"state": "none"}, {}
        self._write(kept.text)

    def _write(self, text: str) -> None:
        """Set the text, and check it once."""
        if text == self.text:
            self.check()
        else:
            self.text = text  # which checks it

    def _say(self, **what: Any) -> None:
        self._page.synthesis = {**self._page.synthesis, **what}

    def _working(self, what: str, part: float | None) -> None:
        self._say(state="working", what=what, part=part)

    def _use(self, found: Synthesis, draft: Draft, sim: Simulation) -> None:
        """Show what was found, and its simulation."""
        if self._previous is None:
            self._previous = self._draft
        self.found, self._draft = found, draft
        self._say(locked=draft.made is not None, previous=True)
        self._page.schedule = picture(found)
        self._page.chosen = {**self._page.chosen, "protocol": draft.protocol}
        self._write(draft.text)
        self._watch(sim)

    def _known(self, lines: list[str]) -> None:
        self._say(lines=lines)

    def _ended(self, error: str) -> None:
        self._press = None
        self._say(state="failed" if error else "done", error=error)

    # The wire -----------------------------------------------------------------

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        self._owner.hand(lambda: self._reply(content))

    def _reply(self, content: Any) -> None:
        """Whatever a message holds, the answer is a message with its number."""
        answer: dict[str, Any] = {"type": "problems", "seq": content.get("seq", 0)}
        begun = perf_counter()
        try:
            self._answer(content)
        except AstranbError as error:
            answer["error"] = str(error)
        except (KeyError, TypeError, ValueError) as error:
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
        self._page.send(answer)

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
        elif kind == "synthesize":
            self.start_synthesis()
        elif kind == "stop":
            self.stop_synthesis()
        elif kind == "previous":
            self.previous()
        else:
            raise InputError(f"unknown message {kind!r}", where="editor")

    def close(self) -> None:
        """Take the editor away, and the workbench below it; the simulation stays."""
        if "_page" in self.__dict__:
            self.stop_synthesis()
        if self.workbench is not None:
            self.workbench.close()
        if "_page" in self.__dict__:  # else it was refused before there was one
            self._page.close()
        super().close()

    def __repr__(self) -> str:
        """One line: what is written, and how many errors it has."""
        errors = sum(problem.severity == "error" for problem in self.problems)
        found = "right" if not errors else f"{errors} error{'s' if errors > 1 else ''}"
        draft = self._draft
        return f"<Editor of {draft.name}: {draft.collective} on {self._page.chosen['infra']}, {found}>"


def _infra_name(infra: Infra | str) -> str:
    return infra if isinstance(infra, str) else infra.name
