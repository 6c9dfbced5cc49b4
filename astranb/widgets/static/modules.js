// @ts-check
// A graph by module: boxes that open and close, what waits for what between them, a search, what is known of one.

import { createFinder } from "./finder.js";
import { formatBytes, formatCount, formatShare, formatTime, plural } from "./format.js";
import { arrange, HEAD } from "./module_layout.js";
import { createModuleFacts } from "./module_facts.js";
import { make, makeBarKey, makeButton, makeKey, makeSvg, settle } from "./theme.js";

/** @import { ModuleAbout, ModuleBox, ModuleLink, ModulePicture, ModuleReply, ModuleSource, ModuleStates } from "./types" */

/** @typedef {"compute" | "communication" | "memory" | "other"} Kind */
/** @type {[Kind, string][]} */
const MODULE_KINDS = [["compute", "#0072b2"], ["communication", "#e69f00"], ["memory", "#009e73"], ["other", "#8c8c8c"]];
const EDGE = 16; // px around the picture
const MARGIN = 240; // px around what is in sight that are drawn, too
const ZOOMS = [0.25, 0.35, 0.5, 0.7, 0.85, 1, 1.25, 1.6, 2];
const NORMAL = ZOOMS.indexOf(1);
const FEW = 12; // a module with so many children is open at the start

let numbers = 0; // of graphs on the page: ids must differ

const BEGIN = 7; // letters of a long name that stay
/** A text cut so that it fits into a box; names differ at their ends. @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, BEGIN)}…${text.slice(1 + BEGIN - most)}` : text);

/** How many nodes there are in a child of a module. @param {ModuleReply} reply @param {number} k */
const nodesIn = ({ arrays }, k) => MODULE_KINDS.reduce((sum, [kind]) => sum + arrays[kind][k], 0);

/** The figures of a child of a module in a few words. @param {ModuleReply} reply @param {number} k @param {boolean} whole a module */
function figures(reply, k, whole) {
  const { duration, bytes, flops, critical } = reply.arrays;
  const parts = [
    whole ? plural(nodesIn(reply, k), "node") : "",
    duration[k] ? formatTime(duration[k] * 1000, 2) : "",
    bytes[k] && (!whole || !duration[k]) ? formatBytes(bytes[k]) : "",
    !duration[k] && !bytes[k] && flops[k] ? `${flops[k].toPrecision(3)} FLOPs` : "",
    critical[k] >= 0.0005 ? `${formatShare(critical[k])} critical` : "",
  ];
  return parts.filter(Boolean).join(" · ") || MODULE_KINDS.filter(([kind]) => reply.arrays[kind][k]).map(([kind]) => kind).join();
}

/**
 * @param {{ within?: HTMLElement[], selected?: (entity: number, row: number) => void, opened?: () => void }} [settings] `within` another
 *   view, what is in its head: that shows what is selected; told what a person selects (`row`: of a node, else -1), and when other modules are open
 */
