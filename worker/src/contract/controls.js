/**
 * What a request itself asks about caching (rules C1 and C2); other products' names are in aliases.js (C3).
 *
 * Controls come from headers, from `foretold-*` members of the query string and, in OpenAI-shaped bodies, from `cache`.
 * A caller may only narrow: of two wishes the stricter wins, and where neither is stricter the first family that
 * speaks.
 */

import { BadControl } from "./errors.js";
import { CEILING_S } from "./freshness.js";
import { MAX_CALLER_TAGS, isCallerTag } from "./generations.js";
import { divided, trimmed } from "./query.js";

export const OWN = [
  "foretold-ttl",
  "foretold-tags",
  "foretold-sample",
  "foretold-namespace",
  "foretold-pace",
  "foretold-keep-alive",
  "foretold-revision",
];
export const MAX_SAMPLE = 99;
export const MAX_LABEL = 256;
export const MAX_NESTED = 8;
// So many unreadable aliases are remembered.
export const MAX_TOLD = 8;

const DIGITS = /^[0-9]{1,15}$/;
const CONTROL = /[\x00-\x1f\x7f]/;
const ESCAPED = /(?:%[0-9a-fA-F]{2})+/g;
const replacing = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Rules C1 to C3, settled: what a request that says nothing asks.
 *
 * `storeTtlS` lowers what is stored, `maxAgeS` what is accepted; `maxStaleS` is infinite for any staleness.
 * `children` are labels of ever narrower namespaces, `ignored` body members that don't count there, `ignoredAliases`
 * the aliases that could not be read.  `keepAliveS` is how long a model stays loaded afterwards, -1 for as long as it
 * can, `revision` which one the caller believes that the model has.
 */
export const NONE = Object.freeze({
  noCache: false,
  noStore: false,
  onlyIfCached: false,
  maxAgeS: null,
  minFreshS: 0,
  maxStaleS: null,
  storeTtlS: null,
  tags: Object.freeze([]),
  sample: null,
  children: Object.freeze([]),
  ignored: Object.freeze([]),
  paceRecorded: false,
  keepAliveS: null,
  revision: null,
  ignoredAliases: Object.freeze([]),
});

/** These wishes, and nothing else. */
export function controls(wishes) {
  return { ...NONE, ...wishes };
}

/** Both wishes at once; `first` is the family that spoke first. */
export function stricter(first, second) {
  return {
    noCache: first.noCache || second.noCache,
    noStore: first.noStore || second.noStore,
    onlyIfCached: first.onlyIfCached || second.onlyIfCached,
    maxAgeS: lower(first.maxAgeS, second.maxAgeS),
    minFreshS: Math.max(first.minFreshS, second.minFreshS),
    maxStaleS: lower(first.maxStaleS, second.maxStaleS),
    storeTtlS: lower(first.storeTtlS, second.storeTtlS),
    tags: [...new Set([...first.tags, ...second.tags])],
    sample: first.sample ?? second.sample,
    children: [...first.children, ...second.children],
    ignored: [...first.ignored, ...second.ignored],
    paceRecorded: first.paceRecorded || second.paceRecorded,
    keepAliveS: first.keepAliveS ?? second.keepAliveS,
    revision: first.revision ?? second.revision,
    ignoredAliases: [...first.ignoredAliases, ...second.ignoredAliases].slice(0, MAX_TOLD),
  };
}

/** The controls in a query string as [name, value], and the query string without them, otherwise as received. */
export function splitQuery(query) {
  if (!query.toLowerCase().includes("foretold") && !query.includes("%")) return [[], query];
  const [found, kept] = [[], []];
  for (const part of query.split("&")) {
    const [given, value] = divided(part);
    const name = unescaped(given).toLowerCase();
    if (name.startsWith("foretold-")) found.push([name, unescaped(value)]);
    else kept.push(part);
  }
  return [found, kept.join("&")];
}

/**
 * The controls of our own family among headers or query members.
 *
 * Throws BadControl for an unknown `foretold-*` name, a value that can't be read or more of them than are allowed.
 */
export function ownControls(pairs) {
  let settled = NONE;
  for (const [given, value] of pairs) {
    const name = given.toLowerCase();
    if (!name.startsWith("foretold-")) continue;
    settled = stricter(settled, own(name, trimmed(value)));
    if (settled.tags.length > MAX_CALLER_TAGS) {
      throw new BadControl(`foretold-tags: at most ${MAX_CALLER_TAGS} tags are taken`, { param: "foretold-tags" });
    }
    if (settled.children.length > MAX_NESTED) {
      throw new BadControl(`foretold-namespace: at most ${MAX_NESTED} are nested`, { param: "foretold-namespace" });
    }
  }
  return settled;
}

