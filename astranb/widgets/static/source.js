// @ts-check
// The text of the program, which thread blocks are at which line at the cursor, and where the time went until then.

import { createAsker, momentOf } from "./asker.js";
import { plural } from "./format.js";
import { createLineTimes } from "./line_times.js";
import { createMoment } from "./moment.js";
import { selectedBlock } from "./selection.js";
import { make, makeButton, makeHint, makeLink, refill } from "./theme.js";

/** @import { CreateView, SourcePart } from "./types" */

const NAMED = 1; // blocks at a line that are named in its margin
const LISTED = 200; // in the list of the blocks of a line
const DONE = 5; // gpu/tables.py: BLOCK_STATES
const PENDING = 0;

/** @type {CreateView} */
export function createSource(store) {
  const next = makeButton("Next line", () => {
    const target = aim();
    if (target) store.command("next_line", { block: path(target) });
  }, { class: "anb-button anb-next-line", title: "run until this thread block reaches its next operation" });
  const about = make("span", { class: "anb-source-about", role: "status", "aria-live": "polite" });
  const code = make("div", { class: "anb-code", role: "list", "aria-label": "Program", tabindex: "0" });
  const listed = make("div", { class: "anb-source-list" });
  const times = createLineTimes(store, () => [...rows].map(([key, row]) => [key, row.heat]), (key) => {
    const row = rows.get(key);
    if (row && !code.scrollTop && !code.querySelector(".anb-picked")) scrollTo(row.element);
  });
  const element = make(
    "section", { class: "anb-source", "aria-label": "Source" },
    make("div", { class: "anb-row" }, next, about, createMoment(store, () => asker.reply?.at_ps)), times.legend, code, listed,
  );
  /** @typedef {{ gpu: number, block: number, state: number, op: number, ops: number, part: number, line: number }} Spot where a block is */
  /** @param {Spot} spot */
  const path = (spot) => `gpu[${spot.gpu}].block.${spot.block}`;
  /** @param {Spot} spot */
  const name = (spot) => `GPU${spot.gpu} block ${spot.block}`;

  /** @type {Spot[]} */
  let spots = [];
  /** @type {Map<string, { element: HTMLElement, heat: HTMLElement, marks: HTMLElement, button: HTMLButtonElement, line: number }>} by "part:line" */
  let rows = new Map();
  /** @type {SourcePart[] | null} */
  let parts = null;
  let chosen = ""; // the line whose blocks are listed
  let seen = ""; // the selection that has been scrolled to, and where it is
  let failure = "";
  /** @type {Set<string>} */
  let marked = new Set();

  async function load() {
    try {
      const reply = await store.ask("source");
      parts = reply.parts;
      failure = "";
    } catch (error) {
      failure = error instanceof Error ? error.message : String(error);
    }
    write();
    store.emit("change");
  }
  const asker = createAsker(store, "where", {
    every: 120,
    answered(reply, error) {
      if (error) {
        failure = error.message;
        return;
      }
      const { gpu, block, state, op, ops, part, line } = reply.arrays;
      spots = Array.from(gpu, (_, k) => ({ gpu: gpu[k], block: block[k], state: state[k], op: op[k], ops: ops[k], part: part[k], line: line[k] }));
      show();
    },
  });

  /** Put the text there, once. */
  function write() {
    rows = new Map();
    marked = new Set();
    code.replaceChildren();
    const some = (parts ?? []).some((part) => part.lines.length);
    if (failure || !some) {
      const why = failure || "The source of this program is not available: it was read from a file, or its file is gone.";
      code.append(makeHint(why));
      return;
    }
    (parts ?? []).forEach((part, number) => {
      const words = `${part.name}${part.shipped ? " (astranb)" : ""}, line ${part.first}`;
      code.append(make("h5", { text: words }));
      part.lines.forEach((text, k) => {
        const line = part.first + k;
        const marks = make("span", { class: "anb-marks" });
        const heat = make("span", { class: "anb-line-time" });
        const button = makeButton(String(line), () => choose(`${number}:${line}`), { class: "anb-line-number", "aria-label": `line ${line}` });
        const row = make(
          "div", { class: "anb-line", role: "listitem", "data-line": String(line) },
          button, heat, marks, make("code", { text: text || " " }),
        );
        row.addEventListener("click", (event) => {
          if (!(event.target instanceof Element && event.target.closest("button"))) choose(`${number}:${line}`);
        });
        rows.set(`${number}:${line}`, { element: row, heat, marks, button, line });
        code.append(row);
      });
    });
    show();
    times.show();
  }

  /** The block that "Next line" moves: the selected one, else one of the selected GPU, else the first that goes on. */
  function aim() {
    const picked = selectedBlock(store);
    const going = spots.filter((spot) => spot.op < spot.ops);
    const mine = picked ? going.filter((spot) => spot.gpu === picked.gpu) : going;
    return mine.find((spot) => !picked || picked.block < 0 || spot.block === picked.block);
  }
  /** @param {Spot} spot @param {ReturnType<typeof selectedBlock>} picked */
  function isPicked(spot, picked) {
    return picked !== null && spot.gpu === picked.gpu && (picked.block < 0 || picked.block === spot.block);
  }

  /** Mark the lines at which thread blocks are. */
  function show() {
    const picked = selectedBlock(store);
    /** @type {Map<string, Spot[]>} */
    const at = new Map();
    for (const spot of spots) {
      if (spot.part < 0 || spot.state === PENDING || spot.state === DONE) continue;
      const key = `${spot.part}:${spot.line}`;
      at.set(key, [...(at.get(key) ?? []), spot]);
    }
    for (const key of marked) {
      const row = rows.get(key);
      if (at.has(key) || !row) continue;
      row.element.classList.remove("anb-here", "anb-picked");
      row.element.removeAttribute("aria-current");
      row.button.setAttribute("aria-label", `line ${row.line}`);
      row.marks.replaceChildren();
    }
    /** @type {HTMLElement | null} */
    let first = null;
    for (const [key, here] of at) {
      const row = rows.get(key);
      if (!row) continue;
      const own = here.filter((spot) => isPicked(spot, picked));
      row.element.classList.add("anb-here");
      row.element.classList.toggle("anb-picked", own.length > 0);
      if (own.length) row.element.setAttribute("aria-current", "step");
      else row.element.removeAttribute("aria-current");
      const words = plural(here.length, "thread block");
      row.button.setAttribute("aria-label", `line ${row.line}, ${words} here`);
      const shown = own.length && own.length <= NAMED ? own : here.length <= NAMED ? here : [];
      const rest = here.length - shown.length;
      const badges = shown.map((spot, k) => {
        const more = rest && k === shown.length - 1 ? ` +${rest}` : "";
        return make("span", { class: "anb-mark", text: `${name(spot)}${more}` });
      });
      if (!shown.length) badges.push(make("span", { class: "anb-mark anb-many", text: plural(rest, "block") }));
      row.marks.replaceChildren(...badges);
      row.marks.title = here.slice(0, 12).map(name).join(", ") + (here.length > 12 ? ", …" : "");
      if (own.length && !first) first = row.element;
    }
    marked = new Set(at.keys());
    code.classList.toggle("anb-quiet", !at.size);
    const target = aim();
    next.disabled = !target;
    next.textContent = target ? `Next line of ${name(target)}` : "Next line";
    const focus = spots.find((spot) => isPicked(spot, picked)) ?? target;
    about.textContent = focus ? sentence(focus) : spots.length ? "all thread blocks have ended" : "";
    const place = `${store.selection} ${first?.dataset.line ?? ""}`;
    if (first && place !== seen) scrollTo(first);
    seen = place;
    list();
  }
  /** @param {Spot} spot */
  function sentence(spot) {
    if (spot.op >= spot.ops) return `${name(spot)} has ended`;
    if (spot.state === PENDING) return `${name(spot)} has not begun`;
    return `${name(spot)}: operation ${spot.op + 1} of ${spot.ops}${spot.line ? `, line ${spot.line}` : ""}`;
  }
  /** Only the text scrolls, never the page. @param {HTMLElement} row */
  function scrollTo(row) {
    const [top, bottom] = [row.offsetTop - code.offsetTop, row.offsetTop - code.offsetTop + row.offsetHeight];
    if (top < code.scrollTop || bottom > code.scrollTop + code.clientHeight) code.scrollTop = top - code.clientHeight / 3;
  }
  /** @param {string} key */
  function choose(key) {
    chosen = chosen === key ? "" : key;
    list();
    store.emit("change");
  }
  /** The blocks at the chosen line, to go on to. */
  function list() {
    for (const [key, row] of rows) row.element.classList.toggle("anb-chosen", key === chosen);
    listed.hidden = !chosen;
    if (!chosen) return;
    const [part, line] = chosen.split(":").map(Number);
    const here = spots.filter((spot) => spot.part === part && spot.line === line && spot.state !== DONE && spot.state !== PENDING);
    const title = here.length ? `At line ${line}: ${here.length}` : `No thread block is at line ${line} now`;
    /** @type {HTMLElement[]} */
    const buttons = here.slice(0, LISTED).map((spot) => makeLink(`${name(spot)} (${spot.op + 1}/${spot.ops})`, () => store.select(path(spot))));
    if (here.length > LISTED) buttons.push(make("span", { class: "anb-hint", text: `and ${here.length - LISTED} more` }));
    refill(listed, make("h5", { text: title }), make("div", { class: "anb-children" }, ...buttons));
  }

  store.on("scene", () => {
    asker.forget();
    times.forget();
    spots = [];
    parts = null;
  });
  /** @type {string | null} */
  let selection = null;
  return {
    element,
    draw() {
      if (!store.ready) return;
      if (parts === null) {
        parts = [];
        load();
      }
      if (store.state) {
        const { at_ps, key } = momentOf(store);
        asker.want({ at_ps }, key);
        if ((parts ?? []).some((part) => part.lines.length)) times.draw();
      }
      if (selection !== store.selection) {
        selection = store.selection;
        show();
      }
    },
    shown() {
      seen = "";
    },
    destroy() {
      asker.destroy();
      times.destroy();
    },
  };
}
