// @ts-check
// Where the run stops, and values that are plotted over time.

import { createAsker, createRequests, momentOf, stateNumber } from "./asker.js";
import { createCompletion } from "./completion.js";
import { createMoment } from "./moment.js";
import { fit, make, makeButton, makeHint, makeLink, makeOptions } from "./theme.js";

/** @import { Answer, CreateView, Options, Point, Watch } from "./types" */

const SPARK_HEIGHT = 30;

/** @type {CreateView} */
export function createBreaks(store, theme) {
  const workload = store.engine === "operations";
  const wrong = make("p", { class: "anb-failed", role: "alert", hidden: "" });
  const list = make("div", { class: "anb-list" });
  const watched = make("div", { class: "anb-list" });
  const note = make("p", { class: "anb-hint" });
  /** @param {string} label @param {string} placeholder @param {() => void} enter */
  const text = (label, placeholder, enter) =>
    make("input", {
      type: "text", "aria-label": label, placeholder, spellcheck: "false", autocomplete: "off",
      onkeydown(event) {
        if (event.key === "Enter") enter();
      },
    });
  const hows = [["at", "at time"], ["on", "on event"], ["when", "when"]].map(([value, words]) => make("option", { value, text: words }));
  const how = make("select", { "aria-label": "Break", onchange: () => arrange() }, ...hows);
  const time = text("Time", "5 us", () => add());
  const kind = make("select", { "aria-label": "Kind of event" }, make("option", { value: "", text: "any event" }));
  const object = text("Object", "of any object", () => add());
  const condition = text("Condition", workload ? "rank[3].waiting > 0" : "gpu[3].sm.0.waiting > 0", () => add());
  const what = text("Value to watch", workload ? "rank[3].in_flight" : "gpu[3].sm.0.waiting", () => watch());
  const [objects, names, values] = [createCompletion(store, object), createCompletion(store, condition, "condition"), createCompletion(store, what, "watch")];
  const form = { class: "anb-form anb-adding" };
  const element = make(
    "section", { class: "anb-breaks", "aria-label": "Breakpoints and watches" }, wrong, objects.element, names.element, values.element,
    make("div", form, how, time, kind, object, condition, makeButton("Add", () => add(), { "aria-label": "Add breakpoint" })), list,
    make("h5", {}, "Watches ", createMoment(store, () => answer?.watches.length ? answer.at_ps : null)), make("div", form, what, makeButton("Watch", () => watch())), watched, note,
  );
  store.on("scene", () => {
    if (!store.scene.example) return; // of a workload: other ones have other ranks
    condition.placeholder = store.scene.example;
    what.placeholder = store.scene.example.split(" ")[0];
  });
  /** @type {Answer<"breaks"> | null} */
  let answer = null;
  const asker = createAsker(store, "breaks", {
    every: 250,
    answered(found, error) {
      if (error) fail(error);
      else {
        answer = found;
        show(found);
        draw();
      }
    },
  });

  function arrange() {
    time.hidden = how.value !== "at";
    kind.hidden = object.hidden = how.value !== "on";
    condition.hidden = how.value !== "when";
  }
  const { fail, request } = createRequests(store, wrong, asker.again);
  /** @param {string} verb @param {Options} options */
  const apply = (verb, options) => request("apply", { verb, options });
  async function add() {
    const given = { how: how.value, time: time.value, kind: kind.value, object: object.value, condition: condition.value };
    if (await apply("breakpoint", given)) condition.value = time.value = "";
  }
  async function watch() {
    if (await apply("watch", { what: what.value })) what.value = "";
  }

  /** @param {string} words @param {string} verb @param {number} number */
  const remove = (words, verb, number) => makeButton("×", () => apply(verb, { number }), { class: "anb-button anb-remove", "aria-label": words, title: words });
  /** @param {Point | Watch} one */
  const named = (one) => makeLink(one.text, () => one.object && store.select(one.object), { title: one.object || one.text });
  /** @param {Point} point @param {number} number */
  function pointRow(point, number) {
    const on = make("input", {
      type: "checkbox", "aria-label": `Enable ${point.text}`, onchange() {
        apply("enable", { number, enabled: on.checked });
      },
    });
    on.checked = point.enabled;
    /** @type {HTMLElement[]} */
    const words = [named(point)];
    if (point.hit) words.push(make("span", { class: "anb-hit-text", text: `\u25c6 hit${answer?.because ? `: ${answer.because}` : ""}` }));
    return make(
      "div", { class: `anb-item${point.hit ? " anb-hit" : ""}`, "data-hit": String(point.hit) },
      on, make("div", { class: "anb-item-words" }, ...words), remove(`Remove ${point.text}`, "clear", number),
    );
  }
  /** @param {Watch} one @param {number} number */
  function watchRow(one, number) {
    const canvas = make("canvas", { class: "anb-canvas anb-spark", role: "img", "aria-label": `${one.text}: now ${one.now}, ${one.low} to ${one.high}` });
    canvas.style.height = `${SPARK_HEIGHT}px`;
    const range = make("span", { class: "anb-hint", text: `${one.low} to ${one.high}` });
    return make(
      "div", { class: "anb-item anb-watch" }, make("div", { class: "anb-item-words" }, named(one), canvas, range),
      make("b", { class: "anb-value", text: one.now }), remove(`Remove ${one.text}`, "unwatch", number),
    );
  }
  /** @param {Answer<"breaks">} found */
  function show(found) {
    if (kind.childElementCount === 1) kind.append(...makeOptions(found.kinds));
    /** @param {string[]} fields */
    const of = (fields) => fields.map((name) => `${store.selection}.${name}`);
    if (document.activeElement !== condition) names.propose(of(found.fields));
    if (document.activeElement !== what) values.propose(of(found.values));
    list.replaceChildren(...(found.points.length ? found.points.map(pointRow) : [makeHint("No breakpoints.")]));
    watched.replaceChildren(...found.watches.map(watchRow));
    note.textContent = !found.watches.length
      ? "Plots a value of an object over the time that the timelines show."
      : found.exact ? "" : "as recorded during the run; exact when it is paused, in runs of up to 2 million events";
  }

  /**
   * A curve of steps: a value holds until the next one.
   * @param {HTMLCanvasElement} canvas
   * @param {{ start_ps: number, end_ps: number }} window
   * @param {Float64Array} times
   * @param {Float64Array} curve
   */
  function spark(canvas, { start_ps: start, end_ps: end }, times, curve) {
    const width = canvas.clientWidth;
    if (!width) return;
    const context = fit(canvas, width, SPARK_HEIGHT);
    context.clearRect(0, 0, width, SPARK_HEIGHT);
    let [low, high] = [Infinity, -Infinity];
    for (const value of curve) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    /** @param {number} at */
    const x = (at) => ((at - start) / Math.max(1, end - start)) * width;
    /** @param {number} value */
    const y = (value) => SPARK_HEIGHT - 3 - ((value - low) / (high - low || 1)) * (SPARK_HEIGHT - 6);
    context.strokeStyle = theme.brand;
    context.lineWidth = 1.5;
    context.beginPath();
    let before = NaN;
    for (let k = 0; k < curve.length; k += 1) {
      if (Number.isNaN(curve[k])) continue;
      if (Number.isNaN(before)) context.moveTo(x(times[k]), y(curve[k]));
      else {
        context.lineTo(x(times[k]), y(before));
        context.lineTo(x(times[k]), y(curve[k]));
      }
      before = curve[k];
    }
    context.stroke();
    const cursor = x(store.cursor);
    context.fillStyle = theme.ink;
    if (cursor >= 0 && cursor <= width) context.fillRect(Math.min(cursor, width - 1), 0, 1, SPARK_HEIGHT);
  }
  function draw() {
    if (document.activeElement !== object && object.dataset.selection !== store.selection) {
      object.dataset.selection = store.selection;
      object.value = store.selection;
      if (!time.value && !condition.value) how.value = store.selection ? "on" : "at"; // what is selected is what to stop at
      arrange();
    }
    const [start, end] = store.view();
    const options = { path: store.selection, start_ps: Math.floor(start), end_ps: Math.ceil(end), at_ps: momentOf(store).at_ps };
    asker.want(options, `${stateNumber(store)} ${JSON.stringify(options)}`);
    if (!answer) return;
    const { times, values: all } = answer.arrays;
    for (const [k, canvas] of watched.querySelectorAll("canvas").entries()) {
      spark(canvas, answer, times, all.subarray(k * times.length, (k + 1) * times.length));
    }
  }
  arrange();
  function destroy() {
    for (const one of [asker, objects, names, values]) one.destroy();
  }
  return { element, draw, resize: draw, themed: draw, destroy };
}
