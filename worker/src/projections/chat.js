/** Chat completions: transcript to whole and back (rule P3). */

import * as fold from "./fold.js";
import { numeral } from "./verbatim.js";

const SPOKEN = ["reasoning_content", "reasoning", "content", "refusal"];
const IN_ONE_PIECE = ["tool_calls", "function_call"];

/** The chat completion that a transcript tells; throws NotAnAnswer. */
export function wholeOf(events) {
  const [members, pieces] = fold.foldMembers(fold.chunksOf(events));
  const choices = Array.from(fold.byIndex(pieces), ([index, parts]) => choiceOf(index, parts));
  return fold.inUsualOrder(new Map([...members, ["object", "chat.completion"], ["choices", choices]]));
}

/** The transcript of a chat completion that came whole; throws NotAnAnswer. */
export function transcriptOf(whole, { usage }) {
  const choices = fold.objects(whole.get("choices"), "choices");
  const parts = choices.flatMap((choice, at) => [
    ...partsOf(choice, choice.has("index") ? choice.get("index") : numeral(at)),
  ]);
  return fold.transcript(whole, parts, { kind: "chat.completion.chunk", usage });
}

function choiceOf(index, parts) {
  const choice = new Map([
    ["index", numeral(index)],
    ["message", new Map([["role", null], ["content", null]])],
  ]);
  for (const part of parts) {
    const delta = part.has("delta") ? part.get("delta") : new Map();
    if (!(delta instanceof Map)) throw new fold.NotAnAnswer("a delta is not an object");
    fold.merge(choice.get("message"), delta);
    fold.mergeBeside(choice, fold.without(part, ["delta", "index"]));
    if (!(choice.get("message") instanceof Map)) throw new fold.NotAnAnswer("a message is not an object");
  }
  const message = choice.get("message");
  if (message.get("role") === null || message.get("role") === "") message.set("role", "assistant");
  const calls = message.get("tool_calls");
  if (Array.isArray(calls)) message.set("tool_calls", fold.withoutPositions(calls));
  if (!choice.has("finish_reason")) choice.set("finish_reason", null);
  return choice;
}

/** Role first, then texts piece by piece, each call in one piece, then the finish with all the rest. */
function* partsOf(choice, index) {
  const message = choice.get("message");
  if (!(message instanceof Map)) throw new fold.NotAnAnswer("a message is not an object");
  const silent = choice.has("logprobs") ? [["logprobs", null]] : [];

  function part(delta) {
    return new Map([["index", index], ["delta", delta], ...silent, ["finish_reason", null]]);
  }

  const spoken = SPOKEN.filter((name) => typeof message.get(name) === "string");
  const atOnce = fold.without(message, IN_ONE_PIECE);
  yield part(new Map(Array.from(atOnce, ([name, value]) => [name, spoken.includes(name) ? "" : value])));
  for (const name of spoken) {
    for (const piece of fold.pieces(message.get(name))) yield part(new Map([[name, piece]]));
  }
  for (const [position, call] of fold.objects(message.get("tool_calls") ?? [], "tool_calls").entries()) {
    yield part(new Map([["tool_calls", [new Map([["index", numeral(position)], ...call])]]]));
  }
  if ((message.get("function_call") ?? null) !== null) {
    yield part(new Map([["function_call", message.get("function_call")]]));
  }
  yield new Map([["index", index], ["delta", new Map()], ...fold.without(choice, ["index", "message"])]);
}
