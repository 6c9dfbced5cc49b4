// @ts-check
// Values and numbers as Python writes them, to the last character.

const SPACES = /[\s\x1c-\x1f\x85]+/; // eslint-disable-line no-control-regex -- what str.split() splits at
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}\p{Zs}]/u;
/** @type {Record<string, string>} */
const ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

/** The words of a text: `text.split()`. @param {string} text */
export const words = (text) => text.split(SPACES).filter((word) => word);

/** A text as `repr` writes it. @param {string} text */
function quoted(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inside = Array.from(text, (one) => {
    if (one === quote) return `\\${quote}`;
    if (one in ESCAPES) return ESCAPES[one];
    if (one === " " || !UNPRINTABLE.test(one)) return one;
    const code = /** @type {number} */ (one.codePointAt(0)).toString(16);
    if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
    return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
  });
  return quote + inside.join("") + quote;
}

/** A power of ten, of two digits at least. @param {number} power */
const exponentOf = (power) => `${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;

/** A number as `repr` writes it; one without a fraction as a whole number, as JSON has it up to 1e21. @param {number} x */
function number(x) {
  if (Number.isInteger(x)) return Math.abs(x) < 1e21 ? String(BigInt(x)) : String(x);
  const [digits, power] = x.toExponential().split("e");
  return Number(power) < -4 ? `${digits}e${exponentOf(Number(power))}` : String(x);
}

/** What JSON holds, as Python's `repr` writes it. @param {unknown} value @returns {string} */
export function repr(value) {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  if (typeof value !== "object" || value === null) return "None";
  return `{${Object.entries(value).map(([name, one]) => `${quoted(name)}: ${repr(one)}`).join(", ")}}`;
}

/** What JSON holds, as Python's `str` writes it. @param {unknown} value */
export const str = (value) => (typeof value === "string" ? value : repr(value));

/** Separators for thousands in front of the point. @param {string} digits */
const separated = (digits) => digits.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));

/** `f"{n:,}"` of a whole number. @param {number} n */
export const commas = (n) => separated(number(n));

/**
 * Write a number with a JavaScript method, and with halves to the even digit, as Python does.
 * @param {number} x
 * @param {number} digits
 * @param {(x: number, digits: number) => string} write
 */
function rounded(x, digits, write) {
  const [text, exact] = [write(x, digits), write(x, digits + 25)];
  const [[last, power], [every, itsPower]] = [text.split("e"), exact.split("e")];
  // Halves are written away from zero. One that gives 10 is even.
  if (!/50{24}$/.test(every) || /[02468]$/.test(last) || power !== itsPower) return text;
  return exact.replace(/\.?50{24}(?=e|$)/, "");
}

/** `f"{x:.2f}"`. @param {number} x @param {number} digits */
export const fixed = (x, digits) => rounded(x, digits, (one, places) => one.toFixed(places));

/** `f"{x:,.2f}"`. @param {number} x @param {number} digits */
export const fixedCommas = (x, digits) => separated(fixed(x, digits));

/** `f"{x:.1%}"`. @param {number} x @param {number} digits */
export const percent = (x, digits) => `${fixed(x * 100, digits)}%`;

/** `f"{x:.4g}"`. @param {number} x @param {number} digits significant ones */
export function general(x, digits) {
  if (x === 0) return Object.is(x, -0) ? "-0" : "0";
  const text = rounded(x, digits - 1, (one, places) => one.toExponential(places));
  const [mantissa, exponent] = text.split("e");
  const power = Number(exponent);
  if (power < -4 || power >= digits) {
    return `${trimmed(mantissa)}e${exponentOf(power)}`;
  }
  return trimmed(Number(text).toFixed(Math.max(0, digits - 1 - power)));
}

/** `f"{x:,.4g}"`. @param {number} x @param {number} digits significant ones */
export const generalCommas = (x, digits) => separated(general(x, digits));

/** Without zeros at the end of a fraction. @param {string} text */
const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
