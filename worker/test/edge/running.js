/** An edge in real workerd, with a client for it. */

import { request as httpRequest } from "node:http";
import { fileURLToPath } from "node:url";

import { Miniflare } from "miniflare";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const LONGEST_WAIT_MS = 20_000;
// What an upstream's field may take goes on to the caller.
const MOST_HEAD_BYTES = 128 * 1024;
const COMPATIBILITY_DATE = "2026-04-01";

/** A workerd that runs `entry` of this folder's tree, until `stop`. */
export async function running(entry, options = {}) {
  const miniflare = new Miniflare({
    rootPath: ROOT,
    modulesRoot: ROOT,
    scriptPath: `${ROOT}${entry}`,
    modules: true,
    modulesRules: [{ type: "ESModule", include: ["**/*.js"] }],
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: ["enable_request_signal"],
    host: "127.0.0.1",
    port: 0,
    cf: false,
    r2Buckets: ["PREDICTION_BODIES"],
    ...options,
  });
  try {
    return new Running(miniflare, await miniflare.ready);
  } catch (error) {
    // Else the tests' own process would wait for it for ever.
    await miniflare.dispose().catch(() => {});
    throw error;
  }
}

class Running {
  constructor(miniflare, url) {
    this.miniflare = miniflare;
    this.url = url;
  }

  /** A request's whole answer; `path` goes out as it is. */
  async send(method, path, { body = null, headers = {} } = {}) {
    const answer = await this.open(method, path, { body, headers });
    return { ...answer, ...(await answer.whole()) };
  }

  /** An answer whose head is here: `next()` gives a piece or null at the end, `leave()` hangs up. */
  open(method, path, { body = null, headers = {} } = {}) {
    const sent = this.begin(method, path, { body, headers });
    return new Promise((resolve, reject) => {
      sent.on("error", reject);
      sent.on("response", (response) => resolve(opened(sent, response)));
    });
  }

  /** A request that is on its way, for who hangs up before an answer. */
  begin(method, path, { body = null, headers = {} } = {}) {
    const { hostname, port } = this.url;
    const fields = { "content-type": "application/json", ...headers };
    const how = { method, path, headers: fields, agent: false, maxHeaderSize: MOST_HEAD_BYTES };
    const sent = httpRequest({ hostname, port, ...how });
    sent.end(body === null ? undefined : body);
    return sent;
  }

  post(path, value, headers = {}) {
    return this.send("POST", path, { body: JSON.stringify(value), headers });
  }

  chat(text, { headers = {}, ...members } = {}) {
    return this.post("/v1/chat/completions", chatBody(text, members), headers);
  }

  /** A word to the world under test. */
  async tell(command, asked = {}) {
    const { status, body } = await this.post(`/-test/${command}`, asked);
    const told = JSON.parse(body);
    if (status !== 200) throw new Error(`${command}: ${told.error}`);
    return told;
  }

  async stats(edge = "here") {
    const headers = { authorization: "Bearer admin", "x-test-edge": edge };
    return JSON.parse((await this.send("GET", "/-/stats", { headers })).body);
  }

  stop() {
    return this.miniflare.dispose();
  }
}

export function chatBody(text, members = {}) {
  return { model: "m", messages: [{ role: "user", content: text }], ...members };
}

function opened(sent, response) {
  const pieces = response[Symbol.asyncIterator]();
  const status = response.statusCode;
  const { headers } = response;
  const ours = (headers["cache-status"] ?? "").split(/, (?=[A-Z])/).at(-1);
  return {
    status,
    headers,
    cacheStatus: ours,
    isHit: ours.includes("; hit"),
    async next() {
      const { done, value } = await pieces.next();
      return done ? null : value;
    },
    /** The body, and whether the connection broke off before its end. */
    async whole() {
      const all = [];
      try {
        for (let piece = await this.next(); piece !== null; piece = await this.next()) all.push(piece);
      } catch {
        return { bytes: Buffer.concat(all), body: Buffer.concat(all).toString(), isCut: true };
      }
      return { bytes: Buffer.concat(all), body: Buffer.concat(all).toString(), isCut: false };
    },
    leave() {
      sent.destroy();
    },
  };
}

/** Waits for what becomes so without telling. */
export async function until(isSo) {
  const endMs = performance.now() + LONGEST_WAIT_MS;
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error("what was waited for did not happen");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** What a chat answer says, whole or streamed. */
export function textOf({ headers, body }) {
  if (!headers["content-type"].startsWith("text/event-stream")) return JSON.parse(body).choices[0].message.content;
  const told = body.split("\n").filter((line) => line.startsWith("data: {")).map((line) => JSON.parse(line.slice(6)));
  return told.flatMap(({ choices }) => choices).map(({ delta }) => delta.content ?? "").join("");
}
