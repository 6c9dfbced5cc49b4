// @ts-check
// What workbench.js loads; everything else comes with it.

export { createBeside } from "./beside.js";
export { createPanels } from "./panels.js";
export { keepClicks } from "./pressing.js";
export { createReveal } from "./reveal.js";
export { gpuOf } from "./selection.js";
export { createStore } from "./store.js";
export { createTheme, make } from "./theme.js";
export { createTransport } from "./transport.js";
