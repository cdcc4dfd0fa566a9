/** `POST /predict/{model}` on a text model: one user message there, `{"output": text}` back (rule R3). */

import { utf8 } from "../contract/bytes.js";
import { Malformed } from "../contract/errors.js";
import { objectIn, written } from "./verbatim.js";

const OPTIONS = ["max_tokens", "temperature", "seed", "stop"];

/** The chat body that asks a text model the same; throws Malformed for anything but the five known members. */
export function questionOf(body) {
  const asked = objectIn(body);
  if (asked === null) throw new Malformed("the body is not a JSON object that a text model can be asked by");
  if (typeof asked.get("prompt") !== "string") {
    throw new Malformed('a text model is asked by {"prompt": "…"}: `prompt` must be a text', { param: "prompt" });
  }
  const known = ["prompt", ...OPTIONS];
  const [unknown] = [...asked.keys()].filter((name) => !known.includes(name)).sort();
  if (unknown !== undefined) {
    throw new Malformed(`a text model has no '${unknown}': known are ${known.join(", ")}`, { param: unknown });
  }
  const options = OPTIONS.filter((name) => (asked.get(name) ?? null) !== null).map((name) => [name, asked.get(name)]);
  const message = new Map([["role", "user"], ["content", asked.get("prompt")]]);
  return new Map([["messages", [message]], ...options]);
}

/** The text of a chat completion as a prediction. */
export function answerOf(chat) {
  const content = chat.get("choices")[0].get("message").get("content");
  return utf8(written(new Map([["output", content ?? ""]])));
}
