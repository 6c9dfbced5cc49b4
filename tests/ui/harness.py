"""A real JupyterLab in a real Chromium, and what tests and benchmarks do with them.

`serve` and `chromium` start them; `open_notebook`, `run_all`, `run_cell`, `wait_idle`,
`evaluate`, `set_theme` and `screenshot` are what a person does.
"""

from __future__ import annotations

import ast
import functools
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import psutil
import pytest
from playwright.sync_api import Browser, Locator, Page, Playwright, Position, expect, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "build" / "ui"
LAB = (sys.executable, "-c", "import sys, astranb.cli.lab as lab; sys.exit(lab.command(sys.argv[1:]))")
"""Command that `astranb lab` runs."""

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("dark", "light")

TIMEOUT_S = 60
"""Time that anything may take before the test fails."""

CHROMIUM_OPTIONS = (
    "--no-sandbox",  # root in a container has no user namespaces
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers give /dev/shm 64 MB
    # What Chromium asks of the network by itself:
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)

HARMLESS: tuple[str, ...] = (
    # A widget's output is cleared while JupyterLab still has a message for it (its size has changed).
    r"Cannot read properties of null \(reading 'processLuminoMessage'\)",
)
"""Regular expressions of console errors that JupyterLab logs by itself."""


@dataclass
class Lab:
    """A running JupyterLab.

    Attributes
    ----------
    url : str
        Its address, without a slash at the end.
    token : str
        What lets a browser in.
    root : Path
        The folder it shows; holds ``notebooks/``.
    log : Path
        What the server wrote.
    """

    url: str
    token: str
    root: Path
    log: Path


@dataclass
class Record:
    """Logs and requests of a page.

    Attributes
    ----------
    console : list of str
        Every line of the browser's console.
    errors : list of str
        Errors among them that are not `HARMLESS`, and exceptions that nobody caught.
    external : list of str
        Addresses on other hosts that were asked for.
    over : bool
        Whether nothing is recorded any more.
    """

    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    over: bool = False

    def watch(self, page: Page) -> None:
        """Record from now on what a page does."""
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("pageerror", lambda error: self._error(f"uncaught: {error.stack or error}"))
        page.on("request", lambda request: self._request(request.url))
        page.on("websocket", lambda socket: self._request(socket.url))

    def _console(self, kind: str, text: str) -> None:
        if self.over:
            return
        self.console.append(f"{kind}: {text}")
        if kind == "error":
            self._error(text)

    def _error(self, text: str) -> None:
        if not self.over and not any(re.search(pattern, text) for pattern in HARMLESS):
            self.errors.append(text)

    def _request(self, url: str) -> None:
        parts = urlsplit(url)
        if not self.over and parts.scheme in {"http", "https", "ws", "wss"} and parts.hostname != "127.0.0.1":
            self.external.append(url)


