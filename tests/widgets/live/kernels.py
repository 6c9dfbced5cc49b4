"""Two kernels side by side: Python's, and a page's in Node. The same messages must get the same answers."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np

import astranb as anb
from astranb.widgets.connection import BrowserConnection
from astranb.widgets.feed import Columns, feed_of
from astranb.widgets.live import live
from astranb.widgets.page import packed
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of

HERE = Path(__file__).parent
STATIC = Path(anb.__file__).parent / "widgets" / "static"

NODE = str(next((p for p in [Path(sys.executable).with_name("node")] if p.exists()), "node"))
"""The one of the group `test`."""

Sent = list[tuple[dict[str, Any], list[bytes]]]


class PythonKernel:
    """The kernel of a notebook, without the notebook."""

    def __init__(self, sim: anb.Simulation) -> None:
        feed: Any = feed_of(session_of(sim))  # of either kind
        self.sim, self.feed = sim, feed
        self._sent: Sent = []
        self.questions = answers_of(feed)
        self.connection = BrowserConnection(
            feed, self.questions, feed.session.ask, lambda meta, buffers: self._sent.append((meta, buffers))
        )
        feed.session.attach(self.connection.changed)

    def send(self, message: dict[str, Any]) -> Sent:
        """Send a message; returns all that comes back, as JSON has it."""
        self._sent = []
        self.connection.receive(None, message, [])
        return [(json.loads(json.dumps(meta)), list(map(bytes, buffers))) for meta, buffers in self._sent]


class NodeKernel:
    """The kernel of a page, in Node."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, message: dict[str, Any] | list[dict[str, Any]]) -> Sent:
        """Send a message, or several without a rest between them; returns what comes back until it rests."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the page's kernel has ended"
        found = [(meta, [base64.b64decode(one) for one in buffers]) for meta, buffers in json.loads(line)]
        for meta, _ in found:
            assert meta.get("type") != "thrown", meta["text"]
        return found

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        """Ask a question that has no columns."""
        ((answer, _),) = self.send({"type": "ask", "id": 1, "question": question, "options": options})
        assert "error" not in answer, answer["error"]
        return answer

    def tables(self) -> dict[str, int]:
        """A checksum of each table, by name."""
        ((found, _),) = self.send({"type": "tables"})
        return found


def checksums_of(sim: anb.Simulation) -> dict[str, int]:
    """A checksum of each table of a native run, by name."""
    machine = sim.engine.machine
    if hasattr(machine, "recording"):  # by cache lines
        tables = {**machine.tables, **machine.recording._asdict()}
    else:
        tables = machine._asdict()
    return {name: crc32(np.ascontiguousarray(table).view(np.uint8).data) for name, table in tables.items()}


def differing(sim: anb.Simulation, page: NodeKernel) -> list[str]:
    """Names of the tables that differ between a native run and a page."""
    theirs = page.tables()
    return [name for name, checksum in checksums_of(sim).items() if theirs[name] != checksum]


@contextmanager
def page_kernel(sim: anb.Simulation) -> Iterator[NodeKernel]:
    """Run the page of a simulation in Node."""
    columns = Columns()
    header = {"live": live(feed_of(session_of(sim)), columns), **columns.placed()}
    with TemporaryDirectory() as folder:
        file = Path(folder, "page.txt")
        file.write_text(packed(header))
        command = [NODE, str(HERE / "node_kernel.mjs"), str(STATIC), str(file)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes, start_new_session=True) as process:
            try:
                yield NodeKernel(process)
            finally:  # the environment's node is a script that runs Node: both end
                os.killpg(process.pid, signal.SIGKILL)


def same(python: PythonKernel, page: NodeKernel, message: dict[str, Any]) -> Sent:
    """Send both kernels a message, and check that what comes back is the same; returns it."""
    mine, theirs = python.send(message), page.send(message)
    assert [meta for meta, _ in theirs] == [meta for meta, _ in mine]
    assert [buffers for _, buffers in theirs] == [buffers for _, buffers in mine]
    return theirs
