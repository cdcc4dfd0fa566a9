/** A text model as a prediction service: `{"prompt": …}` in, `{"output": …}` out (rule R3). */

import { textOf, utf8 } from "../contract/bytes.js";
import { DONE, endsCleanly, split } from "../contract/events.js";
import { hasLimit, whyNot } from "../contract/storable.js";
import { OriginCut, OriginError } from "../errors.js";
import { byName } from "../fields.js";
import { collected } from "../flight.js";
import { isEvents } from "../landing.js";
import { NotAnAnswer } from "../projections/fold.js";
import { answerOf, questionOf } from "../projections/predict.js";
import { WHOLE_OF } from "../projections/shapes.js";
import { objectIn, plain, written } from "../projections/verbatim.js";
import { WholeAnswer } from "./whole.js";

const LONGEST_SHOWN = 300;
const NOTHING_SAID = '{"output":""}';

/** An origin that also answers predictions, by asking its inner one for a chat; all else goes to that as it is. */
export class TextPredictions {
  #inner;

  constructor(inner) {
    this.name = inner.name;
    this.limitsAnswers = inner.limitsAnswers;
    this.#inner = inner;
  }

  async fetch(asked, forwarded, { signal }) {
    if (asked.operation !== "predict") return this.#inner.fetch(asked, forwarded, { signal });
    const question = questionOf(asked.body);
    const incoming = await this.#inner.fetch(asChat(asked, question), forwarded, { signal });
    if (incoming.status !== 200) return incoming;
    const body = await collectedFrom(incoming);
    const [told, isClean] = this.#wholeOf(incoming, body);
    const limited = asked.limited || hasLimit(plain(question)) || this.limitsAnswers;
    const answer = this.#answerOf(told);
    let why = whyNot("chat", 200, plain(told), { limited });
    // A refusal or a call is an answer to a chat, but a prediction has no place for it.
    if (textOf(answer) === NOTHING_SAID) why ??= "empty";
    const headers = [["content-type", "application/json"]];
    const vouched = byName(incoming.headers).get("cache-status");
    if (vouched !== undefined) headers.push(["cache-status", vouched]);
    return new WholeAnswer(200, headers, answer, { isProven: isClean, whyNot: why ?? incoming.whyNot });
  }

  #answerOf(told) {
    try {
      return answerOf(told);
    } catch (error) {
      if (error instanceof TypeError) throw this.#noChat();
      throw error;
    }
  }

  /**
   * The chat completion, and whether it came to a clean end.
   *
   * Throws OriginCut for half of one; OriginError, which is not asked again, for an error and for what is none.
   */
  #wholeOf(incoming, body) {
    let [isAll, isClean] = [true, true];
    let told;
    try {
      if (isEvents(byName(incoming.headers).get("content-type") ?? "")) {
        const [events, rest] = split(body);
        const end = events.findIndex((event) => event.data === DONE);
        isAll = end >= 0;
        isClean = endsCleanly(events, rest);
        told = WHOLE_OF.get("chat")(isAll ? events.slice(0, end) : events);
      } else {
        told = objectIn(body);
      }
    } catch (error) {
      if (!(error instanceof NotAnAnswer || error instanceof TypeError)) throw error;
      throw isAll ? this.#noChat() : this.#half();
    }
    if (told === null) throw this.#noChat();
    const error = told.get("error") ?? null;
    if (error !== null) throw new OriginError(`'${this.name}' answered with an error: ${said(error)}`);
    if (!isAll) throw this.#half();
    return [told, isClean];
  }

  #noChat() {
    return new OriginError(
      `a prediction was asked as a chat, and what '${this.name}' answered is no chat completion`,
    );
  }

  #half() {
    return new OriginCut(
      `the stream of '${this.name}' ended without its last event, [DONE]: not all of the answer came`,
    );
  }
}

function asChat(asked, question) {
  const body = utf8(written(new Map([["model", asked.model], ...question])));
  return { ...asked, operation: "chat", method: "POST", path: "/chat/completions", query: "", body, usage: true };
}

async function collectedFrom(incoming) {
  try {
    return await collected(incoming.chunks());
  } finally {
    incoming.close();
  }
}

/** What an origin's error says, in its words. */
function said(error) {
  const message = error instanceof Map ? error.get("message") : error;
  return typeof message === "string" && message !== "" ? message.slice(0, LONGEST_SHOWN) : "no message";
}
