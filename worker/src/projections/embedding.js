/**
 * Embeddings: the answer to several inputs as one for each, and back; in either form (rules P1, P3, P5).
 *
 * A body is read no deeper than it must be: what isn't changed keeps its numbers' text.
 */

import { utf8, textOf } from "../contract/bytes.js";
import { asBase64, asNumbers, dimensions, ofBase64, ofNumbers } from "../contract/float32.js";
import { whyNotVectors } from "../contract/storable.js";
import { fromRawMembers, rawItems, rawMembers } from "../forwarding.js";
import { NotAnAnswer } from "./fold.js";
import { Numeral, objectIn, written } from "./verbatim.js";

export const FORMS = ["float", "base64"];

/** `why` is the word of rule P1 for what is wrong with an answer. */
export class Unsplit extends NotAnAnswer {
  constructor(why) {
    super(`the answer can't be taken apart: ${why}`);
    this.why = why;
  }
}

/**
 * The question that asks of these inputs of a list only, all else in its own text; and how long each of them is.
 *
 * A text is as long as its bytes, an array of tokens as its tokens.
 */
export function asking(body, places) {
  const members = rawMembers(body);
  const inputs = rawItems(members.get("input"));
  const chosen = places.map((place) => inputs[place]);
  const weights = chosen.map((text) => {
    const input = JSON.parse(text);
    return typeof input === "string" ? utf8(input).length : input.length;
  });
  return { body: fromRawMembers(members.set("input", `[${chosen.join(",")}]`)), weights };
}

/**
 * The answer to each input, in their order, whichever its own was.  Throws Unsplit.
 *
 * Usage is split by the inputs' weights.
 */
export function split(body, weights) {
  try {
    const { top, value } = answerIn(body);
    if ((value.error ?? null) !== null) throw new Unsplit("error");
    if (!Array.isArray(value.data)) throw new Unsplit("shape");
    const why = whyNotVectors(value.data, weights.length);
    if (why !== null) throw new Unsplit(why);
    return apart(top, value.data, weights);
  } catch (error) {
    throw error instanceof NotAnAnswer && !(error instanceof Unsplit) ? new Unsplit("shape") : error;
  }
}

/** The answer with each embedding in a form; the same bytes if they are.  Throws NotAnAnswer if it is none. */
export function inForm(body, form) {
  const { top, value } = answerIn(body);
  if (!Array.isArray(value.data)) throw new NotAnAnswer("the answer has no embeddings");
  const items = itemsOf(top);
  const wrong = items.filter((item) => item.get("embedding").startsWith('"') !== (form === "base64"));
  if (wrong.length === 0) return body;
  for (const item of wrong) item.set("embedding", turned(item.get("embedding")));
  const data = `[${items.map(itemText).join(",")}]`;
  return fromRawMembers(new Map(Array.from(top, ([name, text]) => [name, name === "data" ? data : small(text)])));
}

/**
 * An answer to one input, ready to stand among others.  Throws NotAnAnswer.
 *
 * `runs` are its item's text, null where the index goes; `top` are the answer's members in their own text, `data` and
 * `usage` among them by name only.
 */
export function pieceOf(body, form) {
  const { top, value } = answerIn(inForm(body, form));
  const items = itemsOf(top);
  const length = items.length === 1 ? dimensions(value.data[0].embedding) : null;
  if (length === null) throw new NotAnAnswer("the answer has no embedding");
  const runs = [];
  for (const [name, text] of items[0]) {
    runs.push(`${runs.length > 0 ? "," : "{"}${JSON.stringify(name)}:`);
    runs.push(name === "index" ? null : memberText(name, text));
  }
  const texts = Array.from(top, ([name, text]) => [name, name === "data" || name === "usage" ? "" : small(text)]);
  return { runs: [...runs, "}"], top: new Map(texts), usage: usageOf(top), dimensions: length };
}

/**
 * The answer to all, in this order: the first's members, with the usage of all where each tells some.
 *
 * Pieces of two lengths are not of one model: throws NotAnAnswer.
 */
export function joined(pieces) {
  if (new Set(pieces.map((piece) => piece.dimensions)).size > 1) {
    throw new NotAnAnswer("the embeddings are of several lengths");
  }
  const usages = pieces.map(({ usage }) => usage).filter((usage) => usage !== null);
  const told = new Map(pieces[0].top);
  told.set("data", `[${pieces.map(({ runs }, index) => runs.map((run) => run ?? index).join("")).join(",")}]`);
  if (usages.length < pieces.length) told.delete("usage");
  else told.set("usage", written(added(usages)));
  return fromRawMembers(told);
}

