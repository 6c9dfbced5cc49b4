// @ts-check
// A kernel in the page: it answers the messages of widgets/connection.py, over the compiled loop instead of Python.

import { comparison } from "./compare_answers.js";
import { Connection } from "./connection.js";
import { forking } from "./fork_answers.js";
import { createLayerEngine } from "./layers_engine.js";
import { LineFeed } from "./lines_feed.js";
import { ANSWERS as OF_LINES } from "./lines_answers.js";
import { createLineEngine } from "./lines_engine.js";
import { createMessageEngine } from "./messages_engine.js";
import { needsPython } from "./needs.js";
import { ANSWERS as OF_OPERATIONS } from "./operations_answers.js";
import { OperationFeed } from "./operations_feed.js";
import { HASHING, Session } from "./session.js";
import { Simulation } from "./simulation.js";
import { inSlices } from "./steps.js";

/** @import { Answers, Engine, Feed, Live, PageKernel, StaticAnswer } from "./types" */

/**
 * @typedef {object} Kind of an engine
 * @property {(live: Live, module: WebAssembly.Module, columns: Uint8Array[]) => Engine} create
 * @property {Answers} answers
 * @property {new (session: Session) => Feed} feed
 */

/** @type {Record<string, Kind>} */
const ENGINES = {
  cacheline: { create: createLineEngine, answers: OF_LINES, feed: LineFeed },
  messages: { create: createMessageEngine, answers: OF_OPERATIONS, feed: OperationFeed },
  layers: { create: createLayerEngine, answers: OF_OPERATIONS, feed: OperationFeed },
};

/** @type {Answers} what every engine's views may ask */
const OF_ALL = {
  ...comparison, ...forking,
  hash: async ({ sim, session }, { at_ps }) => {
    const past = session.at(at_ps);
    return [{ hash: await (past === sim ? session.alone({ ...HASHING, quiet: true }, () => past.state_hash()) : inSlices(past.state_hash())) }, []];
  },
};

/**
 * The kernel of a page.
 * @param {{ live: Live }} header
 * @param {DataView[]} columns
 * @returns {Promise<PageKernel>}
 */
export async function createKernel({ live }, columns) {
  const bytes = columns.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength));
  const module = await WebAssembly.compile(/** @type {Uint8Array<ArrayBuffer>} */ (bytes[live.wasm]));
  return kernelOf(Simulation.of(ENGINES[live.engine].create(live, module, bytes)), columns);
}

/**
 * A kernel over a simulation: also of a fork, beside the one that it was made of.
 * @param {Simulation} sim
 * @param {DataView[]} columns
 * @returns {PageKernel}
 */
export function kernelOf(sim, columns) {
  const { live } = sim.engine;
  const { answers, feed } = ENGINES[live.engine];
  /** @type {Set<(message: object, buffers: DataView[]) => void>} */
  const listeners = new Set();
  const session = new Session(sim);
  const own = new feed(session);
  const connection = new Connection(own, { ...OF_ALL, ...answers }, fixedAnswers(live.answers, columns), (message, buffers) =>
    listeners.forEach((listener) => listener(message, buffers)),
  );
  return {
    sim, session, feed: own,
    send: (message) => connection.receive(message),
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async rest() {
      for (let waits = true; waits; waits = connection.waiting || session.running) {
        await session.rest();
        await connection.rest();
      }
    },
  };
}

/**
 * Answers that never change, made by Python.
 * @param {StaticAnswer[]} answers
 * @param {DataView[]} columns
 * @returns {Answers}
 */
function fixedAnswers(answers, columns) {
  /** @param {object} options */
  const key = (options) => JSON.stringify(Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1)));
  /** @type {Record<string, Map<string, StaticAnswer>>} */
  const found = {};
  for (const one of answers) (found[one.question] ??= new Map()).set(key(one.options), one);
  return Object.fromEntries(
    Object.entries(found).map(([question, known]) => [
      question,
      (_, options) => {
        const answer = known.get(key(options)) ?? needsPython(question);
        return [answer.message, answer.buffers.map((number) => columns[number])];
      },
    ]),
  );
}
