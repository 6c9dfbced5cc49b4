// @ts-check
// A kernel in the page: it answers the messages of widgets/connection.py, over the compiled loop instead of Python.

import { ANSWERS as OF_LINES } from "./lines_answers.js";
import { createLayerEngine } from "./layers_engine.js";
import { createLineEngine } from "./lines_engine.js";
import { createMessageEngine } from "./messages_engine.js";
import { ANSWERS as OF_OPERATIONS } from "./operations_answers.js";

/** @import { Answers, Engine, Feed, Live, PageKernel, Sim } from "./types" */

/** @type {Record<string, { create: (live: Live, module: WebAssembly.Module, columns: Uint8Array[]) => Engine, answers: Answers }>} */
const ENGINES = {
  cacheline: { create: createLineEngine, answers: OF_LINES },
  messages: { create: createMessageEngine, answers: OF_OPERATIONS },
  layers: { create: createLayerEngine, answers: OF_OPERATIONS },
};

/**
 * @param {{ live: Live }} header
 * @param {DataView[]} columns
 * @returns {Promise<PageKernel>}
 */
export async function createKernel({ live }, columns) {
  const bytes = columns.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength));
  const module = await WebAssembly.compile(/** @type {Uint8Array<ArrayBuffer>} */ (bytes[live.wasm]));
  const { create, answers } = ENGINES[live.engine];
  const engine = create(live, module, bytes);
  const sim = /** @type {Sim} */ ({ engine, now_ps: engine.now_ps });
  const feed = /** @type {Feed} */ (/** @type {object} */ ({ live, sim, session: { sim, at: () => sim } }));
  /** @type {((message: object, buffers: DataView[]) => void)[]} */
  const listeners = [];
  /** @param {object} message @param {DataView[]} buffers */
  const send = (message, buffers = []) => listeners.forEach((listener) => listener(message, buffers));
  /** @type {Record<string, (message: any) => void>} */
  const received = {
    event({ n = 1 }) {
      engine.go({ steps: engine.count("events") + n });
      send({ type: "state", counts: engine.counts() });
    },
    ask({ id, question, options }) {
      const about = { type: "answer", id };
      try {
        const [meta, buffers] = answers[question](feed, options ?? {});
        send({ ...meta, ...about, ...("at_ps" in options ? { at_ps: options.at_ps ?? sim.now_ps() } : {}) }, buffers);
      } catch (error) {
        send({ ...about, error: String(error) });
      }
    },
    inspect({ path, at_ps }) {
      send({ type: "inspection", for: path, found: engine.inspect(path), at_ps: at_ps ?? sim.now_ps() });
    },
  };
  return {
    send: (message) => received[message.type](message),
    listen: (listener) => void listeners.push(listener),
  };
}
