// @ts-check
// A program's text with line numbers, its problems at their lines, and the buttons that simulate it or make one.

import { plural } from "./format.js";
import { watchKernel } from "./heartbeat.js";
import { createSchedule } from "./schedule.js";
import { make, makeButton, makeLink, makeOptions } from "./theme.js";

/** @import { Schedule } from "./schedule.js" */
/** @import { Model } from "./types" */
/** @typedef {{ severity: "error" | "warning", line: number, column: number, text: string, hint: string, also: number[] }} Problem */
/** @typedef {{ type: string, seq: number, problems: Problem[], good: string, ranks: number, ms: number, error?: string }} Checked */
/** @typedef {Record<Field, string> & { name: string }} Chosen */
/** @typedef {"collective" | "size" | "infra" | "protocol"} Field */
/** @typedef {{ state: "none" | "working" | "done" | "failed", what?: string, part?: number | null, error?: string, lines?: string[], locked?: boolean, previous?: boolean }} Synthesis */
/** @typedef {{ name: string, kind: "slider" | "switch" | "choice" | "text", value: any, values: any[] }} Parameter */
/** @typedef {{ text: string, parameters: Parameter[], chosen: Chosen, choices: { collective: string[], protocol: string[], infra: [string, string][] }, synthesis: Synthesis, schedule: Schedule | Record<string, never> }} Traits */

const QUIET_MS = 300; // after the last key
const INDENT = "    ";
const MOST_ROWS = 40; // of the text, before it scrolls
const FEW_ROWS = 16; // where what runs is to be watched below
let lists = 0; // of suggestions on the page

