/**
 * Workers AI's binding, by the name of the model asked:
 *
 * `native` answers `{"response": …}` and native events, `openai` OpenAI's shapes; `busy` fails with 3040, `used-up`
 * with 3036, `unknown` with 5007, `too-long` with 3006, `timed-out` with 3007, `licence` with 5016; `mute` never answers;
 * `slow` waits for a test before its first token, `stalls` after its first; `cut` breaks off in mid-stream; `whole`
 * answers JSON although a stream was asked for; `vectors` gives numbers for any input; `calls` calls a tool.
 *
 * Unlike production: texts say what was asked and how many calls there were; a busy model is busy for all who ask, with
 * `rejectIfBusy` or not, and never queues; session affinity changes nothing; nothing is counted or charged.
 */

const FAILURES = new Map([
  ["busy", "3040: Capacity temporarily exceeded, please try again."],
  ["used-up", "3036: You have used up your daily free allocation of 10,000 neurons"],
  ["unknown", "5007: No such model"],
  ["too-long", "3006: Request is too large"],
  ["timed-out", "3007: Request timeout"],
  ["licence", "5016: Model agreement has not been accepted"],
]);

export class AiStub {
  calls = [];
  #release = [];

  async run(model, inputs, options = {}) {
    this.calls.push({ model, inputs, options });
    const kind = model.split("/").at(-1);
    if (FAILURES.has(kind)) throw upstreamError(FAILURES.get(kind));
    if (kind === "mute") await new Promise(() => {});
    if (kind === "calls") return { response: null, tool_calls: [{ name: "look", arguments: { at: 1 } }] };
    if (kind === "vectors") return { shape: [1, 3], data: [[0.25, 0.5, 1]] };
    const text = `You said '${inputs.messages?.at(-1).content ?? inputs.prompt}'. This is call ${this.calls.length}.`;
    const words = text.split(/(?<= )/);
    const isOpenAi = kind === "openai";
    if (!inputs.stream || kind === "whole") return isOpenAi ? openAiWhole(model, text) : nativeWhole(text, words);
    const events = isOpenAi ? openAiEvents(model, words) : nativeEvents(words);
    if (kind === "cut") return streamOf(events.slice(0, 3), { isCut: true });
    const waits = ["slow", "stalls"].indexOf(kind);
    return streamOf(events, { waits, gate: new Promise((go) => this.#release.push(go)) });
  }

  /** Lets the streams of `slow` and `stalls` go on. */
  release() {
    for (const go of this.#release.splice(0)) go();
  }
}

function upstreamError(message) {
  return Object.assign(new Error(message), { name: "InferenceUpstreamError" });
}

function nativeWhole(text, words) {
  return { response: text, usage: usageOf(words) };
}

function openAiWhole(model, text) {
  const choices = [{ index: 0, message: { role: "assistant", content: text }, logprobs: null, finish_reason: "stop" }];
  return { id: "chatcmpl-stub", object: "chat.completion", created: 1_700_000_000, model, choices };
}

function nativeEvents(words) {
  const tokens = words.map((word) => ({ response: word, p: "abcdef" }));
  return [...tokens, { response: "", usage: usageOf(words) }].map(event).concat("data: [DONE]\n\n");
}

function openAiEvents(model, words) {
  const common = { id: "chatcmpl-stub", object: "chat.completion.chunk", created: 1_700_000_000, model };
  const chunk = (delta, finish_reason) => ({ ...common, choices: [{ index: 0, delta, finish_reason }] });
  const told = [chunk({ role: "assistant", content: "" }, null), ...words.map((content) => chunk({ content }, null))];
  return [...told, chunk({}, "stop")].map(event).concat("data: [DONE]\n\n");
}

function usageOf(words) {
  return { prompt_tokens: 7, completion_tokens: words.length, total_tokens: 7 + words.length };
}

function event(value) {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** `waits` is the number of the event before which it waits, below 0 for none. */
function streamOf(events, { isCut = false, waits = -1, gate = null } = {}) {
  const rest = events.map((text) => new TextEncoder().encode(text));
  return new ReadableStream({
    async pull(controller) {
      if (events.length - rest.length === waits) await gate;
      if (rest.length > 0) controller.enqueue(rest.shift());
      else if (isCut) controller.error(new Error("the stream broke off"));
      else controller.close();
    },
  });
}
