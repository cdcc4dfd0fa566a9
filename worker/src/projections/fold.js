/**
 * Many chunks into one answer, one answer into many chunks: what chat and text completions share.
 *
 * Unknown members survive both ways.  Merging follows what clients do with deltas: texts are joined, lists with an
 * `index` merge by it, other lists grow, objects merge, the rest is replaced.  Values are those of verbatim.js.
 */

import { utf8 } from "../contract/bytes.js";
import { DONE } from "../contract/events.js";
import { Numeral, objectIn, written } from "./verbatim.js";

export const PIECE_CODE_POINTS = 64;

const SAID_ONCE = new Set(["role", "id", "type", "index"]);
const ON_EVERY_CHUNK = ["id", "created", "model", "system_fingerprint", "service_tier"];
const USUAL_ORDER = ["id", "object", "created", "model", "choices", "usage"];
const WORD = /[^ \t\n\r]*[ \t\n\r]+|[^ \t\n\r]+/g;

// The items of growing lists by their place: looking through a list at every item would cost its square.
const PLACES = new WeakMap();

/** What is no answer, whole or told in events, and so has no other shape. */
export class NotAnAnswer extends Error {}

/** The JSON objects of a transcript's data events, `[DONE]` left out; throws NotAnAnswer. */
export function* chunksOf(events) {
  for (const { data } of events) {
    if (data === null || data === DONE) continue;
    const chunk = objectIn(data);
    if (chunk === null) throw new NotAnAnswer("an event is not a JSON object");
    yield chunk;
  }
}

/** The members of the answer beside its choices, and all choices of all chunks in order. */
export function foldMembers(chunks) {
  const members = new Map();
  const choices = [];
  for (const chunk of chunks) {
    for (const [name, value] of chunk) {
      if (name === "choices") {
        for (const choice of objects(value, "choices")) choices.push(choice);
      } else if (ON_EVERY_CHUNK.includes(name)) {
        if ((members.get(name) ?? null) === null) members.set(name, value);
      } else if (value !== null || (!members.has(name) && name !== "usage")) {
        members.set(name, value);
      }
    }
  }
  return [members, choices];
}

/** The value itself; throws NotAnAnswer if it is no list of objects. */
export function objects(value, what) {
  if (!Array.isArray(value) || !value.every((item) => item instanceof Map)) {
    throw new NotAnAnswer(`${what} is not a list of objects`);
  }
  return value;
}

/** The same answer with its members where readers look for them. */
export function inUsualOrder(whole) {
  const first = USUAL_ORDER.filter((name) => whole.has(name)).map((name) => [name, whole.get(name)]);
  return new Map([...first, ...without(whole, USUAL_ORDER)]);
}

/** The pieces of each choice, lowest index first. */
export function byIndex(choices) {
  const found = new Map();
  for (const choice of choices) {
    const index = choice.has("index") ? position(choice) : 0;
    if (index === null) throw new NotAnAnswer("a choice's index is not a whole number");
    if (!found.has(index)) found.set(index, []);
    found.get(index).push(choice);
  }
  return new Map([...found].sort(([one], [other]) => one - other));
}

/** Adds a delta to what has come. */
export function merge(into, delta) {
  for (const [name, value] of delta) {
    const held = into.get(name) ?? null;
    if (held === null) {
      into.set(name, opened(value));
    } else if (value === null || (SAID_ONCE.has(name) && held !== "")) {
      continue;
    } else if (typeof held === "string" && typeof value === "string") {
      into.set(name, name === "name" && held === value ? held : held + value);
    } else if (Array.isArray(held) && Array.isArray(value)) {
      grow(held, value);
    } else if (held instanceof Map && value instanceof Map) {
      merge(held, value);
    } else {
      into.set(name, value);
    }
  }
}

/** Adds what stands beside the delta: as `merge`, but a text said again replaces the first. */
export function mergeBeside(into, members) {
  for (const [name, value] of members) {
    if (typeof value === "string" && typeof into.get(name) === "string") into.set(name, value);
    else merge(into, new Map([[name, value]]));
  }
}

/** Tool calls as a whole answer has them: in the order of their index, without it. */
export function withoutPositions(items) {
  const ordered = items.toSorted((one, other) => (position(one) ?? 0) - (position(other) ?? 0));
  return ordered.map((item) => (item instanceof Map ? without(item, ["index"]) : item));
}

/** A text cut after runs of white space, and every 64 code points. */
export function pieces(text) {
  return (text.match(WORD) ?? []).flatMap((word) => (word.length <= PIECE_CODE_POINTS ? [word] : cut(word)));
}

/**
 * The events of an answer: its choices' pieces, then usage if asked, then `[DONE]`.
 *
 * Members that every chunk carries go on all, the others on the first, which an answer without choices has too.
 */
export function transcript(whole, choices, { kind, usage }) {
  const onEvery = ON_EVERY_CHUNK.filter((name) => whole.has(name)).map((name) => [name, whole.get(name)]);
  const common = new Map([["id", whole.get("id") ?? null], ["object", kind], ...onEvery]);
  let once = without(whole, [...common.keys(), "choices", "usage"]);
  const events = [];
  for (const choice of choices) {
    events.push(new Map([...common, ...once, ["choices", [choice]]]));
    once = new Map();
  }
  if (events.length === 0) events.push(new Map([...common, ...once, ["choices", []]]));
  if (usage && (whole.get("usage") ?? null) !== null) {
    events.push(new Map([...common, ["choices", []], ["usage", whole.get("usage")]]));
  }
  return utf8(`${events.map((event) => `data: ${written(event)}\n\n`).join("")}data: [DONE]\n\n`);
}

/** The members of an object but for some. */
export function without(members, names) {
  return new Map([...members].filter(([name]) => !names.includes(name)));
}

function cut(word) {
  const points = Array.from(word);
  const found = [];
  for (let at = 0; at < points.length; at += PIECE_CODE_POINTS) {
    found.push(points.slice(at, at + PIECE_CODE_POINTS).join(""));
  }
  return found;
}

/** A value that may be added to without changing the chunk it came from. */
function opened(value) {
  if (value instanceof Map) {
    const empty = new Map();
    merge(empty, value);
    return empty;
  }
  if (Array.isArray(value)) {
    const grown = [];
    grow(grown, value);
    return grown;
  }
  return value;
}

function grow(held, more) {
  if (!PLACES.has(held)) PLACES.set(held, placesOf(held));
  const places = PLACES.get(held);
  for (const item of more) {
    const place = position(item);
    const same = place === null ? undefined : places.get(place);
    if (same !== undefined) {
      merge(same, item);
      continue;
    }
    const first = opened(item);
    if (place !== null) places.set(place, first);
    held.push(first);
  }
}

/** The first item that tells each place. */
function placesOf(items) {
  const places = new Map();
  for (const item of items) {
    const place = position(item);
    if (place !== null && !places.has(place)) places.set(place, item);
  }
  return places;
}

/** Where an item stands among its like; null if it doesn't tell by a whole number. */
function position(item) {
  const index = item instanceof Map ? item.get("index") : null;
  return index instanceof Numeral ? index.whole : null;
}
