"""``Editor``: a program is written, verified as one types, and simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import traitlets

from astranb.collectives.language import ParameterValue
from astranb.core.errors import AstranbError
from astranb.core.plural import plural
from astranb.infragraph import Infra
from astranb.sim import Simulation

from .assets import EDITOR, STYLES
from .desk import EXAMPLE, Desk, traits_of
from .draft import Draft
from .session import Owner
from .synthesizing import Press, picture
from .workbench import Workbench

if TYPE_CHECKING:
    from astranb.explore import Synthesis

__all__ = ["EXAMPLE", "Editor"]


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


class Editor(ipywidgets.VBox, Desk):
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
    >>> editor.problems[0].line, editor.problems[0].text
    (6, "AttributeError: 'Connection' object has no attribute 'sent'")
    >>> editor.text = editor.good
    >>> editor.simulate().run().why
    'end'
    """

    workbench: Workbench | None = None
    found: Synthesis | None = None
    _elsewhere = ("synthesize", "stop", "previous")

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
        self.problems = []
        self.good = ""
        self._owner = Owner()
        self._press: Press | None = None
        self._previous: Draft | None = None  # from before the synthesis
        self._page = _Page(**traits_of(self._draft))
        super().__init__([self._page])
        self._page.observe(lambda _: self.check(), "text")
        self._page.on_msg(self._received)
        self.check()

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
        try:
            press.start(here(self._ended))
        except AstranbError:
            self.stop_synthesis()
            raise

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
        self._page.send(self._answered(content))

    def _other(self, kind: str) -> None:
        {"synthesize": self.start_synthesis, "stop": self.stop_synthesis, "previous": self.previous}[kind]()

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
        found = plural(errors, "error") if errors else "right"
        draft = self._draft
        return f"<Editor of {draft.name}: {draft.collective} on {self._page.chosen['infra']}, {found}>"
