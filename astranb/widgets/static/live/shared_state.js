// @ts-check
// A state that travels in a link or a file: what was changed when, how far the run is, where it stops, what is shown.
// The inputs are in the page itself, so that a state is small: whoever opens it goes there by running.

import { RECORD } from "./edits.js";
import { InputError } from "./errors.js";
import { HASHING } from "./session.js";
import { commas } from "./text.js";

/** @import { Breakpoint, PageKernel, SharedState, ShownState } from "./types" */
/** @import { Model } from "../types" */

const STARTING = { status: "going to the start", of: "way back" };
const MOST = 10_000; // edits, breakpoints or watches
const REDRAW_HZ = 60; // where nobody has chosen another rate

/**
 * The state of a page as it is, without its hash.
 * @param {PageKernel} kernel
 * @param {Model} model
 * @returns {Omit<SharedState, "hash">}
 */
export function stateOf({ sim, session }, model) {
  return {
    events: sim.events(),
    edits: sim.edits.map(({ events, at_ps, path, value }) => ({ events, at_ps, path, value })),
    breakpoints: sim.breakpoints.map(({ text, at_ps, rows, object, enabled }) => ({ text, at_ps, rows, object, enabled })),
    watches: sim.watches.map(({ text }) => text),
    shown: {
      selection: model.get("_selection"), cursor_ps: model.get("_cursor_ps"), window_ps: model.get("_window_ps") ?? [],
      panels: model.get("_panels") ?? {}, sizes: model.get("_sizes") ?? {}, redraw_hz: model.get("_redraw_hz") || REDRAW_HZ, speed: session.speed,
    },
  };
}

/**
 * The state of a page's run now, as a person asks for it; null: somebody has pressed Pause.
 * @param {PageKernel} kernel
 * @param {Model} model
 */
export function stateNow(kernel, model) {
  const { sim, session } = kernel;
  if (session.playing) session.ask("pause");
  return session.alone(HASHING, function* () {
    const hash = yield* sim.state_hash();
    return hash === null ? null : { ...stateOf(kernel, model), hash };
  });
}

/**
 * The hash of a page's run now, as a person asks for it; null: somebody has pressed Pause.
 * @param {PageKernel} kernel
 */
export function hashNow({ sim, session }) {
  if (session.playing) session.ask("pause");
  return session.alone(HASHING, () => sim.state_hash());
}

/**
 * Take a page to a state: from the start on, with the changes at the events at which they were made. It stays where
 * it is if somebody presses Pause on the way.
 * @param {PageKernel} kernel
 * @param {Model} model
 * @param {SharedState} state
 * @param {string} status what to show there
 */
export async function enterState(kernel, model, state, status) {
  const { sim, session } = kernel;
  session.ask("pause");
  await session.rest();
  model.set("_cursor_ps", -1); // what is asked on the way is not about a time that is not simulated yet
  sim.clear();
  sim.unwatch();
  if (sim.events() || sim.edits.length) {
    await session.alone(STARTING, function* () {
      yield* sim.reset();
      sim.driver.restart();
    });
    session.publish();
  }
  /** @param {number} events */
  async function runTo(events) {
    if (events > sim.events()) session.ask("event", { n: events - sim.events() });
    await session.rest();
    if (sim.finished() && sim.events() < events) throw new InputError(`this run ends after ${commas(sim.events())} events, before this state`);
    return sim.events() === events;
  }
  for (const { events, at_ps, path, value } of state.edits) {
    if (!(await runTo(events))) return;
    const edit = path === RECORD ? sim.engine.recording_switched(value !== "off") : sim.engine.read_edit(path, value);
    if (edit) sim.driver.edit({ ...edit, events, at_ps });
  }
  if (!(await runTo(state.events))) return;
  if (!state.breakpoints.every((point) => sim.engine.is_point(point))) throw new InputError("the breakpoints of this state are not of this run");
  const atStart = !state.events && !state.edits.length;
  const hash = atStart || !state.hash ? state.hash : await hashNow(kernel);
  if (hash === null) return;
  for (const point of state.breakpoints) sim.add_breakpoint(point);
  for (const watch of state.watches) sim.watch(watch);
  show(model, state.shown);
  session.speed = state.shown.speed;
  if (hash === state.hash) session.show(status);
  else session.show("this is not the state that was saved: it comes from another version of astranb", true);
}

