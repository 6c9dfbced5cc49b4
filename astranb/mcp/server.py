"""Servers of the tools: over standard input and output, on a port of this machine, or in a notebook."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from astranb.core.display import Displayed
from astranb.core.errors import AstranbError, InputError
from astranb.core.extras import needs_extra
from astranb.core.host import require_threads
from astranb.core.version import __version__
from astranb.sim import Simulation

from .tools import Limits, Tools

if TYPE_CHECKING:
    import uvicorn
    from mcp.server.lowlevel import Server

__all__ = ["ServedSimulation", "serve", "serve_port", "serve_stdio", "server_of"]

_LOOPBACK: Final = "127.0.0.1"
_MOST_REQUEST: Final = 1 << 20  # bytes
_BUSY_S: Final = 5.0  # how long a call waits for the kernel, beyond the time that calls may take

_INSTRUCTIONS: Final = (
    "astranb simulates distributed machine learning exactly: collectives and training steps on GPUs, links "
    "and switches. Open a simulation, then move it (run, step, back, goto), look (state, search, inspect, "
    "tables), ask (why, explain, what_if) and change it (set). Times are picoseconds (ps), sizes bytes, "
    "bandwidths bytes a second, unless text with another unit is given. An error says what to write instead."
)

_Call = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def server_of(tools: Tools, call: _Call | None = None) -> Server[Any]:
    """Return a server of the protocol; it can be connected to in this process, too.

    Parameters
    ----------
    tools : Tools
    call : callable, optional
        Calls a tool in the thread that owns the simulation; ``tools.call`` where that is this one.

    Raises
    ------
    InputError
        The SDK is not installed.
    """
    with needs_extra("a server for assistants"):
        from mcp import types
        from mcp.server.lowlevel import Server

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=one["name"],
                    description=one["description"],
                    input_schema=one["schema"],
                    annotations=types.ToolAnnotations(read_only_hint=one["reads"], open_world_hint=False),
                )
                for one in tools.described()
            ]
        )

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await (call or tools.call)(params.name, params.arguments or {})
        except AstranbError as error:
            return _error(str(error))
        except Exception as error:  # noqa: BLE001 - the server must go on
            traceback.print_exc(file=sys.stderr)
            return _error(f"{type(error).__name__}: {error}")
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], structured_content=answer
        )

    def _error(text: str) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)

    return Server(
        "astranb", version=__version__, instructions=_INSTRUCTIONS, on_list_tools=list_tools,
        on_call_tool=call_tool,
    )  # fmt: skip


def serve_stdio(limits: Limits) -> None:
    """Serve over standard input and output until the client closes it: what editors start.

    Raises
    ------
    InputError
        The SDK is not installed.
    """
    server = server_of(Tools(limits))
    from mcp.server.stdio import stdio_server

    async def main() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    asyncio.run(main())


def serve_port(limits: Limits, port: int, started: Callable[[str], None]) -> None:
    """Serve on a port of this machine until Ctrl-C; other machines cannot reach it.

    Parameters
    ----------
    limits : Limits
    port : int
        0: a free one.
    started : callable
        Takes the address, which holds a secret: another user of the machine does not know it.

    Raises
    ------
    InputError
        The SDK is not installed, or the port is taken.
    """
    web, listening, url = _web(server_of(Tools(limits)), port)
    started(url)
    web.run(sockets=[listening])


def _web(server: Server[Any], port: int) -> tuple[uvicorn.Server, socket.socket, str]:
    """Return a server of a free port, its open socket, and its address."""
    import uvicorn

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_LOOPBACK, port))
        listening.listen()  # whoever connects before the server has started waits
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(reason, where=f"port {port}", hint="use another one, or 0") from None
    path = f"/{secrets.token_urlsafe(16)}"
    # Requests whose Host or Origin is not this machine are refused: a page of the web could send them.
    app = server.streamable_http_app(
        streamable_http_path=path, host=_LOOPBACK, max_request_body_size=_MOST_REQUEST
    )
    web = uvicorn.Server(
        uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=1)
    )
    return web, listening, f"http://{_LOOPBACK}:{listening.getsockname()[1]}{path}"


class ServedSimulation(Displayed):
    """A simulation that an assistant can drive while a person watches it.

    Attributes
    ----------
    url : str
        What the assistant connects to; whoever knows it can drive the simulation.
    """

    def __init__(self, sim: Simulation, limits: Limits) -> None:
        require_threads("anb.mcp.serve")
        self._tools = Tools(limits, sim)
        server = server_of(self._tools, self._call)
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            hint = "call it in a cell of a notebook; elsewhere use astranb mcp"
            raise InputError("no event loop runs here", where="anb.mcp.serve", hint=hint) from None
        self._web, listening, self.url = _web(server, 0)
        self._thread = threading.Thread(
            target=self._web.run, kwargs={"sockets": [listening]}, name="anb.mcp", daemon=True
        )
        self._thread.start()

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool in the kernel's thread, between its other work; give up where that is busy for long."""
        claim = threading.Lock()  # of whoever is first: the kernel that begins, or we who give up

        async def called() -> dict[str, Any]:
            return await self._tools.call(name, arguments) if claim.acquire(blocking=False) else {}

        future = asyncio.run_coroutine_threadsafe(called(), self._loop)
        answer = asyncio.wrap_future(future)
        try:
            await asyncio.wait([answer], timeout=self._tools.limits.seconds + _BUSY_S)
        except asyncio.CancelledError:  # by the client
            future.cancel()
            raise
        if claim.acquire(blocking=False):
            hint = "wait until it is done, or interrupt it"
            raise InputError("the kernel is busy with a cell", where=name, hint=hint)
        return await answer

    def close(self) -> None:
        """Stop serving; the simulation stays as it is."""
        self._web.should_exit = True
        self._thread.join(5)

    def __str__(self) -> str:
        """Address of the server."""
        return f"MCP server of this simulation: {self.url}"


def serve(
    sim: Simulation,
    *,
    seconds: float = Limits.seconds,
    folder: str | Path | None = None,
    python: bool = False,
) -> ServedSimulation:
    """Serve a simulation of this notebook to an assistant; its workbench shows every move.

    The server listens on this machine only, at an address that holds a secret. Its calls run in the kernel,
    between cells and never beside one; Pause in a workbench stops what the assistant runs.

    Parameters
    ----------
    sim : Simulation
    seconds : float
        The most that one call takes.
    folder : str or Path, optional
        The folder of files that the assistant may name; the working directory where not given.
    python : bool
        Whether algorithms as Python, in files there or as text, are executed for it.

    Returns
    -------
    ServedSimulation
        Its ``url`` is what the assistant connects to; ``close()`` stops serving.

    Raises
    ------
    InputError
        The SDK is not installed, or no event loop runs, as outside of notebooks.
    """
    if not isinstance(sim, Simulation):
        raise InputError(
            f"{type(sim).__name__!r} is not a Simulation", where="anb.mcp.serve", hint="give one"
        )
    return ServedSimulation(sim, Limits(Path(folder or Path.cwd()).resolve(), seconds, python=python))
