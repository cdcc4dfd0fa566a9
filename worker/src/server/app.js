/** The edge as a Worker's `fetch`: guards, then the node's way, then bytes; every query accounted once. */

import { utf8 } from "../contract/bytes.js";
import { EDGE, cacheStatus } from "../contract/status.js";
import { OpenAI } from "../dialects/openai.js";
import { ForetoldError, NotKept, Overloaded } from "../errors.js";
import { asUtf8 } from "../fields.js";
import { Memo } from "../memo.js";
import { ENDED, HOW, outcome as begun } from "../outcome.js";
import { cors, preflight } from "./cors.js";

const ERRORS_BEFORE_A_DIALECT = new OpenAI("", "");
// What no header field may hold; a record's may have come from anywhere.
const NEVER_IN_A_FIELD = /[^\t\x20-\x7e\x80-\xff]/g;

export class App {
  #node;
  #guard;
  #bodies;
  #admin;
  #models;
  #page;

  constructor({ node, guard, bodies, admin, models, page }) {
    this.#node = node;
    this.#guard = guard;
    this.#bodies = bodies;
    this.#admin = admin;
    this.#models = models;
    this.#page = page;
  }

  /** `later` takes promises that may go on after the answer. */
  async fetch(request, { later }) {
    let asked = null;
    let head;
    const forPages = cors(request.headers);
    try {
      asked = this.#guard.requestOf(request);
      if (asked.method === "OPTIONS" && request.headers.has("access-control-request-method")) {
        return response(204, preflight(request.headers), null);
      }
      if (asked.path.startsWith("/-/")) return response(...(await this.#admin.answer(asked, request, { later })));
      const page = await this.#page.answer(asked, request);
      if (page !== null) return page;
      const listed = asked.method === "GET" ? await this.#models.answer(asked) : null;
      if (listed !== null) {
        const headers = [["content-type", "application/json"], ["cache-control", "no-store"], ...forPages];
        return response(200, headers, utf8(JSON.stringify(listed)));
      }
      head = await this.#headOf(asked);
    } catch (error) {
      this.#node.counters.receive();
      const dialect = this.#guard.dialectOr(asked, ERRORS_BEFORE_A_DIALECT);
      return this.#tell(error, dialect, { forPages, outcome: begun(Date.now(), later) });
    }
    this.#node.counters.receive();
    return this.#query(request, head, { forPages, later });
  }

  async #headOf(asked) {
    const place = Memo.place(asked);
    let head = this.#node.headOf(place);
    if (head === undefined) {
      head = await this.#guard.headOf(asked);
      this.#node.keepHead(place, head);
    }
    await this.#guard.checkRate(head);
    return head;
  }

  async #query(request, head, { forPages, later }) {
    const outcome = begun(Date.now(), later);
    const leaving = new AbortController();
    const visit = { later, signal: leaving.signal };
    // Not every platform tells it, and none for sure: a stream that is cancelled tells it too.
    request.signal?.addEventListener("abort", () => leaving.abort(), { once: true });
    let body = null;
    try {
      body = await this.#bodies.read(request);
      const answer =
        this.#node.find(head, body, outcome) ?? (await this.#node.answer(head, body, { outcome, visit }));
      return this.#respond(answer, head, { forPages, leaving });
    } catch (error) {
      return this.#tell(error, head.dialect, { forPages, outcome });
    } finally {
      if (body !== null) this.#bodies.release(body);
    }
  }

  #respond(answer, head, { forPages, leaving }) {
    const { status, headers, outcome } = answer;
    const all = [...headers, ...forPages];
    if (answer.chunks === undefined) {
      outcome.ended = ENDED.WHOLE;
      outcome.bodyBytes = answer.body?.length ?? 0;
      answer.close?.();
      this.#node.account(outcome);
      return response(status, all, head.method === "HEAD" ? null : answer.body);
    }
    if (hasNoBody(status, head.method)) return response(status, all, this.#emptied(answer));
    return response(status, all, withLength(this.#streamed(answer, leaving), answer.length));
  }

  #emptied(answer) {
    answer.close();
    answer.outcome.ended = ENDED.WHOLE;
    this.#node.account(answer.outcome);
    return null;
  }

  /** The chunks as the caller takes them; one who leaves stops what is done for nobody else. */
  #streamed({ chunks, close, outcome, whenGone }, leaving) {
    let isAccounted = false;
    const end = (ended) => {
      if (isAccounted) return;
      isAccounted = true;
      if (outcome.ended !== ENDED.CUT) outcome.ended = ended;
      close();
      this.#node.account(outcome);
    };
    leaving.signal.addEventListener("abort", () => end(ENDED.GONE), { once: true });
    whenGone?.(() => end(ENDED.GONE));
    return new ReadableStream(
      {
        async pull(controller) {
          try {
            const { done, value } = await chunks.next();
            if (!done) {
              outcome.bodyBytes += value.length;
              controller.enqueue(value);
              return;
            }
            end(ENDED.WHOLE);
            controller.close();
          } catch (error) {
            // Half an answer went out: an end without the last chunk is how HTTP says that it is not whole.
            end(ENDED.CUT);
            controller.error(error);
          }
        },
        cancel() {
          leaving.abort();
        },
      },
      { highWaterMark: 0 },
    );
  }

  /** An error in the caller's own dialect. */
  #tell(given, dialect, { forPages, outcome }) {
    const error = given instanceof ForetoldError ? given : fault(given);
    let status;
    if (error instanceof NotKept) {
      status = cacheStatus({ cache: EDGE, forwarded: "request", detail: "only-if-cached" });
    } else {
      outcome.how = HOW.ERROR;
      outcome.detail = outcome.isEcho ? "backoff" : error.code;
      status = cacheStatus({ cache: EDGE, detail: outcome.detail });
    }
    const [kind, body] = dialect.tell(error);
    const headers = [["content-type", kind], ["cache-status", status], ["cache-control", "no-store"]];
    if (error.status === 401) headers.push(["www-authenticate", "Bearer"]);
    if (error instanceof Overloaded || outcome.isEcho) headers.push(["retry-after", "1"]);
    // The platform's windows are of 10 or 60 s.
    if (error.status === 429) headers.push(["retry-after", "10"]);
    if (error instanceof NotKept) headers.push(["x-should-retry", "false"]); // OpenAI's clients ask a 504 again
    Object.assign(outcome, { status: error.status, ended: ENDED.ERROR, bodyBytes: body.length });
    this.#node.account(outcome);
    return response(error.status, [...headers, ...forPages], body);
  }
}

function response(status, fields, body) {
  const headers = new Headers();
  for (const [name, value] of fields) headers.append(name, asUtf8(value.replace(NEVER_IN_A_FIELD, "?")));
  const isCoded = headers.has("content-encoding");
  return new Response(body, { status, headers, ...(isCoded ? { encodeBody: "manual" } : {}) });
}

/**
 * A stream that says beforehand how long it is, where that is known.
 *
 * workerd ends a chunked answer that breaks off as if it were whole; one that said its length is seen to be cut.
 */
function withLength(stream, length) {
  return length === null ? stream : stream.pipeThrough(new FixedLengthStream(length));
}

function hasNoBody(status, method) {
  return method === "HEAD" || status === 204 || status === 304;
}

function fault(error) {
  console.error("a request failed", error);
  return new ForetoldError("the request could not be answered because of a fault in Foretold");
}
