// @ts-check
// Colours of JupyterLab's theme, the palettes, canvases that are sharp on every screen, and elements.

// Okabe and Ito (2008): distinguishable without full colour vision. Shape distinguishes the kinds, too.
export const KIND_COLOURS = ["#56b4e9", "#0072b2", "#e69f00", "#cc79a7", "#d55e00", "#009e73"];
export const KIND_SHAPES = ["small", "square", "square", "small", "cross", "cross"];
// What a rank does, in the order of ACTIVITIES (engine/operations/activity.py), on the timeline and on the topology.
export const ACTIVITY_COLOURS = ["#0072b2", "#e69f00", "#cc79a7", "#009e73", "#f0e442", "#999999"];
// Of messages: by collective, as the scene lists them.
export const MESSAGE_COLOURS = [
  "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c", "#7f3c8d", "#11a579", "#a5673f",
];
/** Colours and shapes of what moves on links, by the number of its kind. @param {import("./types").SceneMessage} scene @returns {import("./types").Looks} */
export const looksOf = ({ ranks, kinds }) =>
  ranks
    ? { colours: kinds.map((_, k) => MESSAGE_COLOURS[k % MESSAGE_COLOURS.length]), shapes: kinds.map(() => "square") }
    : { colours: KIND_COLOURS, shapes: KIND_SHAPES };
// What the time of an SM goes to (TIME_COLOURS of core/colours.py; the classes are in engine/cacheline/time_classes.py).
/** @type {Record<string, string>} */
export const TIME_COLOURS = {
  issue: "#0072b2", compute: "#009e73", data: "#56b4e9", fence: "#8c8c8c", semaphore: "#e69f00", signal: "#cc79a7", idle: "#bdbdbd",
  "issue or data": "#0072b2", "started late": "#f0e442",
};
/** @param {string} name as `fence: stores` @returns {string | undefined} */
export const timeColour = (name) => TIME_COLOURS[name.split(":")[0]];
// Of tracks, in the order of TRACK_STATES (engine/cacheline/tracks.py): issue, no slot, compute, signal, data, packets,
// fence, copy engine, semaphore, issue or data, started late. Details of a class differ in height.
export const TRACK_COLOURS = ["issue", "data", "compute", "signal", "data", "data", "fence", "semaphore", "semaphore", "issue or data", "started late"].map((name) => TIME_COLOURS[name]);
// What a node of a recorded trace does, in the order of ACTIVITIES (chakra/analysis/activity.py).
export const RECORDED_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"];
export const TRACK_HEIGHTS = [1, 0.84, 1, 1, 0.67, 0.5, 0.5, 0.2, 0.34, 0.67, 0.34];
// By what memory is for (MEMORY_COLOURS of core/colours.py), and the memory of the GPU.
/** @type {Record<string, string>} */
export const MEMORY_COLOURS = {
  weights: "#0072b2", gradients: "#e69f00", optimizer: "#009e73", activations: "#cc79a7", cache: "#56b4e9", buffers: "#8c8c8c",
};
export const LIMIT_COLOUR = "#d55e00";
export const RANK_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c"];
// A fill, and the ink that can be read on it.
export const PHASE_COLOURS = [
  ["#0072b2", "#ffffff"], ["#e69f00", "#000000"], ["#009e73", "#ffffff"], ["#56b4e9", "#000000"],
  ["#d55e00", "#ffffff"], ["#cc79a7", "#000000"], ["#f0e442", "#000000"], ["#8c8c8c", "#000000"],
];

// Nine steps of cividis (Nunez, Anderton and Renslow 2018).
/** @type {[number, number, number][]} */
const CIVIDIS = [
  [0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115],
  [138, 134, 120], [165, 156, 116], [195, 179, 105], [254, 232, 56],
];

const STYLE_MS = 50;
/** Colours that follow the theme of the page. @param {HTMLElement} element @returns {import("./types").Theme} */
export function createTheme(element) {
  const theme = /** @type {import("./types").Theme} */ ({ dark: false, version: 0 });
  function read() {
    const style = getComputedStyle(element);
    /** @type {(name: string, otherwise: string) => string} */
    const value = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
    theme.dark = document.body.dataset.jpThemeLight === "false";
    theme.back = value("--jp-layout-color1", theme.dark ? "#111111" : "#ffffff");
    theme.panel = theme.dark ? "#2a2a2a" : "#f2f2f2";
    theme.line = value("--jp-border-color1", theme.dark ? "#616161" : "#bdbdbd");
    theme.faint = value("--jp-border-color2", theme.dark ? "#424242" : "#e0e0e0");
    theme.ink = value("--jp-ui-font-color1", theme.dark ? "#ffffff" : "#212121");
    theme.dim = value("--jp-ui-font-color2", theme.dark ? "#bdbdbd" : "#616161");
    theme.brand = value("--jp-brand-color1", "#1976d2");
    theme.gpu = theme.dark ? "#1f3d2c" : "#e3f3e6";
    theme.node = theme.dark ? "#23364d" : "#e2ecf9";
    theme.font = value("--jp-ui-font-family", "sans-serif");
    theme.version += 1;
  }
  read();
  let later = 0;
  function changed() {
    clearTimeout(later);
    read();
    theme.changed?.();
    // The page names its new theme before the style sheet of it is there.
    if (themed && !getComputedStyle(element).getPropertyValue("--jp-layout-color1")) later = setTimeout(changed, STYLE_MS);
  }
  const themed = document.body.dataset.jpThemeName !== undefined;
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light"] });
  theme.destroy = () => {
    clearTimeout(later);
    observer.disconnect();
  };
  /** Red, green, blue of a fraction: busy is dark on light ground and bright on dark ground. */
  theme.ramp = (fraction) => {
    const at = Math.min(1, Math.max(0, theme.dark ? fraction : 1 - fraction)) * (CIVIDIS.length - 1);
    const k = Math.min(CIVIDIS.length - 2, Math.floor(at));
    return CIVIDIS[k].map((from, c) => Math.round(from + (at - k) * (CIVIDIS[k + 1][c] - from)));
  };
  /** @type {CanvasPattern | null} */
  let hatch = null;
  let hatchOf = -1;
  /** Hatched: what is not known. */
  theme.unknown = (context) => {
    if (hatchOf !== theme.version) [hatch, hatchOf] = [hatched(context, theme.line), theme.version];
    return hatch ?? theme.faint;
  };
  theme.rampText = (fraction) => `rgb(${theme.ramp(fraction).join(" ")})`;
  return theme;
}