class Host(ABC):
    """Host of a workbench: a notebook's cell, or a page that simulates (``hosts.py``).

    Attributes
    ----------
    page : Page
        The tab.
    prefix : str
        What names of its pictures begin with.
    """

    page: Page
    prefix = ""

    @abstractmethod
    def show(self, *cells: str, width: int = 1400, height: int = 1500) -> Locator:
        """Open the workbench that some cells make under the name ``workbench``, in a window of a size."""

    @abstractmethod
    def evaluate(self, expression: str) -> Any:
        """Return a value in Python, of ``sim`` and ``workbench`` as they are now; changes nothing."""

    @abstractmethod
    def known(self, expression: str) -> Any:
        """Return a value in Python that is the same whatever happens."""

    @abstractmethod
    def change(self, expression: str) -> None:
        """Do something in Python with ``sim`` and ``workbench``."""

    @abstractmethod
    def afresh(self, expression: str) -> Locator:
        """Do something in Python with ``sim``, and show a new workbench, as the last cell makes it."""

    @abstractmethod
    def again(self) -> Locator:
        """Save the workbench, and open the file in a new one."""

    @abstractmethod
    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""

    def _shown(self) -> Locator:
        bench = self.page.locator(".anb-workbench").first
        expect(bench).to_have_attribute("data-events", re.compile(r"\d+"))
        return bench


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder as ``python -m http.server`` does; gives its address."""
    handler = functools.partial(_Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def serve(home: Path, root: Path) -> Iterator[Lab]:
    """Start JupyterLab as people do, with options for the tests, and end it with Ctrl-C.

    Parameters
    ----------
    home : Path
        An empty folder for its configuration and its log.
    root : Path
        The empty folder that it shows; gets copies of the notebooks.
    """
    (root / "notebooks").mkdir()
    for notebook in (REPOSITORY / "notebooks").glob("*.ipynb"):
        shutil.copyfile(notebook, root / "notebooks" / notebook.name)
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    for name in folders:
        (home / name).mkdir()
    environment = {**os.environ, **{name: str(home / name) for name in folders}}
    log = home / "server.log"
    command = (
        *(*LAB, "--no-browser", f"--port={free_port()}", f"--ServerApp.root_dir={root}"),
        *("--ServerApp.websocket_ping_interval=0", "--LabApp.expose_app_in_browser=True"),
    )
    with log.open("w") as errors:
        server = subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield _ready(server, root, log)
    finally:
        _end(server)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium."""
    with sync_playwright() as playwright:
        browser = _launch(playwright)
        yield browser
        browser.close()


WATCH = """() => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel
    if (kernel && !kernel.unhandled) {
        kernel.unhandled = new Set()
        kernel.anyMessage.connect((_, { msg, direction }) => {
            const { msg_type: type, msg_id: id } = msg.header
            if (direction === 'send' && type === 'comm_msg') kernel.unhandled.add(id)
            const idle = type === 'status' && msg.content.execution_state === 'idle'
            if (idle) kernel.unhandled.delete(msg.parent_header.msg_id)
        })
    }
    return kernel
}"""
"""Script that returns the kernel of the open notebook; it records what views send until it is handled."""

HANDLED = f"""async () => {{
    const kernel = ({WATCH})()
    const sent = [...kernel?.unhandled ?? []]
    const patience = Date.now() + 10000  // a kernel that restarts never says so
    while (sent.some(id => kernel.unhandled.has(id)) && Date.now() < patience) {{
        await new Promise(resolve => setTimeout(resolve, 5))
    }}
    return kernel
}}"""
"""Script that returns the kernel once it has handled what views have sent.

JupyterLab sends their messages and a cell's code on different channels: the later one may be handled first.
"""


def open_notebook(page: Page, lab: Lab, source: str | Path | Sequence[str]) -> str:
    """Open a notebook and wait until its kernel is idle.

    Parameters
    ----------
    page : Page
        A tab.
    lab : Lab
        The server.
    source : str, Path or sequence of str
        A notebook's path below the server's root, or the cells of a new notebook.

    Returns
    -------
    str
        The notebook's path below the server's root.
    """
    path = str(source) if isinstance(source, str | Path) else _write_notebook(lab.root, source)
    if page.evaluate("() => window.cleared === true"):  # by close_notebooks
        page.evaluate(
            """path => {
                window.cleared = false
                return window.jupyterapp.commands.execute('docmanager:open', { path }).then(() => null)
            }""",
            path,
        )
    else:
        page.goto(f"{lab.url}/lab/tree/{quote(path)}?reset&token={lab.token}")
    page.wait_for_function(
        """path => {
            const panel = window.jupyterapp?.shell.currentWidget
            return panel?.context?.path === path && panel.sessionContext?.isReady
        }""",
        arg=path,
    )
    page.evaluate(f"() => void ({WATCH})()")
    wait_idle(page)
    return path


