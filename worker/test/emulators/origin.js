/**
 * An OpenAI-compatible upstream that does what a test tells it, over raw sockets, so that it can break HTTP's rules.
 *
 * `replies` are given one after the other, the last again and again; without any, each chat is answered by a text that
 * repeats the caller's last message and counts the calls.  A reply has `status`, `headers`, and a body: `json`, `text`,
 * `events` (data of server-sent events) or `chat` (the text of a good answer, in the shape asked for).  Faults:
 * `cut_after` so many pieces, `unframed` (no length, the end of the connection), `announced` (a length that isn't so),
 * `refused` (closed before an answer), `waits` (for `release`, before the pieces of these numbers).  `chosen` may pick
 * a reply by the call; one with `wire` writes to the socket itself, as those of faults.js do.
 */

import { createServer } from "node:net";
import { once } from "node:events";

const EVENTS = "text/event-stream";

export class Origin {
  calls = [];
  replies = [];
  chosen = () => null;
  /** What `GET /models` tells: the list of models, a whole answer, or null for an error.  Not among the calls. */
  models = [];
  #server;
  #sockets = new Set();
  #waiting = [];
  #watchers = new Set();

  static async start() {
    const origin = new Origin();
    origin.#server = createServer((socket) => origin.#serve(socket));
    origin.#server.listen(0, "127.0.0.1");
    await once(origin.#server, "listening");
    return origin;
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}/v1`;
  }

  /** Returns once it was called so often. */
  called(times) {
    return this.#until(() => this.calls.length >= times);
  }

  /** Returns once the caller of a call has closed its connection. */
  left(number) {
    return this.#until(() => this.calls[number - 1]?.isLeft);
  }

  release() {
    for (const go of this.#waiting.splice(0)) go();
  }

  reset(replies = []) {
    this.calls = [];
    this.replies = replies;
  }

  /** Ends every connection: what was left on one is nobody's next answer. */
  hangUp() {
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop() {
    this.hangUp();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #until(isSo) {
    while (!isSo()) await new Promise((news) => this.#watchers.add(news));
  }

  #tell() {
    for (const news of this.#watchers) news();
    this.#watchers.clear();
  }

  #serve(socket) {
    this.#sockets.add(socket);
    let held = Buffer.alloc(0);
    let running = null;
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#sockets.delete(socket);
      if (running !== null) running.isLeft = true;
      this.#tell();
    });
    socket.on("data", async (data) => {
      held = Buffer.concat([held, data]);
      const call = callIn(held);
      if (call === null) return;
      held = Buffer.alloc(0);
      if (call.method === "GET" && call.target.endsWith("/models")) {
        this.#tellModels(socket);
        return;
      }
      running = call;
      this.calls.push(call);
      this.#tell();
      await this.#reply(socket, call, this.calls.length);
      running = null;
    });
  }

  #tellModels(socket) {
    const list = Array.isArray(this.models) ? { object: "list", data: this.models } : this.models;
    const body = typeof list === "string" ? list : JSON.stringify(list);
    const status = this.models === null ? 503 : 200;
    const fields = `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}`;
    socket.write(`HTTP/1.1 ${status} X\r\n${fields}\r\n\r\n${body}`);
  }

  async #reply(socket, call, number) {
    const reply = this.chosen(call) ?? this.replies[Math.min(number, this.replies.length) - 1] ?? {};
    if (reply.wire) {
      await reply.wire(socket, goodFor(call, number));
      return;
    }
    if (reply.refused) {
      socket.destroy();
      return;
    }
    const { kind, pieces } = bodyOf(reply, call, number);
    const bytes = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
    const isChunked = kind.startsWith("text/event-stream") && !reply.unframed;
    const fields = { "content-type": kind, ...reply.headers };
    if (isChunked) fields["transfer-encoding"] = "chunked";
    else if (reply.unframed) fields.connection = "close";
    else fields["content-length"] = String(reply.announced ?? bytes);
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`HTTP/1.1 ${reply.status ?? 200} X\r\n${lines.join("")}\r\n`);
    for (const [at, piece] of pieces.entries()) {
      if (reply.cut_after === at) break;
      if (reply.waits?.includes(at)) await new Promise((go) => this.#waiting.push(go));
      socket.write(isChunked ? `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n` : piece);
    }
    if (reply.cut_after !== undefined || reply.announced !== undefined) socket.end(() => socket.destroy());
    else if (reply.unframed) socket.end();
    else if (isChunked) socket.write("0\r\n\r\n");
  }
}

function callIn(held) {
  const at = held.indexOf("\r\n\r\n");
  if (at < 0) return null;
  const [first, ...lines] = held.subarray(0, at).toString("latin1").split("\r\n");
  const [method, target] = first.split(" ");
  const fields = lines.map((line) => [line.split(":", 1)[0].toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]);
  const headers = Object.fromEntries(fields);
  const rest = held.subarray(at + 4);
  const length = Number(headers["content-length"] ?? 0);
  if (rest.length < length) return null;
  return { method, target, headers, body: rest.subarray(0, length).toString(), isLeft: false };
}

/** What a good answer would be, whole and as events. */
function goodFor(call, number) {
  const asked = JSON.parse(call.body);
  const shaped = (stream) => bodyOf({}, { ...call, body: JSON.stringify({ ...asked, stream }) }, number).pieces;
  const question = asked.messages.at(-1).content;
  return { body: shaped(false).join(""), events: shaped(true), isStream: asked.stream === true, question };
}

function bodyOf(reply, call, number) {
  if (reply.json !== undefined) return { kind: "application/json", pieces: [JSON.stringify(reply.json)] };
  if (reply.text !== undefined) return { kind: "application/json", pieces: [reply.text] };
  if (reply.events !== undefined) return { kind: EVENTS, pieces: reply.events.map((data) => `data: ${data}\n\n`) };
  const asked = call.body === "" ? {} : JSON.parse(call.body);
  const said = asked.messages?.at(-1).content ?? asked.prompt;
  const text = reply.chat ?? `You said '${said}'. This is call ${number}.`;
  const isChat = call.target.split("?", 1)[0].endsWith("/chat/completions");
  const common = { id: "fake", created: 1_700_000_000, model: asked.model };
  const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };
  if (!asked.stream) {
    const said = isChat ? { message: { role: "assistant", content: text } } : { text };
    const object = isChat ? "chat.completion" : "text_completion";
    const choices = [{ index: 0, ...said, finish_reason: "stop" }];
    return { kind: "application/json", pieces: [JSON.stringify({ ...common, object, choices, usage })] };
  }
  const object = isChat ? "chat.completion.chunk" : "text_completion";
  const piece = (word) => (isChat ? { delta: { content: word } } : { text: word });
  const choices = text.split(/(?<= )/).map((word) => ({ index: 0, ...piece(word), finish_reason: null }));
  choices.push({ index: 0, ...(isChat ? { delta: {} } : { text: "" }), finish_reason: "stop" });
  const events = choices.map((choice) => ({ ...common, object, choices: [choice] }));
  if (asked.stream_options?.include_usage) events.push({ ...common, object, choices: [], usage });
  return { kind: EVENTS, pieces: [...events.map((e) => `data: ${JSON.stringify(e)}\n\n`), "data: [DONE]\n\n"] };
}
