// @ts-check
// Lets the page do its other work between two slices of a run.

/** @typedef {(call: () => void) => void} Post */

/** Posts messages to itself. @returns {Post} */
function createPost() {
  const channel = new MessageChannel();
  /** @type {(() => void)[]} */
  const waiting = [];
  channel.port1.onmessage = () => waiting.shift()?.();
  return (call) => {
    waiting.push(call);
    channel.port2.postMessage(null);
  };
}

/** Browsers delay timers by 4 ms, so a message is posted; Node has `setImmediate`, and does not end while a channel is open. */
const soon = /** @type {{ setImmediate?: Post }} */ (globalThis).setImmediate ?? createPost();

/** Resolves when other work has been done. @returns {Promise<void>} */
export const breathe = () =>
  new Promise((resolve) => {
    soon(resolve);
  });

/** @param {number} ms @returns {Promise<void>} */
export const sleep = (ms) =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