def close_notebooks(page: Page) -> None:
    """Leave nothing of what a test did in a tab with JupyterLab; its next notebook opens there.

    Parameters
    ----------
    page : Page
        A tab.
    """
    for other in page.context.pages:
        if other != page:
            other.close()
    page.evaluate(
        """async () => {
            for (const panel of [...window.jupyterapp.shell.widgets('main')]) {
                if (panel.sessionContext) {
                    // Views go first: what they still send, somebody receives.
                    for (const cell of panel.content.widgets) cell.model.outputs?.clear()
                    await new Promise(resolve => setTimeout(resolve, 200))
                    await panel.sessionContext.shutdown().catch(() => null)
                    panel.context.model.dirty = false  // or it asks whether to save
                }
                panel.close()
            }
            window.localStorage.clear()
            window.sessionStorage.clear()
            window.running = 0
            window.cleared = true
        }"""
    )
    page.mouse.move(0, 0)
    page.set_viewport_size({"width": 1400, "height": 1000})


def run_all(page: Page, *, wait: bool = True) -> None:
    """Run all cells of the open notebook, and fail where one raises.

    Parameters
    ----------
    page : Page
        A tab with a notebook.
    wait : bool
        Whether to wait for the end; without, the test goes on while cells run.
    """
    _start(page, "notebook:run-all-cells")
    if wait:
        wait_idle(page)


def run_cell(page: Page, index: int, *, wait: bool = True) -> None:
    """Run one cell of the open notebook.

    Parameters
    ----------
    page : Page
        A tab with a notebook.
    index : int
        Its number, from 0.
    wait : bool
        Whether to wait for its end, and fail where it raises.
    """
    page.evaluate("index => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = index }", index)
    _start(page, "notebook:run-cell")
    if wait:
        wait_idle(page)


def wait_idle(page: Page, *, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until no cell of the open notebook runs and its kernel is idle.

    Parameters
    ----------
    page : Page
        A tab with a notebook.
    timeout_s : float
        How long to wait.

    Raises
    ------
    AssertionError
        A cell has raised that is not tagged ``raises-exception``; the message is the traceback.
    """
    page.wait_for_function(
        """() => {
            const panel = window.jupyterapp.shell.currentWidget
            const busy = ({ model }) => model.type === 'code' && model.executionState === 'running'
            const kernel = panel.sessionContext.session?.kernel
            return !window.running && kernel?.status === 'idle' && !panel.content.widgets.some(busy)
        }""",
        timeout=timeout_s * 1000,
    )
    raised = page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets
            .filter(cell => cell.model.type === 'code')
            .filter(cell => !(cell.model.getMetadata('tags') ?? []).includes('raises-exception'))
            .flatMap(cell => cell.model.outputs.toJSON())
            .filter(output => output.output_type === 'error')
            .map(output => output.traceback.join('\\n'))"""
    )
    assert not raised, re.sub(r"\x1b\[[\d;]*m", "", "\n".join(raised))


def evaluate(page: Page | Host, expression: str) -> Any:
    """Ask the kernel of the open notebook for a value, after all that its views have sent.

    Parameters
    ----------
    page : Page or Host
        A tab with a notebook, or a workbench's host.
    expression : str
        A Python expression, evaluated among the notebook's variables.

    Returns
    -------
    object
        Its value, through JSON.

    Raises
    ------
    AssertionError
        The expression raises.
    """
    if isinstance(page, Host):
        return page.evaluate(expression)
    reply = page.evaluate(
        f"""async value => {{
            const kernel = await ({HANDLED})()
            const request = {{code: '', silent: true, store_history: false, user_expressions: {{value}}}}
            return (await kernel.requestExecute(request).done).content.user_expressions.value
        }}""",
        f"__import__('json').dumps({expression})",
    )
    assert reply["status"] == "ok", f"{expression}: {reply['ename']}: {reply['evalue']}"
    return json.loads(ast.literal_eval(reply["data"]["text/plain"]))


