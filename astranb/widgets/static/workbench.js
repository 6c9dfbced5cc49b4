// @ts-check
// The workbench: loads the views, gives them one clock, and takes the keyboard.

import { load } from "./loader.js";

/** @import { Host, Model, Store } from "./types" */
/** @typedef {typeof import("./views.js")} Views */

const KEYS = [
  ["Space", "play or pause"],
  ["→ ←", "step one event forward, back (× sets how many)"],
  ["Shift + → ←", "step one cycle forward, back"],
  ["I H L M O N P", "step by instruction, hop, line, message, operation, phase, pass; with Shift, back"],
  ["Backspace", "go back by the unit of the last step"],
  ["C", "run to a breakpoint, or the end"],
  ["Home End", "go to the start, to the end"],
  ["F", "follow the simulation"],
  ["G", "go to a time"],
  ["/ Ctrl + F", "search a GPU, a link, an operation, a time"],
  ["R", "record on/off"],
  ["+ −", "faster, slower"],
  ["W S A D", "zoom and move the timelines"],
  ["T", "pin the row of the selected GPU or rank above the others, or unpin it"],
  ["drag", "on a timeline: mark an interval; on the ruler: move the cursor"],
  ["Enter", "look inside the selected object"],
  ["Esc", "go up one level; clear selection and interval, show all time"],
  ["?", "show or hide this list"],
];

const STEP_KEYS = { i: "instruction", h: "hop", l: "line", m: "message", o: "operation", n: "phase", p: "pass" };

const PAUSED_MS = 250; // for so long nothing is drawn that would delay it
const FAST_HZ = 10; // pictures a second while the simulation runs at full speed

