// Lowers plans on the machine of a page in Node: a packed page on the command line; each line of stdin is a request
// { plan, name, size }, with the plan in base64, and is answered with the tables that a page's kernel begins with, and
// with the messages of that kernel.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, file] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(`${folder}/${name}.js`).href);
const { read } = await module("packed");
const { createKernel } = await module("live/kernel");
const { readPlan } = await module("live/plan_read");
const { planned } = await module("live/plan_run");
const page = await read(readFileSync(file, "utf-8"));
const base64 = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength).toString("base64");

async function answer({ plan: data, name, size, messages = [] }) {
  const plan = readPlan(Buffer.from(data, "base64"), name);
  const { header, columns } = planned(page.header, page.columns, plan, size);
  const tables = header.live.tables.map((table) => ({ name: table.name, rows: table.rows, parts: table.parts, data: table.parts.length ? base64(columns[table.data]) : "" }));
  const sent = [];
  if (messages.length) {
    const kernel = await createKernel(header, columns);
    kernel.listen((message) => sent.push(message));
    for (const message of messages) {
      kernel.send(message);
      await kernel.rest?.();
    }
  }
  return { notes: plan.notes, collective: plan.collective, about: header.live.about, tables, sent };
}

for await (const line of createInterface({ input: process.stdin })) {
  let found;
  try {
    found = await answer(JSON.parse(line));
  } catch (error) {
    found = error.name === "InputError" ? { error: error.message } : { thrown: error.stack };
  }
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
