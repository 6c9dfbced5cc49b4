// @ts-check
// What can be changed of the selected object and of the run, and what has been.

import { createAsker, createRequests, stateNumber } from "./asker.js";
import { formatCount } from "./format.js";
import { createMoment } from "./moment.js";
import { make, makeButton, makeHint, makeLink, makeOptions } from "./theme.js";

/** @import { Answer, CreateView, Options, Parameter } from "./types" */

const QUANTITY = /^(\d+(?:\.\d+)?)(\s*)(.*)$/;
/** Decimal places that are whole picoseconds, or whole objects. @type {Record<string, number>} */
const PLACES = { ps: 0, ns: 3, us: 6, µs: 6, ms: 9, s: 12, SMs: 0 };
const DIGITS = 9;

/**
 * A value with its unit, times a factor; a value that is no number stays as it is.
 * @param {string} value
 * @param {number} factor
 * @param {string} bare the unit of a bare number
 */
function scaled(value, factor, bare) {
  const [, number, space, unit] = QUANTITY.exec(value.trim()) ?? [];
  if (!Number(number)) return value;
  const places = PLACES[unit || bare];
  const product = Number((Number(number) * factor).toPrecision(DIGITS));
  return `${places === undefined ? product : Number(product.toFixed(places))}${space}${unit}`;
}