OPEN = """
import time
import astranb as anb
from IPython.display import clear_output, display
sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
sim.run()
workbench = anb.Workbench(sim)
"""
BARE = """
import time
from IPython.display import clear_output, display
import ipywidgets
workbench = ipywidgets.Label("bare")
"""
"""The first cell for what is nobody's fault: a label is opened and closed."""
CYCLES = """
for _ in range({cycles}):
    clear_output(wait=True)
    display(workbench)
    time.sleep(0.04)
clear_output()
"""
"""A view is opened and closed again, as a cell that is run anew does it."""


def kept(page: Page) -> dict[str, float]:
    """Count what the page holds after garbage collection: nodes, listeners, bytes."""
    page.wait_for_timeout(1000)
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.enable")
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return metrics


def execute(page: Page, code: str) -> None:
    """Have the kernel of the open notebook run something, and do not wait for it."""
    page.evaluate(
        f"""async code => {{
            const kernel = await ({HANDLED})()
            kernel.requestExecute({{code, silent: true, store_history: false}}).done.catch(() => {{}})
        }}""",
        code,
    )


def known(page: Page | Host, expression: str) -> Any:
    """Ask for a value that is the same whatever happens."""
    return page.known(expression) if isinstance(page, Host) else evaluate(page, expression)


def point(page: Page | Host, bench: Locator, path: str) -> Position:
    """Return the position of a node on the topology's canvas."""
    x, y = known(
        page,
        "[(b.x / l.width, b.y / l.height) for l in [workbench.feed.layout] for b in l.boxes "
        f"if b.name == sim.inspect('{path}')['path']][0]",
    )
    canvas = bench.locator(".anb-picture > canvas").bounding_box()
    assert canvas
    return Position(x=x * canvas["width"], y=y * canvas["height"])


def on_link(page: Page | Host, bench: Locator, box: str, rail: str) -> Position:
    """Return a position of the link from a box up to a rail on the topology's canvas: close to the rail."""
    at, wide, port, across = known(
        page,
        "[(box.x / l.width, box.width, l.ports[k], l.width) for l in [workbench.feed.layout] "
        "for k, (a, b, _) in enumerate(l.bundles) for box in [l.boxes[a]] "
        f"if (box.name, l.boxes[b].name) == (sim.inspect('{box}')['path'], '{rail}')][0]",
    )
    canvas = bench.locator(".anb-picture > canvas").bounding_box()
    assert canvas
    scale = canvas["width"] / across
    beside = 4  # links up are on the right of the middle
    y = point(page, bench, rail)["y"] + 16
    return Position(x=at * canvas["width"] + port * wide * min(scale, 1.3) + beside, y=y)


def until(page: Page | Host, holds: Callable[[], object], what: str) -> None:
    """Look again and again until something holds; the test fails with the words where it never does."""
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end, what
        (page.page if isinstance(page, Host) else page).wait_for_timeout(50)


def becomes(page: Page | Host, expression: str) -> None:
    """Wait until something holds in the kernel."""
    until(page, lambda: evaluate(page, f"bool({expression})"), expression)


def painted(canvas: Locator, least: int = 12) -> None:
    """Wait until a canvas shows more than some number of colours."""
    colours = """canvas => {
        if (!canvas.width || !canvas.height) return 0
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
        return new Set(new Uint32Array(data.buffer)).size
    }"""
    until(canvas.page, lambda: canvas.evaluate(colours) > least, f"{canvas} shows {least} colours at most")


_UNCOVERED = "() => !document.getElementById('jupyterlab-splash')"


def set_theme(page: Page, theme: Theme) -> None:
    """Change JupyterLab's theme and wait until the page shows it.

    Parameters
    ----------
    page : Page
        A tab with JupyterLab.
    theme : {"light", "dark"}
        Which.
    """
    # JupyterLab covers the page while it changes, and takes the cover off 200 ms later: once for each change,
    # so that it raises an error where a busy page has begun the next one before.
    page.wait_for_function(_UNCOVERED)
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
        f"JupyterLab {theme.capitalize()}",
    )
    light = "true" if theme == "light" else "false"
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=light)
    page.wait_for_function(_UNCOVERED)


