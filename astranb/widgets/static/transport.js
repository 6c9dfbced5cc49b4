// @ts-check
// The controls: buttons, speed, the slider with what is recorded, the two clocks, the narration.

import { formatCount, formatTime } from "./format.js";
import { createMenu } from "./menu.js";
import { createSave } from "./save.js";
import { createSearch } from "./search.js";
import { createBeat, make, makeButton, makeSvg, settle } from "./theme.js";

/** @import { Interval, Progress, State, Store } from "./types" */

// Icons on a grid of 16: filled paths.
/** @type {Record<string, string>} */
const ICONS = {
  reset: "M3 3h2v10H3z M13 3v10L6 8z",
  back: "M12 3v10L4 8z",
  play: "M4 2.5v11L13 8z",
  pause: "M4 3h3v10H4z M9 3h3v10H9z",
  to_breakpoint: "M1.500 7h5V4L10 8l-3.500 4V9h-5z M13 5.500a2.500 2.500 0 1 0 .01 0z",
  to_end: "M2 3v10l5-5z M7 3v10l5-5z M13 3h1.500v10H13z",
};
/** @type {[string, string, string][]} name, label, title */
const BEFORE = [
  ["reset", "Reset", "go to the start (Home)"],
  ["back", "Back", "go back by as many of these as × says (Backspace; Shift and the key of a unit)"],
];
/** @type {typeof BEFORE} */
const PLAY = [["play", "Play", "play or pause (Space)"]];
/** @type {typeof BEFORE} those that the engine counts have a button (scene.units) */
const STEPS = [
  ["event", "Event", "run one event (→)"],
  ["cycle", "Cycle", "run all events of the next timestep (Shift+→)"],
  ["instruction", "Instruction", "run until a GPU instruction is issued (I)"],
  ["hop", "Hop", "run until a request enters a link (H)"],
  ["line", "Line", "run until a cache line arrives from another GPU (L)"],
  ["message", "Message", "run until a message has arrived: a whole move of data from one GPU to another (M)"],
  ["operation", "Operation", "run until an operation of any rank ends (O)"],
  ["phase", "Phase", "run until a phase ends (N)"],
  ["pass", "Pass", "run until a pass of the training loop ends (P)"],
];
/** @type {typeof BEFORE} */
const AFTER = [
  ["to_breakpoint", "Breakpoint", "run to the next breakpoint, or the end (C)"],
  ["to_end", "End", "run to the end, or a breakpoint (End)"],
];
const SLOWEST = 3; // powers of ten of ps a second
const FASTEST = 11;

/** @param {string} name */
const icon = (name) => makeSvg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, makeSvg("path", { d: ICONS[name] }));