/** @type {CreateView} */
export function createChange(store) {
  const title = make("h4", {});
  const moment = createMoment(store, () => asker.reply && store.state?.now_ps, "changes are made where the simulation is");
  const ended = makeHint("The run has ended: go back or Reset first, so that a change has an effect.");
  const object = make("div", { class: "anb-form" });
  const link = make("div", { class: "anb-row" });
  const run = make("div", { class: "anb-form" });
  const edits = make("div", { class: "anb-list" });
  const wrong = make("p", { class: "anb-failed", role: "alert", hidden: "" });
  const forking = makeButton("Fork with these", () => fork(changed()), { disabled: "", title: "start a new run with these changes, shown beside this one" });
  const whole = make("div", { class: "anb-form" }, make("h5", { text: "The run (from the start of a fork)" }), run, make("div", { class: "anb-row" }, forking));
  const element = make(
    "section", { class: "anb-change", "aria-label": "Change" }, wrong, make("div", { class: "anb-row" }, title, moment), ended, object, link, make("h5", { text: "Changed so far" }), edits, whole,
  );
  let shape = "";
  const asker = createAsker(store, "parameters", {
    every: 250,
    answered(found, error) {
      if (found) show(found);
      else fail(error);
    },
  });

  const { fail, request } = createRequests(store, wrong, asker.again);
  /** @param {string} verb @param {Options} options */
  async function apply(verb, options) {
    store.follow();
    if (!(await request("apply", { verb, options }))) return;
    for (const row of object.querySelectorAll("[data-dirty]")) row.setAttribute("data-dirty", "false");
    shape = ""; // what was typed is replaced by what is so
    asker.again(); // an answer may have come while the entry still held what was typed
    store.emit("change");
  }
  /** @param {Record<string, string>} changes */
  async function fork(changes) {
    if (!(await request("fork", { changes }))) return;
    for (const entry of edited()) delete entry.dataset.changed;
    shape = "";
    store.show_panel("compare", true);
  }
  /** @returns {NodeListOf<HTMLInputElement | HTMLSelectElement>} */
  const edited = () => run.querySelectorAll("[data-changed]");
  const changed = () => Object.fromEntries([...edited()].map((entry) => [entry.name, entry.value]));

  /**
   * What a parameter is entered with: a choice, or text with a unit.
   * @param {Parameter} parameter
   * @param {string} label
   * @param {() => void} oninput
   * @param {() => void} [onenter]
   */
  function field(parameter, label, oninput, onenter) {
    const { path, value, choices, unit, limits, meaning, effect } = parameter;
    const about = [meaning, limits, unit && `bare numbers are ${unit}`, `takes effect ${effect}`].filter(Boolean);
    const common = { name: path, "aria-label": label, title: about.join("; "), oninput };
    if (choices.length && (choices.includes(value) || path === "algorithm")) {
      const names = choices.includes(value) ? choices : [value, ...choices];
      const select = make("select", common, ...makeOptions(names));
      select.value = value;
      return select;
    }
    const input = make("input", { ...common, type: "text", spellcheck: "false", autocomplete: "off" });
    input.value = value;
    if (onenter) input.addEventListener("keydown", (event) => event.key === "Enter" && onenter());
    return input;
  }
  /** @param {Parameter} parameter */
  function objectRow(parameter) {
    const name = parameter.path.slice(parameter.path.lastIndexOf(".") + 1);
    const set = () => apply("set", { path: parameter.path, value: entry.value });
    const dirty = () => {
      row.dataset.dirty = String(entry.value !== parameter.value);
    };
    const entry = field(parameter, name, dirty, set);
    /** @param {string} text @param {string} words @param {number} factor */
    const scale = (text, words, factor) => makeButton(text, () => {
      entry.value = scaled(entry.value, factor, parameter.unit);
      dirty();
    }, { class: "anb-button anb-scale", "aria-label": `${words} ${name}`, title: `${words.toLowerCase()} the value in the field` });
    const scales = scaled(parameter.value, 2, parameter.unit) === parameter.value ? [] : [scale("½", "Halve", 0.5), scale("×2", "Double", 2)];
    const row = make(
      "div", { class: "anb-field" }, make("span", { class: "anb-name", text: name, title: parameter.meaning }), entry, ...scales,
      makeButton("Apply", set, { "aria-label": `Apply ${name}`, title: `now: ${parameter.effect}` }),
      makeButton("Fork", () => fork({ [parameter.path]: entry.value }), {
        "aria-label": `Fork with ${name}`, title: "copy the run, apply this change from now on, and show it beside this run",
      }),
    );
    row.dataset.dirty = "false";
    return row;
  }
  /** @param {Parameter} parameter */
  function runRow(parameter) {
    const entry = field(parameter, parameter.path, () => {
      if (entry.value === parameter.value) delete entry.dataset.changed;
      else entry.dataset.changed = "";
      forking.disabled = !edited().length;
    });
    return make("label", { class: "anb-field" }, make("span", { class: "anb-name", text: parameter.path, title: parameter.meaning }), entry);
  }
  /** @param {string} path @param {boolean} down */
  function linkButtons(path, down) {
    /** @param {string} text @param {string} words @param {string} verb @param {Options} options */
    const press = (text, words, verb, options) => makeButton(text, () => apply(verb, { link: path, ...options }), { title: words });
    const reroute = makeButton("Reroute", () => apply("reroute", {}), { title: "change the routes: traffic that waits, and traffic sent from now on, avoids the links that are down" });
    if (down) {
      return [
        reroute,
        press("Repair", "bring this direction up again: waiting messages go on", "repair", {}),
        press("Repair both", "bring both directions up again", "repair", { both: true }),
      ];
    }
    return [
      press("Take down", "take this direction down: messages wait in front of it", "take_down", {}),
      press("Take both down", "take both directions down, as when a cable is cut", "take_down", { both: true }),
      reroute,
    ];
  }
  /** @param {Answer<"parameters">} answer */
  function show(answer) {
    const held = element.contains(document.activeElement) && /INPUT|SELECT/.test(document.activeElement?.tagName ?? "");
    // What the user is typing is not replaced, and what has not changed is not built anew.
    const next = JSON.stringify([answer.title, answer.object]);
    const entered = document.activeElement?.closest(".anb-change .anb-field");
    const typing = held && entered instanceof HTMLElement && entered.dataset.dirty === "true";
    if (next !== shape && !typing) {
      shape = next;
      const focused = held && object.contains(document.activeElement) ? document.activeElement?.getAttribute("name") : null;
      const hint = store.selection ? "this object has no parameters that can be changed" : store.engine === "operations"
        ? "Select a rank, a dimension or (with congestion) a link to change it: rank[3], dim[0], A->B."
        : "Select a link or a GPU to change it.";
      title.textContent = answer.title || "No object";
      const rows = answer.object.filter(({ path }) => !path.endsWith(".up")).flatMap((one) => (one.path.endsWith(".bandwidth") ? [objectRow(one), makeHint(`${one.meaning}.`)] : [objectRow(one)]));
      object.replaceChildren(...(answer.object.length ? rows : [makeHint(hint)]));
      if (focused) /** @type {HTMLElement | null} */ (object.querySelector(`[name="${CSS.escape(focused)}"]`))?.focus();
      const up = answer.object.find(({ path }) => path.endsWith(".up"));
      link.replaceChildren(...(up ? linkButtons(answer.title, up.value !== "yes") : []));
    }
    whole.hidden = !answer.run.length;
    if (!run.childElementCount || (!held && !edited().length)) {
      const text = JSON.stringify(answer.run);
      if (run.dataset.shape !== text) {
        run.dataset.shape = text;
        run.replaceChildren(...answer.run.map(runRow));
      }
      forking.disabled = true;
    }
    const rows = answer.edits.map(([events, path, value], number) =>
      make(
        "div", { class: "anb-item" }, makeLink(`${path} = ${value}`, () => store.select(path.slice(0, path.lastIndexOf("."))), { title: "select it" }),
        make("span", { class: "anb-hint", text: `event ${formatCount(events)}` }),
        makeButton("Undo", () => apply("undo", { number }), {
          "aria-label": `Undo ${path}`, title: "go back to before this change; later changes are undone as well",
        }),
      ),
    );
    edits.replaceChildren(...(rows.length ? rows : [makeHint("No changes yet. Reset keeps them.")]));
  }
  return {
    element,
    draw() {
      ended.hidden = !store.state?.finished || !object.querySelector("input, select");
      asker.want({ path: store.selection }, `${store.selection}|${stateNumber(store)}`);
    },
    destroy: asker.destroy,
  };
}