def screenshot(page: Page | Host, name: str) -> Path:
    """Save a picture of the tab as ``build/ui/NAME.png``.

    Parameters
    ----------
    page : Page or Host
        A tab, or a workbench's host.
    name : str
        The picture's name.

    Returns
    -------
    Path
        The picture.
    """
    if isinstance(page, Host):
        return screenshot(page.page, page.prefix + name)
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    return path


def _start(page: Page, command: str) -> None:
    """Start a command of JupyterLab; `wait_idle` waits for its end."""
    # Its promise ends with the last cell, so that it must not be awaited here.
    page.evaluate(
        f"""async command => {{
            await ({HANDLED})()
            const change = by => {{ window.running = (window.running ?? 0) + by }}
            change(1)
            window.jupyterapp.commands.execute(command).finally(() => change(-1))
        }}""",
        command,
    )


def _write_notebook(root: Path, cells: Sequence[str]) -> str:
    """Write a notebook of code cells and return its name."""
    name = f"test-{time.monotonic_ns()}.ipynb"
    document = {
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "execution_count": None,
                "metadata": {},
                "outputs": [],
                "source": source,
            }
            for number, source in enumerate(cells)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (root / name).write_text(json.dumps(document))
    return name


def _launch(playwright: Playwright) -> Browser:
    """Start Chromium, or say in one line why not."""
    found = subprocess.run(
        ("sh", str(REPOSITORY / "scripts" / "browser.sh")), capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.fail(found.stderr.strip(), pytrace=False)
    return playwright.chromium.launch(
        executable_path=found.stdout.strip(), args=list(CHROMIUM_OPTIONS), timeout=TIMEOUT_S * 1000
    )


def free_port() -> int:
    """Find a port that nobody listens on (the server takes another where it is gone again)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ready(server: subprocess.Popen[str], root: Path, log: Path) -> Lab:
    """Read the address that `astranb lab` prints, and wait until it answers."""
    assert server.stdout
    line = server.stdout.readline()  # ends, with nothing, where the process does
    match = re.search(r"(http://127\.0\.0\.1:\d+)\S*token=(\w+)", line)
    if not match:
        pytest.fail(f"JupyterLab printed {line!r} and no address\n{log.read_text()}", pytrace=False)
    url, token = match.groups()
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/api/status?token={token}", timeout=5):
                return Lab(url, token, root, log)
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"JupyterLab does not answer\n{log.read_text()}", pytrace=False)


def end_kernels(lab: Lab) -> None:
    """Shut down every kernel of the server."""
    authorization = {"Authorization": f"token {lab.token}"}
    everything = urllib.request.Request(f"{lab.url}/api/sessions", headers=authorization)
    with urllib.request.urlopen(everything, timeout=TIMEOUT_S) as answer:
        sessions = json.load(answer)
    for session in sessions:
        url = f"{lab.url}/api/sessions/{session['id']}"
        one = urllib.request.Request(url, headers=authorization, method="DELETE")
        with suppress(urllib.error.HTTPError):  # it has ended by itself meanwhile
            urllib.request.urlopen(one, timeout=TIMEOUT_S).close()


def largest_tab() -> int:
    """Return the memory of the largest process of a tab that this process has started."""
    sizes = [0]
    for process in psutil.Process().children(recursive=True):
        try:
            if "--type=renderer" in process.cmdline():
                sizes.append(process.memory_info().rss)
        except psutil.Error:  # it has ended
            continue
    return max(sizes)


def _end(server: subprocess.Popen[str]) -> None:
    """End a server and its kernels, gently at first."""
    family = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
    server.send_signal(signal.SIGINT)
    try:
        server.wait(15)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    for process in family:
        if process.is_running():
            process.kill()
    if server.stdout:
        server.stdout.close()
