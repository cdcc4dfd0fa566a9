/**
 * An HTTP service as origin: OpenAI-compatible, a Foretold node, or any that answers JSON.
 *
 * Redirects are never followed, cookies never kept.  The platform undoes gzip and Brotli itself; a body in another
 * coding goes through as it is and is never kept.
 */

import { within } from "../deadlines.js";
import { OriginCut, OriginError, OriginTimeout, OriginUnreachable, Refused } from "../errors.js";
import { asUtf8, byName, fieldsOf } from "../fields.js";

const NOT_OURS_TO_PASS = new Set([
  "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
  "transfer-encoding", "upgrade", "content-length", "content-encoding", "server", "alt-svc",
  "strict-transport-security", "nel", "report-to",
]);
const UNDONE_BY_THE_PLATFORM = new Set(["gzip", "br"]);
// More than this of header fields is no answer, and few callers would read it.
const MOST_HEAD_BYTES = 64 * 1024;
const NEVER_IN_AN_ADDRESS = /[\x00-\x20\x7f]/;

export class Upstream {
  limitsAnswers = false;
  #key;
  #headers;
  #timeouts;

  /**
   * `url` is the base under which paths are asked; `key` goes as a bearer token where the route passes none.
   *
   * `timeouts` are seconds: to the answer's head, between two pieces of it, and altogether.
   */
  constructor(name, url, { key = null, headers = [], timeouts }) {
    this.name = name;
    this.url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#headers = headers;
    this.#timeouts = timeouts;
  }

  async fetch(asked, forwarded, { signal }) {
    const stop = new AbortController();
    signal.addEventListener("abort", () => stop.abort(), { once: true });
    const { firstByteS, idleS, totalS } = this.#timeouts;
    const endMs = Date.now() + totalS * 1000;
    let response;
    try {
      const asking = fetch(this.#address(asked), {
        method: asked.method === "QUERY" ? "POST" : asked.method,
        headers: this.#requestHeaders(asked, forwarded),
        body: asked.body.length > 0 ? asked.body : undefined,
        redirect: "manual",
        signal: stop.signal,
      });
      response = await within(asking, firstByteS * 1000, () => this.#late(firstByteS));
    } catch (error) {
      stop.abort();
      if (error instanceof OriginTimeout) throw error;
      throw this.#failed(error);
    }
    const wrong = this.#wrongHead(response);
    if (wrong !== null) {
      stop.abort();
      throw wrong;
    }
    return new UpstreamAnswer(this.name, response, { stop, idleS, endMs });
  }

  /** What a head says that is none of an answer, or null. */
  #wrongHead({ status, headers }) {
    // A word about another message: on another connection there may be an answer.
    if (status < 200 || status > 599) return new OriginCut(`upstream '${this.name}' answered with status ${status}`);
    const bytes = fieldsOf(headers).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    if (bytes <= MOST_HEAD_BYTES) return null;
    return new OriginError(`upstream '${this.name}' sent ${bytes} bytes of header fields: at most ${MOST_HEAD_BYTES}`);
  }

  #late(firstByteS) {
    return new OriginTimeout(`upstream '${this.name}' gave no answer within ${firstByteS} s`);
  }

  /** The platform says only in words whether anything was sent. */
  #failed(error) {
    if (/connection lost|disconnected|reset|closed/i.test(error.message)) {
      return new OriginCut(`upstream '${this.name}' closed the connection before answering`);
    }
    return new OriginUnreachable(`upstream '${this.name}' can't be reached`);
  }

  /** Path and query string go out as they came: the key is of these, not of another spelling. */
  #address(asked) {
    const path =
      this.url.endsWith("/v1") && (asked.path === "/v1" || asked.path.startsWith("/v1/"))
        ? asked.path.slice("/v1".length)
        : asked.path;
    const address = `${this.url}${path}${asked.query === "" ? "" : `?${asked.query}`}`;
    if (NEVER_IN_AN_ADDRESS.test(address)) {
      throw new Refused("the path or the query string has a space or a control character", { code: "bad_path" });
    }
    return address;
  }

  #requestHeaders(asked, { headers, credential, mayUseOwn, revision = null }) {
    const fixed = new Set(this.#headers.map(([name]) => name.toLowerCase()));
    const sent = [...headers, ["accept-encoding", "identity"]];
    if (asked.body.length > 0 && !headers.some(([name]) => name === "content-type")) {
      sent.push(["content-type", "application/json"]);
    }
    if (revision !== null) sent.push(["foretold-revision", revision]);
    if (credential) sent.push(credential);
    else if (this.#key !== null && mayUseOwn) sent.push(["authorization", `Bearer ${this.#key}`]);
    return [...sent.filter(([name]) => !fixed.has(name)).map(([n, v]) => [n, asUtf8(v)]), ...this.#headers];
  }
}

/** An answer whose head is here. */
class UpstreamAnswer {
  isFallback = false;
  whyNot = null;
  #upstream;
  #response;
  #stop;
  #idleS;
  #endMs;
  #ended = false;
  #cameBytes = 0;

  constructor(upstream, response, { stop, idleS, endMs }) {
    const fields = fieldsOf(response.headers);
    const told = byName(fields);
    const coding = (told.get("content-encoding") ?? "").toLowerCase();
    const isPlain = coding === "" || coding === "identity";
    const dropped = (told.get("connection") ?? "").split(",").map((part) => part.trim().toLowerCase());
    this.status = response.status;
    this.headers = fields.filter(([name]) => !NOT_OURS_TO_PASS.has(name) && !dropped.includes(name));
    if (!isPlain && !UNDONE_BY_THE_PLATFORM.has(coding)) {
      this.headers.push(["content-encoding", coding]);
      this.whyNot = "coded";
    }
    const length = Number(told.get("content-length") ?? Number.NaN);
    this.length = isPlain && Number.isSafeInteger(length) ? length : null;
    this.#upstream = upstream;
    this.#response = response;
    this.#stop = stop;
    this.#idleS = idleS;
    this.#endMs = endMs;
  }

  /** After the last chunk: whether as many bytes came as were announced.  False where none were: the body must tell. */
  get isProven() {
    return this.#ended && this.length === this.#cameBytes;
  }

  async *chunks() {
    if (this.#response.body === null) {
      this.#ended = true;
      return;
    }
    const reader = this.#response.body.getReader();
    for (;;) {
      const { done, value } = await this.#next(reader);
      if (done) break;
      this.#cameBytes += value.length;
      yield value;
    }
    if (this.length !== null && this.#cameBytes !== this.length) throw this.#brokeOff();
    this.#ended = true;
  }

  async #next(reader) {
    const waitMs = Math.min(this.#idleS * 1000, this.#endMs - Date.now());
    // What is always there at once would be read for ever.
    if (waitMs <= 0) throw this.#stalled();
    try {
      return await within(reader.read(), waitMs, () => this.#stalled());
    } catch (error) {
      throw error instanceof OriginTimeout ? error : this.#brokeOff();
    }
  }

  #stalled() {
    return new OriginTimeout(`upstream '${this.#upstream}' stalled in mid-answer, or did not end in its time`);
  }

  #brokeOff() {
    return new OriginCut(`upstream '${this.#upstream}' broke off in mid-answer`);
  }

  /** Stops the upstream's work if it still runs; harmless when called twice. */
  close() {
    if (!this.#ended) this.#stop.abort();
  }
}
