// Moves the engine of a packed page in Node: for each line with a number of events it goes there, and writes a
// line with the time, the counts, why it stopped, and the hash of every table.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, file, maker] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(`${folder}/${name}.js`).href);
const { read } = await module("packed");
const { finish } = await module("live/steps");
const { header, columns } = await read(readFileSync(file, "utf-8"));
const bytes = columns.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength));
const code = await WebAssembly.compile(bytes[header.live.wasm]);
const create = (await module(`live/${maker}_engine`))[maker === "messages" ? "createMessageEngine" : "createLayerEngine"];
let engine = create(header.live, code, bytes);
for await (const line of createInterface({ input: process.stdin })) {
  const why = engine.go({ steps: Number(line) });
  const hash = (data) => createHash("sha256").update(data).digest("hex");
  const tables = Object.fromEntries(Object.values(engine.tables).map(({ name, bytes: data }) => [name, hash(data())]));
  const simulated = engine.simulated().map(([name, rows, data]) => [name, rows, hash(data)]);
  process.stdout.write(`${JSON.stringify({ why, counts: engine.counts(), next_ps: engine.next_ps(), tables, simulated })}\n`);
  engine = finish(engine.copy(true)); // a copy goes on as the original would
}
