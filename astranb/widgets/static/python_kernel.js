// @ts-check
// The Python of a page: a Worker, what is sent to it and what comes back. It is ended from outside where it never
// answers (somebody's endless loop) or has failed; another one then goes on where the last one was at rest.

/** @import { FromPython, PythonPack } from "./types" */

/**
 * @param {{
 *   source: Blob, packs: PythonPack[], run: Uint8Array,
 *   staged: (stage: string) => void,
 *   ready: (bytes: number) => void,
 *   heard: (message: FromPython, buffers: DataView[]) => void,
 *   failed: (why: string) => void,
 * }} given
 */
export function createPython({ source, packs, run, staged, ready, heard, failed }) {
  const address = URL.createObjectURL(source);
  const worker = new Worker(address);
  let over = false;
  /** When messages were sent that have not been handled yet. @type {number[]} */
  const sent = [];
  let handled = 0; // when the last one was
  let number = 0;
  /** @type {Map<number, { resolve: (answer: { result: any, buffers: DataView[] }) => void, reject: (error: Error) => void }>} */
  const questions = new Map();
  /** @param {string} why */
  function end(why) {
    if (over) return;
    over = true;
    worker.terminate();
    for (const { reject } of questions.values()) reject(new Error(why));
    questions.clear();
  }
  /** @param {string} why */
  function fail(why) {
    if (over) return;
    end(why);
    failed(why);
  }
  worker.onerror = (event) => fail(event.message || "its Worker has ended");
  worker.onmessageerror = () => fail("a message could not be read");
  worker.onmessage = ({ data }) => {
    if (over) return;
    if (data.handled) {
      sent.shift();
      handled = performance.now();
    } else if (data.stage) staged(data.stage);
    else if (data.failed) fail(data.failed);
    else if (data.ready) {
      URL.revokeObjectURL(address);
      ready(data.bytes);
    } else {
      const message = JSON.parse(data.text);
      const buffers = data.buffers.map((/** @type {ArrayBuffer} */ one) => new DataView(one));
      const question = questions.get(message.answer);
      if (!question) heard(message, buffers);
      else {
        questions.delete(message.answer);
        if (message.error) question.reject(new Error(message.error));
        else question.resolve({ result: message.result, buffers });
      }
    }
  };
  worker.postMessage({ packs, run });
  const python = {
    /** How long Python has been at one message, in ms. */
    get busy() {
      return sent.length ? performance.now() - Math.max(sent[0], handled) : 0;
    },
    /** @param {object} message @param {Uint8Array[]} [buffers] */
    send(message, buffers = []) {
      if (over) return;
      sent.push(performance.now());
      worker.postMessage({ text: JSON.stringify(message), buffers });
    },
    /** Have something done that is answered. @param {string} what @param {object} [options] @param {Uint8Array[]} [buffers] @returns {Promise<{ result: any, buffers: DataView[] }>} */
    ask(what, options = {}, buffers = []) {
      if (over) return Promise.reject(new Error("the Python of this page has ended"));
      const ask = (number += 1);
      return new Promise((resolve, reject) => {
        questions.set(ask, { resolve, reject });
        python.send({ ...options, ask, do: what }, buffers);
      });
    },
    end,
  };
  return python;
}
