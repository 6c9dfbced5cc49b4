// Runs a page's kernel in Node: a packed page on the command line, messages as lines of JSON on stdin, and for each
// line a line with all that the kernel has sent until it rests.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, file] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(`${folder}/${name}.js`).href);
const { read } = await module("packed");
const { createKernel } = await module("live/kernel");
const { header, columns } = await read(readFileSync(file, "utf-8"));
const kernel = await createKernel(header, columns);
let sent = [];
kernel.listen((message, buffers) => {
  sent.push([message, buffers.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength).toString("base64"))]);
});
for await (const line of createInterface({ input: process.stdin })) {
  sent = [];
  try {
    kernel.send(JSON.parse(line));
    await kernel.rest?.();
  } catch (error) {
    sent.push([{ type: "thrown", text: error.stack }, []]);
  }
  process.stdout.write(`${JSON.stringify(sent)}\n`);
}
