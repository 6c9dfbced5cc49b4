// What every thread block did when: a band for each GPU, a row for each block, above a ruler.

const GUTTER = 62;
const RULER = 20;
const ROOM = 420; // for all GPUs' bands, while that leaves each one enough
const OPENED = 110; // of the selected GPU's

/** The time that a place on the ruler stands for, and back. */
export function scaleOf(store, width) {
  const [a, b] = store.view();
  return { a, b, x: (t) => GUTTER + ((t - a) / (b - a)) * (width - GUTTER), t: (x) => a + ((x - GUTTER) / (width - GUTTER)) * (b - a) };
}

/** Zoom, pan and scrub on a canvas that shows time from left to right. */
export function navigate(canvas, store) {
  let dragging = false;
  const time = (event) => scaleOf(store, canvas.clientWidth).t(event.offsetX);
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
      event.preventDefault();
      const amount = event.deltaY || event.deltaX;
      if (event.ctrlKey) store.zoom(amount > 0 ? 1.25 : 0.8, time(event));
      else store.pan(amount > 0 ? 0.1 : -0.1);
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.offsetX < GUTTER || event.offsetY > RULER) return;
    dragging = true;
    canvas.setPointerCapture(event.pointerId);
    store.scrub(time(event));
  });
  canvas.addEventListener("pointermove", (event) => dragging && store.scrub(time(event)));
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (dragging = false));
}

