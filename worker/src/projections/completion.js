/** Text completions: transcript to whole and back (rule P3). */

import * as fold from "./fold.js";
import { numeral } from "./verbatim.js";

/** The text completion that a transcript tells; throws NotAnAnswer. */
export function wholeOf(events) {
  const [members, pieces] = fold.foldMembers(fold.chunksOf(events));
  const choices = Array.from(fold.byIndex(pieces), ([index, parts]) => choiceOf(index, parts));
  return fold.inUsualOrder(new Map([...members, ["object", "text_completion"], ["choices", choices]]));
}

/** The transcript of a text completion that came whole; throws NotAnAnswer. */
export function transcriptOf(whole, { usage }) {
  const choices = fold.objects(whole.get("choices"), "choices");
  const parts = choices.flatMap((choice, at) => [
    ...partsOf(choice, choice.has("index") ? choice.get("index") : numeral(at)),
  ]);
  return fold.transcript(whole, parts, { kind: "text_completion", usage });
}

function choiceOf(index, parts) {
  const choice = new Map([["text", ""]]);
  for (const part of parts) {
    fold.merge(choice, new Map([["text", part.get("text") ?? null]]));
    fold.mergeBeside(choice, fold.without(part, ["text", "index"]));
  }
  if (!choice.has("finish_reason")) choice.set("finish_reason", null);
  return new Map([["index", numeral(index)], ...choice]);
}

function* partsOf(choice, index) {
  const text = choice.get("text");
  if (typeof text !== "string") throw new fold.NotAnAnswer("a choice's text is not a text");
  const silent = choice.has("logprobs") ? [["logprobs", null]] : [];
  for (const piece of fold.pieces(text)) {
    yield new Map([["index", index], ["text", piece], ...silent, ["finish_reason", null]]);
  }
  yield new Map([...choice, ["index", index], ["text", ""]]);
}
