// @ts-check
// Boxes, links and lines in flight. A dot is where the recorded start and end of its
// crossing put it at the cursor: straight between them, and nothing outside.

import { createAggregates } from "./aggregates.js";
import { createAsker, momentOf, stateNumber } from "./asker.js";
import { createDevice } from "./device.js";
import { drawDiffering } from "./differing.js";
import { createDoing } from "./doing.js";
import { createDots } from "./dots.js";
import { formatCount, formatTime, plural } from "./format.js";
import { createInside } from "./inside.js";
import { createLegend } from "./legend.js";
import { createLevels } from "./levels.js";
import { createMoving } from "./moving.js";
import { drawPath, selectAt } from "./path.js";
import { createSketch } from "./sketch.js";
import { createBeat, fit, looksOf, make, settle } from "./theme.js";
import { createTip } from "./tip.js";
import { busyAt, layOutLinks, sizeOf } from "./edges.js";

/** @import { Box, CreateView, Drawing, Pair } from "./types" */

const MANY = 2000; // lines: fewer are drawn wherever they are
const MOST_MOVING = 2000; // messages that are drawn with their sizes; more are dots

/** @type {CreateView} */
export function createTopology(store, theme) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img" });
  const note = make("span", { class: "anb-note" });
  const words = make("span", { class: "anb-words", role: "note" });
  const legend = createLegend(store, theme, words);
  const levels = (store.levels = createLevels(store, note));
  const device = createDevice(store, theme);
  const inside = createInside(store, theme);
  const aggregates = createAggregates(store, theme);
  const dots = createDots();
  const moving = createMoving(store);
  const doing = createDoing(store, theme);
  const ofOperations = store.engine === "operations";
  const moves = ofOperations ? "message" : "line"; // across links
  const tip = createTip(canvas, ({ offsetX, offsetY }) => {
    const message = moving.hit(offsetX, offsetY);
    if (message) return moving.describe(message.place);
    const name = hit(offsetX, offsetY);
    return name && describe(name);
  });
  const picture = make("div", { class: "anb-picture" }, canvas, aggregates.element);
  const element = make(
    "section", { class: "anb-topology", "aria-label": "Topology" }, levels.element, picture, tip.element, legend.element,
  );

  const beat = createBeat(store);

  /** @type {Pair} */
  let size = [0, 0];
  let found = new Uint32Array(1024); // flights at the cursor
  let queued = 0; // lines in queues, of all
  let resting = false; // nothing moves: links show what the last phase has used
  const hot = createAsker(store, "hot", { every: 300 });
  const ports = createAsker(store, "ports", { every: 300 });
  /** @type {Drawing} */
  const p = {
    laid: null,
    drawn: new Uint8Array(0),
    onBundle: new Uint32Array(0),
    waiting: new Uint32Array(0),
    sparse: new Uint32Array(0),
    onInside: new Uint32Array(0),
    get all() {
      return levels.all;
    },
    looked, covers,
    inside: ofOperations ? doing : inside,
    load(number) {
      if (ofOperations) return 0; // what crosses it is drawn itself
      return (resting ? inside.ofPhase(number) : null) ?? (inside.overdue() ? null : busyAt(store, number));
    },
    hottest: () => hot.reply?.bundles ?? [],
    ports: () => (!store.replaying && !ports.error && ports.reply?.picture === store.scene.picture ? ports.reply.arrays : null),
  };
  const sketch = createSketch(store, theme, p);

  store.on("scene", () => {
    hot.forget();
    ports.forget();
    inside.forget();
    layOut();
    canvas.setAttribute("aria-label", `${store.scene.title}: ${plural(store.scene.boxes.length, "node")}`);
  });

  function layOut() {
    if (!store.ready || !size[0]) return;
    const { scene } = store;
    p.laid = layOutLinks(scene, size);
    p.onBundle = new Uint32Array(scene.bundles.length);
    p.waiting = new Uint32Array(scene.bundles.length);
    p.onInside = new Uint32Array(scene.boxes.length);
    p.drawn = new Uint8Array(scene.bundles.length);
    p.sparse = new Uint32Array(scene.bundles.length).fill(1);
  }

  const portsKey = () => `${store.scene.picture}/${momentOf(store).key}/${stateNumber(store)}`; // a link can go down between two events
  function ask() {
    const { scene, state } = store;
    if (!state || scene.level === "aggregates") return;
    if (ofOperations) doing.ask();
    else inside.ask();
    if (scene.hot && scene.bundles.length > scene.hot) {
      hot.want(store.window ? { window: store.window } : {}, `${scene.picture}/${state.events}/${store.view().join()}`);
    }
    if ((!ofOperations || scene.queues) && !store.replaying) ports.want({ at_ps: momentOf(store).at_ps }, portsKey());
  }

  /** On which bundles lines are drawn: on all, or where there are many on the hottest and what one looks at. @param {number} total */
  function choose(total) {
    const { scene } = store;
    const few = total > MANY && scene.hot > 0 && scene.bundles.length > scene.hot && !levels.all && !hot.error;
    p.drawn.fill(few || scene.level === "aggregates" ? 0 : 1);
    if (scene.level === "aggregates") return;
    if (few && hot.reply?.picture === scene.picture) for (const number of hot.reply.bundles) p.drawn[number] = 1;
    if (!few) return;
    scene.bundles.forEach((bundle, number) => {
      if (looked(bundle.name) || covers(store.selection, scene.boxes[bundle.from]) || covers(store.selection, scene.boxes[bundle.to])) {
        p.drawn[number] = 1;
      }
    });
  }
  /** @param {string} name */
  function looked(name) {
    return name === store.hover.split("#")[0] || name === store.selection.split("#")[0];
  }

  function draw() {
    if (!store.ready) return 0;
    levels.draw();
    const into = store.device >= 0;
    if (into && !device.element.isConnected) picture.after(device.element);
    if (!into) device.element.remove();
    picture.hidden = legend.element.hidden = words.hidden = note.hidden = into;
    aggregates.element.hidden = store.scene.level !== "aggregates";
    if (into) {
      device.resize();
      device.draw();
      return 0;
    }
    if (!p.laid) return 0;
    ask();
    legend.draw();
    const context = fit(canvas, ...size);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, ...size);
    const total = collect();
    choose(total);
    addLive();
    resting = total + queued === 0 && !store.playing;
    sketch.drawFrames(context);
    if (store.scene.level === "aggregates") {
      aggregates.draw(context, p.laid.place);
      sketch.drawBetween(context);
      showCounts(total, 0);
      return total;
    }
    sketch.drawRails(context);
    sketch.drawIdle(context);
    sketch.drawLinks(context);
    const about = { ...p, ...p.laid, bundleOf: store.scene.bundleOf, looks: looksOf(store.scene) };
    moving.forget();
    const shown = store.flights.about && total < MOST_MOVING
      ? moving.draw(context, found, total, about)
      : dots.draw(context, size, store.flights, store.cursor, found, total, about);
    sketch.drawBoxes(context);
    if (ofOperations) canvas.dataset.doing = doing.shown();
    sketch.drawRailNames(context);
    sketch.drawQueues(context);
    sketch.drawPorts(context);
    sketch.drawLoads(context);
    if (ofOperations) canvas.dataset.words = sketch.drawWords(context, moving.words(about.edges)).join("|");
    if (p.laid) drawDiffering(context, store, p.laid);
    drawPath(context, store, theme, { ...p.laid, bundleOf: store.scene.bundleOf, boxes: store.scene.boxes });
    showCounts(total, shown);
    tip.write();
    return total;
  }

  /** @param {number} total @param {number} shown */
  function showCounts(total, shown) {
    if (!beat()) return;
    const parts = [];
    const within = p.onInside.reduce((sum, n) => sum + n, 0);
    const oneIn = total ? Math.max(store.flights.oneIn(found[0]), store.flights.oneIn(found[total - 1])) : 1;
    if (oneIn > 1) parts.push(`1 of ${plural(oneIn, moves)} sent to the browser`);
    parts.push(`${plural(total, moves)} in flight${sampled(total, shown)}`);
    if (within) parts.push(`${formatCount(within)} more within boxes`);
    if (!ofOperations || store.scene.queues) parts.push(`${formatCount(queued)} in queues`);
    if (resting && !ofOperations && inside.phase()) parts.push(inside.phase());
    if (store.scene.hidden) parts.push(`${plural(store.scene.hidden, "node")} without traffic not shown`);
    if (!store.scene.recording) parts.push(`${moves}s are not recorded (record=False)`);
    settle(note, parts.join(" · "));
    const lines = p.drawn.reduce((sum, one) => sum + one, 0);
    const plain = (levels.all || hot.error) && store.scene.level !== "aggregates";
    settle(words, plain ? `lines are drawn on all ${plural(lines, "link")}` : store.scene.note);
    if (note.title !== note.textContent) note.title = note.textContent ?? "";
  }

  /** How many of the lines in flight are drawn, in words. @param {number} total @param {number} shown */
  function sampled(total, shown) {
    if (shown >= total) return "";
    const steps = p.sparse.filter((step, k) => p.drawn[k] && step > 1);
    if (!steps.length) return `, ${formatCount(shown)} drawn`;
    const [least, most] = [steps.reduce((a, b) => Math.min(a, b)), steps.reduce((a, b) => Math.max(a, b))];
    return `, ${formatCount(shown)} drawn: on full links 1 of ${least}${most > least ? ` to 1 of ${most}` : ""}`;
  }

  /** Where links have queues, what waits now has crossed nothing yet: the kernel counts it. */
  function addLive() {
    if (ports.reply?.picture !== store.scene.picture || ports.reply.about !== portsKey()) return;
    ports.reply.arrays.waiting.forEach((live, k) => {
      if (live <= p.waiting[k]) return;
      queued += live - p.waiting[k];
      p.waiting[k] = live;
    });
  }

  function collect() {
    const { start, what } = store.flights;
    const { bundleOf } = store.scene;
    const time = store.cursor;
    let total = 0;
    p.onBundle.fill(0);
    p.onInside.fill(0);
    p.waiting.fill(0);
    queued = 0;
    const here = store.flights.at(time);
    if (here.length > found.length) found = new Uint32Array(2 * here.length);
    const { onBundle, onInside, waiting } = p;
    for (let at = 0; at < here.length; at++) {
      const k = here[at];
      const bundle = bundleOf[what[k] >>> 4];
      if (bundle === -1) continue;
      if (start[k] > time) {
        if (bundle >= 0) waiting[bundle] += 1;
        queued += 1;
      } else if (bundle < 0) onInside[-2 - bundle] += 1;
      else {
        found[total++] = k;
        onBundle[bundle] += 1;
      }
    }
    return total;
  }

  /** Whether a path is a box or something inside it. @param {string} path @param {Box} box */
  function covers(path, box) {
    if (!path) return false;
    if (path === box.name || path.startsWith(`${box.name}.`)) return true;
    const rank = path.match(/^(?:gpu|rank)\[(\d+)\]/);
    return rank !== null && box.ranks[0] >= 0 && Number(rank[1]) >= box.ranks[0] && Number(rank[1]) <= box.ranks[1];
  }

  /** The name of the object at a point. @param {number} x @param {number} y */
  function hit(x, y) {
    if (!store.ready || !p.laid) return "";
    if (store.scene.level === "aggregates") return aggregates.hit(x, y);
    const { place } = p.laid;
    for (const box of store.scene.boxes) {
      const [w, h] = sizeOf(box, place);
      if (2 * Math.abs(x - box.x * place.x) <= w && 2 * Math.abs(y - box.y * place.y) <= h) return box.name;
    }
    let best = "";
    let nearest = 8;
    p.laid.edges.forEach((edge, number) => {
      if (!p.drawn[number]) return;
      for (const part of edge.second ? [edge, edge.second] : [edge]) {
        const [dx, dy] = [x - part.x, y - part.y];
        const along = dx * part.ux + dy * part.uy;
        const across = dy * part.ux - dx * part.uy;
        if (along < 0 || along > part.length || Math.abs(across) >= nearest) continue;
        nearest = Math.abs(across);
        best = store.scene.bundles[number].name;
      }
    });
    if (best) return best;
    const frame = store.scene.frames.find(
      (f) => x >= f.x * place.x && x <= (f.x + f.w) * place.x && y >= f.y * place.y && y <= f.y * place.y + 16,
    );
    return frame?.name ?? "";
  }
  canvas.addEventListener("pointermove", (event) => {
    const name = hit(event.offsetX, event.offsetY);
    store.hovering(name);
    canvas.style.cursor = name ? "pointer" : "default";
  });
  /** @param {string} name */
  function describe(name) {
    const number = store.scene.bundles.findIndex((b) => b.name === name);
    const box = store.scene.boxes.find((b) => b.name === name);
    if (box?.kind === "instance") return `${name}: ${plural(box.count, "GPU")} · double click looks inside`;
    if (box && ofOperations && box.rank >= 0) return [box.label, doing.describe(box.rank)].filter(Boolean).join(" · ");
    if (box) return box.rank >= 0 ? [`${box.label}: ${name}`, ...inside.describe(box)].join(" · ") : `${box.kind}: ${name}`;
    if (number < 0) return aggregates.words(name) || name;
    const bundle = store.scene.bundles[number];
    const busy = p.load(number);
    const lanes = plural(bundle.lanes.length, "lane");
    const parts = [`${bundle.title}: ${name}`, `${lanes}${bundle.family === "unspecified" ? "" : ` of ${bundle.family}`}, ${(bundle.rate / 1e9).toLocaleString("en-US")} GB/s`];
    parts.push(`${plural(p.onBundle[number], moves)} on it at ${formatTime(Math.round(store.cursor), 3)}`);
    if (!ofOperations || store.scene.queues) parts.push(`${formatCount(p.waiting[number])} waiting for it`);
    if ((p.ports()?.marks[number] ?? 0) & 4) parts.push("down");
    if (!ofOperations) parts.push(busy === null ? "load not known" : `${Math.round(100 * busy)}% busy`);
    return parts.join(" · ");
  }
  canvas.addEventListener("pointerleave", () => store.hovering(""));
  canvas.addEventListener("click", ({ offsetX: x, offsetY: y }) => {
    if (!p.laid) return;
    const message = moving.hit(x, y);
    if (ofOperations) {
      const name = hit(x, y);
      const { boxes, bundles } = store.scene;
      const thing = boxes.find((box) => box.name === name) ?? bundles.find((bundle) => bundle.name === name);
      store.select((message && moving.pathOf(message.place)) || (thing?.path ?? name));
      return;
    }
    selectAt(store, x, y, { tracks: p.laid.tracks, sparse: p.sparse, bundleOf: store.scene.bundleOf }, () => hit(x, y));
  });
  canvas.addEventListener("dblclick", (event) => levels.enter(hit(event.offsetX, event.offsetY)));

  function resize() {
    const before = size.join();
    size = [canvas.clientWidth, canvas.clientHeight];
    if (size.join() !== before) layOut();
  }
  // Asking a canvas for its size in every frame would have the page laid out in every frame.
  const observer = new ResizeObserver(() => {
    resize();
    store.emit("change");
  });
  observer.observe(canvas);
  return {
    element,
    draw,
    resize,
    destroy() {
      observer.disconnect();
      for (const one of [hot, ports, doing]) one.destroy();
      inside.destroy();
      device.destroy();
      aggregates.destroy();
      if (store.levels === levels) store.levels = null; // the store outlives this view
    },
  };
}
