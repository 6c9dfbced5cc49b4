// node pyodide.mjs RUNTIME FILE ARGUMENT: run a Python file's main() in Pyodide, with what a page holds of Python.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [runtime, file, argument] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${runtime}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: runtime, env: { HOME: "/tmp", PYTHONDONTWRITEBYTECODE: "1" } });
for (const name of ["numpy.zip", "astranb.zip"]) {
  python.unpackArchive(new Uint8Array(readFileSync(`${runtime}/${name}`)), "zip", { extractDir: "/lib/python3.13/site-packages" });
}
python.FS.mkdirTree("/given");
python.FS.mount(python.FS.filesystems.NODEFS, { root: argument }, "/given");
// A page's Python works off messages one by one: nothing plays while it answers.
python.runPython("import asyncio; asyncio._set_running_loop(None)");
python.globals.set("text", readFileSync(file, "utf8"));
python.runPython(`space = {"__name__": "scenario", "__file__": ${JSON.stringify(file)}}; exec(compile(text, ${JSON.stringify(file)}, "exec"), space); space["main"]("/given")`);
