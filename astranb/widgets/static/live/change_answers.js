// @ts-check
// What can be changed, and changes: counterpart of widgets/views/change.py.

import { CHANGES } from "./commands.js";
import { InputError, near } from "./errors.js";
import { optional } from "./options.js";
import { repr, str } from "./text.js";

/** @import { Answers, Feed, Sim } from "./types" */

/** @type {Answers<Feed>} */
export const changes = {
  parameters({ live, sim }, options) {
    const path = str(optional(options, "path", ""));
    const edits = sim.edits.map((edit) => [edit.events, edit.path, edit.value]);
    return [{ ...shown(sim, path), run: live.about.parameters, edits, events: sim.events() }, []];
  },
  async apply({ session, workbench }, options) {
    const verb = str(optional(options, "verb", null));
    if (!Object.hasOwn(CHANGES, verb)) {
      throw new InputError(`no such change: ${repr(verb)}`, { where: "change", hint: near(verb, Object.keys(CHANGES)) });
    }
    workbench?.follow();
    await session.perform(verb, { ...optional(options, "options", {}) });
    return [{ status: session.status }, []];
  },
};

/** What can be changed of an object, or why it cannot be said. @param {Sim} sim @param {string} path */
function shown({ engine }, path) {
  if (!path) return { title: "", kind: "", object: [] };
  try {
    const object = engine.parameters(path);
    const { kind, path: title } = engine.place(path);
    return { title, kind, object };
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return { title: error.message, kind: "", object: [] };
  }
}