/** @param {Store} store @param {() => void} help */
export function createTransport(store, help) {
  const beat = createBeat(store);
  const workload = store.engine === "operations";
  const steps = make(
    "select",
    { class: "anb-steps", "aria-label": "Steps at once", title: "how many one click steps, forward or back" },
    ...[1, 10, 100, 1000, 10000].map((n) => make("option", { value: n, text: `× ${formatCount(n)}` })),
  );
  /** @type {Record<string, HTMLButtonElement>} */
  const buttons = {};
  /** @param {string} name */
  function press(name) {
    if (name === "play") {
      if (store.playing) store.pause();
      else store.play();
      return;
    }
    if (name === "back") back(unit.value);
    else if (STEPS.some(([step]) => step === name)) {
      if (!units().includes(name)) return;
      unit.value = name;
      store.command(name, { n: Number(steps.value) });
    } else store.command(name);
  }
  /** The units that the engine counts. */
  const units = () => store.scene.units;
  const unit = make("select", { class: "anb-steps anb-unit", "aria-label": "Back by", title: "what Back undoes: the unit of the last step, unless another is chosen" });
  /** @param {string} name */
  function back(name) {
    if (units().includes(name)) store.command("back", { n: Number(steps.value), unit: name });
  }
  for (const [name, label, title] of [...BEFORE, ...PLAY, ...STEPS, ...AFTER]) {
    const own = ICONS[name] ? `anb-${name}` : `anb-step-${name}`;
    buttons[name] = makeButton("", () => press(name), { class: `anb-button ${own}`, "aria-label": label, title });
    buttons[name].disabled = true; // until it is known what there is to run
    if (ICONS[name]) buttons[name].append(icon(name));
    buttons[name].append(make("span", { text: label }));
  }
  /** @param {typeof BEFORE} some */
  const these = (some) => some.map(([name]) => buttons[name]);

  const when = make("input", {
    type: "text", class: "anb-goto", placeholder: "go to 5 µs", "aria-label": "Go to a time", spellcheck: "false",
    title: "go to a time, forward or back (G)",
    onchange: () => {
      if (when.value.trim()) store.command("goto", { when: when.value.trim() });
      when.value = "";
    },
  });
  const record = makeButton("●", () => store.command("record", { on: !(store.state?.recording ?? true) }), {
    class: "anb-button anb-record", "aria-label": "Record", title: "Record on/off: unrecorded intervals cannot be shown (R)",
  });
  record.hidden = workload; // its timeline comes from the tables, which are always there
  const redraw = make(
    "select",
    {
      class: "anb-redraw", "aria-label": "Redraw rate", title: "pictures drawn per second; it does not change the speed of the simulation",
      onchange() {
        store.setRedraw(Number(redraw.value));
      },
    },
    ...[60, 30, 10, 4, 1].map((n) => make("option", { value: n, text: `${n} Hz` })),
  );

  const speedText = make("output", { class: "anb-speed-text" });
  const speed = make("input", {
    type: "range", class: "anb-speed", min: SLOWEST, max: FASTEST, step: 0.1, "aria-label": "Speed",
    title: "simulated time per second of playing (+ and −)",
    oninput() {
      store.setSpeed(10 ** Number(speed.value));
    },
  });
  const follow = make("input", {
    type: "checkbox", class: "anb-follow",
    onchange() {
      if (follow.checked) store.follow();
      else store.scrub(store.cursor);
    },
  });
  const helpButton = makeButton("?", help, { class: "anb-button anb-help-button", "aria-label": "Keyboard help", title: "keyboard (?)" });

  const slider = make("input", {
    type: "range", class: "anb-scrub", min: 0, max: 1, step: "any", value: 0, "aria-label": "View cursor",
    title: "moves the view only, not the simulation",
    oninput() {
      store.scrub(Number(slider.value) * Math.max(1, store.furthest));
    },
  });
  const simulated = make("output", { class: "anb-clock anb-simulated", "aria-label": "Simulated up to" });
  const shown = make("output", { class: "anb-clock anb-shown", "aria-label": "View shows" });
  const status = make("div", { class: "anb-status" });
  const narration = make("div", { class: "anb-narration" });
  const bar = make("progress", { class: "anb-progress", max: 1, "aria-label": "Share of the lines issued", hidden: "" });
  const live = make("div", { class: "anb-live", role: "status", "aria-live": "polite" }, narration, status);

  const title = make("h3", { class: "anb-title", text: "connecting to the kernel …" });
  const search = createSearch(store);
  const menu = createMenu(
    "⋯", "More controls",
    make("label", { class: "anb-label" }, make("span", { text: "Redraw" }), redraw), createSave(store),
  );
  const element = make(
    "div", { class: "anb-transport" },
    make(
      "div", { class: "anb-row anb-header" }, title, search.element,
      make("label", { class: "anb-label" }, make("span", { text: "Speed" }), speed, speedText),
      make("label", { class: "anb-label", title: "the cursor stays with the simulation (F)" }, follow, "Follow"),
      menu.element, helpButton,
    ),
    make(
      "div", { class: "anb-row", role: "toolbar", "aria-label": "Transport" },
      make("div", { class: "anb-joined" }, ...these(BEFORE), unit), ...these(PLAY),
      make("div", { class: "anb-joined", role: "group", "aria-label": "Step by" }, ...these(STEPS), steps), ...these(AFTER),
      when, record,
    ),
    make("div", { class: "anb-row anb-clocks" }, simulated, slider, shown), live, bar,
  );

  store.on("scene", () => {
    title.textContent = store.scene.title;
    for (const [name] of STEPS) buttons[name].hidden = !units().includes(name);
    const offered = STEPS.filter(([name]) => units().includes(name) && !store.scene.recorded?.[name]);
    unit.replaceChildren(...offered.map(([name, label]) => make("option", { value: name, text: `by ${label.toLowerCase()}` })));
  });

  // The slider shows what is recorded, what was not or is lost, and what is not simulated.
  let drawn = "";
  /** @param {Interval[]} gaps @param {number} end */
  function track(gaps, end) {
    /** @param {number} time */
    const at = (time) => `${((100 * Math.min(time, end)) / end).toFixed(2)}%`;
    const stops = [];
    let from = 0;
    for (const [a, b] of [...gaps, /** @type {Interval} */ ([store.frontier, end])]) {
      if (b <= a) continue;
      stops.push(`var(--anb-brand) ${at(from)} ${at(a)}`, `transparent ${at(a)} ${at(b)}`);
      from = Math.max(from, b);
    }
    stops.push(`var(--anb-brand) ${at(from)} 100%`);
    const value = `linear-gradient(to right, ${stops.join(", ")})`;
    if (value !== drawn) element.style.setProperty("--anb-track", value);
    drawn = value;
  }
  /** @param {Progress} progress */
  function progressText({ done = 0, of = store.scene.counted ?? "lines issued", ps_per_s: rate, left_s: left }) {
    const parts = [`${done < 0.1 ? (100 * done).toFixed(2) : Math.floor(100 * done)}% of the ${of}`];
    if (rate) parts.push(`${formatTime(rate, 1)} simulated per second`);
    if (left) parts.push(`about ${left < 90 ? `${Math.ceil(left)} s` : `${Math.round(left / 60)} min`} left`);
    return parts.join(" · ");
  }

  /** @param {State} state */
  function showState(state) {
    const lost = store.scene.recording ? Math.max(state.oldest_ps, store.flights.lostUntil) : store.frontier;
    track([[0, lost], ...(state.gaps ?? [])], Math.max(1, store.furthest));
    slider.setAttribute("aria-valuetext", formatTime(store.cursor));
    settle(simulated, `simulated ${formatTime(state.now_ps)} · event ${formatCount(state.events)}`);
    settle(shown, `view ${formatTime(Math.round(store.cursor))}${store.following ? "" : " (past)"}`);
    let words = store.following ? state.narration : "the view shows the past; a step returns to the simulation";
    if (store.replaying) words = "replaying what was recorded";
    if (state.progress?.done !== undefined) words = progressText(state.progress);
    bar.hidden = state.progress?.done === undefined;
    bar.value = state.progress?.done ?? 0;
    if (document.activeElement !== redraw) redraw.value = String(store.redraw);
    settle(narration, words);
    narration.title = words;
  }
  function draw() {
    const { state } = store;
    if (!state || !store.ready) {
      settle(status, store.trouble || store.error); // the first state may be what failed
      return;
    }
    const playing = store.playing;
    if (buttons.play.dataset.playing !== String(playing)) {
      buttons.play.dataset.playing = String(playing);
      buttons.play.setAttribute("aria-label", playing ? "Pause" : "Play");
      buttons.play.replaceChildren(icon(playing ? "pause" : "play"), make("span", { text: playing ? "Pause" : "Play" }));
    }
    for (const name of ["reset", "back"]) buttons[name].disabled = store.gone || state.events === 0;
    for (const [name] of [...STEPS, ...AFTER]) buttons[name].disabled = store.gone || state.finished;
    for (const [name, why] of Object.entries(store.scene.recorded ?? {})) {
      buttons[name].disabled = true;
      buttons[name].title = why;
    }
    buttons.play.disabled = !playing && (store.gone || state.finished) && (store.following || store.cursor >= store.frontier);
    slider.value = String(store.cursor / Math.max(1, store.furthest));
    if (beat()) showState(state);
    follow.checked = store.following;
    record.disabled = store.gone || !store.scene.recording || Boolean(store.scene.recorded);
    record.setAttribute("aria-pressed", String(Boolean(store.scene.recording && state.recording)));
    const power = Math.log10(state.speed);
    if (document.activeElement !== speed) speed.value = String(power);
    settle(speedText, `1 s = ${formatTime(Number(state.speed.toPrecision(2)), 2)}`);
    settle(status, store.trouble || store.error || state.status);
    status.title = status.textContent ?? "";
    status.classList.toggle("anb-failed", Boolean(store.trouble || store.error) || state.failed);
  }
  /** @param {number} by powers of ten */
  const faster = (by) => store.state && store.setSpeed(10 ** Math.min(FASTEST, Math.max(SLOWEST, Math.log10(store.state.speed) + by)));
  return { element, draw, press, back, faster, when, record, search: search.field, destroy: search.destroy };
}
