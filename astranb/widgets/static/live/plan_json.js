// @ts-check
// JSON with the place and line of every value, and errors that name them: counterpart of core/document.py.

import { InputError } from "./errors.js";
import { repr } from "./text.js";

const MOST_DEPTH = 100;
const MOST_LINED = 32 * 2 ** 20; // of larger text no lines are given
const HUGE = 10n ** 18n;
const BRIEF = 40; // characters of a value in an error

/** A number that is written with a point or an exponent. */
class Real {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

/** @typedef {null | boolean | string | number | bigint | Real | Value[] | Map<string, Value>} Plain */

/** A value, with the line on which it begins: of a member of an object, the line of its key. */
class Value {
  /** @param {Plain} plain @param {number} line */
  constructor(plain, line) {
    this.plain = plain;
    this.line = line;
  }
}

/** A value of a document, with its place. */
export class DocumentNode {
  /** @param {Value} value @param {{ name: string, lined: boolean }} source @param {DocumentNode | null} around @param {string} step */
  constructor(value, source, around = null, step = "") {
    this.value = value.plain;
    this.line = value.line;
    this.source = source;
    this.around = around;
    this.step = step;
  }

  /** An error about this value. @param {string} what @param {string} [hint] */
  error(what, hint = "") {
    let place = "";
    /** @type {DocumentNode | null} */
    let node = this;
    for (; node?.around; node = node.around) place = node.step + place;
    const { name, lined } = this.source;
    const file = lined ? `${name}:${this.line}` : name;
    return new InputError(what, { where: place ? `${file}, ${place.replace(/^\./, "")}` : file, hint });
  }

  /** Whether an object has a key. @param {string} key */
  has(key) {
    return this.value instanceof Map && this.value.has(key);
  }

  /** A member of an object; without a default it must be there. @param {string} key @param {Plain} [missing] */
  get(key, missing) {
    if (!(this.value instanceof Map)) throw this.error(`an object is expected, not ${brief(this.value)}`);
    const found = this.value.get(key);
    if (!found && missing === undefined) throw this.error(`${repr(key)} is missing`, "give it");
    return new DocumentNode(found ?? new Value(/** @type {Plain} */ (missing), this.line), this.source, this, `.${key}`);
  }

  /** The elements of a list. @returns {DocumentNode[]} */
  items() {
    if (!Array.isArray(this.value)) throw this.error(`a list is expected, not ${brief(this.value)}`);
    return this.value.map((one, n) => new DocumentNode(one, this.source, this, `[${n}]`));
  }

  /** A string. */
  text() {
    if (typeof this.value !== "string") throw this.error(`a string is expected, not ${brief(this.value)}`);
    return this.value;
  }

  /** True or false. */
  truth() {
    if (typeof this.value !== "boolean") throw this.error(`true or false is expected, not ${brief(this.value)}`);
    return this.value;
  }

  /** A whole number between two bounds. @param {number} low @param {number | bigint} high */
  number(low, high) {
    const { value } = this;
    if (typeof value !== "number" && typeof value !== "bigint") throw this.error(`a whole number is expected, not ${brief(value)}`);
    if (value < low || value > high) throw this.error(`${brief(value)} is out of range`, `take ${low} to ${high}`);
    return Number(value);
  }