/**
 * The usage of each input: whole numbers split by weight, by the largest remainder, the first of equals.
 *
 * So are those in objects; what is neither is told of the whole alone.
 */
export function shares(usage, weights) {
  const each = weights.map(() => new Map());
  for (const [name, value] of usage) {
    const whole = wholeOf(value);
    let told;
    if (value instanceof Map) told = shares(value, weights);
    else if (whole !== null && whole >= 0) told = shared(whole, weights);
    else continue;
    each.forEach((own, place) => own.set(name, told[place]));
  }
  return each;
}

/** The usage of several together: whole numbers added, also in objects; what is neither is only one answer's. */
export function added(usages) {
  if (usages.length === 1) return usages[0];
  const sums = new Map();
  for (const name of new Set(usages.flatMap((usage) => [...usage.keys()]))) {
    const values = usages.filter((usage) => usage.has(name)).map((usage) => usage.get(name));
    if (values.every((value) => value instanceof Map)) {
      sums.set(name, added(values.length > 1 ? values : [...values, new Map()]));
    } else if (values.every((value) => wholeOf(value) !== null)) {
      sums.set(name, new Numeral(String(values.reduce((sum, value) => sum + BigInt(wholeOf(value)), 0n))));
    }
  }
  return sums;
}

function apart(top, judged, weights) {
  const members = new Map(Array.from(top, ([name, text]) => [name, name === "data" ? text : small(text)]));
  const usage = usageOf(top);
  const usages = usage === null ? null : shares(usage, weights);
  const told = [];
  itemsOf(top).forEach((item, at) => {
    const place = judged[at].index;
    const own = new Map(members).set("data", `[${itemText(item.set("index", "0"))}]`);
    if (usages !== null) own.set("usage", written(usages[place]));
    told[place] = fromRawMembers(own);
  });
  return told;
}

function shared(total, weights) {
  const together = weights.reduce((sum, weight) => sum + BigInt(weight), 0n);
  const parts = weights.map((weight) => BigInt(total) * BigInt(weight));
  const told = parts.map((part) => part / together);
  const left = Number(told.reduce((rest, share) => rest - share, BigInt(total)));
  const places = [...weights.keys()].sort((one, other) => Number(parts[other] % together - parts[one] % together));
  for (const place of places.slice(0, left)) told[place] += 1n;
  return told.map((share) => new Numeral(String(share)));
}

function wholeOf(value) {
  return value instanceof Numeral ? value.whole : null;
}

/** An embedding in the other form.  Throws NotAnAnswer if it is none. */
function turned(text) {
  const embedding = JSON.parse(text);
  if (dimensions(embedding) === null) throw new NotAnAnswer("the answer has no embeddings");
  return Array.isArray(embedding) ? `"${asBase64(ofNumbers(embedding))}"` : asNumbers(ofBase64(embedding));
}

/** An answer's members in their own text, and its value; throws NotAnAnswer if it is no object. */
function answerIn(body) {
  let text, value;
  try {
    text = textOf(body);
    value = JSON.parse(text);
  } catch {
    throw new NotAnAnswer("the answer can't be read");
  }
  return { top: membersOf(text), value };
}

/** The items of an answer's data, each as its members; throws NotAnAnswer if one has no embedding. */
function itemsOf(top) {
  const items = rawItems(top.get("data")).map(membersOf);
  if (items.every((item) => item.has("embedding"))) return items;
  throw new NotAnAnswer("the answer has no embeddings");
}

function membersOf(text) {
  if (!text.trimStart().startsWith("{")) throw new NotAnAnswer("the answer is not made of objects");
  const members = rawMembers(text);
  if ([...members.keys()].every((name) => name.isWellFormed())) return members;
  throw new NotAnAnswer("the answer can't be read");
}

function usageOf(top) {
  return top.get("usage")?.startsWith("{") ? objectIn(top.get("usage")) : null;
}

function itemText(item) {
  return textOf(fromRawMembers(new Map(Array.from(item, ([name, text]) => [name, memberText(name, text)]))));
}

/** A member of an item, written anew; of an embedding each number keeps its text. */
function memberText(name, text) {
  if (name !== "embedding") return small(text);
  return text.startsWith("[") ? text.replace(/\s+/g, "") : JSON.stringify(JSON.parse(text));
}

/** Any other value written anew.  Throws NotAnAnswer. */
function small(text) {
  const told = objectIn(`{"":${text}}`);
  if (told === null) throw new NotAnAnswer("the answer can't be read");
  return written(told.get(""));
}
