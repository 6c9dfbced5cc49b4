// @ts-check
// Opens a page that simulates (live_page.py): it shows what was recorded at once, starts Python in a Worker, and hands
// the workbench over when Python is ready. What is pressed meanwhile is kept, and done then.

import { createModel } from "./model.js";
import { decode, followTheme, unpackBytes } from "./packed.js";
import { createPageControls } from "./page_controls.js";
import { createPython } from "./python_kernel.js";
import { createRecordedKernel } from "./recorded_kernel.js";
import { make, makeButton } from "./theme.js";

/** @import { FromPython, LiveHeader, Model, PythonPack, ToKernel, Traits } from "./types" */

const LOOKING = new Set(["ready", "read", "away", "fine", "timeline", "inspect", "ask"]);
const SHARED = /** @type {const} */ (["_selection", "_cursor_ps", "_window_ps", "_panels", "_sizes", "_redraw_hz"]);
const MOST_HELD = 100;
const PATIENCE_MS = 6000; // with an answer that takes long
const EDITOR_MS = 12_000; // and with somebody's program, which Python itself ends nowhere else
const WATCH_MS = 500;
const REST_MS = 500;

/** What this browser lacks to simulate; empty: nothing. */
const lacking = () => ["WebAssembly", "Worker"].find((name) => !(name in globalThis)) ?? "";

/** The packs that the page holds or names, and the text of its Worker. */
async function runtimeOf() {
  const missing = lacking();
  if (missing) throw new Error(`this browser has no ${missing}`);
  /** @type {PythonPack[]} */
  const packs = [];
  let scripts = new Uint8Array();
  for (const one of document.querySelectorAll("script[data-pack]")) {
    const { pack, from } = /** @type {HTMLElement} */ (one).dataset;
    const text = one.textContent?.trim() ?? "";
    const address = from && new URL(from, document.baseURI).href;
    one.remove(); // its text takes as much memory as what is in it
    if (pack !== "scripts") packs.push(address ? { address } : { text });
    else if (!address) scripts = decode(text);
    else {
      const answer = await fetch(address).catch(() => null);
      if (!answer?.ok) throw new Error(`its runtime is not at ${address}`);
      scripts = new Uint8Array(await answer.arrayBuffer());
    }
  }
  const { columns } = await unpackBytes(scripts);
  const own = document.getElementById("anb-worker")?.textContent ?? "";
  return { packs, source: new Blob([...columns, "\n", own], { type: "text/javascript" }) };
}

