"""``TraceTimeline``: recorded traces in a notebook cell, by rank, thread and stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from astranb.chakra import RecordedTracks, Times, Trace, present_ranks, read, read_ranks
from astranb.core.errors import InputError

from .assets import RECORDED, RECORDED_MODULES, STYLES
from .connection import BrowserConnection
from .feed import TraceFeed
from .trace_page import write_trace_timeline
from .views import answers_of

__all__ = ["TraceTimeline"]


class TraceTimeline(anywidget.AnyWidget):
    """Look at when the nodes of traces ran, as recorded: a band for each rank, its threads and streams below.

    Only what is in sight is sent: of a million nodes some thousand spans, or how much of each column is what.

    Parameters
    ----------
    what : Trace, sequence of Trace, str or Path
        A trace, those of all ranks of a job, a file, or PREFIX of ``PREFIX.RANK.et``.
    times : sequence of Times, optional
        Others than the recorded ones.

    Raises
    ------
    InputError
        A file cannot be read.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.compute("backward", duration_us=3, after=step.compute("forward", duration_us=2))
    >>> anb.TraceTimeline(step.build())
    <TraceTimeline of trace: 2 spans of 1 rank>
    """

    _esm = RECORDED
    _css = STYLES
    _modules = traitlets.Dict().tag(sync=True)
    _engine = traitlets.Unicode("trace").tag(sync=True)
    _selection = traitlets.Unicode("").tag(sync=True)
    _cursor_ps = traitlets.Float(-1.0).tag(sync=True)
    _window_ps = traitlets.List().tag(sync=True)
    _panels = traitlets.Dict().tag(sync=True)  # pinned ranks

    def __init__(
        self, what: Trace | Sequence[Trace] | str | Path, *, times: Sequence[Times] | None = None
    ) -> None:
        traces, title = _traces(what)
        super().__init__(_modules=RECORDED_MODULES)
        self.tracks = RecordedTracks(traces, times)
        self.feed = TraceFeed(self.tracks, title)
        self.connection = BrowserConnection(
            self.feed, answers_of(self.feed), self._command, self._send_message
        )
        self.on_msg(self.connection.receive)

    def __repr__(self) -> str:
        """One line: what it shows."""
        return f"<TraceTimeline of {self.feed.title}: {self.feed.counts}>"

    def to_html(self, path: str | Path) -> Path:
        """Write the timeline as one file for any browser, without a network; of at most 400,000 spans."""
        return write_trace_timeline(self.tracks, path, title=self.feed.title)

    def _command(self, command: str, **_options: Any) -> None:
        """Nothing moves time."""
        if command not in {"pause", "set_speed"}:
            raise InputError(f"{command}: a recording does not move", where="timeline")

    def _send_message(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        self.send(content, buffers=buffers)


def _traces(what: Trace | Sequence[Trace] | str | Path) -> tuple[list[Trace], str]:
    """The traces to show, and what they are called."""
    if isinstance(what, Trace):
        return [what], Path(what.source).name
    if isinstance(what, str | Path):
        name = Path(what).name
        return (read_ranks(what) if not Path(what).is_file() and present_ranks(what) else [read(what)]), name
    traces = list(what)
    wrong = next((one for one in traces if not isinstance(one, Trace)), None)
    if wrong is not None or not traces:
        hint = "TraceTimeline(read('step.et')), or the PREFIX of all ranks"
        raise InputError(f"no trace: {wrong!r:.60}", where="TraceTimeline", hint=hint)
    return traces, Path(traces[0].source).name
