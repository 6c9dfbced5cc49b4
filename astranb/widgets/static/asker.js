// @ts-check
// Questions to the kernel: one at a time of each kind, the latest that is wanted, few a second.

/** @import { Options, Question, Reply, Store } from "./types" */

const EVERY_MS = 60; // between two of a kind
export const TIMES = 3; // while a run plays, the kernel has so many times the time of an answer before the next of its kind
const SETTLE_MS = 150; // after playing, the picture at rest comes first
const SELDOM_MS = 2000; // while the simulation runs at full speed: Pause waits for an answer that is being worked out
const SELDOM_TIMES = 20; // as TIMES

/**
 * Asks a question whenever something else is wanted, and keeps the last answer.
 *
 * `answered(reply, error)` gets every answer; one of them is null. A hidden view asks nothing:
 * call `want` where a frame is drawn.
 * @template {Question} Q
 * @param {Store} store
 * @param {Q} question
 * @param {{ every?: number, answered?: (...outcome: [Reply<Q>, null] | [null, Error]) => void }} [settings]
 */
export function createAsker(store, question, { every = EVERY_MS, answered = () => {} } = {}) {
  /** @type {string | null} key of what was wanted last */
  let wanted = null;
  /** @type {{ options: Options, about: string } | null} to be asked as soon as that may be */
  let next = null;
  let busy = false;
  let asked = -Infinity;
  let took = 0; // ms, of the last answer
  let timer = 0;
  let number = 0; // an answer to what has been forgotten is none
  const closing = new AbortController(); // a view that is closed does not wait for its answer
  const asker = {
    /** @type {Reply<Q> | null} the last answer, with the `options` and the key (`about`) that it answers */
    reply: null,
    error: "",
    get open() {
      return busy || next !== null;
    },
    /** Ask unless this is what was wanted last. @param {Options} options @param {string} [key] */
    want(options, key = JSON.stringify(options)) {
      if (key !== wanted) {
        wanted = key;
        next = { options, about: key };
      }
      if (next) go();
    },
    /** The next wish is asked even if it is the last one again. */
    again() {
      wanted = null;
    },
    forget() {
      number += 1;
      wanted = next = asker.reply = null;
      asker.error = "";
    },
    destroy() {
      clearTimeout(timer);
      next = null;
      closing.abort();
    },
  };
  function go() {
    clearTimeout(timer);
    if (busy || !next) return;
    const fast = store.state?.playing && store.state.fast;
    const least = fast ? Math.max(SELDOM_MS, SELDOM_TIMES * took) : store.state?.playing ? Math.max(every, TIMES * took) : every;
    const wait = Math.max(asked + least, store.rested + SETTLE_MS) - performance.now();
    if (wait > 0) {
      timer = setTimeout(go, wait);
      return;
    }
    const now = next;
    const mine = number;
    next = null;
    busy = true;
    asked = performance.now();
    store.ask(question, now.options, closing.signal).then(
      (reply) => {
        if (mine !== number) return;
        asker.reply = { ...reply, ...now };
        asker.error = "";
        answered(asker.reply, null);
      },
      (error) => {
        if (mine !== number) return;
        asker.error = error.message;
        answered(null, error);
      },
    ).finally(() => {
      busy = false;
      took = performance.now() - asked;
      store.emit("change");
      go();
    });
  }
  return asker;
}

/**
 * Asks the kernel to change something, and shows its error in an element.
 * @param {Store} store
 * @param {HTMLElement} alert
 * @param {() => void} after called when the answer has come
 */
export function createRequests(store, alert, after) {
  /** @param {unknown} error null: nothing is wrong */
  function fail(error) {
    alert.hidden = !error;
    alert.textContent = error instanceof Error ? error.message : "";
  }
  /** Whether it was done. @param {"apply" | "fork"} question @param {Options} options */
  async function request(question, options) {
    fail(null);
    try {
      await store.ask(question, options);
      return true;
    } catch (error) {
      fail(error);
      return false;
    } finally {
      after();
      store.emit("change");
    }
  }
  return { fail, request };
}

/** What a question about the cursor adds to its options, and what it depends on. @param {Store} store */
export function momentOf(store) {
  const { following, cursor, state } = store;
  return { at_ps: following ? null : cursor, key: `${following ? "now" : cursor} of ${state?.events}` };
}

/** A number for each message about the state: it is different when anything may be. @param {Store} store */
export const stateNumber = (store) => store.state?.seq ?? 0;
