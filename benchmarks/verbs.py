"""Times of what people do with a run, in any Python: CPython, or Pyodide as a page has it.

``main`` prints a line of JSON: seconds by name. It imports nothing but what a page has.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

__all__ = ["main"]

_RUNS = 3


def main(_given: str) -> None:
    """Time everything, the imports first."""
    found: dict[str, float] = {}

    def timed(
        name: str, call: Callable[[], Any], *, before: Callable[[], Any] | None = None, runs: int = _RUNS
    ) -> Any:
        done = None
        for _ in range(runs):
            if before is not None:
                before()
            began = perf_counter()
            done = call()
            found[name] = min(found.get(name, float("inf")), perf_counter() - began)
        return done

    timed("import numpy", _numpy, runs=1)
    timed("import astranb and its views", _views, runs=1)
    import astranb as anb
    from astranb.widgets.connection import BrowserConnection
    from astranb.widgets.feed import feed_of
    from astranb.widgets.session import session_of
    from astranb.widgets.views import answers_of

    def view(sim: Any) -> Any:
        feed = feed_of(session_of(sim))
        return BrowserConnection(feed, answers_of(feed), feed.session.ask, lambda _message, _buffers: None)

    def tell(sim: Any, **message: Any) -> None:
        view(sim).receive(None, message, [])

    ring = anb.collectives.all_reduce("1 MiB", "ring")
    sim = timed("build 8 GPUs, 1 MiB ring", lambda: anb.Simulation("dgx-h100", ring))
    timed("  first state", lambda: tell(sim, type="ready"))
    timed("  step of one event", sim.step)
    sim.step(500_000)
    timed("  back by one event", sim.back)
    timed("  inspect a GPU", lambda: tell(sim, type="inspect", path="gpu[3]"))
    timed("  1.7 million events to the end", sim.run, before=sim.reset)
    timed("  go to the middle", lambda: sim.goto(sim.now_ps // 2), before=sim.run)
    sim.run()
    timed("  explain at the end", lambda: str(sim.fork().result.explain()), runs=1)
    file = Path(tempfile.mkdtemp(), "run.anb")
    timed("  save", lambda: sim.save(file))
    timed("  load", lambda: anb.Simulation.load(file))
    many = timed(
        "build 64 GPUs, 1 MiB ring",
        lambda: anb.Simulation("single-tier:server=dgx-h100,servers=8", ring),
    )
    timed("  first state of 64 GPUs", lambda: tell(many, type="ready"))
    many.step(200_000)
    timed("  back by one event of 64 GPUs", many.back)
    thousand = timed(
        "build 1,024 GPUs by messages",
        lambda: anb.Simulation(
            "clos:servers=128", anb.collectives.all_reduce("64 MiB", "ring"), fidelity="analytical"
        ),
        runs=1,
    )
    timed("  1,024 GPUs by messages to the end", thousand.run, runs=1)
    print(json.dumps(found))


def _numpy() -> None:
    import numpy as np

    np.arange(3)


def _views() -> None:
    import astranb as anb
    from astranb.widgets import connection, feed, session, views

    _ = (anb.Simulation, anb.collectives.all_reduce, connection, feed, session, views)


if __name__ == "__main__":
    main("")
