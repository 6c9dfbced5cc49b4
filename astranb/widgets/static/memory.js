// How busy each GPU's memories and links were: strips of colour under the thread blocks' time.

const GUTTER = 62;
const ROOM = 200; // for all GPUs, while that leaves each strip a pixel
const STRIPS = [
  ["issue", "SM issue"],
  ["l2", "L2"],
  ["hbm", "HBM"],
  ["out", "links out"],
];
const RULER = 2;

export function createMemory(store, theme, { fit, make, formatTime, scaleOf, navigate }) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img", "aria-label": "How busy memories and links were" });
  const tip = make("div", { class: "anb-tip", hidden: "" });
  const legend = make("div", { class: "anb-legend" });
  const element = make(
    "section", { class: "anb-memory", "aria-label": "Memory timeline" },
    make("div", { class: "anb-row" }, make("h4", { text: "Memory and links" }), legend),
    make("div", { class: "anb-holder" }, canvas, tip),
  );
  let width = 0;
  let out = new Uint8Array(0); // mean of the links that leave each GPU
  let last = null;
  let picture = null; // one pixel a bin and strip
  let pictureKey = "";

  function ranks() {
    return store.scene.gpus.length;
  }
  function refresh() {
    const line = store.timeline;
    if (last === line) return;
    last = line;
    const { boxes, bundles } = store.scene;
    const sums = new Float64Array(ranks() * line.bins);
    const lanes = new Float64Array(ranks());
    bundles.forEach((bundle, number) => {
      const { rank } = boxes[bundle.from];
      if (rank < 0) return;
      lanes[rank] += bundle.lanes.length;
      for (let k = 0; k < line.bins; k++) sums[rank * line.bins + k] += line.link[number * line.bins + k] * bundle.lanes.length;
    });
    out = Uint8Array.from(sums, (sum, k) => sum / Math.max(1, lanes[Math.floor(k / line.bins)]));
  }
  /** Height of a GPU's strips, and from one GPU to the next. */
  function sizes() {
    const strip = Math.min(6, Math.max(1, Math.floor(ROOM / ranks() / STRIPS.length)));
    return { band: strip * STRIPS.length, pitch: strip * STRIPS.length + (strip > 2 ? 3 : 1) };
  }
  const gpuAt = (y) => Math.floor((y - RULER) / sizes().pitch);
  const values = (name) => (name === "out" ? out : store.timeline[name]);

  function paint() {
    const line = store.timeline;
    const gpus = ranks();
    picture ??= document.createElement("canvas");
    picture.width = Math.max(1, line.bins);
    picture.height = gpus * STRIPS.length;
    const context = picture.getContext("2d");
    const image = context.createImageData(picture.width, picture.height);
    const colours = Array.from({ length: 256 }, (_, v) => theme.ramp(v / 255));
    STRIPS.forEach(([name], strip) => {
      const of = values(name);
      for (let gpu = 0; gpu < gpus; gpu++) {
        for (let bin = 0; bin < line.bins; bin++) {
          const at = 4 * ((gpu * STRIPS.length + strip) * picture.width + bin);
          const value = of[gpu * line.bins + bin];
          image.data.set(colours[value], at);
          image.data[at + 3] = value ? 255 : 0;
        }
      }
    });
    context.putImageData(image, 0, 0);
  }

  function draw() {
    if (!store.scene || !width) return;
    const gpus = ranks();
    const { band, pitch } = sizes();
    const height = RULER + gpus * pitch;
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    const context = fit(canvas, width, height);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, width, height);
    const scale = scaleOf(store, width);
    const line = store.timeline;
    const every = Math.ceil(13 / pitch); // labels have no room for all
    for (let gpu = 0; gpu < gpus; gpu++) {
      context.fillStyle = theme.panel;
      context.fillRect(GUTTER, RULER + gpu * pitch, width - GUTTER, band);
      if (gpu % every) continue;
      context.fillStyle = theme.ink;
      context.font = `12px ${theme.font}`;
      context.textBaseline = "middle";
      context.textAlign = "left";
      context.fillText(`GPU${gpu}`, 8, RULER + gpu * pitch + band / 2);
    }
    if (line?.bins) {
      refresh();
      const key = `${theme.version} ${line.now_ps} ${line.bins} ${line.bin_ps}`;
      if (key !== pictureKey) paint();
      pictureKey = key;
      context.save();
      context.beginPath();
      context.rect(GUTTER, 0, width - GUTTER, height);
      context.clip();
      context.imageSmoothingEnabled = false;
      const [x0, x1] = [scale.x(0), scale.x(line.bins * line.bin_ps)];
      for (let gpu = 0; gpu < gpus; gpu++) {
        const top = RULER + gpu * pitch;
        context.drawImage(picture, 0, gpu * STRIPS.length, line.bins, STRIPS.length, x0, top, x1 - x0, band);
      }
      context.restore();
    }
    const x = scale.x(store.cursor);
    context.fillStyle = theme.brand;
    if (x >= GUTTER && x <= width) context.fillRect(x - 0.75, 0, 1.5, height);
  }

  function drawLegend() {
    const ramp = [0, 0.25, 0.5, 0.75, 1].map((v) => theme.rampText(Math.max(0.02, v))).join(", ");
    legend.replaceChildren(
      make("span", { text: `from top: ${STRIPS.map(([, name]) => name).join(" · ")}` }),
      make("span", { class: "anb-key" }, "0%", make("i", { class: "anb-ramp", style: `--anb-ramp: ${ramp}` }), "100% busy"),
    );
  }
  store.on("scene", drawLegend);

  canvas.addEventListener("pointermove", (event) => {
    const line = store.timeline;
    const gpu = line ? gpuAt(event.offsetY) : -1;
    const inside = line?.bins && gpu >= 0 && gpu < ranks() && event.offsetX >= GUTTER;
    tip.hidden = !inside;
    if (!inside) return;
    const time = scaleOf(store, width).t(event.offsetX);
    const bin = Math.floor(time / line.bin_ps);
    if (bin < 0 || bin >= line.bins) {
      tip.hidden = true;
      return;
    }
    const shares = STRIPS.map(([name, label]) => `${label} ${Math.round((100 * values(name)[gpu * line.bins + bin]) / 255)}%`);
    const span = `${formatTime(bin * line.bin_ps, 3)} to ${formatTime((bin + 1) * line.bin_ps, 3)}`;
    tip.textContent = [`GPU${gpu}`, span, ...shares].join(" · ");
    tip.style.left = `${Math.max(0, Math.min(event.offsetX + 12, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.offsetY + 14}px`;
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("click", (event) => {
    const gpu = store.scene ? gpuAt(event.offsetY) : -1;
    if (gpu >= 0 && gpu < ranks()) store.select(`gpu[${gpu}]`);
  });
  navigate(canvas, store);

  return {
    element,
    draw,
    themed: () => store.scene && drawLegend(),
    resize() {
      width = canvas.clientWidth;
    },
  };
}