/** @param {{ model: Model<Traits>, el: HTMLElement }} widget */
function render({ model, el }) {
  const { collective: kinds, protocol: protocols, infra: known } = model.get("choices");
  const chosen = model.get("chosen");
  const root = make("div", { class: "anb-workbench anb-editor", "data-lm-suppress-shortcuts": "true", role: "group", "aria-label": "Editor" });
  const text = make("textarea", {
    class: "anb-text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", rows: "4",
    "aria-label": "Program", "aria-describedby": "", title: "Tab indents; Esc, then Tab leaves the text",
  });
  const gutter = make("div", { class: "anb-gutter", "aria-hidden": "true" });
  const bands = make("div", { class: "anb-bands", "aria-hidden": "true" });
  const list = make("ul", { class: "anb-problems", "aria-label": "Problems", "aria-live": "polite" });
  const status = make("span", { class: "anb-source-about", role: "status", "aria-live": "polite" });
  const run = makeButton("Simulate", simulate, { class: "anb-button anb-play", title: "simulate the program and show it below (Ctrl+Enter)" });
  const restore = makeButton("Last correct text", () => replace(good), { title: "restore the last text without an error" });
  const synthesise = makeButton("Synthesise", () => command("synthesize"), { title: "make an algorithm for this infrastructure and collective; it takes the place of the text" });
  const stop = makeButton("Stop", () => command("stop"), { title: "stop synthesising" });
  const previous = makeButton("Previous text", () => command("previous"), { title: "bring back the text from before the synthesis" });
  const doing = make("span", { class: "anb-source-about" });
  const bar = make("progress", { class: "anb-synthesis-bar", max: "1", "aria-label": "Progress of the synthesis" });
  const report = make("div", { class: "anb-synthesis", role: "log", "aria-label": "Synthesis" });
  const schedule = createSchedule();
  /** @param {Field} name @param {string} label @param {number} width */
  const field = (name, label, width) => {
    const input = make("input", { type: "text", class: "anb-path", "aria-label": label, title: label, value: chosen[name], style: `flex: 0 1 ${width}px`, spellcheck: "false" });
    input.addEventListener("change", () => choose(name, input.value));
    return input;
  };
  /** @param {Field} name @param {string} label @param {string[]} values */
  const pick = (name, label, values) => {
    const select = make("select", { class: "anb-steps", "aria-label": label, title: label }, ...makeOptions(values));
    select.value = chosen[name];
    select.addEventListener("change", () => choose(name, select.value));
    return select;
  };
  const fields = {
    collective: pick("collective", "Collective", kinds),
    size: field("size", "Size", 80),
    infra: field("infra", "Infrastructure", 220),
    protocol: pick("protocol", "Protocol", protocols),
  };
  lists += 1;
  const places = make("datalist", { id: `anb-places-${lists}` }, ...known.map(([place, about]) => make("option", { value: place, text: about })));
  fields.infra.setAttribute("list", places.id);
  const parameters = make("div", { class: "anb-row anb-parameters", role: "group", "aria-label": "Parameters" });
  const title = make("h3", { class: "anb-title", text: chosen.name });
  root.append(
    make("div", { class: "anb-row" }, title, fields.collective, fields.size, fields.infra, places, fields.protocol),
    make("div", { class: "anb-paper" }, gutter, make("div", { class: "anb-sheet" }, bands, text)),
    parameters,
    make("div", { class: "anb-row" }, run, synthesise, stop, previous, restore, bar, doing, status),
    report,
    schedule.element,
    list,
  );
  el.append(root);

  let seq = 0; // of the last question
  let waiting = false; // for its answer
  let dirty = false; // the text has changed since it was asked
  let sent = model.get("text");
  /** What was chosen and is not answered yet: the model has it as it was before. @type {Set<string>} */
  const pending = new Set();
  /** @type {Problem[]} */
  let problems = [];
  let good = "";
  let timer = 0;
  /** @type {ReturnType<typeof parameterControl>[]} */
  let controls = [];
  let gone = ""; // why there is no kernel any more
  const kernel = watchKernel(model, (trouble, forever) => {
    if (forever) {
      gone = `${trouble}; copy the text if it is still needed, and run the cell again`;
      waiting = false;
    }
    status.textContent = gone || trouble;
    status.classList.toggle("anb-failed", Boolean(trouble));
  });
  let leaving = false; // Esc was pressed: Tab goes on to the next control
  text.value = sent;
  restore.hidden = true; // until something is known

  /** @param {import("./types").ToKernel} message */
  function ask(message) {
    if (gone) {
      status.textContent = gone;
      return;
    }
    seq += 1;
    waiting = true;
    dirty = false;
    kernel.send({ ...message, seq });
  }
  function check() {
    clearTimeout(timer);
    if (waiting) {
      dirty = true; // asked when the answer has come
      return;
    }
    sent = text.value;
    ask({ type: "check", text: sent });
  }
  function simulate() {
    clearTimeout(timer);
    sent = text.value;
    status.textContent = "simulating …";
    ask({ type: "simulate", text: sent });
  }
  /** What is not about the text. @param {"synthesize" | "stop" | "previous"} type */
  function command(type) {
    clearTimeout(timer);
    ask({ type });
  }
  /** @param {Field} name @param {string} value */
  function choose(name, value) {
    pending.add(name);
    ask({ type: "choose", what: { [name]: value } });
  }
  /** @param {string} name @param {any} value */
  function tune(name, value) {
    pending.add(name);
    status.textContent = "…";
    ask({ type: "tune", what: { [name]: value } });
  }
  /** @param {string} whole */
  function replace(whole) {
    text.focus();
    text.select();
    insert(whole);
  }
  /** Put text in place of the selection, so that Ctrl+Z takes it back. @param {string} added */
  function insert(added) {
    if (!document.execCommand("insertText", false, added)) text.setRangeText(added, text.selectionStart, text.selectionEnd, "end");
    typed();
  }
  function typed() {
    paint();
    status.textContent = gone || "…";
    clearTimeout(timer);
    timer = setTimeout(check, QUIET_MS);
  }

  /** @param {Checked} message */
  function received(message) {
    if (message.type !== "problems" || message.seq !== seq) return; // of an older text
    waiting = false;
    pending.clear();
    chosenSet();
    parametersSet();
    problems = message.problems;
    good = message.good;
    const errors = problems.filter((problem) => problem.severity === "error").length;
    const ranks = `for ${plural(message.ranks, "rank")}`;
    const words = errors ? `${plural(errors, "error")} ${ranks}` : `correct ${ranks}: no deadlock, no race, the right result`;
    status.textContent = message.error ? message.error : `${words} (${message.ms} ms)`;
    status.classList.toggle("anb-failed", Boolean(message.error));
    root.dataset.seq = String(message.seq);
    root.dataset.errors = String(errors);
    write();
    paint();
    if (dirty) check();
  }

  /** The list of problems; each goes to its line. */
  function write() {
    list.replaceChildren(
      ...problems.map((problem) => {
        const others = problem.also.length ? ` (see also line ${problem.also.join(", ")})` : "";
        const words = `line ${problem.line}: ${problem.text}${problem.hint ? `; ${problem.hint}` : ""}${others}`;
        return make("li", { class: `anb-problem anb-${problem.severity}` }, make("b", { text: problem.severity }), makeLink(words, () => go(problem)));
      }),
    );
    const errors = problems.some((problem) => problem.severity === "error");
    run.disabled = errors;
    restore.hidden = !errors || !good || good === text.value;
  }
  /** @param {Problem} problem */
  function go({ line, column }) {
    const lines = text.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const from = start + Math.min(column - 1, lines[line - 1]?.length ?? 0);
    text.focus();
    text.setSelectionRange(from, start + (lines[line - 1]?.length ?? 0));
  }

  /** Line numbers, icons, and a band behind each line with a problem. */
  function paint() {
    const count = text.value.split("\n").length;
    text.rows = Math.min(model.get("synthesis").previous ? FEW_ROWS : MOST_ROWS, Math.max(6, count + 1));
    /** @type {Map<number, { rank: number, severity: string, text: string, first: boolean }>} */
    const at = new Map();
    for (const problem of problems) {
      for (const line of [problem.line, ...problem.also]) {
        const first = line === problem.line;
        const rank = (problem.severity === "error" ? 2 : 1) + (first ? 2 : 0);
        if ((at.get(line)?.rank ?? 0) < rank) at.set(line, { rank, severity: problem.severity, text: problem.text, first });
      }
    }
    gutter.replaceChildren(
      ...Array.from({ length: count }, (_, k) => {
        const found = at.get(k + 1);
        const icon = !found ? "" : !found.first ? "↳" : found.severity === "error" ? "✖" : "▲";
        const row = make("div", { class: `anb-gutter-line${found ? ` anb-${found.severity}` : ""}` }, make("i", { text: icon }), make("span", { text: String(k + 1) }));
        if (found) row.title = found.text;
        return row;
      }),
    );
    bands.replaceChildren(
      ...[...at].map(([line, found]) => make("div", { class: `anb-band anb-${found.severity}`, style: `--anb-line-at: ${line - 1}` })),
    );
    follow();
  }
  function follow() {
    gutter.scrollTop = text.scrollTop;
    bands.style.transform = `translateY(${-text.scrollTop}px)`;
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    event.stopPropagation(); // the notebook has other plans for these keys
    if (event.key === "Escape") {
      leaving = true;
      return;
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (!run.disabled) simulate();
    } else if (event.key === "Tab" && !leaving && !event.ctrlKey && !event.altKey) {
      event.preventDefault();
      indent(event.shiftKey);
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      const before = text.value.slice(0, text.selectionStart).split("\n").pop() ?? "";
      const deeper = before.trimEnd().endsWith(":") ? INDENT : "";
      insert(`\n${before.slice(0, before.length - before.trimStart().length)}${deeper}`);
    }
    if (event.key !== "Tab") leaving = false;
  }
  /** @param {boolean} back */
  function indent(back) {
    const { selectionStart: from, selectionEnd: to, value } = text;
    const first = value.lastIndexOf("\n", from - 1) + 1;
    if (!back && !value.slice(from, to).includes("\n")) {
      insert(INDENT.slice((from - first) % INDENT.length));
      return;
    }
    const block = value.slice(first, to);
    const moved = back ? block.replace(/^ {1,4}/gm, "") : block.replace(/^(?=.)/gm, INDENT);
    text.setSelectionRange(first, to);
    insert(moved);
    text.setSelectionRange(first, first + moved.length);
  }

  // What Python, or another page, has written.
  function textSet() {
    const now = model.get("text");
    if (now === sent || now === text.value) return;
    sent = now;
    text.value = now;
    paint();
    check();
  }
  function chosenSet() {
    const now = model.get("chosen");
    for (const name of /** @type {Field[]} */ (Object.keys(fields))) if (!pending.has(name)) fields[name].value = now[name];
    title.textContent = now.name;
  }
  function synthesisSet() {
    const now = model.get("synthesis");
    const working = now.state === "working";
    const failed = now.state === "failed";
    root.dataset.synthesis = now.state;
    stop.hidden = bar.hidden = doing.hidden = !working;
    synthesise.disabled = working;
    previous.hidden = working || !now.previous;
    if (typeof now.part === "number") bar.value = now.part;
    else bar.removeAttribute("value");
    doing.textContent = `${now.what ?? ""} …`;
    report.classList.toggle("anb-failed", failed);
    const lines = failed ? [now.error ?? ""] : (now.lines ?? []);
    report.replaceChildren(...lines.map((line) => make("div", { text: line })));
    report.hidden = !lines.length;
    text.readOnly = Boolean(now.locked);
    paint(); // it may have fewer rows now
  }
  /** A control for each parameter of the function; they stay while only values change, so that a slider can be dragged. */
  function parametersSet() {
    const now = model.get("parameters");
    parameters.hidden = !now.length;
    const shape = JSON.stringify(now.map(({ name, kind, values }) => [name, kind, values]));
    if (parameters.dataset.shape !== shape) {
      parameters.dataset.shape = shape;
      controls = now.map((one) => parameterControl(one, tune));
      parameters.replaceChildren(...controls.map((control) => control.element));
    }
    now.forEach((one, k) => pending.has(one.name) || controls[k].show(one.value));
  }
  const scheduleSet = () => schedule.draw(model.get("schedule"));
  text.addEventListener("input", typed);
  text.addEventListener("scroll", follow);
  root.addEventListener("keydown", (event) => (event.target === text ? key(event) : event.stopPropagation()));
  model.on("msg:custom", received);
  model.on("change:text", textSet);
  model.on("change:chosen", chosenSet);
  model.on("change:parameters", parametersSet);
  model.on("change:synthesis", synthesisSet);
  model.on("change:schedule", scheduleSet);
  parametersSet();
  synthesisSet();
  scheduleSet();
  check();
  return () => {
    clearTimeout(timer);
    kernel.stop();
    model.off("msg:custom", received);
    model.off("change:text", textSet);
    model.off("change:chosen", chosenSet);
    model.off("change:parameters", parametersSet);
    model.off("change:synthesis", synthesisSet);
    model.off("change:schedule", scheduleSet);
    root.remove();
  };
}

