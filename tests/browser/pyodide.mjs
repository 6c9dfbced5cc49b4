// node pyodide.mjs RUNTIME FILE ARGUMENT: run a Python file's main() in Pyodide, with what a page holds of Python.
import { readFileSync, readdirSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [runtime, file, argument] = process.argv.slice(2);
await import(pathToFileURL(`${runtime}/limit_memory.js`).href);
const { loadPyodide } = await import(pathToFileURL(`${runtime}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: runtime, env: { HOME: "/tmp", PYTHONDONTWRITEBYTECODE: "1" } });
for (const entry of readdirSync(`${runtime}/site`, { recursive: true, withFileTypes: true })) {
  const folder = entry.parentPath.replace(`${runtime}/site`, "/lib/python3.13/site-packages");
  if (entry.isDirectory()) python.FS.mkdirTree(`${folder}/${entry.name}`);
  else python.FS.writeFile(`${folder}/${entry.name}`, new Uint8Array(readFileSync(`${entry.parentPath}/${entry.name}`)));
}
python.FS.mkdirTree("/given");
python.FS.mount(python.FS.filesystems.NODEFS, { root: argument }, "/given");
python.registerJsModule("page_port", {
  sum: ([bytes]) => bytes.reduce((one, other) => one + other, 0),
  size: (text) => text.length,
});
// A page's Python works off messages one by one: nothing plays while it answers.
python.runPython("import asyncio; asyncio._set_running_loop(None)");
python.globals.set("text", readFileSync(file, "utf8"));
python.runPython(`space = {"__name__": "scenario", "__file__": ${JSON.stringify(file)}}; exec(compile(text, ${JSON.stringify(file)}, "exec"), space); space["main"]("/given")`);