/** @param {{ store: Store, views: Views, model: Model, el: HTMLElement }} parts */
function show({ store, views, model, el }) {
  const { gpuOf, keepClicks, make, createBeside, createTheme, createTransport, createPanels, createReveal } = views;
  const root = make("div", {
    class: "anb-workbench", tabindex: "0", role: "application", "aria-label": "Workbench", "data-lm-suppress-shortcuts": "true",
  });
  el.append(root);
  keepClicks(root);
  const theme = createTheme(root);
  const help = make(
    "div",
    { class: "anb-help", hidden: "", role: "note", "aria-label": "Keyboard" },
    ...KEYS.flatMap(([keys, words]) => [make("b", { text: keys }), make("span", { text: words })]),
  );
  const toggleHelp = () => {
    help.hidden = !help.hidden;
  };
  const [[transport, panels], deafen] = store.gather(() => [
    createTransport(store, toggleHelp), createPanels(store, theme),
  ]);
  const beside = createBeside(store);
  transport.element.append(help);
  root.append(transport.element, make("div", { class: "anb-runs" }, make("div", {}, beside.strip, panels.element), beside.place));

  const reveal = createReveal(model, root);

  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  let asked = 0;
  let last = 0;
  let frames = 0;
  let drawn = 0; // when
  /** @param {number} now */
  function frame(now) {
    asked = 0;
    // At 60 a second the screen itself sets the beat; a run as fast as it can be needs the processor more.
    const hz = store.state?.playing && store.state.fast ? Math.min(FAST_HZ, store.redraw) : store.redraw;
    // Once Pause is pressed, the picture at rest comes next.
    if (store.playing && (now - store.paused < PAUSED_MS || (hz < 60 && now - drawn < 1000 / hz - 8))) {
      request();
      return;
    }
    drawn = now;
    const moving = store.tick(last ? Math.min(Math.max(250, 1500 / store.redraw), now - last) : 0);
    last = moving ? now : 0;
    if (calm.matches && store.following) store.cursor = store.frontier;
    if (!store.ready) return;
    beside.draw();
    if (panels.arrange()) panels.resize();
    root.dataset.dots = String(panels.draw() ?? "");
    transport.draw();
    if (!store.passing) root.dataset.events = String(store.state?.events ?? "");
    root.dataset.seq = String(store.state?.seq ?? "");
    root.dataset.flights = String(store.flights.count);
    root.dataset.cursor = String(store.cursor);
    root.dataset.frames = String((frames += 1));
    if (moving) request();
    reveal();
  }
  function request() {
    if (!asked) asked = requestAnimationFrame(frame);
  }
  function resize() {
    panels.resize();
    request();
  }
  theme.changed = () => {
    panels.themed();
    request();
  };
  const stops = [
    store.on("change", request),
    store.on("scene", resize),
  ];
  const observer = new ResizeObserver(resize);
  observer.observe(root);

  /** @type {Record<string, (event: KeyboardEvent) => unknown>} */
  const actions = {
    " ": () => transport.press("play"),
    ArrowRight: (event) => transport.press(event.shiftKey ? "cycle" : "event"),
    ArrowLeft: (event) => transport.back(event.shiftKey ? "cycle" : "event"),
    Backspace: () => transport.press("back"),
    ...Object.fromEntries(
      Object.entries(STEP_KEYS).map(([key, unit]) => [
        key, (/** @type {KeyboardEvent} */ event) => (event.shiftKey ? transport.back(unit) : transport.press(unit)),
      ]),
    ),
    c: () => transport.press("to_breakpoint"),
    Home: () => transport.press("reset"),
    End: () => transport.press("to_end"),
    g: () => transport.when.focus(),
    "/": () => transport.search.focus(),
    r: () => transport.record.hidden || transport.record.click(),
    t: () => {
      const rank = store.engine === "operations" ? Number(store.selection.match(/^rank\[(\d+)\]/)?.[1] ?? -1) : gpuOf(store, store.selection);
      if (rank >= 0) store.pin(rank);
    },
    f: () => (store.following ? store.scrub(store.cursor) : store.follow()),
    "+": () => transport.faster(0.25),
    "=": () => transport.faster(0.25),
    "-": () => transport.faster(-0.25),
    w: () => store.zoom(0.7, store.pointer ?? store.cursor),
    s: () => store.zoom(1 / 0.7, store.pointer ?? store.cursor),
    a: () => store.pan(-0.2),
    d: () => store.pan(0.2),
    Enter: () => store.levels?.enter(store.selection),
    Escape: () => {
      if (store.state?.playing && store.state.progress?.of) {
        store.pause(); // the kernel works
        return;
      }
      if (store.levels?.up()) return;
      help.hidden = true;
      root.focus({ preventScroll: true });
      store.show(0, Infinity);
      store.mark();
      store.select("");
      store.emit("change");
    },
    "?": toggleHelp,
  };
  root.addEventListener("keydown", (event) => {
    event.stopPropagation(); // the notebook has other plans for these keys
    const target = /** @type {HTMLElement} */ (event.target);
    const { tagName } = target;
    const type = target instanceof HTMLInputElement ? target.type : "";
    if (tagName === "SELECT" || tagName === "TEXTAREA" || (tagName === "INPUT" && type === "text")) return;
    if (type === "range" && /^(Arrow|Home|End)/.test(event.key)) return;
    if ((tagName === "BUTTON" || type === "checkbox") && (event.key === " " || event.key === "Enter")) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f") {
      event.preventDefault();
      transport.search.focus();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !store.state) return;
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action(event);
  });
  root.addEventListener("click", (event) => {
    if (event.target instanceof HTMLCanvasElement) root.focus({ preventScroll: true });
  });

  // A view that joins later starts with what is there.
  if (store.ready) store.emit("scene");
  resize();
  store.open();
  return () => {
    cancelAnimationFrame(asked);
    observer.disconnect();
    theme.destroy();
    transport.destroy();
    panels.destroy();
    beside.destroy();
    store.close();
    for (const stop of stops) stop();
    deafen();
    root.remove();
  };
}

export default () => {
  /** @type {Promise<{ store: Store, views: Views }>} one store for all views of one model */
  let ready;
  return {
    /** @param {{ model: Model }} widget */
    initialize({ model }) {
      ready = load(model.get("_modules"), "views").then((/** @type {Views} */ views) => ({ store: views.createStore(model), views }));
      return () => ready.then(({ store }) => store.destroy());
    },
    /** @param {{ model: Model, el: HTMLElement, host?: Host }} widget */
    async render({ model, el, host }) {
      const { store, views } = await ready;
      store.embed = host ? async (reference, place) => (await host.getWidget(reference)).render(place) : null;
      return show({ store, views, model, el });
    },
  };
};
