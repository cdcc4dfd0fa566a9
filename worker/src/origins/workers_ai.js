/**
 * Workers AI as origin, by its binding.
 *
 * Models that speak OpenAI's chunks go through byte for byte; of the older ones, whose chunks carry `response`,
 * OpenAI's shapes are made here, as of any local model (rule R3).  Without a limit in the request a model ends at one
 * of its own.
 */

import { digest, textOf, utf8 } from "../contract/bytes.js";
import { isObject } from "../contract/canonical.js";
import { within } from "../deadlines.js";
import { Malformed, OriginCut, OriginError, OriginTimeout, OriginUnready } from "../errors.js";
import { nextMidnightMs } from "../stores/kv.js";
import { openAiEvents, openAiWhole, wishesOf } from "./native.js";
import { TextPredictions } from "./predict.js";
import { WholeAnswer } from "./whole.js";

const CODE = /\b([0-9]{4})\b/;
const AFFINITY_CHARACTERS = 1024;

export class WorkersAi {
  limitsAnswers = true;
  #ai;
  #nowMs;
  #timeouts;
  #closedUntilMs = 0;

  /** `timeouts` are seconds: to an answer's first piece, between two pieces of it, and altogether. */
  constructor(name, ai, { nowMs, timeouts }) {
    this.name = name;
    this.#ai = ai;
    this.#nowMs = nowMs;
    this.#timeouts = timeouts;
  }

  async fetch(asked, _forwarded, { signal }) {
    if (this.#closedUntilMs > this.#nowMs()) throw this.#usedUp();
    const { model: _, ...inputs } = JSON.parse(textOf(asked.body));
    const beganMs = Date.now();
    const options = { rejectIfBusy: true, extraHeaders: { "x-session-affinity": await affinityOf(inputs) } };
    let told;
    try {
      const asking = this.#ai.run(asked.model, inputs, options);
      told = await within(asking, this.#timeouts.firstByteS * 1000, () => this.#late());
    } catch (error) {
      if (error instanceof OriginTimeout) throw error;
      return this.#failed(error);
    }
    if (told instanceof ReadableStream) {
      const times = { nowMs: this.#nowMs(), beganMs, ...this.#timeouts };
      return new AiStream(this.name, told, asked, { times, signal });
    }
    const isText = asked.operation !== "predict";
    const answer = isText && isObject(told) ? openAiWhole(told, wishesOf(asked), this.#nowMs()) : told;
    return json(200, answer);
  }

  /** The two 429s want opposite things: one another target now, the other none of this account before midnight. */
  #failed(error) {
    const code = Number(CODE.exec(error.message)?.[1] ?? 0);
    switch (code) {
      case 3036:
        this.#closedUntilMs = nextMidnightMs(this.#nowMs());
        throw this.#usedUp();
      case 3040:
        return refusal(429, "out_of_capacity", "Workers AI has no room for this model now");
      case 3007:
        throw new OriginTimeout(`'${this.name}' gave no answer in its time`);
      case 3006:
        return refusal(413, "too_large", "the request is too large for this model");
      case 5007:
        return refusal(404, "model_not_found", "Workers AI has no such model");
      case 5016:
        return refusal(403, "licence_not_accepted", "the model's licence is not accepted in this account");
      default:
        throw new OriginError(`'${this.name}' failed${code === 0 ? "" : ` with ${code}`}`);
    }
  }

  #late() {
    return new OriginTimeout(`'${this.name}' gave no answer within ${this.#timeouts.firstByteS} s`);
  }

  #usedUp() {
    const until = new Date(this.#closedUntilMs).toISOString();
    return new OriginUnready(`today's free use of '${this.name}' is used up: it answers again from ${until}`);
  }
}

/** Text models are asked `{"prompt": …}` as a chat; every other body, and its answer, goes through as it is. */
export class AiPredictions {
  #ai;
  #texts;

  constructor(ai) {
    this.name = ai.name;
    this.limitsAnswers = ai.limitsAnswers;
    this.#ai = ai;
    this.#texts = new TextPredictions(ai);
  }

  fetch(asked, forwarded, { signal }) {
    if (asked.operation !== "predict") return this.#ai.fetch(asked, forwarded, { signal });
    const value = JSON.parse(textOf(asked.body));
    if (!isObject(value)) throw new Malformed("a model of Workers AI is asked by a JSON object");
    return (typeof value.prompt === "string" ? this.#texts : this.#ai).fetch(asked, forwarded, { signal });
  }
}

class AiStream {
  status = 200;
  headers = [["content-type", "text/event-stream"]];
  length = null;
  isFallback = false;
  isProven = false;
  whyNot = null;
  #name;
  #reader;
  #wishes;
  #times;

  /** `times` are seconds as those of WorkersAi, when it was asked, and what the clock said. */
  constructor(name, stream, asked, { times, signal }) {
    this.#name = name;
    this.#reader = stream.getReader();
    this.#wishes = wishesOf(asked);
    this.#times = times;
    signal.addEventListener("abort", () => this.close(), { once: true });
  }

  chunks() {
    return openAiEvents(this.#pieces(), this.#wishes, this.#times.nowMs);
  }

  async *#pieces() {
    const { beganMs, firstByteS, idleS, totalS } = this.#times;
    let untilMs = beganMs + firstByteS * 1000;
    for (;;) {
      const { done, value } = await this.#next(Math.min(untilMs, beganMs + totalS * 1000));
      if (done) return;
      yield value;
      untilMs = Date.now() + idleS * 1000;
    }
  }

  async #next(untilMs) {
    const late = () => new OriginTimeout(`'${this.#name}' stalled: no more of its answer came in its time`);
    if (untilMs <= Date.now()) throw late();
    try {
      return await within(this.#reader.read(), untilMs - Date.now(), late);
    } catch (error) {
      if (error instanceof OriginTimeout) throw error;
      throw new OriginCut(`'${this.#name}' broke off in mid-answer`);
    }
  }

  close() {
    this.#reader.cancel().catch(() => {});
  }
}

/** Requests that begin alike should reach the same instance, which has their beginning at hand. */
async function affinityOf(inputs) {
  const [first] = Array.isArray(inputs.messages) ? inputs.messages : [inputs.prompt ?? ""];
  return (await digest(utf8(JSON.stringify(first ?? "").slice(0, AFFINITY_CHARACTERS)))).slice(0, 32);
}

function refusal(status, code, message) {
  return json(status, { error: { message, type: "upstream_error", param: null, code } });
}

function json(status, value) {
  return new WholeAnswer(status, [["content-type", "application/json"]], utf8(JSON.stringify(value)));
}
