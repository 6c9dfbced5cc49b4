// Resolves paths in a page's machine in Node: a packed page on the command line; on stdin a list of paths. To stdout goes
// what each names, or the text of the error; then all names of objects, and of their parts.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, file] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(`${folder}/${name}.js`).href);
const { read } = await module("packed");
const { createLineEngine } = await module("live/lines_engine");
const { objectNames, partNames, resolve } = await module("live/lines_paths");
const { header, columns } = await read(readFileSync(file, "utf-8"));
const bytes = columns.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength));
const engine = createLineEngine(header.live, await WebAssembly.compile(bytes[header.live.wasm]), bytes);
const found = JSON.parse(readFileSync(0, "utf-8")).map((path) => {
  try {
    const { kind, rows, path: full } = resolve(path, engine);
    return { kind, rows, path: full };
  } catch (error) {
    return { error: String(error) };
  }
});
const names = objectNames(engine);
const parts = names.map((path) => Object.entries(partNames(path, engine)).map(([kind, all]) => [kind, [...all]]));
process.stdout.write(JSON.stringify({ found, names, parts }));
