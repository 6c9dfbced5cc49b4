// @ts-check
// The commands of buttons: one function each, which gives what the status line shows. Counterpart of
// widgets/session/commands.py.

import { InputError } from "./errors.js";
import { optional, truthy } from "./options.js";
import { commas, repr } from "./text.js";
import { timePs } from "./units.js";

/** @import { Sim } from "./types" */
/** @import { Stop } from "./stop.js" */
/** @typedef {Record<string, any>} CommandOptions as they came in a message */
/** @import { Steps } from "./steps.js" */
/** @typedef {(sim: Sim, options: CommandOptions) => Stop | string | null | Steps<Stop | null>} Command those that go back are work in steps */

/** Units of steps; engines refuse those that they do not count. */
export const UNITS = ["event", "cycle", "instruction", "hop", "line", "message", "operation", "phase", "pass"];

const MOST_STEPS = 1e12;

/** How often: a whole number, at least 0. @param {CommandOptions} options */
export function countOf({ n = 1 }) {
  if (!Number.isInteger(n) || n < 0 || n > MOST_STEPS) {
    throw new InputError(`how many steps must be a whole number from 0 on, got ${repr(n)}`, { where: "n" });
  }
  return n;
}

/** When: ps, or text with a unit. @param {CommandOptions} options */
export const whenOf = ({ when = 0 }) => timePs(typeof when === "number" ? Math.trunc(when) : when, "time");

/** @param {CommandOptions} options @param {string} name */
function textOf(options, name) {
  const value = optional(options, name, "");
  if (typeof value !== "string") throw new InputError(`${repr(value)} is not text`, { where: name });
  return value.trim();
}

/** Which one of a list. @param {CommandOptions} options @param {number} count @param {string} what */
function numberOf({ number = null }, count, what) {
  if (!Number.isInteger(number) || number < 0 || number >= count) {
    throw new InputError(`there is no ${what} ${repr(number)}`, { where: what, hint: `there are ${count}` });
  }
  return number;
}

/** @param {Sim} sim @param {CommandOptions} options @param {"take_down" | "repair"} verb @param {string} said */
function setUp(sim, options, verb, said) {
  sim[verb](textOf(options, "link"), truthy(optional(options, "both", false)));
  return `${textOf(options, "link")} ${said.replace("{}", commas(sim.events()))}`;
}

/** @param {Sim} sim @param {CommandOptions} options */
const pointOf = (sim, options) => sim.breakpoints[numberOf(options, sim.breakpoints.length, "breakpoint")];

/** Add a breakpoint: at a time, on a kind and an object, or when a condition holds. @param {Sim} sim @param {CommandOptions} options */
function addPoint(sim, options) {
  const how = textOf(options, "how");
  if (how === "at") return sim.break_at(textOf(options, "time"));
  if (how === "on") return sim.break_on(textOf(options, "kind") || null, textOf(options, "object") || null);
  if (how === "when") return sim.break_when(textOf(options, "condition"));
  throw new InputError(`no such breakpoint: ${repr(how)}`, { where: "breakpoint", hint: "at, on or when" });
}

/** Commands that only move a run, and of them those that do not depend on where it is. */
export const MOVES = new Set(["reset", "back", "goto", "next_line", "play", "to_breakpoint", "to_end", ...UNITS]);
export const ABSOLUTE = new Set(["reset", "goto"]);

/** @type {Record<string, Command>} commands that change a run, its breakpoints or its watches */
export const CHANGES = {
  set(sim, options) {
    sim.set(textOf(options, "path"), optional(options, "value", ""));
    const { path, value } = sim.edits[sim.edits.length - 1];
    return `${path} = ${value} from event ${commas(sim.events())} on`;
  },
  take_down: (sim, options) => setUp(sim, options, "take_down", "is down from event {} on: messages wait in front of it"),
  repair: (sim, options) => setUp(sim, options, "repair", "is up again from event {} on"),
  reroute(sim) {
    sim.reroute();
    return `routes avoid what is down from event ${commas(sim.events())} on`;
  },
  undo: (sim, options) => sim.undo("number" in options ? numberOf(options, sim.edits.length, "edit") : -1),
  breakpoint: (sim, options) => `a breakpoint ${addPoint(sim, options).text}`,
  enable(sim, options) {
    const point = pointOf(sim, options);
    point.enabled = truthy(optional(options, "enabled", true));
    return `the breakpoint ${point.text} is ${point.enabled ? "on" : "off"}`;
  },
  clear(sim, options) {
    if (!("number" in options)) {
      sim.clear();
      return "no breakpoints";
    }
    const point = pointOf(sim, options);
    sim.clear(point);
    return `removed the breakpoint ${point.text}`;
  },
  watch: (sim, options) => `watching ${sim.watch(textOf(options, "what")).text}`,
  unwatch(sim, options) {
    if (!("number" in options)) {
      sim.unwatch();
      return "nothing is watched";
    }
    const watch = sim.watches[numberOf(options, sim.watches.length, "watch")];
    sim.unwatch(watch);
    return `no longer watching ${watch.text}`;
  },
};

/** @type {Record<string, Command>} all of them */
export const COMMANDS = {
  reset: (sim) => sim.reset({ keep: true }),
  back: (sim, options) => sim.back(countOf(options), String(options.unit ?? "event")),
  goto: (sim, options) => sim.goto(whenOf(options)),
  record(sim, options) {
    const on = truthy(optional(options, "on", true));
    sim.record(on);
    return on ? "recording" : "not recording: this interval cannot be shown later";
  },
  ...Object.fromEntries(UNITS.map((unit) => [unit, (/** @type {Sim} */ sim, /** @type {CommandOptions} */ options) => sim.step(countOf(options), unit)])),
  ...CHANGES,
};
