"""Firefox, driven by WebDriver BiDi: Playwright cannot drive the Firefox of a Linux distribution.

Protocol: https://www.w3.org/TR/webdriver-bidi/
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import websocket

from tests.ui.harness import PICTURES, REPOSITORY, TIMEOUT_S, free_port

__all__ = ["Firefox", "firefox"]

_PREFERENCES = {
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    # Whatever a page asks for on a network goes to a port that nobody listens on.
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.proxy.socks": "127.0.0.1",
    "network.proxy.socks_port": 9,
    "remote.active-protocols": 1,
}


class Firefox:
    """One tab of a running Firefox.

    Attributes
    ----------
    errors : list of str
        What its pages logged as errors.
    """

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket, self._sent = socket, 0
        self.errors: list[str] = []
        self._command("session.new", capabilities={})
        self._command("session.subscribe", events=["log.entryAdded"])
        (self._context, *_) = self._command("browsingContext.getTree")["contexts"]

    def _command(self, method: str, **params: Any) -> Any:
        """Send a command, and wait for its result."""
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.errors.append(str(message["params"]["text"]))
            if message.get("id") == self._sent:
                assert message["type"] == "success", f"{method}: {message.get('message')}"
                return message["result"]

    @property
    def _tab(self) -> str:
        return str(self._context["context"])

    def open(self, url: str) -> None:
        """Go to an address, and wait until it is loaded."""
        self._command("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def resize(self, width: int, height: int) -> None:
        """Set the size of what is seen of the page, in CSS pixels."""
        self._command(
            "browsingContext.setViewport", context=self._tab, viewport={"width": width, "height": height}
        )

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page: a number, a text, a truth value, or None."""
        result = self._command(
            "script.evaluate", expression=expression, target={"context": self._tab}, awaitPromise=True
        )
        assert result["type"] == "success", result["exceptionDetails"]["text"]
        return result["result"].get("value")

    def wait(self, expression: str, wanted: Any = True) -> None:
        """Wait until an expression has a value."""
        until = time.monotonic() + TIMEOUT_S
        while (found := self.evaluate(expression)) != wanted:
            assert time.monotonic() < until, f"{expression} is {found!r}, not {wanted!r}"
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, as a mouse does."""
        find = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"{find} !== null && !{find}.disabled")
        self.evaluate(f"{find}.scrollIntoView({{ block: 'center' }})")
        x, y = (
            self.evaluate(f"Math.round({find}.getBoundingClientRect().{side} + {find}.{size} / 2)")
            for side, size in (("left", "offsetWidth"), ("top", "offsetHeight"))
        )
        moves = [
            {"type": "pointerMove", "x": x, "y": y},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self._command("input.performActions", context=self._tab, actions=[mouse])

    def screenshot(self, name: str) -> Path:
        """Save a picture of the tab as ``build/ui/NAME.png``."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        found = self._command("browsingContext.captureScreenshot", context=self._tab)
        path.write_bytes(base64.b64decode(found["data"]))
        return path


@contextmanager
def firefox() -> Iterator[Firefox]:
    """Start the system's Firefox without a network."""
    found = subprocess.run(
        ("sh", str(REPOSITORY / "scripts" / "browser.sh"), "firefox"),
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(found.stderr.strip())
    with TemporaryDirectory() as profile:
        chosen = [(json.dumps(name), json.dumps(value)) for name, value in _PREFERENCES.items()]
        Path(profile, "user.js").write_text("\n".join(f"user_pref({a}, {b});" for a, b in chosen))
        port = free_port()
        options = ["--headless", "--no-remote", "--profile", profile, f"--remote-debugging-port={port}"]
        with subprocess.Popen(
            [found.stdout.strip(), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                socket = _connected(port, process)
                yield Firefox(socket)
                socket.close()
            finally:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()


def _connected(port: int, process: subprocess.Popen[bytes]) -> websocket.WebSocket:
    """Wait until Firefox listens."""
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            # Firefox takes no connection that says where it comes from.
            return websocket.create_connection(
                f"ws://127.0.0.1:{port}/session", timeout=TIMEOUT_S, suppress_origin=True
            )
        except OSError:
            assert process.poll() is None, "Firefox has ended"
            assert time.monotonic() < until, "Firefox does not listen"
            time.sleep(0.1)
