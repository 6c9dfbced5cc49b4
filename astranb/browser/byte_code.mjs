// node byte_code.mjs PYODIDE JOBS.json: archives of Python files to archives of byte code, by Pyodide's own Python.
// A job: { from, to, lib: where its files will lie, beside: files whose text is kept beside their byte code,
// documented: whether all keep their documentation }.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodide, jobs] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: pyodide });
python.runPython(readFileSync(new URL("byte_code.py", import.meta.url), "utf8"));
const compiled = python.globals.get("compiled");
for (const { from, to, lib, beside, documented } of JSON.parse(readFileSync(jobs, "utf8"))) {
  python.FS.writeFile("/tmp/from.zip", new Uint8Array(readFileSync(from)));
  compiled.callKwargs("/tmp/from.zip", "/tmp/to.zip", lib, beside, { documented });
  writeFileSync(to, python.FS.readFile("/tmp/to.zip"));
}