/** The colour of a pixel of a canvas: red, green, blue and alpha in memory order. @param {number} r @param {number} g @param {number} b */
export const pixelOf = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** Red, green and blue of `#rrggbb`. @param {string} colour @returns {[number, number, number]} */
export function channels(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
  return [r, g, b];
}

/** Black or white, whichever can be read on a colour. @param {number[]} colour red, green, blue */
export const inkOn = ([r, g, b]) => (0.3 * r + 0.6 * g + 0.1 * b > 140 ? "#000" : "#fff");

/** @param {HTMLCanvasElement} canvas */
export function contextOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser draws no more pictures: reload the page");
  return context;
}

/**
 * Give a canvas as many pixels as it covers on the screen; returns its context, in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
export function fit(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = contextOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** @param {CanvasRenderingContext2D} context @param {string} colour */
function hatched(context, colour) {
  const cell = document.createElement("canvas");
  cell.width = cell.height = 5;
  const strokes = contextOf(cell);
  strokes.strokeStyle = colour;
  strokes.beginPath();
  strokes.moveTo(-1, 6);
  strokes.lineTo(6, -1);
  strokes.stroke();
  return context.createPattern(cell, "repeat");
}

/** Set the text of an element, unless it has it: then the page needs no layout. @param {Element} element @param {string} text */
export function settle(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const OFTEN_MS = 100;
/**
 * True when it is time to write a text again: what changes in every frame is not read, and lays the page out anew.
 * @param {import("./types").Store} store
 */
export function createBeat(store) {
  let last = 0;
  return () => {
    const now = performance.now();
    if (store.playing && now - last < OFTEN_MS) return false;
    last = now;
    return true;
  };
}

/**
 * @typedef {{ [name: string]: string | number | ((event: never) => unknown) | undefined, text?: string | undefined,
 *   onclick?: (event: MouseEvent) => unknown, onkeydown?: (event: KeyboardEvent) => unknown }} Attributes
 */

/**
 * Make an element: `text` is its text, what begins with `on` listens, everything else is an attribute.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  furnish(element, attributes);
  element.append(...children);
  return element;
}

const SVG_NAMES = "http://www.w3.org/2000/svg";
/**
 * The same for a part of a drawing.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 */
export function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG_NAMES, tag);
  furnish(element, attributes);
  element.append(...children);
  return element;
}

/** @param {Element} element @param {Attributes} attributes */
function furnish(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "text") element.textContent = String(value);
    else element.setAttribute(name, String(value));
  }
}

/** @param {string} text @param {(event: MouseEvent) => unknown} onclick @param {Attributes} [more] */
export const makeButton = (text, onclick, more = {}) => make("button", { type: "button", class: "anb-button", text, onclick, ...more });

/** A button that looks like a link. @param {string} text @param {(event: MouseEvent) => unknown} onclick @param {Attributes} [more] */
export const makeLink = (text, onclick, more = {}) => makeButton(text, onclick, { class: "anb-child", ...more });

/** @param {string} text */
export const makeHint = (text) => make("p", { class: "anb-hint", text });

/** An entry of a legend. @param {Node | string} mark @param {Node | string} text */
export const makeKey = (mark, text) => make("span", { class: "anb-key" }, mark, text);

/** An entry of a legend with a bar in its colour. @param {string} colour @param {string} text @param {number} [height] px */
export const makeBarKey = (colour, text, height = 9) =>
  makeKey(make("i", { class: "anb-bar", style: `--anb-colour: ${colour}; --anb-height: ${height}px` }), text);

/** @param {readonly string[]} names */
export const makeOptions = (names) => names.map((name) => make("option", { value: name, text: name }));

/** A row of a table. @param {Node | string} head @param {...string} cells */
export const makeRow = (head, ...cells) => make("tr", {}, make("th", { scope: "row" }, head), ...cells.map((text) => make("td", { text })));

/** Replace the children of an element; a button in it keeps the focus. @param {Element} element @param {...Node} children */
export function refill(element, ...children) {
  /** @param {Element | null} one */
  const named = (one) => (one instanceof HTMLElement && one.title) || one?.textContent;
  const focused = element.contains(document.activeElement) ? named(document.activeElement) : "";
  element.replaceChildren(...children);
  if (focused) [...element.querySelectorAll("button")].find((one) => named(one) === focused)?.focus();
}
