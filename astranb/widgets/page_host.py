"""Python's side of a page: what the page sends, and what it is sent.

Both are JSON with buffers. The page numbers nothing but its questions; Python numbers workbenches.

=================================================== ======================================================
from the page
=================================================== ======================================================
``{"bench": N, "message": {…}}``                    a message of a view (:mod:`.connection`)
``{"bench": N, "traits": {…}}``                     attributes that the page has set
``{"editor": {…}}``                                 a message of ``static/editor.js``
``{"ask": ID, "do": NAME, …}``                      a question; the names are those of `PageHost.questions`
=================================================== ======================================================

=================================================== ======================================================
to the page
=================================================== ======================================================
``{"bench": N, "message": {…}}``                    for the view
``{"bench": N, "traits": {…}}``                     attributes that Python has set
``{"editor": {…}}``, ``{"editor_traits": {…}}``     answers and attributes of the editor
``{"answer": ID, "result": {…}}``                   an answer
``{"answer": ID, "error": "…"}``                    why there is none, in a line; ID is null if nobody asked
``{"made": N, "engine", "traits", "title"}``        a workbench that another one shows beside itself
``{"show": N, "engine", "traits", "title", "own"}`` a workbench that takes the place of the main one;
                                                    ``own``: of the page's own run
``{"closed": N}``                                   a workbench is gone
=================================================== ======================================================
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from astranb.core.errors import AstranbError, InputError, near
from astranb.core.units import size_bytes
from astranb.sim import Simulation

from .page_editor import PageEditor
from .page_plan import PagePlan
from .page_workbench import PageWorkbench
from .shared_link import Brought, Linked, brought_of, link_of, linked_state, of_another, read_link

__all__ = ["PageHost"]

_SAVED: Final = b"PK"
"""The beginning of saved files; what begins otherwise may be a plan."""
_MOST_WORDS: Final = 1000
_MOST_NUMBER: Final = 1 << 63

_Answer = tuple[dict[str, Any], list[bytes]]


class PageHost:
    """Shows runs in a page, and answers it; nothing that a page sends is raised.

    Parameters
    ----------
    post : callable
        Sends text and buffers to the page.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("switch:gpus=2", anb.collectives.all_reduce("1 KiB", "ring"))
    >>> sent = []
    >>> host = PageHost(lambda text, buffers: sent.append(json.loads(text)))
    >>> host.open(sim.recipe())
    >>> host.receive('{"ask": 1, "do": "hash"}')
    >>> sent[-1]["answer"], sent[-1]["result"]["hash"] == sim.state_hash()
    (1, True)
    >>> host.receive('{"ask": 2, "do": "fly"}')
    >>> sent[-1]["error"][:28]
    "page: unknown question 'fly'"
    """

    def __init__(self, post: Callable[[str, list[bytes]], None]) -> None:
        self._post_text = post
        self._run = b""
        self._benches: dict[int, PageWorkbench] = {}
        self._made = 0
        self._main: PageWorkbench | None = None
        self._plan: PagePlan | None = None
        self._brought: Brought | None = None
        self._editor: PageEditor | None = None
        self.questions: dict[str, Callable[[Mapping[str, Any], Sequence[bytes]], _Answer]] = {
            "hash": self._hash,
            "save": self._save,
            "say": self._say,
            "link": self._link,
            "moment": self._moment,
            "enter_link": self._enter_link,
            "open": self._open,
            "plan_cost": self._plan_cost,
            "run_plan": self._run_plan,
            "own_run": self._own_run,
            "close_bench": self._close_bench,
            "editor_open": self._editor_open,
        }

    # The page ------------------------------------------------------------------

    def open(self, run: bytes) -> None:
        """Show the page's own run, from its recipe.

        Raises
        ------
        InputError
            It is none, or of another version.
        """
        sim = Simulation.of_saved_bytes(run, "the run of this page")
        self._run = run
        self.__dict__.pop("inputs", None)
        self._show(sim)

    def receive(self, text: str, buffers: Sequence[bytes] = ()) -> None:
        """Take a message of the page's; whatever it holds, what goes wrong is a message."""
        asked: Any = None
        try:
            content = json.loads(
                text, parse_constant=_no_number, parse_float=_number, parse_int=_whole_number
            )
            if not isinstance(content, dict):
                raise InputError("a message is not a mapping", where="page")  # noqa: TRY301 - one report for all
            if "ask" in content:
                asked = content["ask"] if isinstance(content["ask"], int | str) else None
            self._take(content, buffers, asked)
        except AstranbError as error:
            self._post({"answer": asked, "error": _line(str(error))}, [])
        except Exception as error:  # noqa: BLE001 - the page must go on whatever it was sent
            self._post({"answer": asked, "error": _words(error)}, [])

    def _take(self, content: dict[str, Any], buffers: Sequence[bytes], asked: Any) -> None:
        if "ask" in content:
            name = content.get("do")
            if not isinstance(name, str) or name not in self.questions:
                hint = near(str(name), self.questions)
                raise InputError(f"unknown question {name!r:.80}", where="page", hint=hint)
            result, given = self.questions[name](content, buffers)
            self._post({"answer": asked, "result": result}, given)
        elif "bench" in content:
            bench = self._bench_of(content)
            if bench is None:
                return
            if "traits" in content:
                bench.set_by_page(content["traits"])
            elif "message" in content:
                self._message(bench, content["message"])
            else:
                raise InputError("neither a message nor attributes", where=f"bench {bench.number}")
        elif "editor" in content:
            self._post({"editor": self._edited().reply(content["editor"])}, [])
        else:
            names = ", ".join(list(content)[:3])
            raise InputError(f"unknown message {names!r:.80}", where="page")

    def _message(self, bench: PageWorkbench, message: Any) -> None:
        try:
            bench.connection.receive(None, message, [])
        except Exception as error:  # noqa: BLE001 - a view may have asked for anything
            self._post({"bench": bench.number, "message": {"type": "error", "text": _words(error)}}, [])

    def _bench_of(self, content: Mapping[str, Any]) -> PageWorkbench | None:
        """Find the workbench that is meant, the main one where none is named; None: it was closed."""
        number = content.get("bench", self._shown.number)
        if type(number) is not int or not 0 <= number < self._made:
            raise InputError(f"unknown workbench {number!r:.80}", where="page")
        return self._benches.get(number)

    def _asked_of(self, content: Mapping[str, Any]) -> PageWorkbench:
        """Find the workbench that a question is about."""
        bench = self._bench_of(content)
        if bench is None:
            raise InputError(f"the workbench {content['bench']} is closed", where="page")
        return bench

    def _post(self, content: dict[str, Any], buffers: Sequence[Any]) -> None:
        try:
            text = json.dumps(content, allow_nan=False, default=_plain)
        except ValueError:  # a number that JSON does not have
            text = json.dumps(_finite(content), allow_nan=False, default=_plain)
        self._post_text(
            text, [one if isinstance(one, bytes) else memoryview(one).tobytes() for one in buffers]
        )

    # Workbenches ---------------------------------------------------------------

    @property
    def _shown(self) -> PageWorkbench:
        """The main workbench."""
        if self._main is None:
            raise InputError("no run is open", where="page")
        return self._main

    @cached_property
    def inputs(self) -> str:
        """The hash of the start of the page's own run."""
        return Simulation.of_saved_bytes(self._run, "the run of this page").start_hash()

    def _bench(self, sim: Simulation) -> PageWorkbench:
        bench = PageWorkbench(sim, self._made, self._post_of, self._beside)
        self._benches[self._made] = bench
        self._made += 1
        return bench

    def _post_of(self, content: dict[str, Any], buffers: Sequence[Any]) -> None:
        """Send what a workbench sends; one that the page does not know yet is sent as a whole, later."""
        number = content.get("bench")
        if "closed" in content:
            self._benches.pop(content["closed"], None)
        if number is None or number in self._benches:
            self._post(content, buffers)

    def _beside(self, sim: Simulation) -> PageWorkbench:
        """Make a workbench that another one shows beside itself."""
        bench = self._bench(sim)
        self._post({"made": bench.number, **bench.described}, [])
        return bench

    def _show(
        self, sim: Simulation, status: str = "", panels: Mapping[str, Any] | None = None
    ) -> PageWorkbench:
        """Show a run in place of the main one."""
        before = self._main
        bench = PageWorkbench(sim, self._made, self._post_of, self._beside)
        bench._look_as_saved()  # noqa: SLF001 - a part of this
        if panels is not None:
            bench.take({"_panels": dict(panels)})
        if status:
            bench.session.set_status(status)
        self._benches[self._made] = self._main = bench
        self._made += 1
        start = sim.start_hash()  # of a run that has begun it copies the machine
        if "inputs" not in self.__dict__ and before is None:
            self.__dict__["inputs"] = start
        own = start == self.inputs
        self._brought = None if own else brought_of(sim)
        self._post({"show": bench.number, **bench.described, "own": own}, [])
        if before is not None:
            before.close()
            del before
            gc.collect()  # the next run that is opened may need what this one had
        return bench

    def _close_bench(self, content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Close the workbench beside another one."""
        bench = self._asked_of(content)
        for one in list(self._benches.values()):
            if one.linked is not None and one.linked.b is bench:
                one.part()
                return {}, []
        raise InputError("it is beside no other one", where=f"workbench {bench.number}")

    # Moments -------------------------------------------------------------------

    def _resting(self, content: Mapping[str, Any]) -> PageWorkbench:
        """The workbench that is meant, at rest."""
        bench = self._asked_of(content)
        if bench.session.playing:
            bench.session.ask("pause")
        return bench

    def _hash(self, content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Hash everything simulated."""
        bench = self._resting(content)
        found = bench.sim.state_hash()
        bench.session.show(f"hash {found}")
        return {"hash": found}, []

    def _save(self, content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Write the present moment as a recipe."""
        bench = self._resting(content)
        bench._note()  # noqa: SLF001 - a part of this
        made = bench.sim.recipe()
        bench.session.show(
            "saved: Workbench.load(path) opens the file in JupyterLab, and this page with Open"
        )
        return {"name": f"astranb-{bench.sim.now_ps}-ps.anb"}, [made]

    def _say(self, content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Show a text of the page's as the status."""
        self._shown.session.show(_line(_word(content, "text")), failed=content.get("failed") is True)
        return {}, []

    def _moment(self, content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Write the link to where the main run is at rest, for a page that may have to start Python again."""
        if self._shown.session.playing:
            raise InputError("the run is not at rest", where="page")
        return self._link(content, _)

    def _link(self, _content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Write a link to the present moment of the main run."""
        bench = self._resting({"bench": self._shown.number})
        own = bench.sim.start_hash() == self.inputs
        if not own and self._brought is None:
            what = "this run came in a file, and a link goes with the page's own run"
            raise InputError(what, hint="save it as a file")
        view = {**bench._shown(), "speed": bench.session.speed}  # noqa: SLF001 - a part of this
        return {"fragment": link_of(bench.sim, view, self.inputs, None if own else self._brought)}, []

    def _enter_link(self, content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Go to the moment of a link; nothing is shown of one that leads nowhere."""
        found = read_link(_word(content, "text"))
        bench = self._resting({"bench": self._shown.number})
        if found.inputs != self.inputs:
            if found.brought is not None:
                raise of_another()
            bench.enter(_word(content, "text"))  # which says so, or it is of the run that is shown
            return {"text": bench.session.status}, []
        present = None if bench.sim.start_hash() == self.inputs else self._brought
        if present == found.brought:
            bench.enter_found(found._replace(inputs=bench.sim.start_hash(), brought=None))
            return {"text": bench.session.status}, []
        sim = self._linked_run(found)
        linked_state(sim, found._replace(inputs=sim.start_hash(), brought=None))
        status = "the state of the link"
        self._show(sim, status)._look(found.shown)  # noqa: SLF001 - a part of this
        return {"text": status}, []

    def _linked_run(self, found: Linked) -> Simulation:
        """Make the run of a link, at its start."""
        brought = found.brought
        own = Simulation.of_saved_bytes(self._run, "the run of this page")
        if brought is None:
            return own
        if brought.kind == "plan":
            plan = PagePlan.read(brought.text.encode(), brought.about["name"], own)
            made = plan.run(own, brought.about["size"])
            self._plan = plan
        else:
            made = self._edited().run(brought)
        brought.note(made)
        return made

    # Files and plans -----------------------------------------------------------

    def _open(self, content: Mapping[str, Any], buffers: Sequence[bytes]) -> _Answer:
        """Open a saved run, or read a plan, which is not run yet."""
        name = _word(content, "name")
        if not buffers:
            raise InputError("the file is missing", where=name)
        data = bytes(buffers[0])
        if not data.startswith(_SAVED):
            self._plan = None
            self._plan = PagePlan.read(data, name, self._shown.sim)
            return self._plan.described(self._shown.sim), []
        sim = Simulation.of_saved_bytes(data, name)
        status = f"opened {name}"
        self._show(sim, status)
        return {"kind": "run", "text": status}, []

    def _plan_cost(self, content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Answer with the cost of the plan that was read, for a size."""
        return {"cost": self._read_plan.cost(_size(content))}, []

    def _run_plan(self, content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Run the plan that was read on the page's machine."""
        plan = self._read_plan
        sim = plan.run(self._shown.sim, _size(content))
        status = f"the plan “{plan.plan.name}” at its start"
        self._show(sim, status)
        return {"text": status, "notes": list(plan.plan.notes)}, []

    @property
    def _read_plan(self) -> PagePlan:
        if self._plan is None:
            raise InputError("no plan is open", where="page")
        return self._plan

    def _own_run(self, _content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Return to the run that the page was made of."""
        status = "the run of this page"
        self._show(Simulation.of_saved_bytes(self._run, status), status)
        return {"text": status}, []

    # The editor ----------------------------------------------------------------

    def _edited(self) -> PageEditor:
        """The editor, made when it is first asked for."""
        if self._editor is None:
            own = Simulation.of_saved_bytes(self._run, "the run of this page")
            self._editor = PageEditor(own, self._post, self._show_source)
        return self._editor

    def _show_source(self, sim: Simulation) -> None:
        self._show(sim, "the text at its start", {"side": "source"})

    def _editor_open(self, _content: Mapping[str, Any], _: Sequence[bytes]) -> _Answer:
        """Return what the page draws of the editor."""
        return {"traits": self._edited().attributes}, []


def _word(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        raise InputError(f"{value!r:.80} is not a text", where=name)
    return value


def _size(content: Mapping[str, Any]) -> int:
    value = content.get("size")
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"{value!r:.80} is not a size", where="size")
    return size_bytes(value)


def _words(error: Exception) -> str:
    """Describe an error that is not one of ours, in a line."""
    if isinstance(error, MemoryError):
        return "a page has too little memory for this (2 GiB): open it in JupyterLab"
    return _line(f"{type(error).__name__}: {error}")


def _line(text: str) -> str:
    return " ".join(text.split())[:_MOST_WORDS]


def _no_number(word: str) -> float:
    raise InputError(f"{word} is not a number", where="page")


def _number(word: str) -> float:
    found = float(word)
    return found if math.isfinite(found) else _no_number(f"{word:.80}")


def _whole_number(word: str) -> int:
    if len(word) > 20 or abs(int(word)) >= _MOST_NUMBER:
        raise InputError(f"{word:.20}… is too large", where="page")
    return int(word)


def _plain(value: Any) -> Any:
    """Return a number of NumPy's as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _finite(value: Any) -> Any:
    """Leave out numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
