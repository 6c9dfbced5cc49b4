// Questions to the kernel: one at a time of each kind, the latest that is wanted, few a second.

const EVERY_MS = 60; // between two of a kind
const SETTLE_MS = 150; // after playing, the picture at rest comes first
const SELDOM_MS = 2000; // while the simulation runs as fast as it can: Pause waits for an answer that is being worked out

/**
 * Asks a question whenever something else is wanted, and keeps the last answer.
 *
 * `answered(reply, error)` hears of every answer; one of them is null. What nobody draws asks nothing:
 * call `want` where a frame is drawn.
 */
export function createAsker(store, question, { every = EVERY_MS, answered = () => {} } = {}) {
  let wanted = null; // key of what was wanted last
  let next = null; // {options, about} to be asked as soon as that may be
  let busy = false;
  let asked = -Infinity;
  let timer = 0;
  let number = 0; // an answer to what has been forgotten is none
  const asker = {
    reply: null, // the last answer, with the `options` and the key (`about`) that it answers
    error: "",
    get open() {
      return busy || next !== null;
    },
    /** Ask unless this is what was wanted last. */
    want(options, key = JSON.stringify(options)) {
      if (key !== wanted) {
        wanted = key;
        next = { options, about: key };
      }
      if (next) go();
    },
    /** The next wish is asked even if it is the last one again. */
    again: () => (wanted = null),
    forget() {
      number += 1;
      wanted = next = asker.reply = null;
      asker.error = "";
    },
    destroy: () => clearTimeout(timer),
  };
  function go() {
    clearTimeout(timer);
    if (busy || !next) return;
    const hurried = store.state?.playing && store.state.fast;
    const due = asked + (hurried ? Math.max(every, SELDOM_MS) : every);
    const wait = Math.max(due, store.rested + SETTLE_MS) - performance.now();
    if (wait > 0) {
      timer = setTimeout(go, wait);
      return;
    }
    const now = next;
    const mine = number;
    next = null;
    busy = true;
    asked = performance.now();
    store.ask(question, now.options).then(
      (reply) => hear({ ...reply, ...now }, null),
      (error) => hear(null, error),
    ).finally(() => {
      busy = false;
      store.emit("change");
      go();
    });
    function hear(reply, error) {
      if (mine !== number) return;
      asker.reply = reply ?? asker.reply;
      asker.error = error ? error.message : "";
      answered(reply, error);
    }
  }
  return asker;
}

/** What a question about the cursor adds to its options, and what it depends on. */
export function momentOf(store) {
  const { following, cursor, state } = store;
  return { at_ps: following ? null : cursor, key: `${following ? "now" : cursor} of ${state.events}` };
}

/** GPU and thread block (-1: all of its) that a selection names; null where it names none. */
export function selectedBlock(store) {
  const [, head, block] = store.selection.match(/^(.*?)(?:\.block\.(\d+)|\.sm\.\d+)?$/);
  const short = head.match(/^gpu\[(\d+)\]$/);
  const gpu = short ? Number(short[1]) : store.scene?.boxes.find((box) => box.rank >= 0 && box.name === head)?.rank;
  return gpu === undefined ? null : { gpu, block: block === undefined ? -1 : Number(block) };
}
