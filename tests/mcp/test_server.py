"""The server of tools, with the SDK's client: in memory, over standard input and output, and on a port."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

mcp = pytest.importorskip("mcp")
from mcp import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters  # noqa: E402

import astranb as anb  # noqa: E402
from astranb.core.errors import InputError  # noqa: E402
from astranb.mcp import Limits, Tools  # noqa: E402
from astranb.mcp.server import server_of  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
RING = {"infra": "dgx-h100", "collective": "all_reduce", "size": "8 KiB", "algorithm": "ring"}
COMMAND = [sys.executable, "-m", "astranb", "mcp"]
ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY)}


async def said(client, name, /, **arguments):
    """Call a tool; returns whether it failed, and its answer or the text of the error."""
    found = await client.call_tool(name, arguments)
    (text,) = [part.text for part in found.content]
    if found.is_error:
        return True, text
    assert json.loads(text) == found.structured_content
    return False, found.structured_content


def hash_of_a_run():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    sim.run()
    return sim.now_ps, sim.state_hash()


def test_a_client_in_memory(tmp_path):
    async def main():
        async with Client(server_of(Tools(Limits(tmp_path)))) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert listed["inspect"].annotations.read_only_hint
            assert not listed["step"].annotations.read_only_hint
            assert await said(client, "state") == (True, "tools: no simulation is open; call open first")
            bad = await said(client, "open", options={**RING, "algorithm": "rign"})
            assert bad == (True, "all_reduce has no algorithm 'rign'; did you mean 'ring'?")
            await said(client, "open", options=RING)
            assert (await said(client, "step", n=10))[1]["events"] == 10
            assert (await said(client, "nothing"))[0]

    asyncio.run(main())


def test_a_client_starts_the_command(tmp_path):
    (tmp_path / "link").symlink_to("/etc")
    server = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--time-limit", "20s"], env=ENVIRONMENT, cwd=tmp_path
    )

    async def main():
        async with Client(server) as client:
            assert not (await said(client, "open", options=RING))[0]
            answers = await asyncio.gather(*(said(client, "step", n=1000) for _ in range(3)))
            assert sorted(answer["events"] for _, answer in answers) == [1000, 2000, 3000]
            assert (await said(client, "back", n=2500))[1]["events"] == 500
            assert (await said(client, "run"))[1]["why"] == "end"
            state = (await said(client, "state"))[1]
            assert (state["now_ps"], state["state_hash"]) == hash_of_a_run()
            failed, text = await said(client, "open", saved="link/passwd")
            assert failed
            assert "outside of the folder" in text
            assert (await said(client, "step", n=-1))[0]
            saved = (await said(client, "save", file="run"))[1]
            assert saved["file"] == "run"

    asyncio.run(main())
    assert anb.Simulation.load(tmp_path / "run").state_hash() == hash_of_a_run()[1]


def test_a_port_of_this_machine_needs_its_secret_and_its_own_pages(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "--port", "0"], cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        url = process.stderr.readline().strip()
        assert url.startswith("http://127.0.0.1:")

        async def main():
            async with Client(url) as client:
                assert not (await said(client, "open", options=RING))[0]
            async with Client(url) as client:  # the simulation is the server's
                assert (await said(client, "run"))[1]["why"] == "end"

        asyncio.run(main())
        root = url.rpartition("/")[0]
        json_type = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        for where, headers, code in [
            (f"{root}/mcp", {}, 404),
            (root, {}, 404),
            (url, {"Host": "example.org"}, 421),
            (url, {"Origin": "http://example.org"}, 403),
        ]:
            request = urllib.request.Request(where, b"{}", {**json_type, **headers})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=20)
            assert refused.value.code == code
            refused.value.close()
        port = url.split(":")[2].partition("/")[0]
        taken = subprocess.run(
            [*COMMAND, "--port", port], cwd=tmp_path, env={**os.environ, **ENVIRONMENT},
            check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert taken.returncode == 2
        assert taken.stderr.startswith(f"astranb: port {port}: ")
        assert taken.stderr.count("\n") == 1
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


def test_bad_options_are_one_line(capsys):
    from astranb.cli import main

    for arguments, says in [
        (["--port", "x"], "not a whole number"),
        (["--port", "99999"], "out of range"),
        (["--time-limit", "0s"], "--time-limit: 0 s is out of range"),
        (["--time-limit", "25"], "--time-limit: time '25' has no unit"),
        (["--memory-limit", "much"], "--memory-limit: cannot read size"),
    ]:
        assert main(["mcp", *arguments]) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1


# In a notebook's kernel -------------------------------------------------------------


def test_an_assistant_drives_the_simulation_of_a_cell(tmp_path):
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    threads, seen = set(), []

    async def main():
        workbench = anb.Workbench(sim)
        served = anb.mcp.serve(sim, folder=tmp_path)
        workbench.session.attach(lambda: seen.append(sim.events))
        sim.subscribe(lambda _: threads.add(threading.get_ident()))
        assert served.url in str(served)

        async with Client(served.url) as client:
            assert "open" not in {tool.name for tool in (await client.list_tools()).tools}
            assert (await said(client, "step", n=1000))[1]["events"] == 1000
            sim.step(500)  # a cell
            assert (await said(client, "run"))[1]["why"] == "end"
        await asyncio.get_running_loop().run_in_executor(None, served.close)

    asyncio.run(main())
    assert (sim.now_ps, sim.state_hash()) == hash_of_a_run()
    assert threads == {threading.get_ident()}
    assert 1000 in seen
    assert seen[-1] == sim.events


def test_outside_of_a_notebook_it_says_so():
    sim = anb.Simulation("switch:gpus=2", anb.collectives.all_reduce("1 KiB", "ring"))
    with pytest.raises(InputError, match="call it in a cell"):
        anb.mcp.serve(sim)
    with pytest.raises(InputError, match="'str' is not a Simulation"):
        anb.mcp.serve("dgx-h100")  # type: ignore[arg-type]


CELL = """
import astranb as anb
sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
served = anb.mcp.serve(sim, seconds=1)
print(served.url)
"""


def test_a_real_kernel_answers_between_cells(tmp_path):
    manager = pytest.importorskip("jupyter_client.manager")
    kernel, client = manager.start_new_kernel(cwd=tmp_path, env={**os.environ, **ENVIRONMENT})

    def cell(text):
        printed = []
        client.execute_interactive(
            text, timeout=120, output_hook=lambda said: printed.append(said["content"].get("text", ""))
        )
        return "".join(printed).strip()

    async def main(url):
        async with Client(url) as assistant:
            first = (await said(assistant, "step", n=1000))[1]["events"]
            busy = asyncio.to_thread(cell, "import time; time.sleep(9)")
            task = asyncio.create_task(busy)
            await asyncio.sleep(1)
            refused = await said(assistant, "step", n=1)
            await task
            return first, refused, (await said(assistant, "step", n=1))[1]["events"]

    try:
        first, refused, last = asyncio.run(main(cell(CELL)))
        assert (first, last) == (1000, 1001)
        assert refused == (
            True, "step: the kernel is busy with a cell; wait until it is done, or interrupt it"
        )  # fmt: skip
        assert cell("print(sim.events)") == "1001"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