  /** One of some words. @param {string[]} among */
  choice(among) {
    const word = this.text();
    if (!among.includes(word)) throw this.error(`unknown ${repr(word.slice(0, BRIEF))}`, `take ${among.join(", ")}`);
    return word;
  }
}

/** A value as an error gives it: short. @param {Plain} value */
function brief(value) {
  if (value instanceof Map) return "an object";
  if (Array.isArray(value)) return "a list";
  if (value instanceof Real) return written(value.value).slice(0, BRIEF);
  if (typeof value !== "bigint") return repr(value).slice(0, BRIEF);
  return value > HUGE || value < -HUGE ? "a huge number" : String(value);
}

/** A number with a fraction as `repr` writes it. @param {number} x */
function written(x) {
  if (!Number.isFinite(x)) return String(x).replace("NaN", "nan").replace("Infinity", "inf");
  if (Math.abs(x) >= 1e16) return x.toExponential();
  return Number.isInteger(x) ? `${x}.0` : repr(x);
}

const UNLINED = /\\u[dD][89a-fA-F]|[\x7f-\x84\x86-\x9f\ufffe\uffff]/;
const LONGEST_WHOLE = 4300; // digits
const RECURSION = 900;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g; // halves of surrogate pairs
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?/y;
const BLANK = /[ \t\n\r]*/y;
const PLAIN = /[^"\\\x00-\x1f]*/y; // eslint-disable-line no-control-regex -- what a string holds as it is
/** @type {[word: string, value: null | boolean | Real][]} */
const WORDS = [["null", null], ["true", true], ["false", false], ["NaN", new Real(NaN)], ["Infinity", new Real(Infinity)], ["-Infinity", new Real(-Infinity)]];
/** @type {Record<string, string>} */
const ESCAPED = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** @param {Uint8Array} bytes @param {string} name */
function decoded(bytes, name) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new InputError(`not JSON: byte ${firstBroken(bytes)} is not UTF-8`, { where: name, hint: "save the file as UTF-8 text" });
  }
}

/** Where bytes stop to be UTF-8. @param {Uint8Array} bytes */
function firstBroken(bytes) {
  /** @param {number} length @param {boolean} open whether a character may be cut at the end */
  const good = (length, open) => {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, length), { stream: open });
      return true;
    } catch {
      return false;
    }
  };
  let [low, high] = [0, bytes.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (good(middle, true)) low = middle;
    else high = middle - 1;
  }
  while (low > 0 && !good(low, false)) low -= 1; // a character that is cut begins there
  return low;
}

/** The parser of Python's json, with its words for what is wrong. */
class Parser {
  /** @param {string} text @param {string} name */
  constructor(text, name) {
    this.text = text;
    this.name = name;
    this.at = 0;
    this.repeats = false;
    this.deepest = 0;
    this.counted = 0; // up to where lines have been counted
    this.lines = 1;
  }

  document() {
    this.blank();
    const value = this.value(1);
    this.blank();
    if (this.at < this.text.length) throw this.error("Extra data");
    return value;
  }

  /** @param {string} what @param {number} at */
  error(what, at = this.at) {
    const line = this.text.slice(0, at).split("\n").length;
    return new InputError(`not JSON: ${what}`, { where: `${this.name}:${line}`, hint: "correct the text there" });
  }

  blank() {
    BLANK.lastIndex = this.at;
    BLANK.test(this.text);
    this.at = BLANK.lastIndex;
  }

  /** The line here: places are asked for in order. */
  line() {
    for (; this.counted < this.at; this.counted += 1) this.lines += this.text[this.counted] === "\n" ? 1 : 0;
    return this.lines;
  }

  /** @param {number} depth @returns {Value} */
  value(depth) {
    if (depth > RECURSION) throw new InputError("not JSON: nested too deep", { where: this.name, hint: "is it the right file?" });
    const line = this.line();
    const letter = this.text[this.at];
    if (letter === '"') return new Value(this.string(), line);
    if (letter === "{" || letter === "[") {
      this.deepest = Math.max(this.deepest, depth);
      return new Value(letter === "{" ? this.object(depth) : this.list(depth), line);
    }
    for (const [word, value] of WORDS) {
      if (!this.text.startsWith(word, this.at)) continue;
      this.at += word.length;
      return new Value(value, line);
    }
    return new Value(this.number(), line);
  }

