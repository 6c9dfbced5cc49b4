"""WebAssembly of an entry: an object that is a module, without a linker."""

import json
import os
import subprocess
import sys

import pytest

from astranb.core.errors import AstranbError
from astranb.core.jit import JIT
from astranb.core.wasm import exported, library_of
from tests.core.test_compiler import TOY
from tests.node import NODE

pytestmark = pytest.mark.skipif(not JIT, reason="ASTRANB_JIT=0: nothing is compiled")


COMPILED = """
import sys
from pathlib import Path
from astranb.core.compiler import lower
from astranb.core.wasm import build_module

text = lower(ENTRY.function, ENTRY.parts, ENTRY.symbol, portable=True)
Path(sys.argv[1]).write_bytes(build_module(text, ENTRY.symbol))
print(outcome(ENTRY))
"""

RUN = """
import { readFileSync } from "node:fs";
const code = new WebAssembly.Module(readFileSync(process.argv[2]));
const memory = new WebAssembly.Memory({ initial: 4 });
const env = {};
for (const { name, kind } of WebAssembly.Module.imports(code)) {
  if (kind === "memory") env[name] = memory;
  else if (kind === "global") env[name] = new WebAssembly.Global({ value: "i32", mutable: true }, 65536);
  else if (kind === "table") env[name] = new WebAssembly.Table({ element: "anyfunc", initial: 0 });
  else env[name] = () => { throw new Error(name); };
}
const { astranb_toy } = new WebAssembly.Instance(code, { env }).exports;
const [lengths, rows, out] = [131072, 131088, 150000];
const view = new DataView(memory.buffer);
view.setBigInt64(lengths, 1000n, true);
view.setBigInt64(lengths + 8, 1n, true);
for (let k = 0; k < 1000; k++) view.setInt32(rows + 12 * k + 8, k % 251, true);
const call = () => Number(astranb_toy(lengths, rows, out));
const found = [call(), call(), Number(view.getBigInt64(out, true))];
let sum = 0;
for (let k = 0; k < 1000; k++) sum += Number(view.getBigInt64(rows + 12 * k, true));
console.log(JSON.stringify([...found, sum]));
"""


def test_a_module_does_what_machine_code_does(tmp_path):
    source, module, script = tmp_path / "toy.py", tmp_path / "toy.wasm", tmp_path / "run.mjs"
    source.write_text(TOY + COMPILED)
    script.write_text(RUN)
    environment = {**os.environ, "ASTRANB_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(source), str(module)]
    native = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    assert NODE, "Node comes with the group `test`"
    page = subprocess.run([NODE, str(script), str(module)], check=True, capture_output=True, text=True).stdout
    assert json.loads(page) == json.loads(native)


def test_a_module_holds_nothing_for_a_linker(tmp_path):
    source, module = tmp_path / "toy.py", tmp_path / "toy.wasm"
    source.write_text(TOY + COMPILED)
    environment = {**os.environ, "ASTRANB_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, str(source), str(module)], check=True, capture_output=True, env=environment
    )
    code = module.read_bytes()
    assert code.startswith(b"\0asm\1\0\0\0")
    assert not any(name in code for name in (b"linking", b"reloc.", b"target_features"))


def test_an_object_without_the_entry_is_refused():
    with pytest.raises(AstranbError, match="an object without astranb_toy"):
        exported(b"\0asm\1\0\0\0", "astranb_toy")


def test_a_library_has_no_data_and_says_that_it_is_one(tmp_path):
    source, module = tmp_path / "toy.py", tmp_path / "toy.wasm"
    source.write_text(TOY + COMPILED)
    environment = {**os.environ, "ASTRANB_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, str(source), str(module)], check=True, capture_output=True, env=environment
    )
    code = library_of(module.read_bytes())
    assert code[8:].startswith(b"\0\x0f\x08dylink.0")  # a custom section, first of all
    listed = (
        "const m = new WebAssembly.Module(require('fs').readFileSync(process.argv[1]));"
        "console.log(JSON.stringify([WebAssembly.Module.imports(m).map(one => [one.kind, one.name]),"
        "WebAssembly.Module.exports(m).map(one => one.name)]))"
    )
    file = tmp_path / "library.wasm"
    file.write_bytes(code)
    assert NODE
    found = subprocess.run([NODE, "-e", listed, str(file)], check=True, capture_output=True, text=True)
    imports, exports = json.loads(found.stdout)
    assert ["memory", "memory"] in imports
    assert all(name.startswith("astranb_no_") for kind, name in imports if kind == "function")
    assert exports == ["astranb_toy"]