/** Open the page's simulation. @param {HTMLElement} host @param {string} text */
export async function openPage(host, text) {
  followTheme();
  if (!("DecompressionStream" in globalThis)) throw new Error("this browser has no DecompressionStream: use a newer one");
  const bringing = runtimeOf(); // beside what is drawn
  bringing.catch(() => {}); // said below
  const { header, columns } = await unpackBytes(decode(text));
  const page = /** @type {LiveHeader} */ (header);
  const url = URL.createObjectURL(new Blob([page.entry], { type: "text/javascript" }));
  const widget = import(url);
  widget.finally(() => URL.revokeObjectURL(url));
  const still = host.querySelector("noscript")?.textContent ?? "";
  const note = make("span", { class: "anb-starting", role: "status" });
  const stop = makeButton("Stop", () => restart("it was stopped"), { hidden: "", title: "end what Python does, and go on where the run was at rest last" });
  const bar = make("div", { class: "anb-page-bar" }, note, stop);
  const place = make("div");
  host.replaceChildren(bar, place);
  const run = columns[page.run];
  const runBytes = new Uint8Array(run.buffer, run.byteOffset, run.byteLength);

  /** @typedef {{ model: Model, send: (message: object, buffers?: DataView[]) => void }} Modelled */
  /** @type {Map<number, Modelled>} those that Python has, by its number */
  const benches = new Map();
  /** @type {ReturnType<typeof createPython> | null} */
  let python = null;
  /** @type {"starting" | "ready" | "broken"} */
  let state = "starting"; // of Python
  let shown = 0;
  let leave = () => {};
  /** Values that come from Python are not sent back. */
  let taking = false;
  /** @type {ToKernel[]} */
  const held = [];
  let moment = ""; // where the run was at rest last, as a link of Python's
  let keeping = 0; // timer
  /** What Python shows first. @type {FromPython | null} */
  let opened = null;
  let edited = false; // something of the editor's is to be answered
  let refusal = ""; // where Python cannot run here

  /** @param {string} words @param {boolean} [wrong] */
  function say(words, wrong = false) {
    note.textContent = words;
    note.classList.toggle("anb-error", wrong);
  }

  /** A model whose messages go to a workbench of Python's. @param {number} number @param {Partial<Traits>} values @returns {Modelled} */
  function modelled(number, values) {
    const made = createModel({ _modules: page.modules, _other: "", _beside: null, ...values }, (message) => toBench(number, message));
    /** @param {typeof SHARED[number]} name */
    const tell = (name) => () => {
      if (state === "ready" && !taking) python?.send({ bench: number, traits: { [name]: made.model.get(name) } });
    };
    for (const name of SHARED) made.model.on(`change:${name}`, tell(name));
    benches.set(number, made);
    return made;
  }
  /** @param {number} number @param {ToKernel} message */
  function toBench(number, message) {
    if (state === "ready") python?.send({ bench: number, message });
    else if (LOOKING.has(message.type)) recorded?.(message);
    else hold(message);
  }
  /** Do without Python: what was recorded stays. @param {string} why */
  function breakOff(why) {
    state = "broken";
    refusal = `Python cannot run in this page: ${why}`;
    say(`${refusal}. What was recorded stays.`, true);
    for (const message of held.splice(0)) refuse(message);
  }
  /** @param {ToKernel} message */
  function refuse(message) {
    first.send(message.type === "ask" ? { type: "answer", id: message.id, error: refusal } : { type: "error", text: refusal });
  }
  /** @param {ToKernel} message */
  function hold(message) {
    if (state === "broken") refuse(message);
    else if (held.length < MOST_HELD) held.push(message);
    starting();
  }

  /** Show a workbench; gives what takes it away. @param {Modelled} one @param {HTMLElement} el */
  async function show(one, el) {
    const { default: widgetOf } = await widget;
    const shownBy = widgetOf();
    const widgetHost = {
      /** @param {string} reference */
      getWidget: async (reference) => ({
        /** @param {{ el: HTMLElement, signal?: AbortSignal }} where */
        async render({ el: beside, signal }) {
          const other = benches.get(Number(reference.split(":")[1]));
          if (!other) return;
          const close = await show(other, beside);
          signal?.addEventListener("abort", close);
        },
      }),
    };
    const close = await shownBy.initialize({ model: one.model });
    const stopView = await shownBy.render({ model: one.model, el, host: widgetHost });
    return () => {
      stopView?.();
      close?.();
    };
  }
  /** Show a workbench of Python's in the place of the one that is shown; views that are open stay so. @param {FromPython} message */
  async function showBench({ show: number = 0, engine = "", traits = {}, own = true }) {
    const last = benches.get(shown)?.model;
    leave();
    benches.delete(shown);
    shown = number;
    controls.own(own);
    /** @type {Partial<Traits>} */
    const open = Object.keys(traits._panels ?? {}).length ? {} : { _panels: last?.get("_panels"), _sizes: last?.get("_sizes") };
    const made = modelled(number, { ...traits, ...open, _engine: engine });
    python?.send({ bench: number, traits: open });
    leave = await show(made, place);
  }

  // What was recorded ----------------------------------------------------------------

  const first = modelled(0, {
    _engine: page.engine, _selection: page.selection, _cursor_ps: -1, _panels: page.panels, _window_ps: [], _sizes: page.sizes, _redraw_hz: page.redraw_hz,
  });
  const recorded = page.scene ? createRecordedKernel(page, columns, first.send, hold) : null;
  const drawn = (async () => {
    if (recorded) leave = await show(first, place);
  })();
  if (!recorded) place.append(new DOMParser().parseFromString(still, "image/svg+xml").documentElement); // our own picture, not text of a file

  // Python ---------------------------------------------------------------------------

  let stage = "";
  function starting() {
    if (state !== "starting") return;
    const presses = held.filter(({ type }) => type !== "ask").length;
    const kept = presses ? `; presses kept: ${presses}` : "";
    say(`Python starts in this page${stage && `: ${stage}`}${kept}`);
  }
  /** @param {number} bytes */
  async function ready(bytes) {
    await drawn;
    host.dataset.bytes = String(bytes);
    state = "ready";
    say("");
    if (recorded && benches.get(0) === first && shown === 0 && opened?.show === 0) {
      const { model, send } = first;
      python?.send({ bench: 0, traits: Object.fromEntries(SHARED.map((name) => [name, model.get(name)])) });
      send({ type: "roll" }); // the view asks its new kernel for everything
    } else if (opened) await showBench(opened);
    const link = moment || (window.location.hash.startsWith("#state=") ? window.location.hash : "");
    controls.ready();
    if (link) await controls.enter(link);
    for (const message of held.splice(0)) toBench(shown, message);
    host.dataset.ready = "true";
  }
  /** Keep where the run is at rest, to go on there with another Python. */
  async function keepMoment() {
    const asked = python;
    if (!asked) return;
    try {
      const { result } = await asked.ask("moment");
      if (asked === python) moment = result.fragment;
    } catch {
      // of a run that came in a file there is none: another Python goes on with the page's own
    }
  }
  /** @param {FromPython} message @param {DataView[]} buffers */
  function heard(message, buffers) {
    if (message.show !== undefined) {
      if (state === "ready") showBench(message);
      else opened = message;
    } else if (message.made !== undefined) modelled(message.made, { ...message.traits, _engine: message.engine });
    else if (message.closed !== undefined) benches.delete(message.closed);
    else if ("answer" in message) controls.report(message.error ?? "", true); // nobody has asked
    else if (message.editor || message.editor_traits) {
      if (message.editor) edited = false;
      controls.edited(message);
    } else {
      const bench = benches.get(message.bench);
      if (message.traits && bench) take(bench.model, message.traits);
      if (message.message) bench?.send(message.message, buffers);
      const moved = /** @type {{ type?: string, playing?: boolean }} */ (message.message ?? {});
      if (state === "ready" && moved.type === "state") {
        clearTimeout(keeping);
        if (!moved.playing) keeping = setTimeout(keepMoment, REST_MS);
      }
    }
  }
  /** @param {Model} model @param {Partial<Traits>} traits */
  function take(model, traits) {
    taking = true;
    try {
      for (const [name, value] of Object.entries(traits)) model.set(/** @type {keyof Traits} */ (name), /** @type {never} */ (value));
    } finally {
      taking = false;
    }
  }
  /** @param {string} why */
  function failed(why) {
    stop.hidden = true;
    if (state === "ready") restart(why);
    else breakOff(why);
  }
  /** End what Python does, and go on where the run was at rest last. @param {string} why */
  function restart(why) {
    python?.end(why);
    state = "starting";
    stop.hidden = true;
    edited = false;
    clearTimeout(keeping);
    delete host.dataset.ready;
    for (const number of [...benches.keys()]) if (number !== shown) benches.delete(number);
    start();
    controls.ended(why);
    say(`Python has ended (${why}); it starts again where the run was at rest last`);
  }
  function start() {
    opened = null;
    python = createPython({
      source: runtime.source, packs: runtime.packs, run: runBytes, ready, heard, failed,
      staged(now) {
        stage = now;
        starting();
      },
    });
  }
  setInterval(() => {
    if (state !== "ready" || !python) return;
    const { busy } = python;
    stop.hidden = busy < PATIENCE_MS;
    if (busy >= PATIENCE_MS) say(`Python has been busy for ${Math.round(busy / 1000)} s`);
    else if (note.textContent?.startsWith("Python has been busy")) say("");
    if (edited && busy > EDITOR_MS) restart("the program in the editor did not come to an end");
  }, WATCH_MS);

  const controls = createPageControls({
    page,
    python: () => (state === "ready" ? python : null),
    say,
    edits() {
      edited = true;
    },
  });
  bar.append(controls.element);
  host.insertBefore(controls.form, place);
  host.append(controls.editor);

  /** @type {Awaited<ReturnType<typeof runtimeOf>>} */
  let runtime;
  try {
    runtime = await bringing;
    start();
  } catch (error) {
    breakOff(error instanceof Error ? error.message : String(error));
  }
  await drawn;
}