export function createTimeline(store, theme, { fit, make, STATE_COLOURS, STATE_HEIGHTS, formatTime }) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img", "aria-label": "What every thread block did when" });
  const tip = make("div", { class: "anb-tip", hidden: "" });
  const legend = make("div", { class: "anb-legend" });
  const heading = make("h4", { text: "Thread blocks on SMs" });
  const element = make(
    "section", { class: "anb-timeline", "aria-label": "SM timeline" }, make("div", { class: "anb-row" }, heading, legend),
    make("div", { class: "anb-holder" }, canvas, tip),
  );
  const still = document.createElement("canvas"); // everything but the cursor
  let stillKey = "";
  let width = 0;
  let bands = []; // {gpu, top, height, blocks}
  let rowOf = new Int32Array(0);
  const note = make("span", { class: "anb-note" });

  store.on("scene", () => {
    legend.replaceChildren(
      ...store.scene.states.map((state, k) =>
        make("span", { class: "anb-key" }, make("i", {
          class: "anb-bar", style: `--anb-colour: ${STATE_COLOURS[k]}; --anb-height: ${STATE_HEIGHTS[k] * 12}px`,
        }), state),
      ),
      note,
    );
    stillKey = "";
  });

  function selectedGpu() {
    const short = store.selection.match(/^gpu\[(\d+)\]/);
    if (short) return Number(short[1]);
    return store.scene.gpus.findIndex((name) => store.selection === name || store.selection.startsWith(`${name}.`));
  }

  function layOut() {
    const opened = selectedGpu();
    const { blocks } = store.scene;
    const gpus = Math.max(-1, ...blocks) + 1;
    rowOf = new Int32Array(blocks.length);
    bands = [];
    const folded = Math.min(26, Math.max(4, Math.floor(ROOM / gpus)));
    const gap = folded > 8 ? 3 : 1;
    let top = RULER;
    for (let gpu = 0; gpu < gpus; gpu++) {
      bands.push({ gpu, top, height: gpu === opened ? Math.max(OPENED, folded) : folded, blocks: 0 });
      top += bands[gpu].height + gap;
    }
    blocks.forEach((gpu, block) => (rowOf[block] = bands[gpu].blocks++));
    return top;
  }

  function draw() {
    if (!store.scene || !width) return;
    const height = layOut();
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    const scale = scaleOf(store, width);
    const line = store.timeline;
    const key = [width, height, scale.a, scale.b, line?.now_ps, line?.end.length, theme.version, store.selection].join();
    if (key !== stillKey) drawStill(height, scale);
    stillKey = key;
    const context = fit(canvas, width, height);
    context.drawImage(still, 0, 0, width, height);
    const known = scale.x(store.frontier);
    context.fillStyle = theme.dim; // what is not simulated yet
    context.globalAlpha = 0.12;
    if (known < width) context.fillRect(Math.max(GUTTER, known), RULER, width, height);
    context.globalAlpha = 1;
    const x = scale.x(store.cursor);
    if (x >= GUTTER && x <= width) {
      context.fillStyle = theme.brand;
      context.fillRect(x - 0.75, 0, 1.5, height);
      context.beginPath();
      context.moveTo(x - 5, 0);
      context.lineTo(x + 5, 0);
      context.lineTo(x, 7);
      context.fill();
    }
    const words = line?.left_out ? `${line.left_out.toLocaleString("en-US")} short spans not drawn` : "";
    if (note.textContent !== words) note.textContent = words;
  }

  function drawStill(height, scale) {
    const context = fit(still, width, height);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, width, height);
    ruler(context, scale);
    context.textBaseline = "middle";
    context.textAlign = "left";
    let free = 0; // down to here the gutter has labels
    for (const { gpu, top, height: tall } of bands) {
      context.fillStyle = theme.panel;
      context.fillRect(GUTTER, top, width - GUTTER, tall);
      context.fillStyle = theme.ink;
      context.font = `12px ${theme.font}`;
      if (top + tall / 2 - 6 < free) continue;
      context.fillText(`GPU${gpu}`, 8, top + tall / 2);
      free = top + tall / 2 + 7;
    }
    const line = store.timeline;
    if (!line) return;
    const picked = store.selection.match(/\.block\.(\d+)$/);
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, width - GUTTER, height);
    context.clip();
    for (let state = 0; state < STATE_COLOURS.length; state++) {
      context.fillStyle = STATE_COLOURS[state];
      for (let k = 0; k < line.what.length; k++) {
        if ((line.what[k] & 7) !== state || line.end[k] < scale.a || line.start[k] > scale.b) continue;
        const block = line.what[k] >>> 3;
        const band = bands[store.scene.blocks[block]];
        const row = band.height / band.blocks;
        // In thin rows only waiting stands out by its height: fractions of a pixel would be mud.
        const tall = row > 4 ? (row - 1) * STATE_HEIGHTS[state] : row * (STATE_HEIGHTS[state] < 0.5 ? 0.5 : 1);
        const x = scale.x(line.start[k]);
        const y = band.top + rowOf[block] * row + (row - tall) / 2;
        context.fillRect(x, y, Math.max(0.5, scale.x(line.end[k]) - x), tall);
      }
    }
    context.restore();
    const opened = selectedGpu();
    if (opened >= 0 && bands[opened]) {
      const band = bands[opened];
      context.strokeStyle = theme.brand;
      context.lineWidth = 1.5;
      context.strokeRect(GUTTER + 0.5, band.top, width - GUTTER - 1.5, band.height);
      if (picked) {
        const row = band.height / band.blocks;
        context.strokeRect(GUTTER + 0.5, band.top + Number(picked[1]) * row - 1, width - GUTTER - 1.5, row + 1);
      }
    }
  }

  function ruler(context, { a, b, x }) {
    const rough = (b - a) / Math.max(2, (width - GUTTER) / 130);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10);
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (let t = Math.ceil(a / step) * step; t <= b; t += step) {
      context.fillStyle = theme.faint;
      context.fillRect(x(t), RULER - 5, 1, 5);
      context.fillStyle = theme.dim;
      if (x(t) < width - 40) context.fillText(formatTime(t, 4), x(t) + 3, RULER / 2);
    }
  }

  /** Band, block and span at a point. */
  function hit(event) {
    if (!store.scene || event.offsetY < RULER) return null;
    const band = bands.find((b) => event.offsetY >= b.top && event.offsetY < b.top + b.height);
    if (!band) return null;
    if (event.offsetX < GUTTER) return { band, row: -1, span: -1 };
    const row = Math.min(band.blocks - 1, Math.floor(((event.offsetY - band.top) / band.height) * band.blocks));
    const { t } = scaleOf(store, width);
    const [time, slack] = [t(event.offsetX), t(event.offsetX + 1.5) - t(event.offsetX)];
    const line = store.timeline;
    let span = -1;
    for (let k = 0; line && k < line.what.length; k++) {
      const block = line.what[k] >>> 3;
      if (rowOf[block] !== row || store.scene.blocks[block] !== band.gpu) continue;
      if (line.start[k] - slack > time || line.end[k] + slack < time) continue;
      if (span < 0 || line.end[k] - line.start[k] < line.end[span] - line.start[span]) span = k;
    }
    return { band, row, span };
  }
  canvas.addEventListener("pointermove", (event) => {
    const at = hit(event);
    store.hovering(at ? `gpu[${at.band.gpu}]` : "");
    tip.hidden = !at;
    if (!at) return;
    const words = [`GPU${at.band.gpu}`];
    if (at.row >= 0) words.push(`block ${at.row}`);
    if (at.span >= 0) {
      const line = store.timeline;
      words.push(store.scene.states[line.what[at.span] & 7]);
      const phase = store.scene.phases[line.phase[at.span]];
      if (phase) words.push(phase);
      words.push(`${formatTime(line.start[at.span], 3)} to ${formatTime(line.end[at.span], 3)}`);
      words.push(`(${formatTime(line.end[at.span] - line.start[at.span], 3)})`);
    }
    tip.textContent = words.join(" · ");
    tip.style.left = `${Math.max(0, Math.min(event.offsetX + 12, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.offsetY + 16}px`;
  });
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
    store.hovering("");
  });
  canvas.addEventListener("click", (event) => {
    const at = hit(event);
    if (at) store.select(at.row < 0 ? `gpu[${at.band.gpu}]` : `gpu[${at.band.gpu}].block.${at.row}`);
  });
  navigate(canvas, store);

  return {
    element,
    draw,
    resize() {
      width = canvas.clientWidth;
    },
  };
}
