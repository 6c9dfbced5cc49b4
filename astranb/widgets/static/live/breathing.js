// @ts-check
// Lets the page do its other work between two slices of a run.

const channel = new MessageChannel();
/** @type {(() => void)[]} */
const waiting = [];
channel.port1.onmessage = () => waiting.shift()?.();

/** @param {() => void} call */
function post(call) {
  waiting.push(call);
  channel.port2.postMessage(null);
}

/** Browsers let timers wait for 4 ms, so a message is posted; Node would take no other work between two messages. */
const soon = /** @type {{ setImmediate?: typeof post }} */ (globalThis).setImmediate ?? post;

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
