// @ts-check
// What only Python can answer.

import { InputError } from "./errors.js";

/** Refuse something, and say where it can be had. @param {string} what @returns {never} */
export function needsPython(what) {
  throw new InputError(`“${what}” needs JupyterLab: open this state there`);
}