export function createModules({ within, selected = () => {}, opened: changed = () => {} } = {}) {
  const id = `anb-graph-${(numbers += 1)}`;
  const title = make("h3", { class: "anb-title" });
  const counts = make("span", { class: "anb-hint", role: "status" });
  const picture = makeSvg("svg", { "aria-hidden": "false" });
  const holder = make("div", {
    class: "anb-modules-holder", tabindex: "0", role: "tree", onkeydown: key,
    "aria-label": "Graph by module: the arrow keys walk, right opens, left closes",
  }, picture);
  const notes = make("div", { class: "anb-modules-notes", hidden: "" });
  const finder = createFinder({ title: "find a node or a module by its name or number", ask: search, take: (number) => reveal(found[number]), home: () => holder });
  const level = make("span", { class: "anb-note" });
  const keys = make("div", { class: "anb-legend" });
  const facts = createModuleFacts({ reveal, toggle });
  const element = make(
    "section", { class: "anb-modules", "aria-label": "Graph by module" },
    make("div", { class: "anb-row anb-modules-bar" }, ...(within ?? [title, counts]), finder.element,
      makeButton("Close all", closeAll, { title: "close all modules" }),
      make("span", { class: "anb-joined" },
        makeButton("−", () => zoomBy(-1), { "aria-label": "smaller" }), makeButton("+", () => zoomBy(1), { "aria-label": "larger" })),
      level),
    keys, notes,
    make("div", { class: "anb-modules-main" }, holder, ...(within ? [] : [facts.element])),
  );
  /** @type {ModuleSource | null} */
  let source = null;
  /** @type {ModuleAbout | null} */
  let about = null;
  /** @type {Map<number, ModuleReply>} */
  const replies = new Map();
  /** @type {Set<number>} */
  const opened = new Set();
  /** @type {ModulePicture} */
  let drawn = { wide: 0, high: 0, boxes: [], lines: [] };
  /** @type {ModuleStates | null} */
  let states = null;
  let active = -1; // the entity that is selected
  let zoom = NORMAL;
  let asked = 0; // frame
  let session = 0; // a graph that was left has no answers any more
  let searches = 0;
  /** @type {ModuleLink[]} */
  let found = [];
  holder.addEventListener("scroll", paintSoon, { passive: true });
  const watch = new ResizeObserver(paintSoon);
  watch.observe(holder);

  /** Show a graph. @param {ModuleAbout} what @param {ModuleSource} from */
  async function show(what, from) {
    session += 1;
    const mine = session;
    [source, about, active, states] = [from, what, -1, null];
    replies.clear();
    opened.clear();
    settle(title, what.title);
    title.title = what.title;
    settle(counts, `${plural(what.nodes, "node")} in ${plural(what.modules - 1, "module")} by ${what.by === "callers" ? "callers" : "the words of names"}`);
    notes.hidden = !what.notes.length;
    notes.replaceChildren(...what.notes.map((text) => make("p", { class: "anb-hint", text: `Note: ${text}` })));
    keys.replaceChildren(
      ...MODULE_KINDS.map(([kind, colour]) => makeBarKey(colour, kind)),
      makeKey(lineKey(""), "waits for data"), makeKey(lineKey("anb-tie-control"), "for control only"), makeKey(lineKey("anb-tie-back"), "back to what began before"),
    );
    await load(0);
    if (mine !== session) return;
    let only = 0; // modules that hold one thing, and few things, are opened
    for (let reply = replies.get(only); reply && reply.arrays.entity.length === 1 && reply.arrays.entity[0] < what.modules; reply = replies.get(only)) {
      only = reply.arrays.entity[0];
      await load(only);
      if (mine !== session) return;
      opened.add(only);
    }
    const first = replies.get(only);
    if (first && first.arrays.entity.length <= FEW && what.nodes <= 4 * FEW) {
      for (const entity of first.arrays.entity) if (entity < what.modules) await open(entity);
    }
    if (mine !== session) return;
    layOut();
    holder.scrollTo(Math.max(0, (drawn.wide * ZOOMS[zoom] + 2 * EDGE - holder.clientWidth) / 2), 0);
    facts.show(null, null);
  }
  /** Have a module's drawing. @param {number} module */
  async function load(module) {
    if (replies.has(module) || !source) return;
    const mine = session;
    const reply = await source.module(module);
    if (mine === session) replies.set(module, reply);
  }
  /** @param {number} entity */
  async function open(entity) {
    const mine = session;
    await load(entity);
    if (mine === session && replies.has(entity)) opened.add(entity);
  }
  const isModule = (/** @type {number} */ entity) => Boolean(about && entity < about.modules);

  /** Lay out anew; what is at a place of the screen stays there. @param {number} [anchor] an entity */
  function layOut(anchor = -1) {
    const before = boxOf(anchor);
    const shown = before && [before.x, before.y];
    drawn = arrange(0, replies, opened);
    const scale = ZOOMS[zoom];
    picture.setAttribute("width", String(drawn.wide * scale + 2 * EDGE));
    picture.setAttribute("height", String(drawn.high * scale + 2 * EDGE));
    const after = boxOf(anchor);
    if (shown && after) holder.scrollBy((after.x - shown[0]) * scale, (after.y - shown[1]) * scale);
    element.dataset.boxes = String(drawn.boxes.length);
    changed();
    settle(level, `${Math.round(scale * 100)}%`);
    paint();
  }
  /** @param {number} entity */
  const boxOf = (entity) => (entity < 0 ? undefined : drawn.boxes.find((box) => box.entity === entity));

  /** @param {number} entity */
  async function toggle(entity) {
    if (!isModule(entity)) return;
    if (opened.has(entity)) opened.delete(entity);
    else await open(entity);
    layOut(entity);
    if (entity === active) facts.show(boxOf(entity) ?? null, about);
  }
  function closeAll() {
    opened.clear();
    if (!boxOf(active) || !drawn.boxes.some((box) => box.entity === active && box.level === 1)) active = -1;
    layOut();
    holder.scrollTo(0, 0);
    choose(active);
  }
  /** @param {number} entity */
  async function choose(entity) {
    active = entity;
    holder.setAttribute("aria-activedescendant", entity < 0 ? "" : `${id}-${entity}`);
    paint();
    const box = boxOf(entity);
    const mine = session;
    facts.show(box ?? null, about);
    selected(entity, about && !isModule(entity) ? entity - about.modules : -1);
    if (!box || isModule(entity) || !source) return;
    const detail = await source.detail(entity);
    if (mine === session && active === entity) facts.fill(detail);
  }
  /** Open the modules around an entity, select it and bring it into sight. @param {ModuleLink} link */
  async function reveal([entity, , around]) {
    for (const module of around) if (module) await open(module);
    layOut();
    await choose(entity);
    const box = boxOf(entity);
    if (!box) return;
    const scale = ZOOMS[zoom];
    const high = box.open ? HEAD : box.h;
    holder.scrollTo(
      EDGE + (box.x + box.w / 2) * scale - holder.clientWidth / 2, EDGE + (box.y + high / 2) * scale - holder.clientHeight / 2,
    );
    paint();
  }
  /** @param {string} text */
  async function search(text) {
    searches += 1;
    const mine = searches;
    const answer = await source?.search(text);
    if (!answer || mine !== searches) return;
    found = answer.found;
    const rest = answer.total - found.length;
    finder.show(found.map(([, name]) => name), rest > 0 ? `… and ${formatCount(rest)} more: type more of the name` : "");
  }
  /** Show a node by its number, unless it is selected. @param {number} number */
  async function find(number) {
    const mine = session;
    const answer = await source?.search(String(number));
    const link = answer?.found[0];
    if (link && mine === session && link[0] !== active) reveal(link);
  }
  /** @param {number} step */
  function zoomBy(step) {
    const before = ZOOMS[zoom];
    zoom = Math.max(0, Math.min(ZOOMS.length - 1, zoom + step));
    const grown = ZOOMS[zoom] / before;
    const [x, y] = [holder.scrollLeft + holder.clientWidth / 2 - EDGE, holder.scrollTop + holder.clientHeight / 2 - EDGE];
    layOut();
    holder.scrollTo(x * grown + EDGE - holder.clientWidth / 2, y * grown + EDGE - holder.clientHeight / 2);
  }
  /** @param {KeyboardEvent} event */
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = drawn.boxes.findIndex((box) => box.entity === active);
    const box = drawn.boxes[at];
    /** @type {Record<string, () => void>} */
    const keyed = {
      ArrowDown: () => walk(at + 1),
      ArrowUp: () => walk(at < 0 ? 0 : at - 1),
      Home: () => walk(0),
      End: () => walk(drawn.boxes.length - 1),
      ArrowRight: () => (box && isModule(active) && !box.open ? toggle(active) : walk(at + 1)),
      ArrowLeft: () => (box?.open ? toggle(active) : box && box.around > 0 ? walk(drawn.boxes.findIndex((one) => one.entity === box.around)) : undefined),
      Enter: () => toggle(active),
      " ": () => toggle(active),
      "+": () => zoomBy(1),
      "-": () => zoomBy(-1),
    };
    if (!Object.hasOwn(keyed, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    keyed[event.key]();
  }
  /** Select the box at a place of the list. @param {number} at */
  function walk(at) {
    const box = drawn.boxes[Math.max(0, Math.min(drawn.boxes.length - 1, at))];
    if (!box) return;
    const scale = ZOOMS[zoom];
    const [x0, y0, x1, y1] = [box.x, box.y, box.x + Math.min(box.w, 300), box.y + (box.open ? HEAD : box.h)].map((one) => one * scale + EDGE);
    const left = x0 < holder.scrollLeft ? x0 - EDGE : Math.max(holder.scrollLeft, x1 - holder.clientWidth + EDGE);
    const top = y0 < holder.scrollTop ? y0 - EDGE : Math.max(holder.scrollTop, y1 - holder.clientHeight + EDGE);
    holder.scrollTo(left, top);
    choose(box.entity);
  }
  function paintSoon() {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      paint();
    });
  }
  /** Draw what is in sight. */
  function paint() {
    if (!holder.clientHeight) return; // hidden: it has no place that it is scrolled to
    const scale = ZOOMS[zoom];
    const [left, top] = [(holder.scrollLeft - MARGIN) / scale, (holder.scrollTop - MARGIN) / scale];
    const [right, bottom] = [left + (holder.clientWidth + 2 * MARGIN) / scale, top + (holder.clientHeight + 2 * MARGIN) / scale];
    const boxes = drawn.boxes.filter(({ x, y, w, h }) => x < right && x + w > left && y < bottom && y + h > top);
    const lines = drawn.lines.filter((line) => {
      const touched = line.a === active || line.b === active;
      return (touched || !line.implied) && line.box[0] < right && line.box[2] > left && line.box[1] < bottom && line.box[3] > top;
    });
    const layer = makeSvg("g", { transform: `translate(${EDGE} ${EDGE}) scale(${scale})` });
    const opens = boxes.filter((box) => box.open).map(boxElement);
    layer.append(...opens, ...lines.flatMap(lineElements), ...boxes.filter((box) => !box.open).map(boxElement));
    picture.replaceChildren(layer);
  }
  /** @param {ModulePicture["lines"][number]} line */
  function lineElements(line) {
    const touched = line.a === active || line.b === active;
    const count = line.data + line.control;
    const looks = ["anb-tie", line.data ? "" : "anb-tie-control", line.up ? "anb-tie-back" : "", touched ? "anb-tie-touched" : ""];
    const shaft = makeSvg("path", { class: looks.join(" "), d: line.path, style: `stroke-width: ${1.2 + Math.min(2, Math.log10(count) * 0.6)}px` });
    const kinds = [line.data ? `${formatCount(line.data)} for data` : "", line.control ? `${formatCount(line.control)} for control only` : ""];
    shaft.append(makeSvg("title", { text: `${plural(count, "dependency", "dependencies")}: ${kinds.filter(Boolean).join(", ")}${line.both ? ", both ways" : ""}${line.implied ? "; others lead there, too" : ""}` }));
    return [shaft, makeSvg("path", { class: ["anb-tie-head", ...looks.slice(2)].join(" "), d: line.heads })];
  }
  /** @param {ModuleBox} box */
  function boxElement(box) {
    const { reply, at, entity, w, h } = box;
    const whole = isModule(entity);
    const label = reply.labels[reply.arrays.text[at]] || "no name";
    const words = figures(reply, at, whole);
    const state = states?.get(entity) ?? null;
    const group = makeSvg("g", {
      class: `anb-module${whole ? " anb-module-whole" : ""}${box.open ? " anb-module-open" : ""}${entity === active ? " anb-module-active" : ""}${state ? ` anb-module-${state.state}` : ""}`,
      transform: `translate(${box.x} ${box.y})`, id: `${id}-${entity}`, role: "treeitem", "aria-level": box.level, "aria-selected": String(entity === active),
      "aria-label": `${label}: ${words}${state ? `, ${state.text}` : ""}`, "data-entity": entity,
      onclick: () => {
        choose(entity);
        holder.focus({ preventScroll: true });
        if (whole) toggle(entity);
      },
    });
    if (whole) group.setAttribute("aria-expanded", String(box.open));
    const kinds = MODULE_KINDS.filter(([kind]) => reply.arrays[kind][at]);
    group.append(
      makeSvg("title", { text: `${label}\n${words}${state ? `\n${state.text}` : ""}` }),
      makeSvg("rect", { class: "anb-module-box", width: w, height: h, rx: 4, style: box.open ? `fill-opacity: ${box.level % 2 ? 0.55 : 1}` : "" }),
    );
    if (state && !box.open && state.share > 0) group.append(makeSvg("rect", { class: "anb-module-progress", width: w * state.share, height: h, rx: 4 }));
    if (whole) {
      const all = nodesIn(reply, at);
      let x = 1;
      for (const [kind, colour] of kinds) {
        const wide = ((w - 2) * reply.arrays[kind][at]) / all;
        group.append(makeSvg("rect", { x, y: box.open ? HEAD - 4 : h - 5, width: wide, height: 4, fill: colour }));
        x += wide;
      }
    } else group.append(makeSvg("rect", { width: 5, height: h, rx: 2, fill: kinds[0]?.[1] ?? "#8c8c8c" }));
    const [indent, room] = whole ? [20, w - 26] : [12, w - 16];
    const texts = makeSvg("svg", { x: indent, width: room, height: box.open ? HEAD : h });
    if (box.open) texts.append(makeSvg("text", { y: 16, class: "anb-op-label", text: cut(label, Math.floor(room / 8)) }, makeSvg("tspan", { class: "anb-op-when", dx: 10, text: words })));
    else texts.append(makeSvg("text", { y: 17, class: "anb-op-label", text: cut(label, 24) }), makeSvg("text", { y: 32, class: "anb-op-when", text: cut(state && !whole ? state.text : words, 40) }));
    if (whole) group.append(makeSvg("text", { x: 7, y: 17, class: "anb-module-sign", text: box.open ? "▾" : "▸" }));
    group.append(texts);
    return group;
  }
  return {
    element,
    show,
    find,
    /** Modules whose children are in sight, for a question about these. */
    open: () => [0, ...opened].filter((module) => replies.has(module)),
    /** Colour what is done and what runs. @param {ModuleStates | null} now */
    colour(now) {
      states = now;
      paintSoon();
    },
    destroy() {
      session += 1;
      cancelAnimationFrame(asked);
      watch.disconnect();
    },
  };
}

/** A short line for the legend. @param {string} look */
const lineKey = (look) => makeSvg("svg", { width: 20, height: 8 }, makeSvg("path", { class: `anb-tie ${look}`, d: "M0 4H20", style: "stroke-width: 1.6px" }));
