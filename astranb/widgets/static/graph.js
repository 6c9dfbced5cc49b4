// @ts-check
// The operations of a rank around the cursor: what waits for what, and how far each is.

import { createAsker, momentOf } from "./asker.js";
import { formatCount } from "./format.js";
import { createMoment } from "./moment.js";
import { make, makeBarKey, makeSvg, settle } from "./theme.js";

/** @import { Answer, CreateView, GraphNode, WorkloadScene } from "./types" */

const [WIDE, HIGH, ACROSS, DOWN, EDGE] = [150, 40, 34, 14, 12]; // px of a node, between nodes, around all
/** @type {Record<string, string>} */
const NODE_COLOURS = {
  compute: "#0072b2", collective: "#e69f00", send: "#e69f00", receive: "#e69f00", broadcast: "#e69f00", memory: "#009e73",
};
/** @type {Record<string, string>} */
const SIGNS = { done: "✓", running: "▶", ready: "●", waiting: "…" };

/** @type {CreateView} */
export function createGraph(store) {
  const rank = make("input", {
    type: "number", class: "anb-rank", min: 0, step: 1, value: 0, "aria-label": "Rank whose operations are shown",
    onchange() {
      show(Number(rank.value));
    },
  });
  const label = make("label", { class: "anb-label" }, "Rank", rank);
  const note = make("span", { class: "anb-note" });
  const keys = make("div", { class: "anb-legend" });
  const picture = makeSvg("svg", { role: "group", "aria-label": "Graph of operations" });
  const holder = make("div", { class: "anb-dagholder", tabindex: "0" }, picture);
  const element = make(
    "section", { class: "anb-dag", "aria-label": "Operations" },
    make("div", { class: "anb-row anb-dagbar" }, label, keys, note, createMoment(store, () => asker.reply?.at_ps)),
    holder,
  );
  store.on("scene", () => {
    label.hidden = scene().ranks === 1;
    keys.children[2].toggleAttribute("hidden", !scene().tracks.includes("memory"));
  });
  keys.replaceChildren(
    ...[["compute", "#0072b2"], ["communication", "#e69f00"], ["memory", "#009e73"]].map(([text, colour]) => makeBarKey(colour, text)),
    ...Object.entries(SIGNS).map(([state, sign]) => make("span", { class: "anb-key", text: `${sign} ${state}` })),
  );
  const asker = createAsker(store, "graph", { every: 120, answered: (reply, _error) => reply && lay(reply) });
  const scene = () => /** @type {WorkloadScene} */ (store.scene);
  let shown = 0;
  let seen = ""; // the selection that has been followed
  let placed = ""; // nodes that are laid out
  let moved = -Infinity; // when the user scrolled
  const scrolled = () => {
    moved = performance.now();
  };
  holder.addEventListener("wheel", scrolled, { passive: true });
  holder.addEventListener("pointerdown", scrolled);

  /** @param {number} which */
  function show(which) {
    shown = Math.min(Math.max(0, Math.floor(which) || 0), Math.max(0, (store.ready ? scene().ranks : 1) - 1));
    rank.value = String(shown);
    moved = -Infinity;
    placed = "";
    store.emit("change");
  }
  /** @param {GraphNode} node */
  const place = (node) => [EDGE + node.x * (WIDE + ACROSS), EDGE + node.y * (HIGH + DOWN)];

  /** A text cut so that it fits into a node. @param {string} text @param {number} most */
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  /** @param {Answer<"graph">} answer */
  function lay({ nodes, edges, counts, hidden }) {
    const most = nodes.reduce(([x, y], node) => [Math.max(x, node.x), Math.max(y, node.y)], [0, 0]);
    const size = [2 * EDGE + (most[0] + 1) * (WIDE + ACROSS) - ACROSS, 2 * EDGE + (most[1] + 1) * (HIGH + DOWN) - DOWN];
    picture.setAttribute("width", String(size[0]));
    picture.setAttribute("height", String(size[1]));
    picture.setAttribute("viewBox", `0 0 ${size[0]} ${size[1]}`);
    const lines = edges.map(([from, to]) => {
      const [[x0, y0], [x1, y1]] = [place(nodes[from]), place(nodes[to])];
      const [a, b, half] = [x0 + WIDE, x1, Math.max(14, (x1 - x0 - WIDE) / 2)];
      const path = `M${a} ${y0 + HIGH / 2}C${a + half} ${y0 + HIGH / 2} ${b - half} ${y1 + HIGH / 2} ${b} ${y1 + HIGH / 2}`;
      return makeSvg("path", { d: path, class: `anb-edge anb-edge-${nodes[from].state}` });
    });
    const boxes = nodes.map((node) => {
      const [x, y] = place(node);
      const group = makeSvg(
        "g",
        {
          class: `anb-op anb-op-${node.state}`, transform: `translate(${x} ${y})`, role: "button", tabindex: "-1",
          "aria-label": `${node.what}, ${node.state} ${node.when}`, "data-path": node.path, "data-state": node.state,
          style: `--anb-colour: ${NODE_COLOURS[node.kind] ?? "#8c8c8c"}`, onclick: () => store.select(node.path),
        },
        makeSvg("title", { text: `${node.what}\n${node.state} ${node.when}` }),
        makeSvg("rect", { width: WIDE, height: HIGH, rx: 4, class: "anb-op-box" }),
        makeSvg("rect", { width: 5, height: HIGH, rx: 2, class: "anb-op-kind" }),
        makeSvg("text", { x: 12, y: 16, class: "anb-op-label", text: cut(node.label, 19) }),
        makeSvg("text", { x: 12, y: 31, class: "anb-op-when", text: cut(`${SIGNS[node.state]} ${node.when || node.state}`, 25) }),
      );
      if (node.path === store.selection) group.classList.add("anb-op-selected");
      return group;
    });
    picture.replaceChildren(...lines, ...boxes);
    settle(note, `${Object.entries(counts).filter(([, n]) => n).map(([state, n]) => `${formatCount(n)} ${state}`).join(", ")}${
      hidden ? ` · the ${formatCount(nodes.length)} nearest to now of ${formatCount(nodes.length + hidden)}` : ""
    }`);
    follow(nodes);
    element.dataset.nodes = String(nodes.length);
    element.dataset.rank = String(shown);
  }
  /** Bring running operations into sight, unless the user has scrolled. @param {GraphNode[]} nodes */
  function follow(nodes) {
    if (performance.now() - moved < 4000) return;
    const now = nodes.filter((node) => node.state === "running");
    const ready = nodes.filter((node) => node.state === "ready");
    const mine = now.length ? now : ready.length ? ready : nodes.filter((node) => node.state === "done").slice(-1);
    if (!mine.length) return;
    const key = mine.map((node) => node.path).join();
    if (key === placed) return;
    placed = key;
    const [x, y] = place(mine[0]);
    const [left, top] = [Math.max(0, x - holder.clientWidth / 2 + WIDE / 2), Math.max(0, y - holder.clientHeight / 2 + HIGH / 2)];
    holder.scrollTo({ left, top, behavior: store.playing ? "auto" : "smooth" });
  }
  function draw() {
    if (!store.ready || !store.state) return;
    rank.max = String(scene().ranks - 1);
    if (seen !== store.selection) {
      seen = store.selection;
      const named = seen.match(/^rank\[(\d+)\]/);
      if (named) show(Number(named[1]));
      moved = -Infinity;
    }
    const moment = momentOf(store);
    const options = { rank: shown, at_ps: moment.at_ps, path: store.selection };
    asker.want(options, `${shown} ${store.selection} ${moment.key}`);
    element.dataset.asked = String(asker.open);
  }
  return { element, draw, destroy: asker.destroy };
}
