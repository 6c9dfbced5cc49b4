// Boxes, links and lines in flight. A dot stands where the recorded start and end of its
// crossing put it at the cursor: straight between them, and nothing outside.

const PIXELS_A_DOT = 6; // where dots would stand closer, every n-th is drawn and the load is written

export function createTopology(store, theme, { fit, make, KIND_COLOURS, KIND_SHAPES, formatTime, drawPath, selectAt }) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img" });
  const tip = make("div", { class: "anb-tip", hidden: "" });
  const legend = make("div", { class: "anb-legend" });
  const note = make("span", { class: "anb-note" });
  const element = make("section", { class: "anb-topology", "aria-label": "Topology" }, canvas, tip, legend);

  let size = [0, 0];
  let place = { x: 1, y: 1, box: 1 }; // pixels a unit, across, down, and of a box's own size
  let ways = []; // geometry of each bundle
  let bundleOf = new Int32Array(0); // of each link
  let offsetOf = new Float32Array(0);
  let found = new Uint32Array(1024); // flights at the cursor
  let onBundle = new Uint32Array(0);
  let waiting = new Uint32Array(0); // lines at the entrance of each bundle
  let queued = 0; // of all

  store.on("scene", () => {
    layOut();
    legend.replaceChildren(
      ...store.scene.kinds.map((kind, k) =>
        make("span", { class: "anb-key" }, make("i", {
          class: `anb-shape anb-${KIND_SHAPES[k]}`, style: `--anb-colour: ${KIND_COLOURS[k]}`,
        }), kind),
      ),
      make("span", { class: "anb-key" }, make("i", { class: "anb-queue" }), "queue for a link"),
      note,
    );
    canvas.setAttribute("aria-label", `${store.scene.title}: ${store.scene.boxes.length} nodes`);
  });

  function layOut() {
    const scene = store.scene;
    if (!scene || !size[0]) return;
    const [across, down] = [size[0] / scene.width, size[1] / scene.height];
    place = { x: across, y: down, box: Math.min(across, down, 1.3) };
    const links = Math.max(-1, ...scene.bundles.map((b) => Math.max(...b.lanes))) + 1;
    bundleOf = new Int32Array(links).fill(-1);
    offsetOf = new Float32Array(links);
    onBundle = new Uint32Array(scene.bundles.length);
    waiting = new Uint32Array(scene.bundles.length);
    ways = scene.bundles.map((bundle, number) => {
      const [a, b] = [scene.boxes[bundle.from], scene.boxes[bundle.to]];
      const [ax, ay, bx, by] = [a.x * place.x, a.y * place.y, b.x * place.x, b.y * place.y];
      const length = Math.hypot(bx - ax, by - ay) || 1;
      const [ux, uy] = [(bx - ax) / length, (by - ay) / length];
      const from = edge(a, ux, uy);
      const to = edge(b, ux, uy);
      // Traffic keeps to its right; lanes stand side by side.
      const gap = Math.min(2.2, 8 / bundle.lanes.length);
      bundle.lanes.forEach((link, k) => {
        bundleOf[link] = number;
        offsetOf[link] = 3 + k * gap;
      });
      const middle = 3 + ((bundle.lanes.length - 1) * gap) / 2;
      return {
        x: ax + ux * from, y: ay + uy * from, length: Math.max(1, length - from - to), ux, uy, middle,
        nx: -uy, ny: ux,
      };
    });
  }
  /** How far a box reaches from its centre in a direction. */
  function edge(box, ux, uy) {
    const [w, h] = [(box.w * place.box) / 2, (box.h * place.box) / 2];
    return Math.min(ux ? w / Math.abs(ux) : Infinity, uy ? h / Math.abs(uy) : Infinity) + 1;
  }

  /** Busy fraction of a bundle at the cursor, or null where nothing is known. */
  function load(number) {
    const line = store.timeline;
    if (!line?.bins) return null;
    const bin = Math.min(line.bins - 1, Math.floor(store.cursor / line.bin_ps));
    return line.link[number * line.bins + bin] / 255;
  }

  function draw() {
    if (!store.scene) return 0;
    const context = fit(canvas, ...size);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, ...size);
    const total = collect();
    drawLinks(context);
    const shown = drawDots(context, total);
    drawBoxes(context);
    drawPath(context, store, theme, { ways, bundleOf, boxes: store.scene.boxes, place });
    const parts = [];
    const oneIn = total ? Math.max(store.flights.oneIn(found[0]), store.flights.oneIn(found[total - 1])) : 1;
    if (oneIn > 1) parts.push(`1 of ${oneIn} lines sent to the browser`);
    if (shown < total) parts.push(`${total.toLocaleString("en-US")} lines in flight, ${shown.toLocaleString("en-US")} drawn`);
    else parts.push(`${total.toLocaleString("en-US")} lines in flight`);
    parts.push(`${queued.toLocaleString("en-US")} in queues`);
    if (store.scene.hidden) parts.push(`${store.scene.hidden} nodes without traffic not shown`);
    if (!store.scene.recording) parts.push("lines are not recorded (record=False)");
    const words = parts.join(" · ");
    if (note.textContent !== words) note.textContent = words;
    return total;
  }

  function collect() {
    const { start, what } = store.flights;
    let total = 0;
    onBundle.fill(0);
    waiting.fill(0);
    queued = 0;
    store.flights.at(store.cursor, (k) => {
      const bundle = bundleOf[what[k] >>> 4];
      if (bundle === undefined || bundle < 0) return;
      if (start[k] > store.cursor) {
        waiting[bundle] += 1;
        queued += 1;
        return;
      }
      if (total === found.length) {
        const larger = new Uint32Array(2 * found.length);
        larger.set(found);
        found = larger;
      }
      found[total++] = k;
      onBundle[bundle] += 1;
    });
    return total;
  }

  function drawLinks(context) {
    const picked = store.selection.split("#")[0];
    const hovered = store.hover.split("#")[0];
    const changed = store.following && !store.playing ? store.state?.changed : "";
    ways.forEach((way, number) => {
      const bundle = store.scene.bundles[number];
      const busy = load(number);
      const [x0, y0] = [way.x + way.nx * way.middle, way.y + way.ny * way.middle];
      const [x1, y1] = [x0 + way.ux * way.length, y0 + way.uy * way.length];
      const mark = bundle.name === picked || bundle.name === hovered || bundle.name === changed;
      if (mark) line(context, x0, y0, x1, y1, theme.brand, 9, 0.35);
      line(context, x0, y0, x1, y1, busy ? theme.rampText(busy) : theme.line, 1 + 5 * (busy ?? 0), 0.35 + 0.4 * (busy ?? 0));
    });
  }
  function line(context, x0, y0, x1, y1, colour, width, alpha) {
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
    context.globalAlpha = 1;
  }

  function drawDots(context, total) {
    const { start, end, what } = store.flights;
    const time = store.cursor;
    let shown = 0;
    const oneIn = ways.map((way, k) => Math.max(1, Math.ceil((onBundle[k] * PIXELS_A_DOT) / (way.length * 4))));
    for (let kind = 0; kind < KIND_COLOURS.length; kind++) {
      context.fillStyle = KIND_COLOURS[kind];
      const shape = KIND_SHAPES[kind];
      for (let at = 0; at < total; at++) {
        const k = found[at];
        const flight = what[k];
        if ((flight & 15) !== kind) continue;
        const link = flight >>> 4;
        const bundle = bundleOf[link];
        if (k % oneIn[bundle]) continue; // the same lines in every frame
        const way = ways[bundle];
        const gone = end[k] > start[k] ? (time - start[k]) / (end[k] - start[k]) : 1;
        const offset = offsetOf[link];
        const x = way.x + way.ux * way.length * gone + way.nx * offset;
        const y = way.y + way.uy * way.length * gone + way.ny * offset;
        if (shape === "square") context.fillRect(x - 2, y - 2, 4, 4);
        else if (shape === "small") context.fillRect(x - 1.25, y - 1.25, 2.5, 2.5);
        else {
          context.fillRect(x - 1, y - 4, 2, 8);
          context.fillRect(x - 4, y - 1, 8, 2);
        }
        shown += 1;
      }
    }
    // A queue stands across the entrance of its link, longer for more lines.
    ways.forEach((way, k) => {
      if (!waiting[k]) return;
      const reach = 3 + 1.5 * Math.log2(waiting[k]);
      const [x, y] = [way.x + way.nx * way.middle + way.ux * 3, way.y + way.ny * way.middle + way.uy * 3];
      line(context, x - way.nx * reach, y - way.ny * reach, x + way.nx * reach, y + way.ny * reach, theme.ink, 3, 0.8);
    });
    // Where not every line is drawn, and where one looks, the load stands in numbers.
    context.font = `11px ${theme.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    ways.forEach((way, k) => {
      const name = store.scene.bundles[k].name;
      const looked = name === store.hover || name === store.selection.split("#")[0];
      const busy = load(k);
      if (busy === null || way.length < 45 || !(looked || oneIn[k] > 1)) return;
      const text = `${Math.round(100 * busy)}%`;
      const [x, y] = [
        way.x + way.ux * way.length * 0.3 + way.nx * way.middle, way.y + way.uy * way.length * 0.3 + way.ny * way.middle,
      ];
      context.fillStyle = theme.back;
      context.globalAlpha = 0.85;
      context.fillRect(x - 15, y - 7, 30, 14);
      context.globalAlpha = 1;
      context.fillStyle = theme.ink;
      context.fillText(text, x, y);
    });
    return shown;
  }

  function drawBoxes(context) {
    const changed = store.following && !store.playing ? store.state?.changed : "";
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const box of store.scene.boxes) {
      const [w, h] = [box.w * place.box, box.h * place.box];
      const [x, y] = [box.x * place.x - w / 2, box.y * place.y - h / 2];
      const picked = covers(store.selection, box);
      context.fillStyle = box.rank >= 0 ? theme.gpu : theme.node;
      context.beginPath();
      context.roundRect(x, y, w, h, box.rank >= 0 ? 4 : h / 2);
      context.fill();
      const mark = picked || covers(store.hover, box) || box.name === changed;
      context.strokeStyle = mark ? theme.brand : theme.line;
      context.lineWidth = picked ? 3 : mark ? 2 : 1;
      context.stroke();
      if (w < 34) continue;
      context.fillStyle = theme.ink;
      context.font = `${Math.min(15, h * 0.36)}px ${theme.font}`;
      context.fillText(box.label, x + w / 2, y + h / 2 + 0.5, w - 4);
    }
  }
  /** Whether a path is a box or something inside it. */
  function covers(path, box) {
    if (!path) return false;
    if (path === box.name || path.startsWith(`${box.name}.`)) return true;
    return box.rank >= 0 && (path === `gpu[${box.rank}]` || path.startsWith(`gpu[${box.rank}].`));
  }

  /** The name of what stands at a point. */
  function hit(x, y) {
    if (!store.scene) return "";
    for (const box of store.scene.boxes) {
      const [dx, dy] = [x - box.x * place.x, y - box.y * place.y];
      if (2 * Math.abs(dx) <= box.w * place.box && 2 * Math.abs(dy) <= box.h * place.box) return box.name;
    }
    let best = "";
    let nearest = 8;
    ways.forEach((way, number) => {
      const [dx, dy] = [x - way.x, y - way.y];
      const along = dx * way.ux + dy * way.uy;
      const across = dx * way.nx + dy * way.ny - way.middle;
      if (along >= 0 && along <= way.length && Math.abs(across) < nearest) {
        nearest = Math.abs(across);
        best = store.scene.bundles[number].name;
      }
    });
    return best;
  }
  canvas.addEventListener("pointermove", (event) => {
    const name = hit(event.offsetX, event.offsetY);
    store.hovering(name);
    canvas.style.cursor = name ? "pointer" : "default";
    tip.hidden = !name;
    if (!name) return;
    tip.textContent = describe(name);
    tip.style.left = `${Math.max(0, Math.min(event.offsetX + 12, size[0] - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.offsetY + 16}px`;
  });
  function describe(name) {
    const number = store.scene.bundles.findIndex((b) => b.name === name);
    const box = store.scene.boxes.find((b) => b.name === name);
    if (box) return box.rank >= 0 ? `${box.label}: ${name}` : `${box.kind}: ${name}`;
    const bundle = store.scene.bundles[number];
    const busy = load(number);
    const lanes = `${bundle.lanes.length} lane${bundle.lanes.length > 1 ? "s" : ""}`;
    const words = [name, `${lanes}, ${(bundle.rate / 1e9).toLocaleString("en-US")} GB/s`];
    words.push(`${onBundle[number].toLocaleString("en-US")} lines on it at ${formatTime(Math.round(store.cursor), 3)}`);
    words.push(`${waiting[number].toLocaleString("en-US")} waiting for it`);
    if (busy !== null) words.push(`${Math.round(100 * busy)}% busy`);
    return words.join(" · ");
  }
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
    store.hovering("");
  });
  canvas.addEventListener("click", ({ offsetX: x, offsetY: y }) =>
    selectAt(store, x, y, { ways, bundleOf, offsetOf }, () => hit(x, y)),
  );

  return {
    element,
    draw,
    resize() {
      size = [canvas.clientWidth, canvas.clientHeight];
      layOut();
    },
  };
}
