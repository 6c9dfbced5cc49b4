// Time from left to right: zoom, pan, scrub and brush, the ruler, and one question at a time.

export const GUTTER = 62;
export const RULER = 20;
const CLICK_PX = 4; // a drag that is shorter is a click
const ASK_MS = 60; // between two questions of one view

/** The time that a place on the ruler stands for, and back. */
export function scaleOf(store, width) {
  const [a, b] = store.view();
  return { a, b, x: (t) => GUTTER + ((t - a) / (b - a)) * (width - GUTTER), t: (x) => a + ((x - GUTTER) / (width - GUTTER)) * (b - a) };
}

/** Zoom, pan, scrub (on the ruler) and brush (below it) on a canvas; a click goes to `clicked`. */
export function navigate(canvas, store, { ruler = RULER, clicked = () => {} } = {}) {
  let drag = null; // {scrubs, x, t}
  let followed = 0; // when a click took the cursor from the simulation
  const time = (event) => {
    const { a, b, t } = scaleOf(store, canvas.clientWidth);
    return Math.min(b, Math.max(a, t(event.offsetX)));
  };
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
    if (event.button !== 0) return;
    drag = { scrubs: event.offsetY <= ruler, gutter: event.offsetX < GUTTER, x: event.offsetX, t: time(event), moved: false };
    if (drag.gutter) return;
    canvas.setPointerCapture(event.pointerId);
    if (!drag.scrubs) return;
    if (store.following) followed = event.timeStamp;
    store.scrub(drag.t);
  });
  canvas.addEventListener("pointermove", (event) => {
    store.pointer = event.offsetX >= GUTTER ? time(event) : null;
    if (!drag || drag.gutter) return;
    drag.moved ||= Math.abs(event.offsetX - drag.x) >= CLICK_PX;
    if (drag.scrubs) store.scrub(time(event));
    else if (drag.moved) store.mark(drag.t, time(event));
  });
  canvas.addEventListener("pointerup", (event) => {
    const was = drag;
    drag = null;
    if (was && !was.scrubs && !was.moved) clicked(event);
    else if (was?.moved && !was.scrubs) store.emit("marked");
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => (store.pointer = null));
  canvas.addEventListener("dblclick", (event) => {
    if (event.offsetY > ruler || event.offsetX < GUTTER) return;
    store.window = null;
    if (event.timeStamp - followed < 700) store.follow(); // its first click was not meant for the cursor
    store.emit("change");
  });
}

/** Ticks and times above a picture. */
export function drawRuler(context, theme, scale, width, formatTime) {
  const { a, b, x } = scale;
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

/** What lies over a picture of time: the marked interval, what is not simulated, the cursor. */
export function drawClocks(context, store, theme, scale, width, top, height, handle) {
  const known = scale.x(store.frontier);
  context.fillStyle = theme.dim;
  context.globalAlpha = 0.12;
  if (known < width) context.fillRect(Math.max(GUTTER, known), top, width, height - top);
  if (store.marked) {
    const [from, to] = store.marked.map((t) => Math.min(width, Math.max(GUTTER, scale.x(t))));
    context.fillStyle = theme.brand;
    context.globalAlpha = 0.16;
    context.fillRect(from, top, to - from, height - top);
    context.globalAlpha = 0.9;
    for (const edge of [from, to]) if (edge > GUTTER && edge < width) context.fillRect(edge - 0.5, top, 1, height - top);
  }
  context.globalAlpha = 1;
  const x = scale.x(store.cursor);
  if (x < GUTTER || x > width) return;
  context.fillStyle = theme.brand;
  context.fillRect(x - 0.75, 0, 1.5, height);
  if (!handle) return;
  context.beginPath();
  context.moveTo(x - 5, 0);
  context.lineTo(x + 5, 0);
  context.lineTo(x, 7);
  context.fill();
}

/** Asks one question at a time, the latest, and keeps the last answer. */
export function createAsker(store, question) {
  let wanted = "";
  let next = null;
  let busy = false;
  let asked = 0;
  let timer = 0;
  const asker = { reply: null, error: "", get open() { return busy || next !== null; } };
  function go() {
    clearTimeout(timer);
    if (busy || !next) return;
    const wait = asked + ASK_MS - performance.now();
    if (wait > 0) {
      timer = setTimeout(go, wait);
      return;
    }
    const { options } = next;
    next = null;
    busy = true;
    asked = performance.now();
    store.ask(question, options).then(
      (reply) => {
        asker.reply = { ...reply, options };
        asker.error = "";
      },
      (error) => (asker.error = error.message),
    ).finally(() => {
      busy = false;
      store.emit("change");
      go();
    });
  }
  /** Ask unless this is what was asked last. */
  asker.want = (options, key = JSON.stringify(options)) => {
    if (key === wanted) return;
    wanted = key;
    next = { options };
    go();
  };
  asker.forget = () => (wanted = "");
  asker.destroy = () => clearTimeout(timer);
  return asker;
}
