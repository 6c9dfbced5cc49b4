// Numbers as a person reads them.

const UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];

/** Picoseconds with a unit, exact. */
export function formatTime(ps, digits = 6) {
  const [size, unit] = UNITS.find(([one]) => Math.abs(ps) >= one) ?? UNITS.at(-1);
  const places = Math.min(digits, Math.round(Math.log10(size)));
  return `${Number((ps / size).toFixed(places))} ${unit}`;
}
