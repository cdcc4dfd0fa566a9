/**
 * Random JSON texts of every awkward kind, and what this side makes of them: `node random_values.js SEED COUNT`.
 *
 * Each line is an object with `text`, a JSON string or {"base64": …} where it is no UTF-8, and `outcome`.
 */

import { chanceFrom } from "../operations/chance.js";
import { utf8 } from "../src/contract/bytes.js";
import { outcomeOf } from "./digests.js";

const NAMES = ["", "a", "b", "B", "ab", "2", "11", "-1", "stream", "toString", "__proto__", "hasOwnProperty", "x:y"];
const POINTS = [
  0x00, 0x08, 0x09, 0x0a, 0x0d, 0x1f, 0x20, 0x22, 0x2f, 0x3a, 0x3c, 0x41, 0x5c, 0x61, 0x7a, 0x7b, 0x7d, 0x7f, 0x85,
  0xa0, 0xe9, 0x301, 0x7ff, 0x800, 0x2028, 0x2029, 0x65e5, 0xd7ff, 0xe000, 0xf900, 0xfb33, 0xfeff, 0xfffe, 0xffff,
  0x10000, 0x1f600, 0xe0001, 0x10ffff,
];
const SHORT = new Map([
  ['"', '\\"'], ["\\", "\\\\"], ["/", "\\/"], ["\b", "\\b"], ["\f", "\\f"], ["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"],
]);
const LONE = ["\\ud800", "\\uDABC", "\\udc00", "\\uDFFF", "\\udc00\\ud800", "\\ud83d\\ud83d"];
const NUMERALS = [
  "0", "-0", "-0.0", "0.000", "0E+9", "1.0", "100e-2", "1e-7", "1.0e-6", "0.00001", "5e-324", "2.4e-324", "2.5e-324",
  "1e-330", "9007199254740991.49", "9007199254740991.5", "9007199254740990.5", "1e400", "-1e309",
  "1.7976931348623157e308", "0.1", "0.30000000000000004", "9.5367431640625e-7", "123e18", "2251799813685248.25",
  "7e-10", "1E15", "1E16",
];
const EDGES = [2n ** 53n, 2n ** 63n, 2n ** 64n, 10n ** 15n, 10n ** 18n, 10n ** 25n];
const FLAT = ["text", "number", "literal"];
const NESTING = ["object", "object", "object", "list", "list"];
const SPACES = ["", "", "", "", " ", "\t", "\n", "\r", " \n "];
const STRAY = [0x00, 0x0c, 0x20, 0x22, 0x2c, 0x3a, 0x5b, 0x5c, 0x5d, 0x65, 0x7b, 0x7d, 0x80, 0xc0, 0xed, 0xff];

/** Writes one text.  Only a few texts may hold what makes a text unkeyable, or most would be. */
class Writer {
  constructor(chance) {
    this.chance = chance;
    [this.mayRepeat, this.mayBeLone, this.mayBeLarge] = [0, 0, 0].map(() => chance() < 0.12);
  }

  document() {
    return this.space() + this.value(this.oneOf([1, 2, 3, 5])) + this.space();
  }

  value(depth) {
    switch (this.oneOf(depth > 0 ? [...NESTING, ...FLAT] : FLAT)) {
      case "text":
        return this.text(this.characters());
      case "number":
        return this.number();
      case "object":
        return this.object(depth - 1);
      case "list":
        return `[${this.several(() => this.space() + this.value(depth - 1)).join(",") || this.space()}${this.space()}]`;
      default:
        return this.oneOf(["true", "false", "null"]);
    }
  }

  object(depth) {
    const names = [...new Set(this.several(() => this.name()))];
    if (names.length > 0 && this.mayRepeat && this.chance() < 0.5) names.push(this.oneOf(names));
    const members = names.map(
      (name) => `${this.space()}${this.text(name)}${this.space()}:${this.space()}${this.value(depth)}`,
    );
    return `{${members.join(",") || this.space()}${this.space()}}`;
  }

  name() {
    return this.chance() < 0.5 ? this.oneOf(NAMES) : this.characters();
  }

  characters() {
    return this.several(() => String.fromCodePoint(this.oneOf(POINTS))).join("");
  }

  text(characters) {
    const written = [...characters].map((character) => this.character(character));
    if (this.mayBeLone && this.chance() < 0.3) written.splice(this.below(written.length + 1), 0, this.oneOf(LONE));
    return `"${written.join("")}"`;
  }

  character(character) {
    if (SHORT.has(character) && this.chance() < 0.5) return SHORT.get(character);
    const mustBeEscaped = character < " " || character === '"' || character === "\\";
    if (!mustBeEscaped && this.chance() > 0.15) return character;
    const isCapital = this.chance() < 0.5;
    return character.split("").map((unit) => {
      const digits = unit.charCodeAt(0).toString(16).padStart(4, "0");
      return `\\u${isCapital ? digits.toUpperCase() : digits}`;
    }).join("");
  }

  number() {
    const numeral = this.anyNumber();
    return Math.abs(Number(numeral)) > Number.MAX_SAFE_INTEGER && !this.mayBeLarge ? "8" : numeral;
  }

  anyNumber() {
    switch (this.below(5)) {
      case 0:
        return this.oneOf(NUMERALS);
      case 1:
        return `${this.oneOf(["", "-"])}${this.oneOf(EDGES) + BigInt(this.below(7) - 3)}`;
      case 2:
        return String(this.below(2000) - 1000);
      case 3:
        return `${this.oneOf(["", "-"])}${this.below(1e5)}.${this.below(1e5)}e${this.below(350) - 330}`;
      default: {
        const bits = new Uint32Array([this.chance() * 2 ** 32, this.chance() * 2 ** 32]);
        const [double] = new Float64Array(bits.buffer);
        return Number.isFinite(double) ? String(double) : "2.5";
      }
    }
  }

  space() {
    return this.oneOf(SPACES);
  }

  several(make) {
    return Array.from({ length: this.oneOf([0, 1, 2, 3, 6]) }, make);
  }

  oneOf(choices) {
    return choices[this.below(choices.length)];
  }

  below(limit) {
    return Math.floor(this.chance() * limit);
  }
}

/** The text with one byte gone, put in or changed, or cut: mostly no JSON any more. */
function broken(chance, bytes) {
  const at = Math.floor(chance() * (bytes.length + 1));
  const stray = STRAY[Math.floor(chance() * STRAY.length)];
  const [before, after] = [[...bytes.slice(0, at)], [...bytes.slice(at)]];
  const ways = [
    [...before, ...after.slice(1)], [...before, stray, ...after], [...before, stray, ...after.slice(1)], before,
  ];
  return new Uint8Array(ways[Math.floor(chance() * ways.length)]);
}

function told(bytes) {
  const buffer = Buffer.from(bytes);
  const text = buffer.toString("utf8");
  return Buffer.from(text, "utf8").equals(buffer) ? text : { base64: buffer.toString("base64") };
}

const [seed = 0, count = 0] = process.argv.slice(2).map(Number);
const chance = chanceFrom(seed);
for (let i = 0; i < count; i++) {
  const sound = utf8(new Writer(chance).document());
  const bytes = chance() < 0.06 ? broken(chance, sound) : sound;
  process.stdout.write(`${JSON.stringify({ text: told(bytes), outcome: await outcomeOf(bytes) })}\n`);
}
