// @ts-check
// Why an event loop stopped: the numbers of engine/stops.py.

export const [ENDED, STEPS, GROW, TIME, REACHED, BREAK, DEADLOCK, STRANDED, EXHAUSTED, TOO_LATE] = Array(10).keys();