/** The directives of a request's `Cache-Control`; an age that can't be read counts as `no-cache`. */
export function cacheControl(value) {
  let settled = NONE;
  for (const part of value.split(",")) {
    const [name, argument] = divided(part);
    settled = stricter(settled, directive(trimmed(name).toLowerCase(), trimmed(argument).replace(/^"+|"+$/g, "")));
  }
  return settled;
}

/** Seconds from 0 to the ceiling, or `forever` for the ceiling; null if it is neither. */
export function ttlS(value) {
  if (value === "forever") return CEILING_S;
  if (!DIGITS.test(value) || Number(value) > CEILING_S) return null;
  return Number(value);
}

/**
 * Whether a text can name a child namespace: 1 to 256 code points, none a control character.
 *
 * Labels that we make hold a line feed, which no caller's may.
 */
export function isLabel(value) {
  return value !== "" && [...value].length <= MAX_LABEL && !CONTROL.test(value);
}

function directive(name, argument) {
  switch (name) {
    case "no-cache":
      return controls({ noCache: true });
    case "no-store":
      return controls({ noStore: true });
    case "only-if-cached":
      return controls({ onlyIfCached: true });
    case "max-age":
      return controls(DIGITS.test(argument) ? { maxAgeS: Number(argument) } : { noCache: true });
    case "min-fresh":
      return controls(DIGITS.test(argument) ? { minFreshS: Number(argument) } : { noCache: true });
    case "max-stale":
      if (argument === "") return controls({ maxStaleS: Infinity });
      return controls(DIGITS.test(argument) ? { maxStaleS: Number(argument) } : { noCache: true });
    default:
      return NONE;
  }
}

function own(name, value) {
  switch (name) {
    case "foretold-ttl": {
      const seconds = ttlS(value);
      if (seconds === null) throw bad(name, `is ${quoted(value)}: give seconds from 0 to ${CEILING_S}, or forever`);
      return controls({ storeTtlS: seconds, maxAgeS: seconds });
    }
    case "foretold-tags":
      return controls({ tags: tagsOf(value) });
    case "foretold-sample":
      if (!DIGITS.test(value) || Number(value) > MAX_SAMPLE) {
        throw bad(name, `is ${quoted(value)}: give a number from 0 to ${MAX_SAMPLE}`);
      }
      return controls({ sample: Number(value) });
    case "foretold-namespace":
      if (!isLabel(value)) throw bad(name, `is no label: give 1 to ${MAX_LABEL} characters, none a control`);
      return controls({ children: [value] });
    case "foretold-pace":
      if (value !== "recorded") throw bad(name, `is ${quoted(value)}: the only pace is \`recorded\``);
      return controls({ paceRecorded: true });
    case "foretold-keep-alive":
      if (value !== "-1" && (!DIGITS.test(value) || Number(value) > CEILING_S)) {
        throw bad(name, `is ${quoted(value)}: give seconds from 0 to ${CEILING_S}, or -1 for as long as there is room`);
      }
      return controls({ keepAliveS: Number(value) });
    case "foretold-revision":
      if (!isLabel(value)) throw bad(name, `is no revision: give 1 to ${MAX_LABEL} characters, none a control`);
      return controls({ revision: value });
    default:
      throw new BadControl(`there is no ${name}: known are ${OWN.join(", ")}`, { param: name });
  }
}

function tagsOf(value) {
  const tags = value.split(/[ ,\t]+/).filter((tag) => tag !== "");
  const wrong = tags.find((tag) => !isCallerTag(tag));
  if (wrong !== undefined) {
    throw bad("foretold-tags", `has ${quoted(wrong)}: a tag is 1 to 64 of a-z 0-9 _ . : -`);
  }
  return [...new Set(tags)];
}

function bad(name, what) {
  return new BadControl(`${name} ${what}`, { param: name });
}

function quoted(value) {
  return JSON.stringify(value);
}

function lower(one, other) {
  return one === null ? other : other === null ? one : Math.min(one, other);
}

/** A part of a query string as it was meant (application/x-www-form-urlencoded). */
function unescaped(text) {
  return text.replaceAll("+", " ").replace(ESCAPED, (run) => {
    const bytes = run.slice(1).split("%").map((digits) => Number.parseInt(digits, 16));
    return replacing.decode(new Uint8Array(bytes));
  });
}