/** The control of one parameter. @param {Parameter} one @param {(name: string, value: any) => void} tune */
function parameterControl({ name, kind, values }, tune) {
  const label = { "aria-label": name };
  const number = make("span", { class: "anb-parameter-value", "aria-hidden": "true" });
  if (kind === "slider") {
    const range = make("input", { type: "range", min: "0", max: String(values.length - 1), step: "1", ...label });
    const say = () => {
      number.textContent = String(values[range.valueAsNumber]);
      range.setAttribute("aria-valuetext", number.textContent);
    };
    range.addEventListener("input", say);
    range.addEventListener("change", () => tune(name, values[range.valueAsNumber]));
    return {
      element: make("label", { class: "anb-parameter" }, make("span", { text: name }), range, number),
      show: (/** @type {any} */ value) => {
        if (range.matches(":active")) return; // it is being dragged
        range.value = String(Math.max(0, values.indexOf(value)));
        say();
      },
    };
  }
  if (kind === "switch") {
    const box = make("input", { type: "checkbox", ...label });
    box.addEventListener("change", () => tune(name, box.checked));
    return {
      element: make("label", { class: "anb-parameter" }, box, make("span", { text: name })),
      show: (/** @type {any} */ value) => {
        box.checked = Boolean(value);
      },
    };
  }
  if (kind === "choice") {
    const select = make("select", { class: "anb-steps", ...label }, ...makeOptions(values.map(String)));
    select.addEventListener("change", () => tune(name, values[select.selectedIndex]));
    return {
      element: make("label", { class: "anb-parameter" }, make("span", { text: name }), select),
      show: (/** @type {any} */ value) => {
        select.selectedIndex = values.indexOf(value);
      },
    };
  }
  const input = make("input", { type: "text", class: "anb-path", spellcheck: "false", style: "flex: 0 1 80px", ...label });
  input.addEventListener("change", () => tune(name, input.value));
  return {
    element: make("label", { class: "anb-parameter" }, make("span", { text: name }), input),
    show: (/** @type {any} */ value) => {
      if (document.activeElement !== input) input.value = String(value);
    },
  };
}

export default { render };