/** @param {Model} model @param {ShownState} shown */
function show(model, { selection, cursor_ps, window_ps, panels, sizes, redraw_hz }) {
  model.set("_panels", panels);
  model.set("_sizes", sizes);
  model.set("_redraw_hz", redraw_hz);
  model.set("_window_ps", window_ps);
  model.set("_selection", selection);
  model.set("_cursor_ps", cursor_ps);
}

/** @param {unknown} value @param {number} [least] */
const isCount = (value, least = 0) => typeof value === "number" && Number.isInteger(value) && value >= least && value < 2 ** 62;
/** @param {unknown} value @param {(one: any) => boolean} right */
const isList = (value, right) => Array.isArray(value) && value.length <= MOST && value.every((one) => right(one));
/** @param {unknown} value */
const isText = (value) => typeof value === "string" && value.length < 1000;
/** @param {any} value @param {(one: unknown) => boolean} right */
const isMap = (value, right) => typeof value === "object" && value !== null && !Array.isArray(value) && Object.values(value).every(right);
/** @param {unknown} value @returns {value is Breakpoint} */
const isPoint = (value) => {
  if (!isMap(value, () => true)) return false;
  const { text, at_ps, rows, object, enabled } = /** @type {any} */ (value);
  return (
    isText(text) && isText(object) && typeof enabled === "boolean" && (at_ps === null || isCount(at_ps)) &&
    isList(rows, (row) => isMap(row, (one) => Number.isInteger(one)))
  );
};

/**
 * A state of which somebody else says that it is one.
 * @param {any} given
 * @returns {SharedState}
 */
export function checkedState(given) {
  const { events, edits, breakpoints, watches, hash, shown } = isMap(given, () => true) ? given : {};
  const right =
    isCount(events) && isList(edits, (one) => isMap(one, () => true) && isCount(one.events) && isCount(one.at_ps) && isText(one.path) && isText(one.value)) &&
    isList(breakpoints, isPoint) && isList(watches, isText) && isText(hash) && isMap(shown, () => true);
  if (!right || edits.some((/** @type {any} */ one, /** @type {number} */ k) => one.events > (edits[k + 1]?.events ?? events))) {
    throw new InputError("this is no state of a run");
  }
  const points = /** @type {Breakpoint[]} */ (breakpoints).map(({ text, at_ps, rows, object, enabled }) => ({ text, at_ps, rows, object, enabled }));
  return { events, edits, breakpoints: points, watches, hash, shown: checkedView(shown) };
}

/** What is not right about a view is left out. @param {any} given @returns {ShownState} */
function checkedView({ selection, cursor_ps, window_ps, panels, sizes, redraw_hz, speed }) {
  const ends = isList(window_ps, (end) => Number.isFinite(end)) && window_ps.length === 2 && window_ps[0] < window_ps[1];
  return {
    selection: isText(selection) ? selection : "",
    cursor_ps: Number.isFinite(cursor_ps) ? cursor_ps : -1,
    window_ps: ends ? window_ps : [],
    panels: isMap(panels, (open) => typeof open === "boolean" || isText(open)) ? panels : {},
    sizes: isMap(sizes, (px) => Number.isFinite(px) && /** @type {number} */ (px) >= 0 && /** @type {number} */ (px) < 1e5) ? sizes : {},
    redraw_hz: Number.isFinite(redraw_hz) && redraw_hz >= 1 && redraw_hz <= REDRAW_HZ ? redraw_hz : REDRAW_HZ,
    speed: Number.isFinite(speed) && speed >= 1 && speed <= 1e15 ? speed : 1e6,
  };
}
