// @ts-check
// What views of a run of operations ask, and who answers it: counterpart of widgets/views/.

/** @import { Answers } from "./types" */

/** @type {Answers} by the name of the question */
export const ANSWERS = {};
