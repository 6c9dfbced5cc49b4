// A question to the kernel that is asked again when the cursor has moved: one at a time, few a second.

const PAUSE_MS = 120;

/**
 * `look()` asks where something has changed since the last answer, and calls `got(reply)`, or
 * `failed(text)`. Call it when a frame is drawn: what nobody looks at asks nothing.
 */
export function createQuestion(store, question, options, { got, failed }) {
  let asked = ""; // what the last answer is about
  let busy = false;
  let last = 0;
  let timer = 0;
  let number = 0; // of the scene: an answer about another one is none

  async function ask(key) {
    busy = true;
    last = performance.now();
    const scene = number;
    try {
      const at = store.following ? null : store.cursor;
      const reply = await store.ask(question, { ...options(), at_ps: at });
      if (scene === number) got(reply);
    } catch (error) {
      if (scene === number) failed(error.message);
    }
    busy = false;
    asked = scene === number ? key : "";
    store.emit("change");
  }
  return {
    look() {
      if (!store.scene || !store.state || busy) return;
      const moment = store.following ? `event ${store.state.events}` : `time ${store.cursor}`;
      const key = `${moment} of ${store.state.events} ${JSON.stringify(options())}`;
      if (key === asked) return;
      const wait = PAUSE_MS - (performance.now() - last);
      clearTimeout(timer);
      if (wait > 0) timer = setTimeout(() => store.emit("change"), wait);
      else ask(key);
    },
    forget() {
      number += 1;
      asked = "";
    },
    stop: () => clearTimeout(timer),
  };
}

/** GPU and thread block (-1: all of its) that a selection names; null where it names none. */
export function selectedBlock(store) {
  const [, head, block] = store.selection.match(/^(.*?)(?:\.block\.(\d+)|\.sm\.\d+)?$/);
  const short = head.match(/^gpu\[(\d+)\]$/);
  const gpu = short ? Number(short[1]) : store.scene?.boxes.find((box) => box.rank >= 0 && box.name === head)?.rank;
  return gpu === undefined ? null : { gpu, block: block === undefined ? -1 : Number(block) };
}
