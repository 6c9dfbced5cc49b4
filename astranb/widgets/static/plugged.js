// @ts-check
// The panels of plug-ins. Where some are installed, Python sends a module with a list of theirs in place of this one.

/** @import { Store, Theme, View } from "./types" */

/** @type {["" | "cacheline" | "operations", "stage" | "side" | "below", string, string, (store: Store, theme: Theme) => View][]} */
export const PLUGGED = []; // the engine ("": any), where, name, title, what makes it
