/** Workers AI's own shapes as OpenAI's: `{"response": …}` whole, and events that carry `response`. */

import { hex, joined, textOf, utf8 } from "../contract/bytes.js";
import { isObject } from "../contract/canonical.js";
import { DONE, Splitter, eventOf } from "../contract/events.js";

// Where a request sets no limit, Workers AI ends an answer after so many tokens.
const OWN_LIMIT = 256;

/** What an answer must know of its question: a stream shall not hold all of that. */
export function wishesOf({ operation, model, body }) {
  const value = objectOf(textOf(body));
  return {
    operation,
    model,
    limit: value.max_tokens ?? value.max_completion_tokens ?? OWN_LIMIT,
    usage: value.stream_options?.include_usage === true,
  };
}

/** A whole answer; one that has choices is OpenAI's already. */
export function openAiWhole(told, wishes, nowMs) {
  if (Array.isArray(told.choices)) return told;
  const finish = finishOf(told.usage, wishes, told.tool_calls);
  const text = typeof told.response === "string" ? told.response : null;
  const choice =
    wishes.operation === "completion"
      ? { index: 0, text: text ?? "", logprobs: null, finish_reason: finish }
      : { index: 0, message: { role: "assistant", content: text, ...callsOf(told.tool_calls) }, finish_reason: finish };
  const object = wishes.operation === "completion" ? "text_completion" : "chat.completion";
  return { ...common(wishes, nowMs), object, choices: [choice], ...(told.usage ? { usage: told.usage } : {}) };
}

/** The events of a stream: as they come where they are OpenAI's, else made of those that carry `response`. */
export async function* openAiEvents(pieces, wishes, nowMs) {
  const splitter = new Splitter();
  let made = null;
  let isTheirs = false;
  for await (const piece of pieces) {
    const raws = splitter.feed(piece);
    if (made === null && !isTheirs && raws.length > 0) {
      isTheirs = isOpenAi(raws);
      if (!isTheirs) made = new Made(wishes, nowMs);
    }
    const out = isTheirs ? raws : raws.flatMap((raw) => made.eventsOf(raw));
    if (out.length > 0) yield joined(out);
  }
  const rest = splitter.rest();
  if (isTheirs && rest.length > 0) yield rest;
}

class Made {
  #wishes;
  #common;
  #usage = null;
  #hasBegun = false;

  constructor(wishes, nowMs) {
    const object = wishes.operation === "completion" ? "text_completion" : "chat.completion.chunk";
    this.#wishes = wishes;
    this.#common = { ...common(wishes, nowMs), object };
  }

  eventsOf(raw) {
    const { data } = eventOf(raw);
    if (data === null) return [];
    if (data === DONE) return this.#end();
    const told = objectOf(data);
    if (told.usage) this.#usage = told.usage;
    if (typeof told.response !== "string" || told.response === "") return [];
    return [this.#piece(told.response)];
  }

  #piece(text) {
    const opening = this.#hasBegun ? {} : { role: "assistant" };
    this.#hasBegun = true;
    const told = this.#wishes.operation === "completion" ? { text } : { delta: { ...opening, content: text } };
    return this.#event({ choices: [{ index: 0, ...told, finish_reason: null }] });
  }

  #end() {
    const told = this.#wishes.operation === "completion" ? { text: "" } : { delta: {} };
    const finish = finishOf(this.#usage, this.#wishes);
    const events = [this.#event({ choices: [{ index: 0, ...told, finish_reason: finish }] })];
    if (this.#usage !== null && this.#wishes.usage) events.push(this.#event({ choices: [], usage: this.#usage }));
    return [...events, utf8(`data: ${DONE}\n\n`)];
  }

  #event(members) {
    return utf8(`data: ${JSON.stringify({ ...this.#common, ...members })}\n\n`);
  }
}

function isOpenAi(raws) {
  const first = raws.map((raw) => eventOf(raw).data).find((data) => data !== null && data !== DONE);
  return first !== undefined && Array.isArray(objectOf(first).choices);
}

function objectOf(data) {
  try {
    const value = JSON.parse(data);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function common(wishes, nowMs) {
  const prefix = wishes.operation === "completion" ? "cmpl" : "chatcmpl";
  const id = `${prefix}-${hex(crypto.getRandomValues(new Uint8Array(12)))}`;
  return { id, object: "", created: Math.floor(nowMs / 1000), model: wishes.model };
}

function callsOf(calls) {
  if (!Array.isArray(calls) || calls.length === 0) return {};
  const told = calls.map((call, i) => ({
    id: call.id ?? `call_${i}`,
    type: "function",
    function: { name: call.name ?? call.function?.name, arguments: argumentsOf(call) },
  }));
  return { tool_calls: told };
}

function argumentsOf(call) {
  const given = call.arguments ?? call.function?.arguments ?? {};
  return typeof given === "string" ? given : JSON.stringify(given);
}

/** It isn't told why a native model ended, but how many tokens it gave. */
function finishOf(usage, wishes, calls = null) {
  if (Array.isArray(calls) && calls.length > 0) return "tool_calls";
  return (usage?.completion_tokens ?? 0) >= wishes.limit ? "length" : "stop";
}
