// Forks the run of a page in Node, moves and changes both, and writes what differs as JSON: a packed page and the steps on
// the command line.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, file, steps] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(`${folder}/${name}.js`).href);
const { read } = await module("packed");
const { createKernel } = await module("live/kernel");
const { createModel } = await module("model");
const { difference } = await module("live/lines_difference");
const { Unready, finish, isSteps } = await module("live/steps");
const { PageWorkbench } = await module("live/page_workbench");
const { LinkedClock } = await module("live/linked_clock");
const { Session } = await module("live/session");
const { header, columns } = await read(readFileSync(file, "utf-8"));
const kernel = await createKernel(header, columns);
const { sim } = kernel;
const runs = { a: sim, b: null };
const found = [];

/** What each of the two shows of the other one. */
function beside() {
  const benches = Object.values(runs).map((run) => ({ sim: run, session: new Session(run), model: createModel({}, () => {}).model, select() {} }));
  const clock = new LinkedClock(...benches);
  const marks = benches.map(({ model }) => model.get("_beside"));
  clock.close();
  return marks;
}

/** What a view is answered while a fork stands beside the run, and when it closes that. */
async function closed() {
  const bench = new PageWorkbench(kernel, () => createModel({}, () => {}), columns);
  await bench.fork({});
  const answers = [];
  const deafen = kernel.listen((answer) => answers.push(answer.error ?? answer.other));
  for (const options of [{}, { part: true }, {}]) kernel.send({ type: "ask", id: 1, question: "difference", options });
  await kernel.rest();
  deafen();
  return [...answers, bench.linked === null];
}

/** What a call returns; what it needs first is worked out. */
function ready(call) {
  for (;;) {
    try {
      return call();
    } catch (error) {
      if (!(error instanceof Unready)) throw error;
      finish(error.steps);
    }
  }
}

for (const [run, verb, ...options] of JSON.parse(steps)) {
  if (verb === "fork") runs.b = finish(sim.fork());
  else if (verb === "difference") found.push(ready(() => difference(runs.a, runs.b, options[0])));
  else if (verb === "beside") found.push(beside());
  else if (verb === "closed") found.push(await closed());
  else {
    const steps = runs[run][verb](...options);
    if (isSteps(steps)) finish(steps);
  }
}
process.stdout.write(JSON.stringify(found), () => process.exit()); // else the session's channel keeps it
