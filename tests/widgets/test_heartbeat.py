"""A kernel that does not answer is reported, whatever else comes from it meanwhile."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.node import NODE

STATIC = Path(__file__).resolve().parents[2] / "astranb" / "widgets" / "static"

SCRIPT = """
const timers = new Map();
globalThis.setTimeout = call => (timers.set(timers.size + 1, call), timers.size);
globalThis.clearTimeout = timer => timers.set(timer, null);
const pass = () => [...timers.values()].forEach(call => call?.());

const { watchKernel } = await import(process.argv[1] + "/heartbeat.js");
const said = [];
const sent = [];
const model = { send: (message, callbacks) => sent.push(callbacks) };
if (process.argv[2] === "jupyter") model.widget_manager = { kernel: {} };
const kernel = watchKernel(model, text => text && said.push(text));
const ask = () => kernel.ask({ type: "ask" });
const heard = () => kernel.heard();
const handled = number => sent[number]?.iopub.status({ content: { execution_state: "idle" } });
const starts = number => sent[number]?.iopub.status({ content: { execution_state: "busy" } });
for (const step of process.argv[3].split(" ")) eval(step);
pass();
console.log(said.length);
"""


@pytest.mark.parametrize(
    "host,steps,reported",
    [
        ("jupyter", "ask()", True),
        ("jupyter", "ask() heard() handled(0)", False),
        ("jupyter", "ask() handled(0) heard()", False),
        ("jupyter", "ask() starts(0) handled(0)", True),  # its answer is lost
        ("jupyter", "ask() ask() heard() handled(0)", True),  # the first was answered late: the second is not
        ("jupyter", "ask() handled(0) ask() heard()", True),
        ("jupyter", "ask() ask() heard() handled(1)", False),  # what was handled later, was handled after it
        ("jupyter", "ask() handled(0) heard() heard()", False),
        ("other", "ask()", True),
        ("other", "ask() heard()", False),
    ],
)
def test_a_kernel_that_does_not_answer_is_reported(host, steps, reported):
    assert NODE
    command = [NODE, "--input-type=module", "--eval", SCRIPT, str(STATIC), host, steps]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == f"{int(reported)}\n"