  /** @param {number} depth */
  object(depth) {
    /** @type {Map<string, Value>} */
    const found = new Map();
    this.at += 1;
    this.blank();
    if (this.text[this.at] === "}") {
      this.at += 1;
      return found;
    }
    for (;;) {
      if (this.text[this.at] !== '"') throw this.error("Expecting property name enclosed in double quotes");
      const line = this.line();
      const key = this.string();
      this.blank();
      if (this.text[this.at] !== ":") throw this.error("Expecting ':' delimiter");
      this.at += 1;
      this.blank();
      const { plain } = this.value(depth + 1);
      if (found.has(key)) this.repeats = true;
      found.set(key, new Value(plain, line));
      if (this.ends("}")) return found;
    }
  }

  /** @param {number} depth */
  list(depth) {
    /** @type {Value[]} */
    const found = [];
    this.at += 1;
    this.blank();
    if (this.text[this.at] === "]") {
      this.at += 1;
      return found;
    }
    do found.push(this.value(depth + 1));
    while (!this.ends("]"));
    return found;
  }

  /** Whether an object or list ends here; else it goes on behind a comma. @param {string} bracket */
  ends(bracket) {
    this.blank();
    const letter = this.text[this.at];
    if (letter !== bracket && letter !== ",") throw this.error("Expecting ',' delimiter");
    this.at += 1;
    if (letter === bracket) return true;
    this.blank();
    return false;
  }

  number() {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (!match) throw this.error("Expecting value");
    const [digits, fraction, power] = match;
    this.at += digits.length;
    if (fraction || power) return new Real(Number(digits));
    const whole = digits.replace("-", "");
    if (whole.length > LONGEST_WHOLE) throw this.tooLong(whole.length);
    const value = Number(digits);
    return Number.isSafeInteger(value) ? value : BigInt(digits);
  }

  /** @param {number} count */
  tooLong(count) {
    const what = `not JSON: Exceeds the limit (${LONGEST_WHOLE} digits) for integer string conversion: value has ${count} digits; use sys.set_int_max_str_digits() to increase the limit`;
    return new InputError(what.slice(0, 200), { where: this.name, hint: "correct the file" });
  }

  string() {
    const begin = this.at;
    let text = "";
    this.at += 1;
    for (;;) {
      PLAIN.lastIndex = this.at;
      PLAIN.test(this.text);
      text += this.text.slice(this.at, PLAIN.lastIndex);
      this.at = PLAIN.lastIndex;
      if (this.at >= this.text.length) throw this.error("Unterminated string starting at", begin);
      const letter = this.text[this.at];
      this.at += 1;
      if (letter === '"') return text.replace(LONE, "\ufffd");
      if (letter !== "\\") throw this.error("Invalid control character at", this.at - 1);
      text += this.escape(begin);
    }
  }

  /** @param {number} begin of the string */
  escape(begin) {
    if (this.at >= this.text.length) throw this.error("Unterminated string starting at", begin);
    const letter = this.text[this.at];
    this.at += 1;
    if (letter in ESCAPED) return ESCAPED[letter];
    if (letter !== "u") throw this.error("Invalid \\escape");
    const digits = this.text.slice(this.at, this.at + 4);
    if (!/^[\da-fA-F]{4}$/.test(digits)) throw this.error("Invalid \\uXXXX escape");
    this.at += 4;
    return String.fromCharCode(parseInt(digits, 16));
  }
}

/**
 * Parse the bytes of a file of JSON: numbers that a page cannot hold exactly are kept, of duplicate keys the last counts.
 * @param {Uint8Array} bytes
 * @param {string} name what errors call the file
 */
export function parseDocument(bytes, name) {
  const text = decoded(bytes, name);
  const parser = new Parser(text, name);
  const value = parser.document();
  // Where Python's search for lines (which reads the file as YAML) gives up, no line is given here either.
  const lined = bytes.length <= MOST_LINED && !parser.repeats && parser.deepest <= MOST_DEPTH && !UNLINED.test(text);
  return new DocumentNode(value, { name, lined });
}
