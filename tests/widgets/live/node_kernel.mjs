// Runs a page's kernel in Node: a packed page on the command line, messages as lines of JSON on stdin, and for each
// line a line with all that the kernel has sent until it rests. A list of messages is sent one after another, with the
// page's other work between. Answered here: "tables", with a checksum of each table, and "drop", after which the kernel is
// that of a plan on the machine of the page.
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { crc32 } from "node:zlib";

const [folder, file] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(`${folder}/${name}.js`).href);
const { read } = await module("packed");
const { createKernel } = await module("live/kernel");
const { planKernel } = await module("live/plan_run");
const { readPlan } = await module("live/plan_read");
const page = await read(readFileSync(file, "utf-8"));
let sent = [];
let { columns } = page;
let kernel = listened(await createKernel(page.header, columns));
function listened(one) {
  one.listen((message, buffers) => {
    sent.push([message, buffers.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength).toString("base64"))]);
  });
  return one;
}
async function opened(shared) {
  const plan = readPlan(shared.file, shared.name);
  const made = await planKernel(page.header, page.columns, plan, shared);
  [kernel, columns] = [listened(made.kernel), made.columns];
  return plan;
}
async function drop({ name, data, size }) {
  try {
    const { notes } = await opened({ name, file: Buffer.from(data, "base64"), size });
    sent.push([{ notes, live: { ...kernel.sim.engine.live, tables: [], plan: undefined } }, []]);
  } catch (error) {
    if (error.constructor.name !== "InputError") throw error;
    sent.push([{ error: error.message }, []]);
  }
}
/** @type {(tables: object) => Record<string, number>} */
const checksums = (tables) => Object.fromEntries(Object.values(tables).map((table) => [table.name, crc32(table.bytes())]));
// What the page's own controls do, without their buttons.
const { createModel } = await module("model");
const { enterState, stateNow, stateOf } = await module("live/shared_state");
const { fileOf, readSavedFile, stateOfFile } = await module("live/saved_file");
const { isSamePlan } = await module("live/shared_plan");
const { finish, inSlices } = await module("live/steps");
const { linkOf, stateOfLink } = await module("live/state_link");
const { model } = createModel({ _selection: "", _cursor_ps: -1, _window_ps: [], _panels: {} }, () => {});
const bytes = () => columns.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength));
const { inputs } = page.header.live;
/** Show the run of a plan, or the page's own, unless it is shown already. */
async function show(plan) {
  if (isSamePlan(plan, kernel.sim.engine.live.plan)) return;
  if (plan) await opened(plan);
  else [kernel, columns] = [listened(await createKernel(page.header, page.columns)), page.columns];
}
let slow_ms = 0; // that a replay's slice takes at least
const { Driver } = await module("live/driver");
const { _slice } = Driver.prototype;
Driver.prototype._slice = function (...limits) {
  for (const until = performance.now() + slow_ms; performance.now() < until;);
  return _slice.apply(this, limits);
};
const controls = {
  save: ({ path }) => writeFileSync(path, Buffer.concat(finish(fileOf(kernel, bytes(), stateOf(kernel, model))))),
  open: async ({ path }) => {
    const found = await inSlices(readSavedFile(new Uint8Array(readFileSync(path))));
    if (found.plan) await show(found.plan);
    await enterState(kernel, model, await inSlices(stateOfFile(found, kernel, bytes())), "opened");
  },
  copy_link: async () => sent.push([{ type: "link", fragment: await linkOf(await stateNow(kernel, model), inputs, kernel.sim.engine.live.plan) }, []]),
  follow_link: async ({ fragment }) => {
    const { state, plan } = await stateOfLink(fragment, inputs);
    await show(plan);
    await enterState(kernel, model, state, "followed");
  },
  budget: ({ bytes: most }) => void Object.assign(kernel.sim.driver.history, { budget_bytes: most }),
  slow: ({ ms }) => void (slow_ms = ms),
  kept: () => sent.push([{ type: "kept", checkpoints: kernel.sim.driver.history.checkpoints.map((one) => [one.counts.events, one.new_bytes]) }, []]),
  shown: () => sent.push([{ type: "shown", ...stateOf(kernel, model) }, []]),
};
async function control(message) {
  try {
    await controls[message.type](message);
  } catch (error) {
    sent.push([{ type: "refused", text: error.message }, []]);
  }
}
async function take(message) {
  if (Object.hasOwn(controls, message.type)) await control(message);
  else if (message.type === "tables") sent.push([checksums(kernel.sim.engine.tables), []]);
  else if (message.type === "drop") await drop(message);
  else if (message.type === "sleep") await new Promise((resolve) => setTimeout(resolve, message.ms));
  else kernel.send(message);
}
const lines = createInterface({ input: process.stdin });
lines.on("close", () => process.exit()); // whoever asked is gone; what plays would keep this alive
for await (const line of lines) {
  sent = [];
  try {
    for (const message of [JSON.parse(line)].flat()) await take(message);
    await kernel.rest();
  } catch (error) {
    sent.push([{ type: "thrown", text: error.stack }, []]);
  }
  process.stdout.write(`${JSON.stringify(sent)}\n`);
}
